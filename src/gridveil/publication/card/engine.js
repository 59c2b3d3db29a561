"use strict";
// What the released model answers: the arithmetic of the card, without a page.
// Power and frequency in p.u., times in s; matrices row by row in Float64Array.

// The numbers of an array {kind, data}: "f8" or "f4", in base64.
function numbers({ kind, data }) {
  const text = atob(data), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return kind === "f8" ? new Float64Array(bytes.buffer) : Float64Array.from(new Float32Array(bytes.buffer));
}

function dot(a, i, b, j, n) {
  let p = 0, q = 0, r = 0, s = 0, k = 0;
  for (; k + 3 < n; k += 4) {
    p += a[i + k] * b[j + k];
    q += a[i + k + 1] * b[j + k + 1];
    r += a[i + k + 2] * b[j + k + 2];
    s += a[i + k + 3] * b[j + k + 3];
  }
  for (; k < n; k++) p += a[i + k] * b[j + k];
  return p + q + r + s;
}

// ---- Swing models: M w' = -L delta + p - D w - u, delta' = omega_b w, p' = -T (p + G w). ----

// Bessel's J_0(x) ... J_n(x), from above, where they are next to nothing.
function bessel(x, n) {
  const last = 2 * Math.ceil((Math.max(n, x) + 12 * Math.cbrt(x) + 40) / 2);
  const out = new Float64Array(n + 1);
  let above = 0, here = 1e-300, sum = 0;
  for (let k = last; k > 0; k--) {
    const below = x === 0 ? 0 : (2 * k / x) * here - above;
    above = here; here = below;
    if (Math.abs(here) > 1e250) {
      here *= 1e-250; above *= 1e-250; sum *= 1e-250;
      for (let j = k; j <= n; j++) out[j] *= 1e-250;
    }
    if (k - 1 <= n) out[k - 1] = here;
    if (k % 2 === 1) sum += k === 1 ? here : 2 * here;
  }
  if (x === 0) { out.fill(0); out[0] = 1; return out; }
  return out.map((value) => value / sum);
}

class Swing {
  // k_r : weights of all pairs of machines, 12, 13, ..., 23, ...; shares : K_ac (g, b).
  constructor({ k_r, m, d, rate, gain, shares, omegaB }) {
    Object.assign(this, { m, d, rate, gain, shares, omegaB, g: m.length, inertia: m });
    const g = this.g, L = new Float64Array(g * g);
    for (let i = 0, e = 0; i < g; i++) {
      for (let j = i + 1; j < g; j++, e++) {
        L[i * g + j] = L[j * g + i] = -k_r[e];
        L[i * g + i] += k_r[e]; L[j * g + j] += k_r[e];
      }
    }
    this.L = L;
    this.ports = g + (shares.length / g);
  }

  // What the machines feel of one p.u. of load at a port.
  felt(port) {
    const u = new Float64Array(this.g), b = this.ports - this.g;
    if (port < this.g) u[port] = 1;
    else for (let i = 0; i < this.g; i++) u[i] = this.shares[i * b + port - this.g];
    return u;
  }

  // Frequency of a port over time, from that of the machines (samples, g).
  at(port, omega) {
    const g = this.g, u = this.felt(port), out = new Float64Array(omega.length / g);
    for (let n = 0; n < out.length; n++) out[n] = port < g ? omega[n * g + port] : dot(omega, n * g, u, 0, g);
    return out;
  }

  settling(port, size) {
    let held = 0, load = 0;
    for (let i = 0; i < this.g; i++) held += this.d[i] + (this.rate[i] > 0 ? this.gain[i] : 0);
    for (const share of this.felt(port)) load += share * size;
    return held > 0 ? -load / held : -Infinity;
  }

  // y = A x, with x = (w, delta, p, 1) and the load u; angles are counted from their mean.
  apply(x, u, y) {
    const { g, L, m, d, rate, gain, omegaB } = this, one = x[3 * g];
    let mean = 0;
    for (let i = 0; i < g; i++) mean += x[i] / g;
    for (let i = 0; i < g; i++) {
      y[i] = (x[2 * g + i] - d[i] * x[i] - u[i] * one - dot(L, i * g, x, g, g)) / m[i];
      y[g + i] = omegaB * (x[i] - mean);
      y[2 * g + i] = -rate[i] * (x[2 * g + i] + gain[i] * x[i]);
    }
    y[3 * g] = 0;
  }

