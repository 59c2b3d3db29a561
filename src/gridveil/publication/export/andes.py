"""ANDES: its JSON case file, which carries settings and event along.

ANDES itself is never imported: its licence is another.
"""

from __future__ import annotations

import json
from math import sqrt
from typing import Any

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.dynamics.models import ReducedModel
from gridveil.grid.parameters import DAMPING, INERTIA
from gridveil.publication.export.common import (
    BASE_KV,
    Format,
    Line,
    about,
    governed,
    lines,
    machine_steps,
    rated_hz,
    reference_machines,
    source_reactance,
    total_weights,
)
from gridveil.publication.release import Release

FILE = "andes.json"
# Of the network's own reactance, between a machine and its bus.
XD1_SHARE = 1e-4
# ANDES passes over what is altered at the very start [s].
EARLIEST_S = 1e-6
# Governor limits that never act, and a lead-lag that does nothing.
TGOV1 = {"VMAX": 99.0, "VMIN": -99.0, "T2": 1.0, "T3": 1.0, "Dt": 0.0}
# A step of the trapezoidal rule turns the fastest swing by at most this angle [rad], and takes at
# most 10 ms.
SWING_PER_STEP, LONGEST_STEP_S = 0.1, 0.01


def write(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write buses, lines, classical machines, governors, loads of 0 and the event on them."""
    assert event is not None
    model, base = release.swing, release.swing.base_mva
    names, reference = model.machines, reference_machines(model)
    numbers = range(1, len(names) + 1)
    stubs = _stubs(model)
    buses = (
        *enumerate(names, start=1),
        *((line.end, f"{names[line.start - 1]}_end") for line in stubs),
    )
    xd1 = source_reactance(model, XD1_SHARE)
    rated = {"Sn": base, "Vn": BASE_KV}
    still = {"v0": 1.0, "p0": 0.0, "q0": 0.0, "pmax": 999.0, "pmin": -999.0, "ra": 0.0, "xs": xd1}
    case: dict[str, list[dict[str, Any]]] = {
        "_config": [{"section": s, "key": k, "value": v} for s, k, v in _settings(model, event)],
        "Summary": [
            {"field": f"note {n}", "comment": text}
            for n, text in enumerate(about(release), start=1)
        ],
        "Bus": [{"idx": n, "name": name, "Vn": BASE_KV, "v0": 1.0, "a0": 0.0} for n, name in buses],
        "PQ": [
            {
                "idx": f"load_{n}",
                "name": f"load {names[n - 1]}",
                "bus": n,
                "Vn": BASE_KV,
                "p0": 0.0,
                "q0": 0.0,
                "vmin": 0.5,
            }
            for n in numbers
        ],
        "Slack": [
            {"idx": n, "bus": n, **rated, **still, "a0": 0.0} for n in numbers if n in reference
        ],
        "PV": [{"idx": n, "bus": n, **rated, **still} for n in numbers if n not in reference],
        "Line": [
            {
                "idx": f"line_{line.start}_{line.end}",
                "bus1": line.start,
                "bus2": line.end,
                "Sn": base,
                "Vn1": BASE_KV,
                "Vn2": BASE_KV,
                "r": 0.0,
                "x": line.x,
                "b": 0.0,
            }
            for line in (*lines(model), *stubs)
        ],
        "GENCLS": [
            {
                "idx": f"machine_{n}",
                "name": names[n - 1],
                "bus": n,
                "gen": n,
                **rated,
                "fn": rated_hz(model),
                "M": float(model.values[INERTIA.name][n - 1]),
                "D": float(model.values[DAMPING.name][n - 1]),
                "ra": 0.0,
                "xl": 0.0,
                "xd1": xd1,
            }
            for n in numbers
        ],
        "TGOV1N": [
            {
                "idx": f"governor_{n}",
                "syn": f"machine_{n}",
                "R": 1.0 / float(model.droop_gain[n - 1]),
                "T1": 1.0 / float(model.governor_rate[n - 1]),
                **TGOV1,
            }
            for n in governed(model)
        ],
        "Alter": [
            {
                "idx": f"step_{number}_{n}",
                "t": max(at_s, EARLIEST_S),
                "model": "PQ",
                "dev": f"load_{n}",
                "src": "Ppf",
                "attr": "v",
                "method": "+",
                "amount": load,
            }
            for number, (at_s, loads) in enumerate(machine_steps(model, event), start=1)
            for n, load in zip(numbers, loads, strict=True)
            if load
        ],
    }
    rows = {
        name: ",\n".join(f"  {json.dumps(row)}" for row in table)
        for name, table in case.items()
        if table
    }
    text = ",\n".join(f'"{name}": [\n{listed}\n]' for name, listed in rows.items())
    return {FILE: f"{{\n{text}\n}}\n".encode("ascii")}


def _stubs(model: ReducedModel) -> list[Line]:
    """Add an empty bus to every lone machine: ANDES switches off a bus without a line."""
    joined = {end for line in lines(model) for end in (line.start, line.end)}
    count = len(model.machines)
    alone = [n for n in range(1, count + 1) if n not in joined]
    return [Line(n, count + number, 1.0) for number, n in enumerate(alone, start=1)]


def _settings(model: ReducedModel, event: Event) -> list[tuple[str, str, float]]:
    """Settings the model needs: loads of constant power (not ANDES's impedances), step and end."""
    shares = {"p2p": 1.0, "p2i": 0.0, "p2z": 0.0, "q2q": 1.0, "q2i": 0.0, "q2z": 0.0}
    return [
        ("System", "mva", model.base_mva),
        ("System", "freq", model.frequency_hz),
        ("PQ", "pq2z", 0),
        *(("PQ", key, value) for key, value in shares.items()),
        ("GENCLS", "vf_lower", 0.5),  # a field voltage of 1 - 1e-16 is no cause for a warning
        ("TDS", "fixt", 1),
        ("TDS", "tstep", time_step(model)),
        ("TDS", "tol", 1e-6),
        ("TDS", "tf", max(30.0, max(step.at_s + step.over_s for step in event.steps) + 20.0)),
    ]


def time_step(model: ReducedModel) -> float:
    """Choose a step of 1, 2 or 5 · 10ⁿ [s] for swings of up to sqrt(2 omega_b L_ii / m_i) rad/s."""
    inertia = model.values[INERTIA.name]
    fastest = sqrt(model.omega_b * float(np.max(2 * total_weights(model) / inertia)))
    wanted = min(LONGEST_STEP_S, SWING_PER_STEP / fastest) if fastest > 0 else LONGEST_STEP_S
    return next(
        step
        for power in range(2, 300)
        for step in (float(f"{n}e-{power}") for n in (5, 2, 1))
        if step <= wanted
    )


def write_detailed(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write the case that a detailed release shows; it carries no event."""
    from gridveil.publication.export.detailed_andes import detailed_andes

    del event
    assert release.shown is not None, "a detailed release shows a case"
    return detailed_andes(release.shown.case)


FORMAT = Format(
    "andes",
    1,
    write,
    runs=f"andes run {FILE} --routine tds",
    carries_event=True,
    largest=500,
    because="it lists every pair of machines as a line",
    write_detailed=write_detailed,
    runs_detailed="andes run network.json --routine tds",
)
