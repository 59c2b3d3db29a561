"""What docs/leakage.md shows: attacks on public trajectories of IEEE-30, without a release and with
one.

IEEE-30 as the package has it (G = 0.04, ω_b = 1, M = 10, D = 5), +20 % load at every bus, 30 s at
50 Hz, exact integration, white noise of 1e-4 p.u. Everything here knows the truth: a demo.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from gridveil.adversary.attack.trajectory import estimate, from_both, from_records
from gridveil.adversary.leakage import leakage
from gridveil.dynamics.engine import SchemeName
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduce
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import simulate
from gridveil.grid.facts import Array
from gridveil.grid.parameters import Bounds
from gridveil.grid.tables import PublicTable
from gridveil.inference.fit import Observation
from gridveil.inference.posterior import posterior_mean
from gridveil.planning.surrogate import at_middle
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import declared_public, open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler

EVENT, SIGMA, RATE_HZ, HORIZON_S = Event.uniform(0.2), 1e-4, 50, 30.0
MACHINES = ("1", "2", "5", "8", "11", "13")
ORIGIN = Provenance("simulated", "the case's own answer to +20 % load")
BOUNDS = Bounds()


def main() -> None:
    """Print one section, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section", nargs="?", choices=SECTIONS, help="default: all")
    parser.add_argument(
        "--draws", type=int, help="of noise, or of tables; default: as the page has it"
    )
    asked = parser.parse_args()
    for name in [asked.section] if asked.section else SECTIONS:
        started = time.perf_counter()
        SECTIONS[name](*([asked.draws] if asked.draws else []))
        print(f"({name}: {time.perf_counter() - started:.0f} s)\n", flush=True)


def noise_free() -> None:
    """Relative errors of the trajectory alone, without noise."""
    truth = reduce(table())
    runs: tuple[tuple[SchemeName, float], ...] = (("euler", 0.01), ("exact", 0.02))
    for scheme, dt in runs:
        record = simulate(truth, EVENT, horizon_s=HORIZON_S, dt_s=dt, scheme=scheme)
        for known in (True, False):
            found = estimate(
                truth_facts(),
                [observed(record)],
                dt_s=dt,
                scheme=scheme,
                sigma=1e-12,
                total_known=known,
            )
            scale = 1.0 if found.scale is None else 1 / found.scale.per_load
            errors = ", ".join(
                f"{n} {np.abs(scale * getattr(found, n) / getattr(truth, n) - 1).max():.1e}"
                for n in NAMES
            )
            print(
                f"noise-free, {scheme} {dt} s, total load {'public' if known else 'unknown'}: "
                f"worst {errors}",
                flush=True,
            )


def rounded() -> None:
    """Relative errors of the trajectory alone, without noise but rounded."""
    truth, record = reduce(table()), at_rate(table(), MACHINES)
    for step_mhz in (0.1, 1.0, 10.0):
        step = step_mhz / 60_000
        seen = replace(record, omega=step * np.rint(record.omega / step))
        found = estimate(
            truth_facts(),
            [observed(seen)],
            dt_s=1 / RATE_HZ,
            scheme="exact",
            sigma=step / np.sqrt(12),
        )
        errors = ", ".join(
            f"{n} {np.median(np.abs(getattr(found, n) / getattr(truth, n) - 1)):.1e}" for n in NAMES
        )
        print(f"rounded to {step_mhz:g} mHz: median {errors}", flush=True)


def cramer_rao(draws: int = 40) -> None:
    """RMS error of the trajectory alone against the Cramér-Rao bound."""
    exact = at_rate(table(), MACHINES)
    clean = {
        known: estimate(truth_facts(), [observed(exact)], **SETTINGS, total_known=known)
        for known in (True, False)
    }
    random = np.random.default_rng(1)
    for known, at in clean.items():
        errors: dict[str, list[Array]] = {name: [] for name in NAMES}
        free = 0
        for _ in range(draws):
            found = estimate(
                truth_facts(), [observed(noisy(exact, random))], **SETTINGS, total_known=known
            )
            free += found.scale is not None and found.scale.free
            for name in NAMES:
                errors[name].append(getattr(found, name) - getattr(at, name))
        for name in NAMES:
            rms, bound = np.sqrt(np.mean(np.square(errors[name]), axis=0)), at.deviation[name]
            print(
                f"total load {'public' if known else 'unknown (per p.u. of load)'}, {name}: bound "
                f"median {100 * np.median(bound / np.abs(getattr(at, name))):.1f} %, RMS median "
                f"{100 * np.median(rms / np.abs(getattr(at, name))):.1f} %, RMS / bound "
                f"{np.sqrt(np.mean((np.array(errors[name]) / bound) ** 2)):.2f}, worst item "
                f"{np.max(rms / bound):.2f}",
                flush=True,
            )
        if at.scale is not None:
            print(
                f"  scale free in {free} of {draws}: {at.scale.name}; 1/Σℓ {at.scale.per_load:.2f} "
                f"± {at.scale.deviation:.0f}"
            )


