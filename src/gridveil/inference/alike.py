"""Items that may be alike: log x_i = μ + τ t_i on the public box, μ uniform on it, τ half-normal,
t_i of Student's law with two degrees of freedom: most are alike, and one may stand for a whole grid
behind it.

Of items drawn with noise, the posterior of (μ, τ) is summed up on a grid; given both, the items are
independent, each on the cells of its own `Posterior`. So draws are exact up to the grids' width.
Of a sum, shares e^(τ t_i) / Σ e^(τ t) do not depend on μ. Nothing else was seen there, so that one
machine may well stand for a grid behind it: as likely as not, one has a factor e^u more, u uniform
up to the width of the box.
"""

from __future__ import annotations

from collections.abc import Iterator
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
ITEMS = 500  # that are kept at a time
TOGETHER = 4  # that are worked on at a time
TRIES = 32  # splits of a sum that are tried until one keeps every machine within the box


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
        for item, given in self._given_each():
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

    @cached_property
    def _given(self) -> Array:
        """Mass of each cell at each (μ, τ), (q, n, c)."""
        return self._given_of(slice(None))

    def _given_of(self, items: slice) -> Array:
        """The same of some items, a few at a time: what they need fits a processor's cache."""
        mu, tau = (part[:, None, None] for part in self._common)
        edges, mass = (part[items] for part in self._cells)
        low, high = np.log(self.each.lower[items, None]), np.log(self.each.upper[items, None])
        found = np.empty((len(mu), *mass.shape))
        for first in range(0, len(mass), TOGETHER):
            few = slice(first, first + TOGETHER)
            inside = student((high[few] - mu) / tau) - student((low[few] - mu) / tau)
            below = student((edges[few] - mu) / tau)
            # the prior's own mass in a cell over the cell's width, so that a narrow prior is not
            # missed
            prior = np.diff(below) / np.maximum(np.diff(edges[few]), 1e-300)
            found[:, few] = mass[few] * prior / inside
        return found

    def _blocks(self) -> Iterator[Array]:
        """`_given` of some items at a time: of thousands it takes gigabytes."""
        if len(self.each.y) <= ITEMS:
            yield self._given
            return
        for first in range(0, len(self.each.y), ITEMS):
            yield self._given_of(slice(first, first + ITEMS))

    def _given_each(self) -> Iterator[tuple[int, Array]]:
        """Each item, and its mass of each cell at each (μ, τ), (q, c)."""
        return enumerate(given for block in self._blocks() for given in block.swapaxes(0, 1))

    @cached_property
    def _of_common(self) -> Array:
        """Posterior of each (μ, τ), (q,)."""
        logs = [
            np.log(np.maximum(block.sum(axis=-1), 1e-300)).sum(axis=-1) for block in self._blocks()
        ]
        log = np.sum(logs, axis=0)
        weight = np.exp(log - log.max())
        return weight / weight.sum()

    @cached_property
    def _weights(self) -> Array:
        """Posterior mass of each cell (n, c), over all (μ, τ)."""
        of_common = self._of_common
        return np.concatenate(
            [
                np.einsum(
                    "q,qnc->nc",
                    of_common,
                    given / np.maximum(given.sum(axis=-1, keepdims=True), 1e-300),
                )
                for given in self._blocks()
            ]
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
    return 0.5 + 0.5 * t / np.sqrt(2 + t * t)


def students(share: Array) -> Array:
    """Its quantiles; share in (0, 1)."""
    share = np.clip(share, 1e-12, 1 - 1e-12)
    return (2 * share - 1) / np.sqrt(2 * share * (1 - share))


def split(
    total: Array, shares: Array, each: tuple[float, float], random: np.random.Generator
) -> Array:
    """Share out sums (k,) among n machines that may be alike: (k, n), each row with its sum.

    shares : (n,) of the machines that are alike, such as equal ones.
    each : bounds of one machine; of several splits, the first within them is taken, else the last.
    Where the lower one is 0, no machine stands out.
    """
    tries = (len(total), TRIES, 1)
    logs = half_normal(random.random(tries)) * students(random.random((*tries[:2], len(shares))))
    if each[0] > 0:
        lone = random.integers(len(shares), size=tries) == np.arange(len(shares))
        lone &= random.random(tries) < LONE
        logs += lone * random.random(tries) * np.log(each[1] / each[0])
    behind = np.maximum(logs - logs.max(axis=-1, keepdims=True), FURTHEST_BEHIND)
    parts = shares * np.exp(behind)
    parts *= total[:, None, None] / parts.sum(axis=-1, keepdims=True)
    within = ((parts >= each[0]) & (parts <= each[1])).all(axis=-1)
    within[:, -1] = True
    return parts[np.arange(len(total)), within.argmax(axis=1)]
