"use strict";
// Swing models: the arithmetic of the card, without a page.
// Power and frequency in p.u., times in s; matrices row by row in Float64Array.

// The numbers of an array {kind, data}: "f8" or "f4", in base64.
function numbers({ kind, data }) {
  const text = atob(data),
    bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return kind === "f8"
    ? new Float64Array(bytes.buffer)
    : Float64Array.from(new Float32Array(bytes.buffer));
}

function dot(a, i, b, j, n) {
  let p = 0,
    q = 0,
    r = 0,
    s = 0,
    k = 0;
  for (; k + 3 < n; k += 4) {
    p += a[i + k] * b[j + k];
    q += a[i + k + 1] * b[j + k + 1];
    r += a[i + k + 2] * b[j + k + 2];
    s += a[i + k + 3] * b[j + k + 3];
  }
  for (; k < n; k++) p += a[i + k] * b[j + k];
  return p + q + r + s;
}

// M w' = -L delta + p - D w - u, delta' = omega_b w, p' = -T (p + G w).

// Bessel's J_0(x) ... J_n(x), from above, where they are next to nothing.
function bessel(x, n) {
  const last = 2 * Math.ceil((Math.max(n, x) + 12 * Math.cbrt(x) + 40) / 2);
  const out = new Float64Array(n + 1);
  let above = 0,
    here = 1e-300,
    sum = 0;
  for (let k = last; k > 0; k--) {
    const below = x === 0 ? 0 : ((2 * k) / x) * here - above;
    above = here;
    here = below;
    if (Math.abs(here) > 1e250) {
      here *= 1e-250;
      above *= 1e-250;
      sum *= 1e-250;
      for (let j = k; j <= n; j++) out[j] *= 1e-250;
    }
    if (k - 1 <= n) out[k - 1] = here;
    if (k % 2 === 1) sum += k === 1 ? here : 2 * here;
  }
  if (x === 0) {
    out.fill(0);
    out[0] = 1;
    return out;
  }
  return out.map((value) => value / sum);
}

class Swing {
  // k_r : weights of all pairs of machines, 12, 13, ..., 23, ...; shares : K_ac (g, b).
  constructor({ k_r, m, d, rate, gain, shares, omegaB }) {
    Object.assign(this, { m, d, rate, gain, shares, omegaB, g: m.length, inertia: m });
    const g = this.g,
      L = new Float64Array(g * g);
    for (let i = 0, e = 0; i < g; i++) {
      for (let j = i + 1; j < g; j++, e++) {
        L[i * g + j] = L[j * g + i] = -k_r[e];
        L[i * g + i] += k_r[e];
        L[j * g + j] += k_r[e];
      }
    }
    this.L = L;
    this.ports = g + shares.length / g;
  }

  // What the machines feel of one p.u. of load at a port.
  felt(port) {
    const u = new Float64Array(this.g),
      b = this.ports - this.g;
    if (port < this.g) u[port] = 1;
    else for (let i = 0; i < this.g; i++) u[i] = this.shares[i * b + port - this.g];
    return u;
  }

  // Frequency of a port over time, from that of the machines (samples, g).
  at(port, omega) {
    const g = this.g,
      u = this.felt(port),
      out = new Float64Array(omega.length / g);
    for (let n = 0; n < out.length; n++)
      out[n] = port < g ? omega[n * g + port] : dot(omega, n * g, u, 0, g);
    return out;
  }

  settling(port, size) {
    let held = 0,
      load = 0;
    for (let i = 0; i < this.g; i++) held += this.d[i] + (this.rate[i] > 0 ? this.gain[i] : 0);
    for (const share of this.felt(port)) load += share * size;
    return held > 0 ? -load / held : -Infinity;
  }

  // y = A x, with x = (w, delta, p, 1) and the load u; angles are counted from their mean.
  apply(x, u, y) {
    const { g, L, m, d, rate, gain, omegaB } = this,
      one = x[3 * g];
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
    let rows = 0,
      governors = 0,
      decay = 0;
    for (let i = 0; i < g; i++) {
      rows = Math.max(rows, (2 * L[i * g + i]) / m[i]);
      governors = Math.max(governors, (this.rate[i] * this.gain[i]) / m[i]);
      decay = Math.max(decay, this.d[i] / m[i], this.rate[i]);
    }
    // The largest eigenvalue of M^-1/2 L M^-1/2 by powers, a little more to be safe.
    let v = Float64Array.from(m, (_, i) => (i % 2 ? -1 : 1) + i / g),
      size = 0;
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
    const g = this.g,
      n = 3 * g + 1,
      u = this.felt(port).map((share) => share * size);
    const { fastest, decay } = this.spectrum(),
      longest = Math.min(100 / fastest, 6 / (decay + 1e-9));
    const parts = Math.max(1, Math.ceil(dt / longest)); // of a sample's time, in each step
    const most = parts > 1 ? 1 : Math.max(1, Math.min(Math.floor(longest / dt), samples - 1));
    const table = [],
      growth = Math.exp(Math.asinh(decay / fastest)); // of x_k, from one to the next
    for (let i = 1; i <= most; i++) {
      const z = (fastest * dt * i) / parts,
        all = bessel(z, Math.ceil(1.5 * z + 12 * Math.cbrt(z) + 40));
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
        const next = chain[k],
          before = chain[k - 1],
          factor = (k === 1 ? 1 : 2) / fastest;
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
    const c = (k === 0 ? 1 : 2) * J[k],
      x = chain[k];
    for (let i = 0; i < count; i++) out[place + i] += c * x[i];
  }
}
