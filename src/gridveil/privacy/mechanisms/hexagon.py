"""Noise of the hexagon norm: a pair of values that may change at once and matter unequally.

Its density is ∝ exp(−max(|y|, c|x| + (1 − c)|y|)) at scale 1, 0 < c < 1. Where both values
move by at most ε scales, the norm moves by ε at most: one loss for the pair. Where x alone moves,
by c ε (proof in docs/privacy.md).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from gridveil.foundation.errors import NOTHING_SPENT, OptionError
from gridveil.grid.facts import Array, IntArray
from gridveil.grid.parameters import PARAMETERS
from gridveil.privacy.epsilon import float_at_least, float_at_most
from gridveil.privacy.mechanisms.box import FEWEST, on_lattice, value_on
from gridveil.privacy.mechanisms.interface import (
    Asked,
    Calibration,
    GroupLoss,
    Noise,
    Sampler,
)
from gridveil.privacy.mechanisms.joint import Joint
from gridveil.privacy.mechanisms.laplace import opendp

FINEST = 2**36  # of the lattice, in units of p (r − p) steps to a scale, where c = p/r


@dataclass(frozen=True)
class Hexagon(Noise):
    """Noise of density exp(−max(|y|, c|x| + (1 − c)|y|)) / (4 (1 + t)) at scale 1, on rows (x, y).

    c : how much x alone weighs.
    place : which value is meant by one alone, 0 for x and 1 for y.

    With t = 1/c, y alone has the density (|y| + t) e^(−|y|) / (2 (1 + t)) and the variance
    (6 + 2t)/(1 + t); given y, x is uniform on ±|y| with probability |y|/(|y| + t), and otherwise
    beyond it by an exponential of scale t. x alone has the density
    (e^(−c|x|) − c e^(−|x|)) / (2 (1 − c) (1 + t)) and the variance 2 (t⁴ − 1)/(t² − 1).
    """

    c: Fraction
    place: int = 0
    measured_by = "make_laplace on integers, for noise of the hexagon norm"
    joint = True
    name = "hexagon norm"

    @property
    def reach(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Where the density of one value is below 1e-19 of its peak."""
        return 50.0 if self.place else 50.0 / float(self.c)

    @property
    def steps(self) -> int:
        """Steps of the lattice to a scale: over c, and over 1 − c, they are whole numbers."""
        p, r = self.c.numerator, self.c.denominator
        return p * (r - p) * FINEST

    @property
    def whole(self) -> Noise:
        """The law of the pair, whichever value is meant by one alone."""
        return replace(self, place=0)

    def calibrate(self, distance: Fraction, epsilon: Fraction, size: int) -> Calibration:  # noqa: ARG002
        """The least scale at which values so far apart are at most ε · steps steps apart.

        Privacy
        -------
        All in integers and fractions: the loss of a pair is the larger of its two distances in
        steps, over `steps`, which is at most ε.
        """
        spent = float_at_most(epsilon)
        most = math.floor(Fraction(spent) * self.steps)
        if most < FEWEST:
            raise OptionError(
                f"ε = {float(epsilon):g} is too small for noise of the hexagon norm.",
                outcome=NOTHING_SPENT,
                remedy="Choose an ε of 1e-5 or more for it.",
            )
        scale = float_at_least(distance * self.steps / most)
        assert self.cost(distance, scale) * self.steps <= most, "the scale is rounded up"
        return Calibration(scale, spent)

    def cost(self, distance: Any, scale: Any) -> Fraction:
        """Exact loss between values that are so far apart, roundings to the lattice included."""
        return Fraction(math.ceil(Fraction(distance) * self.steps / Fraction(scale)), self.steps)

    def measurement(self, size: int, scale: Any) -> Callable[[list[Any]], list[Any]]:
        """Round pairs (size, 2) to the lattice, add integers, and round the sum to a float once."""
        steps = [Fraction(float(one)) / self.steps for one in scale]
        assert len(steps) == 2, "a scale for each value of a pair"

        def add(rows: list[list[float]]) -> list[list[float]]:
            assert len(rows) == size, "as many rows as asked for"
            return [
                [
                    value_on(on_lattice(x, step) + z, step)
                    for x, z, step in zip(row, noise, steps, strict=True)
                ]
                for row, noise in zip(rows, integers(size, self.c), strict=True)
            ]

        return add

    def seeded(self, random: np.random.Generator, scale: Any, size: int | tuple[int, ...]) -> Array:
        """|y| a Gamma(2) with probability 1/(1 + t), else an exponential; then x given y. Pairs lie
        one after the other along the last axis.
        """
        shape = (size,) if isinstance(size, int) else size
        pairs, t = (*shape[:-1], shape[-1] // 2), 1 / float(self.c)
        y = random.gamma(np.where(random.random(pairs) * (1 + t) < 1, 2.0, 1.0))
        inside = random.random(pairs) * (y + t) < y
        x = np.where(inside, random.random(pairs) * y, y + random.exponential(t, pairs))
        signs = random.choice(np.array([-1.0, 1.0]), (*pairs, 2))
        return scale * (np.stack([x, y], axis=-1) * signs).reshape(shape)

    @property
    def deviation(self) -> float:
        """Of x, or of y."""
        t = 1 / float(self.c)
        return math.sqrt((6 + 2 * t) / (1 + t) if self.place else 2 * (t * t + 1))

    def cdf(self, z: Array) -> Array:
        """P(one value ≤ z) at scale 1."""
        tail = self._beyond(np.abs(z))
        return np.where(z < 0, tail, 1 - tail)

    def likelihood(self, apart: Array, scale: Array, clipped: Array) -> Array:
        """The density of one value alone, and at a clip value the tail beyond it."""
        z = apart / scale
        return np.where(clipped == 0, self._alone(np.abs(z)), self.cdf(clipped * z))

    def ratio(self, z: Array, loss: Any) -> Array:
        """Log-likelihood ratio of one value alone."""
        near, far = (self._alone(np.abs(z + by)) for by in (-loss / 2, loss / 2))
        return np.log(near) - np.log(far)

    def norm(self, rows: Array) -> Array:
        """max(|y|, c|x| + (1 − c)|y|) of pairs (..., 2)."""
        x, y, c = np.abs(rows[..., 0]), np.abs(rows[..., 1]), float(self.c)
        return np.maximum(y, c * x + (1 - c) * y)

    def ratio_of_rows(self, z: Array, losses: Array) -> Array:
        """N(z + losses/2) − N(z − losses/2) of pairs (..., 2)."""
        return self.norm(z + losses / 2) - self.norm(z - losses / 2)

    def advantage(self, losses: Sequence[float]) -> float:
        """1 − ∫ min(p, q) over the plane, p and q the densities at ± losses/2: by the midpoint
        rule, to 1e-3.

        >>> [round(Hexagon(Fraction(2, 5)).advantage([eps] * 2), 2) for eps in (0.5, 1, 2)]
        [0.17, 0.32, 0.56]
        """
        half, c = np.asarray(losses, dtype=np.float64) / 2, float(self.c)
        edge, points = 25.0, 1500
        y = edge * (2 * (np.arange(points) + 0.5) / points - 1)
        rows = np.stack(np.broadcast_arrays((y / c)[:, None], y), axis=-1)
        least = np.exp(-np.maximum(self.norm(rows - half), self.norm(rows + half)))
        cell = (2 * edge / points) ** 2 / c
        return float(1 - cell * least.sum() / (4 * (1 + 1 / c)))

    def independent(self, z: Array) -> Array:
        """The distribution function of x, and that of y given x (Rosenblatt).

        Given x, y has the density ∝ e^(−c|x| − (1 − c)|y|) up to |x|, and e^(−|y|) beyond it.
        """
        c, x, y = float(self.c), np.abs(z[..., 0]), np.abs(z[..., 1])
        flat = np.exp(-c * x)
        # ∫ beyond |y|, and the whole of one side
        outer = np.exp(-np.maximum(x, y))
        least = np.minimum(x, y)
        inner = flat * (np.exp(-(1 - c) * least) - np.exp(-(1 - c) * x)) / (1 - c)
        whole = np.exp(-x) + flat * -np.expm1(-(1 - c) * x) / (1 - c)
        tail = np.divide(outer + inner, 2 * whole, out=np.zeros(np.shape(x)), where=whole > 0)
        first = replace(self, place=0).cdf(z[..., 0])
        return np.stack([first, np.where(z[..., 1] < 0, tail, 1 - tail)], axis=-1)

    def _alone(self, z: Array) -> Array:
        """Density of one value at z ≥ 0."""
        c = float(self.c)
        if self.place:
            return (z + 1 / c) * np.exp(-z) / (2 * (1 + 1 / c))
        return np.exp(-c * z) * (1 - c * np.exp(-(1 - c) * z)) / (2 * (1 - c) * (1 + 1 / c))

    def _beyond(self, z: Array) -> Array:
        """P(one value > z), z ≥ 0."""
        c = float(self.c)
        t = 1 / c
        if self.place:
            return (z + 1 + t) * np.exp(-z) / (2 * (1 + t))
        return (np.exp(-c * z) / c - c * np.exp(-z)) / (2 * (1 - c) * (1 + t))


def integers(count: int, c: Fraction) -> list[tuple[int, int]]:
    """Draw pairs of integers with weight e^(−max(|y|, c|x| + (1 − c)|y|)/S) exactly, S = `steps`.

    A pair of discrete Laplaces, x of scale S/c and y of S/(1 − c), has the weight
    e^(−(c|x| + (1 − c)|y|)/S); it is kept with probability e^(−c max(0, |y| − |x|)/S), of which the
    share kept is 1 − c² or so. Pairs that are not kept are no part of the draw: one exact sample.
    """
    steps = Hexagon(c).steps
    wide = [int(steps / c), int(steps / (1 - c))]
    kept: list[tuple[int, int]] = []
    while missing := count - len(kept):
        x, y = (_laplaces(missing, scale) for scale in wide)
        kept += [
            (a, b) for a, b in zip(x, y, strict=True) if _happens(max(0, abs(b) - abs(a)), wide[0])
        ]
    return kept


def _laplaces(count: int, scale: int) -> list[int]:
    """Draw integers x with weight e^(−|x|/scale): OpenDP's discrete Laplace; scale : one that a
    float holds exactly.
    """
    from opendp.measurements import make_laplace

    dp = opendp()
    assert int(float(scale)) == scale, "the scale is exact"
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=count), dp.l1_distance(T="i64")
    return make_laplace(*space, scale=float(scale))([0] * count)


