"""What releases without any trajectory give on IEEE-30: items, sums and topology mode, each
unconditionally ε-DP.

Noise, bounds and Euler scheme of profile `paper`. L is ∫ |ω − ω_ref|² dt [p.u.² s], the mean over
the paper's five named transients. Allocations are chosen on a public surrogate, never on the grid
itself. A demo: seeds and truth are known.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from bench_pool import over_draws, resumable
from fidelity_grids import CASES as GRIDS_118
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.kron import networkless_model, reduce
from gridveil.foundation.shards import cut
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.tables import PublicTable
from gridveil.inference.posterior import beliefs, middle, posterior_mean
from gridveil.paper.experiment import Experiment, named_transients
from gridveil.planning.profiles import PROFILES
from gridveil.planning.surrogate import choose, from_prior, trial_event
from gridveil.planning.trials import Trials
from gridveil.privacy.adjacency import Adjacency, Rule
from gridveil.privacy.allocation import ITEMS, Allocation, MechanismName, aggregates
from gridveil.privacy.noisy import NoisyGrid
from gridveil.readers.cases import declared_public, open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.workflow.publish import share_out

PROFILE = PROFILES["paper"]
BATCH = 50
GRIDS = 10  # with machines that differ: so many of them, each with a share of the draws
CASES: tuple[tuple[Rule, Fraction], ...] = (
    ("one-per-group", Fraction(2)),
    ("one-per-group", Fraction(1)),
    ("one-per-group", Fraction(1, 2)),
    ("one-asset", Fraction(1)),
    ("one-item", Fraction(1)),
    ("one-asset-relative", Fraction(1)),
)
# The control: Laplace noise on sums, in the shares that a surrogate in the middle of the bounds
# chooses, and estimates with log-uniform priors alone. Share of Σm; under one-per-group, none of k.
AT_MIDDLE: dict[tuple[Rule, Fraction], Fraction] = {
    ("one-per-group", Fraction(2)): Fraction(1, 4),
    ("one-per-group", Fraction(1)): Fraction(1, 4),
    ("one-per-group", Fraction(1, 2)): Fraction(3, 20),
    ("one-asset", Fraction(1)): Fraction(1, 4),
}
TABLE_DRAWS = 200
UNLIKE: tuple[Rule, ...] = ("one-per-group", "one-asset")
MECHANISMS: tuple[MechanismName, ...] = ("aggregates", "topology")
PARTS = ("choice", "items", "ieee118", "tables", "unlike")
Row = dict[str, Any]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--draws", type=int, default=1000, help="noisy grids a row")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tables", type=int, default=16, help="another number is another list")
    parser.add_argument(
        "--only", choices=PARTS, action="append", help="these parts alone (default: all)"
    )
    resumable(parser)
    asked = parser.parse_args()
    found = []
    if not asked.json:
        print(f"{'release':<66} {'mean':>9} {'±':>8} {'median':>9} {'80 % interval':>19}")
    for row in rows(asked.draws, asked.seed, asked.only or PARTS, asked.tables):
        found.append(row)
        if not asked.json:
            print(in_words(row), flush=True)
    if asked.json:
        json.dump({"draws": asked.draws, "seed": asked.seed, "rows": found}, sys.stdout, indent=2)


def rows(draws: int, seed: int, parts: Sequence[str], tables: int) -> Iterator[Row]:
    """Measure each row."""
    if "choice" in parts:
        yield from choice_rows(draws, seed)
    if "items" in parts:
        alike = Study(None, draws, seed)
        for rule, epsilon in CASES:
            yield alike.row("Laplace only", rule, epsilon, ITEMS, start="clipped")
            yield alike.row("estimates of the items", rule, epsilon, ITEMS)
    if "ieee118" in parts:
        yield from rows_of_118(draws, seed)
    if "tables" in parts:
        yield from table_rows(tables)
    if "unlike" in parts:
        yield from unlike_rows(draws, seed)


def choice_rows(draws: int, seed: int) -> Iterator[Row]:
    """IEEE-30: what is chosen, topology mode, and the control."""
    alike = Study(None, draws, seed)
    for rule, epsilon in CASES:
        if (rule, epsilon) in AT_MIDDLE:
            control = at_middle_shares(rule, epsilon)
            yield alike.row("control", rule, epsilon, control, start="control")
        for mechanism in MECHANISMS:
            chosen = share_out(
                alike.facts, Adjacency(rule), epsilon, PROFILE.bounds, mechanism=mechanism
            )
            yield alike.row(mechanism, rule, epsilon, chosen)


def at_middle_shares(rule: Rule, epsilon: Fraction) -> Allocation:
    """What a surrogate in the middle of the bounds chooses."""
    of_m, lines = AT_MIDDLE[rule, epsilon], rule == "one-asset"
    shares = {"m": of_m, "d": 1 - of_m}
    return aggregates(lines=lines, shares=({"k": Fraction(1)} if lines else {}) | shares)


@dataclass(frozen=True)
class Run118:
    """One noisy grid of IEEE-118, for one process."""

    seed: int
    run: int
    adjacency: Adjacency
    epsilon: Fraction
    allocation: Allocation
    start: str


@one_blas_thread()
def distance_of_118(one: Run118) -> float:
    """L of it."""
    case = GRIDS_118["ieee118"]
    noisy = perturb(
        case.source,
        epsilon=one.epsilon,
        adjacency=one.adjacency,
        bounds=case.bounds,
        ledger=None,
        sampler=DemoSampler([one.seed, one.run]),
        allocation=one.allocation,
    )
    return float(case.distance(reduce(_table(noisy, one.start)))[: len(case.named)].mean())


def rows_of_118(draws: int, seed: int) -> Iterator[Row]:
    """IEEE-118 as in fidelity_grids.py: what is chosen, and the control, in equal shares."""
    case, epsilon = GRIDS_118["ieee118"], Fraction(1)
    rule: Rule = "one-asset"
    adjacency = Adjacency(rule, alpha={name: value / 20 for name, value in case.typical.items()})
    halves = aggregates(shares={"k": epsilon, "m": Fraction(1, 2), "d": Fraction(1, 2)})
    chosen = share_out(case.source.facts, adjacency, epsilon, case.bounds)
    few = max(1, draws // 10)  # 15 simulations of 54 machines each
    for name, allocation, start in (
        ("IEEE-118, control", halves, "control"),
        ("IEEE-118, aggregates", chosen, "estimates"),
    ):
        began = time.perf_counter()
        runs = [Run118(seed, run, adjacency, epsilon, allocation, start) for run in range(few)]
        L = np.array(over_draws(distance_of_118, runs, name))
        yield _row(name, rule, epsilon, allocation, L, began)


def table_rows(tables: int) -> Iterator[Row]:
    """Tables drawn from the bounds of IEEE-30: the choice's L over the control's, by allocation
    alone; means over tables, and the worst of them.
    """
    facts, bounds = open_grid("ieee30").facts, PROFILE.bounds
    drawn, began = from_prior(facts, bounds, draws=tables), time.perf_counter()
    trials = [
        Trials(
            PublicTable(facts, {name: values[number] for name, values in drawn.items()}),
            trial_event(facts),
            bounds,
            draws=TABLE_DRAWS,
            seed=9,
            dt_s=0.2,
        )
        for number in range(tables)
    ]
    for rule, epsilon in AT_MIDDLE:
        adjacency = Adjacency(rule)
        chosen = share_out(facts, adjacency, epsilon, bounds)
        ours, theirs = (
            np.array([one.distances(adjacency, allocation, epsilon).mean() for one in trials])
            for allocation in (chosen, at_middle_shares(rule, epsilon))
        )
        ratio = ours / theirs
        name = (
            f"{tables} tables: choice over control ({ours.mean() / theirs.mean():.2f} of means, "
            f"worst {ratio.max():.2f})"
        )
        yield _row(name, rule, epsilon, chosen, ratio, began)


def unlike_rows(draws: int, seed: int) -> Iterator[Row]:
    """Machines that differ: m in 2–32, d in 1–17; ratings that follow m, and none."""
    study, random = Study(seed, draws, seed), np.random.default_rng([seed, 30])
    # another grid of their kind, the next that is drawn: what an owner would name
    *_, surrogate = (declared_public(unlike(random)) for _ in range(GRIDS + 1))
    for epsilon in (Fraction(1), Fraction(1, 2)):
        for rule in UNLIKE:
            adjacency, settings = Adjacency(rule), (epsilon, PROFILE.bounds)
            yield study.row("machines that differ: estimates of the items", rule, epsilon, ITEMS)
            rated = choose(surrogate, adjacency, *settings, sharing="rating")
            yield study.row("machines that differ, shared by rating", rule, epsilon, rated)
            plain = choose(surrogate, adjacency, *settings)
            yield study.row("machines that differ, no ratings", rule, epsilon, plain)
            default = choose(study.facts, adjacency, *settings)
            yield study.row(
                "machines that differ, no ratings, default surrogate", rule, epsilon, default
            )


def unlike(random: np.random.Generator) -> SourceGrid:
    """IEEE-30 with other machines of the same sums: m spread over 2–32, d about half of it in 1–17,
    ratings near m.
    """
    table = declared_public(open_grid("ieee30"))
    g = len(table.values["m"])
    while True:
        m, d = 16 ** random.random(g), random.uniform(0.8, 1.2, g)
        m *= table.values["m"].sum() / m.sum()
        d *= m * table.values["d"].sum() / (m @ d)
        if m.min() >= 2 and m.max() <= 32 and d.min() >= 1 and d.max() <= 17:
            break
    facts = replace(table.facts, rated_mva=10 * m * random.uniform(0.9, 1.1, g))
    return SourceGrid.of(facts, k=table.values["k"], m=m, d=d)


@cache
def experiments(seed: int | None) -> list[Experiment]:
    """IEEE-30 alone, or with a seed the grids whose machines differ."""
    if seed is None:
        return [Experiment(open_grid("ieee30"), named_transients())]
    random = np.random.default_rng([seed, 30])
    return [Experiment(unlike(random), named_transients()) for _ in range(GRIDS)]


@dataclass(frozen=True)
class Runs:
    """Some noisy grids of one grid, for one process; grids : as `experiments` takes it."""

    grids: int | None
    number: int
    seed: int
    first: int
    last: int
    rule: Rule
    epsilon: Fraction
    allocation: Allocation
    start: str


@one_blas_thread()
def distances(runs: Runs) -> Array:
    """L of each (runs,)."""
    experiment, allocation = experiments(runs.grids)[runs.number], runs.allocation
    g, b = experiment.truth.K_ac.shape
    theta, K_ac = [], []
    for run in range(runs.first, runs.last):
        noisy = perturb(
            experiment.source,
            epsilon=runs.epsilon,
            adjacency=Adjacency(runs.rule),
            bounds=PROFILE.bounds,
            ledger=None,
            sampler=DemoSampler([runs.seed, runs.number, run]),
            allocation=allocation,
        )
        if allocation.hides_network:
            model = networkless_model(posterior_mean(noisy), middle(PROFILE.bounds["k"]) / g)
            K_ac.append(np.full((g, b), 1 / g))
        else:
            model = reduce(_table(noisy, runs.start))
            K_ac.append(model.K_ac)
        theta.append(model.theta)
    error = experiment.responses(np.array(theta), np.array(K_ac)) - experiment.true_responses
    return experiment.dt_s * np.einsum("rtng,rtng->rt", error, error).mean(axis=1)


@dataclass(frozen=True)
class Study:
    """Releases of some grids that differ in their machines only, against the truth of each."""

    grids: int | None
    draws: int
    seed: int

    @property
    def facts(self) -> GridFacts:
        """What is public of the grids."""
        return experiments(self.grids)[0].source.facts

    def row(
        self,
        name: str,
        rule: Rule,
        epsilon: Fraction,
        allocation: Allocation,
        *,
        start: str = "estimates",
    ) -> Row:
        """Draw, make models and measure them."""
        began, count = time.perf_counter(), len(experiments(self.grids))
        batches = [
            Runs(
                *(self.grids, number, self.seed, span.start, span.stop),
                *(rule, epsilon, allocation, start),
            )
            for number in range(count)
            for span in cut(self.draws // count, BATCH)
        ]
        L = np.concatenate(over_draws(distances, batches, f"{name}, {rule}, ε = {epsilon}"))
        return _row(name, rule, epsilon, allocation, L, began)


def _row(
    name: str, rule: Rule, epsilon: Fraction, allocation: Allocation, L: Array, began: float
) -> Row:
    low, high = np.quantile(L, [0.1, 0.9])
    return {
        "release": name,
        "adjacency": rule,
        "epsilon": str(epsilon),
        "allocation": allocation.in_words(),
        "draws": len(L),
        "mean": float(L.mean()),
        "standard_error": float(L.std(ddof=1) / np.sqrt(len(L))),
        "median": float(np.median(L)),
        "low80": float(low),
        "high80": float(high),
        "seconds": time.perf_counter() - began,
    }


def _table(noisy: NoisyGrid, start: str) -> NoisyGrid | PublicTable:
    """What a model is made of: clipped values, estimates, or the control's, with log-uniform
    priors.
    """
    if start != "control":
        return noisy if start == "clipped" else posterior_mean(noisy)
    g, table = len(noisy.facts.machines), dict[str, Array]()
    for name, belief in beliefs(noisy).items():
        of_sum = noisy.allocation.of(name).takes == "sum"
        table[name] = np.full(g, belief.mean[0] / g) if of_sum else belief.mean
        if name not in noisy.guarantee.groups:
            table[name] = np.full(noisy.facts.sizes[name], middle(noisy.range(name)))
    return PublicTable(noisy.facts, table)


def in_words(row: Row) -> str:
    """One line of the table."""
    title = f"{row['release']}, {row['adjacency']}, ε = {row['epsilon']}"
    return (
        f"{title:<66} {row['mean']:>9.2e} {row['standard_error']:>8.1e} {row['median']:>9.1e} "
        f"{row['low80']:>9.1e}–{row['high80']:<9.1e}  {row['draws']} draws; "
        f"{row['allocation'].split('), ')[0]})"
    )


if __name__ == "__main__":
    main()
