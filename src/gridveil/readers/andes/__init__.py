"""ANDES case files (.xlsx and .json)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, IntArray
from gridveil.readers.andes.machines import BASE_MVA, FREQUENCY_HZ, GENERATORS, machines
from gridveil.readers.andes.models import BESIDE, IGNORED, KNOWN_COLUMNS, LEFT_OUT
from gridveil.readers.andes.tables import ANDES, buses_of, table_of_records, table_of_sheet
from gridveil.readers.governors import GOVERNORS
from gridveil.readers.network import (
    CONTROLLED,
    ISOLATED,
    LOAD,
    REFERENCE,
    BranchRecords,
    Buses,
    Complex,
    Details,
    FileGrid,
    known_kv,
)
from gridveil.readers.table import Rows, Table, check_labels, quoted, words

EXPECTED = "an ANDES case: tables Bus, Line, PV, Slack, …"
VOLTAGE_KV = 110.0  # ANDES's own, where a file says nothing
READ = {
    *words("Bus PQ PV Slack Shunt ShuntSw ShuntTD Line Jumper"),
    *GENERATORS,
    *GOVERNORS,
}
# Tables without devices of generating units; of the others, a detailed model knows what it can.
NO_DEVICES = {
    *words("Bus PQ PV Slack Shunt ShuntSw ShuntTD Line Jumper"),
    *IGNORED,
    *BESIDE,
}
Tables = Mapping[str, Table]


def read_andes_xlsx(path: Path) -> FileGrid:
    """Read an ANDES workbook: one sheet a model, the names of its parameters in the first row."""
    from gridveil.readers.andes.workbook import read_workbook

    sheets = read_workbook(path, expected=EXPECTED)
    return _grid(
        path.name,
        lambda name: table_of_sheet(path.name, name, sheets[name]),
        {name: len(sheet.rows) for name, sheet in sheets.items()},
    )


def read_andes_json(path: Path, document: Any) -> FileGrid:
    """Read an ANDES JSON file that was parsed already: one list of objects a model."""
    if not isinstance(document, dict):
        raise InputError("this is no ANDES case", file=path.name, expected=EXPECTED)
    return _grid(
        path.name,
        lambda name: table_of_records(path.name, name, document[name]),
        {
            name: len(records) if isinstance(records, list) else 0
            for name, records in document.items()
        },
    )


def _grid(file: str, table_of: Callable[[str], Table], sizes: Mapping[str, int]) -> FileGrid:
    """Turn tables into a grid in p.u. of the system base.

    table_of : reads a table by its name.
    sizes : rows of every table.
    """
    tables = {name: table_of(name) for name in sizes if name in READ or name == "_config"}
    for needed in ("Bus", "Line"):
        if not len(tables.get(needed, ())):
            raise InputError(
                f"table {needed} is missing or empty", file=file, table=needed, expected=EXPECTED
            )
    base_mva, frequency_hz = _config(tables)
    bus = tables["Bus"]
    labels = bus.labels("idx")
    check_labels(bus.where, labels)
    known = {label: position for position, label in enumerate(labels)}
    nominal_kv = bus.numbers("Vn", VOLTAGE_KV, above=0)
    connected = bus.flags("u", True)
    voltage, angle = bus.numbers("v0", 1.0, above=0), bus.numbers("a0", 0.0)
    kind = np.where(connected, LOAD, ISOLATED)
    for name, of_kind in (("PV", CONTROLLED), ("Slack", REFERENCE)):
        if table := tables.get(name):
            on = table.flags("u", True)
            at = buses_of(table, "bus", known)[on]
            kind[at[kind[at] != ISOLATED]] = of_kind
            if name == "Slack":
                angle[at] = table.numbers("a0", 0.0)[on]

    notes: list[str] = []
    units, machines_hz, owners = machines(file, tables, known, base_mva, notes)
    branches, at_ends = _branches(tables, known, nominal_kv, base_mva)
    shunt = at_ends + sum(
        _shunt(tables[name], known, nominal_kv, base_mva)
        for name in ("Shunt", "ShuntSw", "ShuntTD")
        if name in tables
    )

    def read_details() -> Details:
        from gridveil.readers.andes.devices import PLL_TABLE, device_records, load_records

        names = [
            name
            for name, size in sizes.items()
            if size and (name not in NO_DEVICES or name == PLL_TABLE)
        ]
        devices = device_records(table_of, names, owners, units, nominal_kv)
        loads = load_records(tables, table_of("ZIP") if sizes.get("ZIP") else None, known)
        read = {*names, "ZIP"}
        left_out = _left_out({name: size for name, size in sizes.items() if name not in read})
        return Details(devices, loads, (*notes, *_defaulted(tables), *left_out))

    return FileGrid(
        file=file,
        base_mva=base_mva,
        frequency_hz=machines_hz or frequency_hz,
        buses=Buses(
            bus.where,
            np.arange(len(bus)),
            labels=tuple(labels),
            kind=kind,
            load=_load(tables, known, notes),
            shunt=shunt,
            voltage=voltage,
            angle=angle,
            nominal_kv=known_kv(nominal_kv),
        ),
        branches=branches,
        machines=units,
        notes=(*notes, *_defaulted(tables), *_left_out(sizes)),
        read_details=read_details,
    )


def _config(tables: Tables) -> tuple[float, float]:
    """Base power [MVA] and frequency [Hz] of table _config, else ANDES's own."""
    settings = {"mva": BASE_MVA, "freq": FREQUENCY_HZ}
    if config := tables.get("_config"):
        sections, keys = config.texts("section"), config.texts("key")
        for row, (section, key) in enumerate(zip(sections, keys, strict=True)):
            if section == "System" and key in settings:
                where = Rows.of((config.where, [row]))
                cells = {name: cells[row : row + 1] for name, cells in config.columns.items()}
                settings[key] = float(Table(where, cells, ANDES).numbers("value", above=0)[0])
    return settings["mva"], settings["freq"]


