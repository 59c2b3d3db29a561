"""A grid as a folder of plain tables: buses.csv, branches.csv, machines.csv and system.toml or
system.csv.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import TABLE_BYTES
from gridveil.foundation.reading import csv_rows, read_bytes
from gridveil.foundation.toml import Declared, read_toml
from gridveil.grid.facts import IntArray
from gridveil.readers.network import (
    CONTROLLED,
    ISOLATED,
    LOAD,
    REFERENCE,
    BranchRecords,
    Buses,
    FileGrid,
    Machines,
    known_kv,
)
from gridveil.readers.table import TEXT, Rows, Table, bus_positions, check_labels

EXPECTED = "a table in CSV: a header and comma-separated rows in UTF-8"
KINDS = {"load": LOAD, "controlled": CONTROLLED, "reference": REFERENCE, "isolated": ISOLATED}
BUSES = (
    "kind",
    "load_mw",
    "load_mvar",
    "shunt_mw",
    "shunt_mvar",
    "voltage_pu",
    "angle_deg",
    "nominal_kv",
)
BRANCHES = ("r_pu", "b_pu", "tap_ratio", "phase_shift_deg", "in_service")
MACHINES = (
    "power_mw",
    "power_mvar",
    "set_point_pu",
    "in_service",
    "rated_mva",
    "fuel",
    "inertia_s",
    "damping_pu",
    "governor_rate_per_s",
    "droop_gain_pu",
)


POSITIVE = Field(gt=0, lt=1e15, strict=True, description="a finite number above 0")
COUNT = Field(gt=0, lt=1e15, multiple_of=1, strict=True, description="a whole number above 0")


class System(Declared):
    """What holds for the whole grid: base power [MVA], frequency [Hz], numbers of rows."""

    base_mva: Annotated[float, POSITIVE]
    frequency_hz: Annotated[float | None, POSITIVE] = None
    buses: Annotated[float | None, COUNT] = None
    branches: Annotated[float | None, COUNT] = None
    machines: Annotated[float | None, COUNT] = None


@np.errstate(all="ignore")  # what overflows is refused later, by its row
def read_csv_tables(folder: Path) -> FileGrid:
    """Read a folder of CSV tables, in p.u. of the base that system.toml or system.csv names, MW,
    Mvar and degrees.
    """
    system = _system(folder)
    base, name = system.base_mva, folder.resolve().name
    bus = _read(folder / "buses.csv", required=("bus",), optional=BUSES)
    branch = _read(
        folder / "branches.csv", required=("from_bus", "to_bus", "x_pu"), optional=BRANCHES
    )
    machine = _read(folder / "machines.csv", required=("bus",), optional=MACHINES)
    for table, rows in (("buses", bus), ("branches", branch), ("machines", machine)):
        count = getattr(system, table)
        if count is not None and len(rows) != count:
            raise InputError(
                f"the table has {len(rows)} rows",
                file=f"{table}.csv",
                expected=f"{count:.0f}, as the system's table says",
                remedy="Check whether the file was cut off.",
            )
    labels = tuple(bus.labels("bus"))
    check_labels(bus.where, labels)
    known = {label: position for position, label in enumerate(labels)}
    ends = [
        bus_positions(branch.where, f"bus in {column}", branch.labels(column), known)
        for column in ("from_bus", "to_bus")
    ]
    at = bus_positions(machine.where, "bus", machine.labels("bus"), known)
    ratio, shift = (
        branch.numbers("tap_ratio", 1.0, above=0),
        np.deg2rad(branch.numbers("phase_shift_deg", 0.0)),
    )
    return FileGrid(
        file=name,
        base_mva=base,
        frequency_hz=system.frequency_hz,
        buses=Buses(
            bus.where,
            np.arange(len(labels)),
            labels=labels,
            kind=_kinds(bus, at),
            load=(bus.numbers("load_mw", 0.0) + 1j * bus.numbers("load_mvar", 0.0)) / base,
            shunt=(bus.numbers("shunt_mw", 0.0) + 1j * bus.numbers("shunt_mvar", 0.0)) / base,
            voltage=bus.numbers("voltage_pu", 1.0, above=0),
            angle=np.deg2rad(bus.numbers("angle_deg", 0.0)),
            nominal_kv=known_kv(bus.numbers("nominal_kv", np.nan, above=0)),
        ),
        branches=BranchRecords(
            branch.where,
            np.arange(len(branch)),
            ends=np.stack(ends, axis=1),
            series=branch.numbers("r_pu", 0.0) + 1j * branch.numbers("x_pu"),
            charging=branch.numbers("b_pu", 0.0),
            ratio=ratio * np.cos(shift) + 1j * ratio * np.sin(shift),
            in_service=branch.flags("in_service", True),
        ),
        machines=Machines(
            machine.where,
            np.arange(len(at)),
            bus=at,
            power=(machine.numbers("power_mw", 0.0) + 1j * machine.numbers("power_mvar", 0.0))
            / base,
            set_point=machine.numbers("set_point_pu", np.nan, above=0),
            in_service=machine.flags("in_service", True),
            rated_mva=machine.numbers("rated_mva", np.nan, above=0),
            fuel=tuple(label or "" for label in machine.optional_labels("fuel")),
            inertia=machine.numbers("inertia_s", np.nan, lowest=0),
            damping=machine.numbers("damping_pu", np.nan, lowest=0),
            governor_rate=machine.numbers("governor_rate_per_s", np.nan, above=0),
            droop_gain=machine.numbers("droop_gain_pu", np.nan, lowest=0),
        ),
    )


def _kinds(bus: Table, machines: IntArray) -> IntArray:
    """Kinds of buses; without a column for it, a machine holds the voltage of its bus."""
    if "kind" not in bus.columns:
        kinds = np.full(len(bus), LOAD)
        kinds[machines] = CONTROLLED
        return kinds
    words = [str(word).lower() or "load" for word in bus.columns["kind"]]
    bus.refuse(
        [word not in KINDS for word in words],
        "column kind is unknown",
        expected=f"one of {', '.join(KINDS)}",
    )
    return np.array([KINDS[word] for word in words], dtype=np.int64)


def _read(path: Path, *, required: Sequence[str], optional: Sequence[str]) -> Table:
    """Read a table whose columns may stand in any order; an unknown one is refused, for it may be a
    typing error.
    """
    name = path.name
    header: list[str] = []
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, cells in csv_rows(read_bytes(path, EXPECTED, TABLE_BYTES), name, EXPECTED):
        if not header:
            header = cells
            _check_header(name, line, header, required, optional)
            continue
        rows.append(cells)
        lines.append(line)
        if len(cells) != len(header):  # at once: a file that is no table must not fill the memory
            raise Rows(name, "", lines).error(
                len(rows) - 1,
                f"the row has {len(cells)} columns",
                expected=f"{len(header)}, as in the header",
                remedy="Check whether the row was cut off.",
            )
    if not rows:
        raise InputError("the table is empty", file=name, expected="a header, and a row for each")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return Table(Rows(name, "", lines), columns, TEXT)


def _check_header(
    file: str, line: int, header: list[str], required: Sequence[str], optional: Sequence[str]
) -> None:
    known = (*required, *optional)
    for column in header:
        if column not in known or header.count(column) > 1:
            # A header is quoted only if it is a word: in a file without one, private figures stand
            # here.
            shown = (
                f"column {column!r}" if column.isidentifier() and len(column) < 40 else "a column"
            )
            problem = "occurs twice" if column in known else "is unknown"
            raise InputError(
                f"{shown} {problem}",
                file=file,
                line=line,
                expected=f"a header of {', '.join(known)}",
            )
    for column in required:
        if column not in header:
            raise InputError(
                f"column {column!r} is missing",
                file=file,
                line=line,
                expected=f"a header with {', '.join(required)}",
            )


def _system(folder: Path) -> System:
    """Read the base power, the frequency and, if it says them, the numbers of rows to expect."""
    toml, table = folder / "system.toml", folder / "system.csv"
    if toml.exists() and table.exists():
        raise InputError(
            "there are two system tables", file="system.toml and system.csv", expected="one of them"
        )
    if table.exists():
        name, rows = (
            table.name,
            _read(table, required=("base_mva",), optional=tuple(System.model_fields)[1:]),
        )
        if len(rows) != 1:
            raise InputError(f"the table has {len(rows)} rows", file=name, expected="one row")
        data: dict[str, Any] = {column: float(rows.numbers(column)[0]) for column in rows.columns}
    elif toml.exists():
        name, data = toml.name, read_toml(toml)
    else:
        raise InputError(
            "the folder holds no grid: there is neither system.toml nor system.csv",
            file=folder.name,
            expected="system.toml, buses.csv, branches.csv and machines.csv, or the XML files of a "
            "CGMES model",
            remedy=_no_tables(folder),
        )
    return System.read(name, data)


def _no_tables(folder: Path) -> str:
    if (folder / "buses.csv").exists():
        return "Put base_mva = 100 into system.toml."
    return (
        "This is a bundle: gridveil verify."
        if (folder / "SHA256SUMS").exists()
        else "Name a file, or another folder."
    )
