"""What the guard says of good and of bad records, on fits of swing and detailed models.

ε = 1 by default; white noise of 1e-5 p.u. at three machines, 20 s at 50 Hz after a step of load at
1 s. A *good* record is the grid's own answer to the event as declared. Bad ones: another grid's
record; the event at another bus; its size declared as a half or the double; a ramp of 5 s declared
as a step; values in Hz declared as mHz, and a record of 50 Hz on a grid of 60 Hz, which are refused
before anything is charged. Caught means refused, doubtful or discarded. "worse" is the share of
draws that publish a model further from the truth than the unfitted release by more than 10 %: root
mean square of relative errors of the responses to three events, two of which no record shows.

A demo: seeds and truth are known. Cases of ANDES are looked for in the installed package, or in the
folder of --cases, as GRID.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import pi
from pathlib import Path
from typing import Any

import numpy as np

from bench_pool import over_draws, resumable
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.projection import project
from gridveil.dynamics.events import Event, Step
from gridveil.dynamics.kron import reduce
from gridveil.dynamics.simulate import simulate
from gridveil.foundation.errors import GridveilError
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array
from gridveil.grid.parameters import Bounds, Range
from gridveil.inference.fit import FitResult, FitSettings, Observation, Verdict, fit
from gridveil.inference.fit.controls import FitControls, record_ports
from gridveil.inference.fit.detailed import DetailedFitSettings, fit_detailed
from gridveil.inference.fit.guard_detailed import DetailedGuard, response_deviation
from gridveil.inference.posterior import posterior_mean
from gridveil.inference.records import check_size, measure
from gridveil.inference.records.declared import Declaration
from gridveil.inference.records.layout import RecordFile
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.noisy import NoisyGrid
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import PlannedDraw, perturb, perturb_planned
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.truth import public_table, true_model
from gridveil.workflow.detailed import allocate, check_answers, estimates

ORIGIN = Provenance("simulated", "the case's own answer to a step of load")
SIGMA, DT_S, HORIZON_S, AT_S, RAMP_S, RAMP_STEPS = 1e-5, 0.02, 20.0, 1.0, 5.0, 20
WORSE = 1.1
KINDS = (
    "good",
    "another grid",
    "Hz as mHz",
    "rad/s as Hz",
    "another bus",
    "size halved",
    "size doubled",
    "50 Hz for 60",
    "a ramp",
)
OTHER = {"ieee30": "ieee39", "ieee39": "kundur", "kundur": "ieee39"}
# Buses of the event, of the one that is declared in its place, and the step [p.u. power].
EVENTS = {"ieee30": ("7", "24", 0.3), "ieee39": ("4", "20", 3.0), "kundur": ("7", "8", 1.5)}
TYPICAL = {
    "ieee39": {"k": Fraction(90), "m": Fraction(240), "d": Fraction(24)},
    "kundur": {"k": Fraction(60), "m": Fraction(120), "d": Fraction(18)},
}


@dataclass(frozen=True)
class Draw:
    """One record and one noisy grid, for one process."""

    grid: str
    detailed: bool
    kind: str
    epsilon: Fraction
    seed: int
    places: int
    cases: Path | None
    every: int = 1


@dataclass(frozen=True)
class Outcome:
    """What became of it.

    grade : of the guard, or refused.
    published, unfitted : relative errors of the responses.
    """

    kind: str
    grade: str
    reasons: tuple[str, ...]
    published: float
    unfitted: float


@cache
def source(grid: str, cases: Path | None, *, detailed: bool) -> Any:
    """A grid of either family."""
    if grid == "ieee30":
        return open_grid("ieee30")
    name = str(cases / f"{grid}.json") if cases else f"andes:{grid}"
    if detailed:
        return open_grid(name, model="detailed")
    return open_grid(name, options={"damping": 2.0, "base": "rated", "publish_loads": True})


@cache
def truth(grid: str, cases: Path | None, *, detailed: bool) -> Any:
    """Its own model: this is a demo."""
    own = source(grid, cases, detailed=detailed)
    if not detailed:
        return true_model(own)
    case = project(own.facts.public, dict(public_table(own).values)).case
    return linearise(case, solve(case), case.loads.bus)


def recorded(one: Draw) -> Observation:
    """The record, as its owner would declare it."""
    bus, elsewhere, size = EVENTS[one.grid]
    random = np.random.default_rng([one.seed, KINDS.index(one.kind)])
    told = real = Event.load({bus: size}, at_s=AT_S)
    model, factor = truth(one.grid, one.cases, detailed=one.detailed), 1.0
    buses = tuple(model.machines[: one.places])
    if one.kind == "another bus":
        told = Event.load({elsewhere: size}, at_s=AT_S)
    elif one.kind in ("size halved", "size doubled"):
        told = Event.load({bus: size * (0.5 if one.kind == "size halved" else 2.0)}, at_s=AT_S)
    elif one.kind == "a ramp":
        real = ramp(bus, size)
    elif one.kind == "rad/s as Hz":
        factor = 2 * pi
    elif one.kind == "Hz as mHz":
        factor = 1e-3
    elif one.kind == "another grid":
        other = OTHER[one.grid]
        model = truth(other, one.cases, detailed=one.detailed)
        real = Event.load({EVENTS[other][0]: EVENTS[other][2]}, at_s=AT_S)
    found = simulate(
        model, real, horizon_s=HORIZON_S, dt_s=DT_S, buses=model.machines[: len(buses)]
    )
    omega = found.omega + SIGMA * random.standard_normal(found.omega.shape)
    trajectory = replace(
        found,
        time_s=found.time_s[:: one.every],
        omega=factor * omega[:: one.every],
        buses=buses[: omega.shape[1]],
        frequency_hz=60.0,
    )
    return Observation(told, trajectory, ORIGIN)


def ramp(bus: str, size: float) -> Event:
    """Load that grows evenly, in small steps."""
    times = AT_S + RAMP_S * (np.arange(RAMP_STEPS) + 0.5) / RAMP_STEPS
    on_clock = (np.rint(times / DT_S) * DT_S).tolist()
    return Event(tuple(Step(at, {bus: size / RAMP_STEPS}) for at in on_clock))


def refused(one: Draw, record: Observation, bounds: Bounds) -> str:
    """Why it is refused before the charge; nothing where it is not."""
    facts = source(one.grid, one.cases, detailed=one.detailed).facts
    nominal = 50.0 if one.kind == "50 Hz for 60" else 60.0
    bus, size = next(iter(record.event.steps[0].change.items()))
    columns = [f"place {number}" for number in range(len(record.trajectory.buses))]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "record.csv"
        rows = zip(record.trajectory.time_s, 60 * record.trajectory.omega, strict=True)
        lines = [",".join(map(repr, map(float, [time, *values]))) for time, values in rows]
        file.write_text("\n".join([",".join(["time", *columns]), *lines]) + "\n")
        read_as = RecordFile(
            path=file,
            locations=dict(zip(columns, record.trajectory.buses, strict=True)),
            time_column=("time",),
            time_format="seconds",
            unit="Hz",
            values="deviation",
        )
        declared = Declaration(
            file="record.toml",
            files=(read_as,),
            unit="Hz",
            nominal_hz=nominal,
            offset="none",
            event=f"load:{bus}={size:+}@{AT_S:g}s",
            provenance=ORIGIN,
        )
        try:
            read = measure(declared, facts, dt_s=DT_S)
            if one.detailed:
                check_answers(facts.public, [read.observation], DT_S)
            else:
                check_size(read, facts, bounds)
        except GridveilError as error:
            return error.problem
    return ""


def judged(one: Draw) -> Outcome:
    """Draw, fit, ask the guard, and compare what is published with the truth."""
    own = source(one.grid, one.cases, detailed=one.detailed)
    true = truth(one.grid, one.cases, detailed=one.detailed)
    record = recorded(one)
    events = [Event.load({bus: EVENTS[one.grid][2]}) for bus in EVENTS[one.grid][:2]]
    if not one.detailed:
        events.append(Event.uniform(0.1))
    answers = responses(true, events)

    def error(model: Any) -> float:
        pairs = zip(responses(model, events), answers, strict=True)
        return float(np.sqrt(np.mean([np.mean((a - b) ** 2) / np.mean(b**2) for a, b in pairs])))

    bounds = swing_bounds(one.grid) if not one.detailed else Bounds(family=own.facts.family)
    if words := refused(one, record, bounds):
        return Outcome(one.kind, "refused", (words,), 1.0, 1.0)
    verdict, published, unfitted = (_detailed if one.detailed else _swing)(one, own, record, bounds)
    before = error(unfitted)
    after = before if verdict.discarded else error(published)
    return Outcome(one.kind, verdict.grade, verdict.reasons, after, before)


def responses(model: Any, events: Sequence[Event]) -> list[Array]:
    """ω of all machines after each event."""
    return [simulate(model, event, horizon_s=HORIZON_S, dt_s=DT_S).omega for event in events]


def swing_bounds(grid: str) -> Bounds:
    """The usual ones of IEEE-30; of others, from a tenth to ten times typical values."""
    if grid == "ieee30":
        return Bounds()
    box = {name: Range(float(v / 10), float(v * 10)) for name, v in TYPICAL[grid].items()}
    return Bounds({**box, "k_r": Range(0.0, box["k"].upper)}, origin="typical values")


def swing_fit(one: Draw, own: Any, record: Observation) -> FitResult:
    """A noisy swing model, fitted and judged."""
    noisy, bounds = _noisy(one, own), swing_bounds(one.grid)
    start = reduce(posterior_mean(noisy))
    return fit(start, [record], FitSettings(dt_s=DT_S), bounds, noisy)


def _noisy(one: Draw, own: Any) -> NoisyGrid:
    alpha = {name: value / 20 for name, value in TYPICAL.get(one.grid, {}).items()}
    return perturb(
        own,
        epsilon=one.epsilon,
        adjacency=Adjacency(alpha=alpha) if alpha else Adjacency(),
        bounds=swing_bounds(one.grid),
        ledger=None,
        sampler=DemoSampler([one.seed, 1]),
    )


def _swing(one: Draw, own: Any, record: Observation, _: Bounds) -> tuple[Verdict, Any, Any]:
    found = swing_fit(one, own, record)
    assert found.verdict is not None, "two-stage fits are judged"
    return found.verdict, found.model, reduce(posterior_mean(_noisy(one, own)))


def _detailed(one: Draw, own: Any, record: Observation, bounds: Bounds) -> tuple[Verdict, Any, Any]:
    """The second fit is left out: it takes as long as the first."""
    adjacency = Adjacency("one-asset-relative", family=own.facts.family)
    plan = PlannedDraw(own, one.epsilon, adjacency, bounds, allocate(own.facts, adjacency))
    noisy = perturb_planned(plan, ledger=None, sampler=DemoSampler([one.seed, 1]), lineage=None)
    case: DetailedCase = project(noisy.facts.public, estimates(noisy)).case
    settings = DetailedFitSettings()
    ports = record_ports(case, [record])
    fitted = fit_detailed(case, ports, [record], settings)
    controls = FitControls((record,), None, (DT_S,), settings, (None, None), (None, None))
    misfit = controls.beside(case, fitted)
    deviation = response_deviation(noisy)
    verdict = DetailedGuard(case, fitted, misfit, controls, deviation).verdict()
    return verdict, fitted.model, linearise(case, solve(case), ports)


def table(name: str, found: Sequence[Outcome]) -> str:
    """A row a kind of record."""
    lines = [
        f"{name}",
        f"  {'record':14s} draws  caught  refused  doubtful  discarded  worse  published/unfitted "
        "(median, most)",
    ]
    for kind in dict.fromkeys(one.kind for one in found):
        own = [one for one in found if one.kind == kind]
        grades = [one.grade for one in own]
        ratio = np.array([one.published / one.unfitted for one in own])
        counts = [grades.count(grade) for grade in ("refused", "doubtful", "discarded")]
        caught = 1 - grades.count("good") / len(own)
        lines.append(
            f"  {kind:14s} {len(own):5d}  {100 * caught:5.1f} %"
            + "".join(f"  {count:7d}" for count in counts)
            + f"  {100 * np.mean(ratio > WORSE):5.1f} %  {np.median(ratio):.2f}, {ratio.max():.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Print a table a grid."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--grid", choices=EVENTS, default="ieee30")
    parser.add_argument("--detailed", action="store_true", help="with devices; not of ieee30")
    parser.add_argument("--epsilon", type=Fraction, default=Fraction(1))
    parser.add_argument("--good", type=int, default=200, help="good records")
    parser.add_argument("--bad", type=int, default=40, help="bad records of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first draw of each")
    parser.add_argument("--places", type=int, default=3)
    parser.add_argument("--every", type=int, default=1, help="keep one sample in so many, of 50 Hz")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--cases", type=Path, help="folder with ANDES's cases as GRID.json")
    parser.add_argument("--json", type=Path, help="write what was found")
    resumable(parser)
    asked = parser.parse_args()

    def runs(count: int) -> range:
        return range(asked.first, asked.first + count)

    draws = [
        Draw(
            *(asked.grid, asked.detailed, kind, asked.epsilon, seed),
            *(asked.places, asked.cases, asked.every),
        )
        for kind in asked.kinds.split(",")
        for seed in runs(asked.good if kind == "good" else asked.bad)
    ]
    model = "detailed" if asked.detailed else "swing"
    name = f"{asked.grid}, {model}, ε = {asked.epsilon}, {asked.places} places"
    found = over_draws(judged, draws, name)
    print(table(name, found), flush=True)
    for grade in ("doubtful", "discarded"):
        for one in found:
            if one.kind == "good" and one.grade == grade:
                print(f"  good, yet {grade}: {'; '.join(one.reasons)}")
    if asked.json:
        rows = [one.__dict__ for one in found]
        asked.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
