"""Step responses of models with hundreds of machines or more: the trapezoidal rule on the swing
equations as they stand.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import lapack

from gridveil.dynamics.events import NOT_SIMULATED
from gridveil.dynamics.kron.kernels import laplacian
from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array, IntArray

# α and ρ of e^z ≈ 1 + 2 Re[ρ α z / (1 − α z)], to fourth order.
POLE, RESIDUE = (3 + 1j * np.sqrt(3)) / 12, -2j * np.sqrt(3)
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
    u, shares = model.to_machines(drive), model.shares(sense)
    own = (model.m, model.d, model.governor_rate, model.droop_gain)
    inverse = _inverse(model, _diagonal(*own, dt_s), dt_s**2 * model.omega_b / 4)
    out = np.zeros((u.shape[1], samples, len(sense)))
    for n, omega in enumerate(_march(inverse, *own, u, samples, dt_s), start=1):
        out[:, n] = (shares @ omega).T
    return out


def fastest_undamped_hz(model: ReducedModel) -> float:
    """Frequency of a model's fastest oscillation, as if nothing damped it [Hz]."""
    root = model.m**-0.5
    L = laplacian(model.edges, model.k_r, len(root)) * root * root[:, None]
    return float(np.sqrt(model.omega_b * np.linalg.eigvalsh(L)[-1])) / (2 * np.pi)


def machine_responses(
    L: Array,
    m: Array,
    d: Array,
    rate: Array,
    gain: Array,
    *,
    omega_b: float,
    u: Array,
    samples: int,
    dt_s: float,
) -> tuple[Array, Array, Array]:
    """Simulate a step of each load pattern u (g, s) on the machines to fourth order: ω, ω̇ and δ,
    (samples, g, s) each [p.u., p.u. / s, rad].

    By the diagonal Padé approximant of e^z with numerator and denominator of second degree, which
    is A-stable and errs in phase by (frequency · h)⁴ / 720. Its poles are a pair, so that a step
    x⁺ = x + 2 Re[ρ β (I − β A)⁻¹ ẋ] is one solve with a complex symmetric matrix (g, g).

    L : (g, g); m, d, rate, gain : (g,), as a model has them.
    """
    beta = dt_s * POLE
    factor = 2 * beta * RESIDUE
    lag = (1 + beta * rate)[:, None]
    diagonal = m + beta * d + beta**2 * rate * gain / (1 + beta * rate)
    inverse = np.linalg.inv(np.diag(diagonal) + beta**2 * omega_b * L)
    m, d, rate, gain = (own[:, None] for own in (m, d, rate, gain))
    omega, delta, power = np.zeros_like(u), np.zeros_like(u), np.zeros_like(u)
    found = np.zeros((3, samples, *u.shape))
    count = u.shape[1]
    for n in range(samples):
        # both products with L at once
        pulled = L @ np.concatenate([delta, omega], axis=1)
        rise = -pulled[:, :count] + power - d * omega - u  # m ω̇
        follow = -rate * (power + gain * omega)  # ṗ
        found[:, n] = omega, rise / m, delta
        moved = inverse @ (rise - beta * omega_b * pulled[:, count:] + beta * follow / lag)
        delta = delta + (factor * (omega_b * omega + beta * omega_b * moved)).real
        power = power + (factor * (follow - beta * rate * gain * moved) / lag).real
        omega = omega + (factor * moved).real
    return found[0], found[1], found[2]


def _diagonal(m: Array, d: Array, rate: Array, gain: Array, h: float) -> Array:
    """M + h/2 (D + b) (g,)."""
    return m + h / 2 * (d + h / 2 * rate * gain / (1 + h / 2 * rate))


def _march(
    inverse: Array,
    m: Array,
    d: Array,
    rate: Array,
    gain: Array,
    u: Array,
    samples: int,
    h: float,
) -> Iterator[Array]:
    """ω (g, s) of the machines after each step of the rule, from rest; inverse : S⁻¹."""
    lag = 1 + h / 2 * rate
    diagonal = _diagonal(m, d, rate, gain, h)[:, None]
    keep, gain = ((1 - h / 2 * rate) / lag)[:, None], (h / 2 * rate * gain / lag)[:, None]
    m, d = m[:, None], d[:, None]
    omega, power, torque = np.zeros_like(u), np.zeros_like(u), np.zeros_like(u)  # torque : L δ
    pull = np.zeros_like(u)  # h² ω_b / 4 · L ω
    before, push = m - h / 2 * (d + gain), h / 2 * (1 + keep)
    for _ in range(1, samples):
        known = before * omega - pull - h * torque + push * power - h * u
        after = inverse @ known
        pull_after = known - diagonal * after
        # 1ᵀ L = 0; else rounding piles up as a load that nobody asked for
        pull_after -= pull_after.mean(axis=0)
        torque += 2 / h * (pull + pull_after)
        power = keep * power - gain * (omega + after)
        omega, pull = after, pull_after
        yield omega


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
