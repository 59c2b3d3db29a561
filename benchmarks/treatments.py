"""Try treatments of detailed tables: noise from a seeded generator, without vault or ledger.

`python benchmarks/treatments.py scores --cache FOLDER` compares released linear models with ANDES's
nonlinear simulation; `stability` counts draws whose model does not stand after projection, of which
there must be none. Draws are shrunk, balanced and projected as a release is.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gridveil.dynamics.detailed.entries import ENTRIES, ITEM_SHARE, entries_of
from gridveil.dynamics.detailed.estimate import toward_mean
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.projection import Projected, is_stable, project
from gridveil.dynamics.detailed.typical import public_case
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array
from gridveil.grid.parameters import Asset
from truth_cases import CASES, Bar, LoadKind
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
            noise = random.laplace(0, ALPHA / epsilon, (count, len(items)))
            shift = random.laplace(0, reach / epsilon)
            deviation = np.sqrt(2) * ALPHA / epsilon
        else:
            d = len(items)
            noise = box(random, share * epsilon, np.full(d, ALPHA), count)
            shift = box(random, (1 - share) * epsilon, reach, 1)[0] if means else np.empty(0)
            deviation = np.sqrt((d + 1) * (d + 2) / 3) * ALPHA / (share * epsilon)
        for column, name in enumerate(items):
            values, at = entries[name]
            drawn[name] = values * np.exp(noise[at, column])
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


def project_draw(
    case: DetailedCase, seed: int, number: int, asked: argparse.Namespace
) -> Projected:
    """One draw, as a release would have it."""
    random = np.random.default_rng([seed, number])
    shares: dict[Asset, float] = {asset: float(share) for asset, share in ITEM_SHARE.items()}
    shares["machine"] = asked.items
    return project(public_case(case), draw(case, random, asked.epsilon, asked.rule, shares))


def scores(runs: Runs, asked: argparse.Namespace) -> None:
    """Print nadir % and RMS mHz, means over the draws."""
    for name, kind in _grids(asked):
        case = detailed_case(name, runs.andes_dump(name, kind))
        truths = [runs.truth(name, kind, event) for event in CASES[name].steps]
        ports = np.unique(case.loads.bus)
        each, moved, bar = [], 0, Bar(asked.draws)
        for number in range(asked.draws):
            one = project_draw(case, asked.seed, number, asked)
            each.append(judge(linearise(one.case, one.equilibrium, ports), truths))
            moved += one.is_moved
            bar.step(f"{name} {kind}")
        nadir, rms = (
            np.array([getattr(score, what) for score in each]) for what in ("nadir", "rms")
        )
        print(
            f"{name} {kind} {asked.rule} ε = {asked.epsilon:g}: {nadir.mean():.1f} % / "
            f"{rms.mean():.2f} ± {rms.std() / np.sqrt(len(rms)):.2f} mHz, "
            f"{moved} of {asked.draws} projected",
            flush=True,
        )


def stability(runs: Runs, asked: argparse.Namespace) -> None:
    """Print how many draws do not stand after projection, and which rungs were needed."""
    nowhere = np.empty(0, dtype=np.int64)
    for name, kind in _grids(asked):
        case = detailed_case(name, runs.andes_dump(name, kind))
        rungs: Counter[str] = Counter()
        fallen, bar = 0, Bar(asked.draws)
        for number in range(asked.draws):
            one = project_draw(case, asked.seed, number, asked)
            fallen += not is_stable(linearise(one.case, one.equilibrium, nowhere))
            rungs.update(rung for rung, share in one.shares.items() if share)
            rungs["any"] += one.is_moved
            bar.step(f"{name} {kind}")
        print(
            f"{name} {kind} {asked.rule} ε = {asked.epsilon:g}: {fallen} of {asked.draws} unstable "
            f"or infeasible; projected: {dict(rungs)}",
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
    asked = parser.parse_args()
    {"scores": scores, "stability": stability}[asked.what](Runs(asked.cache), asked)


if __name__ == "__main__":
    main()
