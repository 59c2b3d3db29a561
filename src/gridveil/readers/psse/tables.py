"""Tables of a PSS/E RAW file, read strictly: columns by name and kind, every defect by its row and
line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import LONGEST_NUMBER
from gridveil.foundation.reading import fortran_number
from gridveil.grid.facts import Array, IntArray
from gridveil.readers.network import Rows
from gridveil.readers.psse.records import INTEGER, Record


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of a section, by name."""

    file: str
    name: str
    rows: list[int]
    lines: list[int]
    columns: Mapping[str, list[Any]]

    def floats(self, name: str) -> Array:
        """A column of numbers."""
        return np.array(self.columns[name], dtype=float)

    def integers(self, name: str) -> IntArray:
        """A column of whole numbers."""
        return np.array(self.columns[name], dtype=np.int64)

    @property
    def where(self) -> Rows:
        """The places of the rows, for tables that hold all rows of their section."""
        return Rows(self.file, self.name, self.lines)

    def refuse(
        self, bad: Any, problem: str, *, expected: str, remedy: str = "Fix that row and try again."
    ) -> None:
        """Refuse the first row for which bad is true."""
        for position in np.flatnonzero(bad)[:1]:
            raise InputError(
                problem,
                file=self.file,
                table=self.name,
                row=self.rows[position] + 1,
                line=self.lines[position],
                expected=expected,
                remedy=remedy,
            )

    def refuse_twins(self, keys: Sequence[Any], what: str) -> None:
        """Refuse a record whose key another one has already."""
        seen: set[Any] = set()
        for position, key in enumerate(keys):
            if key in seen:
                self.refuse(
                    np.arange(len(keys)) == position,
                    f"the same {what} occurs twice",
                    expected="each once",
                )
            seen.add(key)


class Column(NamedTuple):
    """A column.

    kind : i(nteger), f(loat) or t(ext).
    default : what a blank means, else 0; "!" if it must not be.
    """

    name: str
    kind: str
    default: str


@dataclass(frozen=True)
class Layout:
    """The columns of a section.

    needed : how many a row has at least.
    brief : how many a section of short rows may have.
    """

    columns: tuple[Column, ...]
    needed: int
    brief: range = range(0)


@cache
def layout(columns: str, last_needed: str, brief: range = range(0)) -> Layout:
    """Read a layout from text: NAME:kind=default, several of one kind as RATE*12:f.

    >>> [column.name for column in layout("I:i R*2:f=0", "I").columns]
    ['I', 'R1', 'R2']
    """
    found: list[Column] = []
    for word in columns.split():
        name, _, rest = word.partition(":")
        kind, _, default = rest.partition("=")
        stem, _, times = name.partition("*")
        found += [
            Column(f"{stem}{n + 1}" if times else stem, kind, default)
            for n in range(int(times or 1))
        ]
    return Layout(tuple(found), [column.name for column in found].index(last_needed) + 1, brief)


def read_table(file: str, name: str, records: Sequence[Record], shape: Layout) -> Table:
    """Read records column by column; refuse a row that is too short or too long, or has the wrong
    kind of value.
    """
    columns, count = shape.columns, len(shape.columns)
    lengths = {len(record.fields) for record in records}
    least = shape.needed
    if len(lengths) == 1 and (length := next(iter(lengths))) in shape.brief:
        # a file that leaves all these columns to PSS/E's defaults; one short row among long ones is
        # cut off
        least = length
    for record in records:
        if not least <= len(record.fields) <= count:
            raise InputError(
                f"the row has {len(record.fields)} columns",
                file=file,
                table=name,
                row=record.row + 1,
                line=record.line,
                expected=f"{shape.needed} to {count}",
                remedy="Check whether the row was cut off, and the revision in the header.",
            )
    cells = zip_longest(*(record.fields for record in records), [None] * count)
    plain = [_plain(texts[:-1], column) for texts, column in zip(cells, columns, strict=True)]
    values = {
        column.name: found
        for column, found in zip(columns, plain, strict=True)
        if found is not None
    }
    if len(values) < count:
        values = _cell_by_cell(file, name, records, columns)
    return Table(
        file, name, [record.row for record in records], [record.line for record in records], values
    )


def _cell_by_cell(
    file: str, table: str, records: Sequence[Record], columns: Sequence[Column]
) -> dict[str, list[Any]]:
    """Convert values that are not all plain, and name the first that is bad."""
    values: dict[str, list[Any]] = {column.name: [] for column in columns}
    for record in records:
        for position, column in enumerate(columns):
            text = record.fields[position] if position < len(record.fields) else None
            values[column.name].append(_value(text, column, position, file, table, record))
    return values


def _plain(texts: Sequence[str | None], column: Column) -> list[Any] | None:
    """Convert a whole column at once where it holds nothing but plain values; this is what makes
    large files quick.
    """
    if None in texts and column.default in ("nan", "!"):
        return None
    default = column.default or ("" if column.kind == "t" else "0")
    filled = [default if text is None else text for text in texts]
    if column.kind == "t":
        return [text.removeprefix("'").strip() for text in filled]
    # With these characters alone, Python's numbers are Fortran's.
    if not re.fullmatch(r"[-+0-9]*" if column.kind == "i" else r"[-+0-9.eE]*", "".join(filled)):
        return None
    if max(map(len, filled), default=0) > (9 if column.kind == "i" else LONGEST_NUMBER):
        return None
    try:
        values = list(map(int if column.kind == "i" else float, filled))
    except ValueError:
        return None
    return values if all(map(isfinite, values)) else None


def _value(
    text: str | None, column: Column, position: int, file: str, table: str, record: Record
) -> Any:
    if text is None and column.default == "nan":
        return float("nan")
    if text is None:
        text = column.default or ("" if column.kind == "t" else "0")
    if text == "!":
        problem, expected = "is missing", "a value"
    elif column.kind == "t":
        return text.removeprefix("'").strip()
    elif column.kind == "i":
        if INTEGER.fullmatch(text):
            return int(text)
        problem, expected = "is no whole number", "a whole number"
    else:
        value = fortran_number(text)
        if value is not None and isfinite(value):
            return value
        finite = value is None and text.strip("+-").lower() not in ("nan", "inf", "infinity")
        problem, expected = (
            ("is not a number", "a plain number")
            if finite
            else ("is NaN or infinite", "a finite number")
        )
    # The text is not quoted: it may hold a private figure.
    raise InputError(
        f"column {position + 1} ({column.name}) {problem}",
        file=file,
        table=table,
        row=record.row + 1,
        line=record.line,
        expected=expected,
        remedy="Fix that row and try again.",
    )
