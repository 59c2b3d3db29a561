"""The direction in which the Gaussian of a fit stands in poorly for the release: a common factor of
k, m, d where no event's size is known.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gridveil.dynamics.swing import SWING
from gridveil.grid.facts import Array
from gridveil.inference.alike import Belief
from gridveil.inference.fit.least_squares import Gaussian

# That direction in words, where no release is there to fix it.
FREE_SCALE = "a common factor of k, m, d, u; only G ω fixes it"
# Factors c that are looked at, as logarithms.
REACH, POINTS = 2.0, 801


def scale_shift(
    belief: Mapping[str, Belief], prior: Gaussian, y: Array, covariance: Array
) -> float:
    """How far the mean of log (k, m, d) is to move for all alike, where no event's size is known.

    A record of unknown size is the same for (k, m, d, S) and for c (k, m, d, S), but for the
    governors' small share. The Gaussian that stands for the release in the fit is good for shapes,
    and biased for that one direction: clipped noise is symmetric about values, not about
    logarithms. So its mean is moved along it to where exp(−|c x − y|/b) has its own; where the
    noise was added to logarithms, exp(−|log c x − log y|/b).

    prior : over y.
    covariance : of y as it was found. Values that records do not fix say nothing about the scale,
    and those that they fix in part say so much less.
    """
    parts = [belief[name] for name in SWING]
    released, scale = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("y", "scale")
    )
    relative = np.concatenate([np.full(len(part.y), part.relative) for part in parts])
    count = len(released)
    x, precision = y[:count], prior.precision.diagonal()[:count]
    fixed = np.clip(1 - covariance.diagonal()[:count] * precision, 0, 1)
    if not np.isfinite(scale).all() or not fixed.sum():
        return 0.0
    log_c = np.linspace(-REACH, REACH, POINTS)
    at = x + log_c[:, None]
    apart = np.where(relative, at - np.log(released), np.exp(at) - released)
    density = -(fixed * np.abs(apart) / scale).sum(axis=1)
    weight = np.exp(density - density.max())
    exact = float(weight @ log_c / weight.sum())
    gaussian = float((fixed * precision) @ (prior.mean[:count] - x) / (fixed @ precision))
    return exact - gaussian
