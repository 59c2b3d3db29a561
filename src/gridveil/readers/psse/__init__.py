"""PSS/E power flow cases (RAW, revisions 30 to 35) with their dynamics (DYR)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, IntArray
from gridveil.readers.network import (
    ISOLATED,
    BranchRecords,
    Buses,
    Complex,
    Details,
    FileGrid,
    LoadRecords,
    Machines,
    known_kv,
    unknown_dynamics,
)
from gridveil.readers.psse.records import Case, read_case
from gridveil.readers.psse.tables import SectionLayout, layout, read_table
from gridveil.readers.psse.windings import read_windings
from gridveil.readers.table import Flags, Rows, Table, bus_positions, check_labels

_OWNERS = "O1:i F1:f O2:i F2:f O3:i F3:f O4:i F4:f"
_STEPS = "".join(f" N{n}:i B{n}:f" for n in range(1, 9))
_STEPS_WITH_STATUS = "".join(f" S{n}:i N{n}:i B{n}:f" for n in range(1, 9))
# Sections that are counted and left out: how many lines an item takes, and what it is called.
LEFT_OUT = {
    "two-terminal DC": (3, "two-terminal DC lines"),
    "VSC DC": (3, "VSC DC lines"),
    "FACTS": (1, "FACTS devices"),
    "induction machine": (1, "induction machines"),
}
# Notes that hold for a swing model alone.
AT_FILE_VOLTAGE = "loads that depend on voltage taken at the file's voltage of their bus"
REMOTE = "machines hold the voltage of another bus: their own keeps the file's"


def read_psse(raw: Path, dyr: Path | None) -> FileGrid:
    """Read a RAW file, and the dynamics of its machines from a DYR file."""
    case = read_case(raw)
    notes = _left_out(case)
    with np.errstate(
        all="ignore"
    ):  # out-of-range numbers are refused when the grid is put together, by their row
        grid, loads, ids, sources = _grid(case, notes)
    network_notes = tuple(note for note in notes if not note.endswith((AT_FILE_VOLTAGE, REMOTE)))
    if dyr is None:
        return replace(grid, read_details=lambda: Details(loads=loads, notes=network_notes))
    from gridveil.readers.psse.devices import device_records
    from gridveil.readers.psse.dyr import read_dyr, with_dynamics

    dynamics = read_dyr(dyr)

    def read_details() -> Details:
        devices, left_out = device_records(dynamics, ids, grid.machines, sources)
        return Details(devices, loads, (*network_notes, *left_out))

    return replace(with_dynamics(grid, ids, dynamics), read_details=read_details)


def _grid(
    case: Case, notes: list[str]
) -> tuple[FileGrid, LoadRecords, list[tuple[int, str]], Sources]:
    bus = read_table(case.file, "bus", case.sections["bus"], _bus_layout(case.revision))
    numbers, kind = bus.integers("I"), bus.integers("IDE")
    bus.refuse(numbers <= 0, "column 1 (I) is no bus number", expected="a whole number above 0")
    bus.refuse(
        ~np.isin(kind, (1, 2, 3, 4)), "column 4 (IDE) is no bus type", expected="1, 2, 3 or 4"
    )
    check_labels(bus.where, numbers.tolist())
    known = {number: position for position, number in enumerate(numbers.tolist())}
    voltage, kv = bus.floats("VM"), bus.floats("BASKV")
    load, loads = _loads(case, known, voltage, notes)
    shunt = _shunts(case, bus, known, notes)
    machines, ids, sources = _machines(case, known, notes)
    lines, line_shunt = _branches(case, known, kind != ISOLATED)
    at_transformer, windings, stars = read_windings(case, known, kv, kind)
    shunt += line_shunt
    for group in windings:
        np.add.at(shunt, group.at, group.shunt)
    if corrected := sum(group.corrected for group in windings):
        notes.append(f"{corrected} transformer windings have their impedance corrected by a table")
    if len(stars.rows):
        notes.append(
            f"{len(stars.rows)} three-winding transformers read as a star bus with three branches"
        )

    n, extra = len(numbers), len(stars.rows)
    none = np.zeros(extra, dtype=complex)
    where = Rows.of((bus.where, range(n)), (at_transformer, stars.rows))
    grid = FileGrid(
        file=case.file,
        base_mva=case.base_mva,
        frequency_hz=case.frequency_hz,
        buses=Buses(
            where,
            np.arange(n + extra),
            labels=(*map(str, numbers.tolist()), *stars.labels),
            kind=np.concatenate([kind, stars.kind]),
            load=np.concatenate([load, none]),
            shunt=np.concatenate([shunt, none]),
            voltage=np.concatenate([voltage, stars.voltage]),
            angle=np.concatenate([np.deg2rad(bus.floats("VA")), stars.angle]),
            nominal_kv=known_kv(np.concatenate([kv, np.full(extra, np.nan)])),
        ),
        branches=BranchRecords.joined(*lines, *(group.branches for group in windings)),
        machines=machines,
        notes=tuple(notes),
    )
    return grid, loads, ids, sources


def _bus_layout(revision: int) -> SectionLayout:
    if revision == 30:
        return layout(
            "I:i=! NAME:t BASKV:f IDE:i=1 GL:f BL:f AREA:i ZONE:i VM:f=1 VA:f OWNER:i",
            "VA",
            range(4, 5),
        )
    limits = "" if revision < 33 else " NVHI:f NVLO:f EVHI:f EVLO:f"
    return layout(
        f"I:i=! NAME:t BASKV:f IDE:i=1 AREA:i ZONE:i OWNER:i VM:f=1 VA:f{limits}", "VA", range(4, 5)
    )


def _status(table: Table, name: str) -> Flags:
    status = table.integers(name)
    table.refuse(~np.isin(status, (0, 1)), f"{name} is unknown", expected="0 (out of service) or 1")
    return status == 1


def _identified(
    table: Table, known: dict[int, int], what: str, name: str = "ID"
) -> tuple[IntArray, list[tuple[int, str]]]:
    """Positions of the buses of a table, and the key (bus, identifier) of each row, which no other
    may have.
    """
    numbers, texts = table.columns["I"], table.columns[name]
    positions = bus_positions(table.where, "bus in column 1", numbers, known)
    # PSS/E's identifiers have two characters at most: anything longer is a figure from a column
    # that slipped.
    table.refuse(
        [not 1 <= len(text) <= 2 for text in texts],
        f"{name} is no identifier",
        expected="one or two characters",
    )
    keys = list(zip(numbers, texts, strict=True))
    table.refuse_twins(keys, f"{what} of a bus")
    return positions, keys


def _loads(
    case: Case, known: dict[int, int], voltage: Array, notes: list[str]
) -> tuple[Complex, LoadRecords]:
    """Loads in service at their bus's own voltage v: P = PL + IP v + YP v², Q = QL + IQ v − YQ v²,
    less what DGEN supplies; and the same one by one.
    """
    more = {30: "", 31: "", 32: " SCALE:i", 33: " SCALE:i INTRPT:i"}.get(case.revision)
    if more is None:
        more = " SCALE:i INTRPT:i DGENP:f DGENQ:f DGENM:i LOADTYPE:t"
    columns = f"I:i=! ID:t=1 STAT:i=1 AREA:i ZONE:i PL:f QL:f IP:f IQ:f YP:f YQ:f OWNER:i{more}"
    table = read_table(case.file, "load", case.sections["load"], layout(columns, "YQ", range(7, 8)))
    on = _status(table, "STAT")
    at, _ = _identified(table, known, "load")
    v = voltage[at]
    value = {name: table.floats(name) for name in ("PL", "QL", "IP", "IQ", "YP", "YQ")}
    power = value["PL"] + value["IP"] * v + value["YP"] * v * v
    reactive = value["QL"] + value["IQ"] * v - value["YQ"] * v * v
    total, supplied = power + 1j * reactive, 0.0
    dependent = on & np.any([value[name] != 0 for name in ("IP", "IQ", "YP", "YQ")], axis=0)
    if "DGENP" in table.columns:
        supplied = (table.floats("DGENP") + 1j * table.floats("DGENQ")) * (
            table.integers("DGENM") == 1
        )
        total = total - supplied
    if not on.all():
        notes.append(f"{int((~on).sum())} loads out of service left out")
    if dependent.any():
        notes.append(f"{int(dependent.sum())} {AT_FILE_VOLTAGE}")
    at_buses = np.zeros(len(voltage), dtype=complex)
    np.add.at(at_buses, at[on], total[on] / case.base_mva)
    loads = LoadRecords(
        table.where,
        np.arange(len(table)),
        bus=at,
        power=(value["PL"] + 1j * value["QL"] - supplied) / case.base_mva,
        current=(value["IP"] + 1j * value["IQ"]) / case.base_mva,
        admittance=(value["YP"] - 1j * value["YQ"]) / case.base_mva,
        declared=dependent,
    )
    return at_buses, loads.keep(on)


def _shunts(case: Case, bus: Table, known: dict[int, int], notes: list[str]) -> Complex:
    """Fixed shunts in service, and switched ones at their present susceptance BINIT."""
    shunt = np.zeros(len(bus), dtype=complex)
    if case.revision == 30:
        shunt += (bus.floats("GL") + 1j * bus.floats("BL")) / case.base_mva
    else:
        table = read_table(
            case.file,
            "fixed shunt",
            case.sections["fixed shunt"],
            layout("I:i=! ID:t=1 STATUS:i=1 GL:f BL:f NAME:t", "BL"),
        )
        on = _status(table, "STATUS")
        at, _ = _identified(table, known, "shunt")
        np.add.at(shunt, at[on], (table.floats("GL") + 1j * table.floats("BL"))[on] / case.base_mva)
    if case.revision < 32:
        columns = f"I:i=! MODSW:i=1 VSWHI:f VSWLO:f SWREM:i RMPCT:f RMIDNT:t BINIT:f{_STEPS}"
    elif case.revision < 35:
        columns = (
            "I:i=! MODSW:i=1 ADJM:i STAT:i=1 VSWHI:f VSWLO:f SWREM:i RMPCT:f RMIDNT:t "
            f"BINIT:f{_STEPS}"
        )
    else:
        columns = (
            "I:i=! ID:t=1 MODSW:i=1 ADJM:i STAT:i=1 VSWHI:f VSWLO:f SWREG:i NREG:i RMPCT:f "
            "RMIDNT:t BINIT:f" + _STEPS_WITH_STATUS
        )
    table = read_table(
        case.file, "switched shunt", case.sections["switched shunt"], layout(columns, "BINIT")
    )
    on = _status(table, "STAT") if "STAT" in table.columns else np.ones(len(table), dtype=bool)
    if "ID" in table.columns:
        at, _ = _identified(table, known, "switched shunt")
    else:
        at = bus_positions(table.where, "bus in column 1", table.columns["I"], known)
        table.refuse_twins(table.columns["I"], "switched shunt of a bus")
    np.add.at(shunt, at[on], 1j * table.floats("BINIT")[on] / case.base_mva)
    if on.any():
        notes.append(f"{int(on.sum())} switched shunts held at their present value")
    return shunt


def _machines(
    case: Case, known: dict[int, int], notes: list[str]
) -> tuple[Machines, list[tuple[int, str]], Sources]:
    records = case.sections["generator"]
    # Revision 34 writes NREG and BASLOD or not, depending on its minor release: told by the full
    # width.
    node = case.revision == 35 or (
        case.revision == 34 and any(len(record.fields) == 30 for record in records)
    )
    columns = (
        f"I:i=! ID:t=1 PG:f QG:f QT:f QB:f VS:f=1 IREG:i{' NREG:i' * node} MBASE:f=nan ZR:f ZX:f "
        f"RT:f XT:f GTAP:f STAT:i=1 RMPCT:f PT:f PB:f {'BASLOD:i ' * node}{_OWNERS} WMOD:i WPF:f"
    )
    table = read_table(case.file, "generator", records, layout(columns, "STAT", range(4, 5)))
    on = _status(table, "STAT")
    at, ids = _identified(table, known, "machine")
    regulated, own = np.abs(table.integers("IREG")), table.integers("I")
    remote = (regulated != 0) & (regulated != own)
    if (remote & on).any():
        notes.append(f"{int((remote & on).sum())} {REMOTE}")
    rated = table.floats("MBASE")
    rated = np.where(np.isnan(rated), case.base_mva, rated)
    units = len(at)
    machines = Machines(
        table.where,
        np.arange(units),
        bus=at,
        power=(table.floats("PG") + 1j * table.floats("QG")) / case.base_mva,
        set_point=np.where(remote, np.nan, table.floats("VS")),
        in_service=on,
        rated_mva=np.where(rated > 0, rated, np.nan),
        fuel=("",) * units,
        **unknown_dynamics(units),
    )
    sources = Sources(
        table.floats("ZR") + 1j * table.floats("ZX"),
        (table.floats("RT") != 0) | (table.floats("XT") != 0),
    )
    return machines, ids, sources


@dataclass(frozen=True, eq=False)
class Sources:
    """What a generator's record says about its dynamics, on its own base.

    impedance : (u,) ZSORCE [p.u.]; step_up : (u,) whether a transformer is part of the record.
    """

    impedance: Complex
    step_up: Flags


def _branches(
    case: Case, known: dict[int, int], alive: Flags
) -> tuple[list[BranchRecords], Complex]:
    """Lines and system switching devices, and the shunts at the ends of closed lines."""
    if case.revision < 34:
        columns = "I:i=! J:i=! CKT:t=1 R:f X:f=! B:f RATE*3:f GI:f BI:f GJ:f BJ:f ST:i=1 "
        columns += f"{'MET:i ' * (case.revision > 30)}LEN:f {_OWNERS}"
    else:
        columns = (
            "I:i=! J:i=! CKT:t=1 R:f X:f=! B:f NAME:t RATE*12:f GI:f BI:f GJ:f BJ:f ST:i=1 "
            f"MET:i LEN:f {_OWNERS}"
        )
    table = read_table(
        case.file, "branch", case.sections["branch"], layout(columns, "ST", range(5, 8))
    )
    on, ends = _status(table, "ST"), _ends(case, table, known)
    shunt = np.zeros(len(alive), dtype=complex)
    lit = on & alive[ends].all(axis=1)
    for side, letter in enumerate("IJ"):
        np.add.at(
            shunt,
            ends[lit, side],
            (table.floats(f"G{letter}") + 1j * table.floats(f"B{letter}"))[lit],
        )
    ones = np.ones(len(table), dtype=complex)
    series = table.floats("R") + 1j * table.floats("X")
    rows = np.arange(len(table))
    lines = BranchRecords(table.where, rows, ends, series, table.floats("B"), ones, on)
    if case.revision < 34:
        return [lines], shunt
    device = "switching device"
    table = read_table(
        case.file,
        device,
        case.sections[device],
        layout(
            "I:i=! J:i=! CKT:t=1 X:f RATE*12:f STAT:i=1 NSTAT:i=1 MET:i STYPE:i NAME:t",
            "STAT",
            range(3, 5),
        ),
    )
    devices = BranchRecords(
        table.where,
        np.arange(len(table)),
        _ends(case, table, known),
        (0 + 1j * table.floats("X")).astype(complex),
        np.zeros(len(table)),
        np.ones(len(table), dtype=complex),
        _status(table, "STAT"),
    )
    return [lines, devices], shunt


def _ends(case: Case, table: Table, known: dict[int, int]) -> IntArray:
    """Positions of the two ends; up to revision 30 a minus marks the metered one."""
    far = table.integers("J")
    numbers = (table.columns["I"], (np.abs(far) if case.revision == 30 else far).tolist())
    ends = np.array(
        [
            bus_positions(table.where, f"bus in column {n + 1}", ids, known)
            for n, ids in enumerate(numbers)
        ],
        dtype=np.int64,
    ).T.reshape(-1, 2)
    texts = table.columns["CKT"]
    table.refuse(
        [not 1 <= len(text) <= 2 for text in texts],
        "CKT is no identifier",
        expected="one or two characters",
    )
    table.refuse_twins(
        [(*sorted(pair), text) for pair, text in zip(ends.tolist(), texts, strict=True)], "branch"
    )
    return ends


def _left_out(case: Case) -> list[str]:
    """Count the equipment that is not read."""
    notes = []
    for name, (lines, what) in LEFT_OUT.items():
        if records := case.sections.get(name):
            notes.append(f"{-(-len(records) // lines)} {what} left out")
    if case.sections["multi-terminal DC"]:
        notes.append(f"{_multi_terminal(case)} multi-terminal DC lines left out")
    if records := case.sections.get("GNE"):
        notes.append(f"{len(records)} lines of GNE devices left out")
    if case.sections.get("substation"):
        notes.append("the nodes and switches inside substations left out")
    return notes


def _multi_terminal(case: Case) -> int:
    """Count multi-terminal DC lines: each has a line of its own, and one for every converter, DC
    bus and DC link.
    """
    count, following = 0, 0
    for record in case.sections["multi-terminal DC"]:
        if following:
            following -= 1
            continue
        count += 1
        sizes = [
            text
            for text in record.fields[1:4]
            if text is not None and text.isascii() and text.isdigit() and len(text) < 6
        ]
        if len(sizes) < 3:
            raise InputError(
                "the sizes of a multi-terminal DC line are missing",
                file=case.file,
                table="multi-terminal DC",
                row=record.row + 1,
                line=record.line,
                expected="NAME, NCONV, NDCBS, NDCLN",
            )
        following = sum(map(int, sizes))
    return count
