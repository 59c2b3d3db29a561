"""Public values of everything that a release does not draw: textbook devices on a plain network.

A public case has the structure of an owner's case (buses, ends of branches, kinds of devices, zeros
and signs, shares of the loads) and no other number of it but those that its owner publishes.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cache

import numpy as np

from gridveil.dynamics.detailed.device import Base
from gridveil.dynamics.detailed.quantities import QUANTITIES, behind_entries, proportion
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.foundation.errors import InputError
from gridveil.grid.case import DetailedCase, DeviceTable
from gridveil.grid.facts import Array

# A plain network: sizes on a base of 100 MVA. What matters of them is drawn, or cancels in a
# released case.
UNIT_MVA = 500.0
LOAD_MVA = 100.0
REACTANCE = 0.03
SHUNT = 0.5
# Of a line's reactance that a series capacitor takes away: lines have 25 to 75 %, often in two
# parts. A branch of negative x is one: as strong as its line, it would leave nothing of it.
COMPENSATION = 0.25
# r/x of overhead lines and of transformers, b/x of lines at 230 to 345 kV (Kundur 1994, table 6.1).
LINE_RESISTANCE = 0.1
TRANSFORMER_RESISTANCE = 0.03
CHARGING = 5.0
REACTIVE = 0.3
VOLTAGE = 1.0
# Constants whose filed zero or sign is no choice of structure: a typical one replaces any.
NEVER_STRUCTURE = frozenset({"KE"})
# Lead and lag times that are typical as a pair: where one of them is 0, the block is left out.
# A stabiliser of power or voltage has the gain of one of speed at 1 Hz, K/(2π M): 20 becomes 0.4.
OF_SPEED, OF_POWER = 20.0, 0.4
STABILISER_GAINS = {"IEEEST": "KS", "ST2CUT": "K1"}
LEAD_LAGS = {
    "IEEEST": (("T1", "T2"), ("T3", "T4")),
    "ST2CUT": (("T5", "T6"), ("T7", "T8"), ("T9", "T10")),
    "EXST1": (("TC", "TB"),),
    "ESST3A": (("TC", "TB"),),
}

OF_NETWORK = ("r", "tap", "set_point", "shunt_g")


@cache
def bases(model: str) -> dict[str, Base]:
    """The base of each constant of a device model."""
    return {parameter.name: parameter.base for parameter in DEVICES[model].parameters}


def constants(table: DeviceTable) -> dict[str, Array]:
    """All constants of a table's devices, those included that a file left out."""
    filled = DEVICES[table.model].filled(table.values, len(table.unit))
    return {name: np.asarray(values, dtype=float) for name, values in filled.items()}


def typical_quantity(entry: str, table: DeviceTable, base_mva: float) -> Array:
    """A declared quantity (n,) of the typical device of a table's model, of a public size."""
    size = UNIT_MVA / base_mva
    typical = {
        p.name: np.array([p.to_system(p.typical, size)]) for p in DEVICES[table.model].parameters
    }
    value = np.broadcast_to(QUANTITIES[entry][table.model].get(typical), len(table.unit))
    if entry == "pss_gain":
        return value * stabiliser_share(constants(table)["MODE"], size)
    return value


def publishable(case: DetailedCase) -> tuple[str, ...]:
    """Names of what is typical in a public case and may be published instead: r, tap, set_point,
    shunt_g, and each device constant, as MODEL.NAME, that no entry sets.

    r is published over x; a constant on the unit's base over what tells its size, such as xd/x'd.
    """
    free = (
        f"{table.model}.{name}"
        for table in case.devices
        for name in bases(table.model)
        if name not in behind_entries(table.model)
    )
    return (*OF_NETWORK, *free)


def public_case(case: DetailedCase, published: AbstractSet[str] = frozenset()) -> DetailedCase:
    """Replace every number of a case by a public one, except zeros, signs and what is published.

    published : names as `publishable` has them; the owner's choice, made without the data.
    """
    if unknown := published - set(publishable(case)):
        raise InputError(
            f"{', '.join(sorted(unknown))} cannot be published: "
            "no device has it, or an entry sets it",
            expected="r, tap, set_point, shunt_g, or a constant such as GENROU.Td10",
            outcome="Nothing was read.",
        )
    base = case.base_mva / 100
    lines, loads, units = case.branches, case.loads, case.units
    x = np.where(lines.series.imag > 0, 1.0, -COMPENSATION) * REACTANCE * base
    usual = np.where(lines.charging != 0, LINE_RESISTANCE, TRANSFORMER_RESISTANCE)
    filed_ratio = lines.series.real / lines.series.imag
    resistance = filed_ratio if "r" in published else np.sign(filed_ratio) * usual
    set_point = units.set_point if "set_point" in published else np.full(len(units.bus), VOLTAGE)
    return replace(
        case,
        branches=replace(
            lines,
            series=x * resistance + 1j * x,
            charging=np.sign(lines.charging) * REACTANCE * CHARGING / base,
            ratio=lines.ratio if "tap" in published else np.ones_like(lines.ratio),
        ),
        shunt=(case.shunt.real if "shunt_g" in published else 0.0)
        + 1j * np.sign(case.shunt.imag) * SHUNT / base,
        loads=replace(
            loads,
            power=np.sign(loads.power.real) * LOAD_MVA / case.base_mva * (1 + 1j * REACTIVE),
        ),
        units=replace(
            units,
            power=np.sign(units.power) * 0.8 * UNIT_MVA / case.base_mva,
            set_point=set_point,
        ),
        devices=tuple(
            _typical_table(table, UNIT_MVA / case.base_mva, published) for table in case.devices
        ),
    )


def stabiliser_share(mode: Array, size: float) -> Array:
    """What of the typical gain of a stabiliser of speed (MODE 1, 2) one of another signal has, on
    the system's base: power is MODE 3 and 4.
    """
    share = np.where(mode <= 2, 1.0, OF_POWER / OF_SPEED)
    return np.where((mode == 3) | (mode == 4), share / size, share)


def _typical_table(table: DeviceTable, size: float, published: AbstractSet[str]) -> DeviceTable:
    """The typical device at each unit, on the system's base.

    size : of a unit [p.u.].
    """
    device, filed = DEVICES[table.model], constants(table)
    values = {
        p.name: np.sign(filed[p.name]) * abs(p.to_system(p.typical, size))
        for p in device.parameters
    }
    for lead, lag in LEAD_LAGS.get(table.model, ()):
        absent = (filed[lead] == 0) | (filed[lag] == 0)
        values[lead], values[lag] = (np.where(absent, 0.0, values[n]) for n in (lead, lag))
    for name in NEVER_STRUCTURE & values.keys():
        values[name] = np.full(len(table.unit), device.parameter(name).typical)
    if (gain := STABILISER_GAINS.get(table.model)) is not None:
        values[gain] = values[gain] * stabiliser_share(filed["MODE"], size)
    free = {name for name in filed if f"{table.model}.{name}" in published} | set(device.modes)
    return replace(
        table,
        values=values
        | {
            name: filed[name]
            * proportion(table.model, bases(table.model)[name], values)
            / proportion(table.model, bases(table.model)[name], filed)
            for name in free
        },
    )
