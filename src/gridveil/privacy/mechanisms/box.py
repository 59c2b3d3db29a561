"""Noise of the box norm: d values that may all change at once, drawn jointly.

Its density is ∝ exp(−max |z_i|/b_i). Where every value moves by at most ε b_i, the norm moves by ε
at most, however many move: one loss for all of them (proof in docs/privacy.md).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from gridveil.foundation.errors import NOTHING_SPENT, OptionError
from gridveil.grid.facts import Array
from gridveil.privacy.epsilon import float_at_least, float_at_most
from gridveil.privacy.mechanisms.interface import Calibration, Noise
from gridveil.privacy.mechanisms.laplace import opendp

STEPS = 2**40  # of the lattice, to a scale: what is said of values t apart holds up to 1 / STEPS
FEWEST = 2**20  # steps that neighbours lie apart: a smaller ε would lose a millionth of itself


@dataclass(frozen=True)
class Box(Noise):
    """Noise of density exp(−max |z_i|) / (2^d d!) at scale 1, on each row of d values.

    d : how many values are drawn together; 0: not known, and only what does not depend on it can be
    asked.

    One value alone is uniform on ±R with R ~ Gamma(d + 1), so that its density is a sum over
    shells, S_d(|z|) / (2 d) with S_d(z) = e^(−z) Σ_{k<d} z^k / k!, and its variance
    (d + 1)(d + 2)/3.
    """

    d: int = 0
    name = "box norm"
    measured_by = "make_laplace on integers, for noise of the box norm"
    joint = True

    @property
    def reach(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Where S_d is below 1e-19: 45 scales for one value, some four more for each other."""
        return 45.0 + 4.0 * (self.known - 1)

    @property
    def known(self) -> int:
        """The dimension d."""
        if not self.d:
            raise OptionError(
                "How many values this noise was drawn for together is not known.",
                expected="the law of a loss, or mechanism.law(number of parameters)",
                outcome="Nothing was computed.",
            )
        return self.d

    def calibrate(self, distance: Fraction, epsilon: Fraction, size: int) -> Calibration:  # noqa: ARG002
        """The least scale at which values so far apart are at most ε · STEPS steps apart.

        Privacy
        -------
        All in integers and fractions: the loss is ⌈distance / step⌉ / STEPS, which is at most ε.
        """
        most = int(float_at_most(Fraction(math.floor(epsilon * STEPS))))  # a float holds it exactly
        if most < FEWEST:
            raise OptionError(
                f"ε = {float(epsilon):g} is too small for noise of the box norm.",
                outcome=NOTHING_SPENT,
                remedy="Choose an ε of 1e-6 or more for it.",
            )
        scale = float_at_least(distance * STEPS / most)
        assert self.cost(distance, scale) * STEPS <= most, "the scale is rounded up"
        return Calibration(scale, most / STEPS)

    def cost(self, distance: Any, scale: Any) -> Fraction:
        """Exact loss between values that are so far apart, roundings to the lattice included."""
        return Fraction(math.ceil(Fraction(distance) * STEPS / Fraction(scale)), STEPS)

    def measurement(self, size: int, scale: Any) -> Callable[[list[Any]], list[Any]]:
        """Round rows (size, d) to the lattice, add integers, and round the sum to a float once."""
        steps = [_step(one) for one in scale]
        assert len(steps) == self.known, "a scale for each value of a row"

        def add(rows: list[list[float]]) -> list[list[float]]:
            assert len(rows) == size, "as many rows as asked for"
            return [
                [
                    value_on(on_lattice(x, step) + z, step)
                    for x, z, step in zip(row, noise, steps, strict=True)
                ]
                for row, noise in zip(rows, integers(size, self.known), strict=True)
            ]

        return add

    def seeded(self, random: np.random.Generator, scale: Any, size: int | tuple[int, ...]) -> Array:
        """R ~ Gamma(d + 1), then each value of a row uniform on ±R; rows lie one after the other
        along the last axis.
        """
        shape = (size,) if isinstance(size, int) else size
        rows = (*shape[:-1], shape[-1] // self.known, self.known)
        radius = random.gamma(self.known + 1, size=(*rows[:-1], 1))
        return scale * (radius * random.uniform(-1, 1, size=rows)).reshape(shape)

    @property
    def deviation(self) -> float:
        """√((d + 1) (d + 2) / 3)."""
        return math.sqrt((self.known + 1) * (self.known + 2) / 3)

    def cdf(self, z: Array) -> Array:
        """P(one value ≤ z) at scale 1."""
        tail = _beyond(self.known, np.abs(z)) / (2 * self.known)
        return np.where(z < 0, tail, 1 - tail)

    def likelihood(self, apart: Array, scale: Array, clipped: Array) -> Array:
        """S_d(|x − y|/b), and at a clip value the tail beyond it: of one value alone."""
        z = apart / scale
        return np.where(clipped == 0, _shells(self.known, np.abs(z)), self.cdf(clipped * z))

    def ratio(self, z: Array, loss: Any) -> Array:
        """Log-likelihood ratio of one value alone."""
        near, far = (np.abs(z + by) for by in (-loss / 2, loss / 2))
        return (
            far
            - near
            + np.log(_polynomial(self.known, near))
            - np.log(_polynomial(self.known, far))
        )

    def ratio_of_rows(self, z: Array, losses: Array) -> Array:
        """Sum over rows of max |z + losses/2| − max |z − losses/2|; z (..., c), c / d rows."""
        rows = (-1, self.known)
        far, near = (
            np.abs(z + by).reshape(*z.shape[:-1], *rows).max(axis=-1)
            for by in (losses / 2, -losses / 2)
        )
        return (far - near).sum(axis=-1)

    def advantage(self, losses: Sequence[float]) -> float:
        """1 − e^(−a) ∫ e^(−s) Π (s + a − a_i) ds / d!, with a_i = losses/2 (0 of what stays) and
        a the largest: two neighbours overlap in c exp(−max(|z_i| + a_i)).

        Where all move by ε, it is 1 − e^(−ε/2), whatever d.

        >>> [round(Box(2).advantage([eps] * 2), 3) for eps in (0.5, 1, 2)]
        [0.221, 0.393, 0.632]
        """
        assert len(losses) <= self.known, "one row"
        half = np.zeros(self.known)
        half[: len(losses)] = np.asarray(losses) / 2
        terms = np.poly(half - half.max())[::-1]
        integral = sum(
            float(term) * math.factorial(power) for power, term in enumerate(terms.tolist())
        )
        return 1 - math.exp(-half.max()) * integral / math.factorial(self.known)

    def independent(self, z: Array) -> Array:
        """The distribution function of each value of a row given those before it (Rosenblatt).

        With m the largest of |those before|, the next of s = d − j that are left has a density ∝
        S_s(max(|t|, m)).
        """
        u, m = np.empty(z.shape), np.zeros(z.shape[:-1])
        for j in range(self.known):
            s, size = self.known - j, np.abs(z[..., j])
            flat = _shells(s, m)
            beyond = _beyond(s, np.maximum(size, m)) + np.maximum(m - size, 0.0) * flat
            whole = 2 * (_beyond(s, m) + m * flat)
            # far out, where no honest noise lies, all of it is 0
            tail = np.divide(beyond, whole, out=np.zeros(m.shape), where=whole > 0)
            u[..., j] = np.where(z[..., j] < 0, tail, 1 - tail)
            m = np.maximum(m, size)
        return u


def integers(count: int, d: int) -> list[list[int]]:
    """Draw rows z of d integers with weight q^(max |z_i|), q = e^(−1/STEPS), exactly.

    q^‖z‖ = (1 − q) Σ_{R ≥ ‖z‖} q^R, so that R has the weight (2R + 1)^d q^R, and given R, z is
    uniform in {−R … R}^d.
    """
    return [[secrets.randbelow(2 * R + 1) - R for _ in range(d)] for R in radii(count, d)]


def radii(count: int, d: int) -> list[int]:
    """Draw numbers R ≥ 0 with weight (2R + 1)^d q^R.

    A sum of d + 1 geometrics has the weight Π (R + i)/i q^R, i from 1 to d; it is kept with the
    rational probability Π (2R + 1)/(2R + 2i).
    """
    kept: list[int] = []
    while missing := count - len(kept):
        each = geometrics(missing * (d + 1))
        for start in range(0, len(each), d + 1):
            R = sum(each[start : start + d + 1])
            of = math.prod(2 * R + 2 * i for i in range(1, d + 1))
            if secrets.randbelow(of) < (2 * R + 1) ** d:
                kept.append(R)
    return kept


def geometrics(count: int) -> list[int]:
    """Draw numbers k ≥ 0 with weight q^k, of OpenDP's discrete Laplace of scale STEPS.

    Its value x has the weight q^|x|. Both k and −1 − k are taken for k: q^k + q^(k + 1) = (1 + q)
    q^k.
    """
    from opendp.measurements import make_laplace

    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=count), dp.l1_distance(T="i64")
    drawn = make_laplace(*space, scale=float(STEPS))([0] * count)
    return [x if x >= 0 else -1 - x for x in drawn]


