"""Time-stepping schemes as matrices E, z_{n+1} = E z_n for z' = F z, and their exact derivatives.

=============  =======================================  ==================
scheme         E                                        stable for dt
=============  =======================================  ==================
exact          exp(dt F)                                any
trapezoidal    (I − dt/2 F)⁻¹ (I + dt/2 F)              any
euler          I + dt F                                 up to −2 Re λ/|λ|²
=============  =======================================  ==================

A scheme takes F (..., n, n) and dt, and returns E with its pullback: the function that turns dJ/dE
into dJ/dF.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, log2
from typing import Literal

from gridveil.dynamics.engine.lti import XArray, namespace, product

SchemeName = Literal["exact", "trapezoidal", "euler"]
Pullback = Callable[[XArray], XArray]
Scheme = Callable[[XArray, float], tuple[XArray, Pullback]]

# Taylor's remainder at a norm of 1/2 is below 2e-17 from this degree on.
TAYLOR_DEGREE = 14


def euler(F: XArray, dt: float) -> tuple[XArray, Pullback]:
    """Explicit Euler, the paper's scheme."""
    return dt * F + _eye(F), lambda E_bar: dt * E_bar


def trapezoidal(F: XArray, dt: float) -> tuple[XArray, Pullback]:
    """Implicit trapezoidal rule: A-stable, second order."""
    xp, eye = namespace(F), _eye(F)
    S = eye - 0.5 * dt * F
    E = xp.linalg.solve(S, eye + 0.5 * dt * F)
    # E = S⁻¹ R gives dE = S⁻¹ (dR − dS E), with dR = −dS = dt/2 dF.
    return E, lambda E_bar: 0.5 * dt * product(xp.linalg.solve(S.mT, E_bar), (E + eye).mT)


def exact(F: XArray, dt: float) -> tuple[XArray, Pullback]:
    """Matrix exponential by scaling, Taylor and squaring: exact for piecewise constant inputs."""
    xp, eye = namespace(F), _eye(F)
    norm = float(xp.max(xp.sum(xp.abs(F), axis=-2))) * dt
    halvings = max(0, ceil(log2(2 * norm))) if norm > 0 else 0
    X = F * (dt / 2.0**halvings)
    horner = [eye + 0.0 * X]  # P_j = I + X P_{j+1} / j
    for j in range(TAYLOR_DEGREE, 0, -1):
        horner.append(eye + product(X, horner[-1]) / j)
    squares = [horner.pop()]
    for _ in range(halvings):
        squares.append(product(squares[-1], squares[-1]))

    def pullback(bar: XArray) -> XArray:
        for P in reversed(squares[:-1]):
            bar = product(bar, P.mT) + product(P.mT, bar)
        X_bar = 0.0 * X
        for j, P in enumerate(reversed(horner), start=1):
            bar = bar / j
            X_bar = X_bar + product(bar, P.mT)
            bar = product(X.mT, bar)
        return X_bar * (dt / 2.0**halvings)

    return squares[-1], pullback


SCHEMES: Mapping[SchemeName, Scheme] = {"exact": exact, "trapezoidal": trapezoidal, "euler": euler}


def _eye(F: XArray) -> XArray:
    return namespace(F).eye(F.shape[-1], dtype=F.dtype)
