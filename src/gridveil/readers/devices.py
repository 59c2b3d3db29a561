"""From the records of a file to devices of the registry, on the system base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.grid.case import DeviceTable
from gridveil.readers.dynamics import Detailed
from gridveil.readers.network import DeviceRecord, FileGrid
from gridveil.readers.roles import CONVERTER_CONTROL, LIMITER, role_of
from gridveil.readers.table import quoted, words

# The device that stands in for one of its role.
TYPICAL = {
    "machine": "GENROU",
    "inverter": "REGFM_A1",
    "exciter": "SEXS",
    "governor": "TGOV1",
    "stabiliser": "IEEEST",
}
SOURCES = ("machine", "inverter")  # one of them drives a unit
WITHOUT_FIELD = {"GENCLS"}  # an exciter has nothing to act on
ABOVE_0 = frozenset(words("M R xd xq xd1 xq1 xd2 xq2 Td10 Td20 Tq10 Tq20"))
Devices = dict[str, tuple[str, Mapping[str, float]]]  # model and values by role


@dataclass
class Reading:
    """Devices while they are read.

    grid : in service, one island. at : labels of the units' own buses.
    units : devices of each unit, by role. counts : what notes will say.
    """

    grid: FileGrid
    at: Sequence[str]
    detailed: Detailed
    units: list[Devices] = field(default_factory=list)
    replaced: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    beside: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.units = [{} for _ in self.at]


def has_controls(grid: FileGrid) -> bool:
    """Whether a file has devices that a swing model has no place for: exciters, stabilisers,
    inverters.
    """
    roles = {role_of(record.model) for record in grid.devices}
    return not roles.isdisjoint({"exciter", "stabiliser", "inverter"})


def device_tables(
    grid: FileGrid,
    records: Sequence[DeviceRecord],
    at: Sequence[str],
    detailed: Detailed,
    notes: list[str],
) -> tuple[DeviceTable, ...]:
    """Give every unit its devices, on the system base, and say in notes what was replaced.

    at : (u,) label of each unit's own bus, which may have been merged into another.
    """
    reading = Reading(grid, at, detailed)
    position = {int(row): unit for unit, row in enumerate(grid.machines.rows)}
    for record in records:
        if record.machine is None:
            _unowned(reading, record)
        elif record.machine in position:
            _place(reading, record, position[record.machine])
    without = [
        unit for unit, own in enumerate(reading.units) if not any(role in own for role in SOURCES)
    ]
    for unit in without:
        _typical_machine(reading, unit, len(without))
    for own in reading.units:
        _leave_idle(reading, own)
    _say(reading, len(without), notes)
    return _tables(reading.units)


def _place(reading: Reading, record: DeviceRecord, unit: int) -> None:
    """Give a unit the device of a record, or the typical one of its role."""
    bus, model = reading.at[unit], record.model
    if model in DEVICES:
        role = DEVICES[model].role
        chosen = (model, _values(reading, record, bus))
    else:
        role = _role_of_unknown(reading, record, f" of the unit at bus {bus}")
        if role is None:
            return
        chosen = _typical(reading, unit, role)
        reading.replaced[model] += 1
    own = reading.units[unit]
    rivals = SOURCES if role in SOURCES else (role,)
    if any(rival in own for rival in rivals):
        raise record.error(
            f"the unit at bus {bus} has two devices of the kind {role}",
            expected="one machine or inverter, one exciter, one governor and one stabiliser",
        )
    own[role] = chosen


def _unowned(reading: Reading, record: DeviceRecord) -> None:
    """Refuse, or leave out, a device that belongs to no unit."""
    if reading.detailed.unknown_devices == "typical" and role_of(record.model) is None:
        reading.beside[record.model] += 1
    elif _role_of_unknown(reading, record, "") is not None:
        raise record.error(
            f"the device {_name(record)} belongs to no unit of the case",
            expected="the bus and identifier, or the index, of a unit",
        )


def _role_of_unknown(reading: Reading, record: DeviceRecord, whose: str) -> str | None:
    """The role of a device whose model is not known; None if it is left out."""
    role = role_of(record.model)
    placed = role in (LIMITER, CONVERTER_CONTROL) or TYPICAL.get(role or "") in DEVICES
    if reading.detailed.unknown_devices == "refuse" or role is None or not placed:
        others = ", ".join(DEVICES)
        raise record.error(
            f"the model {_name(record)}{whose} is not known",
            expected=f"one of {others}",
            remedy="Take the record out of the file: no typical device can stand in for it."
            if not placed
            else "Give the unit one of these, or choose unknown_devices = typical, which puts its "
            "role's typical device in its place.",
        )
    if role in (LIMITER, CONVERTER_CONTROL):
        reading.left_out[record.model] += 1
        return None
    return role


def _name(record: DeviceRecord) -> str:
    return quoted(record.model[:20])


def _values(reading: Reading, record: DeviceRecord, bus: str) -> dict[str, float]:
    """Values of all parameters of a known model, on the system base."""
    share, device = record.base_mva / reading.grid.base_mva, DEVICES[record.model]
    parameters = tuple(
        replace(own, base=record.bases.get(own.name, own.base)) for own in device.parameters
    )
    filed = {own.name: record.constants.get(own.name, own.default) for own in parameters}
    if not share > 0 and any(own.base != "none" for own in parameters):
        raise record.error(
            f"the unit at bus {bus} has no MVA base, on which {record.model} gives its constants",
            expected="a base above 0",
        )
    with np.errstate(all="ignore"):  # what is not finite is refused below
        found = replace(device, parameters=parameters).to_system(filed, share)
    for own in parameters:
        if own.base == "impedance":
            found[own.name] *= record.kv_ratio**2
        value = found[own.name] = float(found[own.name])
        if not np.isfinite(value) or (own.name in ABOVE_0 and not value > 0):
            raise record.error(
                f"{own.name} of the {_name(record)} of the unit at bus {bus} is not usable",
                expected="a finite number above 0" if own.name in ABOVE_0 else "a finite number",
            )
    return found


def _typical(reading: Reading, unit: int, role: str) -> tuple[str, Mapping[str, float]]:
    """The typical device of a role, scaled to the unit's rating."""
    machines, model = reading.grid.machines, TYPICAL[role]
    share = machines.rated_mva[unit] / reading.grid.base_mva
    if not share > 0:
        raise machines.error(
            unit,
            f"the unit at bus {reading.at[unit]} has no rated MVA, which a typical device needs",
            expected="a rated power above 0",
        )
    device = DEVICES[model]
    typical = {own.name: own.typical for own in device.parameters}
    return model, {name: float(value) for name, value in device.to_system(typical, share).items()}


