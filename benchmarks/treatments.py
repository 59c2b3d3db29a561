"""Try treatments of detailed tables: noise from a seeded generator, without vault or ledger.

`python benchmarks/treatments.py scores --cache FOLDER` compares released linear models with ANDES's
nonlinear simulation; `stability` counts draws whose model does not stand after projection, of which
there must be none. Draws are shrunk, balanced and projected as a release is.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from bench_pool import over_draws, resumable
from gridveil.dynamics.detailed.entries import ENTRIES, ITEM_SHARE, entries_of
from gridveil.dynamics.detailed.estimate import toward_mean
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.projection import Projected, is_stable, project
from gridveil.dynamics.detailed.typical import public_case
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array
from gridveil.grid.parameters import Asset
from truth_cases import CASES, LoadKind
from truth_detailed import detailed_case
from truth_judge import judge
from truth_runs import Runs

ALPHA = np.log(1.05)
ABSOLUTE = 0.05
GRIDS: tuple[tuple[str, LoadKind], ...] = (
    ("ieee39", "Z"),
    ("ieee39", "P"),
    ("kundur", "Z"),
    ("kundur", "P"),
    ("kundur-large", "Z"),
    ("kundur-large", "P"),
    ("ieee14", "Z"),
)


def box(random: np.random.Generator, epsilon: float, reach: Array, draws: int) -> Array:
    """Noise (draws, d) of density ∝ exp(−ε max |z_i|/reach_i): a radius of Γ(d + 1), then uniform
    in the box.
    """
    d = len(reach)
    radius = random.gamma(d + 1, 1 / epsilon, draws)
    return radius[:, None] * random.uniform(-1, 1, (draws, d)) * reach


def draw(
    case: DetailedCase,
    random: np.random.Generator,
    epsilon: float,
    rule: str,
    shares: Mapping[Asset, float],
) -> dict[str, Array]:
    """Draw a table by the default treatments, and shrink the machines' items."""
    entries = {name: own for name, own in entries_of(case).items() if len(own[0])}
    drawn: dict[str, Array] = {}
    counts: dict[Asset, int] = {
        "line": len(case.branches.ends),
        "shunt": len(case.buses),
        "load": len(case.loads.bus),
        "machine": len(case.units.bus),
    }
    for asset, count in counts.items():
        own = [name for name in entries if ENTRIES[name].parameter.asset == asset]
        items = [name for name in own if ENTRIES[name].treatment == "protect"]
        means = [name for name in own if ENTRIES[name].treatment == "mean"]
        reach = np.array([_reach(name) / len(entries[name][0]) for name in means])
        share = shares[asset]
        if rule == "asset-l1":
            noise = random.laplace(0, 1 / epsilon, (count, len(items)))
            shift = random.laplace(0, reach / epsilon)
            deviation = np.sqrt(2) * ALPHA / epsilon
        else:
            d = len(items)
            share = share if means else 1.0
            noise = box(random, share * epsilon, np.ones(d), count)
            shift = box(random, (1 - share) * epsilon, reach, 1)[0] if means else np.empty(0)
            deviation = np.sqrt((d + 1) * (d + 2) / 3) * ALPHA / (share * epsilon)
        for column, name in enumerate(items):
            values, at = entries[name]
            moved = _reach(name) * noise[at, column]
            absolute = ENTRIES[name].parameter.absolute
            drawn[name] = values + moved if absolute else values * np.exp(moved)
            if asset == "machine":
                drawn[name] = toward_mean(drawn[name], float(deviation))
        for name, moved in zip(means, shift, strict=True):
            values = entries[name][0]
            absolute = ENTRIES[name].parameter.absolute
            mean = values.mean() + moved if absolute else np.exp(np.log(values).mean() + moved)
            drawn[name] = np.array([mean])
    bounds = {name: ENTRIES[name].parameter.bounds for name in drawn}
    return {
        name: np.clip(own, bounds[name].lower, bounds[name].upper) for name, own in drawn.items()
    }


def _reach(name: str) -> float:
    return ABSOLUTE if ENTRIES[name].parameter.absolute else float(ALPHA)


