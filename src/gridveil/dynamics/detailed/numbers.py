"""A case's numbers as columns of real arithmetic, so that a complex step passes through each.

Phasors stand here as two columns: the imaginary unit is left to derivatives by θ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.foundation.errors import InputError
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array, IntArray

BRANCH = ("r", "x", "b", "tap", "phase")
LOAD = ("p", "q", "zp", "zq", "ip", "iq")

# Columns (n,) by table and name: "branch", "shunt", "load", "unit", and one table a device model.
Numbers = dict[str, dict[str, Any]]


def numbers_of(case: DetailedCase) -> Numbers:
    """Split a case into columns, with defaults where a device's table leaves a parameter out."""
    branches, loads = case.branches, case.loads
    columns: Numbers = {
        "branch": {
            "r": branches.series.real,
            "x": branches.series.imag,
            "b": branches.charging,
            "tap": np.abs(branches.ratio),
            "phase": np.angle(branches.ratio),
        },
        "shunt": {"g": case.shunt.real, "b": case.shunt.imag},
        "load": {
            "p": loads.power.real,
            "q": loads.power.imag,
            "zp": loads.impedance[:, 0],
            "zq": loads.impedance[:, 1],
            "ip": loads.current[:, 0],
            "iq": loads.current[:, 1],
        },
        "unit": {"power": case.units.power, "set_point": case.units.set_point},
    }
    for table in case.devices:
        device = DEVICES.get(table.model)
        if device is None:
            raise InputError(
                f"the device model {table.model} is unknown", expected=", ".join(DEVICES)
            )
        columns[table.model] = dict(device.filled(table.values, len(table.unit)))
    return columns


def is_complex(numbers: Numbers) -> bool:
    """Tell whether a complex step is under way."""
    return any(np.iscomplexobj(column) for table in numbers.values() for column in table.values())


def real_numbers(numbers: Numbers) -> Numbers:
    """The real parts."""
    return {
        table: {name: np.real(column) for name, column in columns.items()}
        for table, columns in numbers.items()
    }


@dataclass(frozen=True, eq=False)
class Wiring:
    """What of a case is not a number: where things stand.

    ends : (l, 2); load_bus : (m,); unit_bus : (u,); slack : among the units.
    share : (u,) of its bus's reactive power that a unit gives.
    """

    buses: tuple[str, ...]
    ends: IntArray
    load_bus: IntArray
    unit_bus: IntArray
    slack: int
    share: Array

    @classmethod
    def of(cls, case: DetailedCase) -> Wiring:
        """Read a case; units of one bus share its reactive power equally."""
        bus = np.asarray(case.units.bus)
        count = np.bincount(bus, minlength=len(case.buses))
        return cls(
            case.buses,
            np.asarray(case.branches.ends),
            np.asarray(case.loads.bus),
            bus,
            case.units.slack,
            1.0 / count[bus],
        )

    @property
    def size(self) -> int:
        """Number of buses n."""
        return len(self.buses)

    @property
    def held(self) -> IntArray:
        """Buses whose voltage is held, the slack's first."""
        first = self.unit_bus[self.slack]
        rest = np.unique(self.unit_bus)
        return np.concatenate([[first], rest[rest != first]])

    @property
    def holder(self) -> IntArray:
        """The unit that holds the voltage of each of them: the slack, or the first of a bus."""
        first = {int(bus): unit for unit, bus in reversed(list(enumerate(self.unit_bus)))}
        first[int(self.unit_bus[self.slack])] = self.slack
        return np.array([first[int(bus)] for bus in self.held])
