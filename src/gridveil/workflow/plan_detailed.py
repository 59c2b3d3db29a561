"""A plan for detailed releases: treatments and the least ε that meet targets, by seeded draws of a
public surrogate with devices. It charges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from gridveil.dynamics.detailed.entries import Treatment
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.projection import check_public_end, is_stable, project
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.events import Event
from gridveil.dynamics.metrics import Comparison, compare
from gridveil.foundation.errors import OptionError
from gridveil.foundation.executors import Crew, check_worker, here
from gridveil.foundation.progress import counted
from gridveil.foundation.shards import Kept, check_made, cut, gather, name_of
from gridveil.foundation.version import __version__
from gridveil.grid.case import DetailedCase
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array
from gridveil.grid.parameters import Bounds
from gridveil.planning.plan import check_asked
from gridveil.planning.plan.targets import NO_PLAN, Target
from gridveil.planning.treatments import Candidate, candidates
from gridveil.privacy.adjacency import Adjacency
from gridveil.vault.perturb import PlannedDraw, perturb_planned
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.workflow.detailed import allocate, estimates

# ε that are tried, from the least; the first one that meets the targets is proposed.
EPSILONS = (Fraction(1, 2), *map(Fraction, (1, 2, 4, 8)))
DRAWS = 50  # that check a proposal
SEARCHED = 5  # a candidate is compared by a fifth of them
BATCH = 10  # draws of a batch: about a second's work
CHECK_SEED = 10_000  # draws of the check are none of the search
PLACES, STEP = 4, 0.03  # buses that load is added at, one by one, and how much of all load
HORIZON_S, DT_S = 20.0, 0.05
ERRORS = (
    "nadir_mhz",
    "nadir_percent",
    "rocof_mhz_s",
    "rocof_percent",
    "settling_mhz",
    "settling_percent",
    "rms_mhz",
)


@dataclass(frozen=True, eq=False)
class Tried:
    """Errors of releases by one candidate's treatments at one ε.

    errors : (draws,) sizes by name, means over the events: those of `Comparison`, and rms_mhz over
    all machines and samples.
    moved : share of draws that projection had to move.
    """

    candidate: Candidate
    epsilon: Fraction
    errors: Mapping[str, Array]
    moved: float

    def mean(self, error: str) -> float:
        """Mean over the draws."""
        return float(self.errors[error].mean())

    def quantile(self, error: str, share: float) -> float:
        """What a share of the draws stays below."""
        return float(np.quantile(self.errors[error], share))

    def worst(self, targets: Sequence[Target]) -> Array:
        """(draws,) each draw's largest error, as a part of its target."""
        return np.max([self.errors[t.error] / t.limit for t in targets], axis=0)

    def met(self, targets: Sequence[Target]) -> float:
        """Share of draws that meet all targets."""
        return float((self.worst(targets) <= 1).mean())


@dataclass(frozen=True, eq=False)
class DetailedPlan:
    """What was found on a surrogate.

    tried : every candidate at every ε that was looked at, by few draws.
    checked : the best candidate at each ε that looked good enough, by fresh draws.
    chosen : the first of those that meets the targets; None: none does.
    control : errors where nothing is drawn at all, and every value is typical.
    noiseless : errors of the surrogate's own entries, without noise: what typical values of all
    else leave.
    """

    facts: DetailedFacts
    events: tuple[Event, ...]
    targets: tuple[Target, ...]
    adjacency: Adjacency
    quantile: float
    draws: int
    tried: tuple[Tried, ...]
    checked: tuple[Tried, ...]
    chosen: Tried | None
    control: Mapping[str, float]
    noiseless: Mapping[str, float]

    @property
    def met_without(self) -> bool:
        """Whether typical values alone meet all targets: then the surrogate says little."""
        return all(self.control[target.error] <= target.limit for target in self.targets)

    @property
    def treatments(self) -> dict[str, Treatment]:
        """Of the proposal, those that are not the usual ones."""
        return dict(self.chosen.candidate.treatments) if self.chosen else {}


