"""Batches on the CPU or on a GPU: gradients, Levenberg-Marquardt fits and seeded trials of IEEE-30.

python benchmarks/device.py --compute gpu --gradients 50000 --fits 100000 --trials 1000000

Each is done once to warm up; a few of each are held against NumPy's. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from gridveil.dynamics.engine import Objective, SampledRecord
from gridveil.dynamics.engine.compute import CPU, Compute, compute_on
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduce_each
from gridveil.dynamics.models import FullModel
from gridveil.dynamics.simulate import simulate
from gridveil.dynamics.swing import DrivenSwingFamily
from gridveil.grid.facts import complete_edges
from gridveil.inference.fit.many import ManyFits
from gridveil.planning.profiles import PROFILES
from gridveil.planning.seeded import SeededTrials, summary
from gridveil.readers.cases import open_grid
from gridveil.vault.truth import public_table, true_model

SEED = 7
PUBLIC_EVENT = Event.uniform(0.2)
# Laplace noise of ε = 1 on each of k, m and d at α = 1, 1 and 0.5, in their units.
SCALES = {"k": 1.0, "m": 1.0, "d": 0.5}
SIGMA = 1e-5  # of a sample of the record that is fitted [p.u.]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compute", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--gradients", type=int, default=1000)
    parser.add_argument("--fits", type=int, default=100)
    parser.add_argument("--trials", type=int, default=1000)
    given = parser.parse_args()
    compute = compute_on(given.compute)
    print(json.dumps({"compute": compute.name}), flush=True)
    for name, measure, count in (
        ("gradients", gradients, given.gradients),
        ("trials", trials, given.trials),
        ("fits", fits, given.fits),
    ):
        if count:
            print(json.dumps({name: measure(compute, count)}), flush=True)


def gradients(compute: Compute, count: int) -> dict:
    """J and dJ/dθ of the paper's task."""
    source, settings = open_grid("ieee30"), PROFILES["paper"].settings
    truth = true_model(source)
    seen = simulate(truth, PUBLIC_EVENT, dt_s=settings.dt_s, scheme="euler").omega
    record = SampledRecord(((0, 0),), seen, np.full(seen.shape, settings.dt_s))
    drive = PUBLIC_EVENT.steps[0].loads(truth)[:, None]
    family = truth.family(drive, range(len(truth.m)), PROFILES["paper"].bounds)
    objective = Objective(family, [record], dt_s=settings.dt_s, scheme="euler")
    theta = truth.theta * np.random.default_rng(SEED).uniform(0.8, 1.2, (count, len(truth.theta)))
    there = compute.put(theta)

    def run() -> float:
        begin = time.perf_counter()
        found = objective(there)
        _ = compute.get(found[0]), compute.get(found[1][:1])  # waits for the device
        return time.perf_counter() - begin

    run()
    seconds = [run() for _ in range(7)]
    few, found = objective(theta[:20]), objective(there)
    return {
        "models": count,
        "us_each": [round(1e6 * one / count, 4) for one in seconds],
        "J_off": _off(compute.get(found[0])[:20], few[0]),
        "gradient_off": _off(compute.get(found[1])[:20], few[1]),
    }


def trials(compute: Compute, count: int) -> dict:
    """Noise, Kron, ten events and figures."""
    table = public_table(open_grid("ieee30"))
    buses = table.facts.buses
    rng = np.random.default_rng(SEED)
    events = [Event.uniform(0.05)] + [
        Event.load({buses[int(bus)]: float(rng.choice([-1, 1]) * rng.uniform(0.1, 0.5))})
        for bus in rng.choice(len(buses), 9, replace=False)
    ]
    bounds = PROFILES["paper"].bounds
    ours = SeededTrials(table, events, bounds, compute=compute)
    summary(ours.run(SCALES, min(count, 2000), 0))
    begin = time.perf_counter()
    found = summary(ours.run(SCALES, count, SEED))
    seconds = time.perf_counter() - begin
    few = next(iter(SeededTrials(table, events, bounds).run(SCALES, 20, SEED)))
    same = next(iter(ours.run(SCALES, 20, SEED)))
    return {
        "trials": count,
        "events": len(events),
        "seconds": seconds,
        "mean_and_90_percent": found,
        "off": max(_off(same[name], own) for name, own in few.items()),
    }


def fits(compute: Compute, count: int) -> dict:
    """Levenberg-Marquardt fits of (k_r, m, d) to the public trajectory at six machines, every draw
    with its own K_ac.
    """
    table, bounds = public_table(open_grid("ieee30")), PROFILES["paper"].bounds
    facts, rng = table.facts, np.random.default_rng(SEED)
    full = FullModel(facts, table.values)
    truth = true_model(open_grid("ieee30"))
    values = {
        name: np.clip(
            own + SCALES[name] * rng.laplace(size=(count, len(own))),
            bounds[name].least,
            bounds[name].upper,
        )
        for name, own in table.values.items()
    }
    felt = np.stack([PUBLIC_EVENT.steps[0].loads(full), facts.load_damping])
    dt = 0.1
    seen = simulate(truth, PUBLIC_EVENT, dt_s=dt).omega
    seen = seen + SIGMA * rng.standard_normal(seen.shape)
    record = SampledRecord(((0, 0),), seen, np.full(seen.shape, dt))
    family = DrivenSwingFamily(
        complete_edges(len(facts.machines)),
        inputs=1,
        governor_rate=facts.governor_rate,
        droop_gain=facts.droop_gain,
        omega_b=facts.omega_b,
        sense=np.eye(len(facts.machines)),
        bounds=bounds,
    )

    def run(some: int, where: Compute):
        parts = []
        for start in range(0, some, 20_000):
            k = where.put(values["k"][start : min(start + 20_000, some)])
            parts.append([where.get(one) for one in reduce_each(facts, k, felt)])
        k_r, u = (np.concatenate(part) for part in zip(*parts, strict=True))
        theta = np.concatenate([k_r, values["m"][:some], values["d"][:some] + u[:, 1]], axis=1)
        search = ManyFits(family, [record], dt_s=dt, sigma=np.sqrt(dt) * SIGMA, compute=where)
        precision = np.full(theta.shape[1], 1.0)
        return theta, search(theta, u[:, 0], precision, iterations=25, close=1e-4)

    run(min(count, 500), compute)
    begin = time.perf_counter()
    _, found = run(count, compute)
    seconds = time.perf_counter() - begin
    few, same = (run(min(20, count), where)[1] for where in (CPU, compute))
    return {
        "fits": count,
        "seconds": seconds,
        "converged": float(found.converged.mean()),
        "misfit_median": float(np.median(found.misfit)),
        "cost_median": float(np.median(found.cost)),
        "off": _off(same.theta, few.theta),
        "cost_off": _off(same.cost, few.cost),
    }


def _off(found: np.ndarray, expected: np.ndarray) -> float:
    kept = np.isfinite(expected)
    return float(np.abs(found - expected)[kept].max() / np.abs(expected[kept]).max())


if __name__ == "__main__":
    main()
