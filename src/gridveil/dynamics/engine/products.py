"""Sums of products of small matrices, of one model or of a batch, by any array library.

NumPy and torch write into arrays that the engine made itself and needs no longer; others, whose
arrays may be immutable, make new ones. On a CUDA device a Triton kernel takes over what cuBLAS is
slow at, where Triton is installed.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from gridveil.dynamics.engine.lti import XArray, namespace

# Whether torch's matrices on a GPU are multiplied by the kernel, if they have at most so many
# columns.
KERNEL, WIDEST = True, 32


def product(a: XArray, b: XArray) -> XArray:
    """Multiply matrices; plain NumPy ones by `dot`, which costs half as much as `@`."""
    if isinstance(a, np.ndarray):
        return a.dot(b) if a.ndim == b.ndim == 2 else a @ b
    kernel = _kernel(a, b)
    return kernel(((a, b),)) if kernel else a @ b


def sum_of_products(*pairs: tuple[XArray, XArray]) -> XArray:
    """Compute Σ a b."""
    kernel = _kernel(*(part for pair in pairs for part in pair))
    if kernel:
        return kernel(pairs)
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
    elif kernel := _kernel(rows, a, b):
        kernel(((a, b),), base=rows, out=rows)
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
        if kernel := _kernel(first, P):
            kernel(((first, P),), out=below)
        else:
            namespace(P).matmul(first, P, out=below)
        self.V = self._room[..., : have + rows, :]


def _is_writable(array: XArray) -> bool:
    if isinstance(array, np.ndarray):
        return True
    return array.ndim == 3 and hasattr(array, "baddbmm_") and not array.requires_grad


def _kernel(*arrays: XArray) -> Any:
    """The kernel's sum of products, where it can take all of these."""
    if not KERNEL or not getattr(arrays[-1], "is_cuda", False) or arrays[-1].shape[-1] > WIDEST:
        return None
    if max(one.ndim for one in arrays) != 3 or any(
        one.requires_grad or not one.is_floating_point() or one.element_size() != 8
        for one in arrays
    ):
        return None
    return _triton()


@cache
def _triton() -> Any:
    try:
        kernel = import_module("gridveil.dynamics.engine.kernel")
        return kernel.sum_of_products if kernel.works() else None
    except Exception:  # not installed; no compiler; no such device: each raises errors of its own
        return None
