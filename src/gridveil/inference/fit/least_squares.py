"""Levenberg-Marquardt for ½ w |r(x)|² + ½ (x − μ)ᵀ Λ (x − μ) over a box, with capped steps.

`scale_shift` corrects the direction in which the Gaussian stands in poorly for the release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gridveil.dynamics.swing import SWING
from gridveil.grid.facts import Array
from gridveil.inference.alike import Belief

# Damping, in the prior's precision: less is none, and more allows no step at all.
LEAST_DAMPING = 1e-3
MOST_DAMPING = 1e15


class Residuals(Protocol):
    """What is to become small. Values that are not finite mean that a step went too far."""

    def at(self, x: Array) -> Array:
        """Residuals r (rows,) at x (n,)."""
        ...

    def slopes(self, x: Array) -> Array:
        """∂r/∂x (rows, n)."""
        ...


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A Gaussian prior over a box.

    mean : (n,).
    precision : (n, n), positive definite.
    lower, upper : (n,).
    """

    mean: Array
    precision: Array
    lower: Array
    upper: Array

    def cost(self, x: Array) -> float:
        """½ (x − μ)ᵀ Λ (x − μ)."""
        return 0.5 * float((x - self.mean) @ self.precision @ (x - self.mean))


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where a search ended: x (n,), cost, residuals, slopes, steps taken, and convergence."""

    x: Array
    cost: float
    residuals: Array
    slopes: Array
    steps: int
    converged: bool


def minimise(
    residuals: Residuals,
    prior: Gaussian,
    start: Array,
    *,
    weight: float = 1.0,
    cap: float = 2.0,
    iterations: int = 30,
    tolerance: float = 1e-6,
) -> Minimum:
    """Walk down to a minimum. cap : longest step of any entry; tolerance : decrease to end at.

    Damping is in units of the prior, so that directions that the data do not see are never scaled
    by them. Entries on the box that a step would push out stay there for that step (an active set).
    """
    x = np.clip(start, prior.lower, prior.upper)
    cost, r = _evaluate(residuals, prior, x, weight)
    slopes = residuals.slopes(x)
    damping, growth, converged, steps = 0.0, 4.0, False, 0
    gradient, curvature = _expand(prior, x, r, slopes, weight)
    for _ in range(4 * iterations):  # most tries are steps; this bounds those that are not
        step = _step(x, gradient, curvature + damping * prior.precision, prior)
        longest = float(np.abs(step).max(initial=0.0))
        there = np.clip(
            x + (step * (cap / longest) if longest > cap else step), prior.lower, prior.upper
        )
        step = there - x
        promised = -float(gradient @ step + 0.5 * step @ curvature @ step)
        trial = _evaluate(residuals, prior, there, weight)
        if trial[0] < cost:
            steps += 1
            gain = min((cost - trial[0]) / promised, 1.0) if promised > 0 else 0.0
            converged = cost - trial[0] <= tolerance and damping <= 1.0
            x, (cost, r) = there, trial
            slopes = residuals.slopes(x)
            gradient, curvature = _expand(prior, x, r, slopes, weight)
            damping = (
                damping * max(1 / 10, 1 - (2 * gain - 1) ** 3) if damping > LEAST_DAMPING else 0.0
            )
            growth = 4.0
        else:  # a promise within rounding of the cost cannot be kept, and need not be
            converged = not step.any() or 0 <= promised <= max(1e-13 * cost, 0.1 * tolerance)
            damping, growth = max(damping * growth, 10 * LEAST_DAMPING), 2 * growth
        if converged or steps >= iterations or damping > MOST_DAMPING:
            break
    return Minimum(x, cost, r, slopes, steps, converged)


def _evaluate(
    residuals: Residuals, prior: Gaussian, x: Array, weight: float
) -> tuple[float, Array]:
    with np.errstate(all="ignore"):
        r = residuals.at(x)
        cost = 0.5 * weight * float(r @ r) + prior.cost(x)
    return (cost if np.isfinite(cost) else np.inf), r


def _expand(
    prior: Gaussian, x: Array, r: Array, slopes: Array, weight: float
) -> tuple[Array, Array]:
    """Gradient (n,) and Gauss-Newton curvature (n, n) of the cost."""
    return weight * (slopes.T @ r) + prior.precision @ (x - prior.mean), weight * (
        slopes.T @ slopes
    ) + prior.precision


def _step(x: Array, gradient: Array, curvature: Array, prior: Gaussian) -> Array:
    """Solve for the step over the entries that are free to take it."""
    free = np.ones(len(x), dtype=bool)
    step = np.zeros_like(x)
    for _ in range(len(x) + 1):
        step[:] = 0.0
        scale = 1 / np.sqrt(curvature.diagonal()[free])
        step[free] = -scale * np.linalg.solve(
            curvature[np.ix_(free, free)] * scale * scale[:, None], scale * gradient[free]
        )
        out = free & (((x <= prior.lower) & (step < 0)) | ((x >= prior.upper) & (step > 0)))
        if not out.any():
            break
        free &= ~out
    return step


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
