"""Predicted records and their derivatives: forward sensitivities of the discrete scheme.

With z_{n+1} = E z_n, a parameter's sensitivity follows s_{n+1} = E s_n + E' z_n. In the
eigenvectors of the model both are sums of powers, so that any sample is read off directly and no
derivative of a matrix exponential is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.engine.lti import LTI
from gridveil.dynamics.engine.propagate import SCHEMES, SchemeName, step_responses
from gridveil.dynamics.engine.records import SampledRecords
from gridveil.dynamics.swing import DrivenSwingFamily
from gridveil.grid.facts import Array, IntArray
from gridveil.inference.fit.sampling import Sampling

Complex = NDArray[np.complex128]

# Eigenvalues closer than this share of how fast they fade count as one; the slowest fading that is
# looked at [1/s].
NEAR, SLOWEST = 1e-5, 1 / 30
# Where eigenvectors are worse conditioned than this, the model is nudged by this relative amount.
WORST_CONDITION, NUDGE = 1e9, 1e-10
# Numbers that are worked on at a time.
CHUNK = 8_000_000
# Late by how much, for records whose event may be [s].
ON_TIME: Mapping[int, float] = {}


def _exact(values: Complex, dt: float) -> tuple[Complex, Complex]:
    factors: Complex = np.exp(dt * values).astype(np.complex128)
    return factors, (dt * factors).astype(np.complex128)


def _trapezoidal(values: Complex, dt: float) -> tuple[Complex, Complex]:
    below = 1 - 0.5 * dt * values
    return (1 + 0.5 * dt * values) / below, dt / below**2


def _euler(values: Complex, dt: float) -> tuple[Complex, Complex]:
    return 1 + dt * values, np.full_like(values, dt)


# The schemes of the engine for one eigenvalue: μ(λ) and dμ/dλ.
STEPS: Mapping[SchemeName, Callable[[Complex, float], tuple[Complex, Complex]]] = {
    "exact": _exact,
    "trapezoidal": _trapezoidal,
    "euler": _euler,
}


class Predictor:
    """Records as a function of θ = (k_r, m, d, u) and of shares `sense` (h, g) of the machines' ω.

    delays : how late the event of some records came [s]; its first step is one of the scheme over
    what is left of that step.
    """

    def __init__(
        self, family: DrivenSwingFamily, records: SampledRecords, *, dt_s: float, scheme: SchemeName
    ) -> None:
        self.family = family
        self.records = records
        self.dt_s = dt_s
        self.scheme: SchemeName = scheme

    def sampling(self, thin: int = 1, until: int | None = None) -> Sampling:
        """Choose the samples to compare: every thin-th, up to `until` steps after the event."""
        return Sampling.of(self.records, thin, until)

    def values(
        self, theta: Array, sense: Array, sampling: Sampling, delays: Mapping[int, float] = ON_TIME
    ) -> Array:
        """Predict the records at θ: (rows,) [p.u.]."""
        lti = self.family.lti(theta)
        seen = LTI(lti.F, sense @ lti.H, lti.states)
        records, starts = self.records, None
        if delays:
            late = [
                self._late(shift, delays.get(record, 0.0), 1) for record, shift, _ in records.steps
            ]
            starts = np.stack(
                [
                    self._start(lti, i, part)
                    for i, (_, part) in zip(records.inputs, late, strict=True)
                ],
                axis=1,
            )
            moved = zip(records.steps, late, strict=True)
            records = replace(
                records,
                steps=tuple((record, shift, column) for (record, _, column), (shift, _) in moved),
            )
        clock = {"dt_s": self.dt_s, "scheme": self.scheme}
        fine = step_responses(seen, records.inputs, records.samples, **clock, start=starts)
        values = records.predict(fine)
        taken = zip(values, sampling.at, sampling.seen, strict=True)
        return np.concatenate([value[at][seen] for value, at, seen in taken])

    def _late(self, shift: int, delay_s: float, stride: int) -> tuple[int, float]:
        """First of every stride-th sample that a delayed step acts on, and the steps since then."""
        delay = delay_s / self.dt_s
        whole = stride * ceil(delay / stride - 1e-12)
        return shift + whole, max(whole - delay, 0.0)

    def _start(self, lti: LTI, column: int, part: float) -> Array:
        """Give z (n + s,) some part of a step after a unit step of an input."""
        start = np.zeros(lti.F.shape[-1])
        start[lti.states + column] = 1.0
        return SCHEMES[self.scheme](lti.F, part * self.dt_s)[0] @ start

    def slopes(
        self,
        theta: Array,
        sense: Array,
        sampling: Sampling,
        moving: IntArray,
        sensed: IntArray,
        delays: Mapping[int, float] = ON_TIME,
    ) -> Array:
        """Slopes of records (rows, ·) by θ's `moving` entries, `sensed` shares and delays."""
        h, g = sense.shape
        left, right = self.family.directions(theta, moving)
        modes = Modes.of(self.family.lti(theta), self.scheme, self.dt_s)
        plain = len(moving) + len(sensed) * g
        slopes = [np.zeros((len(at), h, plain + len(delays))) for at in sampling.at]
        places = {record: plain + number for number, record in enumerate(delays)}
        clocks: dict[float, Array] = {}
        known: dict[tuple[int, float], tuple[Array, Array]] = {}
        begun = [
            self._late(declared, delays.get(record, 0.0), sampling.stride)
            for record, declared, _ in self.records.steps
        ]
        numbers = [record for record, _, _ in self.records.steps]
        times, looked_at = sampling.after(
            [(record, shift) for record, (shift, _) in zip(numbers, begun, strict=True)]
        )
        for (record, _, column), (_, since), (late, place) in zip(
            self.records.steps, begun, looked_at, strict=True
        ):
            if since not in clocks:
                clocks[since] = modes.clock(times, sampling.stride, since)
            if (column, since) not in known:
                clock = clocks[since]
                known[column, since] = (
                    modes.slopes(clock, sense, left, right, column),
                    modes.omega(clock, g, column),
                )
            slope, omega = known[column, since]
            slopes[record][late, :, : len(moving)] += slope[place]
            if record in places:
                hurry = modes.hurry(times, sampling.stride, since)
                slopes[record][late, :, places[record]] -= (
                    modes.omega(hurry, g, column) @ sense.T
                )[place]
            for number, output in enumerate(sensed):
                part = slice(len(moving) + number * g, len(moving) + (number + 1) * g)
                slopes[record][late, output, part] += omega[place]
        return np.concatenate(
            [slope[seen] for slope, seen in zip(slopes, sampling.seen, strict=True)]
        )


