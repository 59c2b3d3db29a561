"""Items that may be alike: log x_i = μ + τ t_i on the public box, μ uniform on it, τ half-normal,
t_i of Student's law with two degrees of freedom: most are alike, and one may stand for a whole grid
behind it.

Of items drawn with noise, the posterior of (μ, τ) is summed up on a grid; given both, the items are
independent, each on the cells of its own `Posterior`. So draws are exact up to the grids' width.
Where a sum alone was drawn, one machine may well stand for a grid behind it: as likely as not, one
has a factor e^u more, u uniform up to the width of the box.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gridveil.grid.facts import Array
from gridveil.inference.posterior import Posterior, beliefs
from gridveil.privacy.noisy import NoisyGrid

TAU = 0.7  # scale of the half-normal law of τ
# Points of μ on the box, and quantiles of τ.
PLACES, WIDTHS = 48, 16
LONE = 0.5  # how likely it is that one machine stands out, where a sum alone was drawn
# A machine's share is at least e^-12 of the largest: Student's law alone would let one vanish.
FURTHEST_BEHIND = -12.0
ITEMS = 500  # whose masses are kept
# For a split: tables of the prior; how many have nearly a given sum; of them, those that are tried
# until one, scaled to the sum, keeps every machine within the box; and draws of how far one stands
# out.
TABLES, NEAREST, TRIES, OUT = 8192, 256, 32, 16


@dataclass(frozen=True, eq=False)
class Alike:
    """Posterior of items that may be alike, in the place of a `Posterior` of items on their own.

    each : the items on their own, with a log-uniform prior, all with one box.
    """

    each: Posterior

    @property
    def y(self) -> Array:
        """(n,) clipped noisy values."""
        return self.each.y

    @property
    def scale(self) -> Array:
        """(n,) of the noise."""
        return self.each.scale

    @property
    def relative(self) -> bool:
        """Whether the noise was added to log x."""
        return self.each.relative

    @property
    def lower(self) -> Array:
        """(n,) of the public box."""
        return self.each.lower

    @property
    def upper(self) -> Array:
        """(n,) of the public box."""
        return self.each.upper

    @cached_property
    def mean(self) -> Array:
        """E[x | y] (n,)."""
        return np.vecdot(self._weights, np.exp(self._centres))

    @cached_property
    def variance(self) -> Array:
        """Var[x | y] (n,)."""
        return np.vecdot(self._weights, (np.exp(self._centres) - self.mean[:, None]) ** 2)

    @cached_property
    def log_mean(self) -> Array:
        """E[log x | y] (n,)."""
        return np.vecdot(self._weights, self._centres)

    @cached_property
    def log_variance(self) -> Array:
        """Var[log x | y] (n,)."""
        return np.vecdot(self._weights, (self._centres - self.log_mean[:, None]) ** 2)

    def sample(self, random: np.random.Generator, count: int) -> Array:
        """Draw (count, n) values; for simulation, never as privacy noise."""
        chosen = random.choice(len(self._of_common), size=count, p=self._of_common)
        edges = self._cells[0]
        out = np.empty((count, len(edges)))
        for item, given in enumerate(self._given_each()):
            below = np.cumsum(given[chosen], axis=1)
            share = random.random((count, 1)) * below[:, -1:]
            cell = np.minimum((share >= below).sum(axis=1), below.shape[1] - 1)
            start, end = edges[item, cell], edges[item, cell + 1]
            out[:, item] = np.exp(start + random.random(count) * (end - start))
        return out

    @cached_property
    def _cells(self) -> tuple[Array, Array]:
        """Edges (n, c + 1) in log x, and the likelihood's mass in each cell (n, c)."""
        return self.each.cells

    @property
    def _centres(self) -> Array:
        edges = self._cells[0]
        return 0.5 * (edges[:, 1:] + edges[:, :-1])

    @cached_property
    def _common(self) -> tuple[Array, Array]:
        """μ and τ (q,) of every point of the grid."""
        low, high = np.log(self.each.lower[0]), np.log(self.each.upper[0])
        places = low + (high - low) * (np.arange(PLACES) + 0.5) / PLACES
        mu, tau = np.meshgrid(places, half_normal((np.arange(WIDTHS) + 0.5) / WIDTHS))
        return mu.ravel(), tau.ravel()

    def common_of(self, logs: Array, random: np.random.Generator) -> int:
        """Draw what items with these logarithms (n,) have in common: its place on the grid."""
        mu, tau = (part[:, None] for part in self._common)
        t = (logs - mu) / tau
        # Student's density with two degrees of freedom, of what lies within the box
        each = -1.5 * np.log1p(0.5 * t * t) - np.log(tau) - np.log(self._inside)
        weight = each.sum(axis=1)
        weight = np.exp(weight - weight.max())
        return int(random.choice(len(weight), p=weight / weight.sum()))

    def cells_given(self, common: int) -> tuple[Array, Array]:
        """Edges (n, c + 1) in log x, and the mass of each cell (n, c) given what is in common."""
        mu, tau = (part[common] for part in self._common)
        edges, mass = self._cells
        prior = np.diff(student((edges - mu) / tau))
        return edges, prior * mass / np.maximum(np.diff(edges), 1e-300)

    @cached_property
    def _inside(self) -> Array:
        """The prior's mass within the box at each (μ, τ), (q, 1)."""
        mu, tau = (part[:, None] for part in self._common)
        box = np.log([self.each.lower[0], self.each.upper[0]])
        return np.diff(student((box - mu) / tau))

    def _given_of(self, item: int) -> Array:
        """Mass of each cell of an item at each (μ, τ), (q, c)."""
        mu, tau = (part[:, None] for part in self._common)
        edges, mass = (part[item] for part in self._cells)
        # the prior's own mass in a cell over the cell's width, so that a narrow prior is not missed
        prior = np.diff(student((edges - mu) / tau))
        prior *= mass / np.maximum(np.diff(edges), 1e-300)
        prior /= self._inside
        return prior

    @cached_property
    def _given(self) -> list[Array]:
        return [self._given_of(item) for item in range(len(self.each.y))]

    def _given_each(self) -> Iterable[Array]:
        """`_given_of` each item: kept, unless it takes gigabytes."""
        count = len(self.each.y)
        return self._given if count <= ITEMS else map(self._given_of, range(count))

    @cached_property
    def _totals(self) -> Array:
        """Mass of each item over all its cells at each (μ, τ), (n, q)."""
        return np.maximum([given.sum(axis=1) for given in self._given_each()], 1e-300)

    @cached_property
    def _of_common(self) -> Array:
        """Posterior of each (μ, τ), (q,)."""
        log = np.log(self._totals).sum(axis=0)
        weight = np.exp(log - log.max())
        return weight / weight.sum()

    @cached_property
    def _weights(self) -> Array:
        """Posterior mass of each cell (n, c), over all (μ, τ)."""
        shares = self._of_common / self._totals
        return np.stack(
            [share @ given for share, given in zip(shares, self._given_each(), strict=True)]
        )


