function mpc = star5
%STAR5  The paper's 5-bus star (section II-D): k = 4, 10, 16, 10 from buses 1 to 4 to bus 5, which is eliminated.
mpc.version = '2';
mpc.baseMVA = 100;

%% bus_i type Pd Qd Gs Bs area Vm Va baseKV zone Vmax Vmin
mpc.bus = [
  1 3 0 0 0 0 1 1 0 132 1 1.1 0.9;
  2 2 0 0 0 0 1 1 0 132 1 1.1 0.9;
  3 2 0 0 0 0 1 1 0 132 1 1.1 0.9;
  4 2 0 0 0 0 1 1 0 132 1 1.1 0.9;
  5 1 100 0 0 0 1 1 0 132 1 1.1 0.9;
];

%% bus Pg Qg Qmax Qmin Vg mBase status Pmax Pmin
mpc.gen = [
  1 25 0 100 -100 1 100 1 100 0;
  2 25 0 100 -100 1 100 1 100 0;
  3 25 0 100 -100 1 100 1 100 0;
  4 25 0 100 -100 1 100 1 100 0;
];

%% fbus tbus r x b rateA rateB rateC ratio angle status
mpc.branch = [
  1 5 0 0.25 0 0 0 0 0 0 1;
  2 5 0 0.1 0 0 0 0 0 0 1;
  3 5 0 0.0625 0 0 0 0 0 0 1;
  4 5 0 0.1 0 0 0 0 0 0 1;
];
