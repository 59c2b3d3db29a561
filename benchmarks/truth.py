"""How near releases come to the grid: their linear models against ANDES's nonlinear simulation.

`python benchmarks/truth.py --cache FOLDER` prints the tables of docs/truth.md; `--table` chooses
one. Truth is simulated once and kept in the cache. Steps of 2–5 % of load, 20 s; event A is the
record that fits see (two or three machines' buses, σ = 1e-4 p.u., 50 Hz), the others are judged.
A demo: seeds and truth are known.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench_pool import over_draws
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.foundation.drawing import CYCLE, labelled, mark_demo, new_figure, written
from gridveil.foundation.errors import EventError
from gridveil.grid.case import DetailedCase
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array
from gridveil.inference.fit import Observation
from gridveil.inference.fit.controls import fitted_response, public_fit
from gridveil.inference.fit.detailed import DetailedFitSettings
from gridveil.privacy.adjacency import Adjacency
from gridveil.publication.release import detailed_names
from gridveil.readers.detailed import locked
from gridveil.readers.dynamics import Detailed as DeclaredLoads
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.workflow.detailed import publish_detailed
from truth_cases import CASES, DT_S, HORIZON_S, LOAD_KINDS, RECORD, LoadKind, TruthCase
from truth_controls import SwingStudy, record_of, response_answer
from truth_detailed import Detailed
from truth_judge import Answer, Scores, answers_of, judge_answer, mean_scores, table
from truth_runs import Runs, Truth


@dataclass(frozen=True)
class Grid:
    """A case with one kind of load, and its truth."""

    runs: Runs
    name: str
    kind: LoadKind

    @property
    def case(self) -> TruthCase:
        """The case with its events."""
        return CASES[self.name]

    def truths(self, events: Sequence[str]) -> list[Truth]:
        """What the grid does after some events."""
        return [self.runs.truth(self.name, self.kind, event) for event in events]

    def record(self, seed: int) -> Observation:
        """The public record, with its noise."""
        return record_of(self.runs, self.case, self.kind, seed)


@dataclass(frozen=True)
class Row:
    """A model of the tables.

    answer : of a grid and a seed, answers to events.
    most : draws of it, where it takes long or a seed hardly changes it.
    """

    name: str
    answer: Callable[[Grid, int], Answer]
    most: int | None = None


@dataclass(frozen=True)
class Study:
    """A table: grids, models, and the events that they are judged by."""

    title: str
    grids: tuple[tuple[str, LoadKind], ...]
    rows: tuple[Row, ...]
    trips: bool = False

    def events(self, case: TruthCase) -> tuple[str, ...]:
        """The events that are judged."""
        return tuple(case.trips) if self.trips else case.held_out


# --- models ---------------------------------------------------------------------------------------


@cache
def _swing(runs: Runs, name: str) -> SwingStudy:
    return SwingStudy.of(CASES[name], runs)


@cache
def _detailed(runs: Runs, name: str, kind: LoadKind) -> Detailed:
    return Detailed.true(runs, name, kind)


def swing_exact(grid: Grid, _seed: int) -> Answer:
    """The swing model without noise; D = 2 on machine base."""
    return answers_of(_swing(grid.runs, grid.name).truth)


def swing_released(grid: Grid, seed: int) -> Answer:
    """The swing release without a record."""
    return answers_of(_swing(grid.runs, grid.name).released(seed))


def swing_fitted(grid: Grid, seed: int) -> Answer:
    """The swing release, fitted to the record."""
    return answers_of(_swing(grid.runs, grid.name).fitted(seed, grid.record(seed)))


def response_fitted(grid: Grid, seed: int) -> Answer:
    """A frequency response fitted to the record."""
    response = fitted_response([grid.record(seed)], DT_S)
    return lambda truth: response_answer(response, truth)


def detailed_exact(grid: Grid, _seed: int) -> Answer:
    """The detailed model without noise."""
    return answers_of(_detailed(grid.runs, grid.name, grid.kind).model)


def detailed_trip(grid: Grid, _seed: int) -> Answer:
    """The same, of which the machine is taken out."""
    return _detailed(grid.runs, grid.name, grid.kind).answer_trip


@cache
def _source(runs: Runs, name: str, kind: LoadKind) -> SourceGrid[DetailedFacts]:
    declared: Any = {"IZ": (0.0, 1.0, 0.0, 1.0, 0.0, 0.0)}.get(kind, kind)
    return locked(_detailed(runs, name, kind).case, DeclaredLoads(zip=declared))


@cache
def _released(
    grid: Grid, seed: int, rule: Any = "one-asset-relative", *, fitted: bool = False
) -> DetailedModel:
    """A demo release's linear model, under the names of the grid's own buses.

    fitted : to the record.
    """
    source, observed = _source(grid.runs, grid.name, grid.kind), []
    if fitted:  # how loads depend on voltage is not declared: the middle, then estimated
        observed = [grid.record(seed)]
        public = unknown_loads(source.facts.public)
        source = replace(source, facts=replace(source.facts, public=public))
    release = publish_detailed(
        source,
        observed,
        epsilon=Fraction(1),
        adjacency=Adjacency(rule, family=source.facts.family),
        ledger=None,
        sampler=DemoSampler(seed=seed),
        error_bars=False,
    )
    model = release.model
    assert isinstance(model, DetailedModel)
    own = {name: bus for bus, name in detailed_names(source.facts).items()}
    states = (state.rsplit(" ", 1) for state in model.states)
    return replace(
        model,
        ports=tuple(own[port] for port in model.ports),
        states=tuple(f"{own[port]} {state}" for port, state in states),
    )


def detailed_released(grid: Grid, seed: int) -> Answer:
    """The detailed release without a record."""
    return answers_of(_released(grid, seed))


def detailed_released_l1(grid: Grid, seed: int) -> Answer:
    """The same under the weaker adjacency."""
    return answers_of(_released(grid, seed, "asset-l1-relative"))


def detailed_fitted(grid: Grid, seed: int) -> Answer:
    """The detailed release, fitted to the record."""
    return answers_of(_released(grid, seed, fitted=True))


def public_fitted(grid: Grid, seed: int) -> Answer:
    """No release: declared topology, public values everywhere, fitted to the record."""
    public = unknown_loads(_source(grid.runs, grid.name, grid.kind).facts.public)
    fitted = public_fit(public, [grid.record(seed)], DetailedFitSettings())
    return answers_of(fitted.model)


def tripped(model: DetailedModel) -> Answer:
    """Answer a trip with the machine gone, or left in where the model refuses that it leaves; its
    name is told, and the MW that were lost.
    """

    def answer(truth: Truth) -> Array:
        omega = np.zeros_like(truth.omega)
        names = [bus for bus in truth.machines if bus != truth.tripped]
        event = Event.trip({truth.tripped: truth.lost.real})
        try:
            omega[:, truth.staying] = simulate(
                model, event, horizon_s=HORIZON_S, dt_s=DT_S, buses=names
            ).omega
        except EventError:  # unstable without the machine
            return answers_of(model)(truth)
        return omega

    return answer


def released_trip(grid: Grid, seed: int) -> Answer:
    """The detailed release without a record, of which the machine is taken out."""
    return tripped(_released(grid, seed))


def fitted_trip(grid: Grid, seed: int) -> Answer:
    """The detailed release, fitted to the record, of which the machine is taken out."""
    return tripped(_released(grid, seed, fitted=True))


def unknown_loads(case: DetailedCase) -> DetailedCase:
    """Half constant impedance, half constant power: the middle, where nothing is declared."""
    half = np.full_like(case.loads.impedance, 0.5)
    return replace(case, loads=replace(case.loads, impedance=half, current=np.zeros_like(half)))


RELEASED = Row("detailed release, ε = 1", detailed_released)
RELEASED_L1 = Row("detailed release, ε = 1, asset-l1", detailed_released_l1)
FITTED = Row("detailed release, ε = 1, fitted to A", detailed_fitted)
PUBLIC = Row("no release, public values fitted to A", public_fitted, most=5)
SWING = Row("swing, no noise", swing_exact, most=1)
SWING_RELEASED = Row("swing release, ε = 1", swing_released)
SWING_FITTED = Row("swing release, ε = 1, fitted to A", swing_fitted, most=3)
RESPONSE = Row("SFR fitted to A, no release", response_fitted)
DETAILED = Row("detailed, no noise", detailed_exact, most=1)

Grids = tuple[tuple[str, LoadKind], ...]
NOISE_FREE: Grids = tuple(
    (name, kind) for name in ("ieee39", "kundur", "kundur-large") for kind in LOAD_KINDS
)
FOUR: Grids = (
    ("ieee39", "Z"),
    ("ieee39", "P"),
    ("kundur", "Z"),
    ("kundur", "P"),
)
# The larger steps of kundur beside the four.
SIX: Grids = (*FOUR, ("kundur-large", "Z"), ("kundur-large", "P"))
DRAWN: Grids = (("ieee39", "P"), ("kundur", "Z"))
UNLIKE: Grids = tuple(("ieee39-unlike", kind) for kind in LOAD_KINDS)
OLD: Grids = (
    ("ieee39", "Z"),
    ("ieee39", "IZ"),
    ("ieee39", "P"),
    ("kundur", "Z"),
    ("kundur", "P"),
    ("ieee14", "Z"),
)
TABLES: Mapping[str, Study] = {
    "noise-free": Study("no noise", NOISE_FREE, (SWING, DETAILED)),
    "no-record": Study("ε = 1, no record", SIX, (SWING_RELEASED, RELEASED, RELEASED_L1)),
    "record": Study("ε = 1, one record", SIX, (SWING_FITTED, RESPONSE, PUBLIC, FITTED)),
    "unlike": Study("machines that differ", UNLIKE, (SWING_FITTED, RESPONSE, PUBLIC, FITTED)),
    "trips": Study(
        "two trips",
        tuple(("ieee39", kind) for kind in LOAD_KINDS),
        (
            SWING,
            RESPONSE,
            Row("detailed, no noise, machine left in", detailed_exact, most=1),
            Row("detailed, no noise, machine gone", detailed_trip, most=1),
            Row("detailed release, ε = 1, machine left in", detailed_released),
            Row("detailed release, ε = 1, machine gone", released_trip),
            Row("detailed release, ε = 1, fitted to A, machine left in", detailed_fitted),
            Row("detailed release, ε = 1, fitted to A, machine gone", fitted_trip),
        ),
        trips=True,
    ),
    "swing": Study("swing releases", OLD, (SWING, SWING_RELEASED, SWING_FITTED, RESPONSE)),
}


@dataclass(frozen=True)
class Task:
    """A grid with one seed, to be judged by all rows of some tables: they share its releases.

    draw : number of the seed.
    """

    cache: Path
    tables: tuple[str, ...]
    name: str
    kind: LoadKind
    seed: int
    draw: int


@cache
def _runs(folder: Path) -> Runs:
    return Runs(folder)


def score(task: Task) -> dict[tuple[str, str], Scores]:
    """Judge one draw: scores by table and row."""
    grid = Grid(_runs(task.cache), task.name, task.kind)
    found = {}
    for name in task.tables:
        study = TABLES[name]
        if (task.name, task.kind) not in study.grids:
            continue
        truths = grid.truths(study.events(grid.case))
        for row in study.rows:
            if row.most is None or task.draw < row.most:
                found[name, row.name] = judge_answer(row.answer(grid, task.seed), truths)
    return found


# Scores by table, row and column.
Tables = dict[str, dict[str, dict[str, Scores]]]


def measure(names: Sequence[str], folder: Path, draws: int, seed: int) -> Tables:
    """Judge every row of some tables on every grid, means over draws."""
    grids = dict.fromkeys(grid for name in names for grid in TABLES[name].grids)
    for name in names:
        for case, kind in TABLES[name].grids:
            _runs(folder).andes_dump(case, kind)
            events = [*TABLES[name].events(CASES[case]), RECORD]
            _runs(folder).prepare([(case, kind)], events)
    tasks = [
        Task(folder, tuple(names), case, kind, seed + number, number)
        # the largest first, so that no core waits for one at the end
        for case, kind in sorted(grids, key=lambda grid: not grid[0].startswith("ieee39"))
        for number in range(draws)
    ]
    judged: dict[tuple[str, str, str], list[Scores]] = {}
    for task, found in zip(tasks, over_draws(score, tasks, "truth"), strict=True):
        for (name, row), scores in found.items():
            judged.setdefault((name, row, f"{task.name} {task.kind}"), []).append(scores)
    tables: Tables = {name: {row.name: {} for row in TABLES[name].rows} for name in names}
    for (name, row, column), scores in judged.items():
        tables[name][row][column] = mean_scores(scores)
    return tables


def draw(runs: Runs, path: Path, seed: int) -> None:
    """Draw one held-out event on two grids: truth, swing release, SFR and detailed release."""
    figure, axes = new_figure(9.0, 3.4, columns=2)
    for panel, (name, kind) in zip(axes, DRAWN, strict=True):
        grid = Grid(runs, name, kind)
        (truth,) = grid.truths([grid.case.held_out[0]])
        lines = {
            "grid (nonlinear)": (truth.omega, {"color": "#000000", "linewidth": 2.2}),
            "swing release": (swing_fitted(grid, seed)(truth), {"color": CYCLE[3]}),
            "SFR, no release": (
                response_fitted(grid, seed)(truth),
                {"color": CYCLE[2], "linestyle": ":"},
            ),
            "detailed release": (
                detailed_fitted(grid, seed)(truth),
                {"color": CYCLE[0], "linestyle": "--"},
            ),
        }
        for words, (omega, style) in lines.items():
            mhz = 1000 * truth.system_hz(omega)
            panel.plot(truth.time_s, mhz, label=words, **{"linewidth": 1.4, **style})
        panel.set_title(f"{name}, loads of kind {kind}, a step that no fit saw", fontsize=9)
        labelled(panel, "time [s]", "frequency of the system [mHz]")
    axes[0].legend(fontsize=8, frameon=False)
    mark_demo(figure)
    written(figure, str(path))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps the truth")
    parser.add_argument("--table", choices=[*TABLES], action="append", help="only this one")
    parser.add_argument("--draws", type=int, default=20, help="draws of a row, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--plot", type=Path, help="draw a held-out event there instead")
    asked = parser.parse_args()
    if asked.plot:
        draw(_runs(asked.cache), asked.plot, asked.seed)
        return
    tables = measure(asked.table or [*TABLES], asked.cache, asked.draws, asked.seed)
    if asked.json:
        document = {
            name: {
                row: {column: _plain(scores) for column, scores in cells.items()}
                for row, cells in rows.items()
            }
            for name, rows in tables.items()
        }
        print(json.dumps({"draws": asked.draws, "seed": asked.seed, "tables": document}, indent=2))
        return
    for name, rows in tables.items():
        columns = [f"{case} {kind}" for case, kind in TABLES[name].grids]
        print(table(f"{TABLES[name].title}: nadir % / RMS mHz", columns, rows), end="\n\n")


def _plain(scores: Scores) -> dict[str, list[float]]:
    return {
        "rms_mhz": scores.rms_mhz.tolist(),
        "nadir_percent": scores.nadir_percent.tolist(),
    }


if __name__ == "__main__":
    main()