def _typical_machine(reading: Reading, unit: int, count: int) -> None:
    """Give a unit a typical machine, or refuse it by its bus."""
    if reading.detailed.without_machine == "refuse":
        others = f" (and {count - 1} others)" if count > 1 else ""
        known = ", ".join(name for name, device in DEVICES.items() if device.role in SOURCES)
        raise reading.grid.machines.error(
            unit,
            f"the unit at bus {reading.at[unit]}{others} has no machine or inverter model",
            expected=f"one of {known}",
            remedy="Give it one, or choose without_machine = typical.",
        )
    reading.units[unit]["machine"] = _typical(reading, unit, "machine")


def _leave_idle(reading: Reading, own: Devices) -> None:
    """Leave out controls that have nothing to act on."""
    machine = own.get("machine")
    idle = []
    if machine is None:
        idle = ["exciter", "governor", "stabiliser"]
    elif machine[0] in WITHOUT_FIELD:
        idle = ["exciter", "stabiliser"]
    elif "exciter" not in own:
        idle = ["stabiliser"]
    for role in idle:
        if role in own:
            reading.left_out[own.pop(role)[0]] += 1


def _say(reading: Reading, without: int, notes: list[str]) -> None:
    def listed(counts: Counter[str]) -> str:
        return ", ".join(f"{counts[name]} {quoted(name[:20])}" for name in sorted(counts))

    if reading.replaced:
        notes.append(f"typical devices in place of {listed(reading.replaced)}")
    if reading.left_out:
        notes.append(
            f"{listed(reading.left_out)} left out: they have nothing to act on, or act on "
            "limits alone"
        )
    if reading.beside:
        notes.append(f"{listed(reading.beside)} left out: they belong to no unit")
    if without:
        notes.append(f"{without} units without a machine model got a typical machine")


def _tables(units: Sequence[Devices]) -> tuple[DeviceTable, ...]:
    """Collect devices by model, in the order of the registry and of the units."""
    by_model: dict[str, list[tuple[int, Mapping[str, float]]]] = {}
    for unit, own in enumerate(units):
        for model, values in own.values():
            by_model.setdefault(model, []).append((unit, values))
    return tuple(
        DeviceTable(
            model,
            np.array([unit for unit, _ in rows]),
            {
                own.name: np.array([values[own.name] for _, values in rows])
                for own in DEVICES[model].parameters
            },
        )
        for model in DEVICES
        if (rows := by_model.get(model))
    )
