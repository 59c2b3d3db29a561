"""A detailed case as named arrays of floats, and back: how a bundle carries one.

How many there are of each thing is a layout, which is public structure; with it the names and
shapes of all arrays are known before a number is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.foundation.errors import InputError
from gridveil.grid.case import Branches, DetailedCase, DeviceTable, Loads, Units
from gridveil.grid.facts import Array, IntArray

# Columns of buses, branches, loads and units; positions count from 1, as MATLAB does.
BUSES = ("shunt_g", "shunt_b")
BRANCHES = ("branch_from", "branch_to", "branch_r", "branch_x", "branch_b", "branch_tap")
BRANCHES += ("branch_shift",)
LOADS = ("load_bus", "load_p", "load_q", "load_p_impedance", "load_q_impedance")
LOADS += ("load_p_current", "load_q_current")
UNITS = ("unit_bus", "unit_p", "unit_v")
UNIT = "unit"


@dataclass(frozen=True)
class CaseSizes:
    """How many buses, branches, loads and units a case has, and how many devices of each model.

    slack : the unit whose bus holds the angle, from 0.
    """

    buses: int
    branches: int
    loads: int
    units: int
    slack: int
    devices: Mapping[str, int]

    @classmethod
    def of(cls, case: DetailedCase) -> CaseSizes:
        """Count what is in a case."""
        return cls(
            len(case.buses),
            len(case.branches.ends),
            len(case.loads.bus),
            len(case.units.bus),
            case.units.slack,
            {table.model: len(table.unit) for table in case.devices},
        )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name each array, with its shape, in the order of files.

        Raises
        ------
        InputError : where a device is none of the registry's.
        """
        parts = (
            (BUSES, self.buses),
            (BRANCHES, self.branches),
            (LOADS, self.loads),
            (UNITS, self.units),
        )
        shapes: dict[str, tuple[int, ...]] = {name: (n,) for names, n in parts for name in names}
        for model, count in self.devices.items():
            if model not in DEVICES:
                raise InputError(f"the device {model!r} is unknown", expected=", ".join(DEVICES))
            names = (UNIT, *(parameter.name for parameter in DEVICES[model].parameters))
            shapes |= {f"{model}_{name}": (count,) for name in names}
        return shapes


def to_arrays(case: DetailedCase) -> dict[str, Array]:
    """Write a case as arrays [p.u. of the system's base; shifts in rad], in the layout's order."""
    branches, loads, units = case.branches, case.loads, case.units
    columns = {
        "shunt_g": case.shunt.real,
        "shunt_b": case.shunt.imag,
        "branch_from": branches.ends[:, 0] + 1,
        "branch_to": branches.ends[:, 1] + 1,
        "branch_r": branches.series.real,
        "branch_x": branches.series.imag,
        "branch_b": branches.charging,
        "branch_tap": np.abs(branches.ratio),
        "branch_shift": np.angle(branches.ratio),
        "load_bus": loads.bus + 1,
        "load_p": loads.power.real,
        "load_q": loads.power.imag,
        "load_p_impedance": loads.impedance[:, 0],
        "load_q_impedance": loads.impedance[:, 1],
        "load_p_current": loads.current[:, 0],
        "load_q_current": loads.current[:, 1],
        "unit_bus": units.bus + 1,
        "unit_p": units.power,
        "unit_v": units.set_point,
    }
    for table in case.devices:
        filled = DEVICES[table.model].filled(table.values, len(table.unit))
        columns |= {f"{table.model}_{name}": values for name, values in filled.items()}
        columns[f"{table.model}_{UNIT}"] = table.unit + 1
    return {
        name: np.asarray(columns[name], dtype=np.float64) for name in CaseSizes.of(case).shapes()
    }


def from_arrays(
    arrays: Mapping[str, Array],
    layout: CaseSizes,
    *,
    name: str,
    buses: tuple[str, ...],
    base_mva: float,
    frequency_hz: float,
) -> DetailedCase:
    """Put a case together from its arrays.

    Raises
    ------
    InputError : where an array is missing, has another length than the layout says, or points to
    what is not there.
    """
    for wanted, shape in layout.shapes().items():
        if wanted not in arrays or arrays[wanted].shape != shape:
            raise InputError(f"{wanted} is missing or has another length", expected=str(shape))
    shares = {
        kind: np.stack([arrays[f"load_{power}_{kind}"] for power in ("p", "q")], axis=1)
        for kind in ("impedance", "current")
    }
    ends = [_positions(arrays, end, layout.buses) for end in ("branch_from", "branch_to")]
    return DetailedCase(
        name=name,
        buses=buses,
        base_mva=base_mva,
        frequency_hz=frequency_hz,
        branches=Branches(
            np.stack(ends, axis=1),
            arrays["branch_r"] + 1j * arrays["branch_x"],
            arrays["branch_b"],
            (arrays["branch_tap"] * np.exp(1j * arrays["branch_shift"])).astype(np.complex128),
        ),
        shunt=arrays["shunt_g"] + 1j * arrays["shunt_b"],
        loads=Loads(
            _positions(arrays, "load_bus", layout.buses),
            arrays["load_p"] + 1j * arrays["load_q"],
            shares["impedance"],
            shares["current"],
        ),
        units=Units(
            _positions(arrays, "unit_bus", layout.buses),
            arrays["unit_p"],
            arrays["unit_v"],
            layout.slack,
        ),
        devices=tuple(
            DeviceTable(
                model,
                _positions(arrays, f"{model}_{UNIT}", layout.units),
                {
                    parameter.name: arrays[f"{model}_{parameter.name}"]
                    for parameter in DEVICES[model].parameters
                },
            )
            for model in layout.devices
        ),
    )


def _positions(arrays: Mapping[str, Array], name: str, count: int) -> IntArray:
    """Positions from 0, of what counts from 1."""
    values = arrays[name]
    if not ((values >= 1) & (values <= count) & (values == np.round(values))).all():
        raise InputError(f"{name} points to what is not there", expected=f"1 to {count}")
    return values.astype(np.int64) - 1
