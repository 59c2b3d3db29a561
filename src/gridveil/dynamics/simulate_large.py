"""Step responses of models with hundreds of machines or more: the trapezoidal rule on the swing
equations as they stand.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from gridveil.dynamics.events import NOT_SIMULATED
from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array, IntArray

# Above this many machines a dense (3g)² transition matrix costs more than it is worth.
LARGE = 400


def swing_responses(
    model: ReducedModel, drive: Array, sense: IntArray, samples: int, dt_s: float
) -> Array:
    """Simulate a step of each load pattern (ports, s) from rest by the trapezoidal rule: ω at some
    ports, (s, samples, h).

    With h = dt and p eliminated, a step is one solve with S = M + h/2 (D + b) + h² ω_b/4 L,
    symmetric, positive definite and (g, g) instead of (3g)²; b = (h T G / 2) / (1 + h T / 2) is
    what the governors add. S ω⁺ also gives L ω⁺, so that L itself is not needed again.
    """
    h, rate = dt_s, model.governor_rate
    lag = 1 + h / 2 * rate
    keep, gain = (1 - h / 2 * rate) / lag, h / 2 * rate * model.droop_gain / lag
    diagonal = (model.m + h / 2 * (model.d + gain))[:, None]
    inverse = _inverse(model, diagonal[:, 0], h**2 * model.omega_b / 4)
    u, shares = model.to_machines(drive), model.shares(sense)
    omega, power, torque = np.zeros_like(u), np.zeros_like(u), np.zeros_like(u)  # torque : L δ
    pull = np.zeros_like(u)  # h² ω_b / 4 · L ω
    out = np.zeros((u.shape[1], samples, len(sense)))
    m, d, keep, gain = model.m[:, None], model.d[:, None], keep[:, None], gain[:, None]
    for n in range(1, samples):
        known = (
            (m - h / 2 * (d + gain)) * omega
            - pull
            - h * torque
            + h / 2 * (1 + keep) * power
            - h * u
        )
        after = inverse @ known
        pull_after = known - diagonal * after
        # 1ᵀ L = 0; else rounding piles up as a load that nobody asked for
        pull_after -= pull_after.mean(axis=0)
        torque += 2 / h * (pull + pull_after)
        power = keep * power - gain * (omega + after)
        omega, pull = after, pull_after
        out[:, n] = (shares @ omega).T
    return out


def _inverse(model: ReducedModel, diagonal: Array, factor: float) -> Array:
    """(diag + factor · L)⁻¹, in place in one (g, g) array."""
    g = len(model.m)
    S = np.zeros((g, g), order="F")
    start = 0
    for i in range(g - 1):
        # row by row: the pairs of a complete graph would take as much memory as S itself
        k = model.k_r[start : start + g - 1 - i]
        S[i + 1 :, i] = -factor * k
        start += g - 1 - i
    total = -(S.sum(axis=0) + S.sum(axis=1))
    S[np.diag_indices(g)] = diagonal + total
    S, failed = lapack.dpotrf(S, lower=1, overwrite_a=1)  # pyright: ignore[reportAttributeAccessIssue]
    if not failed:
        S, failed = lapack.dpotri(S, lower=1, overwrite_c=1)  # pyright: ignore[reportAttributeAccessIssue]
    if failed:
        raise OptionError(
            "The model's step matrix is not positive definite.",
            expected="positive inertia and weights of 0 or more",
            outcome=NOT_SIMULATED,
        )
    for i in range(g - 1):  # the upper half, which LAPACK left alone
        S[i, i + 1 :] = S[i + 1 :, i]
    return S
