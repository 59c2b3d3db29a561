"""Detailed models against ANDES: the same eigenvalues and the same trajectories."""

# ruff: noqa: F811 - the fixture andes

import numpy as np
import pytest

from andes_helpers import andes  # noqa: F401 - a fixture
from detailed_helpers import case_of, dumped, small_case, typical_table, unmatched
from gridveil.dynamics.detailed.equilibrium import NoOperatingPoint, solve
from gridveil.dynamics.detailed.limits import ActiveLimit, active_limits
from gridveil.dynamics.detailed.linearise import Layout, linearise, rest
from gridveil.dynamics.detailed.numbers import numbers_of
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import eigenvalues, modes, simulate
from gridveil.foundation.errors import InputError

NONE = np.array([], dtype=int)
KUNDUR = "kundur/kundur_full.xlsx"
# two units of one bus share its Q from equal starts
EQUAL_Q = [("PV", "q0", 0.0)]
# ANDES leaves TR out of ESDC2A
WECC = [*EQUAL_Q, ("ESDC2A", "TR", 0.0)]
OFF = [("GENROU", 1), ("TGOV1", 1), ("EXDC2", 1)]
VIRTUAL = {"bus": 2, "gen": 2, "Sn": 900, "M": 10, "D": 20, "kw": 5, "kv": 0.001}
FORMING = {"bus": 2, "gen": 2, "Sn": 900, "Pmax": 9, "Pmin": -9, "Qmax": 9, "Qmin": -9, "rf": 0.01}
# options, whether ANDES has further eigenvalues. Left out: ESST3A, whose source ANDES's
# EIG takes for constant, and IEEEST with A1–A6 = 0, which it drops
CASES = {
    "kundur": ({"case": KUNDUR}, False),
    "kundur, constant power": ({"case": KUNDUR, "zip": [1, 0, 0]}, False),
    "kundur, constant current": ({"case": KUNDUR, "zip": [0, 1, 0]}, False),
    "kundur, EXST1": ({"case": "kundur/kundur_exst1.xlsx"}, False),
    "kundur, SEXS": ({"case": "kundur/kundur_sexs.xlsx"}, False),
    "kundur, IEEEST": ({"case": "kundur/kundur_ieeest.xlsx"}, True),
    "kundur, ST2CUT": ({"case": "kundur/kundur_st2cut.xlsx"}, True),
    "kundur, ESDC2A": (
        {"case": "kundur/kundur_esdc2a.xlsx", "change": [("ESDC2A", "TR", 0.0)]}, False
    ),
    "kundur, REGCV1": ({"case": KUNDUR, "off": OFF, "add": [("REGCV1", VIRTUAL)]}, True),
    "kundur, REGF1": ({"case": KUNDUR, "off": OFF, "add": [("REGF1", FORMING)]}, True),
    "ieee14": ({"case": "ieee14/ieee14_full.xlsx", "drop": ["ESST3A"]}, True),
    "ieee14, HYGOV": (
        {"case": "ieee14/ieee14_hygov.xlsx", "drop": ["ESST3A"]}, True
    ),
    "ieee14, GAST": (
        {"case": "ieee14/ieee14_gast.xlsx", "drop": ["ESST3A", "AC8B"]}, True
    ),
    "ieee14, IEESGO": (
        {"case": "ieee14/ieee14_ieesgo.xlsx", "drop": ["ESST3A"]}, True
    ),
    "ieee14, IEEET1": (
        {"case": "ieee14/ieee14_ieeet1.xlsx", "drop": ["ESST3A"]}, True
    ),
    "ieee14, REGCP1": (
        {"case": "ieee14/ieee14_regcp1.xlsx", "drop": ["ESST3A", "REECA1", "REPCA1"]}, True
    ),
    "ieee39": ({"case": "ieee39/ieee39_full.xlsx", "drop": ["IEEEST"]}, True),
    "npcc": ({"case": "npcc/npcc.xlsx", "change": EQUAL_Q}, False),
    "wecc, classical": (
        {"case": "wecc/wecc.raw", "addfile": "wecc/wecc_gencls.dyr", "change": EQUAL_Q}, False
    ),
    "wecc": (
        {"case": "wecc/wecc_full.xlsx", "change": WECC, "drop": ["ESST3A", "IEEEST"]},
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_eigenvalues_are_those_of_the_eig_of_andes(andes, name):
    options, more = CASES[name]
    data = dumped(andes, **options)
    case = case_of(data)
    equilibrium = solve(case)
    assert np.abs(equilibrium.voltage) == pytest.approx(np.array(data["v"]), abs=1e-10)
    model = linearise(case, equilibrium, NONE)
    theirs = np.array(data["mu"][0]) + 1j * np.array(data["mu"][1])
    assert unmatched(eigenvalues(model), theirs, more=more) <= 2e-8
    assert modes(model)


STEPPED = """
loads = system.PQ
step = json.loads({step!r})
system.TDS.config.tf, system.TDS.config.tstep, system.TDS.config.fixt = 5.0, 0.005, 1
system.TDS.config.criteria = 0
system.TDS.init()
place = [str(bus) for bus in loads.bus.v].index(step[0])
loads.Req.v[place] += step[1] * loads.v.v[place] ** -2
with contextlib.redirect_stdout(io.StringIO()):
    system.TDS.run()
result["t"] = listed(system.dae.ts.t)
result["omega"] = (system.dae.ts.x[:, system.GENROU.omega.a] - 1).tolist()
result["machines"] = list(map(str, system.GENROU.bus.v))
"""


@pytest.mark.parametrize(
    ("case", "bus", "why"),
    [
        ("ieee39/ieee39_full.xlsx", "16", "IEEEST with A1–A6 = 0"),
        ("kundur/kundur_esst3a.xlsx", "7", "ESST3A"),
    ],
)
def test_where_eigenvalues_of_andes_fail_its_trajectories_agree(andes, case, bus, why):
    # a lasting step of 0.02 p.u. at constant impedance, as all loads of the case
    after = (
        STEPPED.format(step=f'["{bus}", 0.02]')
        .replace("listed(", "np.asarray(")
        .replace("system.dae.ts.t)", "system.dae.ts.t).tolist()")
    )
    data = dumped(andes, case, after=after)
    detailed = case_of(data)
    place = detailed.buses.index(bus)
    model = linearise(detailed, solve(detailed), np.array([place]))
    trajectory = simulate(
        model, Event.load({bus: 0.02}), horizon_s=5.0, dt_s=0.005, buses=data["machines"]
    )
    time, theirs = np.array(data["t"]), np.array(data["omega"])
    theirs = np.stack([np.interp(trajectory.time_s, time, one) for one in theirs.T], axis=1)
    error = np.sqrt(np.mean((trajectory.omega - theirs) ** 2) / np.mean(theirs**2))
    assert error <= 0.01, why


def three_machines(**changed):
    return small_case(
        typical_table("GENROU", [0, 1, 2], M=8.0, D=1.0, **changed),
        typical_table("SEXS", [0, 1, 2], TE=0.1),
        typical_table("TGOV1", [0, 1]),
    )


def spectrum(case):
    return eigenvalues(linearise(case, solve(case), NONE))


def test_a_salient_machine_is_a_round_one_whose_second_damper_does_nothing():
    case = three_machines(xq1=1.7, S10=0.0)
    salient = small_case(
        typical_table("GENSAL", [0, 1, 2], M=8.0, D=1.0, S10=0.0), *case.devices[1:]
    )
    extra = np.full(3, -1 / 0.4)
    ours = np.concatenate([spectrum(salient), extra])
    assert unmatched(ours, spectrum(case)) < 1e-9


def test_a_two_axis_machine_is_a_round_one_without_subtransients():
    # x'' = x' leaves the fluxes of the further windings without effect
    case = three_machines(xd2=0.3, xq2=0.55, S10=0.0)
    simple = small_case(typical_table("TWOAXIS", [0, 1, 2], M=8.0, D=1.0), *case.devices[1:])
    extra = np.concatenate([np.full(3, -1 / 0.03), np.full(3, -1 / 0.05)])
    assert unmatched(np.concatenate([spectrum(simple), extra]), spectrum(case)) < 1e-9


def test_saturation_of_a_salient_machine_acts_on_its_field_alone():
    """At rest, e_f = v_q + r i_q + x_d i_d + B (e'_q − A)², with S(1) = 0.1 and S(1.2) = 0.4."""
    case = small_case(typical_table("GENSAL", [0, 1, 2], M=8.0, S10=0.1, S12=0.4))
    equilibrium = solve(case)
    V = equilibrium.voltage[:3]
    current = np.conj(equilibrium.power / V)
    q_axis = np.exp(1j * np.angle(V + (0.003 + 1.7j) * current))
    v, i = V / q_axis, current / q_axis  # q is real, d lags it
    e_q = v.real + 0.003 * i.real - 0.3 * i.imag
    # B (E − A)² through 1 · 0.1 and 1.2 · 0.4
    root = np.sqrt(0.1 / 0.48)
    A = (1.2 * root - 1) / (root - 1)
    B = 0.1 / (1 - A) ** 2
    assert (e_q > A).any()
    field = v.real + 0.003 * i.real - 1.8 * i.imag + np.where(e_q > A, B * (e_q - A) ** 2, 0)
    (settled,) = rest(Layout.of(case, NONE), numbers_of(case)).settled
    place = settled.names.index("exciter.vf")
    assert settled.z[:, place] == pytest.approx(field, abs=1e-9)


@pytest.mark.parametrize("none", [{"SE1": 0}, {"SE2": 0}, {"E1": 0, "E2": 0, "SE1": 0, "SE2": 0}])
def test_zeros_mean_an_exciter_without_saturation(none):
    plain, also = (
        small_case(
            typical_table("GENROU", [0, 1, 2], M=8.0, D=1.0),
            typical_table("ESDC1A", [0, 1, 2], **zeros),
        )
        for zeros in ({"E1": 5.0, "SE1": 1e-12, "E2": 6.0, "SE2": 1e-9}, none)
    )
    assert unmatched(spectrum(plain), spectrum(also)) < 1e-6


def test_a_droop_inverter_is_what_its_paper_says():
    """REGFM_A1 and a classical machine, against equations in complex numbers and differences."""
    case = small_case(
        typical_table("REGFM_A1", [0, 1], mp=0.02, mq=0.05, kiv=5.0, kpv=0.1),
        typical_table("GENCLS", [2], M=6.0, D=2.0),
        shares=((1.0, 1.0), (0.0, 0.0)),
    )
    equilibrium = solve(case)
    V0, S0 = equilibrium.voltage, equilibrium.power
    branches, w = case.branches, 2 * np.pi * 60
    Y = np.diag(case.shunt).astype(complex)
    for (f, t), z, b, a in zip(
        branches.ends, branches.series, branches.charging, branches.ratio, strict=True
    ):
        Y[f, f] += (1 / z + 0.5j * b) / abs(a) ** 2
        Y[t, t] += 1 / z + 0.5j * b
        Y[f, t] -= 1 / (z * np.conj(a))
        Y[t, f] -= 1 / (z * a)
    for bus, power in zip(case.loads.bus, case.loads.power, strict=True):
        Y[bus, bus] += np.conj(power) / abs(V0[bus]) ** 2
    I0 = np.conj(S0 / V0[:3])
    x = np.array([0.15, 0.15, 0.3])
    E0 = V0[:3] + (np.array([0, 0, 0.003]) + 1j * x) * I0
    z = np.array([0, 0, 0.003]) + 1j * x
    coupled = Y + np.diag(np.append(1 / z, 0))

    def network(E):
        return np.linalg.solve(coupled, np.append(E / z, 0))

    def rates(state):
        delta, E, P, Q, Vf = state[:10].reshape(5, 2)
        angle, omega = state[10:]
        error = (np.abs(V0[:2]) + 0.05 * S0[:2].imag) - Vf - 0.05 * Q
        source = np.append((E + 0.1 * error) * np.exp(1j * delta), abs(E0[2]) * np.exp(1j * angle))
        V = network(source)[:3]
        current = (source - V) / z
        S, air = V * np.conj(current), (source * np.conj(current)).real
        air0 = (E0 * np.conj(I0)).real
        return np.concatenate([
            w * 0.02 * (S0[:2].real - P), 5.0 * error, (S[:2].real - P) / 0.01,
            (S[:2].imag - Q) / 0.01, (np.abs(V[:2]) - Vf) / 0.01,
            [w * (omega - 1), (air0[2] - air[2] - 2.0 * (omega - 1)) / 6.0],
        ])  # fmt: skip

    start = np.concatenate([
        np.angle(E0[:2]), np.abs(E0[:2]), S0[:2].real, S0[:2].imag, np.abs(V0[:2]),
        [np.angle(E0[2]), 1.0],
    ])  # fmt: skip
    assert np.abs(rates(start)).max() < 1e-8
    h = 1e-6
    A = np.stack([(rates(start + h * e) - rates(start - h * e)) / (2 * h) for e in np.eye(12)], 1)
    assert unmatched(spectrum(case), np.linalg.eigvals(A)) < 1e-6


def test_a_grid_following_inverter_without_lag_of_its_frame_is_the_plain_one():
    follow, plain = (
        small_case(
            typical_table("GENROU", [0], M=8.0, D=1.0),
            typical_table("GENCLS", [1], M=8.0, D=1.0),
            typical_table(model, [2], **fast),
        )
        for model, fast in (("REGCP1", {"Tf": 1e-6, "Tp": 1e-6, "Kp": 100.0}), ("REGCA1", {}))
    )
    slow = [values[np.abs(values) < 60] for values in (spectrum(follow), spectrum(plain))]
    slow[0] = slow[0][np.abs(slow[0] - slow[1][:, None]).min(axis=0) < 0.05]
    assert unmatched(slow[1], slow[0]) < 1e-2


def test_it_settles_where_its_simulation_ends():
    model = linearise(three_machines(), solve(three_machines()), np.array([3]))
    trajectory = simulate(model, Event.load({"d": 0.05}), horizon_s=120.0, dt_s=0.02)
    load = np.array([0, 0, 0, 0.05])
    assert trajectory.omega[-1] == pytest.approx(model.settling(load), rel=1e-6)
    voltage = model.voltages(load[:, None], np.array([3]))
    assert voltage.D[0, 0] < 0


def test_nothing_stops_the_fall_without_governors():
    case = small_case(typical_table("GENCLS", [0, 1, 2], D=0.0))
    model = linearise(case, solve(case), NONE)
    assert model.settling(np.array([1.0, 0, 0])) == -np.inf
    assert model.settling(np.zeros(3)) == 0


def test_frequency_at_a_port_is_the_derivative_of_its_angle():
    case = three_machines()
    model = linearise(case, solve(case), np.array([3]))
    # after all swings have died out, every port turns with the machines
    lti = model.lti(np.array([[0], [0], [0], [1.0]]), np.arange(4))
    x = -np.linalg.solve(lti.A, lti.B)
    assert (lti.C @ x + lti.D)[:, 0] == pytest.approx(np.full(4, model.settling(np.eye(4)[3])))


def test_limits_that_are_active_are_named(andes):
    case = case_of(dumped(andes, "ieee14/ieee14_full.xlsx", after="pass"))
    assert active_limits(case, solve(case)) == (ActiveLimit("6", "TGOV1", "VALVE", "lower"),)


def test_two_units_of_a_bus_share_its_reactive_power_and_have_places_of_their_own():
    from dataclasses import replace

    case = small_case(typical_table("GENCLS", [0, 1, 2], D=1.0), typical_table("TGOV1", [0, 1, 2]))
    units = replace(case.units, bus=np.array([0, 1, 1]), set_point=np.array([1.02, 1.01, 1.01]))
    case = replace(case, units=units)
    equilibrium = solve(case)
    assert equilibrium.power[1].imag == pytest.approx(equilibrium.power[2].imag)
    assert equilibrium.power[1:].real == pytest.approx(case.units.power[1:])
    assert linearise(case, equilibrium, np.array([3])).ports == ("a", "b", "b#2", "d")


def test_a_case_without_an_operating_point_says_so_and_no_more():
    from dataclasses import replace

    case = three_machines()
    loads = replace(case.loads, power=50 * case.loads.power)
    with pytest.raises(NoOperatingPoint) as caught:
        solve(replace(case, loads=loads))
    assert not any(character.isdigit() for character in str(caught.value))


@pytest.mark.parametrize(
    "tables",
    [
        (typical_table("SEXS", [0, 1, 2]),),
        (typical_table("GENCLS", [0, 1, 2]), typical_table("GENROU", [2])),
    ],
)
def test_a_unit_has_one_machine(tables):
    case = small_case(*tables)
    with pytest.raises(InputError):
        linearise(case, solve(case), NONE)


def test_parameters_are_declared_once_and_within_their_bounds():
    for device in DEVICES.values():
        names = [parameter.name for parameter in device.parameters]
        assert len(set(names)) == len(names)
        assert set(device.shaping) | set(device.modes) <= set(names)
        for parameter in device.parameters:
            assert parameter.lower <= parameter.typical <= parameter.upper, (
                device.model, parameter.name)  # fmt: skip
            assert parameter.source


def test_a_record_goes_to_the_system_base():
    values = DEVICES["TGOV1"].to_system({"R": 0.05, "VMAX": 1.0, "T1": 0.2}, 9.0)
    assert values == pytest.approx({"R": 0.05 / 9, "VMAX": 9.0, "T1": 0.2})
    assert DEVICES["IEEEST"].to_system({"MODE": 3, "KS": 2.0}, 4.0)["KS"] == 0.5
    assert DEVICES["IEEEST"].to_system({"MODE": 1, "KS": 2.0}, 4.0)["KS"] == 2.0
