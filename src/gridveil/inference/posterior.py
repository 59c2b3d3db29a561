"""What a clipped noisy release says about the values behind it: free, since it is post-processing
of public numbers.

With y = clip(x + noise, lower, upper), x in the public box and a log-uniform prior on it,

    p(x | y) ∝ likelihood(x − y) / x   on [lower, upper],

in s = log x a smooth function on either side of log y, which Gauss-Legendre quadrature integrates
to rounding. The mechanism's noise gives the likelihood, at clip values too. Where it was added to
logarithms, log x − log y stands in place of x − y. A sum of g items has a box g times as large.

Estimates of a release use the priors of `gridveil.inference.prior` in place of 1/x: of sums, and of
lines.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np

from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array, IntArray, frozen
from gridveil.grid.parameters import FLOOR, PARAMETERS, Bounds, Range
from gridveil.grid.tables import PublicTable
from gridveil.inference.prior import LOG_UNIFORM, WIDTHS, Prior, prior_of
from gridveil.privacy.allocation import machine_shares
from gridveil.privacy.mechanisms import USUAL, GroupLoss, Noise
from gridveil.privacy.noisy import NoisyGrid

Start = Literal["posterior", "clipped"]
# Points on each side of y for moments, and cells on each side for sampling.
POINTS, CELLS, POINTS_A_CELL = 96, 64, 8
NEWTON_STEPS = 4


@dataclass(frozen=True, eq=False)
class Posterior:
    """p(x | y) ∝ likelihood(x − y) / x on [lower, upper], for each of n items independently.

    y : (n,) clipped noisy values.
    scale : (n,) of the noise, inf where there is no release (the prior alone);
    lower, upper : (n,) the public box, 0 < lower < upper. All in the group's unit.
    relative : whether the noise was added to log x; then the scale has no unit.
    noise : its law.
    signed : whether values below 0 have a meaning: the prior is then uniform on the box.
    prior : of log x on the box, where values have no sign.

    >>> belief = Posterior.of(y=[1.0, 50.0], scale=6.0, lower=1.0, upper=100.0)
    >>> belief.mean.round(3)
    array([ 3.695, 48.188])
    """

    y: Array
    scale: Array
    lower: Array
    upper: Array
    relative: bool = False
    noise: Noise = USUAL
    signed: bool = False
    prior: Prior = LOG_UNIFORM

    @classmethod
    def of(
        cls,
        y: Any,
        scale: Any,
        lower: Any,
        upper: Any,
        *,
        relative: bool = False,
        noise: Noise = USUAL,
        signed: bool = False,
        prior: Prior = LOG_UNIFORM,
    ) -> Posterior:
        """Bring numbers or arrays to one shape (n,); a box from 0 starts at a thousandth of its
        upper end.
        """
        values, b, low, high = (
            np.array(part)
            for part in np.broadcast_arrays(*map(np.atleast_1d, (y, scale, lower, upper)))
        )
        if not signed:
            low = np.where(low == 0, FLOOR * high, low)
        placed = not relative and prior == LOG_UNIFORM if signed else (low > 0).all()
        if not ((low < high).all() and placed and (b > 0).all() and np.isfinite(values).all()):
            raise OptionError(
                "A posterior needs finite values, positive scales and a box 0 <= lower < upper, or "
                "one with a sign, noise in its unit and no prior of logarithms.",
                outcome="Nothing was computed.",
            )
        y, b, low, high = (
            frozen(part.astype(np.float64)) for part in (np.clip(values, low, high), b, low, high)
        )
        return cls(y, b, low, high, relative, noise, signed, prior)

    @classmethod
    def behind(
        cls, y: Any, loss: GroupLoss, public: Range, prior: Prior = LOG_UNIFORM
    ) -> Posterior:
        """Of what a mechanism drew; public : bounds of it."""
        return cls.of(
            y,
            loss.scale,
            public.lower,
            public.upper,
            relative=loss.relative,
            noise=loss.noise,
            signed=public.signed,
            prior=prior,
        )

    @property
    def estimate(self) -> Array:
        """What stands for x in a release (n,): E[x | y], or exp(E[log x | y]) where the prior says
        so. It grows with y.
        """
        return np.exp(self.log_mean) if self.prior.geometric else self.mean

    @cached_property
    def mean(self) -> Array:
        """E[x | y] (n,): the estimate with the least mean square error."""
        return self._expect(self._points)

    @cached_property
    def variance(self) -> Array:
        """Var[x | y] (n,)."""
        return self._expect((self._points - self.mean[:, None]) ** 2)

    @cached_property
    def log_mean(self) -> Array:
        """E[log x | y] (n,), of what has a logarithm."""
        return self._expect(np.log(self._points))

    @cached_property
    def log_variance(self) -> Array:
        """Var[log x | y] (n,)."""
        return self._expect((np.log(self._points) - self.log_mean[:, None]) ** 2)

    def sample(self, random: np.random.Generator, count: int) -> Array:
        """Draw (count, n) values by the inverse of the distribution function; for simulation, never
        as privacy noise.
        """
        return self.quantile(random.random((count, len(self.y))))

    def quantile(self, share: Array) -> Array:
        """Invert the distribution function: x with P(X <= x | y) = share, for share (..., n) in [0,
        1].
        """
        edges, mass = self.cells
        below = np.concatenate([np.zeros((len(mass), 1)), np.cumsum(mass, axis=1)], axis=1)
        target = share * below[:, -1]
        items = np.broadcast_to(np.arange(len(self.y)), target.shape)
        cell = (target[..., None] >= below[:, 1:-1]).sum(axis=-1)
        start, end = edges[items, cell], edges[items, cell + 1]
        missing, whole = target - below[items, cell], mass[items, cell]
        part = np.divide(missing, whole, out=np.zeros_like(missing), where=whole > 0)
        s = start + part * (end - start)
        node, weight = _unit_rule(POINTS_A_CELL)
        for _ in range(NEWTON_STEPS):
            # on the integral from the cell's start, which is exact to rounding
            inner = start[..., None] + (s - start)[..., None] * node
            found = (s - start) * (self._density(inner, items[..., None]) @ weight)
            slope = self._density(s, items)
            s = np.clip(
                s + np.divide(missing - found, slope, out=np.zeros_like(s), where=slope > 0),
                start,
                end,
            )
        return np.clip(self._value(s), self.lower, self.upper)

    def _density(self, s: Array, items: IntArray) -> Array:
        """Density of s = log x (signed: of x itself) up to a factor: likelihood times prior."""
        apart = s - np.log(self.y[items]) if self.relative else self._value(s) - self.y[items]
        likelihood = self.noise.likelihood(apart, self.scale[items], self._clipped[items])
        if self.prior == LOG_UNIFORM:
            return likelihood
        low, high = np.log(self.lower[items]), np.log(self.upper[items])
        return likelihood * self.prior.density(s, low, high)

    def _value(self, s: Array) -> Array:
        """The x of a coordinate in which the prior is uniform."""
        return s if self.signed else np.exp(s)

    @cached_property
    def _clipped(self) -> Array:
        """−1 where y is the lower clip value, 1 where it is the upper one, else 0; (n,)."""
        return (self.y >= self.upper).astype(np.float64) - (self.y <= self.lower)

    @cached_property
    def _sides(self) -> tuple[Array, Array, Array]:
        """Coordinate of where the density starts, of y, and of where it ends (n,): the box, or the
        noise's reach from y.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            reach = self.noise.reach * self.scale
            down, up = (
                (self.y * np.exp(-reach), self.y * np.exp(reach))
                if self.relative
                else (self.y - reach, self.y + reach)
            )
            low, high = np.fmax(self.lower, down), np.fmin(self.upper, up)
        return (low, self.y, high) if self.signed else (np.log(low), np.log(self.y), np.log(high))

    @cached_property
    def _quadrature(self) -> tuple[Array, Array]:
        """Points x (n, parts · POINTS) and weights that sum to 1: p(x | y) dx."""
        cuts = np.stack(self._sides, axis=1)
        if self.prior != LOG_UNIFORM and (
            peak := self.prior.peak(np.log(self.lower), np.log(self.upper))
        ):
            # a narrow prior needs points of its own
            centre, width = peak
            ends = np.stack([centre - WIDTHS * width, centre, centre + WIDTHS * width], axis=1)
            ends = np.clip(ends, cuts[:, :1], cuts[:, -1:])
            cuts = np.sort(np.concatenate([cuts, ends], axis=1), axis=1)
        start, length = cuts[:, :-1, None], np.diff(cuts)[..., None]
        node, weight = _unit_rule(POINTS)
        s = (start + length * node).reshape(len(cuts), -1)
        density = self._density(s, np.arange(len(self.y))[:, None])
        mass = density * (length * weight).reshape(s.shape)
        return self._value(s), mass / mass.sum(axis=1, keepdims=True)

    @property
    def _points(self) -> Array:
        return self._quadrature[0]

    def _expect(self, values: Array) -> Array:
        return np.vecdot(values, self._quadrature[1])

    @cached_property
    def cells(self) -> tuple[Array, Array]:
        """Edges (n, 2 CELLS + 1) in log x, and the mass of each cell (n, 2 CELLS), not
        normalised.
        """
        low, middle, high = (side[:, None] for side in self._sides)
        step = np.arange(CELLS + 1) / CELLS
        edges = np.concatenate(
            [low + (middle - low) * step, middle + (high - middle) * step[1:]], axis=1
        )
        width = np.diff(edges)
        node, weight = _unit_rule(POINTS_A_CELL)
        inner = edges[:, :-1, None] + width[..., None] * node
        return edges, width * (self._density(inner, np.arange(len(self.y))[:, None, None]) @ weight)


