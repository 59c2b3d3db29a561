"""The network that is most probable given public records, a release, or both, where topology and bounds are public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gridveil.engine.objective import one_blas_thread
from gridveil.engine.schemes import SchemeName
from gridveil.fit.least_squares import Gaussian, minimise
from gridveil.fit.outcome import TwoStage
from gridveil.fit.problem import Observation
from gridveil.fit.task import DirectResiduals, Task
from gridveil.fit.two_stage import check_size, two_stage
from gridveil.grid import Array, GridFacts
from gridveil.groups import Bounds
from gridveil.kron import reduce
from gridveil.models import ReducedModel
from gridveil.noisy import NoisyGrid
from gridveil.posterior import beliefs, no_release, posterior_mean

# Noise that a search in a network assumes at first [p.u.], before its own.
LEVELS = (1e-2, 1e-3, 3e-4)


def from_records(
    facts: GridFacts, observed: Sequence[Observation], bounds: Bounds, *, dt_s: float, scheme: SchemeName, sigma: float
) -> TwoStage:
    """The most probable network given records, public bounds and public topology, without a release; any locations."""
    return two_stage(facts, observed, no_release(facts.sizes, bounds), bounds, dt_s=dt_s, scheme=scheme, sigma=sigma)


def from_release(noisy: NoisyGrid) -> ReducedModel:
    """The reduced model of the posterior means: what a release alone gives."""
    return reduce(posterior_mean(noisy))


def from_both(noisy: NoisyGrid, observed: Sequence[Observation], *, dt_s: float, scheme: SchemeName, sigma: float) -> TwoStage:
    """The most probable network given a release and records together."""
    return two_stage(noisy.facts, observed, beliefs(noisy), noisy.bounds, dt_s=dt_s, scheme=scheme, sigma=sigma)


def sample_from_records(
    facts: GridFacts,
    observed: Sequence[Observation],
    bounds: Bounds,
    *,
    dt_s: float,
    scheme: SchemeName,
    sigma: float,
    draws: int,
    seed: int = 0,
) -> Array:
    """Draw (log k, log m, log d) from what records and public bounds leave open: (draws that fit, e + 2g).

    By randomised maximum likelihood: each draw fits records with fresh noise from a table drawn from the bounds (log-uniform),
    which it stays near. Exact if ω were linear; it follows bends that a Cramér-Rao bound does not see, and is wider than that.
    Draws whose misfit is larger than the best one's by more than twice the parameters are left out: searches that got stuck.
    """
    check_size(facts)
    random = np.random.default_rng(seed)
    ends = [(getattr(bounds, name), size) for name, size in facts.sizes.items()]
    lower = np.concatenate([np.full(size, np.log(one.least)) for one, size in ends])
    upper = np.concatenate([np.full(size, np.log(one.upper)) for one, size in ends])
    precision = np.diag(12 / (upper - lower) ** 2)
    found, misfits = [], []
    with one_blas_thread():
        task = Task.of(facts, observed, bounds, dt_s=dt_s, scheme=scheme)
        sampling = task.predictor.sampling()
        for _ in range(draws):
            noise = sigma * random.normal(size=len(sampling.observed))
            start = y = lower + (upper - lower) * random.random(len(lower))
            for level in (*(one for one in LEVELS if one > sigma), sigma):
                last = level == sigma
                y = minimise(
                    DirectResiduals(task, replace(sampling, observed=sampling.observed + noise), np.full(len(noise), level)),
                    Gaussian(start, precision, lower, upper),
                    y,
                    cap=1.0,
                    iterations=80 if last else 25,
                    tolerance=1e-3 if last else 0.1,
                ).x
            misfit = DirectResiduals(task, sampling, np.full(len(noise), sigma)).at(y)
            found.append(y)
            misfits.append(misfit @ misfit)
    return np.array(found)[np.array(misfits) <= min(misfits) + 2 * len(lower)]