@dataclass(frozen=True, eq=False)
class Modes:
    """A model in its eigenvectors, F = V diag(λ) V⁻¹, and its scheme in them: μ(λ) a step.

    If F moves by a bᵀ, then μ(F)ⁿ moves by V (Φ ∘ V⁻¹ a bᵀ V) V⁻¹ with Φ_il = (μ_iⁿ − μ_lⁿ) / (λ_i
    − λ_l): sums of μ_iⁿ and of n μ_iⁿ⁻¹ μ'_i whose factors do not depend on n. Where two λ are
    equal, or nearly, Φ_il is the mean of their two slopes.

    values, factors, rates : (n,) λ, μ, dμ/dλ.
    near : (n, n) pairs that count as equal.
    inputs : where the inputs' λ = 0 begin.
    scheme, dt_s : by which μ steps [s].
    """

    values: Complex
    factors: Complex
    rates: Complex
    V: Complex
    inverse: Complex
    near: NDArray[np.bool_]
    inputs: int
    scheme: SchemeName
    dt_s: float

    @classmethod
    def of(cls, lti: LTI, scheme: SchemeName, dt_s: float) -> Modes:
        """Decompose A; the inputs add λ = 0 with eigenvectors of their own, [−A⁻¹ B; 1]."""
        A, B = lti.F[: lti.states, : lti.states], lti.F[: lti.states, lti.states :]
        values, V = np.linalg.eig(A)
        inverse = _inverted(V)
        if inverse is None:
            # two modes about to meet: a model next to it has them apart
            nudge = NUDGE * np.random.default_rng(0).standard_normal(A.shape)
            values, V = np.linalg.eig(A + nudge * np.abs(A).max())
            inverse = np.linalg.inv(V)
        still = np.linalg.solve(A, B)
        n, s = B.shape
        whole, whole_inverse = np.zeros((2, n + s, n + s), dtype=complex)
        whole[:n, :n], whole[:n, n:], whole[n:, n:] = V, -still, np.eye(s)
        whole_inverse[:n, :n], whole_inverse[:n, n:], whole_inverse[n:, n:] = (
            inverse,
            inverse @ still,
            np.eye(s),
        )
        every: Complex = np.concatenate([values, np.zeros(s)]).astype(np.complex128)
        apart = np.abs(every[:, None] - every)
        fading = np.maximum(np.maximum(-every.real, -every.real[:, None]), SLOWEST)
        return cls(
            every,
            *STEPS[scheme](every, dt_s),
            whole,
            whole_inverse,
            apart < NEAR * fading,
            n,
            scheme,
            dt_s,
        )

    @cached_property
    def kept(self) -> IntArray:
        """One mode of each conjugate pair, and the real ones."""
        return np.flatnonzero(self.values.imag >= 0)

    def clock(self, times: IntArray, stride: int, since: float = 0.0) -> Array:
        """(times, 4 kept): what the real and imaginary parts of a mode's two factors are multiplied
        by.

        times : in strides from the first sample.
        since : steps between the event and the first sample; a part of a step comes first, then
        whole ones.
        """
        number, part = self._steps(times, stride, since)
        twice, factors, rates = self._twice, self.factors[self.kept], self.rates[self.kept]
        begun, bend = STEPS[self.scheme](self.values[self.kept] * part * self.dt_s, 1.0)
        powers = _powers(factors, int(since), stride, times)
        plain = twice * begun * powers
        once = (number == 1) + np.zeros_like(powers)  # μⁿ⁻¹ where μ = 0
        before = np.divide(powers, factors, out=once, where=factors != 0)
        slope = (twice * rates * begun) * (number * before)
        if part:
            slope += (twice * bend * part * self.dt_s) * powers
        return np.concatenate([plain.real, -plain.imag, slope.real, -slope.imag], axis=1)

    def hurry(self, times: IntArray, stride: int, since: float) -> Array:
        """(times, 2 kept): the same for the slope of ω by the time since the event [1/s]."""
        part = self._steps(times, stride, since)[1]
        values = self.values[self.kept]
        bend = STEPS[self.scheme](values * part * self.dt_s, 1.0)[1]
        powers = _powers(self.factors[self.kept], int(since), stride, times)
        slope = self._twice * powers * values * bend
        return np.concatenate([slope.real, -slope.imag], axis=1)

    def _steps(self, times: IntArray, stride: int, since: float) -> tuple[IntArray, float]:
        """Whole steps up to each sample (times, 1), and the part of a step before them."""
        return int(since) + stride * times[:, None], since - int(since)

    @property
    def _twice(self) -> Array:
        """2 for a mode that stands for a pair."""
        return np.where(self.values[self.kept].imag > 0, 2.0, 1.0)

    def omega(self, clock: Array, g: int, column: int) -> Array:
        """ω of the machines (times, g) after a unit step of one input."""
        parts = (self.V[:g] * self.inverse[:, self.inputs + column])[:, self.kept].T
        return clock[:, : 2 * len(self.kept)] @ np.concatenate([parts.real, parts.imag])

    def _beside(self, A: Complex) -> Complex:
        """A (..., n) summed over the modes that count as equal to each one kept: mostly itself."""
        near = self.near[:, self.kept]
        crowded = np.flatnonzero(near.sum(axis=0) > 1)
        found = np.ascontiguousarray(A[..., self.kept])
        if len(crowded):
            found[..., crowded] = A @ near[:, crowded].astype(float)
        return found

    def slopes(self, clock: Array, sense: Array, left: Array, right: Array, column: int) -> Array:
        """Slopes of sense · ω (times, h, p) after a unit step of one input, for F moving by
        [left_p; 0] right_pᵀ.
        """
        (h, g), kept = sense.shape, self.kept
        gap = self.values[:, None] - self.values
        cauchy = np.where(self.near, 0.0, 1 / np.where(self.near, 1.0, gap))
        seen = sense @ self.V[:g]  # (h, n)
        # (p, n): each parameter's signal, mode by mode
        felt = _by_real(right, self.V) * self.inverse[:, self.inputs + column]
        entered = _by_real(left, self.inverse[:, :g].T)  # (p, n): what it does to each mode
        # By machine, since every parameter acts on one or two: (g, h, kept), then (p, ·).
        paths = self.inverse[:, :g].T[:, None, :] * seen
        crossed = np.ascontiguousarray(-(paths @ cauchy[:, kept])).reshape(g, -1).view(float)
        met = (0.5 * self._beside(paths)).reshape(g, -1).view(float)
        own, far, close = felt[:, kept], felt @ cauchy[kept].T, 0.5 * self._beside(felt)
        entered, seen = np.ascontiguousarray(entered[:, kept]), np.ascontiguousarray(seen[:, kept])
        out = np.empty((len(clock), h, len(left)))
        size = max(1, CHUNK // (4 * h * len(kept)))
        for first in range(0, len(left), size):
            part = slice(first, first + size)
            share = entered[part, None] * seen  # (p, h, kept)
            factors = np.empty((*share.shape[:2], 4, share.shape[2]))
            for place, path, signal in ((0, crossed, far), (2, met, close)):
                across: Complex = (left[part] @ path).view(np.complex128).reshape(share.shape)
                across *= own[part, None]
                across += share * signal[part, None]
                factors[:, :, place], factors[:, :, place + 1] = across.real, across.imag
            sums = clock @ factors.reshape(-1, clock.shape[1]).T
            out[:, :, part] = sums.reshape(len(clock), -1, h).transpose(0, 2, 1)
        return out


def _inverted(V: Complex) -> Complex | None:
    """V⁻¹, or None where V is too badly conditioned. |V| |V⁻¹| by Frobenius is never less than the
    condition number, whose singular values cost as much as the eigenvectors.
    """
    try:
        inverse: Complex = np.linalg.inv(V).astype(np.complex128, copy=False)
    except np.linalg.LinAlgError:
        return None
    most = np.linalg.norm(V) * np.linalg.norm(inverse)
    if not most <= WORST_CONDITION and np.linalg.cond(V) > WORST_CONDITION:
        return None
    return inverse


def _by_real(A: Array, Z: Complex) -> Complex:
    """A Z of a real A, in half the time of complex numbers."""
    return (A @ np.ascontiguousarray(Z).view(float)).view(np.complex128)


def _powers(factors: Complex, first: int, stride: int, times: IntArray) -> Complex:
    """μ^(first + stride n) (times, modes), as products of two short tables: a power of a complex
    number takes as long as twenty products.
    """
    count = int(times.max(initial=0)) + 1
    width = ceil(count**0.5)
    short = factors ** (stride * np.arange(width)[:, None])
    long = factors ** (first + stride * width * np.arange(-(-count // width))[:, None])
    return long[times // width] * short[times % width]
