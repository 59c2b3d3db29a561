"""A plan for detailed releases: treatments and the least ε that meet targets, by seeded draws of a
public surrogate with devices. It charges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridveil.dynamics.detailed.entries import Treatment
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.projection import check_public_end, is_stable, project
from gridveil.dynamics.events import Event
from gridveil.dynamics.metrics import Comparison, compare
from gridveil.foundation.errors import OptionError
from gridveil.foundation.progress import counted
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
) -> DetailedPlan:
    """Try treatments on a public surrogate with devices, from the least ε up, until one meets all
    targets in a share `quantile` of releases.

    Every draw goes through what a release does: noise, estimates, projection, linear model. The
    best candidate of an ε is checked by fresh draws before it is proposed.

    source, whole, values : the surrogate, with all its constants, and its entries: all public.
    event : None: steps of load at single buses.
    draws : of a check; the search has a fifth of them.
    """
    check_asked(targets, draws, quantile)
    facts = source.facts
    check_public_end(facts.public)
    trials = _Trials(source, _reference(whole), event, adjacency, bounds)
    jointly = adjacency.counts == "one-asset"
    tables, tried, checked = candidates(facts, jointly=jointly), list[Tried](), list[Tried]()
    few, chosen = max(draws // SEARCHED, 1), None
    with counted("drawing", len(epsilons) * (few * len(tables) + draws)) as more:
        for epsilon in epsilons:
            here = []
            for table in tables:
                more(0, f"ε = {float(epsilon):g}, {table.name}")
                here.append(trials.run(table, epsilon, range(few)))
                more(few)
            tried += here
            best = min(here, key=lambda one: float(np.quantile(one.worst(targets), quantile)))
            if best.met(targets) >= quantile:
                more(0, f"ε = {float(epsilon):g}, checking {best.candidate.name}")
                seeds = range(CHECK_SEED, CHECK_SEED + draws)
                checked.append(trials.run(best.candidate, epsilon, seeds))
                if checked[-1].met(targets) >= quantile:
                    chosen = checked[-1]
                    break
            more(draws)
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
        trials.of_values({}),
        trials.of_values(values),
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

    def run(self, candidate: Candidate, epsilon: Fraction, seeds: Iterable[int]) -> Tried:
        """Draw, and measure the errors."""
        facts = self.source.facts
        allocation = allocate(facts, self.adjacency, candidate.treatments, candidate.item_shares)
        plan = PlannedDraw(self.source, epsilon, self.adjacency, self.bounds, allocation)
        models, moved = [], []
        for seed in seeds:
            noisy = perturb_planned(plan, ledger=None, sampler=DemoSampler(seed))
            model, was_moved = self._model(estimates(noisy))
            models.append(model)
            moved.append(was_moved)
        return Tried(candidate, epsilon, self._errors(models), float(np.mean(moved)))

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
