"""What `make bench-fidelity` prints: L of each method on IEEE-30 at the same ε, with the control
"no release" beside.

Noise, source bounds and Euler scheme of profile `paper`, `one-per-group`; public record: +20 % load
everywhere. L is the mean over transients of ∫ |ω − ω_ref|² dt [p.u.² s]: the paper's five named
ones, and ten drawn ones of one to three buses that no fit saw. A control has the draws of its row,
with the same sensor noise; "paired" is the median of L(row) / L(control).

`--study mismatch`: records of a truth that is not the model, against the same fits. A demo: seeds
and truth are known.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, Literal

import numpy as np

from bench_pool import over_draws, quantiles, resumable
from gridveil.dynamics.engine import SchemeName
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduce, reduced_model
from gridveil.dynamics.models import FullModel, Model, ReducedModel
from gridveil.dynamics.simulate import simulate
from gridveil.dynamics.trajectory import Trajectory
from gridveil.grid.facts import Array, GridFacts
from gridveil.inference.alike import Alike, beliefs_alike
from gridveil.inference.fit import Observation
from gridveil.inference.fit.outcome import TwoStage
from gridveil.inference.fit.two_stage import two_stage
from gridveil.inference.posterior import Posterior, no_release, posterior_mean
from gridveil.paper.experiment import RUNS_A_SEED, Experiment, named_transients, random_transients
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.noisy import NoisyGrid
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.truth import true_full_model
from gridveil.workflow.demo import PUBLIC_EVENT

NAMED, DRAWN = 5, 10
JUDGED_S = 20.0
EXACT_SIGMA = 1e-7  # what a record without noise is taken for
LOAD_ERROR = 0.1  # of each bus's change of load, in the study of mismatch
LOAD_DAMPING = (
    1.0  # of loads, in the study of mismatch [p.u. power / p.u. frequency, per p.u. of load]
)
ORIGIN = Provenance("simulated", "the case's own answer to +20 % load")
Row = dict[str, Any]
Kind = Literal["Laplace", "posterior", "two-stage", "no release"]
Mismatch = Literal[
    "",
    "truth exact, fit Euler",
    "truth Euler, fit exact",
    "loads 10 % off",
    "load damping in the truth",
]
MISMATCHES: tuple[Mismatch, ...] = (
    "truth exact, fit Euler",
    "truth Euler, fit exact",
    "loads 10 % off",
    "load damping in the truth",
)


@dataclass(frozen=True)
class Draw:
    """One fit, for one process.

    buses : where was recorded (None: all machines).
    noise : of the sensors [p.u.].
    """

    kind: Kind
    epsilon: Fraction
    seed: int
    run: int
    buses: tuple[str, ...] | None = None
    noise: float = 0.0
    mismatch: Mismatch = ""
    knows: bool = True  # in a study of mismatch, whether sigma is set to the model's error

    def record(self) -> Observation:
        """The public record that is fitted."""
        return recorded(self)


@dataclass(frozen=True, eq=False)
class Found:
    """What a fit gave.

    L : (transients,) [p.u.² s].
    errors : root mean square of relative errors of m, d and k_r.
    """

    L: Array
    seconds: float
    converged: bool = True
    by_data: int = 0
    errors: tuple[float, float, float] = (0.0, 0.0, 0.0)
    sigma: float = 0.0


@cache
def experiment() -> Experiment:
    """IEEE-30 with its fifteen transients."""
    source = open_grid("ieee30")
    return Experiment(
        source, [*named_transients(), *random_transients(source.facts.buses, DRAWN, seed=7)]
    )


def draw(epsilon: Fraction, seed: int, run: int) -> NoisyGrid:
    """A noisy grid; run number r of a seed always draws the same noise."""
    block, number = divmod(run, RUNS_A_SEED)
    profile = experiment().profile
    return perturb(
        experiment().source,
        epsilon=epsilon,
        adjacency=Adjacency(profile.rule),
        bounds=profile.bounds,
        ledger=None,
        sampler=DemoSampler([seed + block, number, epsilon.numerator, epsilon.denominator]),
    )


def measure(one: Draw) -> Found:
    """Fit one draw, and judge it."""
    facts, noisy, start = (
        experiment().source.facts,
        draw(one.epsilon, one.seed, one.run),
        time.perf_counter(),
    )
    if one.kind in ("Laplace", "posterior"):
        model = reduce(noisy if one.kind == "Laplace" else posterior_mean(noisy))
        return Found(judge(model, one.mismatch), time.perf_counter() - start)
    belief: Mapping[str, Alike | Posterior] = beliefs_alike(noisy)  # as releases are fitted
    if one.kind == "no release":
        belief = no_release(facts.sizes, experiment().profile.bounds)
    record, scheme = mismatched(one) if one.mismatch else (one.record(), "euler")
    sigma = one.noise or EXACT_SIGMA
    if one.mismatch and one.knows:
        sigma = model_error(noisy, one.mismatch)
    found = two_stage(
        facts,
        [record],
        belief,
        experiment().profile.bounds,
        dt_s=experiment().dt_s,
        scheme=scheme,
        sigma=sigma,
    )
    seconds = time.perf_counter() - start
    known = found.identifiability.by_data
    return Found(
        judge(found.model, one.mismatch),
        seconds,
        found.converged,
        known,
        relative_errors(found),
        sigma,
    )


def relative_errors(found: TwoStage) -> tuple[float, float, float]:
    """Root mean square of the relative errors of m, d and k_r."""
    truth, model = experiment().truth, found.model
    pairs = ((model.m, truth.m), (model.d, truth.d), (model.k_r, truth.k_r))
    m, d, k_r = (float(np.sqrt(np.mean((ours / theirs - 1) ** 2))) for ours, theirs in pairs)
    return m, d, k_r


def recorded(one: Draw) -> Observation:
    """The public record of +20 % load everywhere."""
    return Observation(PUBLIC_EVENT, sensed(one, PUBLIC_EVENT), ORIGIN)


def sensed(one: Draw, event: Event, horizon_s: float = 30.0) -> Trajectory:
    """What the sensors show of an event; with noise, at 50 Hz."""
    clock = {"horizon_s": horizon_s, "dt_s": experiment().dt_s}
    clean = simulate(experiment().truth, event, **clock, scheme="euler", buses=one.buses)
    if one.noise:
        omega = clean.omega[::2]
        noise = one.noise * np.random.default_rng([one.seed, one.run, 50]).standard_normal(
            omega.shape
        )
        clean = replace(clean, time_s=clean.time_s[::2], omega=omega + noise)
    return clean


# --- truths that are not the model ----------------------------------------------------------------


def mismatched(one: Draw) -> tuple[Observation, SchemeName]:
    """A record of a truth that is not the model, the event that the fit is told, and the scheme
    that it runs.
    """
    scheme: SchemeName = "exact" if one.mismatch == "truth Euler, fit exact" else "euler"
    told = PUBLIC_EVENT
    if one.mismatch == "loads 10 % off":
        facts = experiment().source.facts
        random = np.random.default_rng([one.seed, one.run, 10])
        wrong = 0.2 * facts.loads * (1 + LOAD_ERROR * random.choice([-1.0, 1.0], len(facts.loads)))
        told = Event.load({bus: size for bus, size in zip(facts.buses, wrong, strict=True) if size})
    return Observation(
        told, _answer(_true_grid(one.mismatch), PUBLIC_EVENT, one.mismatch), ORIGIN
    ), scheme


def model_error(noisy: NoisyGrid, mismatch: Mismatch) -> float:
    """Root mean square of what the mismatch changes in the record, as far as public: on the
    posterior mean of the release.
    """
    mean, facts = posterior_mean(noisy), noisy.facts
    model = reduced_model(facts, mean.values)
    if mismatch == "loads 10 % off":  # wrong loads that do not cancel, at the worst
        return LOAD_ERROR * float(np.sqrt(np.mean(_answer(model, PUBLIC_EVENT, "").omega ** 2)))
    other: Model = model
    if mismatch == "load damping in the truth":
        other = FullModel(_damped(facts), mean.values)
    difference = (
        _answer(other, PUBLIC_EVENT, mismatch).omega
        - _answer(model, PUBLIC_EVENT, _opposite(mismatch)).omega
    )
    return float(np.sqrt(np.mean(difference**2)))


def judge(model: ReducedModel, mismatch: Mismatch) -> Array:
    """L of each transient: the truth as it is, the model run by the scheme that it was fitted
    with.
    """
    if not mismatch:
        error = (
            experiment().responses(model.theta[None], model.K_ac[None])[0]
            - experiment().true_responses
        )
        return experiment().dt_s * np.einsum("tng,tng->t", error, error)
    pairs = zip(_judged(model, _opposite(mismatch)), _true_answers(mismatch), strict=True)
    return np.array([experiment().dt_s * np.sum((ours - theirs) ** 2) for ours, theirs in pairs])


@cache
def _true_answers(mismatch: Mismatch) -> list[Array]:
    return _judged(_true_grid(mismatch), mismatch)


def _judged(model: Model, mismatch: Mismatch) -> list[Array]:
    events = [Event((replace(one.event.steps[0], at_s=0.0),)) for one in experiment().transients]
    return [_answer(model, event, mismatch, JUDGED_S).omega for event in events]


def _true_grid(mismatch: Mismatch) -> Model:
    full = true_full_model(experiment().source)
    return (
        replace(full, facts=_damped(full.facts))
        if mismatch == "load damping in the truth"
        else experiment().truth
    )


def _damped(facts: GridFacts) -> GridFacts:
    damping = np.zeros(len(facts.buses))
    damping[facts.interior] = LOAD_DAMPING * facts.loads[facts.interior]
    return replace(facts, load_damping=damping)


def _answer(model: Model, event: Event, mismatch: Mismatch, horizon_s: float = 30.0) -> Trajectory:
    """What a truth does; loads with damping have a fast equation of their own, for which only the
    exact scheme will do.
    """
    scheme: SchemeName = (
        "exact" if mismatch in ("truth exact, fit Euler", "load damping in the truth") else "euler"
    )
    return simulate(
        model,
        event,
        horizon_s=horizon_s,
        dt_s=experiment().dt_s,
        scheme=scheme,
        buses=experiment().truth.machines,
    )


def _opposite(mismatch: Mismatch) -> Mismatch:
    """The mismatch whose truth runs by the scheme that this one's fit runs by."""
    return "truth exact, fit Euler" if mismatch == "truth Euler, fit exact" else ""


