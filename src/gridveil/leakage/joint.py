"""What a trajectory with white noise and a release promise together: (ε + ε_x, δ)."""

from __future__ import annotations

import math


def joint_delta(mu: float, epsilon_x: float) -> float:
    """δ = Φ(−ε_x/μ + μ/2) − e^(ε_x) Φ(−ε_x/μ − μ/2): what a trajectory with white noise adds to a release's ε.

    Trajectory and release together are then (ε + ε_x, δ)-DP, where μ is the largest ‖ω(θ) − ω(θ′)‖/σ over neighbours.

    >>> round(joint_delta(1.0, 1.0), 4)
    0.1269
    """
    from scipy.special import log_ndtr, ndtr

    if mu <= 0:
        return 0.0
    if not math.isfinite(mu):
        return 1.0
    lost = math.exp(min(epsilon_x + float(log_ndtr(-epsilon_x / mu - mu / 2)), 0.0))
    return max(float(ndtr(-epsilon_x / mu + mu / 2)) - lost, 0.0)


def joint_epsilon(mu: float, delta: float) -> float:
    """The ε_x at which `joint_delta` is delta.

    >>> round(joint_delta(2.0, joint_epsilon(2.0, 1e-5)) / 1e-5, 6)
    1.0
    """
    from scipy.optimize import brentq

    if joint_delta(mu, 0.0) <= delta:
        return 0.0
    top = mu * (mu / 2 + 40)  # δ is far below rounding there
    return float(brentq(lambda epsilon: joint_delta(mu, epsilon) - delta, 0.0, top, xtol=1e-12, rtol=1e-12))  # pyright: ignore[reportArgumentType]
