"""Linear time-invariant models, and the families of them that a fit moves through."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
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
        below = xp.zeros((*B.shape[:-2], B.shape[-1], top.shape[-1]), dtype=top.dtype)
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
        nudged = theta[..., None, :] + 1j * h * xp.eye(self.size, dtype=xp.float64)
        step = self.lti(nudged)
        gradient = xp.zeros(theta.shape, dtype=theta.dtype)
        for moved, weight in ((step.A, bar.A), (step.B, bar.B), (step.C, bar.C), (step.D, bar.D)):
            if xp.isdtype(moved.dtype, "complex floating"):  # else it does not depend on θ
                gradient = gradient + xp.sum(
                    xp.imag(moved) / h * weight[..., None, :, :], axis=(-2, -1)
                )
        return gradient


def namespace(array: XArray) -> Any:
    """Find the array API namespace of an array; NumPy first, the hot path."""
    if isinstance(array, np.ndarray):
        return np
    from array_api_compat import array_namespace

    return array_namespace(array)


def product(a: XArray, b: XArray) -> XArray:
    """Multiply matrices; plain NumPy ones by `dot`, which costs half as much as `@`."""
    if a.ndim == 2 and isinstance(a, np.ndarray):
        return a.dot(b)
    return a @ b
