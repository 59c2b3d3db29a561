"""Coordinates in which all that a release says is a standard normal law.

Given what items have in common (μ and τ of `gridveil.inference.alike`), each is independent of the
others, and its distribution function turns it into a normal variable u: no bound, no kink and no
skewness is left for a sampler to stumble over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from gridveil.grid.facts import Array, IntArray
from gridveil.inference.alike import Alike, Belief

# How far u goes; a cell's mass is at least this share of all, so that no distribution is flat.
FURTHEST, LEAST_MASS = 6.0, 1e-12


@dataclass(frozen=True, eq=False)
class Normal:
    """Laws of n logarithms, each even within the cells between its edges.

    edges : (n, c + 1) of log x. below : (n, c + 1) probability below each, from 0 to 1.
    """

    edges: Array
    below: Array

    @classmethod
    def of(cls, edges: Array, mass: Array) -> Normal:
        """From the mass of each cell (n, c), not normalised."""
        mass = mass / mass.sum(axis=1, keepdims=True) + LEAST_MASS
        below = np.cumsum(mass, axis=1)
        return cls(edges, np.concatenate([np.zeros((len(mass), 1)), below], axis=1) / below[:, -1:])

    @classmethod
    def together(cls, parts: Sequence[Normal]) -> Normal:
        """Laws of several groups, one behind the other."""
        edges, below = ([getattr(part, name) for part in parts] for name in ("edges", "below"))
        return cls(np.concatenate(edges), np.concatenate(below))

    def coordinates(self, logs: Array) -> Array:
        """The u (n,) of logarithms (n,)."""
        cell = self._cell(self.edges, logs)
        start, end, low, high = self._around(cell)
        # a value that was clipped has cells of no width beyond it
        within = np.divide(logs - start, end - start, out=np.zeros(len(logs)), where=end > start)
        share = low + (high - low) * within
        return np.clip(ndtri(np.clip(share, 0.0, 1.0)), -FURTHEST, FURTHEST)

    def logs(self, u: Array) -> tuple[Array, Array]:
        """The logarithms of u (n,), and their slopes by it."""
        share = ndtr(u)
        start, end, low, high = self._around(self._cell(self.below, share))
        slope = (end - start) / (high - low)
        normal = np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi)
        return start + slope * (share - low), slope * normal

    @staticmethod
    def _cell(ends: Array, values: Array) -> IntArray:
        return np.clip((values[:, None] >= ends).sum(axis=1) - 1, 0, ends.shape[1] - 2)

    def _around(self, cell: IntArray) -> tuple[Array, ...]:
        row = np.arange(len(cell))
        return (
            *(self.edges[row, cell + more] for more in (0, 1)),
            *(self.below[row, cell + more] for more in (0, 1)),
        )


def given_common(
    belief: Mapping[str, Belief], logs: Sequence[Array], random: np.random.Generator
) -> Normal:
    """The law of each group's items given what they have in common, which is drawn given the items
    that a member has: log x (n,) of each group.
    """
    parts = [
        Normal.of(*(own.cells_given(own.common_of(x, random))))
        if isinstance(own, Alike)
        else Normal.of(*own.cells)
        for own, x in zip(belief.values(), logs, strict=True)
    ]
    return Normal.together(parts)
