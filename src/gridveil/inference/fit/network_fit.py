"""The fit where the network is the smaller thing to search for: many machines, and far more reduced
weights than lines.

The maximum of the posterior of y = (log k, log m, log d) is looked for by Levenberg-Marquardt on
the records themselves, see `gridveil.inference.fit.direct`. Up to so many machines as eigenvectors
do, several starts are tried and all samples count; above, the release alone is the start, samples
are fewer, but never so few that a swing is missed, and the model is integrated to fourth order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gridveil.dynamics.engine.propagate import SchemeName
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.swing import SWING
from gridveil.foundation.progress import told_to
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.parameters import Bounds
from gridveil.inference.alike import Belief
from gridveil.inference.fit.coordinates import independent
from gridveil.inference.fit.direct import MODAL, DirectResiduals
from gridveil.inference.fit.least_squares import Gaussian, Minimum, minimise
from gridveil.inference.fit.outcome import SearchEnd, TwoStage, outcome
from gridveil.inference.fit.problem import Observation, report_step
from gridveil.inference.fit.sampling import Sampling
from gridveil.inference.fit.search import (
    MOST_KEPT,
    SEARCHED,
    WIDE_SIGMA,
    follow,
    sampled,
    windows,
)
from gridveil.inference.fit.task import Task

# Machines and lines at most: a linearisation takes half a minute, and a Jacobian a gigabyte.
NETWORK_FIT_UP_TO, MOST_LINES = 600, 20_000
# Steps at most, and the decrease of the cost at which a search ends: of tries, and of the last.
TRIED, NEARLY = 15, 0.1
STEPS, CLOSE = 60, 1e-3
# The same above `MODAL` machines, where a step takes seconds.
STEPS_OF_MANY, CLOSE_OF_MANY = 10, 0.1


def is_beyond(facts: GridFacts) -> bool:
    """Whether a grid is beyond this fit too."""
    return len(facts.machines) > NETWORK_FIT_UP_TO or len(facts.edges) > MOST_LINES


def task_of(
    facts: GridFacts,
    observed: Sequence[Observation],
    bounds: Bounds,
    *,
    dt_s: float,
    scheme: SchemeName,
) -> Task:
    """Put records and grid together."""
    large = len(facts.machines) > MODAL
    return Task.of(facts, observed, bounds, dt_s=dt_s, scheme=scheme, reduced=not large)


def network_fit(
    task: Task,
    observed: Sequence[Observation],
    belief: Mapping[str, Belief],
    middle: ReducedModel,
    *,
    sigma: float | Array,
    starts: int,
    random: np.random.Generator,
    near: Array | None = None,
) -> TwoStage:
    """Find the most probable network; arguments as of `two_stage`.

    middle : the model in the middle of the release, whose fastest mode sets the first window.
    """
    prior = independent(belief)
    thin = sampled(task, SEARCHED, MOST_KEPT)
    few = task.coordinates.locations < len(middle.machines)
    if near is not None:
        begun = [near, prior.mean] if len(middle.machines) <= MODAL else [near]
    else:
        wide = np.maximum(sigma, WIDE_SIGMA)
        parts = windows(task, middle)
        first = follow(DirectResiduals, task, prior, wide, parts, prior.mean, rough=True)
        begun = [first.x]
        if few and len(middle.machines) <= MODAL:
            drawn = [belief[name].sample(random, starts - 1) for name in SWING]
            begun += [*np.log(np.concatenate(drawn, axis=1))]
    best, costs = begun[0], ()
    if len(begun) > 1:
        with told_to(None):
            tried = [_searched(task, prior, y, thin, sigma, TRIED, NEARLY) for y in begun]
        costs = tuple(minimum.cost for minimum in tried)
        best = tried[int(np.argmin(costs))].x
    all_samples = everything(task)
    last, history = climbed(task, prior, best, all_samples, sigma)
    ended = SearchEnd(task, prior, last, all_samples, sigma, direct=True)
    return outcome(ended, observed, costs or (last.cost,), history)


def climbed(
    task: Task,
    prior: Gaussian,
    start: Array,
    sampling: Sampling,
    sigma: float | Array,
    steps: int = STEPS,
    close: float = CLOSE,
) -> tuple[Minimum, Array]:
    """Go to the maximum of the posterior near a start: it, and J after each step [p.u.² s]."""
    noise = task.sigma(sampling, sigma)
    if len(task.coordinates.facts.machines) > MODAL:
        steps, close = min(steps, STEPS_OF_MANY), max(close, CLOSE_OF_MANY)

    def mismatch(r: Array) -> float:
        return float(sampling.weights @ (noise * r) ** 2)

    history = [mismatch(DirectResiduals(task, sampling, noise).at(start))]

    def note(number: int, r: Array) -> None:
        history.append(mismatch(r))
        report_step(number, steps, history[-1])

    found = _searched(task, prior, start, sampling, sigma, steps, close, note)
    return found, np.array(history)


def everything(task: Task) -> Sampling:
    """All samples that count."""
    return sampled(task, task.predictor.records.samples, MOST_KEPT)


def _searched(
    task: Task,
    prior: Gaussian,
    start: Array,
    sampling: Sampling,
    sigma: float | Array,
    steps: int,
    close: float,
    note: Callable[[int, Array], None] = lambda steps, r: None,  # noqa: ARG005
) -> Minimum:
    residuals = DirectResiduals(task, sampling, task.sigma(sampling, sigma))
    return minimise(residuals, prior, start, iterations=steps, tolerance=close, note=note)