  // Numbers that all eigenvalues keep to: |Im| <= fastest, Re >= -decay >= -fastest / 2 [1/s].
  spectrum() {
    const { g, L, m } = this;
    let rows = 0, governors = 0, decay = 0;
    for (let i = 0; i < g; i++) {
      rows = Math.max(rows, 2 * L[i * g + i] / m[i]);
      governors = Math.max(governors, this.rate[i] * this.gain[i] / m[i]);
      decay = Math.max(decay, this.d[i] / m[i], this.rate[i]);
    }
    // The largest eigenvalue of M^-1/2 L M^-1/2 by powers, a little more to be safe.
    let v = Float64Array.from(m, (_, i) => (i % 2 ? -1 : 1) + i / g), size = 0;
    for (let round = 0; round < 40; round++) {
      const w = v.map((value, i) => value / Math.sqrt(m[i]));
      v = v.map((_, i) => dot(L, i * g, w, 0, g) / Math.sqrt(m[i]));
      size = Math.hypot(...v);
      if (size === 0) break;
      v = v.map((value) => value / size);
    }
    const fastest = Math.sqrt(this.omegaB * Math.min(rows, 1.1 * size) + governors);
    return { fastest: Math.max(fastest, 2 * decay, 1e-3), decay };
  }

  // Frequency of the machines (samples, g) after a step of load at a port, at t = 0 from rest.
  // e^(tA) x = sum c_k J_k(t f) x_k with x_0 = x, x_1 = A x / f, x_k+1 = 2 A x_k / f + x_k-1
  // (Chebyshev): one chain of products gives all samples of a long step, exact to rounding.
  respond(port, size, samples, dt) {
    const g = this.g, n = 3 * g + 1, u = this.felt(port).map((share) => share * size);
    const { fastest, decay } = this.spectrum(), longest = Math.min(100 / fastest, 6 / (decay + 1e-9));
    const parts = Math.max(1, Math.ceil(dt / longest)); // of a sample's time, in each step
    const most = parts > 1 ? 1 : Math.max(1, Math.min(Math.floor(longest / dt), samples - 1));
    const table = [], growth = Math.exp(Math.asinh(decay / fastest)); // of x_k, from one to the next
    for (let i = 1; i <= most; i++) {
      const z = fastest * dt * i / parts, all = bessel(z, Math.ceil(1.5 * z + 12 * Math.cbrt(z) + 40));
      let end = all.length;
      while (end > 1 && Math.abs(all[end - 1]) * growth ** end < 1e-17) end--;
      table.push(all.subarray(0, end));
    }
    const terms = Math.max(...table.map((row) => row.length));
    const chain = Array.from({ length: terms }, () => new Float64Array(n));
    const out = new Float64Array(samples * g);
    let x = new Float64Array(n);
    x[n - 1] = 1;
    for (let now = 0, part = 0; now < samples - 1;) {
      chain[0].set(x);
      for (let k = 1; k < terms; k++) {
        const next = chain[k], before = chain[k - 1], factor = (k === 1 ? 1 : 2) / fastest;
        this.apply(before, u, next);
        for (let i = 0; i < n; i++) next[i] = factor * next[i] + (k > 1 ? chain[k - 2][i] : 0);
      }
      const steps = Math.min(most, samples - 1 - now);
      part = (part + 1) % parts;
      if (part === 0) {
        for (let i = 1; i <= steps; i++) combine(table[i - 1], chain, out, (now + i) * g, g);
      }
      const state = new Float64Array(n);
      combine(table[steps - 1], chain, state, 0, n);
      state[n - 1] = 1;
      x = state;
      if (part === 0) now += steps;
    }
    return out;
  }
}

// out[place ...] = sum c_k J_k x_k over the first `count` entries, c_0 = 1 and 2 of the others.
function combine(J, chain, out, place, count) {
  for (let k = 0; k < J.length; k++) {
    const c = (k === 0 ? 1 : 2) * J[k], x = chain[k];
    for (let i = 0; i < count; i++) out[place + i] += c * x[i];
  }
}

// ---- Models by their matrices: x' = A x + B u, y = C x + D u. ----

function product(A, B, n) {
  const C = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < n; k++) {
      const a = A[i * n + k];
      if (a === 0) continue;
      for (let j = 0; j < n; j++) C[i * n + j] += a * B[k * n + j];
    }
  }
  return C;
}