# --- rows -----------------------------------------------------------------------------------------


class Study:
    """All methods on the same noisy grids."""

    def __init__(self, epsilon: Fraction, draws: int, seed: int, quiet: bool) -> None:
        self.epsilon, self.draws, self.seed, self.quiet = epsilon, draws, seed, quiet
        self.found: list[Row] = []

    def methods(self, only: str = "") -> None:
        """Measure each method, with its control.

        only : of the two-stage rows, those whose name holds this.
        """
        laplace = self._measured("Laplace only", self._all("Laplace"))
        worst = self._L(laplace)
        self._add("Laplace only", laplace, worst)
        self._add(
            "posterior mean, no record",
            self._measured("posterior mean", self._all("posterior")),
            worst,
        )
        self._add("the paper's descent, 500 steps", self._descent(), worst)
        for name, buses, noise in (
            ("two-stage, six machines, exact", None, 0.0),
            ("two-stage, six machines, σ = 1e-4", None, 1e-4),
            ("two-stage, generator 1, σ = 1e-4", ("1",), 1e-4),
            ("two-stage, load bus 30, σ = 1e-4", ("30",), 1e-4),
        ):
            if only not in name:
                continue
            where = {"buses": buses, "noise": noise}
            fitted = self._measured(name, self._all("two-stage", **where))
            # Only the record's noise changes the control; without it, one fit stands for all draws.
            alone = self._measured(
                name + ", no release", self._all("no release", **where)[: None if noise else 1]
            )
            alone = alone if noise else alone * self.draws
            self._add(name, fitted, worst, control=self._L(alone))
            self._add("  no release", alone, worst)

    def mismatches(self) -> None:
        """Measure the fit where the truth is not the model, with sigma set to the model's error and
        not.
        """
        for mismatch in MISMATCHES:
            laplace = self._measured(mismatch, self._all("Laplace", mismatch=mismatch))
            worst = self._L(laplace)
            self._add(f"{mismatch}: Laplace only", laplace, worst)
            for knows in (True, False):
                name = f"  two-stage, σ = {'the model error' if knows else '1e-7'}"
                fitted = self._measured(
                    mismatch, self._all("two-stage", mismatch=mismatch, knows=knows)
                )
                self._add(name, fitted, worst)

    def _all(self, kind: Kind, **where: Any) -> list[Draw]:
        return [Draw(kind, self.epsilon, self.seed, run, **where) for run in range(self.draws)]

    def _measured(self, name: str, draws: Sequence[Draw]) -> list[Found]:
        return over_draws(measure, draws, name)

    def _descent(self) -> list[Found]:
        found: list[Found] = []
        for first in range(0, self.draws, 20):
            start, count = time.perf_counter(), min(20, self.draws - first)
            runs = experiment().run(
                self.epsilon, self.seed + first // RUNS_A_SEED, first % RUNS_A_SEED, count
            )
            seconds = (time.perf_counter() - start) / count
            found += [Found(L, seconds) for L in runs.L_pp]
        return found

    def _L(self, found: Sequence[Found]) -> Array:
        return np.array([one.L for one in found])

    def _add(
        self, name: str, found: Sequence[Found], laplace: Array, control: Array | None = None
    ) -> None:
        L = self._L(found)
        row: Row = {
            "method": name,
            "draws": len(L),
            "named": quantiles(L[:, :NAMED].mean(axis=1)),
            "drawn": quantiles(L[:, NAMED:].mean(axis=1)),
            "worse_than_laplace": int(
                (L[:, :NAMED].mean(axis=1) > laplace[:, :NAMED].mean(axis=1)).sum()
            ),
            "worse_than_laplace_drawn": int(
                (L[:, NAMED:].mean(axis=1) > laplace[:, NAMED:].mean(axis=1)).sum()
            ),
            "seconds": float(np.mean([one.seconds for one in found])),
        }
        if control is not None:
            for name, part in (("named", slice(0, NAMED)), ("drawn", slice(NAMED, None))):
                row[name]["paired"] = float(
                    np.median(L[:, part].mean(axis=1) / control[:, part].mean(axis=1))
                )
        if found[0].by_data:
            m, d, k_r = np.sqrt(np.mean([np.square(one.errors) for one in found], axis=0)).tolist()
            row |= {
                "converged": float(np.mean([one.converged for one in found])),
                "directions_by_data": float(np.mean([one.by_data for one in found])),
                "sigma": float(np.median([one.sigma for one in found])),
                "relative_error_m": m,
                "relative_error_d": d,
                "relative_error_k_r": k_r,
            }
        self.found.append(row)
        if not self.quiet:
            print(in_words(row), flush=True)


