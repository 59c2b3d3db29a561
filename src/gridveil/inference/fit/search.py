"""Searches that both fits share: from the first period of the records to all of them, and from a
wide σ to its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import modes
from gridveil.dynamics.simulate_large import fastest_undamped_hz
from gridveil.grid.facts import Array
from gridveil.inference.fit.direct import MODAL, DirectResiduals
from gridveil.inference.fit.least_squares import Gaussian, Minimum, minimise
from gridveil.inference.fit.polish import polish_all
from gridveil.inference.fit.sampling import Sampling
from gridveil.inference.fit.task import ReducedResiduals, Task, WholeResiduals

# The noise that a search assumes at first [p.u.].
FIRST_SIGMA = 1e-3
# The noise that is assumed while the part of the record that is looked at still grows [p.u.].
WIDE_SIGMA = 1e-5
# Samples of a record that the search itself compares; the polish at the end takes them all. Of many
# places, fewer samples do: numbers in a Jacobian, of the search and of the polish, and the fewest
# samples all the same.
SEARCHED, SEARCHED_ROUGHLY, LEAST_SAMPLES = 300, 100, 40
MOST_SEARCHED, MOST_KEPT = 1_000_000, 12_000_000
# Rows of a Jacobian at most where the network itself is looked for without eigenvectors: fewer than
# its entries, so that what is solved for has their size.
MOST_ROWS, NEARLY_ALL = 2000, 0.9
# Searches for several explanations: σ that they assume, over its value; rounds with each window,
# and the change of the cost at which one ends.
WIDER, ROUNDS, CLOSE = 30.0, 8, 0.1
# Machines above which a search takes a second or more.
MANY_MACHINES = 20


def sampled(
    task: Task, samples: int, numbers: int = MOST_SEARCHED, until: int | None = None
) -> Sampling:
    """Limit the samples of a record, and the numbers in a Jacobian."""
    rows = task.coordinates.locations * len(task.predictor.records.observed)
    if not len(task.coordinates.linked):  # the network itself is what is looked for
        return densest(task, max(MOST_ROWS // rows, 1), until)
    every = task.predictor.sampling().stride
    most = min(samples, max(LEAST_SAMPLES, numbers // (rows * task.coordinates.size)))
    length = task.predictor.records.samples if until is None else until
    return task.predictor.sampling(max(1, length // every // most), until)


def densest(task: Task, most: int, until: int | None = None) -> Sampling:
    """Look at nearly as many samples of a record as are allowed, as far apart as that goes.

    30 Hz lie on every third or fourth step of 10 ms: all of every tenth, but few of every eighth.
    """
    every = task.predictor.sampling().stride
    length = task.predictor.records.samples if until is None else until
    widest = max(1, length // every // min(most, LEAST_SAMPLES))
    tried = [task.predictor.sampling(thin, until) for thin in range(1, widest + 1)]
    counts = np.array([max(map(len, own.at)) for own in tried])
    allowed = counts * (counts <= most)
    if not allowed.any():
        return tried[-1]
    return tried[np.flatnonzero(allowed >= NEARLY_ALL * allowed.max())[-1]]


def windows(task: Task, middle: ReducedModel) -> list[int]:
    """Clock steps after an event to look at in turn: a period of the fastest mode, then doubling.

    A record that rings for many periods has many explanations that are each off by a period; its
    first period has one.
    """
    fastest, whole = fastest_hz(middle), task.predictor.records.samples
    first = (
        max(LEAST_SAMPLES // 10, ceil(1 / (fastest * task.predictor.dt_s))) if fastest else whole
    )
    parts: list[int] = []
    while first < whole:
        parts.append(first)
        first *= 2
    return [*parts, whole]


def fastest_hz(model: ReducedModel) -> float:
    """Frequency of a model's fastest oscillation [Hz], 0 where there is none; of many machines, as
    if nothing damped it.
    """
    if len(model.machines) > MODAL:
        return fastest_undamped_hz(model)
    swings = modes(model)
    return swings[-1].frequency_hz if swings else 0.0


def follow(
    kind: type[ReducedResiduals | WholeResiduals | DirectResiduals],
    task: Task,
    prior: Gaussian,
    sigma: float | Array,
    parts: Sequence[int],
    start: Array,
    *,
    rough: bool = False,
) -> Minimum:
    """Fit x or y to the records, from their first period to all, σ falling from 1e-3 to its value.

    Residuals of the result are in units of σ.
    rough : a polish follows, and need not begin near its end.
    """
    x, steps, minimum = start, 0, None
    usual, at_last = ((5, 0.5), (10, 1.0)) if rough else ((8, 0.1), (60, 1e-3))
    if task.coordinates.unknowns.size:
        usual = (20, usual[1])
    for number, window in enumerate(parts):
        whole = number == len(parts) - 1
        samples = SEARCHED_ROUGHLY if rough and not whole else SEARCHED
        sampling = sampled(task, samples, until=None if whole else window)
        finest = float(task.sigma(sampling, sigma).min())
        for level in levels(
            WIDE_SIGMA if number else FIRST_SIGMA, finest if whole else max(finest, WIDE_SIGMA)
        ):
            last = whole and level == finest
            iterations, tolerance = at_last if last else usual
            residuals = kind(task, sampling, task.sigma(sampling, sigma, level))
            minimum = minimise(
                residuals, prior, x, cap=1.0, iterations=iterations, tolerance=tolerance
            )
            x, steps = minimum.x, steps + minimum.steps
    assert minimum is not None, "there is at least one window, and one level"
    return Minimum(
        minimum.x, minimum.cost, minimum.residuals, minimum.slopes, steps, minimum.converged
    )


def explore(
    task: Task,
    priors: Sequence[Gaussian],
    starts: Sequence[Array],
    sigma: float | Array,
    parts: Sequence[int],
) -> list[Array]:
    """Look for an explanation of the records near each start, with a prior of its own: from their
    first period to all of them, with a wider σ. Its end is still to be polished.

    Many starts end in one place each; from all samples at once, most would end in none.
    """
    shape = len(task.sigmas), task.coordinates.locations
    wide = WIDER * np.broadcast_to(sigma if np.ndim(sigma) else task.sigmas_or(sigma), shape)
    found = list(starts)
    for window in (*parts[:-1], None):
        samples = SEARCHED if window is None else SEARCHED_ROUGHLY
        sampling = sampled(task, samples, until=window)
        ends = polish_all(task, priors, found, sampling, wide, ROUNDS, CLOSE)
        found = [minimum.x for minimum, _ in ends]
    return found


def levels(first: float, last: float) -> list[float]:
    """Decades from the first to the last, both included."""
    count = max(0, int(np.ceil(abs(np.log10(last / first)) - 1e-9)))
    sign = 1.0 if last > first else -1.0
    if (first - last) * -sign <= 0:
        return [last]
    return [*(first * 10.0 ** (sign * number) for number in range(count)), last]
