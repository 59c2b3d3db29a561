"""What a detailed bundle gives back of the table behind it: entries read off its case, inertia by
its linear model, and the noisy values behind shrunk ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gridveil.dynamics.detailed.entries import entries_of
from gridveil.dynamics.detailed.equilibrium import NoOperatingPoint, solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array
from gridveil.grid.parameters import DETAILED, parameters_of
from gridveil.publication.detailed import Shown

SPEED = "machine.omega"


def read_off(shown: Shown) -> dict[str, Array]:
    """Entries as the shown case has them: all of a whole network; of a reduced one those of the
    units, since its branches are not the grid's.
    """
    declared = parameters_of(DETAILED)
    return {
        name: values
        for name, (values, _) in entries_of(shown.case).items()
        if len(values) and (shown.form == "network" or declared[name].asset == "machine")
    }


def unshrunk(values: Array, deviation: float) -> Array:
    """Undo `toward_mean`: the values behind shrunk ones, whose scatter tells how far they went.

    Released values scatter by s and were brought to r = (s² − σ²)/s, so s = (r + √(r² + 4σ²))/2.
    Where all are equal (r = 0), which of them lay where is lost, and nothing is undone.
    """
    if len(values) < 3:
        return values
    logs = np.log(values)
    r = float(logs.std(ddof=1))
    if r <= 1e-9:
        return values
    s = (r + (r**2 + 4 * deviation**2) ** 0.5) / 2
    return np.exp(logs.mean() + s / r * (logs - logs.mean()))


def inertia_by_rates(model: DetailedModel) -> Array:
    """M of the units by B and C alone: how fast each speed begins to fall after a unit step of load
    at each port.

    Σ M_i dω_i/dt = −1 but for losses and for what other loads take less: least squares over ports.
    """
    there = model.inertia > 0
    found = np.zeros(model.units)
    rates = (model.C[: model.units] @ model.B[:, : len(model.ports)])[there]
    found[there] = np.linalg.lstsq(rates.T, -np.ones(rates.shape[1]), rcond=None)[0]
    return found


def inertia_by_rows(model: DetailedModel, case: DetailedCase) -> Array | None:
    """M of the machines by the rows of A: with M = 1 and the shown devices and network, a row of a
    speed is M times the published one. (u,), 0 of a unit without such a state.

    Exact where the shown case is the model's own: a whole network, or loads of constant impedance.
    None where the case has no operating point.
    """
    ones = tuple(
        replace(table, values={**table.values, "M": np.ones(len(table.unit))})
        if "M" in table.values
        else table
        for table in case.devices
    )
    try:
        with_one = linearise(replace(case, devices=ones), solve(case), case.loads.bus)
    except (NoOperatingPoint, np.linalg.LinAlgError):
        return None
    found = np.zeros(model.units)
    if len(with_one.states) != len(model.states):
        return None
    for unit, port in enumerate(model.machines):
        state = f"{port} {SPEED}"
        if state in model.states:
            at = model.states.index(state)
            row, published = with_one.A[at], model.A[at]
            found[unit] = row @ row / (row @ published)
    return found
