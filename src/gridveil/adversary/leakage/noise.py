"""The noise of a record: as it is declared, or by its own scatter."""

from __future__ import annotations

import math

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