// x of A x = b by elimination, rows scaled; null where A is singular.
function solve(A, b, n) {
  const M = Array.from({ length: n }, (_, i) => {
    const row = Float64Array.from([...A.subarray(i * n, (i + 1) * n), b[i]]);
    const scale = Math.max(...row.subarray(0, n).map(Math.abs));
    return row.map((value) => value / (scale || 1));
  });
  for (let c = 0; c < n; c++) {
    let best = c;
    for (let r = c + 1; r < n; r++) if (Math.abs(M[r][c]) > Math.abs(M[best][c])) best = r;
    if (Math.abs(M[best][c]) < 1e-12) return null;
    [M[c], M[best]] = [M[best], M[c]];
    for (let r = c + 1; r < n; r++) {
      const f = M[r][c] / M[c][c];
      if (f !== 0) for (let k = c; k <= n; k++) M[r][k] -= f * M[c][k];
    }
  }
  const x = new Float64Array(n);
  for (let r = n - 1; r >= 0; r--) {
    let s = M[r][n];
    for (let k = r + 1; k < n; k++) s -= M[r][k] * x[k];
    x[r] = s / M[r][r];
  }
  return x;
}

class Matrices {
  // A : (n, n), B : (n, inputs), C : (ports, n), D : (ports, inputs).
  constructor({ A, B, C, D, n, inputs, ports, inertia }) {
    Object.assign(this, { A, B, C, D, n, inputs, ports, inertia });
  }

  // e^(A dt) by halving, Taylor's series and squaring, with the squares on the way.
  squares(dt) {
    if (this.made?.dt === dt) return this.made;
    const { A, n } = this, TERMS = 14;
    let norm = 0;
    for (let j = 0; j < n; j++) {
      let s = 0;
      for (let i = 0; i < n; i++) s += Math.abs(A[i * n + j]);
      norm = Math.max(norm, s * dt);
    }
    const halvings = norm > 0 ? Math.max(0, Math.ceil(Math.log2(2 * norm))) : 0;
    const h = dt / 2 ** halvings, X = A.map((value) => value * h);
    const plusOne = (P) => { for (let i = 0; i < n; i++) P[i * n + i] += 1; return P; };
    let P = plusOne(new Float64Array(n * n));
    for (let j = TERMS; j > 0; j--) P = plusOne(product(X, P, n).map((value) => value / j));
    const list = [P];
    for (let i = 0; i < halvings; i++) list.push(product(list[i], list[i], n));
    return (this.made = { dt, h, X, list });
  }

  column(matrix, rows, input, size) {
    return Float64Array.from({ length: rows }, (_, i) => size * matrix[i * this.inputs + input]);
  }

  // What a constant push b gives within dt: the integral of e^(A s) b, by doubling its time.
  pushed(b, dt) {
    const { n } = this, { h, X, list } = this.squares(dt);
    let term = b.map((value) => value * h), v = Float64Array.from(term);
    for (let j = 2; j < 20; j++) {
      term = term.map((_, i) => dot(X, i * n, term, 0, n) / j);
      for (let i = 0; i < n; i++) v[i] += term[i];
    }
    for (let k = 0; k + 1 < list.length; k++) v = v.map((value, i) => value + dot(list[k], i * n, v, 0, n));
    return v;
  }

  // Frequency of all ports (samples, ports) after a step of load at a port, at t = 0 from rest.
  respond(port, size, samples, dt) {
    const { n, C, ports } = this, E = this.squares(dt).list.at(-1);
    const push = this.pushed(this.column(this.B, n, port, size), dt);
    const through = this.column(this.D, ports, port, size), out = new Float64Array(samples * ports);
    let x = new Float64Array(n);
    for (let k = 0; k < samples; k++) {
      for (let i = 0; i < ports; i++) out[k * ports + i] = through[i] + dot(C, i * n, x, 0, n);
      x = push.map((value, i) => value + dot(E, i * n, x, 0, n));
    }
    return out;
  }

  at(port, omega) {
    return Float64Array.from({ length: omega.length / this.ports }, (_, k) => omega[k * this.ports + port]);
  }

  settling(port, size, seen = 0) {
    const { n } = this, x = solve(this.A, this.column(this.B, n, port, -size), n);
    if (x === null) return -Math.sign(size) * Infinity;
    return dot(this.C, seen * n, x, 0, n) + size * this.D[seen * this.inputs + port];
  }
}

// Rows and columns of a matrix.
function picked(matrix, columns, rows, kept) {
  const out = new Float64Array(rows.length * kept.length);
  rows.forEach((r, i) => kept.forEach((c, j) => { out[i * kept.length + j] = matrix[r * columns + c]; }));
  return out;
}

const range = (n) => Array.from({ length: n }, (_, i) => i);

