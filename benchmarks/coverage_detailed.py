"""How often 80 % bands of detailed releases hold the truth, on events that no fit saw.

`python benchmarks/coverage_detailed.py --cache FOLDER` prints a line for each grid, with and
without a record, against three truths: ANDES's nonlinear simulation of the stock case ("andes"),
its own linear model ("stock"), and linear models of cases with the stock case's drawn entries whose
other values are drawn, for each release, from what is believed of them ("prior"). The record is
that of `truth.py`: event A at two or three machines' buses, σ = 1e-4 p.u. Releases are at ε = 1
under one-asset-relative, α = 5 %. A demo: seeds and truth are known.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bench_pool import over_draws, resumable
from gridveil.dynamics.detailed.entries import ENTRIES, entries_of
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.projection import NoPublicEnd, project
from gridveil.dynamics.ensemble import system_band
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import Clock, simulate
from gridveil.dynamics.trajectory import nadir, rocof
from gridveil.grid.case import DetailedCase
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array
from gridveil.grid.parameters import Bounds
from gridveil.inference.detailed_draws import scatter
from gridveil.inference.fit import Observation
from gridveil.inference.fit.controls import FitControls
from gridveil.inference.fit.detailed import DetailedFitSettings
from gridveil.inference.fit.problem import as_records
from gridveil.inference.plausible import plausible_case
from gridveil.privacy.adjacency import Adjacency
from gridveil.publication.release import Release, detailed_names
from gridveil.readers.detailed import locked
from gridveil.readers.dynamics import Detailed as DeclaredLoads
from gridveil.vault.perturb import PlannedDraw
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.workflow.detailed import allocate, detailed_algorithm
from gridveil.workflow.publish import FitRecords
from truth import unknown_loads
from truth_cases import CASES, DT_S, HORIZON_S, RECORD, LoadKind
from truth_controls import SIGMA, record_of
from truth_detailed import Detailed
from truth_runs import Runs, Truth

GRIDS: tuple[tuple[str, LoadKind], ...] = (
    ("ieee39", "Z"),
    ("ieee39", "P"),
    ("kundur", "Z"),
    ("kundur", "P"),
)
FIGURES = ("nadir", "rocof", "settling", "response", "machine nadir")
Against = Literal["andes", "stock", "prior"]
CLOCK = Clock(HORIZON_S, DT_S)


@dataclass(frozen=True)
class Draw:
    """One release of a grid's stock table, or of a drawn one, and whether it is fitted."""

    cache: Path
    grid: str
    kind: LoadKind
    record: bool
    drawn: bool
    run: int


@dataclass(frozen=True, eq=False)
class Answer:
    """What a truth does after an event, at the units: omega (N + 1, u), and what it settles at, or
    is at when the record ends [p.u.].
    """

    event: Event
    omega: Array
    inertia: Array
    settling: float | None


@cache
def _runs(folder: Path) -> Runs:
    return Runs(folder)


@cache
def _stock(folder: Path, grid: str, kind: LoadKind) -> DetailedCase:
    return Detailed.true(_runs(folder), grid, kind).case


def plausible_truth(stock: DetailedCase, random: np.random.Generator) -> DetailedCase:
    """A case with the stock case's drawn entries, and all else as it might be; it stands."""
    public = locked(stock, DeclaredLoads(zip=_zip(stock))).facts.public
    while True:
        values = {}
        for name, (entries, _) in entries_of(stock).items():
            if not len(entries):
                continue
            values[name] = entries
            if ENTRIES[name].treatment == "mean":
                apart = scatter(name, random, 1, len(entries))[0]
                signed = name == "q_ratio"
                mean = entries.mean() if signed else np.exp(np.log(entries).mean())
                values[name] = mean + apart if signed else mean * np.exp(apart)
        try:
            return project(plausible_case(public, random), values).case
        except NoPublicEnd:
            continue


def _zip(case: DetailedCase) -> Any:
    return "Z" if case.loads.impedance[0, 0] else "P"


