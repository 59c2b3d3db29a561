"""What `make bench` prints: gridveil beside a fixed baseline, and how long the commands take.
Ratios come from one run.

Rounds of both are interleaved, so that a busy machine slows both; the median and the spread
(quartiles) are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

import ledger_growth
import scale
from baseline import objective_and_gradient
from gridveil.dynamics.simulate import simulate
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit import Observation, problem
from gridveil.planning.profiles import PROFILES
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS
from gridveil.privacy.ledger import Charge, Ledger
from gridveil.privacy.provenance import Provenance
from gridveil.publication.signing import load_signer, new_key
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import version_of
from gridveil.vault.truth import true_model
from gridveil.workflow.demo import PUBLIC_EVENT
from gridveil.workflow.publish import publish

SEED = 7
ROUNDS = 15


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    as_json = parser.parse_args().json
    results = {
        "engine": [engine(1), engine(100)],
        "trust": trust(),
        "ledger": ledger_growth.growth(),
        "paper": paper(),
        "commands": commands(),
        "kron": scale.kron("case_ACTIVSg25k"),
        "releases": scale.releases(),
    }
    if as_json:
        print(json.dumps(results, indent=2))
        return
    print("Objective and gradient, IEEE-30 (18 states, 27 parameters), 3000 Euler steps:")
    for row in results["engine"]:
        print(
            f"  {row['models']:>3} model(s): gridveil {spread(row['gridveil_ms'])} ms, baseline "
            f"{spread(row['baseline_ms'])} ms, {row['ratio']:.0f} times faster (must be "
            f"{row['required_ratio']}); gradients differ by {row['difference']:.1e}"
        )
    row = results["trust"]
    print(
        f"A release of IEEE-30 in a warm process: {spread(row['release_ms'])} ms; of that ledger "
        f"{spread(row['ledger_ms'])} ms (charge, drawn, published; SQLite, synced), signature "
        f"{spread(row['signature_ms'])} ms"
    )
    print(
        "A charge of a known grid, as its ledger grows:",
        *ledger_growth.lines(results["ledger"]),
        sep="\n",
    )
    row = results["paper"]
    print(
        f"gridveil paper, 100 runs at three ε: {row['gridveil_s']:.0f} s with all figures (must be "
        f"under {row['limit_s']} s); step 3 by the plain loop: {row['baseline_s']:.0f} s, "
        f"extrapolated from {row['sample']} gradients of 100 models, {row['ratio']:.0f} times as "
        "long"
    )
    print("Commands, a new process each, processor time:")
    for row in results["commands"]:
        print(f"  {row['command']}: {spread(row['seconds'])} s (must be under {row['limit_s']} s)")
    row = results["kron"]
    print(
        f"Kron reduction of {row['case']} to {row['machines']} machines: gridveil "
        f"{spread(row['gridveil_s'])} s, splu {spread(row['splu_s'])} s, {row['ratio']:.0f} times "
        f"faster (must be {row['required_ratio']}); results differ by {row['difference']:.1e}"
    )
    print("gridveil release --epsilon 1, end to end, one run each:")
    for row in results["releases"]:
        limits = (
            f" (must be under {row['limits'][0]} s and {row['limits'][1]} GB)"
            if row["limits"]
            else ""
        )
        print(
            f"  {row['case']}: {row['seconds']:.1f} s, peak {row['peak_gb']:.2f} GB, bundle "
            f"{row['bundle_gb']:.2f} GB{limits}"
        )


def engine(models: int) -> dict:
    """Time J and dJ/dθ of a batch beside the plain time loop."""
    task, plain, theta = paper_task(models)
    ours = theta[0] if models == 1 else theta
    expected, found = objective_and_gradient(*plain)[1], np.atleast_2d(task(ours)[1])
    difference = float(np.abs(found - expected).max() / np.abs(expected).max())
    repeats = max(1, 100 // models)
    fast, slow = [], []
    for _ in range(ROUNDS):
        fast.append(clock(lambda: [task(ours) for _ in range(repeats)]) / repeats)
        slow.append(clock(lambda: objective_and_gradient(*plain)))
    return {
        "models": models,
        "gridveil_ms": [1e3 * seconds for seconds in fast],
        "baseline_ms": [1e3 * seconds for seconds in slow],
        "ratio": float(np.median(slow) / np.median(fast)),
        "required_ratio": {1: 100, 100: 8}[models],
        "difference": difference,
    }


def paper_task(models: int) -> tuple:
    """The fit of the paper as our problem, as the baseline's arguments, and a batch of θ."""
    source = open_grid("ieee30")
    truth, settings = true_model(source), PROFILES["paper"].settings
    trajectory = simulate(truth, PUBLIC_EVENT, dt_s=settings.dt_s, scheme="euler")
    task = problem(
        truth,
        [Observation(PUBLIC_EVENT, trajectory, Provenance("simulated", "bench"))],
        PROFILES["paper"].bounds,
        dt_s=settings.dt_s,
        scheme="euler",
        rho=0.0,
    )
    theta = truth.theta * np.random.default_rng(SEED).uniform(
        0.8, 1.2, size=(models, len(truth.theta))
    )
    u = truth.port_map @ PUBLIC_EVENT.steps[0].loads(truth)
    plain = (
        theta,
        truth.edges,
        truth.governor_rate,
        truth.droop_gain,
        truth.omega_b,
        u,
        trajectory.omega,
        settings.dt_s,
    )
    return task, plain, theta