def in_words(row: Row) -> str:
    """One line of the table."""
    named, drawn = row["named"], row["drawn"]
    text = (
        f"{row['method']:<42} {named['mean']:>12.2e} {named['median']:>9.1e} "
        f"{named['low80']:>9.1e}–{named['high80']:<9.1e}   {drawn['mean']:>11.2e} "
        f"{drawn['median']:>9.1e}   {row['seconds']:.2f} s, {row['draws']} draws"
    )
    if "paired" in named:
        text += f"; paired with no release {named['paired']:.2f} named, {drawn['paired']:.2f} drawn"
    for key, where in (("worse_than_laplace", "named"), ("worse_than_laplace_drawn", "drawn")):
        if row[key]:
            text += f", {row[key]} worse than Laplace ({where})"
    if "converged" in row:
        text += f"; σ {row['sigma']:.1e}, {row['converged']:.0%} converged"
        text += f", relative error of m {row['relative_error_m']:.2g}"
        text += f", of d {row['relative_error_d']:.2g}, of k_r {row['relative_error_k_r']:.2g}"
    return text


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--draws", type=int, default=100, help="noisy grids a row")
    parser.add_argument(
        "--mismatch-draws", type=int, default=30, help="noisy grids a row of the study of mismatch"
    )
    parser.add_argument("--epsilon", type=Fraction, default=Fraction(1, 2))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", default="", help="of the two-stage rows, those whose name holds this"
    )
    parser.add_argument("--study", choices=["methods", "mismatch", "all"], default="all")
    resumable(parser)
    asked = parser.parse_args()
    found: dict[str, Any] = {"epsilon": str(asked.epsilon), "seed": asked.seed}
    if not asked.json:
        print(
            f"{'method':<42} {'named: mean':>12} {'median':>9} {'80 % interval':>19}   "
            f"{'drawn: mean':>11} {'median':>9}"
        )
    if asked.study != "mismatch":
        study = Study(asked.epsilon, asked.draws, asked.seed, asked.json)
        study.methods(asked.only)
        found |= {"draws": asked.draws, "rows": study.found}
    if asked.study != "methods":
        study = Study(asked.epsilon, asked.mismatch_draws, asked.seed, asked.json)
        study.mismatches()
        found |= {"mismatch_draws": asked.mismatch_draws, "mismatch": study.found}
    if asked.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
