"""How often 80 % bands hold the truth, on events that no fit saw.

Grids: IEEE-30, and ANDES's ieee39 and Kundur as swing models. A draw is a release with its own
noise and, where places were recorded, a record with its own noise: +20 % load, 30 s at 50 Hz, of
one, three or all machines. The truth is the stock table, or (table "prior") one drawn for each draw
from what is believed before any release: machines that may be alike, lines around the middle of
their bounds. Each draw is judged on events drawn for it: a step of load at one to three places.
A demo: seeds and truth are known.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench_pool import over_draws, resumable
from gridveil.dynamics.ensemble import system_band
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import Clock, simulate
from gridveil.dynamics.trajectory import nadir, rocof
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.parameters import Bounds, Range
from gridveil.inference.alike import LONE, half_normal, students
from gridveil.inference.fit import FitSettings, Observation
from gridveil.inference.prior import around_middle
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation
from gridveil.privacy.provenance import Provenance
from gridveil.publication.release import Release, neutral, neutral_names
from gridveil.readers.cases import open_grid
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.vault.truth import public_table
from gridveil.workflow.publish import publish, share_out

PUBLIC = Event.uniform(0.2)
ORIGIN = Provenance("simulated", "the case's own answer to +20 % load")
DT_S, HORIZON_S, SIGMA = 0.02, 30.0, 1e-5
EVENTS = 3  # that each draw is judged on
PLACES = (0, 1, 3, -1)  # recorded; 0: no record, -1: all machines
FIGURES = ("nadir", "rocof", "settling", "response", "machine nadir")


@dataclass(frozen=True)
class Case:
    """A grid. typical : public values around which bounds lie; None: the default bounds."""

    grid: str
    epsilon: Fraction
    typical: Mapping[str, Fraction] | None = None
    options: Mapping[str, Any] | None = None

    @property
    def bounds(self) -> Bounds:
        """Public bounds: from a tenth to ten times the typical values."""
        if self.typical is None:
            return Bounds()
        box = {
            name: Range(float(value / 10), float(value * 10))
            for name, value in self.typical.items()
        }
        return Bounds({**box, "k_r": Range(0.0, box["k"].upper)}, origin="0.1 to 10 times typical")

    @property
    def adjacency(self) -> Adjacency:
        """One value of each group, by a twentieth of its typical value."""
        if self.typical is None:
            return Adjacency("one-per-group")
        alpha = {name: value / 20 for name, value in self.typical.items()}
        return Adjacency("one-per-group", alpha=alpha)


SWING_ONLY = {"damping": 2.0, "base": "rated", "publish_loads": True}
CASES = {
    "ieee30": Case("ieee30", Fraction(1)),
    "ieee39": Case(
        "andes:ieee39",
        Fraction(1),
        {"k": Fraction(90), "m": Fraction(240), "d": Fraction(24)},
        SWING_ONLY,
    ),
    "kundur": Case(
        "andes:kundur",
        Fraction(1),
        {"k": Fraction(35), "m": Fraction(110), "d": Fraction(20)},
        SWING_ONLY,
    ),
}


@cache
def opened(name: str, folder: str) -> SourceGrid:
    """A grid, from its package, or from what `--keep FOLDER` left of it."""
    case = CASES[name]
    if folder and (kept := Path(folder) / f"{name}.pickle").exists():
        facts, values = pickle.loads(kept.read_bytes())
        return SourceGrid.of(facts, **values)
    return (
        open_grid(case.grid, options=dict(case.options)) if case.options else open_grid(case.grid)
    )


def keep(folder: str) -> None:
    """Leave public cases in a folder, for a machine without the packages that have them."""
    for name in CASES:
        table = public_table(opened(name, ""))
        data = pickle.dumps((table.facts, dict(table.values)))
        (Path(folder) / f"{name}.pickle").write_bytes(data)


@cache
def shared_out(name: str, folder: str) -> Allocation:
    """What a release without a record draws: the choice of `gridveil release`."""
    case = CASES[name]
    return share_out(opened(name, folder).facts, case.adjacency, case.epsilon, case.bounds)


@dataclass(frozen=True)
class Draw:
    """One release. places : how many machines were recorded. run : number of the draw."""

    grid: str
    places: int
    table: str
    run: int
    folder: str = ""


def measure(one: Draw) -> dict[str, Any]:
    """Whether each figure of each event lies in its band, and how wide the bands are."""
    case, source = CASES[one.grid], opened(one.grid, one.folder)
    random = np.random.default_rng([one.run, one.places + 1, len(one.table)])
    facts, values = source.facts, public_table(source).values
    if one.table == "prior":
        values = drawn_table(facts, case.bounds, random, lone=not one.places)
        source = SourceGrid.of(facts, **values)
    truth = reduced_model(facts, values)
    observed = recorded(truth, one.places, random)
    start = time.perf_counter()
    release = publish(
        source,
        observed,
        epsilon=case.epsilon,
        adjacency=case.adjacency,
        bounds=case.bounds,
        ledger=None,
        settings=FitSettings(dt_s=DT_S, sigma=SIGMA),
        sampler=DemoSampler([one.run, one.places + 1]),
        allocation=ITEMS if observed else shared_out(one.grid, one.folder),
    )
    seconds = time.perf_counter() - start
    events = [held_out(facts, random) for _ in range(EVENTS)]
    return {"inside": judged(release, neutral(truth, facts), events), "seconds": seconds}


def drawn_table(
    facts: GridFacts, bounds: Bounds, random: np.random.Generator, *, lone: bool
) -> dict[str, Array]:
    """A table from what is believed before any release; lone : as where sums alone are drawn."""
    table = {}
    for name, entries in facts.sizes.items():
        public = bounds[name]
        if name == "k":
            table[name] = around_middle(random.random(entries), public)
            continue
        low, high = np.log(public.least), np.log(public.upper)
        logs = np.full(entries, np.inf)
        mu, tau = low + (high - low) * random.random(), half_normal(random.random(1))
        out_of_line = random.integers(entries) if lone and random.random() < LONE else entries
        while (out := (logs < low) | (logs > high)).any():
            more = (high - low) * random.random() * (np.flatnonzero(out) == out_of_line)
            logs[out] = mu + tau * students(random.random(out.sum())) + more
        table[name] = np.exp(logs)
    return table


def recorded(truth: ReducedModel, places: int, random: np.random.Generator) -> list[Observation]:
    """The public record of some machines, with its noise."""
    if not places:
        return []
    machines = truth.machines[:places] if places > 0 else truth.machines
    trajectory = simulate(truth, PUBLIC, horizon_s=HORIZON_S, dt_s=DT_S, buses=machines)
    noise = SIGMA * random.standard_normal(trajectory.omega.shape)
    noisy = replace(trajectory, omega=trajectory.omega + noise)
    return [Observation(PUBLIC, noisy, ORIGIN)]


def held_out(facts: GridFacts, random: np.random.Generator) -> Event:
    """A step of load at one to three machines or loaded buses, as neutral names have them."""
    names = list(neutral_names(facts).values())
    chosen = random.choice(len(names), size=random.integers(1, 4), replace=False)
    return Event.load({names[place]: random.uniform(0.05, 0.5) for place in chosen})


def judged(release: Release, truth: ReducedModel, events: list[Event]) -> list[dict[str, float]]:
    """Share of each figure of the truth that its band holds, and its width over the figure."""
    clock, found = Clock(20.0, DT_S), []
    assert release.ensemble is not None, "these grids are small enough"
    weight = truth.m / truth.m.sum()
    for event in events:
        true = simulate(truth, event, horizon_s=20.0, dt_s=DT_S)
        ours = release.simulate(event, horizon_s=20.0, dt_s=DT_S)
        band = ours.band
        assert band is not None
        system = system_band(ours, release.ensemble, release.model, event, clock)
        assert system is not None, "it is short"
        true_system, time_s = true.omega @ weight, clock.time_s
        row: dict[str, float] = {}
        for name, value in (
            ("nadir", nadir(time_s, true_system)[0]),
            ("rocof", rocof(time_s, true_system.copy())),
            ("settling", true.settling),
        ):
            low, high = getattr(system, name)
            row[name] = float(low <= value <= high)
            row[f"{name} width"] = float((high - low) / abs(value))
        # at rest, before anything moved, there is nothing to hold
        inside = (band.lower <= true.omega) & (true.omega <= band.upper)
        row["response"] = float(inside[1:].mean())
        lows = nadir(time_s, true.omega.T)[0]
        row["machine nadir"] = float(
            ((band.nadir[:, 0] <= lows) & (lows <= band.nadir[:, 1])).mean()
        )
        row["centre"] = float(((band.lower <= ours.omega) & (ours.omega <= band.upper))[1:].mean())
        found.append(row)
    return found


def cell(grid: str, places: int, table: str, runs: range, folder: str) -> dict[str, Any]:
    """Coverage of one grid with so many places: means over draws, with standard errors."""
    told = over_draws(
        measure,
        [Draw(grid, places, table, run, folder) for run in runs],
        f"{grid}, {places} places, {table}",
    )
    rows = [one["inside"] for one in told]
    by_draw = {name: [np.mean([row[name] for row in draw]) for draw in rows] for name in rows[0][0]}
    return {
        "grid": grid,
        "places": places,
        "table": table,
        "first": runs.start,
        "draws": len(runs),
        "seconds": float(np.mean([one["seconds"] for one in told])),
        **{name: float(np.mean(of)) for name, of in by_draw.items()},
        "error": {name: float(np.std(by_draw[name]) / np.sqrt(len(runs))) for name in FIGURES},
    }


def in_words(row: Mapping[str, Any]) -> str:
    """One line of the table."""
    places = {0: "none", -1: "all"}.get(row["places"], row["places"])
    figures = "  ".join(f"{row[name]:.3f} ±{row['error'][name]:.3f}" for name in FIGURES)
    return (
        f"{row['grid']:<7} {places!s:<5} {row['table']:<6} {figures}  {row['nadir width']:>6.1%} "
        f"{row['centre']:.2f} {row['seconds']:>6.2f} s, {row['draws']} draws"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--grid", choices=[*CASES], action="append", help="only this one")
    parser.add_argument("--places", type=int, choices=PLACES, action="append", help="only these")
    parser.add_argument("--table", choices=("stock", "prior"), action="append", help="only these")
    parser.add_argument("--folder", default="", help="where --keep left the cases")
    parser.add_argument("--keep", metavar="FOLDER", help="leave the cases there, and do no more")
    resumable(parser)
    asked = parser.parse_args()
    if asked.keep:
        keep(asked.keep)
        return
    if not asked.json:
        head = "  ".join(f"{name:<12}" for name in FIGURES)
        print(f"{'grid':<7} {'place':<5} {'table':<6} {head}  nadir's band, centre inside, seconds")
    found, runs = [], range(asked.first, asked.first + asked.draws)
    for grid in asked.grid or CASES:
        for table in asked.table or ("stock", "prior"):
            for places in asked.places or PLACES:
                found.append(cell(grid, places, table, runs, asked.folder))
                if not asked.json:
                    print(in_words(found[-1]), flush=True)
    if asked.json:
        json.dump(found, sys.stdout, indent=2)
        print()


if __name__ == "__main__":
    main()
