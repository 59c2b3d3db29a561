"""A case whose limits hold its operating point.

A nonlinear program starts at rest only where no limiter acts, so limits of a released case that its
released dispatch would break are moved.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gridveil.dynamics.detailed.equilibrium import Equilibrium
from gridveil.dynamics.detailed.limits import limiters
from gridveil.grid.case import DetailedCase, DeviceTable

_VALVE, _POWER = ("VMIN", "VMAX"), ("PMIN", "PMAX")
_REGULATOR, _ERROR = ("VRMIN", "VRMAX"), ("VIMIN", "VIMAX")
# Parameters that set each limiter, lower and upper, by model and the limiter's name.
BOUNDS: dict[str, dict[str, tuple[str, str]]] = {
    "TGOV1": {"VALVE": _VALVE},
    "TGOV1N": {"VALVE": _VALVE},
    "GAST": {"VALVE": _VALVE, "TEMPERATURE": ("", "AT")},
    "IEEEG1": {"VALVE": _POWER},
    "IEESGO": {"POWER": _POWER},
    "HYGOV": {"GATE": ("GMIN", "GMAX")},
    **{model: {"VR": _REGULATOR} for model in ("EXDC2", "IEEEX1", "ESDC1A", "ESDC2A", "IEEET1")},
    "SEXS": {"EFD": ("EMIN", "EMAX")},
    "EXST1": {"VI": _ERROR, "EFD": _REGULATOR},
    "ESST3A": {
        "VI": _ERROR,
        "VR": _REGULATOR,
        "VB": ("", "VBMAX"),
        "VG": ("", "VGMAX"),
        "VM": ("VMMIN", "VMMAX"),
    },
    "REGF1": {"P": ("Pmin", "Pmax"), "Q": ("Qmin", "Qmax")},
    "REGFM_A1": {"P": ("Pmin", "Pmax"), "EMF": ("Emin", "Emax")},
}
BEYOND = 1e-6  # p.u.; at a limit is not beyond it
ROOM = 0.05  # that a moved limit leaves, of the signal's size
LEAST_ROOM = 0.005  # p.u.
MOST_ROUNDS = 5  # limits may depend on one another


def within_limits(case: DetailedCase, equilibrium: Equilibrium) -> tuple[DetailedCase, int]:
    """Move the limits that the operating point would break, to leave it room; and count them.

    Limits have no part in the power flow, so the equilibrium stays.
    """
    moved: set[tuple[int, str, str]] = set()
    for _ in range(MOST_ROUNDS):
        tables = {table.model: table for table in case.devices}
        before = case
        for limiter in limiters(case, equilibrium):
            lower, upper = BOUNDS.get(limiter.device, {}).get(limiter.limit, ("", ""))
            signal = limiter.signal
            for name, sign, beyond in (
                (upper, 1.0, signal - limiter.upper),
                (lower, -1.0, limiter.lower - signal),
            ):
                for row in np.flatnonzero(beyond > BEYOND) if name else ():
                    step = beyond[row] + max(ROOM * abs(signal[row]), LEAST_ROOM)
                    table, unit = tables[limiter.device], int(limiter.units[row])
                    tables[limiter.device] = _moved(table, unit, name, sign * float(step))
                    moved.add((unit, limiter.device, limiter.limit))
        if all(tables[table.model] is table for table in before.devices):
            break
        case = replace(case, devices=tuple(tables.values()))
    return case, len(moved)


def _moved(table: DeviceTable, unit: int, name: str, step: float) -> DeviceTable:
    """The same table with one unit's limit moved by a step."""
    column = table.values[name].copy()
    column[table.unit == unit] += step
    return DeviceTable(table.model, table.unit, {**table.values, name: column})
