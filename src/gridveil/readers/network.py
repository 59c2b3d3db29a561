"""A grid as a file has it: what every reader returns, in p.u. of one base, before any policy is
applied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, IntArray

Complex = NDArray[np.complex128]
Flags = NDArray[np.bool_]
FIGURE = re.compile(r"\d[.,]\d|\d[eE][-+]?\d")
LOAD, CONTROLLED, REFERENCE, ISOLATED = (
    1,
    2,
    3,
    4,
)  # kinds of bus, as PSS/E and MATPOWER number them


@dataclass(frozen=True, eq=False)
class Rows:
    """Where the rows of a table stand, for errors.

    lines : (rows,) line numbers from 1, or None where a format has none.
    """

    file: str
    table: str
    lines: Sequence[int] | IntArray | None = None

    def error(self, row: int, problem: str, *, expected: str, remedy: str = "") -> InputError:
        """Say what is wrong with a row (from 0), by its place in the table and in the file; never
        by a private value.
        """
        return InputError(
            problem,
            file=self.file,
            table=self.table,
            row=row + 1,
            line=int(self.lines[row]) if self.lines is not None else None,
            expected=expected,
            remedy=remedy or "Fix that row and try again.",
        )


@dataclass(frozen=True, eq=False)
class JoinedRows(Rows):
    """Rows that come from several tables of a file. places : table and row (from 0) of each."""

    places: Sequence[tuple[str, int]] = ()

    @classmethod
    def of(cls, file: str, table: str, counts: Mapping[str, int]) -> JoinedRows:
        """Join whole tables, one after the other. counts : how many rows each has."""
        return cls(
            file,
            table,
            None,
            [(name, row) for name, count in counts.items() for row in range(count)],
        )

    def error(self, row: int, problem: str, *, expected: str, remedy: str = "") -> InputError:
        """Say what is wrong with a row, by its place in its own table."""
        table, own = self.places[row]
        line = int(self.lines[row]) if self.lines is not None else None
        remedy = remedy or "Fix that row and try again."
        return InputError(
            problem,
            file=self.file,
            table=table,
            row=own + 1,
            line=line,
            expected=expected,
            remedy=remedy,
        )


_Records = TypeVar("_Records", bound="Records")


@dataclass(frozen=True, eq=False)
class Records:
    """Columns of equal length, row by row from a file.

    rows : (n,) the row of the file each came from, from 0.
    """

    where: Rows
    rows: IntArray

    def keep(self: _Records, kept: Flags | IntArray) -> _Records:
        """The same with some rows only."""
        positions = np.flatnonzero(kept) if kept.dtype == bool else kept
        columns: dict[str, Any] = {}
        for f in fields(self):
            values = getattr(self, f.name)
            if isinstance(values, np.ndarray):
                columns[f.name] = values[positions]
            elif isinstance(values, tuple):
                columns[f.name] = tuple(values[i] for i in positions)
        return replace(self, **columns)

    def error(self, position: int, problem: str, *, expected: str, remedy: str = "") -> InputError:
        """Say what is wrong with a record, by the row that it came from."""
        return self.where.error(int(self.rows[position]), problem, expected=expected, remedy=remedy)

    def check_finite(self, optional: Sequence[str] = ()) -> None:
        """Refuse NaN and infinity; in optional columns NaN means that the file says nothing."""
        for f in fields(self):
            values = getattr(self, f.name)
            if isinstance(values, np.ndarray) and values.dtype.kind in "fc":
                bad = np.isinf(values) if f.name in optional else ~np.isfinite(values)
                if bad.any():
                    raise self.error(
                        int(np.flatnonzero(bad)[0]),
                        f"{f.name} is NaN or infinite",
                        expected="a finite number in every column",
                    )


@dataclass(frozen=True, eq=False)
class Buses(Records):
    """Buses. labels : the file's numbers or names; kind : LOAD, CONTROLLED, REFERENCE or ISOLATED.

    load : P + jQ consumed.
    shunt : admittance g + jb.
    voltage, angle : magnitude and angle [rad] as the file has them. All in p.u. of the system base.
    """

    labels: tuple[str, ...]
    kind: IntArray
    load: Complex
    shunt: Complex
    voltage: Array
    angle: Array


@dataclass(frozen=True, eq=False)
class Branches(Records):
    """Lines and transformers as π models.

    ends : (l, 2) positions of buses; series : r + jx [p.u.]; charging : total b [p.u.];
    ratio : complex tap t e^{jφ} at the first end, 1 for a line; in_service : whether it is closed.
    """

    ends: IntArray
    series: Complex
    charging: Array
    ratio: Complex
    in_service: Flags


@dataclass(frozen=True, eq=False)
class Machines(Records):
    """Generating units, each on its own row; those of one bus are summed later.

    bus : (u,) positions; power : P + jQ scheduled [p.u.]; set_point : voltage that it holds [p.u.];
    rated_mva : its own base, NaN if unknown; fuel : "" if unknown.
    On the system base, NaN where the file says nothing: inertia M = 2H [p.u. power · s / p.u.
    frequency], damping D [p.u. power / p.u. frequency], governor_rate T [1/s], droop_gain G = 1/R
    [p.u. power / p.u. frequency]. A file that has dynamics and gives a unit no governor says so
    with a droop_gain of 0.
    """

    bus: IntArray
    power: Complex
    set_point: Array
    in_service: Flags
    rated_mva: Array
    fuel: tuple[str, ...]
    inertia: Array
    damping: Array
    governor_rate: Array
    droop_gain: Array


@dataclass(frozen=True, eq=False)
class FileGrid:
    """All of a grid file.

    frequency_hz : nominal, None if the file does not say.
    notes : what its reader left out, counted.
    """

    file: str
    base_mva: float
    frequency_hz: float | None
    buses: Buses
    branches: Branches
    machines: Machines
    notes: tuple[str, ...] = ()


def bus_positions(where: Rows, what: str, ids: Sequence[Any], known: Mapping[Any, int]) -> IntArray:
    """Turn bus numbers of a table into positions; name the row of one that is unknown."""
    positions = np.empty(len(ids), dtype=np.int64)
    for row, number in enumerate(ids):
        position = known.get(number)
        if position is None:
            # A number is quoted only if it looks like a bus's: in a shifted row a private reactance
            # may stand here.
            shown = (
                f"bus {number:.0f}"
                if isinstance(number, (int, float)) and float(number).is_integer()
                else f"the {what}"
            )
            raise where.error(row, f"{shown} is unknown", expected="a bus of the bus table")
        positions[row] = position
    return positions


def check_labels(where: Rows, labels: Sequence[Any]) -> None:
    """Refuse a bus that occurs twice."""
    seen: set[Any] = set()
    for row, label in enumerate(labels):
        if label in seen:
            raise where.error(row, f"bus {quoted(label)} occurs twice", expected="each bus once")
        seen.add(label)


def quoted(name: Any) -> str:
    """A name of a file in an error, unless it looks like a figure: in a shifted row a private one
    may stand in its place.

    >>> quoted("north 4"), quoted(17), quoted("17.0076"), quoted("0,1029")
    ('north 4', '17', '…', '…')
    """
    return "…" if FIGURE.search(str(name)) else str(name)


def unknown(count: int) -> Array:
    """A column about which the file says nothing."""
    return np.full(count, np.nan)
