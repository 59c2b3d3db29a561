"""Levenberg-Marquardt for ½ w |r(x)|² + ½ (x − μ)ᵀ Λ (x − μ) over a box, with capped steps.

`scale_shift` corrects the direction in which the Gaussian stands in poorly for the release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

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

    @cached_property
    def is_diagonal(self) -> bool:
        """Whether entries are independent."""
        return np.count_nonzero(self.precision) == np.count_nonzero(self.precision.diagonal())

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
    note: Callable[[int, Array], None] = lambda steps, r: None,  # noqa: ARG005
) -> Minimum:
    """Walk down to a minimum. cap : longest step of any entry; tolerance : decrease to end at;
    note : is told of each step, with its number and r.

    Damping is in units of the prior, so that directions that the data do not see are never scaled
    by them. Entries on the box that a step would push out stay there for that step (an active set).
    """
    x = np.clip(start, prior.lower, prior.upper)
    cost, r = _evaluate(residuals, prior, x, weight)
    slopes = residuals.slopes(x)
    damping, growth, converged, steps = 0.0, 4.0, False, 0
    around = _expand(prior, x, r, slopes, weight)
    for _ in range(4 * iterations):  # most tries are steps; this bounds those that are not
        step = around.step(damping)
        longest = float(np.abs(step).max(initial=0.0))
        there = np.clip(
            x + (step * (cap / longest) if longest > cap else step), prior.lower, prior.upper
        )
        step = there - x
        promised = around.promised(step)
        trial = _evaluate(residuals, prior, there, weight)
        if trial[0] < cost:
            steps += 1
            gain = min((cost - trial[0]) / promised, 1.0) if promised > 0 else 0.0
            converged = cost - trial[0] <= tolerance and damping <= 1.0
            x, (cost, r) = there, trial
            slopes = residuals.slopes(x)
            around = _expand(prior, x, r, slopes, weight)
            note(steps, r)
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


def _expand(prior: Gaussian, x: Array, r: Array, slopes: Array, weight: float) -> _Around:
    """The cost near x, to second order, without the curvature of r."""
    kind = _Wide if prior.is_diagonal and len(r) < len(x) else _Dense
    return kind(
        prior, x, weight * (slopes.T @ r) + prior.precision @ (x - prior.mean), slopes, weight
    )


@dataclass(frozen=True, eq=False)
class _Around:
    """The Gauss-Newton model of the cost near x: gradient (n,), slopes (rows, n) of weight w."""

    prior: Gaussian
    x: Array
    gradient: Array
    slopes: Array
    weight: float

    def promised(self, step: Array) -> float:
        """How far a step (n,) brings the cost down, to second order."""
        moved = self.slopes @ step
        bent = self.weight * float(moved @ moved) + float(step @ self.prior.precision @ step)
        return -float(self.gradient @ step) - 0.5 * bent

    def step(self, damping: float) -> Array:
        """Solve for the step over the entries that are free to take it; damping in units of the
        prior.
        """
        free, step = np.ones(len(self.x), dtype=bool), np.zeros_like(self.x)
        for _ in range(len(self.x) + 1):
            step[:] = 0.0
            step[free] = self._solve(free, damping)
            out = free & (
                ((self.x <= self.prior.lower) & (step < 0))
                | ((self.x >= self.prior.upper) & (step > 0))
            )
            if not out.any():
                break
            free &= ~out
        return step

    def _solve(self, free: NDArray[np.bool_], damping: float) -> Array:
        raise NotImplementedError


class _Dense(_Around):
    """By the curvature (n, n)."""

    @cached_property
    def _curvature(self) -> Array:
        return self.weight * (self.slopes.T @ self.slopes) + self.prior.precision

    def promised(self, step: Array) -> float:
        """As above, by the curvature."""
        return -float(self.gradient @ step + 0.5 * step @ self._curvature @ step)

    def _solve(self, free: NDArray[np.bool_], damping: float) -> Array:
        whole = self._curvature + damping * self.prior.precision
        scale = 1 / np.sqrt(whole.diagonal()[free])
        return -scale * np.linalg.solve(
            whole[np.ix_(free, free)] * scale * scale[:, None], scale * self.gradient[free]
        )


class _Wide(_Around):
    """With independent entries and fewer rows than entries: in units of the prior, (AᵀA + c I)⁻¹ =
    (I − Aᵀ (A Aᵀ + c I)⁻¹ A) / c, so that a matrix (rows, rows) is solved for.
    """

    @cached_property
    def _whitened(self) -> tuple[Array, Array, Array]:
        """Deviations of the prior (n,), A (rows, n) and A Aᵀ."""
        spread = self.prior.precision.diagonal() ** -0.5
        A = np.sqrt(self.weight) * self.slopes * spread
        return spread, A, A @ A.T

    def _solve(self, free: NDArray[np.bool_], damping: float) -> Array:
        spread, A, square = self._whitened
        fixed = A[:, ~free]
        own, gradient = A[:, free], (spread * self.gradient)[free]
        square = square - fixed @ fixed.T
        square[np.diag_indices(len(square))] += 1 + damping
        inner = cho_solve(cho_factor(square, overwrite_a=True), own @ gradient)
        return -spread[free] * (gradient - own.T @ inner) / (1 + damping)


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