def release_of(
    source: SourceGrid[DetailedFacts], observed: Sequence[Observation], run: int
) -> Release:
    """A demo release; its controls, which no band depends on, are left out."""
    facts = source.facts
    if observed:  # how loads depend on voltage is not declared: the middle, then estimated
        source = replace(source, facts=replace(facts, public=unknown_loads(facts.public)))
        facts = source.facts
    adjacency = Adjacency("one-asset-relative", family=facts.family)
    plan = PlannedDraw(
        source, Fraction(1), adjacency, Bounds(family=facts.family), allocate(facts, adjacency)
    )
    controls = None
    if observed:
        settings = DetailedFitSettings()
        weights = tuple(float(one.weights[0, 0]) for one in as_records(observed, settings.dt_s)[1])
        none = (None, None)
        controls = FitControls(tuple(observed), None, weights, settings, none, none)
    records = FitRecords(observed, DemoSampler(seed=run))
    return detailed_algorithm(plan, records, ledger=None, controls=controls)


def measure(draw: Draw) -> dict[str, Any]:
    """Whether each figure of each held-out event lies in its band, by truth."""
    runs, case = _runs(draw.cache), CASES[draw.grid]
    stock = _stock(draw.cache, draw.grid, draw.kind)
    random = np.random.default_rng([draw.run, draw.drawn, 15])
    true = Detailed.of(plausible_truth(stock, random) if draw.drawn else stock)
    source = locked(true.case, DeclaredLoads(zip=_zip(stock)))
    names = detailed_names(source.facts)
    observed = [record_of(runs, case, draw.kind, draw.run)] if draw.record else []
    if draw.record and draw.drawn:
        observed = [_recorded(true, observed[0], random)]
    start = time.process_time()
    release = release_of(source, observed, draw.run)
    seconds = time.process_time() - start
    truths = [runs.truth(draw.grid, draw.kind, event) for event in case.held_out]
    judged: dict[str, list[dict[str, float]]] = {}
    for truth in truths:
        event = Event.load({names[bus]: size for bus, size in truth.change.items()})
        own = "prior" if draw.drawn else "stock"
        found = judged.setdefault(own, [])
        found.append(judge(release, _linear(true, truth, event)))
        if not draw.drawn:
            order = [truth.machines.index(unit) for unit in source.facts.units]
            answer = Answer(event, truth.omega[:, order], truth.inertia[order], None)
            judged.setdefault("andes", []).append(judge(release, answer))
    return {"inside": judged, "seconds": seconds}


def _recorded(true: Detailed, like: Observation, random: np.random.Generator) -> Observation:
    """The record of a drawn case: the same event, places and noise."""
    shown = like.trajectory
    ports = np.union1d(true.case.loads.bus, true.case.units.bus)
    model = linearise(true.case, true.rest, ports)
    omega = simulate(model, like.event, horizon_s=HORIZON_S, dt_s=DT_S, buses=shown.buses).omega
    noise = SIGMA * random.standard_normal(omega.shape)
    return replace(like, trajectory=replace(shown, omega=omega + noise))


def _linear(true: Detailed, truth: Truth, event: Event) -> Answer:
    """What a case's own linear model says, at its units."""
    model = linearise(true.case, true.rest, true.case.loads.bus)
    own = simulate(
        model, Event.load(truth.change), horizon_s=HORIZON_S, dt_s=DT_S, buses=model.machines
    )
    return Answer(event, own.omega, model.inertia, own.settling)


