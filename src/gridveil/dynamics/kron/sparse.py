"""Sparse Kron reduction: interior buses leave in independent sets, and K_ac stays an operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from gridveil.grid.facts import Array, IntArray

# At or below this many buses, one dense solve is faster than sparse levels.
DENSE_UP_TO = 300
# A bus with more neighbours than this costs more in a sparse product than in the dense finish
# (measured on 10k to 70k buses).
SPARSE_DEGREE = 150
# Machines whose columns of K_ac are unrolled together: bounds memory at (buses x this).
COLUMNS = 512


@dataclass(frozen=True, eq=False)
class Level:
    """Buses that left together.

    W : (i, n) = −D⁻¹ L_I·, the share of each other bus in a leaving bus's angle.
    """

    left: IntArray
    W: sparse.csr_array


@dataclass(frozen=True, eq=False)
class Elimination:
    """The interior buses of a network, eliminated: L_red, and K_ac as an operator that is never
    unrolled whole.

    L_red : (g, g) reduced Laplacian [p.u. power / rad].
    keep : (g,) bus positions that stay.
    buses : n;
    levels : in the order in which buses left.
    core : (c,) those that left last, densely, with core_share (c, g).
    """

    L_red: Array
    keep: IntArray
    buses: int
    levels: tuple[Level, ...]
    core: IntArray
    core_share: Array

    def to_machines(self, load: Array) -> Array:
        """Bring load (n, …) [p.u. power] to the kept buses: u = ℓ_γ + K_ac ℓ_β, (g, …)."""
        felt = np.array(load, dtype=float)
        for level in self.levels:
            felt += level.W.T @ felt[level.left]
        return felt[self.keep] + self.core_share.T @ felt[self.core]

    def to_buses(self, omega: Array) -> Array:
        """Bring frequencies or angles (g, …) of the kept buses to all: ω_β = K_acᵀ ω_γ, (n, …)."""
        return self._spread(omega, self.core_share @ omega)

    def K_ac(self, buses: IntArray) -> Array:
        """Unroll K_ac for some interior buses (b,): (g, b), not negative, columns that sum to 1."""
        share = np.empty((len(buses), len(self.keep)))
        for start in range(0, len(self.keep), COLUMNS):
            some = slice(start, min(start + COLUMNS, len(self.keep)))
            unit = np.zeros((len(self.keep), some.stop - some.start))
            unit[some][np.diag_indices(some.stop - some.start)] = 1.0
            share[:, some] = self._spread(unit, self.core_share[:, some])[buses]
        share.setflags(write=False)
        return share.T

    def _spread(self, at_kept: Array, at_core: Array) -> Array:
        everywhere = np.zeros((self.buses, *at_kept.shape[1:]))
        everywhere[self.keep], everywhere[self.core] = at_kept, at_core
        for level in reversed(self.levels):
            everywhere[level.left] = level.W @ everywhere
        return everywhere


def eliminate(edges: IntArray, k: Array, n: int, keep: IntArray) -> Elimination:
    """Reduce L = C diag(k) Cᵀ to the buses `keep`: L_red = L_γγ − L_γβ L_ββ⁻¹ L_βγ, eq. (4),
    without a dense L.

    Again and again an independent set of interior buses with few neighbours leaves. Its block of L
    is diagonal, so that the Schur complement is one sparse product; what is left when neighbours
    become many is finished densely.

    edges : (e, 2) bus positions.
    k : (e,) positive weights [p.u. power / rad].
    keep : (g,) positions.
    """
    from gridveil.dynamics.kron import kron_reduce

    # interior buses first, kept ones last
    place = np.concatenate([np.setdiff1d(np.arange(n), keep), keep])
    position = np.empty(n, dtype=np.int64)
    position[place] = np.arange(n)
    i, j = position[edges].T
    rows, columns = np.concatenate([i, j, i, j]), np.concatenate([j, i, i, j])
    L = sparse.coo_array((np.concatenate([-k, -k, k, k]), (rows, columns)), shape=(n, n)).tocsr()
    interior, levels = n - len(keep), []
    while len(place) > DENSE_UP_TO and interior:
        leaving = _independent_set(L, interior)
        if leaving is None:
            break
        left, stay = np.flatnonzero(leaving), np.flatnonzero(~leaving)
        across = L[left][:, stay]
        # A row of L sums to 0: by its other entries, all of one sign, L_ii is free of the
        # cancellation that piles up in it.
        W = sparse.csr_array(across.multiply(1 / across.sum(axis=1)[:, None]))
        L = (L[stay][:, stay] + across.T @ W).tocsr()
        levels.append(
            Level(
                place[left],
                sparse.csr_array((W.data, place[stay][W.indices], W.indptr), shape=(len(left), n)),
            )
        )
        place, interior = place[stay], interior - len(left)
    rest = L.toarray()
    np.fill_diagonal(rest, 0.0)
    np.fill_diagonal(rest, -rest.sum(axis=1))
    L_red, core_share = kron_reduce(rest, np.arange(interior, len(place)))
    return Elimination(L_red, keep, n, tuple(levels), place[:interior], core_share.T)


def _independent_set(L: sparse.csr_array, interior: int) -> np.ndarray | None:
    """Choose interior buses of low degree of which no two are neighbours; None if all have many."""
    neighbours = np.diff(L.indptr)
    degree = neighbours[:interior] - 1
    few = max(int(np.partition(degree, (interior - 1) // 3)[(interior - 1) // 3]), 2)
    if few > SPARSE_DEGREE:
        return None
    rank = np.full(len(neighbours), np.inf)
    candidate = np.flatnonzero(degree <= few)
    # The fewer neighbours, the earlier; ties by a fixed shuffle, since by position long chains of
    # lines would leave one by one.
    shuffle = np.random.default_rng(len(candidate)).permutation(len(candidate))
    rank[candidate[np.lexsort((shuffle, degree[candidate]))]] = np.arange(len(candidate))
    row = np.repeat(np.arange(len(neighbours)), neighbours)
    leaving = np.isfinite(rank)
    leaving[row[rank[row] > rank[L.indices]]] = False  # of two neighbours the earlier one leaves
    return leaving
