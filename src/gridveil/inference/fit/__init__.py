"""Step 3 of Algorithm 1: win the dynamics back from public trajectories.

Post-processing only: it never sees the vault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from gridveil.dynamics.engine import SchemeName
from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.models import GridPorts, ReducedModel
from gridveil.dynamics.simulate import check_euler
from gridveil.dynamics.swing import SWING
from gridveil.foundation.arguments import a_number, one_of, takes, whole
from gridveil.foundation.errors import OptionError
from gridveil.foundation.looks import looks
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit.outcome import Identifiability
from gridveil.inference.fit.problem import (
    NOT_FITTED,
    Observation,
    Problem,
    on_clock,
    problem,
    projected_gradient,
    quasi_newton,
)
from gridveil.inference.fit.task import Task
from gridveil.inference.fit.two_stage import is_too_large, two_stage
from gridveil.inference.fit.unknown import EstimatedEvent, Unknown, check_known
from gridveil.inference.posterior import beliefs
from gridveil.privacy.noisy import NoisyGrid

__all__ = [
    "EstimatedEvent",
    "FitResult",
    "FitSettings",
    "Identifiability",
    "Observation",
    "Problem",
    "Unknown",
    "check_records",
    "fit",
    "problem",
]

Method = Literal["projected-gradient", "l-bfgs-b", "two-stage"]


_COUNT = whole("a whole number of 1 or more", least=1)


@looks()
@takes(
    method=one_of(get_args(Method)),
    scheme=one_of(get_args(SchemeName)),
    dt_s=a_number("a time step above 0 [s]", above=0.0),
    iterations=_COUNT,
    step=a_number("a number above 0", above=0.0),
    rho=a_number("a number of 0 or more"),
    sigma=a_number("a deviation above 0 [p.u. frequency]", above=0.0),
    starts=_COUNT,
)
@dataclass(frozen=True)
class FitSettings:
    """How to fit. All of it is public and fixed before the draw.

    method : two-stage, with l-bfgs-b in its place where a grid is too large for it.
    sigma : of the two-stage fit, standard deviation of a sample: sensor and model error together
    [p.u. frequency].
    starts : of the two-stage fit, searches for the network.
    iterations, rho : of the other two, how many at most, and ρ of the anchor to the noisy start.
    step : η of the projected gradient, dt being inside the gradient.
    """

    method: Method = "two-stage"
    scheme: SchemeName = "exact"
    dt_s: float = 0.01
    iterations: int = 1000
    step: float = 100.0
    rho: float = 0.0
    sigma: float = 1e-5
    starts: int = 4


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted model and how it was reached.

    mismatch_before, mismatch_after : J of the noisy and of the fitted model [p.u.² s].
    history : J by iteration.
    method : the one that was run: l-bfgs-b in place of two-stage on a grid that is too large for
    it.
    identifiability, covariance : of the two-stage fit alone: what the records fix, and the
    posterior covariance of (k_r, m, d).
    events : what was found of events that were not wholly known; both J are then those after the
    events as found.
    """

    model: ReducedModel
    mismatch_before: float
    mismatch_after: float
    history: Array
    converged: bool
    method: Method
    identifiability: Identifiability | None = None
    covariance: Array | None = None
    events: tuple[EstimatedEvent, ...] = ()


def check_records(
    observed: Sequence[Observation], facts: GridFacts, settings: FitSettings, bounds: Bounds
) -> None:
    """Refuse records that cannot be fitted and events that cannot be estimated: public inputs only,
    so that it can be asked before anything is spent.
    """
    if not observed:
        return
    check_known(observed, method_for(settings, facts))
    if any(observation.unknown.anything for observation in observed):
        Task.of(facts, observed, bounds, dt_s=settings.dt_s, scheme=settings.scheme)
    on_clock(GridPorts.of(facts), observed, settings.dt_s)
    if settings.scheme == "euler":
        stiffest = {name: np.full(size, bounds[name].upper) for name, size in facts.sizes.items()}
        check_euler(reduced_model(facts, stiffest), settings.dt_s)


def method_for(settings: FitSettings, facts: GridFacts) -> Method:
    """The method that is run: l-bfgs-b in place of two-stage on a grid that is too large for it, or
    that has devices.
    """
    whole = is_too_large(facts) or facts.sizes.keys() - set(SWING)
    return "l-bfgs-b" if settings.method == "two-stage" and whole else settings.method


def fit(
    start: ReducedModel,
    observed: Sequence[Observation],
    settings: FitSettings,
    bounds: Bounds,
    noisy: NoisyGrid | None = None,
) -> FitResult:
    """Minimise J(k_r, m, d) against public trajectories, from a noisy model, within public bounds.

    noisy : what start is the reduction of; the two-stage fit looks for a whole network near it, and
    moves K_ac too. Without it, choose another method.

    Privacy
    -------
    Uses the noisy model, public trajectories and public settings only, so it is post-processing:
    see the guarantee for what it is then conditional on.
    """
    method = method_for(settings, noisy.facts) if noisy is not None else settings.method
    if method != "two-stage":  # which alone estimates events
        check_known(observed, method)
    task = problem(
        start, observed, bounds, dt_s=settings.dt_s, scheme=settings.scheme, rho=settings.rho
    )
    theta0 = task.start
    if settings.scheme == "euler":
        check_euler(start, settings.dt_s)
    before = float(task(theta0)[0])
    if method == "two-stage":
        return _two_stage(noisy, observed, settings, before)
    if method == "projected-gradient":
        theta, history = projected_gradient(
            task, theta0, step=settings.step, iterations=settings.iterations
        )
        converged = False  # it stops after a fixed number of steps
    else:
        theta, history, converged = quasi_newton(task, theta0, iterations=settings.iterations)
    return FitResult(
        start.with_theta(theta),
        before,
        float(task(theta)[0]),
        np.asarray(history),
        converged,
        method,
    )


def _two_stage(
    noisy: NoisyGrid | None,
    observed: Sequence[Observation],
    settings: FitSettings,
    before: float,
) -> FitResult:
    if noisy is None:
        raise OptionError(
            "The two-stage fit needs the noisy grid, not only its reduction.",
            outcome=NOT_FITTED,
            remedy="Pass noisy=..., or choose another method.",
        )
    fitted = two_stage(
        noisy.facts,
        observed,
        beliefs(noisy),
        noisy.bounds,
        dt_s=settings.dt_s,
        scheme=settings.scheme,
        sigma=settings.sigma,
        starts=settings.starts,
    )
    if fitted.events:  # before, the event was a guess
        before = fitted.mismatch(noisy.values)
    history = np.concatenate([[before], fitted.history])
    return FitResult(
        fitted.model,
        before,
        float(history[-1]),
        history,
        fitted.converged,
        "two-stage",
        fitted.identifiability,
        fitted.covariance,
        fitted.events,
    )
