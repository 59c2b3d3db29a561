"""Linear time-invariant models, and the families of them that a fit moves through."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from gridveil.grid.parameters import Group

# An array of any namespace that follows the Python array API standard: NumPy's here, a GPU
# library's elsewhere.
XArray = Any


@dataclass(frozen=True, eq=False)
class LTI:
    """x' = A x + B u, y = C x + D u, kept as z' = F z, y = H z with z = [x; u]; u is held.

    F : (..., n + s, n + s), equal to [[A, B], [0, 0]].
    H : (..., h, n + s), equal to [C, D]; leading axes are a batch. Also used for the derivative of
    a scalar by A, B, C and D (the lower rows of F are then without meaning).
    """

    F: XArray
    H: XArray
    states: int

    @classmethod
    def of(cls, A: XArray, B: XArray, C: XArray, D: XArray) -> LTI:
        """Stack A (..., n, n), B (..., n, s), C (..., h, n) and D (..., h, s)."""
        xp = namespace(A)
        top = xp.concat([A, B], axis=-1)
        below = zeros((*B.shape[:-2], B.shape[-1], top.shape[-1]), top)
        return cls(xp.concat([top, below], axis=-2), xp.concat([C, D], axis=-1), A.shape[-1])

    @property
    def inputs(self) -> int:
        """Number of inputs s."""
        return self.F.shape[-1] - self.states

    @property
    def A(self) -> XArray:
        """(..., n, n) [1/s]."""
        return self.F[..., : self.states, : self.states]

    @property
    def B(self) -> XArray:
        """(..., n, s)."""
        return self.F[..., : self.states, self.states :]

    @property
    def C(self) -> XArray:
        """(..., h, n)."""
        return self.H[..., : self.states]

    @property
    def D(self) -> XArray:
        """(..., h, s)."""
        return self.H[..., self.states :]


class LinearFamily(ABC):
    """A linear model as a function of its parameters θ, which come in named groups.

    `lti` must be analytic in θ (no abs, conj or max), so that a complex step passes through it.
    """

    groups: tuple[Group, ...]

    @property
    def size(self) -> int:
        """Length p of θ."""
        return sum(group.size for group in self.groups)

    @abstractmethod
    def lti(self, theta: XArray) -> LTI:
        """Build the model at θ (..., p)."""

    def pull(self, theta: XArray, bar: LTI) -> XArray:
        """Turn dJ/d(A, B, C, D) into dJ/dθ (..., p).

        The default takes a complex step through `lti`, exact to rounding; it is the oracle of every
        hand-written one.
        """
        xp = namespace(theta)
        h = 1e-30
        nudged = theta[..., None, :] + 1j * h * eye(self.size, theta)
        step = self.lti(nudged)
        gradient = zeros(theta.shape, theta)
        for moved, weight in ((step.A, bar.A), (step.B, bar.B), (step.C, bar.C), (step.D, bar.D)):
            if xp.isdtype(moved.dtype, "complex floating"):  # else it does not depend on θ
                gradient = gradient + xp.sum(
                    xp.imag(moved) / h * weight[..., None, :, :], axis=(-2, -1)
                )
        return gradient

    def pull_at(self, lti: LTI, theta: XArray, bar: LTI) -> XArray:
        """The same, where the model at θ is known already."""
        del lti
        return self.pull(theta, bar)


def namespace(array: XArray) -> Any:
    """Find the array API namespace of an array; NumPy first, the hot path."""
    if isinstance(array, np.ndarray):
        return np
    from array_api_compat import array_namespace

    return array_namespace(array)


def zeros(shape: tuple[int, ...], like: XArray) -> XArray:
    """Zeros of the kind and on the device of another array."""
    if isinstance(like, np.ndarray):
        return np.zeros(shape, dtype=like.dtype)
    return namespace(like).zeros(shape, dtype=like.dtype, device=_device(like))


def eye(n: int, like: XArray) -> XArray:
    """The unit matrix (n, n) of the kind and on the device of another array."""
    if isinstance(like, np.ndarray):
        return np.eye(n, dtype=like.dtype)
    return namespace(like).eye(n, dtype=like.dtype, device=_device(like))


def beside(array: Any, other: XArray) -> XArray:
    """Copy a NumPy array to where another array is; NumPy's stay as they are."""
    if isinstance(other, np.ndarray):
        return array
    return namespace(other).asarray(array, device=_device(other))


def _device(array: XArray) -> Any:
    from array_api_compat import device

    return device(array)


class Constants:
    """NumPy arrays by name, copied once to wherever they are first used: a GPU, or another array
    library.
    """

    def __init__(self, **arrays: Any) -> None:
        self._arrays = arrays
        self._kept: dict[Any, SimpleNamespace] = {}
        self._plain = SimpleNamespace(**arrays)
        self._last: tuple[tuple[int, ...], SimpleNamespace] = (), self._plain

    def beside(self, other: XArray) -> Any:
        """The arrays, as attributes, beside another one."""
        if isinstance(other, np.ndarray):
            return self._plain
        key = namespace(other), str(_device(other))
        if key not in self._kept:
            copies = {name: beside(array, other) for name, array in self._arrays.items()}
            self._kept[key] = SimpleNamespace(**copies)
        return self._kept[key]

    def of_each(self, batch: XArray) -> Any:
        """The same for every model of a batch (..., p): views, of NumPy's those of the last time,
        since making them takes longer than much that is done with them.
        """
        lead, own = batch.shape[:-1], self.beside(batch)
        if not lead:
            return own
        if own is not self._plain:
            return _viewed(own, lead)
        last, views = self._last  # a pair is read and written at once, whatever thread does
        if last != lead:
            views = _viewed(own, lead)
            self._last = lead, views
        return views


def _viewed(arrays: SimpleNamespace, lead: tuple[int, ...]) -> SimpleNamespace:
    own = vars(arrays)
    return SimpleNamespace(
        **{name: namespace(a).broadcast_to(a, (*lead, *a.shape)) for name, a in own.items()}
    )
