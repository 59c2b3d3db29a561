"""Devices of a PSS/E DYR file: each record's constants by name, on the machine's own base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gridveil.dynamics.detailed.fields import INERTIA, NAMES, PAIR, RECORDS, DyrRecord
from gridveil.foundation.reading import fortran_number
from gridveil.readers.network import DeviceRecord, Machines
from gridveil.readers.psse.dyr import (
    DyrDynamics,
    DyrEntry,
    Key,
    constants_of,
    entry_error,
    key_of,
    loose_key,
)
from gridveil.readers.table import Rows

if TYPE_CHECKING:
    from gridveil.readers.psse import Sources

# A user's model has its own name and seven numbers about itself before its constants.
USER_MODEL, USER_FIELDS = "USRMDL", 8
EVENTS = {"TOGGLE", "FAULT"}  # which ANDES adds to DYR files


def device_records(
    dynamics: DyrDynamics, ids: Sequence[Key], machines: Machines, sources: Sources
) -> tuple[tuple[DeviceRecord, ...], list[str]]:
    """List the devices of machines that the case has, and say which were left out.

    ids : bus and identifier of each machine. A model that is not known is listed by its name alone.
    """
    file, position = dynamics.file, {key: row for row, key in enumerate(ids)}
    entries = [_own(entry) for entry in dynamics.entries if entry.model not in EVENTS]
    where = Rows(
        file,
        "",
        [entry.line for entry in entries],
        [(entry.model, entry.row - 1) for entry in entries],
    )
    found: list[DeviceRecord] = []
    absent = 0
    for row, entry in enumerate(entries):
        name = NAMES.get(entry.model, entry.model)
        record = RECORDS.get(name)
        key = key_of(file, entry, entry.fields) if record else loose_key(entry)
        machine = None if key is None else position.get(key)
        if record is None:
            found.append(DeviceRecord(name, machine, where, row))
            continue
        constants = _constants(file, entry, record)
        if machine is None:
            absent += 1
            continue
        source = sources.impedance[machine]
        if record.source and sources.step_up[machine]:
            raise entry_error(
                file,
                entry,
                "the machine's generator record has a step-up transformer of its own",
                "RTRAN = XTRAN = 0 in the RAW file",
                "Put the transformer into the RAW file as a branch of its own.",
            )
        constants |= {own: constants[other] for own, other in record.same.items()}
        constants |= {
            own: float(source.real if part == "r" else source.imag)
            for own, part in record.source.items()
        }
        if INERTIA in constants:
            constants["M"] = 2 * constants.pop(INERTIA)
        found.append(
            DeviceRecord(name, machine, where, row, constants, float(machines.rated_mva[machine]))
        )
    notes = (
        [f"{absent} devices of {file} left out: the case does not have their machines"]
        if absent
        else []
    )
    return tuple(found), notes


def _own(entry: DyrEntry) -> DyrEntry:
    """A user's model under its own name."""
    if entry.model != USER_MODEL or len(entry.fields) < USER_FIELDS:
        return entry
    name = (entry.fields[1] or "").removeprefix("'").strip().upper()
    fields = [entry.fields[0], *entry.fields[USER_FIELDS:]]
    return entry._replace(model=name, fields=fields) if name.isidentifier() else entry


def _constants(file: str, entry: DyrEntry, record: DyrRecord) -> dict[str, float]:
    names, fields = record.constants, list(entry.fields[1:])
    if names[:2] == PAIR:
        if len(fields) > 1 and fortran_number(fields[0]) not in (None, 0):
            raise entry_error(
                file,
                entry,
                "the governor drives a second machine",
                "a governor of one machine, with 0 0 in place of the other",
                "Give each machine a governor of its own.",
            )
        names, fields = names[2:], fields[2:]
    if record.brief and len(fields) == len(record.brief):
        names = record.brief
    counts = range(len(names), len(names) + 1)
    values = constants_of(file, entry, fields, counts, frozenset(range(len(names))))
    return dict(zip(names, values, strict=True))
