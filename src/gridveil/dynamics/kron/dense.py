"""Dense Kron reduction of one network or of a batch, at given line weights or as a map of them.

Everything here goes through one elimination, `_eliminated`; a batch is a leading axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gridveil.grid.facts import Array, GridFacts, IntArray, complete_edges


def laplacian(edges: IntArray, k: Array, n: int) -> Array:
    """Build L = C diag(k) Cᵀ ⪰ 0, the one sign convention of gridveil: power leaves a bus as +L δ.

    edges : (e, 2) bus positions; k : (..., e) weights [p.u. power / rad]; L : (..., n, n).
    """
    L, (i, j) = np.zeros((*k.shape[:-1], n, n)), edges.T
    entries, weights = np.moveaxis(L, (-2, -1), (0, 1)), np.moveaxis(k, -1, 0)
    np.add.at(entries, (i, j), -weights)  # parallel lines add up
    np.add.at(entries, (j, i), -weights)
    L[..., range(n), range(n)] = -L.sum(axis=-1)
    return L


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


def schur(L: Array, keep: IntArray) -> tuple[Array, Array]:
    """Reduce as `kron_reduce` does, with L_red symmetric to rounding only."""
    interior = np.setdiff1d(np.arange(L.shape[-1]), keep)
    kept, left = np.take(L, keep, axis=-2), np.take(L, interior, axis=-2)
    across = np.take(kept, interior, axis=-1).mT
    L_red, solved = _eliminated(np.take(kept, keep, -1), across, np.take(left, interior, -1))
    return L_red, -solved.mT


def edge_weights(L_red: Array) -> Array:
    """Read k_r off reduced Laplacians (..., g, g), in the order of `complete_edges`."""
    i, j = complete_edges(L_red.shape[-1]).T
    return -L_red[..., i, j]


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
        C = np.zeros((len(self.facts.buses), len(self.facts.edges)))
        lines = np.arange(len(self.facts.edges))
        C[self.facts.edges[:, 0], lines], C[self.facts.edges[:, 1], lines] = 1.0, -1.0
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

    def slopes(self, k: Array) -> tuple[Reduction, Array, Array]:
        """Reduce at k (e,), with ∂k_r/∂k (e_r, e) and ∂(K_ac B)/∂k (g, f, e).

        With c_e the e-th column of C_γ + K_ac C_β: ∂L_red/∂k_e = c_e c_eᵀ and ∂K_ac/∂k_e = −c_e
        (C_β,e)ᵀ L_ββ⁻¹.
        """
        C_kept, C_left = self._incidence
        L_red, _, solved = self._reduced(k)
        (i, j), g = self._pairs, len(C_kept)
        K_ac = -solved[:, :g].T
        felt = C_kept + K_ac @ C_left
        drop = C_left.T @ solved[:, g:]  # (e, f): what each line sees of L_ββ⁻¹ B
        reduction = Reduction(-L_red[i, j], K_ac @ self.patterns)
        return reduction, -felt[i] * felt[j], -felt[:, None, :] * drop.T[None]

    def _reduced(self, k: Array) -> tuple[Array, Array, Array]:
        """L_red, L_βγ and L_ββ⁻¹ [L_βγ, B] at k (..., e)."""
        C_kept, C_left = self._incidence
        weighted = C_left * k[..., None, :]
        across, kept = weighted @ C_kept.T, (C_kept * k[..., None, :]) @ C_kept.T
        L_red, solved = _eliminated(kept, across, weighted @ C_left.T, self.patterns)
        return L_red, across, solved


def _eliminated(
    kept: Array, across: Array, left: Array, patterns: Array | None = None
) -> tuple[Array, Array]:
    """The one dense elimination: L_red = L_γγ − Xᵀ L_βγ with X = L_ββ⁻¹ L_βγ, and [X, L_ββ⁻¹ B].

    kept : L_γγ (..., g, g); across : L_βγ (..., b, g); left : L_ββ (..., b, b).
    patterns : B (b, f), or none. L is symmetric, so that one solve serves K_ac = −Xᵀ too.
    """
    sides = across
    if patterns is not None:
        shape = (*across.shape[:-2], *patterns.shape)
        sides = np.concatenate([across, np.broadcast_to(patterns, shape)], axis=-1)
    solved = np.linalg.solve(left, sides).astype(np.float64, copy=False)
    return (kept - solved[..., : across.shape[-1]].mT @ across).mT, solved