def plan_detailed(
    source: SourceGrid[DetailedFacts],
    whole: DetailedCase,
    values: Mapping[str, Array],
    targets: Sequence[Target],
    *,
    event: Event | None = None,
    adjacency: Adjacency,
    bounds: Bounds,
    draws: int = DRAWS,
    quantile: float = 0.9,
    epsilons: Sequence[Fraction] = EPSILONS,
    crew: Crew | None = None,
    kept: Kept[Any] | None = None,
) -> DetailedPlan:
    """Try treatments on a public surrogate with devices, from the least ε up, until one meets all
    targets in a share `quantile` of releases.

    Every draw goes through what a release does: noise, estimates, projection, linear model. The
    best candidate of an ε is checked by fresh draws before it is proposed.

    source, whole, values : the surrogate, with all its constants, and its entries: all public.
    event : None: steps of load at single buses.
    draws : of a check; the search has a fifth of them.
    crew : who draws; None: this process.
    kept : draws that were made already, from which a plan goes on that was stopped.
    """
    check_asked(targets, draws, quantile)
    facts = source.facts
    check_public_end(facts.public)
    surrogate = Surrogate(facts, values, whole, event, adjacency, bounds)
    with one_blas_thread():
        trials = _trials(surrogate)
        controls = trials.of_values({}), trials.of_values(values)
    jointly = adjacency.counts == "one-asset"
    tables, tried, checked = candidates(facts, jointly=jointly), list[Tried](), list[Tried]()
    few, chosen = max(draws // SEARCHED, 1), None
    crew = crew or here()
    with counted("drawing", len(epsilons) * (few * len(tables) + draws)) as more, crew:
        for epsilon in epsilons:
            at_work = f"ε = {float(epsilon):g}"
            searched = [surrogate.batches(table, epsilon, range(few)) for table in tables]
            at_once = _gathered(searched, at_work, crew, kept, more)
            tried += at_once
            best = min(at_once, key=lambda one: float(np.quantile(one.worst(targets), quantile)))
            if best.met(targets) >= quantile:
                seeds = range(CHECK_SEED, CHECK_SEED + draws)
                checking = surrogate.batches(best.candidate, epsilon, seeds)
                checked += _gathered([checking], f"{at_work}, checking", crew, kept, more)
                if checked[-1].met(targets) >= quantile:
                    chosen = checked[-1]
                    break
            else:
                more(draws)
    _trials.cache_clear()
    return DetailedPlan(
        facts,
        trials.events,
        tuple(targets),
        adjacency,
        quantile,
        draws,
        tuple(tried),
        tuple(checked),
        chosen,
        *controls,
    )


def _gathered(
    tables: Sequence[Sequence[TrialBatch]],
    at_work: str,
    crew: Crew,
    kept: Kept[Any] | None,
    more: Callable[..., object],
) -> list[Tried]:
    """The draws of each candidate, put together from its batches."""
    named = {batch.name: batch for batches in tables for batch in batches}
    words = {name: f"{at_work}, {batch.candidate.name}" for name, batch in named.items()}
    found, failed = gather(
        named,
        run_batch,
        crew,
        kept=kept,
        more=lambda name: more(len(named[name].seeds), words[name]),
    )
    check_made(failed, words, NO_PLAN)
    tried = []
    for batches in tables:
        own = [found[batch.name] for batch in batches]
        errors = {n: np.concatenate([one["errors"][n] for one in own]) for n in ERRORS}
        moved = float(np.mean([was for one in own for was in one["moved"]]))
        tried.append(Tried(batches[0].candidate, batches[0].epsilon, errors, moved))
    return tried


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A public case with devices, and what plans on it are judged by; all as in `plan_detailed`."""

    facts: DetailedFacts
    values: Mapping[str, Array]
    whole: DetailedCase
    event: Event | None
    adjacency: Adjacency
    bounds: Bounds
    version: str = __version__

    @cached_property
    def name(self) -> str:
        """Names all of it."""
        return name_of(self.facts, self.values, self.whole, self.event, self.adjacency, self.bounds)

    def batches(self, candidate: Candidate, epsilon: Fraction, seeds: range) -> list[TrialBatch]:
        """Cut the draws of a candidate at one ε."""
        spans = [seeds[own.start : own.stop] for own in cut(len(seeds), BATCH)]
        return [TrialBatch(self, candidate, epsilon, span) for span in spans]

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Surrogate) and self.name == other.name


@dataclass(frozen=True, eq=False)
class TrialBatch:
    """Draws of a candidate at one ε, by their seeds."""

    surrogate: Surrogate
    candidate: Candidate
    epsilon: Fraction
    seeds: range

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{name_of(self.surrogate.name, self.candidate, self.epsilon, self.seeds)}.json"


def run_batch(batch: TrialBatch) -> Any:
    """Draw, and measure, in plain data: this is what workers run. A demo for ever."""
    check_worker(batch.surrogate.version)
    with one_blas_thread():
        return _trials(batch.surrogate).run(batch.candidate, batch.epsilon, batch.seeds)


@lru_cache(maxsize=1)
def _trials(surrogate: Surrogate) -> _Trials:
    source = SourceGrid[DetailedFacts].of(surrogate.facts, **surrogate.values)
    return _Trials(
        source,
        _reference(surrogate.whole),
        surrogate.event,
        surrogate.adjacency,
        surrogate.bounds,
    )


class _Trials:
    """Seeded releases of a surrogate, compared with it."""

    def __init__(
        self,
        source: SourceGrid[DetailedFacts],
        reference: DetailedModel,
        event: Event | None,
        adjacency: Adjacency,
        bounds: Bounds,
    ) -> None:
        self.source, self.reference = source, reference
        self.adjacency, self.bounds = adjacency, bounds
        self.events = (event,) if event else load_steps(reference)
        if any(one.tripped for one in self.events):
            raise OptionError(
                "A plan has no events with trips.",
                expected="an event of load, such as load:BUS=+100MW",
                outcome=NO_PLAN,
            )

    def run(self, candidate: Candidate, epsilon: Fraction, seeds: Iterable[int]) -> dict[str, Any]:
        """Draw, and measure the errors; moved : whether projection had to move each draw."""
        facts = self.source.facts
        allocation = allocate(facts, self.adjacency, candidate.treatments, candidate.item_shares)
        plan = PlannedDraw(self.source, epsilon, self.adjacency, self.bounds, allocation)
        models, moved = [], []
        for seed in seeds:
            noisy = perturb_planned(plan, ledger=None, sampler=DemoSampler(seed))
            model, was_moved = self._model(estimates(noisy))
            models.append(model)
            moved.append(was_moved)
        errors = {name: sizes.tolist() for name, sizes in self._errors(models).items()}
        return {"errors": errors, "moved": moved}

    def of_values(self, values: Mapping[str, Array]) -> dict[str, float]:
        """Errors of a model of these entries, without noise."""
        return {
            name: float(sizes[0]) for name, sizes in self._errors([self._model(values)[0]]).items()
        }

    def _model(self, values: Mapping[str, Array]) -> tuple[DetailedModel, bool]:
        projected = project(self.source.facts.public, values)
        case = projected.case
        model = linearise(case, projected.equilibrium, case.loads.bus)
        return model, projected.is_moved

    def _errors(self, models: Sequence[DetailedModel]) -> dict[str, Array]:
        """(draws,) sizes of errors, means over the events."""
        off = compare(models, self.reference, self.events, horizon_s=HORIZON_S, dt_s=DT_S)
        found = {name: np.abs(getattr(off, name)) for name in ERRORS if name != "rms_mhz"}
        found["rms_mhz"] = self._rms(off)
        return {name: sizes.mean(axis=-1) for name, sizes in found.items()}

    def _rms(self, off: Comparison) -> Array:
        """RMS over machines and samples of each draw and event [mHz]: L is their sum times dt."""
        count = (round(HORIZON_S / DT_S) + 1) * self.reference.units
        return 1e3 * self.reference.frequency_hz * np.sqrt(off.L / (DT_S * count))


def load_steps(model: DetailedModel) -> tuple[Event, ...]:
    """Steps of load that treatments are judged by: 3 % of all load at one bus each, up to four."""
    ports = model.ports[model.units :] or model.ports
    places = np.unique(np.linspace(0, len(ports) - 1, min(PLACES, len(ports))).round().astype(int))
    size = STEP * float(np.abs(model.loads).sum())
    return tuple(Event.load({ports[place]: size}) for place in places)


def _reference(whole: DetailedCase) -> DetailedModel:
    """The surrogate's own linear model, of all its constants; refuse one that does not stand."""
    model = linearise(whole, solve(whole), whole.loads.bus)
    if not is_stable(model, 0.0):
        raise OptionError(
            f"The surrogate {whole.name} is not stable by itself.",
            outcome=NO_PLAN,
            remedy="Name another public case.",
        )
    return model
