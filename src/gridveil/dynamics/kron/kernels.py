"""Kron reduction of networks: dense, of one or of a batch, at given line weights or as a map of
them; and sparse, where interior buses leave in independent sets and K_ac stays an operator.

Everything dense goes through one elimination, `_eliminated`; a batch is a leading axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from gridveil.dynamics.engine.lti import XArray, beside, namespace
from gridveil.grid.facts import Array, GridFacts, IntArray, complete_edges


def laplacian(edges: IntArray, k: XArray, n: int) -> XArray:
    """Build L = C diag(k) Cᵀ ⪰ 0, the one sign convention of gridveil: power leaves a bus as +L δ.

    edges : (e, 2) bus positions; k : (..., e) weights [p.u. power / rad]; L : (..., n, n).
    """
    if not isinstance(k, np.ndarray):
        C = beside(incidence(edges, n), k)
        return (C * k[..., None, :]) @ C.mT
    L, (i, j) = np.zeros((*k.shape[:-1], n, n)), edges.T
    entries, weights = np.moveaxis(L, (-2, -1), (0, 1)), np.moveaxis(k, -1, 0)
    np.add.at(entries, (i, j), -weights)  # parallel lines add up
    np.add.at(entries, (j, i), -weights)
    L[..., range(n), range(n)] = -L.sum(axis=-1)
    return L


def incidence(edges: IntArray, n: int) -> Array:
    """C (n, e): 1 at a line's first bus, −1 at its second."""
    C, lines = np.zeros((n, len(edges))), np.arange(len(edges))
    C[edges[:, 0], lines], C[edges[:, 1], lines] = 1.0, -1.0
    return C


def kron_reduce(L: Array, keep: IntArray) -> tuple[Array, Array]:
    """Eliminate interior buses: L_red = L_γγ − L_γβ L_ββ⁻¹ L_βγ, eq. (4), and K_ac = −L_γβ L_ββ⁻¹.

    L : (..., n, n) Laplacians [p.u. power / rad]; keep : (g,) positions of the buses γ that stay.
    L_red : (..., g, g) [p.u. power / rad], symmetric.
    K_ac : (..., g, n − g), the share of an interior bus's load that each kept bus feels; it is not
    negative and its columns sum to 1.

    The paper's star: bus 5 in the middle, k = 4, 10, 16, 10.

    >>> edges, k = np.array([[0, 4], [1, 4], [2, 4], [3, 4]]), np.array([4.0, 10.0, 16.0, 10.0])
    >>> L_red, K_ac = kron_reduce(laplacian(edges, k, 5), keep=np.arange(4))
    >>> edge_weights(L_red).round(12)
    array([1. , 1.6, 1. , 4. , 2.5, 4. ])
    """
    L_red, K_ac = schur(L, keep)
    return 0.5 * (L_red + L_red.mT), K_ac


def schur(L: XArray, keep: IntArray) -> tuple[XArray, XArray]:
    """Reduce as `kron_reduce` does, with L_red symmetric to rounding only."""
    xp = namespace(L)
    interior = beside(np.setdiff1d(np.arange(L.shape[-1]), keep), L)
    keep = beside(np.array(keep), L)
    kept, left = xp.take(L, keep, axis=-2), xp.take(L, interior, axis=-2)
    across = xp.take(kept, interior, axis=-1).mT
    L_red, solved = _eliminated(
        xp.take(kept, keep, axis=-1), across, xp.take(left, interior, axis=-1)
    )
    return L_red, -solved.mT


def edge_weights(L_red: XArray) -> XArray:
    """Read k_r off reduced Laplacians (..., g, g), in the order of `complete_edges`."""
    xp, g = namespace(L_red), L_red.shape[-1]
    i, j = complete_edges(g).T
    flat = xp.reshape(L_red, (*L_red.shape[:-2], g * g))
    return -xp.take(flat, beside(i * g + j, L_red), axis=-1)


@dataclass(frozen=True, eq=False)
class Reduction:
    """Weights k_r (..., e_r) and K_ac B (..., g, f) at some line weights, in the units of
    `KronMap`.
    """

    weights: Array
    carried: Array