@cache
def _unit_rule(points: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    node, weight = np.polynomial.legendre.leggauss(points)
    return 0.5 * (node + 1), 0.5 * weight


def beliefs(noisy: NoisyGrid[Any]) -> dict[str, Posterior]:
    """Posterior of what was drawn of each group, of either family, with a prior that is log-uniform
    (of a signed box: uniform): of its items, of its sum or mean, or (of no item at all) nothing but
    the prior. A fit starts from it.

    Of what was drawn jointly, each value by its own marginal: what a row's other values tell of its
    size is left out.

    Privacy
    -------
    Uses the noisy values, the public bounds and the public noise scales only: data-independent
    post-processing.
    """
    found: dict[str, Posterior] = {}
    for name in noisy.facts.parameters:
        public, loss = noisy.range(name), noisy.guarantee.groups.get(name)
        if loss is None:
            found[name] = _prior(noisy.facts.sizes[name], public)
            continue
        found[name] = Posterior.behind(noisy.values[name], loss, public)
    return found


def seed_of(noisy: NoisyGrid[Any]) -> int:
    """A public seed for draws of a release's posterior: a function of the release, other for each.

    With one seed for all releases, a band of few members would miss more than it says in one
    direction, always, and less in another.

    Privacy
    -------
    Uses what was drawn with noise alone: post-processing.
    """
    seed = 0
    for name in sorted(noisy.guarantee.groups):
        seed = zlib.crc32(np.asarray(noisy.values[name], dtype="<f8").tobytes(), seed)
    return seed


def no_release(sizes: Mapping[str, int], bounds: Bounds) -> dict[str, Posterior]:
    """What is believed without any release: the log-uniform prior on the public bounds, the control
    of every fit.
    """
    return {name: _prior(sizes[name], bounds[name]) for name in PARAMETERS}


def _prior(size: int, public: Range) -> Posterior:
    return Posterior.of(
        np.full(size, public.upper), np.inf, public.lower, public.upper, signed=public.signed
    )


def posterior_mean(noisy: NoisyGrid) -> PublicTable:
    """Make a whole table of what was drawn: estimates of items, a sum's shared out, a mean's for
    all, the box's middle for no draw at all.

    A machine's share may leave the items' bounds; it is not cut off there, since the sum would then
    be another.
    """
    table: dict[str, Array] = {}
    for name, entries in noisy.facts.sizes.items():
        takes, loss = noisy.allocation.of(name).takes, noisy.guarantee.groups.get(name)
        if loss is None:
            table[name] = np.full(entries, middle(noisy.range(name)))
            continue
        prior = prior_of(name, takes, entries)
        found = Posterior.behind(noisy.values[name], loss, noisy.range(name), prior).estimate
        if takes == "sum":
            found = found * machine_shares(noisy.facts, noisy.allocation.sharing)
        table[name] = np.full(entries, found[0]) if takes == "mean" else found
    return PublicTable(noisy.facts, table)


def middle(public: Range) -> float:
    """Geometric middle of public bounds: the median under a log-uniform prior."""
    return math.sqrt(public.least * public.upper)