def trust(repeats: int = 15) -> dict:
    """Time a whole release with ledger, certificate and signature, and what ledger and signature
    take of it.
    """
    source, taken = open_grid("ieee30"), {"release_ms": [], "ledger_ms": [], "signature_ms": []}
    settings = {"epsilon": Fraction(1, 10), "adjacency": Adjacency(), "bounds": Bounds()}
    settings["allocation"] = ITEMS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger = Ledger(
            folder / "ledger.sqlite", safe=folder / "safe", witness=folder / "witness.sqlite"
        )
        ledger.set_budget("ieee30", Adjacency(), Fraction(1000))
        new_key(folder / "keys")
        signer = load_signer(folder / "keys")
        assert signer is not None
        for number in range(repeats + 1):  # the first one warms up

            def release(number=number):
                made = publish(source, ledger=ledger, **settings)
                made.save(folder / f"bundle-{number}", signer)

            taken["release_ms"].append(1e3 * clock(release))
            spent = dict.fromkeys("kmd", 0.01)
            charge = Charge(
                "ieee30",
                version_of(source, ledger),
                "one-asset",
                Fraction(1, 100),
                Adjacency().alpha,
                spent,
                spent,
            )

            def account(charge=charge):
                entry = ledger.charge(charge)
                ledger.mark_drawn(entry, b"")
                ledger.mark_published(entry, "0" * 64)

            taken["ledger_ms"].append(1e3 * clock(account))
            taken["signature_ms"].append(1e3 * clock(lambda: signer.sign(b"0" * 1000)))
    return {name: values[1:] for name, values in taken.items()}


def paper(sample: int = 5) -> dict:
    """Time the whole reproduction, and extrapolate what its gradients would take in the plain time
    loop.
    """
    program = str(Path(sys.executable).with_name("gridveil"))
    with tempfile.TemporaryDirectory() as folder:
        ours = clock(
            lambda: subprocess.run(
                [program, "paper", "--out", f"{folder}/paper"], check=True, capture_output=True
            )
        )
    _, plain, _ = paper_task(100)
    seconds = [clock(lambda: objective_and_gradient(*plain)) for _ in range(sample)]
    gradients = 3 * PROFILES["paper"].settings.iterations
    baseline = float(np.median(seconds)) * gradients
    return {
        "gridveil_s": ours,
        "baseline_s": baseline,
        "sample": sample,
        "ratio": baseline / ours,
        "limit_s": 180,
    }


def commands() -> list[dict]:
    """Processor time of the commands as a user starts them, each in a fresh home."""
    program = str(Path(sys.executable).with_name("gridveil"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for arguments, limit in (
            (["--help"], 0.3),
            (["release", "ieee30", "--epsilon", "1/2"], 2.5),
            (["demo"], 10),
        ):
            seconds = []
            for number in range(5):
                out = (
                    []
                    if arguments == ["--help"]
                    else ["--out", f"{folder}/{arguments[0]}-{number}"]
                )
                call, home = (
                    [program, *arguments, *out],
                    os.environ | own_places(f"{folder}/{number}"),
                )
                before = processor_of_children()
                subprocess.run(call, check=True, capture_output=True, env=home)
                seconds.append(processor_of_children() - before)
            rows.append(
                {
                    "command": " ".join(["gridveil", *arguments]),
                    "seconds": seconds,
                    "limit_s": limit,
                }
            )
    return rows


def own_places(folder: str) -> dict[str, str]:
    """Where a command keeps its ledger, so that it is not the user's own."""
    return {"GRIDVEIL_HOME": folder, "GRIDVEIL_WITNESS": f"{folder}-witness.sqlite"}


def spread(values: list[float]) -> str:
    """Median, and quartiles."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.3g} [{low:.3g}, {high:.3g}]"


def processor_of_children() -> float:
    """User and system time of all processes that were started and have ended [s]."""
    used = os.times()
    return used.children_user + used.children_system


def clock(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
