"""The declared quantities of a detailed table: read from a case, and written into a released one.

What they are, with formulas and bounds, is declared in `grid.parameters`.
Zeros, signs and the kinds of devices are structure: public, and the same for neighbours. Ratings
are used nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.detailed.quantities import QUANTITIES
from gridveil.dynamics.detailed.typical import bases, constants, typical_quantity
from gridveil.foundation.errors import InputError
from gridveil.grid.case import DetailedCase, DeviceTable
from gridveil.grid.facts import Array, IntArray
from gridveil.grid.parameters import DETAILED, Asset, Parameter, parameters_of

Treatment = Literal["protect", "mean", "typical", "publish"]
Read = Callable[[DetailedCase], tuple[Array, IntArray]]
Write = Callable[[DetailedCase, Array], DetailedCase]


@dataclass(frozen=True)
class CaseEntry:
    """How a declared quantity is read from a case and written into one.

    parameter : what is declared of it: title, unit, asset, formula, bounds, α.
    treatment : protect (noise on items), mean (noise on the mean over all of them), typical (a
    public value, no ε) or publish; the default.
    read : entries (n,) of a case, and the positions (n,) of their assets among those of the kind.
    write : the case with other entries (n,) in the same order.
    """

    parameter: Parameter
    treatment: Treatment
    read: Read
    write: Write


def _reactance(case: DetailedCase) -> tuple[Array, IntArray]:
    x = np.abs(case.branches.series.imag)
    return x, np.arange(len(x))


def _with_reactance(case: DetailedCase, x: Array) -> DetailedCase:
    """Scale each branch to another reactance: r and b go along, in their ratio to x."""
    lines = case.branches
    factor = x / np.abs(lines.series.imag)
    lines = replace(lines, series=lines.series * factor, charging=lines.charging * factor)
    return replace(case, branches=lines)


def _charging(case: DetailedCase) -> tuple[Array, IntArray]:
    lines = case.branches
    at = np.flatnonzero(lines.charging)
    return np.abs(lines.charging[at] / lines.series.imag[at]), at


def _with_charging(case: DetailedCase, ratio: Array) -> DetailedCase:
    lines = case.branches
    at = np.flatnonzero(lines.charging)
    charging = lines.charging.copy()
    charging[at] = np.sign(charging[at]) * np.abs(lines.series.imag[at]) * ratio
    return replace(case, branches=replace(lines, charging=charging))


def _load(case: DetailedCase) -> tuple[Array, IntArray]:
    P = case.loads.power.real
    at = np.flatnonzero(P)
    return np.abs(P[at]), at


def _with_load(case: DetailedCase, P: Array) -> DetailedCase:
    """Scale each load to another active power, at its own Q/P."""
    at = np.flatnonzero(case.loads.power.real)
    power = case.loads.power.copy()
    power[at] *= P / np.abs(power[at].real)
    return replace(case, loads=replace(case.loads, power=power))


def _reactive_ratio(case: DetailedCase) -> tuple[Array, IntArray]:
    """Q/P, cut to its declared bounds: one load of hardly any P would rule their mean. Cutting
    moves neighbours no further apart.
    """
    power, public = case.loads.power, parameters_of(DETAILED)["q_ratio"].bounds
    at = np.flatnonzero(power.real)
    return np.clip(power[at].imag / power[at].real, public.lower, public.upper), at


def _with_reactive_ratio(case: DetailedCase, ratio: Array) -> DetailedCase:
    at = np.flatnonzero(case.loads.power.real)
    power = case.loads.power.copy()
    power[at] = power[at].real * (1 + 1j * ratio)
    return replace(case, loads=replace(case.loads, power=power))


def _shunt(case: DetailedCase) -> tuple[Array, IntArray]:
    b = case.shunt.imag
    values = np.abs(b[b != 0])
    return values, np.arange(len(values))


def _with_shunt(case: DetailedCase, b: Array) -> DetailedCase:
    shunt = case.shunt.copy()
    at = np.flatnonzero(shunt.imag)
    shunt[at] = shunt[at].real + 1j * np.sign(shunt[at].imag) * b
    return replace(case, shunt=shunt)


def _dispatch(case: DetailedCase) -> tuple[Array, IntArray]:
    at = np.flatnonzero(case.units.power)
    return np.abs(case.units.power[at]), at


def _with_dispatch(case: DetailedCase, P: Array) -> DetailedCase:
    at = np.flatnonzero(case.units.power)
    power = case.units.power.copy()
    power[at] = np.sign(power[at]) * P
    return replace(case, units=replace(case.units, power=power))


@dataclass(frozen=True, eq=False)
class _Having:
    """Devices of one table that have a quantity.

    there : (n,) which of the table's devices have it; columns : their constants; values : of the
    quantity, in units of measure (its typical value, or 1).
    """

    table: DeviceTable
    there: NDArray[np.bool_]
    columns: Mapping[str, Array]
    values: Array
    measure: Array


def _having(entry: str, case: DetailedCase, of_class: bool) -> list[_Having]:
    have = []
    for table in case.devices:
        if quantity := QUANTITIES[entry].get(table.model):
            columns = constants(table)
            there = quantity.get(columns) > 0
            columns = {name: values[there] for name, values in columns.items()}
            measure = np.ones(len(table.unit))
            if of_class:
                measure = typical_quantity(entry, table, case.base_mva)
            measure = measure[there]
            have.append(_Having(table, there, columns, quantity.get(columns) / measure, measure))
    return have


def _device_entry(entry: str, *, of_class: bool = False) -> tuple[Read, Write]:
    """Read and write a quantity of devices; of_class : in units of its model's typical one."""

    def read(case: DetailedCase) -> tuple[Array, IntArray]:
        have = _having(entry, case, of_class)
        units = [each.table.unit[each.there] for each in have]
        return (
            np.concatenate([np.empty(0), *(each.values for each in have)]),
            np.concatenate([np.empty(0, dtype=np.int64), *units]),
        )

    def write(case: DetailedCase, new: Array) -> DetailedCase:
        changed: dict[str, DeviceTable] = {}
        for each in _having(entry, case, of_class):
            model, own = each.table.model, new[: len(each.values)] * each.measure
            new = new[len(each.values) :]
            values = constants(each.table)
            put = QUANTITIES[entry][model].put(each.columns, bases(model), own)
            for name, column in put.items():
                values[name] = values[name].copy()
                values[name][each.there] = column
            changed[model] = replace(each.table, values=values)
        return replace(case, devices=tuple(changed.get(t.model, t) for t in case.devices))

    return read, write


