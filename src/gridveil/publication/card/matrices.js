// Models by their matrices: x' = A x + B u, y = C x + D u; detailed ones, and those without a unit.

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
    const { A, n } = this,
      TERMS = 14;
    let norm = 0;
    for (let j = 0; j < n; j++) {
      let s = 0;
      for (let i = 0; i < n; i++) s += Math.abs(A[i * n + j]);
      norm = Math.max(norm, s * dt);
    }
    const halvings = norm > 0 ? Math.max(0, Math.ceil(Math.log2(2 * norm))) : 0;
    const h = dt / 2 ** halvings,
      X = A.map((value) => value * h);
    const plusOne = (P) => {
      for (let i = 0; i < n; i++) P[i * n + i] += 1;
      return P;
    };
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
    const { n } = this,
      { h, X, list } = this.squares(dt);
    let term = b.map((value) => value * h),
      v = Float64Array.from(term);
    for (let j = 2; j < 20; j++) {
      term = term.map((_, i) => dot(X, i * n, term, 0, n) / j);
      for (let i = 0; i < n; i++) v[i] += term[i];
    }
    for (let k = 0; k + 1 < list.length; k++)
      v = v.map((value, i) => value + dot(list[k], i * n, v, 0, n));
    return v;
  }

  // Frequency of all ports (samples, ports) after a step of load at a port, at t = 0 from rest.
  respond(port, size, samples, dt) {
    const { n, C, ports } = this,
      E = this.squares(dt).list.at(-1);
    const push = this.pushed(this.column(this.B, n, port, size), dt);
    const through = this.column(this.D, ports, port, size),
      out = new Float64Array(samples * ports);
    let x = new Float64Array(n);
    for (let k = 0; k < samples; k++) {
      for (let i = 0; i < ports; i++) out[k * ports + i] = through[i] + dot(C, i * n, x, 0, n);
      x = push.map((value, i) => value + dot(E, i * n, x, 0, n));
    }
    return out;
  }

  at(port, omega) {
    return Float64Array.from(
      { length: omega.length / this.ports },
      (_, k) => omega[k * this.ports + port],
    );
  }

  settling(port, size, seen = 0) {
    const { n } = this,
      x = solve(this.A, this.column(this.B, n, port, -size), n);
    if (x === null) return -Math.sign(size) * Infinity;
    return dot(this.C, seen * n, x, 0, n) + size * this.D[seen * this.inputs + port];
  }
}

// Rows and columns of a matrix.
function picked(matrix, columns, rows, kept) {
  const out = new Float64Array(rows.length * kept.length);
  rows.forEach((r, i) =>
    kept.forEach((c, j) => {
      out[i * kept.length + j] = matrix[r * columns + c];
    }),
  );
  return out;
}

const range = (n) => Array.from({ length: n }, (_, i) => i);

// The same model with angles counted from the last of them: a turn of all moves nothing.
function withoutCommonAngle(model, angles) {
  const { n, inputs } = model,
    last = angles.at(-1),
    keep = range(n).filter((i) => i !== last);
  const A = Float64Array.from(model.A),
    B = Float64Array.from(model.B);
  for (const angle of angles) {
    for (let j = 0; j < n; j++) A[angle * n + j] -= model.A[last * n + j];
    for (let j = 0; j < inputs; j++) B[angle * inputs + j] -= model.B[last * inputs + j];
  }
  return new Matrices({
    ...model,
    n: n - 1,
    A: picked(A, n, keep, keep),
    B: picked(B, inputs, keep, range(inputs)),
    C: picked(model.C, n, range(model.ports), keep),
  });
}

// A detailed model without one of its units: the network takes up what the unit gave.
function withoutUnit(model, unit) {
  const { n, inputs, ports, units, owners, angles } = model;
  const rows = [unit, units + unit],
    at = [unit, ports + unit];
  const own = picked(model.given_through, inputs, rows, at);
  const [a, b, c, d] = [1 - own[0], -own[1], -own[2], 1 - own[3]],
    det = a * d - b * c;
  const K = [d / det, -b / det, -c / det, a / det];
  const times = (M, width) =>
    [0, 1].map((r) =>
      Float64Array.from(
        { length: width },
        (_, j) => K[2 * r] * M[rows[0] * width + j] + K[2 * r + 1] * M[rows[1] * width + j],
      ),
    );
  const byState = times(model.given, n),
    byInput = times(model.given_through, inputs);
  const keep = range(n).filter((i) => owners[i] !== unit);
  const staying = angles.map((angle) => keep.indexOf(angle)).filter((place) => place >= 0);
  const states = (left, through, count) => {
    const out = new Float64Array(count * keep.length);
    for (let i = 0; i < count; i++) {
      const p = through[i * inputs + at[0]],
        q = through[i * inputs + at[1]],
        row = i * keep.length;
      keep.forEach((s, j) => {
        out[row + j] = left[i * n + s] + p * byState[0][s] + q * byState[1][s];
      });
      const mean = staying.reduce((sum, j) => sum + out[row + j], 0) / staying.length;
      for (const j of staying) out[row + j] -= mean;
    }
    return out;
  };
  const loads = (through, count) =>
    Float64Array.from({ length: count * inputs }, (_, k) => {
      const i = Math.floor(k / inputs),
        j = k % inputs;
      return (
        through[k] +
        through[i * inputs + at[0]] * byInput[0][j] +
        through[i * inputs + at[1]] * byInput[1][j]
      );
    });
  const all = range(keep.length),
    A = picked(states(model.A, model.B, n), keep.length, keep, all);
  const B = picked(loads(model.B, n), inputs, keep, range(inputs));
  const C = states(model.C, model.D, ports),
    D = loads(model.D, ports);
  const turn = states(model.turn, model.turn_through, ports);
  // Frequency of a bus without a unit: how fast its angle turns from the mean, and that itself.
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
