"""The most probable network given records, a release or both, with public topology and bounds."""

from __future__ import annotations

from collections.abc import Sequence

from gridveil.dynamics.engine.schemes import SchemeName
from gridveil.dynamics.kron import reduce
from gridveil.dynamics.models import ReducedModel
from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit.outcome import TwoStage
from gridveil.inference.fit.problem import Observation
from gridveil.inference.fit.two_stage import two_stage
from gridveil.inference.posterior import beliefs, no_release, posterior_mean
from gridveil.privacy.noisy import NoisyGrid


def from_records(
    facts: GridFacts,
    observed: Sequence[Observation],
    bounds: Bounds,
    *,
    dt_s: float,
    scheme: SchemeName,
    sigma: float,
) -> TwoStage:
    """The most probable network given records at any locations, without a release."""
    return two_stage(
        facts,
        observed,
        no_release(facts.sizes, bounds),
        bounds,
        dt_s=dt_s,
        scheme=scheme,
        sigma=sigma,
    )


def from_release(noisy: NoisyGrid) -> ReducedModel:
    """The reduced model of the posterior means: what a release alone gives."""
    return reduce(posterior_mean(noisy))


def from_both(
    noisy: NoisyGrid,
    observed: Sequence[Observation],
    *,
    dt_s: float,
    scheme: SchemeName,
    sigma: float,
) -> TwoStage:
    """The most probable network given a release and records together."""
    return two_stage(
        noisy.facts, observed, beliefs(noisy), noisy.bounds, dt_s=dt_s, scheme=scheme, sigma=sigma
    )
