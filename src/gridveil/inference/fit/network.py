"""The Kron reduction as a function of line weights, with its derivatives: what stage 2 of the fit
moves through.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gridveil.grid.facts import Array, GridFacts, complete_edges


@dataclass(frozen=True, eq=False)
class Reduction:
    """weights k_r (..., e_r) and K_ac B (..., g, f) at some line weights, in units of `Network`."""

    weights: Array
    carried: Array


@dataclass(frozen=True, eq=False)
class Network:
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

    def __call__(self, k: Array) -> Reduction:
        """Reduce at k (..., e): L_red = L_γγ − L_γβ L_ββ⁻¹ L_βγ and K_ac B = −L_γβ L_ββ⁻¹ B."""
        C_kept, C_left = self._incidence
        weighted = C_left * k[..., None, :]
        L_left, across = weighted @ C_left.T, weighted @ C_kept.T
        solved = np.linalg.solve(
            L_left,
            np.concatenate([across, np.broadcast_to(self.patterns, self._shape(k))], axis=-1),
        )
        g = len(C_kept)
        L_red = (C_kept * k[..., None, :]) @ C_kept.T - across.mT @ solved[..., :g]
        i, j = complete_edges(g).T
        return Reduction(-L_red[..., i, j], -across.mT @ solved[..., g:])

    def slopes(self, k: Array) -> tuple[Reduction, Array, Array]:
        """Reduce at k (e,), with ∂k_r/∂k (e_r, e) and ∂(K_ac B)/∂k (g, f, e).

        With c_e the e-th column of C_γ + K_ac C_β: ∂L_red/∂k_e = c_e c_eᵀ and ∂K_ac/∂k_e = −c_e
        (C_β,e)ᵀ L_ββ⁻¹.
        """
        C_kept, C_left = self._incidence
        weighted = C_left * k
        across, g = weighted @ C_kept.T, len(C_kept)
        solved = np.linalg.solve(
            weighted @ C_left.T, np.concatenate([across, self.patterns], axis=1)
        )
        K_ac = -solved[:, :g].T
        L_red = (C_kept * k) @ C_kept.T - across.T @ solved[:, :g]
        felt = C_kept + K_ac @ C_left
        i, j = complete_edges(g).T
        reduction = Reduction(-L_red[i, j], K_ac @ self.patterns)
        drop = C_left.T @ solved[:, g:]  # (e, f): what each line sees of L_ββ⁻¹ B
        return reduction, -felt[i] * felt[j], -felt[:, None, :] * drop.T[None]

    def _shape(self, k: Array) -> tuple[int, ...]:
        return (*k.shape[:-1], *self.patterns.shape)
