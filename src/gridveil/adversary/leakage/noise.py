"""The noise of a record, as it is declared or by its own scatter, and what white noise promises
beside a release: (ε + ε_x, δ).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.errors import OptionError
from gridveil.inference.fit.problem import Observation

DECLARED = "its declaration"
LEAST_SIGMA = 1e-9


def sigma_of(observation: Observation) -> tuple[float, str]:
    """Noise of a record [p.u.] and its origin: declared, else its own scatter."""
    return (
        own_sigma(observation.trajectory, observation.event.steps[0].at_s)
        if observation.sigma is None
        else (observation.sigma, DECLARED)
    )


def own_sigma(trajectory: Trajectory, event_s: float) -> tuple[float, str]:
    """Noise of a record by its scatter [p.u.], and how: the smaller, more cautious, of two ways.

    One is the standard deviation before the event, the other the scatter of second differences,
    which slow swings hardly move.
    """
    sigmas: list[tuple[float, str]] = []
    early = trajectory.omega[trajectory.time_s < event_s - 1e-9]
    if (np.isfinite(early).sum(axis=0) >= 10).all():
        sigmas.append(
            (float(np.nanmedian(np.nanstd(early, axis=0, ddof=1))), "its scatter before the event")
        )
    second = trajectory.omega[2:] - 2 * trajectory.omega[1:-1] + trajectory.omega[:-2]
    if np.isfinite(second).sum() >= 30:
        spread = float(np.nanmedian(np.abs(second))) / 0.67449 / math.sqrt(6)
        sigmas.append((spread, "its scatter from sample to sample"))
    if not sigmas:
        raise OptionError(
            "The record is too short to show its own noise.",
            expected="--sigma, such as 1e-4 (p.u.) or 5mHz",
            outcome="Nothing was computed.",
        )
    sigma, origin = min(sigmas)
    return max(sigma, LEAST_SIGMA), origin


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
