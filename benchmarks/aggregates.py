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
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.kron import networkless_model, reduce
from gridveil.grid.facts import Array
from gridveil.grid.tables import PublicTable
from gridveil.inference.posterior import middle, posterior_mean
from gridveil.paper.experiment import Experiment, named_transients
from gridveil.planning.profiles import PROFILES
from gridveil.planning.surrogate import at_middle, choose
from gridveil.privacy.adjacency import Adjacency, Rule
from gridveil.privacy.allocation import ITEMS, Allocation, MechanismName
from gridveil.privacy.noisy import NoisyGrid
from gridveil.readers.cases import declared_public, open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid

PROFILE = PROFILES["paper"]
BATCH = 50
GRIDS = 10  # with machines that differ: so many of them, each with a share of the draws
CASES: tuple[tuple[Rule, Fraction], ...] = (
    ("one-per-group", Fraction(1)),
    ("one-per-group", Fraction(1, 2)),
    ("one-asset", Fraction(1)),
    ("one-item", Fraction(1)),
    ("one-asset-relative", Fraction(1)),
)
UNLIKE: tuple[Rule, ...] = ("one-per-group", "one-asset")
MECHANISMS: tuple[MechanismName, ...] = ("aggregates", "topology")
Row = dict[str, Any]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--draws", type=int, default=1000, help="noisy grids a row")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    found = []
    if not asked.json:
        print(f"{'release':<66} {'mean':>9} {'±':>8} {'median':>9} {'80 % interval':>19}")
    for row in rows(asked.draws, asked.seed):
        found.append(row)
        if not asked.json:
            print(in_words(row), flush=True)
    if asked.json:
        json.dump({"draws": asked.draws, "seed": asked.seed, "rows": found}, sys.stdout, indent=2)


def rows(draws: int, seed: int) -> Iterator[Row]:
    """Measure each row."""
    alike = Study([open_grid("ieee30")], draws, seed)
    surrogate = alike.surrogate
    for rule, epsilon in CASES:
        adjacency = Adjacency(rule)
        yield alike.row("Laplace only", rule, epsilon, ITEMS, clipped=True)
        yield alike.row("posterior means of the items", rule, epsilon, ITEMS)
        for mechanism in MECHANISMS:
            chosen = choose(surrogate, adjacency, epsilon, PROFILE.bounds, mechanism=mechanism)
            yield alike.row(mechanism, rule, epsilon, chosen)
    yield from unlike_rows(draws, seed)


def unlike_rows(draws: int, seed: int) -> Iterator[Row]:
    """Machines that differ: m in 2–32, d in 1–17; ratings that follow m, and none."""
    random = np.random.default_rng([seed, 30])
    study = Study([unlike(random) for _ in range(GRIDS)], draws, seed)
    # another grid of their kind: what an owner would name
    surrogate = declared_public(unlike(random))
    for epsilon in (Fraction(1), Fraction(1, 2)):
        for rule in UNLIKE:
            adjacency, settings = Adjacency(rule), (epsilon, PROFILE.bounds)
            yield study.row(
                "machines that differ: posterior means of the items", rule, epsilon, ITEMS
            )
            rated = choose(surrogate, adjacency, *settings, sharing="rating")
            yield study.row("machines that differ, shared by rating", rule, epsilon, rated)
            plain = choose(surrogate, adjacency, *settings)
            yield study.row("machines that differ, no ratings", rule, epsilon, plain)
            default = choose(study.surrogate, adjacency, *settings)
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


class Study:
    """Releases of some grids that differ in their machines only, against the truth of each."""

    def __init__(self, sources: list[SourceGrid], draws: int, seed: int) -> None:
        self.experiments = [Experiment(source, named_transients()) for source in sources]
        self.draws, self.seed = draws, seed

    @property
    def surrogate(self) -> PublicTable:
        """The surrogate that needs no other case."""
        return at_middle(self.experiments[0].source.facts, PROFILE.bounds)

    def row(
        self,
        name: str,
        rule: Rule,
        epsilon: Fraction,
        allocation: Allocation,
        *,
        clipped: bool = False,
    ) -> Row:
        """Draw, make models and measure them."""
        start = time.perf_counter()
        share = self.draws // len(self.experiments)
        with one_blas_thread():
            L = np.concatenate(
                [
                    self._distances(experiment, number, share, rule, epsilon, allocation, clipped)
                    for number, experiment in enumerate(self.experiments)
                ]
            )
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
            "seconds": time.perf_counter() - start,
        }

    def _distances(
        self,
        experiment: Experiment,
        number: int,
        draws: int,
        rule: Rule,
        epsilon: Fraction,
        allocation: Allocation,
        clipped: bool,
    ) -> Array:
        g, b = experiment.truth.K_ac.shape
        theta, K_ac = [], []
        for run in range(draws):
            noisy = perturb(
                experiment.source,
                epsilon=epsilon,
                adjacency=Adjacency(rule),
                bounds=PROFILE.bounds,
                ledger=None,
                sampler=DemoSampler([self.seed, number, run]),
                allocation=allocation,
            )
            if allocation.hides_network:
                model = networkless_model(posterior_mean(noisy), middle(PROFILE.bounds["k"]) / g)
                K_ac.append(np.full((g, b), 1 / g))
            else:
                model = reduce(_table(noisy, clipped))
                K_ac.append(model.K_ac)
            theta.append(model.theta)
        found = []
        for first in range(0, draws, BATCH):
            some = slice(first, first + BATCH)
            error = (
                experiment.responses(np.array(theta[some]), np.array(K_ac[some]))
                - experiment.true_responses
            )
            found.append(experiment.dt_s * np.einsum("rtng,rtng->rt", error, error).mean(axis=1))
        return np.concatenate(found)


def _table(noisy: NoisyGrid, clipped: bool) -> NoisyGrid | PublicTable:
    return noisy if clipped else posterior_mean(noisy)


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
