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
from gridveil.dynamics.simulate import check_euler, simulate
from gridveil.dynamics.swing import SWING
from gridveil.foundation.arguments import a_number, one_of, takes, whole
from gridveil.foundation.errors import OptionError
from gridveil.foundation.looks import looks
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.parameters import Bounds
from gridveil.inference.alike import beliefs_alike
from gridveil.inference.fit.direct import MODAL
from gridveil.inference.fit.guard import SwingFit, Verdict
from gridveil.inference.fit.noise import sensor_noise
from gridveil.inference.fit.other_events import LIKELIER, gained, likeliest
from gridveil.inference.fit.outcome import Identifiability, SearchEnd, TwoStage
from gridveil.inference.fit.problem import (
    NOT_FITTED,
    Observation,
    Problem,
    as_records,
    first_part,
    on_clock,
    problem,
    projected_gradient,
    quasi_newton,
)
from gridveil.inference.fit.task import Task
from gridveil.inference.fit.two_stage import is_direct, is_too_large, polished, two_stage
from gridveil.inference.fit.unknown import EstimatedEvent, Unknown, check_known
from gridveil.inference.posterior import beliefs, posterior_mean
from gridveil.privacy.noisy import NoisyGrid

__all__ = [
    "EstimatedEvent",
    "FitResult",
    "FitSettings",
    "Identifiability",
    "Observation",
    "Problem",
    "Unknown",
    "Verdict",
    "check_records",
    "fit",
    "problem",
]

# Fits at most until σ is that of the residual, and how much larger than σ that may be.
NOISE_ROUNDS, EXPLAINED = 4, 1.5
# Machines above which no second fits are made; a step elsewhere leaves at most this share of what
# the declared one does.
OTHER_BUSES_UP_TO, HALF = 20, 0.5
# Last steps over which J may change by this share where a fit counts as converged.
FLAT_STEPS, FLAT = 5, 1e-3

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
    sigma : of the two-stage fit, least standard deviation of a sample, for records that do not say
    theirs [p.u. frequency]; sensor noise and model error together are estimated from the residual.
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
    sigma : (records, places) of the two-stage fit alone, standard deviation that a sample counted
    with [p.u.], places in the order of `as_records`: what is declared or the settings' least, or
    more where the residual shows more. Samples whose residuals go together count as fewer, so it
    is that of independent ones: fresh noise of a record is white with this deviation.
    verdict : of the guard, of the two-stage fit alone; where it is discarded, model is the noisy
    one again, both J are its own, and there is nothing else of the fit but sigma.
    ended : of the two-stage fit alone, what error bars start from.
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
    sigma: Array | None = None
    verdict: Verdict | None = None
    ended: SearchEnd | None = None


def check_records(
    observed: Sequence[Observation], facts: GridFacts, settings: FitSettings, bounds: Bounds
) -> None:
    """Refuse records that cannot be fitted and events that cannot be estimated: public inputs only,
    so that it can be asked before anything is spent.
    """
    if not observed:
        return
    check_known(observed, method_for(settings, facts, observed))
    if any(observation.unknown.anything for observation in observed):
        Task.of(facts, observed, bounds, dt_s=settings.dt_s, scheme=settings.scheme)
    on_clock(GridPorts.of(facts), observed, settings.dt_s)
    if settings.scheme == "euler":
        stiffest = {name: np.full(size, bounds[name].upper) for name, size in facts.sizes.items()}
        check_euler(reduced_model(facts, stiffest), settings.dt_s)


def method_for(
    settings: FitSettings, facts: GridFacts, observed: Sequence[Observation] = ()
) -> Method:
    """The method that is run: l-bfgs-b in place of two-stage on a grid that is too large for it, or
    that has devices; an event that is not wholly known makes fewer machines too many.
    """
    too_large = is_too_large(facts) and (
        settings.scheme == "euler" or not is_direct(facts, observed)
    )
    whole = too_large or facts.sizes.keys() - set(SWING)
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
    method = method_for(settings, noisy.facts, observed) if noisy is not None else settings.method
    if method != "two-stage":  # which alone estimates events
        check_known(observed, method)
    task = problem(
        start,
        observed,
        bounds,
        dt_s=settings.dt_s,
        scheme=settings.scheme,
        rho=settings.rho,
        same_bits=method == "projected-gradient",  # the paper's
    )
    theta0 = task.start
    if settings.scheme == "euler":
        check_euler(start, settings.dt_s)
    before = float(task(theta0)[0])
    if method == "two-stage":
        return _two_stage(start, noisy, observed, settings, before)
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
    start: ReducedModel,
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
    fitted, sigma = with_own_noise(noisy, observed, settings)
    verdict = _guarded(start, noisy, observed, settings, fitted, sigma)
    if verdict.discarded and len(noisy.facts.machines) <= MODAL:
        # a search may have ended beside the mark: another one, from other starts, before it counts
        second = with_own_noise(noisy, observed, settings, seed=1)
        other = _guarded(start, noisy, observed, settings, *second)
        if not other.discarded:
            (fitted, sigma), verdict = second, other
    if not verdict.discarded and _elsewhere(start, noisy, observed, settings, fitted):
        words = "a record is far likelier after the same step at another bus"
        verdict = Verdict("discarded", (words, *verdict.reasons))
    if fitted.events:  # before, the event was a guess
        before = fitted.mismatch(noisy.values)
    history = np.concatenate([[before], fitted.history])
    converged = fitted.converged or is_flat(fitted.history)
    if verdict.discarded:
        return FitResult(
            start, before, before, history, converged, "two-stage", sigma=sigma, verdict=verdict
        )
    return FitResult(
        fitted.model,
        before,
        float(history[-1]),
        history,
        converged,
        "two-stage",
        fitted.identifiability,
        fitted.covariance,
        fitted.events,
        sigma,
        verdict,
        fitted.ended,
    )


