"""What a trajectory with white noise and a release promise together: (ε + ε_x, δ)."""

from __future__ import annotations

import math
from typing import Any

from gridveil.foundation.errors import OptionError

NOTHING = "Nothing was computed."


def joint_delta(mu: float, epsilon_x: float) -> float:
    """δ = Φ(−ε_x/μ + μ/2) − e^(ε_x) Φ(−ε_x/μ − μ/2): what white-noise records add to ε.

    Trajectory and release together are then (ε + ε_x, δ)-DP, where μ is the largest ‖ω(θ) −
    ω(θ′)‖/σ over neighbours. Raises OptionError where μ is no length, or ε_x no number.

    >>> round(joint_delta(1.0, 1.0), 4)
    0.1269
    """
    from scipy.special import log_ndtr, ndtr

    _check_mu(mu)
    if math.isnan(epsilon_x):
        raise OptionError("epsilon_x = nan", expected="a number", outcome=NOTHING)
    if mu == 0:
        return 0.0
    if not math.isfinite(mu):
        return 1.0
    lost = math.exp(min(epsilon_x + float(log_ndtr(-epsilon_x / mu - mu / 2)), 0.0))
    return max(float(ndtr(-epsilon_x / mu + mu / 2)) - lost, 0.0)


def joint_epsilon(mu: float, delta: float) -> float:
    """The ε_x at which `joint_delta` is delta; without end where μ is.

    Raises OptionError where delta is not between 0 and 1: against noise that is normal, no ε_x
    gives a δ of 0.

    >>> round(joint_delta(2.0, joint_epsilon(2.0, 1e-5)) / 1e-5, 6)
    1.0
    """
    from scipy.optimize import brentq

    _check_mu(mu)
    if not 0 < delta < 1:
        raise OptionError(
            f"delta = {delta:g}",
            expected="a probability above 0 and below 1, such as 1e-5",
            outcome=NOTHING,
        )
    if joint_delta(mu, 0.0) <= delta:
        return 0.0
    if math.isinf(mu):
        return math.inf
    top = mu * (mu / 2 + 40)  # δ is far below rounding there
    root: Any = brentq
    return float(root(lambda eps: joint_delta(mu, eps) - delta, 0.0, top, xtol=1e-12, rtol=1e-12))


def _check_mu(mu: float) -> None:
    if not mu >= 0:
        raise OptionError(
            f"mu = {mu:g}",
            expected="the largest distance of neighbours, which is not below 0",
            outcome=NOTHING,
        )
