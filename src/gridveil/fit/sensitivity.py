"""Predicted records and their derivatives by every parameter: forward sensitivities of the discrete scheme that is run.

With z_{n+1} = E z_n, a parameter's sensitivity follows s_{n+1} = E s_n + E' z_n. Over a block of samples both are products,
z_{n+j} = Eʲ z_n and s_{n+j} = Eʲ s_n + (Eʲ)' z_n, so that only the starts of blocks are stepped through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, gcd

import numpy as np
from numpy.typing import NDArray

from gridveil.engine.lti import LTI
from gridveil.engine.propagate import step_responses
from gridveil.engine.records import Records
from gridveil.engine.schemes import SCHEMES, SchemeName
from gridveil.grid import Array, IntArray
from gridveil.swing import DrivenSwingFamily

# A step this small through an analytic function gives its derivative to rounding.
TINY = 1e-30
# Late by how much, for records whose event may be [s].
ON_TIME: Mapping[int, float] = {}


@dataclass(frozen=True, eq=False)
class Sampling:
    """Which samples of the records are compared, and where each step response is read for them.

    stride : clock steps between two samples that a response is computed at; count : how many of them.
    at : for each record, (samples,) numbers of the samples that are used; seen : (samples, outputs) True where something was.
    observed : (rows,) all of that, record after record [p.u.]; weights : (rows,) as in the records [s].
    """

    stride: int
    count: int
    at: tuple[IntArray, ...]
    seen: tuple[NDArray[np.bool_], ...]
    observed: Array
    weights: Array

    @classmethod
    def of(cls, records: Records, thin: int = 1) -> Sampling:
        """Use every observed sample, or every thin-th; records with several steps need their steps apart by such a stride."""
        counts = (records.weights > 0).sum(axis=2)
        shifts: list[list[int]] = [[shift for r, shift, _ in records.steps if r == record] for record in range(len(counts))]
        used = [np.flatnonzero(row) for row in counts]
        stride = 0
        for numbers, own in zip(used, shifts, strict=True):
            first = own[0] if own else 0
            stride = gcd(stride, *(int(one) - first for one in np.unique(numbers)), *(one - first for one in own))
        stride = max(stride, 1)
        wide = stride * thin
        if all((one - own[0]) % wide == 0 for own in shifts for one in own):
            stride = wide
        at = tuple(numbers[(numbers - (own[0] if own else 0)) % stride == 0] for numbers, own in zip(used, shifts, strict=True))
        seen = tuple(records.weights[record, numbers] > 0 for record, numbers in enumerate(at))
        observed, weights = (
            np.concatenate([series[record, numbers][seen[record]] for record, numbers in enumerate(at)])
            for series in (records.observed, records.weights)
        )
        return cls(stride, -(-records.samples // stride) + 1, at, seen, observed, weights)


class Predictor:
    """Records as a function of θ = (k_r, m, d, u) and of the shares `sense` (h, g) that make outputs of the machines' ω.

    delays : how late the event of some records came [s]; its first step is one of the scheme over what is left of that step.
    """

    def __init__(self, family: DrivenSwingFamily, records: Records, *, dt_s: float, scheme: SchemeName) -> None:
        self.family = family
        self.records = records
        self.dt_s = dt_s
        self.scheme: SchemeName = scheme

    def sampling(self, thin: int = 1) -> Sampling:
        """Choose the samples that are compared."""
        return Sampling.of(self.records, thin)

    def values(self, theta: Array, sense: Array, sampling: Sampling, delays: Mapping[int, float] = ON_TIME) -> Array:
        """Predict the records at θ: (rows,) [p.u.]."""
        lti = self.family.lti(theta)
        seen = LTI(lti.F, sense @ lti.H, lti.states)
        records, starts = self.records, None
        if delays:
            late = [self._late(shift, delays.get(record, 0.0), 1) for record, shift, _ in records.steps]
            starts = np.stack([self._start(lti, i, part) for i, (_, part) in zip(records.inputs, late, strict=True)], axis=1)
            moved = zip(records.steps, late, strict=True)
            records = replace(records, steps=tuple((record, shift, column) for (record, _, column), (shift, _) in moved))
        clock = {"dt_s": self.dt_s, "scheme": self.scheme}
        fine = step_responses(seen, records.inputs, records.samples, **clock, start=starts)
        values = records.predict(fine)
        taken = zip(values, sampling.at, sampling.seen, strict=True)
        return np.concatenate([value[at][seen] for value, at, seen in taken])

    def _late(self, shift: int, delay_s: float, stride: int) -> tuple[int, float]:
        """The first of every stride-th sample that a delayed step acts on, and the time since then in steps."""
        delay = delay_s / self.dt_s
        whole = stride * ceil(delay / stride - 1e-12)
        return shift + whole, max(whole - delay, 0.0)

    def _start(self, lti: LTI, column: int, part: float) -> Array:
        """Give z (n + s,) some part of a step after a unit step of an input."""
        start = np.zeros(lti.F.shape[-1])
        start[lti.states + column] = 1.0
        return SCHEMES[self.scheme](lti.F, part * self.dt_s)[0] @ start

    def _start_slopes(self, lti: LTI, bent: NDArray[np.complex128], column: int, parts: float) -> tuple[Array, Array]:
        """Give z (n + s,) some parts of steps after a unit step of an input, and its slopes (n + s, p + 1).

        By the parameters that `bent` (p, n + s, n + s) nudges F by, and by the delay [s]: the whole steps come last.
        """
        start, whole = np.zeros(lti.F.shape[-1]), int(parts)
        start[lti.states + column] = 1.0
        h = (parts - whole) * self.dt_s
        found = SCHEMES[self.scheme](np.concatenate([bent * h, lti.F[None] * complex(h, -TINY)]), 1.0)[0] @ start
        z, slopes = found[-1].real, found.imag.T / TINY
        if whole:
            E = SCHEMES[self.scheme](lti.F, self.dt_s)[0]
            dE = SCHEMES[self.scheme](bent, self.dt_s)[0].imag / TINY
            for _ in range(whole):
                slopes = E @ slopes
                slopes[:, :-1] += (dE @ z).T
                z = E @ z
        return z, slopes

    def slopes(
        self,
        theta: Array,
        sense: Array,
        sampling: Sampling,
        moving: IntArray,
        sensed: IntArray,
        delays: Mapping[int, float] = ON_TIME,
    ) -> Array:
        """Slopes of all records (rows, ·) by the entries `moving` of θ, each share of the outputs `sensed`, and each delay."""
        h, g = sense.shape
        lti = self.family.lti(theta)
        nudged = np.tile(theta.astype(complex), (len(moving), 1))
        nudged[np.arange(len(moving)), moving] += 1j * TINY
        bent = self.family.lti(nudged).F
        E = SCHEMES[self.scheme](lti.F, self.dt_s)[0]
        dE = SCHEMES[self.scheme](bent, self.dt_s)[0].imag / TINY
        E, dE = _power(E, dE, sampling.stride)
        if delays:  # one more, which moves where a response starts and nothing else
            dE = np.concatenate([dE, np.zeros((1, *E.shape))])
        out = np.zeros((h, len(E)))
        out[:, :g] = sense
        plain = len(moving) + len(sensed) * g
        slopes = [np.zeros((len(at), h, plain + len(delays))) for at in sampling.at]
        known: dict[tuple[int, float], tuple[Array, Array]] = {}
        places = {record: plain + number for number, record in enumerate(delays)}
        for record, declared, column in self.records.steps:
            shift, part = self._late(declared, delays.get(record, 0.0), sampling.stride)
            if (column, part) not in known:
                start, moved = np.zeros(len(E)), None
                start[lti.states + column] = 1.0
                if delays:
                    start, moved = self._start_slopes(lti, bent, column, part)
                known[column, part] = _respond(E, dE, out, np.eye(g, len(E)), start, sampling.count, moved)
            slope, omega = known[column, part]
            late = sampling.at[record] >= shift
            place = (sampling.at[record][late] - shift) // sampling.stride
            slopes[record][late, :, : len(moving)] += slope[place, :, : len(moving)]
            if record in places:
                slopes[record][late, :, places[record]] += slope[place, :, -1]
            for number, output in enumerate(sensed):
                part = slice(len(moving) + number * g, len(moving) + (number + 1) * g)
                slopes[record][late, output, part] += omega[place]
        return np.concatenate([slope[seen] for slope, seen in zip(slopes, sampling.seen, strict=True)])


def _power(E: Array, dE: Array, exponent: int) -> tuple[Array, Array]:
    """E^q (n, n) and its derivatives (p, n, n), by repeated squaring."""
    result: tuple[Array, Array] | None = None
    while True:
        if exponent & 1:
            result = (E, dE) if result is None else _times(result, (E, dE))
        exponent >>= 1
        if not exponent:
            assert result is not None, "an exponent of at least 1 has a bit"
            return result
        E, dE = _times((E, dE), (E, dE))


def _times(left: tuple[Array, Array], right: tuple[Array, Array]) -> tuple[Array, Array]:
    """Multiply two matrices that carry derivatives: (A B, A' B + A B')."""
    (A, dA), (B, dB) = left, right
    first = (dA.reshape(-1, A.shape[1]) @ B).reshape(len(dA), len(A), B.shape[1])
    return A @ B, first + A @ dB


def _respond(
    E: Array, dE: Array, out: Array, plain: Array, start: Array, count: int, moved: Array | None = None
) -> tuple[Array, Array]:
    """Derivatives of the outputs (count, h, p), and ω of the machines (count, g) from one start z₀ (n,); moved : ∂z₀ (n, p)."""
    n, p, h, g = len(E), len(dE), len(out), len(plain)
    length = 1
    while length * length < count:
        length *= 2
    # Rows [out; out E; …; out E^(length−1)] with their derivatives, by doubling; `plain` rides along without.
    rows = np.concatenate([out, plain])[None]
    d_rows = np.zeros((p, 1, h, n))
    P, dP = E, dE
    while len(rows) < length:
        flat = rows[:, :h].reshape(-1, n)
        d_next = (d_rows.reshape(-1, n) @ P).reshape(p, -1, h, n) + (flat @ dP).reshape(p, -1, h, n)
        rows, d_rows = np.concatenate([rows, rows @ P]), np.concatenate([d_rows, d_next], axis=1)
        P, dP = _times((P, dP), (P, dP))
    blocks = -(-count // length)
    Z, S = np.empty((n, blocks)), np.empty((blocks, n, p))
    Z[:, 0], S[0] = start, 0.0 if moved is None else moved
    for b in range(1, blocks):
        Z[:, b] = P @ Z[:, b - 1]
    push = (dP.reshape(-1, n) @ Z).reshape(p, n, blocks).transpose(2, 1, 0)
    for b in range(1, blocks):
        S[b] = P @ S[b - 1] + push[b - 1]
    O = rows[:, :h].reshape(-1, n)  # noqa: E741 - the observability matrix
    slopes = (d_rows.reshape(-1, n) @ Z).reshape(p, length, h, blocks).transpose(3, 1, 2, 0)
    slopes = slopes + (O @ S).reshape(blocks, length, h, p)
    omega = (rows[:, h:].reshape(-1, n) @ Z).reshape(length, g, blocks).transpose(2, 0, 1)
    return slopes.reshape(-1, h, p)[:count], omega.reshape(-1, g)[:count]