def is_flat(history: Array) -> bool:
    """Whether a search that did not converge might as well have: J stays at its end."""
    last = history[-FLAT_STEPS:]
    return len(last) == FLAT_STEPS and float(np.ptp(last)) <= FLAT * float(last[-1])


def _guarded(
    start: ReducedModel,
    noisy: NoisyGrid,
    observed: Sequence[Observation],
    settings: FitSettings,
    fitted: TwoStage,
    sigma: Array,
) -> Verdict:
    """Judge a fit, with a second one to the first parts of the records."""
    parts = [first_part(one) for one in observed]
    kept = [part for part in parts if part is not None]
    early = None
    if len(kept) == len(parts):
        early = polished(
            noisy.facts,
            kept,
            noisy.bounds,
            fitted.prior,
            fitted.y,
            dt_s=settings.dt_s,
            scheme=settings.scheme,
            sigma=sigma,
        )
    # Of thousands of values, priors of items on their own and of items that may be alike differ by
    # more deviations of a common factor than the guard allows: draws are then those of the fit's.
    own = len(noisy.facts.machines) <= MODAL
    belief, table = beliefs(noisy) if own else beliefs_alike(noisy), posterior_mean(noisy)
    unfitted = np.log(np.concatenate([table.values[name] for name in SWING]))
    return SwingFit(
        noisy.facts, observed, fitted, belief, unfitted, start, early, settings.dt_s
    ).verdict()


def _elsewhere(
    start: ReducedModel,
    noisy: NoisyGrid,
    observed: Sequence[Observation],
    settings: FitSettings,
    fitted: TwoStage,
) -> bool:
    """Whether a record of which the fit leaves more than its sensors' noise is far likelier after a
    step at another bus, which leaves less than half of that.
    """
    dt_s = settings.dt_s
    _, sampled = as_records(observed, dt_s)
    sensors = [[sensor_noise(column) for column in record.observed.T] for record in sampled]
    least = np.maximum(_declared(observed, settings), sensors)
    explained = (fitted.noise.rms <= EXPLAINED * least).all()
    if explained or len(noisy.facts.machines) > OTHER_BUSES_UP_TO:
        return False

    def answer(record: Observation) -> Array:
        shown = record.trajectory
        horizon_s, step = float(shown.time_s[-1]), np.rint(shown.time_s / dt_s).astype(int)
        found = simulate(start, record.event, horizon_s=horizon_s, dt_s=dt_s, buses=shown.buses)
        return found.omega[step]

    left = np.maximum(fitted.noise.rms, least)
    for number, record in enumerate(observed):
        if not set(record.trajectory.buses) <= set(start.ports):
            continue
        for _, moved in likeliest(record, start.ports, answer):
            others = [*observed[:number], moved, *observed[number + 1 :]]
            other, _ = with_own_noise(noisy, others, settings)
            now = np.maximum(other.noise.rms, least)
            together = np.maximum(fitted.noise.together, other.noise.together)
            gain = gained(observed, dt_s, left, now, together)
            gain += fitted.prior.cost(fitted.y) - other.prior.cost(other.y)
            if gain > LIKELIER and (now[number] < HALF * left[number]).any():
                return True
    return False


def _declared(observed: Sequence[Observation], settings: FitSettings) -> Array:
    """Least deviation of each record's samples (r, 1) [p.u.]."""
    declared = [settings.sigma if one.sigma is None else one.sigma for one in observed]
    return np.array(declared)[:, None]


def with_own_noise(
    noisy: NoisyGrid, observed: Sequence[Observation], settings: FitSettings, seed: int = 0
) -> tuple[TwoStage, Array]:
    """Fit at the σ (r, h) that the records' own residual shows, and no less than is declared.

    A fit at too small a σ takes model error for dynamics; then it is repeated at what it left.
    """
    sigma = least = _declared(observed, settings)
    near, belief = None, beliefs_alike(noisy)
    for remaining in reversed(range(NOISE_ROUNDS)):
        fitted = two_stage(
            noisy.facts,
            observed,
            belief,
            noisy.bounds,
            dt_s=settings.dt_s,
            scheme=settings.scheme,
            sigma=sigma,
            starts=settings.starts,
            seed=seed,
            near=near,
        )
        found = np.maximum(fitted.noise.effective, least)
        if not remaining or (found <= EXPLAINED * sigma).all():
            return fitted, sigma
        sigma, near = np.maximum(found, sigma), fitted.y
    raise AssertionError("the last round returns")
