"""Outputs of one NumPy model by blocks: `Blocks` without a batch.

The order of its products and how their operands lie are fixed: rounding follows from both, and a
release of the profile `paper` is the same from version to version, to the last bit. Results and
views of them have places that are made once for models of a kind: they would take as long as the
products.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gridveil.grid.facts import Array

if TYPE_CHECKING:
    from gridveil.dynamics.engine.propagate import BlockLayout

# The places of larger models are given back, and are a small part of their time.
MOST_KEPT = 64


class SingleBlocks:
    """What the outputs of every starting column at every sample are made of: they are O Z.

    O : (b · h, n); Z : (n, block_count · c). No two threads have the same places at a time.
    """

    def __init__(self, E: Array, H: Array, start: Array, layout: BlockLayout) -> None:
        n, width = len(E), layout.block_count * start.shape[1]
        self._observing = _Doubling(E.T, H.T, layout.row_doublings)
        power = self._observing.last[:, :n].T
        self._starting = _Doubling(power, start, layout.column_doublings, width)
        self._power, self._Ot = power, self._observing.last[:, n:]
        self.O, self.Z = self._Ot.T, self._starting.last[:, n : n + width]
        self._outputs = np.empty((len(self.O), width))
        self._spare: list[SingleBlocks] = []

    @classmethod
    def grow(cls, E: Array, H: Array, start: Array, layout: BlockLayout) -> SingleBlocks:
        """Lay y_n = H Eⁿ z out in blocks, for every column z of start (n, c)."""
        shapes = E.shape, E.strides, H.shape, H.strides, start.shape, start.strides
        spare = _spare(shapes, layout)
        try:
            blocks = spare.pop()  # at once: another thread may take the last one
        except IndexError:
            blocks = cls(E, H, start, layout)
        blocks._spare = spare
        blocks._observing.grow(E.T, H.T)
        blocks._starting.grow(blocks._power, start)
        return blocks

    def outputs(self) -> Array:
        """O Z : (block_length · h, block_count · c)."""
        return self.O.dot(self.Z, self._outputs)

    def pull_outputs(self, bar: Array) -> tuple[Array, Array]:
        """Turn dJ/d(O Z) into dJ/dE and dJ/dH, once: others may have the places afterwards."""
        self._Ot.dot(bar, self._starting.V_bar)
        power_bar, _ = self._starting.shrink()
        self.Z.dot(bar.T, self._observing.V_bar)
        E_bar, H_bar = self._observing.shrink(power_bar.T)
        if len(E_bar) <= MOST_KEPT:
            self._spare.append(self)
        return E_bar.T, H_bar.T


@lru_cache(maxsize=32)
def _spare(*_kind: object) -> list[SingleBlocks]:
    """Places of a kind that nobody uses now."""
    return []


class _Doubling:
    """Doubles [P, V] to [P², V, P V] again and again: to [P^N, V, P V, …, P^(N−1) V] = `last`,
    N = 2^doublings.

    V_bar : (n, width), the derivative by the first columns of the last V, to be put there.
    """

    def __init__(self, P: Array, V: Array, doublings: int, width: int = 0) -> None:
        n, columns = V.shape
        tape = [np.concatenate([P, V], axis=1)]  # by its order in memory, too
        for level in range(1, doublings + 1):
            tape.append(np.empty((n, n + columns * 2**level)))
        self._first, self.last = tape[0], tape[-1]
        self._forwards, self._backwards = [], []
        for S, doubled in pairwise(tape):
            R = np.empty(S.shape)
            self._forwards.append((S[:, :n].dot, S, R, (R[:, :n], S[:, n:], R[:, n:]), doubled))
        kept = self.V_bar = np.empty((n, width or columns * 2**doublings))
        R_bars = [np.zeros(S.shape) for S in tape]
        for level in reversed(range(doublings)):
            S, R_bar, later = tape[level], R_bars[level], R_bars[level - 1]
            before, power = np.empty(S.shape), np.empty((n, n))
            products = S[:, :n].T.dot, R_bar, before, R_bar.dot, S.T, power
            own, half = columns * 2**level, columns * 2**level // 2
            of_P, low = before[:, :n], kept[:, :half]
            if level:
                of_low, of_high = before[:, n : n + half], before[:, n + half :]
                high = of_high, kept[:, half:own], later[:, n:]
                self._backwards.append((*products, of_P, later[:, :n], *high, of_low, low))
            else:
                self._to_first = (*products, of_P, before[:, n:], kept[:, :own])
        if doublings:
            top, rest = R_bars[-2], kept[:, columns * 2 ** (doublings - 1) :]
            self._top = top[:, :n], top[:, n : n + rest.shape[1]], rest

    def grow(self, P: Array, V: Array) -> None:
        """Fill `last`."""
        concatenate = np.concatenate
        concatenate((P, V), 1, self._first)
        for dot, S, R, parts, doubled in self._forwards:
            dot(S, R)
            concatenate(parts, 1, doubled)

    def shrink(self, P_bar: Array | None = None) -> tuple[Array, Array]:
        """Turn the derivatives by the last P (none: 0) and V into those by the first."""
        if not self._forwards:
            n = len(self.V_bar)
            return np.zeros((n, n)) if P_bar is None else P_bar, self.V_bar.copy()
        top_P, top_V, rest = self._top
        if P_bar is not None:
            top_P[:] = P_bar
        top_V[:] = rest
        add = np.add
        for (
            back, R_bar, before, dot, St, power, of_P, next_P, of_high, high, next_V, of_low, low
        ) in self._backwards:  # fmt: skip
            back(R_bar, before)
            dot(St, power)
            add(of_P, power, next_P)
            add(of_high, high, next_V)
            add(of_low, low, low)
        back, R_bar, before, dot, St, power, of_P, of_V, low = self._to_first
        back(R_bar, before)
        return add(of_P, dot(St, power)), add(of_V, low)