@dataclass(frozen=True)
class Trial:
    """One draw of a grid's table; epsilon, rule and items as the options say."""

    cache: Path
    name: str
    kind: LoadKind
    seed: int
    number: int
    epsilon: float
    rule: str
    items: float


@cache
def _runs(folder: Path) -> Runs:
    return Runs(folder)


@cache
def _case(folder: Path, name: str, kind: LoadKind) -> DetailedCase:
    return detailed_case(name, _runs(folder).andes_dump(name, kind))


def project_draw(trial: Trial) -> Projected:
    """One draw, as a release would have it."""
    case = _case(trial.cache, trial.name, trial.kind)
    random = np.random.default_rng([trial.seed, trial.number])
    shares: dict[Asset, float] = {asset: float(share) for asset, share in ITEM_SHARE.items()}
    shares["machine"] = trial.items
    return project(public_case(case), draw(case, random, trial.epsilon, trial.rule, shares))


def judged(trial: Trial) -> tuple[float, float, bool]:
    """Nadir % and RMS mHz of a draw, means over events, and whether projection moved it."""
    runs = _runs(trial.cache)
    truths = [runs.truth(trial.name, trial.kind, event) for event in CASES[trial.name].steps]
    projected = project_draw(trial)
    ports = np.unique(projected.case.loads.bus)
    score = judge(linearise(projected.case, projected.equilibrium, ports), truths)
    return score.nadir, score.rms, projected.is_moved


def stands(trial: Trial) -> tuple[bool, tuple[str, ...]]:
    """Whether a draw is stable after projection, and the rungs that it needed."""
    projected = project_draw(trial)
    nowhere = np.empty(0, dtype=np.int64)
    return is_stable(linearise(projected.case, projected.equilibrium, nowhere)), tuple(
        rung for rung, share in projected.shares.items() if share
    )


def scores(head: str, trials: list[Trial]) -> None:
    """Print nadir % and RMS mHz, means over the draws."""
    runs, first = _runs(trials[0].cache), trials[0]
    runs.prepare([(first.name, first.kind)], CASES[first.name].steps)
    nadir, rms, moved = np.array(over_draws(judged, trials, head)).T
    print(
        f"{head}: {nadir.mean():.1f} % / {rms.mean():.2f} ± {rms.std() / len(rms) ** 0.5:.2f} mHz, "
        f"{moved.sum():.0f} of {len(trials)} projected",
        flush=True,
    )


def stability(head: str, trials: list[Trial]) -> None:
    """Print how many draws do not stand after projection, and which rungs were needed."""
    outcomes = over_draws(stands, trials, head)
    rungs = Counter(rung for _, moved in outcomes for rung in moved)
    print(
        f"{head}: {sum(not stable for stable, _ in outcomes)} of {len(trials)} unstable or "
        f"infeasible; {sum(bool(moved) for _, moved in outcomes)} projected: {dict(rungs)}",
        flush=True,
    )


def _grids(asked: argparse.Namespace) -> list[tuple[str, LoadKind]]:
    return [grid for grid in GRIDS if not asked.grid or "-".join(grid) in asked.grid]


def main() -> None:
    """Read the options and do what is asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["scores", "stability"])
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps the truth")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--rule", choices=["one-asset", "asset-l1"], default="one-asset")
    parser.add_argument(
        "--items",
        type=float,
        default=float(ITEM_SHARE["machine"]),
        help="share of a machine's ε for items",
    )
    parser.add_argument("--grid", action="append", help="such as kundur-P; default: all")
    resumable(parser)
    asked = parser.parse_args()
    for name, kind in _grids(asked):
        _case(asked.cache, name, kind)
        trials = [
            Trial(
                asked.cache, name, kind, asked.seed, number, asked.epsilon, asked.rule, asked.items
            )
            for number in range(asked.draws)
        ]
        head = f"{name} {kind} {asked.rule} ε = {asked.epsilon:g}"
        {"scores": scores, "stability": stability}[asked.what](head, trials)


if __name__ == "__main__":
    main()