def _happens(times: int, of: int) -> bool:
    """True with probability e^(−times/of), exactly (Canonne, Kamath and Steinke): e^(−1) as often
    as it goes in, then the rest.
    """
    whole, rest = divmod(times, of)
    return all(_exponential(1, 1) for _ in range(whole)) and _exponential(rest, of)


def _exponential(part: int, of: int) -> bool:
    """True with probability e^(−part/of), part ≤ of: of trials of chance part/(of k), k = 1, 2, …,
    the first that fails has an odd number.
    """
    k = 1
    while secrets.randbelow(of * k) < part:
        k += 1
    return k % 2 == 1


@dataclass(frozen=True)
class Hexagonal(Joint):
    """Adds one pair of noise to the sums of two parameters, x and y in the registry's order.

    Privacy
    -------
    A sum moves by as much as its one entry does. Two neighbours of `one-asset` or of
    `one-per-group` differ in one entry of each parameter at most, of one machine or of two: in the
    pair of sums either way, and by ε at most.
    """

    noise: Hexagon  # pyright: ignore[reportGeneralTypeIssues]
    at_once = ("one-asset", "one-per-group")

    def law(self, together: int, place: int = 0) -> Noise:  # noqa: ARG002
        """The hexagon's, of a pair."""
        return replace(self.noise, place=place)

    def calibrate(self, part: Mapping[str, Asked]) -> dict[str, GroupLoss]:
        """Calibrate both for their one ε."""
        if len(part) != 2:
            raise OptionError(
                f"{self.name} was asked to draw {', '.join(part)}.",
                expected="the sums of two parameters of the machines, both by the same mechanism",
                outcome=NOTHING_SPENT,
            )
        return super().calibrate({name: part[name] for name in PARAMETERS if name in part})

    def loss(self, part: Mapping[str, GroupLoss], moved: Collection[str]) -> Fraction:
        """The one loss of the pair; c times it where x moves alone."""
        whole = super().loss(part, moved)
        places = {loss.place for name, loss in part.items() if name in moved}
        return self.noise.c * whole if places == {0} else whole

    def draw(
        self,
        prepared: Mapping[str, Array],
        part: Mapping[str, GroupLoss],
        sampler: Sampler,
        at: Mapping[str, IntArray],
    ) -> dict[str, Array]:
        """Draw the pair, x first."""
        ordered = sorted(prepared, key=lambda name: part[name].place)
        return super().draw({name: prepared[name] for name in ordered}, part, sampler, at)


HEXAGONS = tuple(
    Hexagonal(
        f"hexagon-{float(c):g}",
        Hexagon(c),
        "sum",
        f"their sum, jointly with the other, c = {c}",
        "their sum",
    )
    for c in (Fraction(n, 20) for n in (5, 6, 8, 12))
)
