"""Eigenvalues of a model as functions of y = (log k, log m, log d), and what a search for a network
with given eigenvalues minimises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from gridveil.grid.facts import Array, IntArray
from gridveil.inference.fit.least_squares import Gaussian
from gridveil.inference.fit.sensitivity import Complex
from gridveil.inference.fit.task import Task, WholeResiduals

# An eigenvalue oscillates whose imaginary part is more than this share of it.
OSCILLATING = 1e-6


@dataclass(frozen=True, eq=False)
class Poles:
    """(λ − λ̂) / width of b searches over y, real parts and then imaginary ones. Each target λ̂ has
    an eigenvalue of its own, chosen so that the sum of squares is least.

    targets, widths : (b, modes) [1/s]; a target of infinite width may lie anywhere.
    """

    task: Task
    targets: Complex
    widths: Array

    def at(self, x: Array, which: IntArray) -> Array:
        """Residuals (·, 2 modes); infinite where a model has too few modes."""
        found = np.full((len(x), 2 * self.targets.shape[1]), np.inf)
        for row, values, number in zip(found, eigenvalues(self.task, x), which, strict=True):
            if len(values) >= self.targets.shape[1]:
                off = values[self._own(values, number)] - self.targets[number]
                off /= self.widths[number]
                row[:] = np.concatenate([off.real, off.imag])
        return found

    def slopes(self, x: Array, which: IntArray) -> Array:
        """Slopes (·, 2 modes, n); 0 where a model has too few modes."""
        found = np.zeros((len(x), 2 * self.targets.shape[1], x.shape[1]))
        own = zip(found, *eigenvalue_slopes(self.task, x), which, strict=True)
        for rows, values, slopes, number in own:
            if len(values) >= self.targets.shape[1]:
                moved = slopes[self._own(values, number)] / self.widths[number][:, None]
                rows[:] = np.concatenate([moved.real, moved.imag])
        return found

    def of(self, which: IntArray, *, softer: float = 1.0) -> Poles:
        """Some of the searches, held less firmly."""
        return Poles(self.task, self.targets[which], softer * self.widths[which])

    def _own(self, values: Complex, number: int) -> IntArray:
        """Which eigenvalue each target has."""
        off = np.abs(self.targets[number][:, None] - values) / self.widths[number][:, None]
        return np.asarray(linear_sum_assignment(off**2)[1], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class RecordsAndPoles:
    """The same, with what records say beside it."""

    records: WholeResiduals
    poles: Poles

    def at(self, x: Array, which: IntArray) -> Array:
        """Residuals (·, rows + 2 modes)."""
        own = np.stack([self.records.at(one) for one in x])
        return np.concatenate([own, self.poles.at(x, which)], axis=1)

    def slopes(self, x: Array, which: IntArray) -> Array:
        """Slopes (·, rows + 2 modes, n)."""
        own = np.stack([self.records.slopes(one) for one in x])
        return np.concatenate([own, self.poles.slopes(x, which)], axis=1)


def eigenvalues(task: Task, y: Array) -> list[Complex]:
    """Eigenvalues of the oscillations at each y (b, n), one of each pair: (modes,) [1/s]."""
    return [values[_oscillating(values)] for values in np.linalg.eigvals(_models(task, y)[1])]


def eigenvalue_slopes(task: Task, y: Array) -> tuple[list[Complex], list[Complex]]:
    """The same, and their slopes by y (modes, n)."""
    theta, A = _models(task, y)
    coordinates, n = task.coordinates, A.shape[-1]
    every, V = np.linalg.eig(A)
    inverse, by_y = np.linalg.inv(V), coordinates.value_slopes(y)
    found, slopes = [], []
    for number, values in enumerate(every):
        own = _oscillating(values)
        left, right = task.predictor.family.directions(theta[number], coordinates.moving)
        entered = inverse[number][own, : left.shape[1]] @ left.T
        by_theta = entered * (right[:, :n] @ V[number][:, own]).T
        found.append(values[own])
        slopes.append(by_theta @ by_y[number, : len(left)])
    return found, slopes


def spread(slopes: Complex, by_records: Array, prior: Gaussian) -> Array:
    """Deviation of eigenvalues (modes,) [1/s], given release and records near an explanation.

    slopes : of eigenvalues (modes, n); by_records : of what records say (rows, n) [σ].
    """
    scale = np.sqrt(prior.precision.diagonal())
    _, S, rows = np.linalg.svd(by_records / scale, full_matrices=False)
    own = slopes / scale
    variance = (np.abs(own) ** 2).sum(axis=1)
    variance -= (np.abs(own @ rows.T) ** 2 * (S**2 / (1 + S**2))).sum(axis=1)
    return np.sqrt(np.maximum(variance, 0.0) / 2)


def _models(task: Task, y: Array) -> tuple[Array, Array]:
    """θ (b, ·) and A (b, n, n) at each y; 0 where it is not finite, which has no modes."""
    moving, family = task.coordinates.moving, task.predictor.family
    theta = np.zeros((len(y), family.size))
    theta[:, moving] = task.coordinates.values_of(y)[:, : len(moving)]
    with np.errstate(all="ignore"):
        lti = family.lti(theta)
    A = lti.F[..., : lti.states, : lti.states]
    return theta, np.where(np.isfinite(A).all(axis=(1, 2), keepdims=True), A, 0.0)


def _oscillating(values: Complex) -> IntArray:
    """Where one of each pair of eigenvalues stands."""
    return np.flatnonzero(values.imag > OSCILLATING * np.abs(values))
