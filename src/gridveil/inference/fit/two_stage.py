"""The two-stage fit: first the reduced model that fits the records, then a network behind it.

Stage 1 fits x = (log k_r, log m, log D, v, w) freely, with a Gaussian prior pushed through Kron.
Stage 2 looks for line weights whose reduction gives that x, weighted by the records' information
about it. Then both are polished together: the maximum of the posterior of (log k, log m, log d).
L_red(k) and K_ac(k) of the result belong together, which a fit of k_r alone cannot have. Where an
event's place, size or time is unknown, u is tied to no network, and what is unknown (z) is
estimated with the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import solve_triangular

from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.engine.propagate import SchemeName
from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.simulate import check_euler
from gridveil.dynamics.swing import SWING
from gridveil.foundation.errors import OptionError
from gridveil.foundation.progress import told_to
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.parameters import Bounds
from gridveil.inference.alike import Belief
from gridveil.inference.fit.coordinates import independent, linked, push
from gridveil.inference.fit.hops import AS_GOOD, OTHERS, hopped
from gridveil.inference.fit.least_squares import Gaussian, Minimum, in_step, minimise_all
from gridveil.inference.fit.network_fit import (
    climbed,
    everything,
    is_beyond,
    network_fit,
    task_of,
)
from gridveil.inference.fit.outcome import SearchEnd, TwoStage, covariance, outcome
from gridveil.inference.fit.polish import FAR, ROUNDS, polish, polish_all
from gridveil.inference.fit.problem import NOT_FITTED, Observation
from gridveil.inference.fit.sampling import Sampling
from gridveil.inference.fit.scale import scale_shift
from gridveil.inference.fit.search import (
    MANY_MACHINES,
    MOST_KEPT,
    SEARCHED,
    explore,
    follow,
    levels,
    sampled,
    windows,
)
from gridveil.inference.fit.task import (
    NetworkResiduals,
    ReducedResiduals,
    Task,
    triangle,
)
from gridveil.inference.fit.unknown import onset_s

# The weight of stage 1's information in stage 2 at first.
FIRST_WEIGHT = 1e-6
# Rounds of the polish that each of several starts gets, and the change of the cost to end at.
TRIED, NEARLY = 8, 1e-2
# Of many machines, starts get so many rounds at first, and the best few go on.
FIRST_TRIED, FOLLOWED = 3, 3
# Where several models explain records of few places: rounds that a start gets.
TRIED_LONGER = 40
# Searches at least there: with 4, one in ten misses an explanation better by nats.
FEW_PLACES = 12
# Reduced weights for one entry of y from which the network itself is looked for.
MANY = 2
# With more machines, or more reduced weights that are not zero, the search takes hours, and its
# Jacobians gigabytes.
TWO_STAGE_UP_TO, MOST_WEIGHTS = 80, 2000
# Records are explained where ½ Σ r² is at most this share of the samples (½ is expected). With
# events that are not wholly known, stage 1 begins again up to so many times until they are, and the
# polish may take longer.
EXPLAINED = 0.7
AGAIN = 20
ROUNDS_OF_UNKNOWN = 120
# Times that the scale is set by the exact posterior of the release, where no event's size is known.
SCALED = 2


@one_blas_thread()
def two_stage(
    facts: GridFacts,
    observed: Sequence[Observation],
    belief: Mapping[str, Belief],
    bounds: Bounds,
    *,
    dt_s: float,
    scheme: SchemeName,
    sigma: float | Array,
    starts: int = 4,
    seed: int = 0,
    near: Array | None = None,
) -> TwoStage:
    """Find the most probable network: max p(records | k, m, d) p(k, m, d | release).

    belief : posterior of the noisy release, see `gridveil.inference.posterior`.
    sigma : standard deviation of a sample, of sensor and model error together [p.u. frequency]: for
    records that do not say their own, or of each place of each record (r, h), whatever they say.
    starts : searches of stage 2.
    seed : of the draws that make stage 1's prior and the starts; public, and no part of the privacy
    noise.
    near : y of an earlier fit to these records, at another σ: it and the release itself are then
    the only starts, without the two stages.

    Privacy
    -------
    Uses the release, public records, public bounds and topology: post-processing.
    """
    random = np.random.default_rng(seed)
    if not is_direct(facts, observed):
        check_size(facts)
    middle = reduced_model(facts, {name: np.exp(belief[name].log_mean) for name in SWING})
    if scheme == "euler":
        check_euler(middle, dt_s)
    if is_direct(facts, observed):
        return network_fit(
            task_of(facts, observed, bounds, dt_s=dt_s, scheme=scheme),
            observed,
            belief,
            middle,
            sigma=sigma,
            starts=starts,
            random=random,
            near=near,
        )
    task = Task.of(facts, observed, bounds, dt_s=dt_s, scheme=scheme)
    thin = sampled(task, SEARCHED)
    prior, parts = independent(belief, task.coordinates.unknowns), windows(task, middle)
    few, unknown = (
        task.coordinates.locations < len(facts.machines),
        bool(task.coordinates.unknowns.size),
    )
    pushed = prior if near is not None else push(task.coordinates, belief, random)
    several = few and len(facts.machines) <= MANY_MACHINES
    count = max(starts, FEW_PLACES) if few else starts
    e, drawn = (
        len(facts.edges),
        np.log(np.concatenate([belief[name].sample(random, count - 1) for name in SWING], axis=1)),
    )
    lines = np.concatenate([prior.mean[None, :e], drawn[: starts - 1, :e]])
    all_samples = sampled(task, task.predictor.records.samples, MOST_KEPT)
    others: list[Array] = []
    if near is not None:
        minima = _polish_a_little(task, prior, (near, prior.mean), thin, sigma)
        best = min(minima, key=_cost)
    elif unknown:
        minima, best = _stages_of_unknown(
            task, pushed, prior, thin, sigma, lines, _begin_again(task, belief, pushed, observed)
        )
    else:
        first = follow(ReducedResiduals, task, pushed, sigma, parts, pushed.mean)
        minima = _stage_2(task, first.x, thin, sigma, prior, lines)
        best = min(minima, key=_cost)
        # Several reduced models may explain records of few places, and stage 1 found one of them.
        begun = [best.x, *(drawn if few else ())]
        if several:
            begun += _explored(task, prior, drawn, sigma, parts)
        tried = sorted(_tried(task, prior, begun, thin, sigma, few=few), key=_cost)
        best = tried[0]
        if several:
            allowed = list(np.clip(drawn, prior.lower, prior.upper))
            best, *rest = hopped(task, prior, tried, allowed, all_samples, thin, sigma)
            others = [one.x for one in rest if one.cost < best.cost + AS_GOOD][:OTHERS]
    rounds = ROUNDS_OF_UNKNOWN if unknown else ROUNDS
    last, history = polish(task, prior, best.x, all_samples, sigma, rounds)
    for _ in range(SCALED if len(task.coordinates.unknowns.sized) else 0):
        alike = np.zeros(len(prior.mean))
        alike[: drawn.shape[1]] = scale_shift(belief, prior, last.x, covariance(prior, last))
        prior = replace(prior, mean=prior.mean + alike)
        last, more = polish(task, prior, last.x, all_samples, sigma, rounds)
        history = np.concatenate([history, more[1:]])
    ended = SearchEnd(task, prior, last, all_samples, sigma, others=tuple(others))
    return outcome(ended, observed, tuple(map(_cost, minima)), history)


@one_blas_thread()
def polished(
    facts: GridFacts,
    observed: Sequence[Observation],
    bounds: Bounds,
    prior: Gaussian,
    y: Array,
    *,
    dt_s: float,
    scheme: SchemeName,
    sigma: float | Array,
) -> Array:
    """The maximum of the posterior near y = (log k, log m, log d, z), without a search."""
    if is_direct(facts, observed):
        task = task_of(facts, observed, bounds, dt_s=dt_s, scheme=scheme)
        with told_to(None):
            return climbed(task, prior, y, everything(task), sigma)[0].x
    task = Task.of(facts, observed, bounds, dt_s=dt_s, scheme=scheme)
    sampling = sampled(task, task.predictor.records.samples, MOST_KEPT)
    with told_to(None):
        return polish(task, prior, y, sampling, sigma)[0].x


def is_direct(facts: GridFacts, observed: Sequence[Observation]) -> bool:
    """Whether the network itself is looked for: events are known, and there are far more reduced
    weights than lines, or too many for the two stages.
    """
    if any(one.unknown.anything for one in observed):
        return False
    if is_too_large(facts):
        return not is_beyond(facts)
    entries = len(facts.edges) + 2 * len(facts.machines)
    return len(linked(facts)) > MANY * entries


def is_too_large(facts: GridFacts) -> bool:
    """Whether a grid is beyond the two stages: too many machines, or reduced weights."""
    g = len(facts.machines)
    return g > TWO_STAGE_UP_TO or (
        g * (g - 1) // 2 > MOST_WEIGHTS and len(linked(facts)) > MOST_WEIGHTS
    )


def check_size(facts: GridFacts) -> None:
    """Refuse a grid whose fit would take hours and gigabytes."""
    if is_too_large(facts):
        raise OptionError(
            f"The two-stage fit cannot handle {len(facts.machines)} machines.",
            expected=f"at most {TWO_STAGE_UP_TO}, and {MOST_WEIGHTS} reduced weights that are not "
            "zero",
            outcome=NOT_FITTED,
            remedy="Fit with the method l-bfgs-b.",
        )


def _stages_of_unknown(
    task: Task,
    pushed: Gaussian,
    prior: Gaussian,
    sampling: Sampling,
    sigma: float | Array,
    lines: Array,
    starts: Sequence[Array],
) -> tuple[list[Minimum], Minimum]:
    """Run both stages from several starts until two explain the records; the least cost wins.

    Where an event is not wholly known, stage 1 finds several explanations that no network gives.
    Returns what stage 2 found from the best, and that after the polish.
    """
    least, explained, nearest, whole = None, 0, None, [task.predictor.records.samples]
    enough = EXPLAINED * len(sampling.observed) + len(pushed.mean)
    for start in (*starts, None):
        if start is None and least is not None:
            break
        first = (
            nearest
            if start is None
            else follow(ReducedResiduals, task, pushed, sigma, whole, start)
        )
        assert first is not None, "there is at least one start"
        nearest = first if nearest is None or first.cost < nearest.cost else nearest
        if start is not None and first.cost > 10 * enough:
            continue
        minima = _stage_2(task, first.x, sampling, sigma, prior, lines)
        (best,) = _polish_a_little(task, prior, [min(minima, key=_cost).x], sampling, sigma)
        if least is None or best.cost < least[1].cost:
            least = minima, best
        explained += best.cost <= enough
        if explained == 2:
            break
    assert least is not None, "one start at least is followed to its end"
    return least


def _begin_again(
    task: Task, belief: Mapping[str, Belief], pushed: Gaussian, observed: Sequence[Observation]
) -> list[Array]:
    """Starts for stage 1: the prior's mean, with events where they seem to be, then draws."""
    coordinates, random = task.coordinates, np.random.default_rng(AGAIN)
    late = [onset_s(observed[record]) for record in coordinates.unknowns.timed]
    drawn = [belief[name].sample(random, AGAIN) for name in SWING]
    z = np.broadcast_to(pushed.mean[coordinates.of_events], (AGAIN, len(coordinates.of_events)))
    starts = [
        pushed.mean.copy(),
        *coordinates.of_values(coordinates.network(drawn[0]), drawn[1], drawn[2], z),
    ]
    for x in starts:
        x[coordinates.parts["t"]] = late
    return [pushed.mean, *starts] if np.any(late) else starts


