"""A released case with devices, whole or reduced, for other tools: what its writers share.

Everything is in p.u. of the system's base, so every unit's base is the system's: no rating is
written, because none is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gridveil.dynamics.detailed.equilibrium import Equilibrium, solve
from gridveil.dynamics.detailed.limit_room import within_limits
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array


@dataclass(frozen=True, eq=False)
class Written:
    """A case, ready to be written.

    names : neutral ones of the buses: G1 … with units, L1 … with load, N1 … of the others.
    equilibrium : of the case itself.
    number : (u,) of each unit among those of its bus, from 1.
    devices : model and values of each unit's devices, by role.
    notes : what was changed.
    """

    case: DetailedCase
    names: tuple[str, ...]
    equilibrium: Equilibrium
    number: tuple[int, ...]
    devices: tuple[Mapping[str, tuple[str, Mapping[str, float]]], ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, case: DetailedCase) -> Written:
        """Solve the case's power flow, give limiters room at it, and sort devices by unit."""
        equilibrium = solve(case)
        case, moved = within_limits(case, equilibrium)
        notes = (f"{moved} limits of devices are moved to hold the operating point.",)
        seen: dict[int, int] = {}
        number = []
        for bus in case.units.bus.tolist():
            seen[bus] = seen.get(bus, 0) + 1
            number.append(seen[bus])
        devices: list[dict[str, tuple[str, Mapping[str, float]]]] = [{} for _ in number]
        for table in case.devices:
            for row, unit in enumerate(table.unit.tolist()):
                values = {name: float(column[row]) for name, column in table.values.items()}
                devices[unit][DEVICES[table.model].role] = (table.model, values)
        return cls(
            case,
            neutral_buses(case),
            equilibrium,
            tuple(number),
            tuple(devices),
            notes if moved else (),
        )

    @property
    def voltage(self) -> Array:
        """|V| (n,) [p.u.]."""
        return np.abs(self.equilibrium.voltage)

    @property
    def reference(self) -> int:
        """The bus whose angle is held."""
        return int(self.case.units.bus[self.case.units.slack])

    def source(self, unit: int) -> tuple[str, Mapping[str, float]]:
        """A unit's machine or inverter."""
        own = self.devices[unit]
        return own.get("machine") or own["inverter"]


def neutral_buses(case: DetailedCase) -> tuple[str, ...]:
    """Name buses by what is on them, in the order of the case."""
    with_units, with_load = set(case.units.bus.tolist()), set(case.loads.bus.tolist())
    counts = {"G": 0, "L": 0, "N": 0}
    names = []
    for bus in range(len(case.buses)):
        kind = "G" if bus in with_units else "L" if bus in with_load else "N"
        counts[kind] += 1
        names.append(f"{kind}{counts[kind]}")
    return tuple(names)