// The same model with angles counted from the last of them: a turn of all moves nothing.
function withoutCommonAngle(model, angles) {
  const { n, inputs } = model, last = angles.at(-1), keep = range(n).filter((i) => i !== last);
  const A = Float64Array.from(model.A), B = Float64Array.from(model.B);
  for (const angle of angles) {
    for (let j = 0; j < n; j++) A[angle * n + j] -= model.A[last * n + j];
    for (let j = 0; j < inputs; j++) B[angle * inputs + j] -= model.B[last * inputs + j];
  }
  return new Matrices({
    ...model, n: n - 1, A: picked(A, n, keep, keep), B: picked(B, inputs, keep, range(inputs)),
    C: picked(model.C, n, range(model.ports), keep),
  });
}

// A detailed model without one of its units: the network takes up what the unit gave.
function withoutUnit(model, unit) {
  const { n, inputs, ports, units, owners, angles } = model;
  const rows = [unit, units + unit], at = [unit, ports + unit];
  const own = picked(model.given_through, inputs, rows, at);
  const [a, b, c, d] = [1 - own[0], -own[1], -own[2], 1 - own[3]], det = a * d - b * c;
  const K = [d / det, -b / det, -c / det, a / det];
  const times = (M, width) => [0, 1].map((r) => Float64Array.from({ length: width }, (_, j) =>
    K[2 * r] * M[rows[0] * width + j] + K[2 * r + 1] * M[rows[1] * width + j]));
  const byState = times(model.given, n), byInput = times(model.given_through, inputs);
  const keep = range(n).filter((i) => owners[i] !== unit);
  const staying = angles.map((angle) => keep.indexOf(angle)).filter((place) => place >= 0);
  const states = (left, through, count) => {
    const out = new Float64Array(count * keep.length);
    for (let i = 0; i < count; i++) {
      const p = through[i * inputs + at[0]], q = through[i * inputs + at[1]], row = i * keep.length;
      keep.forEach((s, j) => { out[row + j] = left[i * n + s] + p * byState[0][s] + q * byState[1][s]; });
      const mean = staying.reduce((sum, j) => sum + out[row + j], 0) / staying.length;
      for (const j of staying) out[row + j] -= mean;
    }
    return out;
  };
  const loads = (through, count) => Float64Array.from({ length: count * inputs }, (_, k) => {
    const i = Math.floor(k / inputs), j = k % inputs;
    return through[k] + through[i * inputs + at[0]] * byInput[0][j] + through[i * inputs + at[1]] * byInput[1][j];
  });
  const all = range(keep.length), A = picked(states(model.A, model.B, n), keep.length, keep, all);
  const B = picked(loads(model.B, n), inputs, keep, range(inputs));
  const C = states(model.C, model.D, ports), D = loads(model.D, ports);
  const turn = states(model.turn, model.turn_through, ports);
  // Frequency of a bus without a unit: how fast its angle turns from the mean, and how fast that does.
  for (const bus of [unit, ...range(ports).slice(units)]) {
    const row = turn.slice(bus * keep.length, (bus + 1) * keep.length);
    for (const angle of staying) row[angle] += 1 / (model.omegaB * staying.length);
    const through = (M, width, out) => {
      for (let j = 0; j < width; j++) {
        let s = 0;
        for (let i = 0; i < row.length; i++) s += row[i] * M[i * width + j];
        out[bus * width + j] = s;
      }
    };
    through(A, keep.length, C);
    through(B, inputs, D);
  }
  const left = new Matrices({ A, B, C, D, n: keep.length, inputs, ports, inertia: model.inertia });
  return { left, angles: staying };
}

// ---- Figures of a trajectory, as `gridveil simulate` prints them. ----

function furthest(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (Math.abs(values[i]) > Math.abs(values[best])) best = i;
  return best;
}

// Largest deviation with its sign, and when, by a parabola through three samples.
function nadirOf(values, dt) {
  const at = furthest(values), before = values[at - 1], after = values[at + 1];
  const bend = before - 2 * values[at] + after;
  if (!(at > 0 && at < values.length - 1) || bend === 0) return [values[at], at * dt];
  const part = -0.5 * (after - before) / bend;
  return [values[at] + 0.25 * (after - before) * part, (at + part) * dt];
}

// Steepest mean slope over 0.5 s, with its sign.
function rocofOf(values, dt) {
  const window = Math.max(1, Math.round(0.5 / dt));
  const slopes = values.map((value, i) => (value - (i < window ? 0 : values[i - window])) / (window * dt));
  return slopes[furthest(slopes)];
}

// Ends of the middle 80 % of some values, at Weibull's positions.
function middle(values, level) {
  const sorted = Float64Array.from(values).sort(), n = sorted.length;
  return [(1 - level) / 2, (1 + level) / 2].map((share) => {
    const place = Math.min(Math.max(share * (n + 1) - 1, 0), n - 1), low = Math.floor(place);
    return low + 1 < n ? sorted[low] + (place - low) * (sorted[low + 1] - sorted[low]) : sorted[low];
  });
}