def _stage_2(
    task: Task,
    first: Array,
    sampling: Sampling,
    sigma: float | Array,
    prior: Gaussian,
    starts: Array,
) -> list[Minimum]:
    """Find line weights whose reduction gives stage 1's x, from each start (·, e).

    Near x̂ the records say ½ |J (θ − θ̂) + r|². An orthogonal factorisation of [J; prior of m, D,
    z] with m, D and z in front takes them out (their Schur complement, without squaring J), and
    gives them back for any network.
    """
    coordinates, e = task.coordinates, len(task.coordinates.facts.edges)
    noise = task.sigma(sampling, sigma)
    J, r = task.slopes(first, sampling) / noise[:, None], task.compare(first, sampling) / noise
    machines, events = coordinates.of_machines, coordinates.of_events
    network = np.setdiff1d(
        np.arange(J.shape[1]), np.concatenate([machines, coordinates.felt_of_events])
    )
    own = np.sqrt(prior.precision.diagonal()[e:])
    at, m_d_z = coordinates.values(first), first[np.concatenate([machines, events])]
    count, split = len(machines), len(m_d_z)
    front = np.concatenate([J[:, machines], J @ coordinates.model_slopes(first)[:, events]], axis=1)
    # a prior of logarithms, linear near x̂
    felt = own * np.concatenate([1 / at[machines], np.ones(len(events))])
    front = np.concatenate([front, np.diag(felt)])
    behind = np.concatenate([J[:, network], np.zeros((split, len(network)))])
    r = np.concatenate([r, own * (m_d_z - prior.mean[e:])])
    R = triangle(np.concatenate([front, behind, r[:, None]], axis=1))
    y = np.concatenate([prior.mean[:e], m_d_z])
    lines = Gaussian(prior.mean[:e], prior.precision[:e, :e], prior.lower[:e], prior.upper[:e])
    found = []
    for group in in_step(len(starts), e):
        log_k, best = starts[group], []
        R_2, r_2, origin, whole = (
            np.broadcast_to(part, (len(log_k), *part.shape))
            for part in (R[split:, split:-1], R[split:, -1], at, y)
        )
        task_2 = NetworkResiduals(coordinates, R_2, r_2, origin, whole, e, network)
        for level in levels(FIRST_WEIGHT, 1.0):
            iterations, tolerance = (60, 1e-4) if level == 1.0 else (5, 1e-2)
            best = minimise_all(
                task_2,
                [lines] * len(log_k),
                log_k,
                weight=level,
                cap=2.0,
                iterations=iterations,
                tolerance=tolerance,
            )
            log_k = np.stack([one.x for one in best])
        found += best
    minima = []
    for best in found:
        moved = coordinates.values_of(np.concatenate([best.x, m_d_z])[None])[0] - at
        step = solve_triangular(
            R[:split, :split], -(R[:split, -1] + R[:split, split:-1] @ moved[network])
        )
        m_d_found = np.log(
            np.maximum(at[machines] + step[:count], np.exp(prior.lower[e : e + count]))
        )
        z_found = m_d_z[count:] + step[count:]
        y = np.clip(np.concatenate([best.x, m_d_found, z_found]), prior.lower, prior.upper)
        minima.append(
            Minimum(y, best.cost, best.residuals, best.slopes, best.steps, best.converged)
        )
    return minima


