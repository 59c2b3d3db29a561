"""Time-stepping schemes as transition matrices: z_{n+1} = E z_n for z' = F z, and their exact derivatives.

=============  =======================================  ==================
scheme         E                                        stable for dt
=============  =======================================  ==================
exact          exp(dt F)                                any
trapezoidal    (I − dt/2 F)⁻¹ (I + dt/2 F)              any
euler          I + dt F                                 up to −2 Re λ/|λ|²
=============  =======================================  ==================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import ceil, log2
from typing import Literal

from gridveil.engine.lti import XArray, namespace

SchemeName = Literal["exact", "trapezoidal", "euler"]

# Taylor's remainder at a norm of 1/2 is below 2e-17 from this degree on.
TAYLOR_DEGREE = 14


class Scheme(ABC):
    """Makes a transition matrix from a generator, and pulls a derivative back through it."""

    @abstractmethod
    def transition(self, F: XArray, dt: float) -> XArray:
        """E (..., n, n) of z_{n+1} = E z_n."""

    @abstractmethod
    def pull(self, F: XArray, dt: float, E: XArray, E_bar: XArray) -> XArray:
        """Turn dJ/dE into dJ/dF, for the very matrix that `transition` returned."""


class Euler(Scheme):
    """Explicit Euler, the paper's scheme."""

    def transition(self, F: XArray, dt: float) -> XArray:
        """See `Scheme`."""
        xp = namespace(F)
        return dt * F + xp.eye(F.shape[-1], dtype=F.dtype)

    def pull(self, F: XArray, dt: float, E: XArray, E_bar: XArray) -> XArray:
        """See `Scheme`."""
        del F, E  # linear: the same everywhere
        return dt * E_bar


class Trapezoidal(Scheme):
    """Implicit trapezoidal rule: A-stable, second order."""

    def transition(self, F: XArray, dt: float) -> XArray:
        """See `Scheme`."""
        xp = namespace(F)
        eye = xp.eye(F.shape[-1], dtype=F.dtype)
        return xp.linalg.solve(eye - 0.5 * dt * F, eye + 0.5 * dt * F)

    def pull(self, F: XArray, dt: float, E: XArray, E_bar: XArray) -> XArray:
        """See `Scheme`."""
        # E = S⁻¹ R gives dE = S⁻¹ (dR − dS E), with dR = −dS = dt/2 dF.
        xp = namespace(F)
        eye = xp.eye(F.shape[-1], dtype=F.dtype)
        left = xp.linalg.solve((eye - 0.5 * dt * F).mT, E_bar)
        return 0.5 * dt * (left @ (E + eye).mT)


class Exact(Scheme):
    """Matrix exponential by scaling, Taylor and squaring: exact for inputs that are constant over a step."""

    def transition(self, F: XArray, dt: float) -> XArray:
        """See `Scheme`."""
        return self._forward(F, dt)[-1][-1]

    def pull(self, F: XArray, dt: float, E: XArray, E_bar: XArray) -> XArray:
        """See `Scheme`."""
        del E
        X, horner, squares = self._forward(F, dt)
        bar = E_bar
        for P in reversed(squares[:-1]):
            bar = bar @ P.mT + P.mT @ bar
        # Through Horner's rule P_j = I + X P_{j+1} / j, from j = 1 outwards.
        X_bar = 0.0 * X
        for j, P in enumerate(reversed(horner), start=1):
            X_bar = X_bar + (bar / j) @ P.mT
            bar = X.mT @ (bar / j)
        return X_bar * (dt / 2.0 ** (len(squares) - 1))

    @staticmethod
    def _forward(F: XArray, dt: float) -> tuple[XArray, list[XArray], list[XArray]]:
        xp = namespace(F)
        norm = float(xp.max(xp.sum(xp.abs(F), axis=-2))) * dt
        halvings = max(0, ceil(log2(2 * norm))) if norm > 0 else 0
        X = F * (dt / 2.0**halvings)
        eye = xp.eye(F.shape[-1], dtype=F.dtype)
        horner = [eye + 0.0 * X]
        for j in range(TAYLOR_DEGREE, 0, -1):
            horner.append(eye + (X @ horner[-1]) / j)
        squares = [horner.pop()]
        for _ in range(halvings):
            squares.append(squares[-1] @ squares[-1])
        return X, horner, squares


SCHEMES: Mapping[SchemeName, Scheme] = {"exact": Exact(), "trapezoidal": Trapezoidal(), "euler": Euler()}
