"""Transformers of a PSS/E RAW file: two windings become a branch, three a star bus with three
branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.foundation.reading import fortran_number
from gridveil.grid.facts import Array, IntArray
from gridveil.readers.network import ISOLATED, LOAD, BranchRecords, Complex
from gridveil.readers.psse.records import CUT_OFF, Case, RawLine, lines_after
from gridveil.readers.psse.tables import SectionLayout, layout, read_table
from gridveil.readers.table import Flags, Rows, Table, bus_positions

TABLE = "transformer"
HEAD = (
    "I:i=! J:i=! K:i CKT:t=1 CW:i=1 CZ:i=1 CM:i=1 MAG1:f MAG2:f NMETR:i=2 NAME:t STAT:i=1 O1:i "
    "F1:f O2:i F2:f O3:i F3:f O4:i F4:f VECGRP:t ZCOD:i"
)
PAIRS = ("12", "23", "31")
IMPEDANCE = "R12:f X12:f=! S12:f=nan"  # the columns of a third winding may stand there, unused
IMPEDANCES = IMPEDANCE + " R23:f X23:f=! S23:f=nan R31:f X31:f=! S31:f=nan VMSTAR:f=1 ANSTAR:f"
WINDING = (
    "WINDV:f=nan NOMV:f ANG:f RATE*{rates}:f COD:i CONT:i{node} RMA:f RMI:f VMA:f VMI:f "
    "NTP:i TAB:i CR:f CX:f CNXA:f"
)
# Which winding a three-winding transformer's STAT puts out of service.
OUT = {0: (1, 2, 3), 1: (), 2: (2,), 3: (3,), 4: (1,)}


@dataclass(frozen=True, eq=False)
class Windings:
    """What transformers add to the grid, a branch for each two windings or for each of three.

    branches : with the rows of the transformer table that they are from, and positions of star
    buses after the file's.
    at, shunt : buses with a magnetizing admittance, and that [p.u.].
    corrected : how many have their impedance corrected.
    """

    branches: BranchRecords
    at: IntArray
    shunt: Complex
    corrected: int


@dataclass(frozen=True, eq=False)
class Stars:
    """Star buses of transformers with three windings.

    voltage, angle : VMSTAR [p.u.] and ANSTAR [rad].
    """

    rows: IntArray
    labels: tuple[str, ...]
    kind: IntArray
    voltage: Array
    angle: Array


@dataclass(frozen=True, eq=False)
class _Reading:
    """A case with what the transformers need of its other sections."""

    case: Case
    kv: Array
    alive: Flags
    corrections: Mapping[int, tuple[Array, Complex]]
    head: Table
    parts: list[list[RawLine]]
    buses: Mapping[str, IntArray]


@np.errstate(
    all="ignore"
)  # out-of-range numbers are refused when the grid is put together, by their row
def read_windings(
    case: Case, known: Mapping[int, int], kv: Array, kind: IntArray
) -> tuple[Rows, list[Windings], Stars]:
    """Read the transformers: the place of each, their branches and star buses. kv : base voltage of
    each bus.

    Two windings: series (R + jX) F t2², ratio t1/t2 e^{jφ}. Three: to a star bus, series z_i F,
    ratio t_i e^{jφ_i}, with z_1 = (z_12 + z_31 − z_23)/2 and so on.
    F : impedance correction at the present tap.
    """
    heads, parts = _records(case)
    head = read_table(case.file, TABLE, heads, layout(HEAD, "STAT"))
    three = head.integers("K") != 0
    buses: dict[str, IntArray] = {}
    for name in "IJK":
        numbers = head.integers(name)
        used = numbers if name != "K" else np.where(three, numbers, head.integers("I"))
        buses[name] = bus_positions(head.where, f"bus {name}", used.tolist(), known)
    _check_heads(head, three)
    reading = _Reading(case, kv, kind != ISOLATED, _corrections(case), head, parts, buses)
    stars, branches = _three_windings(reading, np.flatnonzero(three))
    return head.where, [_two_windings(reading, np.flatnonzero(~three)), *branches], stars


def _two_windings(reading: _Reading, rows: IntArray) -> Windings:
    z, rated, _ = _impedances(reading, rows, PAIRS[:1])
    first, second = _winding(reading, rows, 1), _winding(reading, rows, 2, last="NOMV")
    factor = first.factor(reading.corrections)
    ends = np.stack([first.bus, second.bus], axis=1)
    closed = reading.head.integers("STAT")[rows] == 1
    lit = closed & reading.alive[ends].all(axis=1)
    series = z["12"] * factor * second.tap * second.tap
    ratio = (first.tap / second.tap * np.exp(1j * first.angle)).astype(np.complex128)
    none = np.zeros(len(rows))
    return Windings(
        BranchRecords(reading.head.where, rows, ends, series, none, ratio, closed),
        at=first.bus[lit],
        shunt=_magnetizing(reading, rows, rated, first)[lit],
        corrected=int((factor != 1).sum()),
    )


def _three_windings(reading: _Reading, rows: IntArray) -> tuple[Stars, list[Windings]]:
    z, rated, table = _impedances(reading, rows, PAIRS)
    columns = reading.head.columns
    status = [columns["STAT"][row] for row in rows]
    star = len(reading.kv) + np.arange(len(rows))
    windings: list[Windings] = []
    live = np.zeros(len(rows), dtype=bool)
    for w, (first, second, opposite) in enumerate(
        (("12", "31", "23"), ("12", "23", "31"), ("31", "23", "12")), start=1
    ):
        winding = _winding(reading, rows, w)
        factor = winding.factor(reading.corrections)
        closed = np.array([w not in OUT[code] for code in status], dtype=bool)
        lit = closed & reading.alive[winding.bus]
        live |= lit
        magnetized = lit if w == 1 else lit & False
        windings.append(
            Windings(
                BranchRecords(
                    reading.head.where,
                    rows,
                    ends=np.stack([winding.bus, star], axis=1),
                    series=(z[first] + z[second] - z[opposite]) / 2 * factor,
                    charging=np.zeros(len(rows)),
                    ratio=(winding.tap * np.exp(1j * winding.angle)).astype(np.complex128),
                    in_service=closed,
                ),
                at=winding.bus[magnetized],
                shunt=_magnetizing(reading, rows, rated, winding)[magnetized]
                if w == 1
                else np.zeros(0, dtype=complex),
                corrected=int((factor != 1).sum()),
            )
        )
    labels = tuple(
        "star-" + "-".join(str(columns[name][row]) for name in ("I", "J", "K", "CKT"))
        for row in rows
    )
    kind = np.where(live, LOAD, ISOLATED)
    return Stars(
        rows, labels, kind, table.floats("VMSTAR"), np.deg2rad(table.floats("ANSTAR"))
    ), windings


def _records(case: Case) -> tuple[list[RawLine], list[list[RawLine]]]:
    """Group the lines by transformer: the first line of each, and the three or four that follow."""
    heads: list[RawLine] = []
    parts: list[list[RawLine]] = []
    lines = iter(case.sections[TABLE])
    for line in lines:
        row = len(heads)
        heads.append(line._replace(row=row))
        following = lines_after(line)
        parts.append([other._replace(row=row) for other in islice(lines, following)])
        if len(parts[-1]) < following:
            raise InputError(
                "the record is not complete",
                file=case.file,
                table=TABLE,
                row=row + 1,
                line=line.line,
                expected="4 lines for two windings, 5 for three",
                remedy=CUT_OFF,
            )
    return heads, parts


def _check_heads(head: Table, three: Flags) -> None:
    for name in ("CW", "CZ"):
        head.refuse(
            ~np.isin(head.integers(name), (1, 2, 3)),
            f"{name} is unknown",
            expected=f"{name} = 1, 2 or 3",
        )
    head.refuse(~np.isin(head.integers("CM"), (1, 2)), "CM is unknown", expected="CM = 1 or 2")
    status = head.integers("STAT")
    head.refuse(
        (status < 0) | (status > np.where(three, 4, 1)),
        "STAT is unknown",
        expected="0 or 1; 0 to 4 with three windings",
    )
    head.refuse(
        [len(text) > 2 or not text for text in head.columns["CKT"]],
        "CKT is no identifier",
        expected="one or two characters",
    )
    triples = (head.columns[name] for name in ("I", "J", "K", "CKT"))
    head.refuse_twins(
        [(*sorted(buses), ckt) for *buses, ckt in zip(*triples, strict=True)], "transformer"
    )


def _impedances(
    reading: _Reading, rows: IntArray, pairs: Sequence[str]
) -> tuple[dict[str, Complex], Array, Table]:
    """Impedance between pairs of windings [p.u. of the system base], and SBASE1-2 [MVA].

    CZ = 1: p.u. of the system base; 2: p.u. of SBASE of the pair; 3: load loss [W] and |z| [p.u. of
    SBASE].
    """
    shape = (
        layout(IMPEDANCE + " UNUSED*8:f", "S12", range(2, 3))
        if len(pairs) == 1
        else layout(IMPEDANCES, "S31")
    )
    table = read_table(reading.case.file, TABLE, [reading.parts[row][0] for row in rows], shape)
    code, base_mva = reading.head.integers("CZ")[rows], reading.case.base_mva
    between: dict[str, Complex] = {}
    bases: list[Array] = []
    for pair in pairs:
        r, x, base = (table.floats(f"{letter}{pair}") for letter in "RXS")
        base = np.where(np.isnan(base), base_mva, base)
        table.refuse(
            (code != 1) & ~(base > 0),
            f"SBASE{pair[0]}-{pair[1]} is unusable",
            expected="MVA above 0",
        )
        r = np.where(code == 3, r / 1e6 / base, r)
        square = x * x - r * r
        table.refuse(
            (code == 3) & ~(square >= 0),
            "the load loss is larger than |z| allows",
            expected="R of at most |z|",
        )
        x = np.where(code == 3, np.sqrt(np.maximum(square, 0)), x)
        between[pair] = (r + 1j * x) * np.where(code == 1, 1.0, base_mva / base)
        bases.append(base)
    return between, bases[0], table


@dataclass(frozen=True, eq=False)
class _Winding:
    """A winding of each transformer.

    tap : t [p.u. of the bus's base].
    angle : φ [rad].
    nominal : NOMV over the bus's base.
    """

    table: Table
    bus: IntArray
    tap: Array
    angle: Array
    nominal: Array

    def factor(self, corrections: Mapping[int, tuple[Array, Complex]]) -> Complex:
        """The impedance correction of each winding, 1 where it names no table."""
        named = self.table.integers("TAB")
        self.table.refuse(
            [name != 0 and name not in corrections for name in named.tolist()],
            "the impedance correction table TAB is unknown",
            expected="0, or a table of the impedance correction data",
        )
        found = np.ones(len(named), dtype=complex)
        for position in np.flatnonzero(named):
            steps, values = corrections[int(named[position])]
            by_tap = steps.min() >= 0.5 and steps.max() <= 1.5
            at = self.tap[position] if by_tap else np.rad2deg(self.angle[position])
            found[position] = np.interp(at, steps, values.real) + 1j * np.interp(
                at, steps, values.imag
            )
        return found


def _winding(reading: _Reading, rows: IntArray, w: int, last: str = "ANG") -> _Winding:
    """Convert WINDV by CW: 1 p.u. of the bus's base, 2 kV, 3 p.u. of the winding's nominal voltage
    NOMV (0: the bus's).

    last : the last column that a line must have.
    """
    records = [reading.parts[row][w] for row in rows]
    table = read_table(
        reading.case.file, TABLE, records, _winding_layout(reading.case.revision, records, last)
    )
    bus = reading.buses["IJK"[w - 1]][rows]
    code, base = reading.head.integers("CW")[rows], reading.kv[bus]
    given, wound = table.floats("NOMV"), table.floats("WINDV")
    nominal = np.where(given == 0, 1.0, given / base)
    # Blank means nominal to PSS/E, and 0 to MATPOWER, which writes it for every transformer without
    # a tap.
    wound = np.where(np.isnan(wound) | (wound == 0), np.where(code == 2, base, 1.0), wound)
    table.refuse((wound < 0), f"WINDV{w} is unusable", expected="a winding voltage above 0")
    by_base = (code == 2) | ((code == 3) & (given != 0))
    table.refuse(
        by_base & ~(base > 0),
        f"CW needs the base voltage of the bus of winding {w}",
        expected="BASKV above 0",
    )
    table.refuse(
        (code == 3) & ~(nominal > 0),
        f"NOMV{w} is unusable",
        expected="a voltage above 0, or 0 for the bus's",
    )
    tap = np.select([code == 2, code == 3], [wound / base, wound * nominal], wound)
    return _Winding(table, bus, tap, np.deg2rad(table.floats("ANG")), nominal)


def _winding_layout(revision: int, records: Sequence[RawLine], last: str) -> SectionLayout:
    """The line of a winding; revision 34 writes NODE or not, depending on its minor release: told
    by the full width.
    """
    node = revision == 35 or (
        revision == 34 and any(len(record.fields) == 27 for record in records)
    )
    columns = WINDING.format(rates=3 if revision < 34 else 12, node=" NOD:i" if node else "")
    return layout(columns, last, range(1, 3))


def _magnetizing(reading: _Reading, rows: IntArray, rated: Array, first: _Winding) -> Complex:
    """Admittance g + jb at bus I [p.u. of the system base and the bus's base].

    CM = 1: MAG1, MAG2 as they are; 2: no-load loss [W] and exciting current [p.u. of SBASE1-2 and
    NOMV1].
    """
    mag1, mag2 = reading.head.floats("MAG1")[rows], reading.head.floats("MAG2")[rows]
    losses = reading.head.integers("CM")[rows] == 2
    scale = 1 / (reading.case.base_mva * first.nominal * first.nominal)
    g, y = mag1 / 1e6 * scale, mag2 * rated * scale
    square = y * y - g * g
    for bad, problem, expected in (
        (
            ~(first.nominal > 0),
            "CM = 2 needs NOMV1 and the base voltage of its bus",
            "voltages above 0",
        ),
        (
            ~(square >= 0),
            "the no-load loss MAG1 is larger than MAG2 allows",
            "a loss within the exciting current",
        ),
    ):
        of_table = np.zeros(len(reading.head), dtype=bool)
        of_table[rows[losses & bad]] = True
        reading.head.refuse(of_table, problem, expected=expected)
    return np.where(losses, g - 1j * np.sqrt(np.maximum(square, 0)), mag1 + 1j * mag2)


def _corrections(case: Case) -> dict[int, tuple[Array, Complex]]:
    """Read the impedance correction tables: T (tap or degrees) and factor F, real up to revision
    33, complex after.
    """
    width = 2 if case.revision < 34 else 3
    tables: dict[int, tuple[Array, Complex]] = {}
    name, values = 0, list[float]()
    records = case.sections["impedance correction"]
    for record in records:
        numbers = [fortran_number(text) for text in record.fields]
        place = {
            "file": case.file,
            "table": "impedance correction",
            "row": record.row + 1,
            "line": record.line,
        }
        if any(value is None or not isfinite(value) for value in numbers):
            raise InputError("a column is no finite number", **place, expected="plain numbers")
        fresh = [value for value in numbers if value is not None]
        if not values:
            name, fresh = int(fresh[0]) if abs(fresh[0]) < 1e9 else 0, fresh[1:]
            if name <= 0 or name in tables:
                raise InputError(
                    "the table's number is unusable or occurs twice",
                    **place,
                    expected="a number above 0, each once",
                )
        values += fresh
        points = np.array(values[: len(values) // width * width], dtype=float).reshape(-1, width)
        end = np.flatnonzero((points == 0).all(axis=1))
        if width == 3 and not len(end) and record.row + 1 < len(records):
            continue  # it goes on in the next line, up to a point of zeros
        points = points[: end[0]] if len(end) else points
        if len(points) < 2 or (np.diff(points[:, 0]) <= 0).any():
            raise InputError(
                "the table is too short, or its T do not rise",
                **place,
                expected="at least two points, T rising",
            )
        tables[name] = (points[:, 0], points[:, 1] + (1j * points[:, 2] if width == 3 else 0j))
        values = []
    return tables
