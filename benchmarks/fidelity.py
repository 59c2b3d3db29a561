"""What `make bench-fidelity` prints: L of each method on IEEE-30 at the same ε, with the control "no release" beside.

Noise, source bounds and Euler scheme of profile `paper`, `one-per-group`; public record: +20 % load everywhere. L is the mean
over transients of ∫ |ω − ω_ref|² dt [p.u.² s]: the paper's five named ones, and ten drawn ones of one to three buses that no
fit saw. A demo: seeds and truth are known.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from gridveil.cases import open_grid
from gridveil.demo import PUBLIC_EVENT
from gridveil.dynamics import simulate
from gridveil.fit import Observation
from gridveil.fit.two_stage import TwoStage, two_stage
from gridveil.grid import Array
from gridveil.kron import reduce
from gridveil.models import ReducedModel
from gridveil.noisy import NoisyGrid
from gridveil.paper.experiment import RUNS_A_SEED, Experiment, named_transients, random_transients
from gridveil.posterior import Posterior, beliefs, no_release, posterior_mean
from gridveil.privacy.adjacency import Adjacency
from gridveil.provenance import Provenance
from gridveil.vault.mechanism import perturb
from gridveil.vault.sampler import DemoSampler

NAMED, DRAWN = 5, 10
CONTROL = 4  # one draw of the control for so many of the method
EXACT_SIGMA = 1e-7  # what a record without noise is taken for
ORIGIN = Provenance("simulated", "the case's own answer to +20 % load")
Row = dict[str, Any]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--draws", type=int, default=100, help="noisy grids a row")
    parser.add_argument("--epsilon", type=Fraction, default=Fraction(1, 2))
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    source = open_grid("ieee30")
    transients = [*named_transients(), *random_transients(source.facts.buses, DRAWN, seed=7)]
    rows = Study(Experiment(source, transients), asked.epsilon, asked.draws, asked.seed).rows(quiet=asked.json)
    if asked.json:
        print(json.dumps({"epsilon": str(asked.epsilon), "draws": asked.draws, "seed": asked.seed, "rows": rows}, indent=2))


class Study:
    """All methods on the same noisy grids."""

    def __init__(self, experiment: Experiment, epsilon: Fraction, draws: int, seed: int) -> None:
        self.experiment, self.epsilon, self.draws, self.seed = experiment, epsilon, draws, seed
        self.noisy = [self._draw(run) for run in range(draws)]
        self.laplace = self._distance([reduce(one) for one in self.noisy])

    def rows(self, quiet: bool) -> list[Row]:
        """Measure each row; print it as soon as it is there."""
        found: list[Row] = []
        if not quiet:
            print(f"{'method':<42} {'named: mean':>12} {'median':>9} {'80 % interval':>19}   {'drawn: mean':>11} {'median':>9}")

        def add(row: Row) -> None:
            found.append(row)
            if not quiet:
                print(in_words(row), flush=True)

        add(self._plain("Laplace only", reduce))
        add(self._plain("posterior mean, no record", lambda one: reduce(posterior_mean(one))))
        add(self._descent())
        for name, buses, sigma in (
            ("two-stage, six machines, exact", None, 0.0),
            ("two-stage, six machines, σ = 1e-4", None, 1e-4),
            ("two-stage, generator 1, σ = 1e-4", ["1"], 1e-4),
            ("two-stage, load bus 30, σ = 1e-4", ["30"], 1e-4),
        ):
            add(self._two_stage(name, buses, sigma, [beliefs(one) for one in self.noisy]))
            facts = self.experiment.source.facts
            sizes = {"k": len(facts.edges), "m": len(facts.machines), "d": len(facts.machines)}
            # Only the record's noise changes the control; without it, all draws are one.
            count = -(-self.draws // CONTROL) if sigma else 1
            add(self._two_stage("  no release", buses, sigma, [no_release(sizes, self.experiment.profile.bounds)] * count))
        return found

    def _draw(self, run: int) -> NoisyGrid:
        block, number = divmod(run, RUNS_A_SEED)
        sampler = DemoSampler([self.seed + block, number, self.epsilon.numerator, self.epsilon.denominator])
        profile = self.experiment.profile
        return perturb(
            self.experiment.source,
            epsilon=self.epsilon,
            adjacency=Adjacency(profile.rule),
            bounds=profile.bounds,
            ledger=None,
            sampler=sampler,
        )

    def _plain(self, name: str, method: Callable[[NoisyGrid], ReducedModel]) -> Row:
        start = time.perf_counter()
        models = [method(one) for one in self.noisy]
        return self._row(name, self._distance(models), (time.perf_counter() - start) / self.draws)

    def _descent(self) -> Row:
        start = time.perf_counter()
        L = np.concatenate(
            [
                self.experiment.run(self.epsilon, self.seed + first // RUNS_A_SEED, first % RUNS_A_SEED, count).L_pp
                for first in range(0, self.draws, 20)
                for count in [min(20, self.draws - first)]
            ]
        )
        return self._row("the paper's descent, 500 steps", L, (time.perf_counter() - start) / self.draws)

    def _two_stage(
        self, name: str, buses: Sequence[str] | None, sigma: float, belief: Sequence[Mapping[str, Posterior]]
    ) -> Row:
        settings, facts = self.experiment.profile.settings, self.experiment.source.facts
        found: list[TwoStage] = []
        start = time.perf_counter()
        for run, one in enumerate(belief):
            found.append(
                two_stage(
                    facts,
                    [self._record(buses, sigma, run)],
                    one,
                    self.experiment.profile.bounds,
                    dt_s=settings.dt_s,
                    scheme=settings.scheme,
                    sigma=sigma or EXACT_SIGMA,
                )
            )
        seconds = (time.perf_counter() - start) / len(belief)
        row = self._row(name, self._distance([one.model for one in found]), seconds)
        truth = self.experiment.truth
        return row | {
            "converged": float(np.mean([one.converged for one in found])),
            "directions_by_data": float(np.mean([one.identifiability.by_data for one in found])),
            "relative_error_m": float(np.sqrt(np.mean([(one.model.m / truth.m - 1) ** 2 for one in found]))),
            "relative_error_d": float(np.sqrt(np.mean([(one.model.d / truth.d - 1) ** 2 for one in found]))),
            "relative_error_k_r": float(np.sqrt(np.mean([(one.model.k_r / truth.k_r - 1) ** 2 for one in found]))),
        }

    def _record(self, buses: Sequence[str] | None, sigma: float, run: int) -> Observation:
        """The public record; with sensor noise, at 50 Hz."""
        settings = self.experiment.profile.settings
        clean = simulate(self.experiment.truth, PUBLIC_EVENT, dt_s=settings.dt_s, scheme=settings.scheme, buses=buses)
        if sigma:
            omega = clean.omega[::2]
            noise = sigma * np.random.default_rng([self.seed, run, 50]).standard_normal(omega.shape)
            clean = replace(clean, time_s=clean.time_s[::2], omega=omega + noise)
        return Observation(PUBLIC_EVENT, clean, ORIGIN)

    def _distance(self, models: Sequence[ReducedModel]) -> Array:
        """L (draws, transients) of some models."""
        truth, experiment = self.experiment.true_responses, self.experiment
        found = []
        for one in models:
            error = experiment.responses(one.theta[None], one.K_ac[None])[0] - truth
            found.append(experiment.dt_s * np.einsum("tng,tng->t", error, error))
        return np.array(found)

    def _row(self, name: str, L: Array, seconds: float) -> Row:
        laplace = self.laplace[: len(L), :NAMED].mean(axis=1)
        return {
            "method": name,
            "draws": len(L),
            "named": _summary(L[:, :NAMED].mean(axis=1)),
            "drawn": _summary(L[:, NAMED:].mean(axis=1)),
            "worse_than_laplace": int((L[:, :NAMED].mean(axis=1) > laplace).sum()),
            "seconds": seconds,
        }


def _summary(L: Array) -> dict[str, float]:
    low, high = np.quantile(L, [0.1, 0.9])
    return {"mean": float(L.mean()), "median": float(np.median(L)), "low80": float(low), "high80": float(high)}


def in_words(row: Row) -> str:
    named, drawn = row["named"], row["drawn"]
    text = (
        f"{row['method']:<42} {named['mean']:>12.2e} {named['median']:>9.1e} {named['low80']:>9.1e}–{named['high80']:<9.1e}"
        f"   {drawn['mean']:>11.2e} {drawn['median']:>9.1e}   {row['seconds']:.2f} s, {row['draws']} draws"
    )
    if row["worse_than_laplace"]:
        text += f", {row['worse_than_laplace']} worse than Laplace"
    if "converged" in row:
        text += f"; {row['converged']:.0%} converged, relative error of m {row['relative_error_m']:.2g}"
        text += f", of d {row['relative_error_d']:.2g}, of k_r {row['relative_error_k_r']:.2g}"
    return text


if __name__ == "__main__":
    main()
