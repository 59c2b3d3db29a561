"""Levenberg-Marquardt for ½ w |r(x)|² + ½ (x − μ)ᵀ Λ (x − μ) over a box, with capped steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gridveil.grid.facts import Array, IntArray

# Numbers in the curvatures of searches that go in step.
TOGETHER = 2_000_000
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


class ManyResiduals(Protocol):
    """The same of many searches; which : (b,) numbers of those that are looked at."""

    def at(self, x: Array, which: IntArray) -> Array:
        """Residuals r (b, rows) at x (b, n)."""
        ...

    def slopes(self, x: Array, which: IntArray) -> Array:
        """∂r/∂x (b, rows, n)."""
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
    """Walk down to a minimum: `minimise_all` of one search.

    note : is told of each step, with its number and r.
    """
    return minimise_all(
        _Alone(residuals),
        [prior],
        start[None],
        weight=weight,
        cap=cap,
        iterations=iterations,
        tolerance=tolerance,
        note=note,
    )[0]


def minimise_all(
    residuals: ManyResiduals,
    priors: Sequence[Gaussian],
    starts: Array,
    *,
    weight: float = 1.0,
    cap: float = 2.0,
    iterations: int = 30,
    tolerance: float = 1e-6,
    note: Callable[[int, Array], None] = lambda steps, r: None,  # noqa: ARG005
) -> list[Minimum]:
    """Walk down from each start (b, n), in step: one call on arrays serves all searches, each with
    a damping and an end of its own. cap : longest step of any entry; tolerance : decrease to end
    at.

    Damping is in units of the prior, so that directions that the data do not see are never scaled
    by them. Entries on the box that a step would push out stay there for that step (an active set).
    """
    prior, which = _Priors.of(priors), np.arange(len(priors))
    x = np.clip(starts, prior.lower, prior.upper)
    here = _expand(
        residuals, prior, which, x, *_evaluate(residuals, prior, which, x, weight), weight
    )
    damping: Array = np.zeros(len(x))
    growth: Array = np.full(len(x), 4.0)
    steps, ended = np.zeros(len(x), dtype=int), dict[int, Minimum]()
    for _ in range(4 * iterations):  # most tries are steps; this bounds those that are not
        step = _step(here, prior, damping, weight)
        longest = np.abs(step).max(axis=1, initial=0.0, keepdims=True)
        there = np.clip(here.x + step * (cap / np.maximum(longest, cap)), prior.lower, prior.upper)
        step = there - here.x
        promised = _promised(here, prior, step, weight)
        cost, r = _evaluate(residuals, prior, which, there, weight)
        better = cost < here.cost
        fell = np.subtract(here.cost, cost, out=np.zeros(len(cost)), where=better)
        kept = better & (promised > 0)
        gain = np.minimum(np.divide(fell, promised, out=np.zeros(len(cost)), where=kept), 1.0)
        # a promise within rounding of the cost cannot be kept, and need not be
        little = np.maximum(1e-13 * here.cost, 0.1 * tolerance)
        nothing = ~step.any(axis=1) | ((promised >= 0) & (promised <= little))
        converged = np.where(better, (fell <= tolerance) & (damping <= 1.0), nothing)
        less = np.where(
            damping > LEAST_DAMPING, damping * np.maximum(1 / 10, 1 - (2 * gain - 1) ** 3), 0.0
        )
        more = np.maximum(damping * growth, 10 * LEAST_DAMPING)
        damping, growth = np.where(better, less, more), np.where(better, 4.0, 2 * growth)
        steps += better
        if better.any():
            moved = (part[better] for part in (there, cost, r))
            around = _expand(residuals, prior.some(better), which[better], *moved, weight)
            here = here.moved(better, around)
            for number in np.flatnonzero(better):
                note(int(steps[number]), here.r[number])
        over = converged | (steps >= iterations) | (damping > MOST_DAMPING)
        if over.any():
            for number in np.flatnonzero(over):
                ended[int(which[number])] = here.ended(number, steps[number], converged[number])
            going = ~over
            if not going.any():
                break
            here, prior = here.some(going), prior.some(going)
            which, steps = which[going], steps[going]
            damping, growth = damping[going], growth[going]
    else:
        for number, name in enumerate(which):
            ended[int(name)] = here.ended(number, steps[number], False)
    return [ended[number] for number in range(len(priors))]


def in_step(searches: int, entries: int) -> Iterator[slice]:
    """So many searches of so many entries at a time as memory allows."""
    size = max(1, TOGETHER // entries**2)
    for first in range(0, searches, size):
        yield slice(first, first + size)


@dataclass(frozen=True, eq=False)
class _Alone:
    """One search as many."""

    one: Residuals

    def at(self, x: Array, which: IntArray) -> Array:  # noqa: ARG002
        return self.one.at(x[0])[None]

    def slopes(self, x: Array, which: IntArray) -> Array:  # noqa: ARG002
        return self.one.slopes(x[0])[None]


class _Priors(NamedTuple):
    """Priors of searches: mean, lower, upper (b, n); precision (b, n) where entries of all are
    independent, else (b, n, n).
    """

    mean: Array
    precision: Array
    lower: Array
    upper: Array

    @classmethod
    def of(cls, priors: Sequence[Gaussian]) -> _Priors:
        diagonal = all(prior.is_diagonal for prior in priors)
        return cls(
            np.stack([prior.mean for prior in priors]),
            np.stack(
                [prior.precision.diagonal() if diagonal else prior.precision for prior in priors]
            ),
            np.stack([prior.lower for prior in priors]),
            np.stack([prior.upper for prior in priors]),
        )

    def some(self, chosen: NDArray[np.bool_]) -> _Priors:
        return self if chosen.all() else _Priors(*(part[chosen] for part in self))

    @property
    def is_diagonal(self) -> bool:
        return self.precision.ndim == 2

    def pull(self, x: Array) -> Array:
        """Λ x (b, n)."""
        return self.precision * x if self.is_diagonal else _times(self.precision, x)

    def cost(self, x: Array) -> Array:
        """½ (x − μ)ᵀ Λ (x − μ), (b,)."""
        return 0.5 * np.vecdot(x - self.mean, self.pull(x - self.mean))

    def added(self, matrix: Array, factor: Array) -> Array:
        """Matrix + factor Λ, factor (b,), as a matrix of its own."""
        if not self.is_diagonal:
            return matrix + factor[:, None, None] * self.precision
        matrix, places = matrix.copy(), np.arange(matrix.shape[-1])
        matrix[:, places, places] += factor[:, None] * self.precision
        return matrix


class _Standing(NamedTuple):
    """Where searches stand, and the cost near there to second order, without the curvature of r.

    x (b, n), cost (b,), r (b, rows), slopes (b, rows, n), gradient (b, n).
    matrix : the curvature (b, n, n); or, where entries are independent and rows fewer, A Aᵀ
    (b, rows, rows) of the slopes A in units of the prior.
    """

    x: Array
    cost: Array
    r: Array
    slopes: Array
    gradient: Array
    matrix: Array

    def some(self, chosen: NDArray[np.bool_]) -> _Standing:
        return self if chosen.all() else _Standing(*(part[chosen] for part in self))

    def moved(self, better: NDArray[np.bool_], there: _Standing) -> _Standing:
        """Some searches go on from there."""
        if better.all():
            return there
        for part, new in zip(self, there, strict=True):
            part[better] = new
        return self

    def ended(self, number: int | np.intp, steps: int, converged: bool) -> Minimum:
        x, cost, r, slopes = (part[number] for part in self[:4])
        return Minimum(x, float(cost), r, slopes, int(steps), bool(converged))


def _evaluate(
    residuals: ManyResiduals, prior: _Priors, which: IntArray, x: Array, weight: float
) -> tuple[Array, Array]:
    with np.errstate(all="ignore"):
        r = residuals.at(x, which)
        cost = 0.5 * weight * np.vecdot(r, r) + prior.cost(x)
    return np.where(np.isfinite(cost), cost, np.inf), r


def _expand(
    residuals: ManyResiduals,
    prior: _Priors,
    which: IntArray,
    x: Array,
    cost: Array,
    r: Array,
    weight: float,
) -> _Standing:
    slopes = residuals.slopes(x, which)
    gradient = weight * _times(slopes.mT, r) + prior.pull(x - prior.mean)
    if prior.is_diagonal and slopes.shape[1] < slopes.shape[2]:
        A = slopes * np.sqrt(weight / prior.precision)[:, None]
        return _Standing(x, cost, r, slopes, gradient, A @ A.mT)
    curvature = prior.added(weight * (slopes.mT @ slopes), np.ones(len(x)))
    return _Standing(x, cost, r, slopes, gradient, curvature)


def _promised(here: _Standing, prior: _Priors, step: Array, weight: float) -> Array:
    """How far steps (b, n) bring the cost down, to second order."""
    moved = _times(here.slopes, step)
    bent = weight * np.vecdot(moved, moved) + np.vecdot(step, prior.pull(step))
    return -np.vecdot(here.gradient, step) - 0.5 * bent


def _step(here: _Standing, prior: _Priors, damping: Array, weight: float) -> Array:
    """Solve for the steps over the entries that are free to take them; damping in units of the
    prior.
    """
    solve = _by_rows if here.matrix.shape[1] < here.x.shape[1] else _by_entries
    step, free = np.zeros_like(here.x), np.ones(here.x.shape, dtype=bool)
    again = np.ones(len(step), dtype=bool)
    while again.any():
        some, own = here.some(again), prior.some(again)
        step[again] = solve(some, own, free[again], damping[again], weight)
        out = free & (
            ((here.x <= prior.lower) & (step < 0)) | ((here.x >= prior.upper) & (step > 0))
        )
        free &= ~out
        again = np.asarray(out.any(axis=1))
    return step


def _by_entries(
    here: _Standing,
    prior: _Priors,
    free: NDArray[np.bool_],
    damping: Array,
    weight: float,  # noqa: ARG001
) -> Array:
    """By the curvature (b, n, n), scaled to ones on its diagonal; what is held stands alone."""
    whole, places = prior.added(here.matrix, damping), np.arange(free.shape[1])
    scale = free / np.sqrt(whole[:, places, places])
    whole *= scale[:, None] * scale[:, :, None]
    whole[:, places, places] = 1.0
    return -scale * _solved(whole, scale * here.gradient)


def _by_rows(
    here: _Standing, prior: _Priors, free: NDArray[np.bool_], damping: Array, weight: float
) -> Array:
    """In units of the prior, (AᵀA + c I)⁻¹ = (I − Aᵀ (A Aᵀ + c I)⁻¹ A) / c, so that matrices
    (b, rows, rows) are solved for.
    """
    square, variance, root = here.matrix.copy(), 1 / prior.precision, np.sqrt(weight)
    for number in np.flatnonzero(~free.all(axis=1)):
        held = ~free[number]
        fixed = root * here.slopes[number][:, held] * np.sqrt(variance[number, held])
        square[number] -= fixed @ fixed.T
    places = np.arange(square.shape[1])
    square[:, places, places] += (1 + damping)[:, None]
    pull = variance * here.gradient * free
    inner = _solved(square, root * _times(here.slopes, pull))
    return -(pull - root * variance * free * _times(here.slopes.mT, inner)) / (1 + damping)[:, None]


def _times(matrices: Array, x: Array) -> Array:
    """Matrices (b, m, n) times vectors (b, n): (b, m)."""
    return (matrices @ x[..., None])[..., 0]


def _solved(matrices: Array, sides: Array) -> Array:
    """Solve systems (b, n, n) for sides (b, n)."""
    return np.asarray(np.linalg.solve(matrices, sides[..., None])[..., 0], dtype=np.float64)