@dataclass(frozen=True, eq=False)
class KronMap:
    """k ↦ (k_r, K_ac B), for a grid's public topology and some patterns B on its interior buses.

    patterns : (b, f), for example the loads ℓ_β of an event [p.u. power], or a unit at a bus whose
    frequency was recorded.
    """

    facts: GridFacts
    patterns: Array

    @cached_property
    def _incidence(self) -> tuple[Array, Array]:
        """C_γ (g, e) and C_β (b, e)."""
        C = incidence(self.facts.edges, len(self.facts.buses))
        return C[self.facts.machines], C[self.facts.interior]

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        """The two machines of each reduced weight."""
        i, j = complete_edges(len(self.facts.machines)).T
        return i, j

    def __call__(self, k: Array) -> Reduction:
        """Reduce at k (..., e): L_red = L_γγ − L_γβ L_ββ⁻¹ L_βγ and K_ac B = −L_γβ L_ββ⁻¹ B."""
        L_red, across, solved = self._reduced(k)
        return Reduction(
            -L_red[(..., *self._pairs)], -across.mT @ solved[..., len(self.facts.machines) :]
        )

    def slopes(
        self, k: Array, weights: IntArray | slice = slice(None)
    ) -> tuple[Reduction, Array, Array]:
        """Reduce at k (..., e), with ∂k_r/∂k (..., e_r, e) of some weights and ∂(K_ac B)/∂k
        (..., g, f, e).

        With c_e the e-th column of C_γ + K_ac C_β: ∂L_red/∂k_e = c_e c_eᵀ and ∂K_ac/∂k_e = −c_e
        (C_β,e)ᵀ L_ββ⁻¹.
        """
        C_kept, C_left = self._incidence
        L_red, _, solved = self._reduced(k)
        (i, j), g = self._pairs, len(C_kept)
        K_ac = -solved[..., :g].mT
        felt = C_kept + K_ac @ C_left
        drop = C_left.T @ solved[..., g:]  # (..., e, f): what each line sees of L_ββ⁻¹ B
        reduction = Reduction(-L_red[..., i, j], K_ac @ self.patterns)
        by_line = -felt[..., i[weights], :] * felt[..., j[weights], :]
        return reduction, by_line, -felt[..., None, :] * drop.mT[..., None, :, :]

    def _reduced(self, k: Array) -> tuple[Array, Array, Array]:
        """L_red, L_βγ and L_ββ⁻¹ [L_βγ, B] at k (..., e)."""
        C_kept, C_left = self._incidence
        weighted = C_left * k[..., None, :]
        across, kept = weighted @ C_kept.T, (C_kept * k[..., None, :]) @ C_kept.T
        L_red, solved = _eliminated(kept, across, weighted @ C_left.T, self.patterns)
        return L_red, across, solved


def _eliminated(
    kept: XArray, across: XArray, left: XArray, patterns: Array | None = None
) -> tuple[XArray, XArray]:
    """The one dense elimination: L_red = L_γγ − Xᵀ L_βγ with X = L_ββ⁻¹ L_βγ, and [X, L_ββ⁻¹ B].

    kept : L_γγ (..., g, g); across : L_βγ (..., b, g); left : L_ββ (..., b, b).
    patterns : B (b, f), or none. L is symmetric, so that one solve serves K_ac = −Xᵀ too.
    """
    sides = across
    if patterns is not None:
        shape = (*across.shape[:-2], *patterns.shape)
        sides = np.concatenate([across, np.broadcast_to(patterns, shape)], axis=-1)
    solved = namespace(left).linalg.solve(left, sides)
    return (kept - solved[..., : across.shape[-1]].mT @ across).mT, solved


# At or below this size, one dense solve is faster than the bookkeeping of sparse levels [buses].
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
        end = 0
        for block in self.share_blocks(buses):
            share[:, end : end + block.shape[1]] = block
            end += block.shape[1]
        share.setflags(write=False)
        return share.T

    def share_blocks(self, buses: IntArray) -> Iterator[Array]:
        """Unroll K_acᵀ for some interior buses (b,), some machines at a time: (b, machines)."""
        for start in range(0, len(self.keep), COLUMNS):
            some = slice(start, min(start + COLUMNS, len(self.keep)))
            unit = np.zeros((len(self.keep), some.stop - some.start))
            unit[some][np.diag_indices(some.stop - some.start)] = 1.0
            yield self._spread(unit, self.core_share[:, some])[buses]

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
    place = np.concatenate(
        [np.setdiff1d(np.arange(n), keep), keep]
    )  # interior buses first, kept ones last
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
