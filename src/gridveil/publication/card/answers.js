// What a release's model and its members answer to an event, and the figures of it.

// ---- Figures of a trajectory, as `gridveil simulate` prints them. ----

function furthest(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++)
    if (Math.abs(values[i]) > Math.abs(values[best])) best = i;
  return best;
}

// Largest deviation with its sign, and when, by a parabola through three samples.
function nadirOf(values, dt) {
  const at = furthest(values),
    before = values[at - 1],
    after = values[at + 1];
  const bend = before - 2 * values[at] + after;
  if (!(at > 0 && at < values.length - 1) || bend === 0) return [values[at], at * dt];
  const part = (-0.5 * (after - before)) / bend;
  return [values[at] + 0.25 * (after - before) * part, (at + part) * dt];
}

// Steepest mean slope over 0.5 s, with its sign.
function rocofOf(values, dt) {
  const window = Math.max(1, Math.round(0.5 / dt));
  const slopes = values.map(
    (value, i) => (value - (i < window ? 0 : values[i - window])) / (window * dt),
  );
  return slopes[furthest(slopes)];
}

// Ends of the middle 80 % of some values, at Weibull's positions.
function middle(values, level) {
  const sorted = Float64Array.from(values).sort(),
    n = sorted.length;
  return [(1 - level) / 2, (1 + level) / 2].map((share) => {
    const place = Math.min(Math.max(share * (n + 1) - 1, 0), n - 1),
      low = Math.floor(place);
    return low + 1 < n
      ? sorted[low] + (place - low) * (sorted[low + 1] - sorted[low])
      : sorted[low];
  });
}

// ---- The release: its model, its members, and what they answer to a step at 1 s. ----

const START_S = 1,
  DT_S = 0.01,
  BAND_DT_S = 0.05;

class ReleasedModel {
  constructor(facts) {
    this.facts = facts;
    const arrays = Object.fromEntries(
      Object.entries(facts.arrays).map(([name, one]) => [name, numbers(one)]),
    );
    const { ports, machines } = facts;
    this.ports = ports;
    this.machines = machines;
    if (facts.kind === "swing") {
      this.fixed = { rate: arrays.governor_rate, gain: arrays.droop_gain, omegaB: facts.omega_b };
      this.model = new Swing({ ...arrays, ...this.fixed, shares: arrays.K_ac });
    } else {
      this.whole = new Matrices({
        ...arrays,
        n: facts.owners.length,
        inputs: 2 * ports.length,
        ports: ports.length,
      });
      Object.assign(this.whole, arrays, {
        units: machines,
        owners: facts.owners,
        angles: facts.angles,
        omegaB: facts.omega_b,
      });
      this.model = withoutCommonAngle(this.whole, facts.angles);
    }
    this.inertia = this.model.inertia;
  }

  // event : {kind: "load", "generation" or "trip", port, size [p.u.]}. Returns time_s, `at(port)`,
  // the machines that stay, and what they settle at.
  simulate(event, horizon) {
    const samples = Math.round(horizon / DT_S) + 1,
      late = Math.round(START_S / DT_S);
    const gone = event.kind === "trip" ? event.port : -1,
      load = this.load(event);
    let model = this.model,
      settling;
    if (gone >= 0) {
      const { left, angles } = withoutUnit(this.whole, gone);
      model = left;
      settling = withoutCommonAngle(left, angles).settling(gone, load, gone === 0 ? 1 : 0);
    } else settling = model.settling(event.port, load);
    const omega = model.respond(event.port, load, samples - late, DT_S);
    const at = (port) => {
      const out = new Float64Array(samples);
      out.set(model.at(port, omega), late);
      return out;
    };
    const staying = range(this.machines).filter((machine) => machine !== gone);
    return {
      dt: DT_S,
      samples,
      at,
      staying,
      settling,
      system: weighed(at, staying, this.inertia, samples),
    };
  }

  // The load that stands for an event [p.u.]: of a trip, what the unit gave.
  load({ kind, port, size }) {
    if (kind === "trip") return this.whole.dispatch[port];
    return kind === "generation" ? -size : size;
  }

  get members() {
    if (!this.facts.members) return null;
    if (this.made) return this.made;
    const { count, arrays } = this.facts.members,
      all = {};
    for (const [name, one] of Object.entries(arrays)) all[name] = numbers(one);
    const row = (name, k) =>
      all[name].subarray((all[name].length / count) * k, (all[name].length / count) * (k + 1));
    this.made = range(count).map((k) => {
      const model =
        this.facts.kind === "swing"
          ? new Swing({
              k_r: row("k_r", k),
              m: row("m", k),
              d: row("d", k),
              shares: row("K_ac", k),
              ...this.fixed,
            })
          : new Matrices({
              A: row("A", k),
              B: row("B", k),
              C: row("C", k),
              D: row("D", k),
              inertia: row("inertia", k),
              n: Math.sqrt(row("A", k).length),
              inputs: this.ports.length,
              ports: this.ports.length,
            });
      return { model, offset: row("offset", k) };
    });
    return this.made;
  }

  // What one member answers on the clock of bands, shifted where a unit trips.
  answerOf({ model, offset }, event, horizon, shift) {
    const samples = Math.round(horizon / BAND_DT_S) + 1,
      late = Math.round(START_S / BAND_DT_S);
    const load = this.load(event),
      omega = model.respond(event.port, load, samples - late, BAND_DT_S);
    const off = (values, share) => {
      let most = 0;
      return values.map((value) => {
        most = Math.max(most, Math.abs(value));
        return value + share * most;
      });
    };
    const at = (port) => {
      const out = new Float64Array(samples);
      out.set(model.at(port, omega), late);
      return off(out, offset[port]).map((value, i) => value + (shift ? shift.at(port)[i] : 0));
    };
    const settled = model.settling(event.port, load);
    return {
      at,
      inertia: model.inertia,
      samples,
      settling: settled + offset[0] * Math.abs(settled) + (shift ? shift.settling : 0),
    };
  }

  // By how much a trip differs from the loss of the same power, on the clock of bands.
  shiftOf(event, answer, horizon) {
    if (event.kind !== "trip") return null;
    const lost = this.simulate({ kind: "load", port: event.port, size: this.load(event) }, horizon);
    const every = Math.round(BAND_DT_S / DT_S),
      kept = new Map();
    const at = (port) => {
      if (!kept.has(port)) {
        const trip = answer.at(port),
          loss = lost.at(port),
          out = new Float64Array(Math.floor((trip.length - 1) / every) + 1);
        kept.set(
          port,
          out.map((_, i) => trip[i * every] - loss[i * every]),
        );
      }
      return kept.get(port);
    };
    return { at, settling: answer.settling - lost.settling };
  }
}

// Mean of some machines' frequencies, by inertia.
function weighed(at, staying, inertia, samples) {
  const out = new Float64Array(samples);
  let sum = 0;
  for (const machine of staying) sum += inertia[machine];
  for (const machine of staying) {
    const own = at(machine),
      weight = inertia[machine] / sum;
    for (let i = 0; i < samples; i++) out[i] += weight * own[i];
  }
  return out;
}