def judge(release: Release, answer: Answer) -> dict[str, float]:
    """Share of each figure of the truth that its band holds, and the widths of bands over it."""
    assert release.ensemble is not None
    ours = release.simulate(answer.event, horizon_s=HORIZON_S, dt_s=DT_S)
    band, time_s = ours.band, CLOCK.time_s
    assert band is not None
    units = slice(0, len(answer.inertia))
    of_system = system_band(ours, release.ensemble, release.model, answer.event, CLOCK)
    assert of_system is not None, "it is short"
    system = answer.omega @ (answer.inertia / answer.inertia.sum())
    row: dict[str, float] = {}
    for name, (low, high), value in (
        ("nadir", of_system.nadir, nadir(time_s, system)[0]),
        ("rocof", of_system.rocof, rocof(time_s, system.copy())),
        # a nonlinear truth is judged where its simulation ends
        ("settling", of_system.settling, answer.settling)
        if answer.settling is not None
        else ("settling", (band.lower[-1, 0], band.upper[-1, 0]), answer.omega[-1, 0]),
    ):
        row[name] = float(low <= value <= high)
        row[f"{name} width"] = float((high - low) / abs(value))
        row[f"{name} place"] = float((value - 0.5 * (low + high)) / (high - low) * np.sign(value))
    # at rest, before anything moved, there is nothing to hold
    lower, upper = band.lower[1:, units], band.upper[1:, units]
    row["response"] = float(((lower <= answer.omega[1:]) & (answer.omega[1:] <= upper)).mean())
    lows, ends = nadir(time_s, answer.omega.T)[0], band.nadir[units]
    row["machine nadir"] = float(((ends[:, 0] <= lows) & (lows <= ends[:, 1])).mean())
    shown = ours.omega[1:, units]
    row["centre"] = float(((lower <= shown) & (shown <= upper)).mean())
    return row


def cells(
    cache_folder: Path, grid: str, kind: LoadKind, record: bool, draws: int, tables: Any
) -> Any:
    """Coverage of a grid, by truth: means over draws, with standard errors."""
    for drawn in tables:
        tasks = [Draw(cache_folder, grid, kind, record, drawn, run) for run in range(draws)]
        told = over_draws(measure, tasks, f"{grid} {kind}")
        for against in told[0]["inside"]:
            rows = [one["inside"][against] for one in told]
            by_draw = {n: [np.mean([row[n] for row in draw]) for draw in rows] for n in rows[0][0]}
            yield {
                "grid": f"{grid} {kind}",
                "record": record,
                "truth": against,
                "draws": draws,
                "seconds": float(np.mean([one["seconds"] for one in told])),
                **{name: float(np.mean(of)) for name, of in by_draw.items()},
                "error": {n: float(np.std(by_draw[n]) / np.sqrt(draws)) for n in FIGURES},
            }


def in_words(row: Mapping[str, Any]) -> str:
    """One line of the table."""
    figures = "  ".join(f"{row[name]:.3f} ±{row['error'][name]:.3f}" for name in FIGURES)
    widths = " ".join(f"{row[f'{name} width']:.1%}" for name in FIGURES[:3])
    places = " ".join(f"{row[f'{name} place']:+.2f}" for name in FIGURES[:3])
    record = "record" if row["record"] else "none"
    return (
        f"{row['grid']:<9} {record:<6} {row['truth']:<5} {figures}  {widths}  {places}  "
        f"{row['centre']:.2f}  {row['seconds']:.1f} s, {row['draws']} draws"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps the truth")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--grid", action="append", help="only this one, such as ieee39-Z")
    parser.add_argument("--record", choices=("none", "one"), action="append", help="only this")
    parser.add_argument("--table", choices=("stock", "prior"), action="append", help="only this")
    parser.add_argument("--json", action="store_true", help="print a JSON document a line")
    resumable(parser)
    asked = parser.parse_args()
    if not asked.json:
        head = "  ".join(f"{name:<12}" for name in FIGURES)
        print(
            f"{'grid':<9} {'record':<6} {'truth':<5} {head}  widths and places of the first three"
        )
    for grid, kind in GRIDS:
        if asked.grid and f"{grid}-{kind}" not in asked.grid:
            continue
        _runs(asked.cache).andes_dump(grid, kind)
        _runs(asked.cache).prepare([(grid, kind)], [*CASES[grid].held_out, RECORD])
        for record in asked.record or ("none", "one"):
            tables = [table == "prior" for table in asked.table or ("stock", "prior")]
            for row in cells(asked.cache, grid, kind, record == "one", asked.draws, tables):
                print(json.dumps(row) if asked.json else in_words(row), flush=True)


if __name__ == "__main__":
    main()