// ---- The release: its model, its members, and what they answer to a step at 1 s. ----

const START_S = 1, DT_S = 0.01, BAND_DT_S = 0.05;

class ReleasedModel {
  constructor(facts) {
    this.facts = facts;
    const arrays = Object.fromEntries(Object.entries(facts.arrays).map(([name, one]) => [name, numbers(one)]));
    const { ports, machines } = facts;
    this.ports = ports; this.machines = machines;
    if (facts.kind === "swing") {
      this.fixed = { rate: arrays.governor_rate, gain: arrays.droop_gain, omegaB: facts.omega_b };
      this.model = new Swing({ ...arrays, ...this.fixed, shares: arrays.K_ac });
    } else {
      this.whole = new Matrices({ ...arrays, n: facts.owners.length, inputs: 2 * ports.length, ports: ports.length });
      Object.assign(this.whole, arrays, { units: machines, owners: facts.owners, angles: facts.angles, omegaB: facts.omega_b });
      this.model = withoutCommonAngle(this.whole, facts.angles);
    }
    this.inertia = this.model.inertia;
  }

  // event : {kind: "load", "generation" or "trip", port, size [p.u.]}. Returns time_s, `at(port)`,
  // the machines that stay, and what they settle at.
  simulate(event, horizon) {
    const samples = Math.round(horizon / DT_S) + 1, late = Math.round(START_S / DT_S);
    const gone = event.kind === "trip" ? event.port : -1, load = this.load(event);
    let model = this.model, settling;
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
    return { dt: DT_S, samples, at, staying, settling, system: weighed(at, staying, this.inertia, samples) };
  }

  // The load that stands for an event [p.u.]: of a trip, what the unit gave.
  load({ kind, port, size }) {
    if (kind === "trip") return this.whole.dispatch[port];
    return kind === "generation" ? -size : size;
  }

  get members() {
    if (!this.facts.members) return null;
    if (this.made) return this.made;
    const { count, arrays } = this.facts.members, all = {};
    for (const [name, one] of Object.entries(arrays)) all[name] = numbers(one);
    const row = (name, k) => all[name].subarray(all[name].length / count * k, all[name].length / count * (k + 1));
    this.made = range(count).map((k) => {
      const model = this.facts.kind === "swing"
        ? new Swing({ k_r: row("k_r", k), m: row("m", k), d: row("d", k), shares: row("K_ac", k), ...this.fixed })
        : new Matrices({
          A: row("A", k), B: row("B", k), C: row("C", k), D: row("D", k), inertia: row("inertia", k),
          n: Math.sqrt(row("A", k).length), inputs: this.ports.length, ports: this.ports.length,
        });
      return { model, offset: row("offset", k) };
    });
    return this.made;
  }

  // What one member answers on the clock of bands, shifted where a unit trips.
  answerOf({ model, offset }, event, horizon, shift) {
    const samples = Math.round(horizon / BAND_DT_S) + 1, late = Math.round(START_S / BAND_DT_S);
    const load = this.load(event), omega = model.respond(event.port, load, samples - late, BAND_DT_S);
    const off = (values, share) => {
      let most = 0;
      return values.map((value) => { most = Math.max(most, Math.abs(value)); return value + share * most; });
    };
    const at = (port) => {
      const out = new Float64Array(samples);
      out.set(model.at(port, omega), late);
      return off(out, offset[port]).map((value, i) => value + (shift ? shift.at(port)[i] : 0));
    };
    const settled = model.settling(event.port, load);
    return {
      at, inertia: model.inertia, samples,
      settling: settled + offset[0] * Math.abs(settled) + (shift ? shift.settling : 0),
    };
  }

  // By how much a trip differs from the loss of the same power, on the clock of bands.
  shiftOf(event, answer, horizon) {
    if (event.kind !== "trip") return null;
    const lost = this.simulate({ kind: "load", port: event.port, size: this.load(event) }, horizon);
    const every = Math.round(BAND_DT_S / DT_S), kept = new Map();
    const at = (port) => {
      if (!kept.has(port)) {
        const trip = answer.at(port), loss = lost.at(port), out = new Float64Array(Math.floor((trip.length - 1) / every) + 1);
        kept.set(port, out.map((_, i) => trip[i * every] - loss[i * every]));
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
    const own = at(machine), weight = inertia[machine] / sum;
    for (let i = 0; i < samples; i++) out[i] += weight * own[i];
  }
  return out;
}