def _load(tables: Tables, known: Mapping[str, int], notes: list[str]) -> Complex:
    load = np.zeros(len(known), dtype=complex)
    if table := tables.get("PQ"):
        at, on = buses_of(table, "bus", known), table.flags("u", True)
        np.add.at(load, at[on], (table.numbers("p0") + 1j * table.numbers("q0"))[on])
        if not on.all():
            notes.append(f"{int((~on).sum())} loads out of service left out")
    return load


def _shunt(table: Table, known: Mapping[str, int], nominal_kv: Array, base_mva: float) -> Complex:
    """Admittance of fixed shunts at every bus: from p.u. of Sn and Vn, times Zb/Zn."""
    shunt = np.zeros(len(known), dtype=complex)
    at, on = buses_of(table, "bus", known), table.flags("u", True)
    own_kv = table.numbers("Vn", VOLTAGE_KV, above=0)
    scale = (nominal_kv[at] / own_kv) ** 2 * table.numbers("Sn", BASE_MVA, above=0) / base_mva
    np.add.at(shunt, at[on], (scale * (table.numbers("g", 0.0) + 1j * table.numbers("b")))[on])
    return shunt


def _branches(
    tables: Tables, known: Mapping[str, int], nominal_kv: Array, base_mva: float
) -> tuple[BranchRecords, Complex]:
    """Lines, transformers and closed jumpers; and the admittance at every bus of what a line has at
    its ends beside b.

    Impedances are p.u. of Sn and Vn1: times Zn/Zb, as ANDES has it, with Zn = Vn1²/Sn and Zb =
    Vn²/base of the first bus.
    """
    line = tables["Line"]
    ends, on = _ends(line, known), line.flags("u", True)
    own_kv = line.numbers("Vn1", VOLTAGE_KV, above=0)
    scale = (
        (own_kv / nominal_kv[ends[:, 0]]) ** 2 * base_mva / line.numbers("Sn", BASE_MVA, above=0)
    )
    series: Complex = scale * (line.numbers("r", 1e-8) + 1j * line.numbers("x"))
    charging = line.numbers("b", 0.0) / scale
    tap = line.numbers("tap", 1.0, above=0)
    ratio = np.asarray(tap * np.exp(1j * line.numbers("phi", 0.0)), dtype=complex)
    at_ends = np.zeros(len(known), dtype=complex)
    for end, t in ((0, tap), (1, np.ones(len(line)))):
        own = (
            line.numbers(f"g{end + 1}", 0.0)
            + line.numbers("g", 0.0) / 2
            + 1j * line.numbers(f"b{end + 1}", 0.0)
        )
        np.add.at(at_ends, ends[on, end], (own / scale / t**2)[on])
    rows = np.arange(len(line))
    parts = [BranchRecords(line.where, rows, ends, series, charging, ratio, on)]
    if jumper := tables.get("Jumper"):
        none = np.zeros(len(jumper), dtype=complex)
        parts.append(
            BranchRecords(
                jumper.where,
                np.arange(len(jumper)),
                _ends(jumper, known),
                none,
                np.zeros(len(jumper)),
                none + 1,
                jumper.flags("u", True),
            )
        )
    return BranchRecords.joined(*parts), at_ends


def _ends(table: Table, known: Mapping[str, int]) -> IntArray:
    return np.stack([buses_of(table, end, known) for end in ("bus1", "bus2")], axis=1)


def _defaulted(tables: Tables) -> list[str]:
    """Name the empty cells that took ANDES's default, and columns that no model of ANDES has."""
    notes = [
        f"{sum(table.defaulted.values())} empty cells of table {name} took ANDES's default "
        f"({', '.join(table.defaulted)})"
        for name, table in tables.items()
        if table.defaulted
    ]
    for name, known in KNOWN_COLUMNS.items():
        if table := tables.get(name):
            strange = [column for column in table.columns if column and column not in known]
            if strange:
                notes.append(
                    f"{len(strange)} columns of table {name} that ANDES does not have left out"
                )
    return notes


def _left_out(sizes: Mapping[str, int]) -> list[str]:
    """Count what is not read, by kind."""
    notes: list[str] = []
    for kind, models in LEFT_OUT.items():
        found = {model: sizes[model] for model in models if sizes.get(model)}
        if found:
            names = ", ".join(f"{count} {model}" for model, count in found.items())
            notes.append(f"{sum(found.values())} {kind} ({names})")
    known = READ | set(IGNORED) | {model for models in LEFT_OUT.values() for model in models}
    strange = {name: size for name, size in sizes.items() if name not in known and size}
    if strange:
        shown = ", ".join(f"{size} {quoted(name[:20])}" for name, size in list(strange.items())[:8])
        notes.append(
            f"{sum(strange.values())} devices of unknown models left out "
            f"({shown}{', …' if len(strange) > 8 else ''})"
        )
    return notes
