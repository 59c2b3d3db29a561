"""Any other linear system whose matrices are affine in its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gridveil.dynamics.engine.lti import LTI, LinearFamily, XArray
from gridveil.foundation.errors import InputError
from gridveil.grid.parameters import Group


@dataclass(eq=False)
class Affine(LinearFamily):
    """F = F₀ + Σ θ_i F_i and H = H₀ + Σ θ_i H_i.

    constant : the model at θ = 0.
    directions : one for each entry of θ.
    groups : names and bounds of θ.
    """

    constant: LTI
    directions: Sequence[LTI]
    groups: tuple[Group, ...]

    def __post_init__(self) -> None:
        if len(self.directions) != self.size or any(
            direction.F.shape != self.constant.F.shape or direction.H.shape != self.constant.H.shape
            for direction in self.directions
        ):
            raise InputError(
                "the directions of an affine family do not fit its parameters or its constant part",
                expected="one direction for each parameter, with the constant part's shapes",
            )
        self._F = np.stack([direction.F for direction in self.directions])
        self._H = np.stack([direction.H for direction in self.directions])

    def lti(self, theta: XArray) -> LTI:
        """Build the model at θ (…, p)."""
        F = self.constant.F + np.einsum("...p,pij->...ij", theta, self._F)
        H = self.constant.H + np.einsum("...p,pij->...ij", theta, self._H)
        return LTI(F, H, self.constant.states)

    def pull(self, theta: XArray, bar: LTI) -> XArray:
        """dJ/dθ_i = ⟨F_i, dJ/dF⟩ + ⟨H_i, dJ/dH⟩, over the rows of F that are not zero."""
        del theta  # the slopes are constant
        n = self.constant.states
        return np.einsum("...ij,pij->...p", bar.F[..., :n, :], self._F[:, :n]) + np.einsum(
            "...ij,pij->...p", bar.H, self._H
        )
