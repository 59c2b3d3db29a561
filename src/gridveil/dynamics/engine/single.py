"""Outputs of one NumPy model by blocks: `Blocks` without a batch.

The order of its products is fixed: rounding follows from it, and a release of the profile `paper`
is the same from version to version, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gridveil.grid.facts import Array

if TYPE_CHECKING:
    from gridveil.dynamics.engine.propagate import BlockLayout


@dataclass(frozen=True, eq=False)
class SingleBlocks:
    """What the outputs of every starting column at every sample are made of: they are O Z.

    O : (b · h, n); Z : (n, block_count · c).
    observing, starting : how [(Eᵀ)^b, Oᵀ] and [·, Z, …] grew, by doubling.
    """

    O: Array  # noqa: E741 - the observability matrix
    Z: Array
    observing: list[Array]
    starting: list[Array]

    @classmethod
    def grow(cls, E: Array, H: Array, start: Array, layout: BlockLayout) -> SingleBlocks:
        """Lay y_n = H Eⁿ z out in blocks, for every column z of start (n, c)."""
        n, width = len(E), layout.block_count * start.shape[1]
        observing = _grow(E.T, H.T, layout.row_doublings)
        last = observing[-1]
        starting = _grow(last[:, :n].T, start, layout.column_doublings)
        return cls(last[:, n:].T, starting[-1][:, n : n + width], observing, starting)

    def outputs(self) -> Array:
        """O Z : (block_length · h, block_count · c)."""
        return self.O.dot(self.Z)

    def pull_outputs(self, bar: Array) -> tuple[Array, Array]:
        """Turn dJ/d(O Z) into dJ/dE and dJ/dH."""
        n, width = self.Z.shape
        Z_bar = np.zeros((n, self.starting[-1].shape[1] - n))
        Z_bar[:, :width] = self.O.T.dot(bar)
        power_bar, _ = _shrink(self.starting, np.zeros((n, n)), Z_bar)
        E_bar, H_bar = _shrink(self.observing, power_bar.T, self.Z.dot(bar.T))
        return E_bar.T, H_bar.T


def _grow(P: Array, V: Array, doublings: int) -> list[Array]:
    """Double [P, V] to [P², V, P V] again and again; the last one is [P^N, V, P V, …, P^(N−1) V], N
    = 2^doublings.
    """
    n, tape = len(P), [np.concatenate([P, V], axis=1)]
    for _ in range(doublings):
        S = tape[-1]
        R = S[:, :n].dot(S)
        tape.append(np.concatenate([R[:, :n], S[:, n:], R[:, n:]], axis=1))
    return tape


def _shrink(tape: list[Array], P_bar: Array, V_bar: Array) -> tuple[Array, Array]:
    """Turn the derivatives by the last P and V of a tape into those by the first."""
    n = len(P_bar)
    for S in reversed(tape[:-1]):
        own = S.shape[1] - n
        R_bar = np.empty(S.shape)
        R_bar[:, :n], R_bar[:, n:] = P_bar, V_bar[:, own:]
        before = S[:, :n].T.dot(R_bar)
        P_bar = np.add(before[:, :n], R_bar.dot(S.T))
        V_bar = np.add(before[:, n:], V_bar[:, :own])
    return P_bar, V_bar
