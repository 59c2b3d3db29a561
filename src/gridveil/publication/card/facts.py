"""What the simulator in a card is made of: the numbers of model.mat and ensemble.mat, bit by bit.

Nothing is computed here that two machines might round differently: the page does the arithmetic.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

from gridveil.dynamics.detailed.model import OF_TRIPS, DetailedModel
from gridveil.dynamics.detailed.trips import check_trips
from gridveil.dynamics.ensemble import LEVEL
from gridveil.dynamics.events import Event
from gridveil.dynamics.metrics import SHOWN_TO_HOLD
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate_large import LARGE
from gridveil.foundation.errors import EventError
from gridveil.grid.facts import Array
from gridveil.grid.parameters import DAMPING, INERTIA, REDUCED_WEIGHT
from gridveil.publication.release import Release

# States of a detailed model whose exponential a browser takes seconds for; bytes of a card's
# arrays; of K_ac, above which single precision does: a share is then off by 6e-8 of itself.
MOST_STATES, MOST_BYTES, EXACT_BYTES = 400, 2**23, 2**20
TOO_LARGE = "The model is too large for a simulator in a page."
# Units times states³ up to which each is tried without each of its units: a second or two.
MOST_WORK = 3e8
# Machines up to which all have bands, and how many of more do.
ALL_BANDS, SOME_BANDS = 50, 10
SWING_ARRAYS = (
    *(own.name for own in (REDUCED_WEIGHT, INERTIA, DAMPING)),
    "governor_rate",
    "droop_gain",
    "K_ac",
)


def simulator_facts(release: Release) -> dict[str, Any] | str:
    """What the page computes with, or why it cannot, in words."""
    model = release.model
    if isinstance(model, ReducedModel):
        if model.device:
            return "The simulator in a page knows no devices beside the swing equations."
        if len(model.machines) > LARGE:
            return f"The simulator in a page takes up to {LARGE} machines."
        if model.compact:
            return TOO_LARGE
        arrays = {name: model.arrays[name] for name in SWING_ARRAYS}
        own: dict[str, Any] = {"kind": "swing", "trips": []}
    else:
        if len(model.states) > MOST_STATES:
            return f"The simulator in a page takes models of up to {MOST_STATES} states."
        arrays = _matrices(model)
        own = {
            "kind": "detailed",
            "owners": [model.machines.index(name.rsplit(" ", 1)[0]) for name in model.states],
            "angles": list(model.angles),
            "trips": _trips(model),
        }
    kinds = {
        name: "f4" if name == "K_ac" and values.nbytes > EXACT_BYTES else "f8"
        for name, values in arrays.items()
    }
    if sum(values.size * int(kinds[name][1]) for name, values in arrays.items()) > MOST_BYTES:
        return TOO_LARGE
    largest = np.argsort(-model.inertia, kind="stable")[:SOME_BANDS]
    return {
        **own,
        "ports": list(model.ports),
        "machines": len(model.machines),
        "frequency_hz": model.frequency_hz,
        "omega_b": model.omega_b,
        "base_mva": model.base_mva,
        "level": LEVEL,
        "shown_to_hold": SHOWN_TO_HOLD,
        "largest": np.sort(largest).tolist(),
        "all_bands": len(model.machines) <= ALL_BANDS,
        "arrays": {name: _packed(values, kinds[name]) for name, values in arrays.items()},
        "members": _members(release),
    }


def _matrices(model: DetailedModel) -> dict[str, Array]:
    """Frequencies alone: the page shows no voltages."""
    ports, units = len(model.ports), model.units
    found = {
        "A": model.A,
        "B": model.B,
        "C": model.C[:ports],
        "D": model.D[:ports],
        "inertia": model.inertia,
    }
    if model.can_trip:
        found |= {name: getattr(model, name) for name in OF_TRIPS}
        found["dispatch"] = model.dispatch[:units]
    return found


def _trips(model: DetailedModel) -> list[int]:
    """Units whose loss the model survives, by position."""

    def survives(machine: str) -> bool:
        try:
            check_trips(model, Event.trip(machine))
        except EventError:
            return False
        return True

    if not model.can_trip or model.units * len(model.states) ** 3 > MOST_WORK:
        return []
    return [unit for unit, machine in enumerate(model.machines) if survives(machine)]


def _members(release: Release) -> dict[str, Any] | None:
    """The members of the ensemble, in single precision as their file has them."""
    found = release.ensemble
    if found is None:
        return None
    packed = {name: _packed(values, "f4") for name, values in found.arrays.items()}
    return {"count": found.members, "arrays": packed}


def _packed(values: Array, kind: str) -> Mapping[str, str]:
    """Numbers row by row, least byte first, in base64."""
    data = np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
    return {"kind": kind, "data": b64encode(data).decode()}