def on_lattice(x: float, step: Fraction) -> int:
    """⌊x/step + ½⌋, exactly: values t apart come to lie ⌈t/step⌉ steps apart at most."""
    a, b = x.as_integer_ratio()
    p, q = step.numerator, step.denominator
    return (2 * a * q + b * p) // (2 * b * p)


def _step(scale: float) -> Fraction:
    return Fraction(float(scale)) / STEPS


def value_on(steps: int, step: Fraction) -> float:
    """The nearest float of so many steps: one rounding of an exact number."""
    try:
        return steps * step.numerator / step.denominator
    except OverflowError:
        return math.copysign(math.inf, steps)


def _polynomial(d: int, z: Array) -> Array:
    """Σ_{k<d} z^k / k!."""
    return _horner([1 / math.factorial(k) for k in reversed(range(d))], z)


def _shells(d: int, z: Array) -> Array:
    """S_d(z) = e^(−z) Σ_{k<d} z^k / k!, z ≥ 0."""
    return np.exp(-z) * _polynomial(d, z)


def _beyond(d: int, z: Array) -> Array:
    """∫_z^∞ S_d = d S_{d+1}(z) − z S_d(z) = e^(−z) Σ_{k<d} (d − k) z^k / k!."""
    terms = [(d - k) / math.factorial(k) for k in reversed(range(d))]
    return np.exp(-z) * _horner(terms, z)


def _horner(terms: Sequence[float], z: Array) -> Array:
    """Σ terms z^k, the highest power first."""
    total = np.zeros(np.shape(z))
    for term in terms:
        total = total * z + term
    return total