Belief = Posterior | Alike


def beliefs_alike(noisy: NoisyGrid[Any]) -> dict[str, Belief]:
    """What `beliefs` says, of items that may be alike: lines among lines, machines among machines.

    Privacy
    -------
    As `beliefs`: post-processing.
    """
    return {
        name: belief if belief.signed or len(belief.y) == 1 else Alike(belief)
        for name, belief in beliefs(noisy).items()
    }


def half_normal(share: Array) -> Array:
    """Quantiles of τ; share in (0, 1)."""
    from scipy.special import ndtri

    return TAU * ndtri(0.5 + 0.5 * share)


def student(t: Array) -> Array:
    """Distribution function of Student's law with two degrees of freedom."""
    root = t * t
    root += 2
    np.sqrt(root, out=root)
    np.divide(t, root, out=root)
    root *= 0.5
    root += 0.5
    return root


def students(share: Array) -> Array:
    """Its quantiles; share in (0, 1)."""
    share = np.clip(share, 1e-12, 1 - 1e-12)
    return (2 * share - 1) / np.sqrt(2 * share * (1 - share))


def split(
    total: Array, shares: Array, each: tuple[float, float], random: np.random.Generator
) -> Array:
    """Share out sums (k,) among n machines that may be alike: (k, n), each row with its sum.

    shares : (n,) of the machines that are alike, such as equal ones; each : bounds of one machine.
    Of many tables drawn from the prior, one of those with nearly this sum is taken and scaled: so
    machines differ as the prior, bounds and all, has them differ where this is their sum.
    """
    tables = _prior_tables(np.log(shares * len(shares)), np.log(each), random)
    sums = tables.sum(axis=1)
    order = np.argsort(sums)
    first = np.searchsorted(sums[order], total) - NEAREST // 2
    near = np.clip(first, 0, TABLES - NEAREST)[:, None]
    near = order[near + random.integers(NEAREST, size=(len(total), TRIES))]
    parts = tables[near] * (total[:, None] / sums[near])[..., None]
    within = ((parts >= each[0]) & (parts <= each[1])).all(axis=-1)
    within[:, -1] = True
    return parts[np.arange(len(total)), within.argmax(axis=1)]


def _prior_tables(middles: Array, box: Array, random: np.random.Generator) -> Array:
    """Draw tables (TABLES, n) of machines that may be alike, where one may stand out.

    middles : (n,) logarithms of machines that are alike, but for μ; box : of all logarithms.
    """
    rows, width = np.arange(TABLES), box[1] - box[0]
    mu, tau = box[0] + width * random.random((TABLES, 1)), half_normal(random.random((TABLES, 1)))
    centre = mu + middles
    # How far the one stands out: of several draws one, in proportion to how likely it stays within
    # the box.
    lone = rows, random.integers(len(middles), size=TABLES)
    further = width * random.random((TABLES, OUT))
    below, above = (student((end - centre[lone][:, None] - further) / tau) for end in box)
    inside = np.cumsum(above - below, axis=1)
    chosen = (random.random((TABLES, 1)) * inside[:, -1:] >= inside).sum(axis=1)
    stands_out = random.random(TABLES) < LONE
    centre[lone] += stands_out * further[rows, np.minimum(chosen, OUT - 1)]
    below, above = (student((end - centre) / tau) for end in box)
    t = students(below + (above - below) * random.random(centre.shape))
    return np.exp(np.clip(centre + tau * t, *box))


def uneven_shares(n: int, random: np.random.Generator) -> Array:
    """Draw shares (n,) of machines that may be alike, of which nothing is known: Σ = 1."""
    logs = half_normal(random.random(1)) * students(random.random(n))
    parts = np.exp(np.maximum(logs - logs.max(), FURTHEST_BEHIND))
    return parts / parts.sum()
