"""MATPOWER case files (.m)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import IntArray
from gridveil.readers.network import (
    Branches,
    Buses,
    FileGrid,
    Machines,
    Rows,
    bus_positions,
    check_labels,
    unknown,
)
from gridveil.readers.tables import Table, read_tables

WIDTHS = {"bus": 13, "gen": 10, "branch": 11}


def read_matpower(path: Path) -> FileGrid:
    """Read a MATPOWER `.m` file of version 2."""
    tables, numbers, texts = read_tables(path)
    return matpower_case(
        path.name, tables, numbers.get("baseMVA", float("nan")), texts.get("genfuel", ())
    )


@np.errstate(all="ignore")  # what overflows is refused later, by its row
def matpower_case(
    file: str, tables: Mapping[str, Table], base_mva: float, fuels: tuple[str, ...]
) -> FileGrid:
    """Turn the tables of a MATPOWER case, in its columns and units (MW, degrees, p.u.), into a
    grid.
    """
    for name, width in WIDTHS.items():
        if name not in tables:
            raise InputError(
                f"there is no table mpc.{name}",
                file=file,
                expected="a MATPOWER case of version 2 with mpc.bus, mpc.gen and mpc.branch",
                remedy="Check that this is a case file, and that it was copied whole.",
            )
        table = tables[name]
        if not len(table.values):
            what = "no machine" if name == "gen" else f"no {name}"
            raise InputError(
                f"{what}: table mpc.{name} is empty", file=file, expected="at least one row"
            )
        if table.values.shape[1] < width:
            raise table.error(
                0,
                f"the table has {table.values.shape[1]} columns",
                expected=f"MATPOWER case format 2: at least {width}",
            )
    if not (np.isfinite(base_mva) and base_mva > 0):
        raise InputError(
            "mpc.baseMVA is missing or unusable", file=file, expected="a finite number above 0"
        )
    bus, gen, branch = tables["bus"], tables["gen"], tables["branch"]
    numbers = bus.column(1, "bus number")
    for row in np.flatnonzero(~((numbers == np.round(numbers)) & (numbers > 0) & (numbers < 1e15))):
        raise bus.error(int(row), "column 1 is no bus number", expected="a whole number above 0")
    kind = bus.column(2, "type")
    for row in np.flatnonzero(~np.isin(kind, (1, 2, 3, 4))):
        raise bus.error(int(row), "column 2 is no bus type", expected="1, 2, 3 or 4")
    labels = tuple(f"{number:.0f}" for number in numbers)
    check_labels(Rows(file, bus.name, bus.lines), labels)
    known = {number: position for position, number in enumerate(numbers.tolist())}

    at_bus, at_gen, at_branch = (
        Rows(file, table.name, table.lines) for table in (bus, gen, branch)
    )
    ends = [
        bus_positions(
            at_branch,
            f"bus in column {column}",
            branch.column(column, "bus number").tolist(),
            known,
        )
        for column in (1, 2)
    ]
    ratio, units = branch.column(9, "ratio"), len(gen.values)
    if fuels and len(fuels) != units:
        raise InputError(
            f"mpc.genfuel has {len(fuels)} entries",
            file=file,
            expected=f"{units}, one for each row of mpc.gen",
        )
    rated = gen.column(7, "mBase")
    return FileGrid(
        file=file,
        base_mva=base_mva,
        frequency_hz=None,
        buses=Buses(
            at_bus,
            _rows(bus),
            labels=labels,
            kind=kind.astype(np.int64),
            load=(bus.column(3, "Pd") + 1j * bus.column(4, "Qd")) / base_mva,
            shunt=(bus.column(5, "Gs") + 1j * bus.column(6, "Bs")) / base_mva,
            voltage=bus.column(8, "Vm"),
            angle=np.deg2rad(bus.column(9, "Va")),
        ),
        branches=Branches(
            at_branch,
            _rows(branch),
            ends=np.stack(ends, axis=1),
            series=branch.column(3, "r") + 1j * branch.column(4, "x"),
            charging=branch.column(5, "b"),
            ratio=np.where(ratio == 0, 1.0, ratio)
            * np.exp(1j * np.deg2rad(branch.column(10, "angle"))),
            in_service=branch.column(11, "status") > 0,
        ),
        machines=Machines(
            at_gen,
            _rows(gen),
            bus=bus_positions(
                at_gen, "bus in column 1", gen.column(1, "bus number").tolist(), known
            ),
            power=(gen.column(2, "Pg") + 1j * gen.column(3, "Qg")) / base_mva,
            set_point=gen.column(6, "Vg"),
            in_service=gen.column(8, "status") > 0,
            rated_mva=np.where(rated > 0, rated, np.nan),
            fuel=fuels or ("",) * units,
            **{
                what: unknown(units)
                for what in ("inertia", "damping", "governor_rate", "droop_gain")
            },
        ),
        notes=_left_out(tables),
    )


def _left_out(tables: Mapping[str, Table]) -> tuple[str, ...]:
    lines = tables.get("dcline")
    running = (
        int((lines.values[:, 2] > 0).sum())
        if lines is not None and lines.values.shape[1] > 2
        else 0
    )
    return (
        (f"{running} DC lines (mpc.dcline) left out, and their power with them",) if running else ()
    )


def _rows(table: Table) -> IntArray:
    return np.arange(len(table.values))