def one_location(tables: int = 30) -> None:
    """How far off single machines are in the most probable network, given one location: at IEEE-30
    and at drawn tables.

    What the best attacker has is in one_location.py.
    """
    random = np.random.default_rng(0)
    prior = np.log(40) / np.sqrt(12)
    errors: list[Array] = []
    blind: list[Array] = []
    for number in range(tables + 1):
        one = drawn_table(random) if number else table()
        seen = [observed(noisy(at_rate(one, ("1",)), random))]
        found = from_records(truth_facts(), seen, BOUNDS, **SETTINGS).model
        told = leakage(one, seen, BOUNDS, Adjacency(), sigma=SIGMA, dt_s=1 / RATE_HZ).known.items
        logs = np.log([one.values["m"], one.values["d"]])
        errors.append((np.log([found.values["m"], found.values["d"]]) - logs) / prior)
        blind.append((np.log(40) / 2 - logs) / prior)
        print(
            f"bus 1, {f'drawn table {number}' if number else 'IEEE-30'}: error of log m, log d "
            f"{rms(errors[-1], 1)}, of the middle of the bounds {rms(blind[-1], 1)}, by the local "
            f"bound {[rms(told[n].with_bounds / prior) for n in 'md']}",
            flush=True,
        )
    drawn, middle = np.array(errors[1:]), np.array(blind[1:])
    print(
        f"{tables} drawn tables, RMS as a share of the prior's deviation: m, d "
        f"{rms(drawn, (0, 2))}, by machine {rms(drawn, 0)}; of the middle of the bounds "
        f"{rms(middle, (0, 2))}"
    )


def sources(draws: int = 6) -> None:
    """Relative errors of what an attacker gets from the release, from the trajectory, and from
    both.
    """
    source, truth = open_grid("ieee30"), reduce(table())
    random = np.random.default_rng(2)
    for places in (MACHINES, ("1",)):
        records = [noisy(at_rate(table(), places), random) for _ in range(draws)]
        alone = [
            from_records(source.facts, [observed(one)], BOUNDS, **SETTINGS).model for one in records
        ]
        show(f"{len(places)} location(s), trajectory and bounds", alone, truth)
        for epsilon in (Fraction(1, 2), Fraction(2)):
            released = [
                perturb(
                    source,
                    epsilon=epsilon,
                    adjacency=Adjacency("one-asset"),
                    bounds=BOUNDS,
                    ledger=None,
                    sampler=DemoSampler(seed=seed),
                )
                for seed in range(draws)
            ]
            show(
                f"release alone, ε = {epsilon}",
                [reduce(posterior_mean(noisy)) for noisy in released],
                truth,
            )
            both = [
                from_both(n, [observed(r)], **SETTINGS).model
                for n, r in zip(released, records, strict=True)
            ]
            show(f"{len(places)} location(s) and release, ε = {epsilon}", both, truth)


def coarser() -> None:
    """Leakage of coarser and coarser records, at the truth and at the surrogate."""
    for words, one in (("IEEE-30", table()), ("surrogate", at_middle(truth_facts(), BOUNDS))):
        for places, rate, step_mhz in COARSER:
            sigma = float(np.hypot(SIGMA, step_mhz / 60_000 / np.sqrt(12)))
            told = leakage(
                one,
                [observed(at_rate(one, places, rate))],
                BOUNDS,
                Adjacency(),
                sigma=sigma,
                dt_s=1 / rate,
            )
            at = told.known
            shown = ", ".join(f"{n} {100 * at.items[n].typical:.2g} %" for n in "kmd")
            print(
                f"{words}: {len(places)} location(s) {rate} Hz, {step_mhz} mHz: rank {at.rank}, "
                f"{at.seen} fixed; {shown}; "
                "largest μ " + ", ".join(f"{n} {at.mu[n].max():.3g}" for n in "kmd"),
                flush=True,
            )


NAMES = ("k_r", "m", "d")
SETTINGS = {"dt_s": 1 / RATE_HZ, "scheme": "exact", "sigma": SIGMA}
COARSER = (
    (MACHINES, 50, 0),
    (MACHINES, 10, 0),
    (MACHINES, 10, 1),
    (MACHINES, 10, 10),
    (("1", "13"), 50, 0),
    (("1", "13"), 10, 1),
    (("1",), 50, 0),
    (("1",), 10, 1),
    (("1",), 1, 10),
    (("30",), 50, 0),
    (("30",), 1, 10),
)
SECTIONS = {
    "noise-free": noise_free,
    "rounded": rounded,
    "cramer-rao": cramer_rao,
    "coarser": coarser,
    "one-location": one_location,
    "sources": sources,
}


def table() -> PublicTable:
    """IEEE-30 itself, a public case."""
    return declared_public(open_grid("ieee30"))


def truth_facts():
    return table().facts


def drawn_table(random: np.random.Generator) -> PublicTable:
    """A table drawn from the public bounds, log-uniform."""
    facts = truth_facts()
    ends = {name: np.log([BOUNDS[name].lower, BOUNDS[name].upper]) for name in facts.sizes}
    values = {
        name: np.exp(random.uniform(ends[name][0], ends[name][1], size))
        for name, size in facts.sizes.items()
    }
    return PublicTable(facts, values)


def at_rate(one: PublicTable, places: Sequence[str], rate: float = RATE_HZ):
    return simulate(reduce(one), EVENT, horizon_s=HORIZON_S, dt_s=1 / rate, buses=places)


def noisy(record, random: np.random.Generator):
    return replace(record, omega=record.omega + random.normal(0, SIGMA, record.omega.shape))


def observed(record) -> Observation:
    return Observation(EVENT, record, ORIGIN)


def rms(values: Array, axes: int | tuple[int, ...] | None = None) -> list[float] | float:
    return np.sqrt(np.mean(np.square(values), axis=axes)).round(2).tolist()


def show(words: str, models: Sequence[ReducedModel], truth: ReducedModel) -> None:
    shown = []
    for name in NAMES:
        off = np.array([np.abs(getattr(one, name) / getattr(truth, name) - 1) for one in models])
        shown.append(f"{name} {100 * np.median(off):.1f} %")
    print(f"{words}: median relative error {', '.join(shown)} ({len(models)} draws)", flush=True)


if __name__ == "__main__":
    main()
