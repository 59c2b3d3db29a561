"""Sums of products of small matrices, of one model or of a batch, by any array library.

NumPy and torch write into arrays that the engine made itself and needs no longer; others, whose
arrays may be immutable, make new ones.
"""

from __future__ import annotations

import numpy as np

from gridveil.dynamics.engine.lti import XArray, namespace


def product(a: XArray, b: XArray) -> XArray:
    """Multiply matrices; plain NumPy ones by `dot`, which costs half as much as `@`."""
    plain = isinstance(a, np.ndarray) and a.ndim == b.ndim == 2
    return a.dot(b) if plain else a @ b


def sum_of_products(*pairs: tuple[XArray, XArray]) -> XArray:
    """Compute Σ a b."""
    (a, b), *more = pairs
    total = product(a, b)
    for a, b in more:
        total = plus_product(total, a, b)
    return total


def plus_product(base: XArray, a: XArray, b: XArray, start: int = 0) -> XArray:
    """Add a b to the rows of base from `start` on; base is not needed afterwards."""
    stop = start + a.shape[-2]
    rows = base[..., start:stop, :]
    if isinstance(base, np.ndarray):
        rows += product(a, b)
    elif _is_writable(base):
        rows.baddbmm_(*(part.expand(rows.shape[0], *part.shape[-2:]) for part in (a, b)))
    else:
        parts = [base[..., :start, :], rows + a @ b, base[..., stop:, :]]
        return namespace(base).concat([part for part in parts if part.shape[-2]], axis=-2)
    return base


def transposed(a: XArray) -> XArray:
    """Transpose matrices; of a NumPy batch a copy, which BLAS multiplies by in half the time."""
    return np.ascontiguousarray(a.mT) if isinstance(a, np.ndarray) and a.ndim > 2 else a.mT


class Stack:
    """Rows of a batch below one another, which grow up to a number that is known.

    V : (..., rows so far, n).
    """

    def __init__(self, first: XArray, like: XArray, most: int) -> None:
        xp, (have, n) = namespace(like), first.shape[-2:]
        self.V, self._room = xp.broadcast_to(first, (*like.shape[:-2], have, n)), None
        if _is_writable(like):
            shape = (*like.shape[:-2], most, n)
            plain = isinstance(like, np.ndarray)
            self._room = np.empty(shape, like.dtype) if plain else like.new_empty(shape)
            self._room[..., :have, :] = first
            self.V = self._room[..., :have, :]

    def add(self, rows: int, P: XArray) -> None:
        """Put the first rows times P below the last."""
        first, have = self.V[..., :rows, :], self.V.shape[-2]
        if self._room is None:
            self.V = namespace(P).concat([self.V, product(first, P)], axis=-2)
            return
        below = self._room[..., have : have + rows, :]
        namespace(P).matmul(first, P, out=below)
        self.V = self._room[..., : have + rows, :]


def _is_writable(array: XArray) -> bool:
    if isinstance(array, np.ndarray):
        return True
    return array.ndim == 3 and hasattr(array, "baddbmm_") and not array.requires_grad