def _explored(
    task: Task, prior: Gaussian, drawn: Array, sigma: float | Array, parts: Sequence[int]
) -> list[Array]:
    """Explanations of the records near draws of the release (·, n), each around itself."""
    starts = np.clip(drawn, prior.lower, prior.upper)
    priors = [replace(prior, mean=one) for one in starts]
    with told_to(None):
        return explore(task, priors, list(starts), sigma, parts)


def _tried(
    task: Task,
    prior: Gaussian,
    starts: Sequence[Array],
    sampling: Sampling,
    sigma: float | Array,
    *,
    few: bool,
) -> list[Minimum]:
    """Try starts; of many machines, where each takes a second, the best few are followed on."""
    many = len(task.coordinates.facts.machines) > MANY_MACHINES and len(starts) > FOLLOWED
    rounds = FIRST_TRIED if many else TRIED_LONGER if few else TRIED
    first = _polish_a_little(task, prior, starts, sampling, sigma, rounds)
    if not many:
        return first
    best = sorted(first, key=_cost)[:FOLLOWED]
    return _polish_a_little(task, prior, [one.x for one in best], sampling, sigma)


def _polish_a_little(
    task: Task,
    prior: Gaussian,
    starts: Sequence[Array],
    sampling: Sampling,
    sigma: float | Array,
    rounds: int = TRIED,
) -> list[Minimum]:
    """Try starts: a few rounds, which no bar counts."""
    with told_to(None):
        tried = polish_all(
            task, [prior] * len(starts), starts, sampling, sigma, rounds, NEARLY, far=FAR
        )
    return [minimum for minimum, _ in tried]


def _cost(minimum: Minimum) -> float:
    return minimum.cost