# Default treatments, and how each entry is read and written, in the order of writing.
_TREATED: dict[str, tuple[Treatment, tuple[Read, Write]]] = {
    "x": ("protect", (_reactance, _with_reactance)),
    "b_ratio": ("mean", (_charging, _with_charging)),
    "b_shunt": ("protect", (_shunt, _with_shunt)),
    "p_load": ("protect", (_load, _with_load)),
    "q_ratio": ("protect", (_reactive_ratio, _with_reactive_ratio)),
    "p_gen": ("protect", (_dispatch, _with_dispatch)),
    "M": ("protect", _device_entry("M")),
    "x_machine": ("mean", _device_entry("x_machine")),
    "gov_gain": ("mean", _device_entry("gov_gain")),
    "gov_servo": ("mean", _device_entry("gov_servo", of_class=True)),
    "gov_lag": ("mean", _device_entry("gov_lag", of_class=True)),
    "gov_fast": ("mean", _device_entry("gov_fast", of_class=True)),
    "avr_gain": ("mean", _device_entry("avr_gain", of_class=True)),
    "avr_feedback": ("mean", _device_entry("avr_feedback", of_class=True)),
    "pss_gain": ("mean", _device_entry("pss_gain", of_class=True)),
}
ENTRIES: dict[str, CaseEntry] = {
    name: CaseEntry(parameters_of(DETAILED)[name], treatment, *both)
    for name, (treatment, both) in _TREATED.items()
}

# What of an asset's ε its items have, under one-asset; its means have the rest.
ITEM_SHARE: dict[Asset, Fraction] = {
    "line": Fraction(9, 10),
    "shunt": Fraction(1),
    "load": Fraction(3, 4),
    "machine": Fraction(2, 5),
}


def entries_of(case: DetailedCase) -> dict[str, tuple[Array, IntArray]]:
    """Entries (n,) of each declared quantity, and the positions (n,) of their assets among those of
    the kind: branches, units, loads, or buses with a shunt.
    """
    return {name: entry.read(case) for name, entry in ENTRIES.items()}


def released_case(public: DetailedCase, values: Mapping[str, Array]) -> DetailedCase:
    """Write released entries into a case of public values.

    values : (n,) of a quantity, or (1,) for all its entries alike; one that is left out is that of
    the typical device, of the size that the others say.
    """
    if unknown := values.keys() - ENTRIES.keys():
        raise InputError(
            f"a released case has no entries {', '.join(sorted(unknown))}",
            expected=f"some of {', '.join(ENTRIES)}",
        )
    case = public
    for name, entry in ENTRIES.items():
        if name not in values:
            continue
        new, there = np.asarray(values[name], dtype=float), entry.read(public)[0]
        if new.shape not in ((1,), there.shape):
            raise InputError(
                f"{name} has shape {new.shape}", expected=f"{there.shape}, or one for all"
            )
        case = entry.write(case, np.broadcast_to(new, there.shape))
    return case
