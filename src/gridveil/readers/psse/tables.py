"""Tables of a PSS/E RAW file, read strictly: columns by name and kind, every defect by its row and
line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from math import isfinite
from typing import Any, NamedTuple

from gridveil.foundation.limits import LONGEST_NUMBER
from gridveil.foundation.reading import fortran_number
from gridveil.readers.psse.records import INTEGER, RawLine
from gridveil.readers.table import TYPED, Rows, Table


class Column(NamedTuple):
    """A column.

    kind : i(nteger), f(loat) or t(ext).
    default : what a blank means, else 0; "!" if it must not be.
    """

    name: str
    kind: str
    default: str


@dataclass(frozen=True)
class SectionLayout:
    """The columns of a section.

    needed : how many a row has at least.
    brief : how many a section of short rows may have.
    """

    columns: tuple[Column, ...]
    needed: int
    brief: range = range(0)


@cache
def layout(columns: str, last_needed: str, brief: range = range(0)) -> SectionLayout:
    """Read a layout from text: NAME:kind=default, several of one kind as RATE*12:f.

    >>> [column.name for column in layout("I:i R*2:f=0", "I").columns]
    ['I', 'R1', 'R2']
    """
    parts: list[Column] = []
    for word in columns.split():
        name, _, rest = word.partition(":")
        kind, _, default = rest.partition("=")
        stem, _, times = name.partition("*")
        parts += [
            Column(f"{stem}{n + 1}" if times else stem, kind, default)
            for n in range(int(times or 1))
        ]
    return SectionLayout(
        tuple(parts), [column.name for column in parts].index(last_needed) + 1, brief
    )


def read_table(file: str, name: str, records: Sequence[RawLine], shape: SectionLayout) -> Table:
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
    where = Rows(
        file, name, [record.line for record in records], [(name, record.row) for record in records]
    )
    for row, record in enumerate(records):
        if not least <= len(record.fields) <= count:
            raise where.error(
                row,
                f"the row has {len(record.fields)} columns",
                expected=f"{shape.needed} to {count}",
                remedy="Check whether the row was cut off, and the revision in the header.",
            )
    cells = zip_longest(*(record.fields for record in records), [None] * count)
    plain = [_plain(texts[:-1], column) for texts, column in zip(cells, columns, strict=True)]
    values = {
        column.name: cells_read
        for column, cells_read in zip(columns, plain, strict=True)
        if cells_read is not None
    }
    if len(values) < count:
        values = _cell_by_cell(where, records, columns)
    return Table(where, values, TYPED)


def _cell_by_cell(
    where: Rows, records: Sequence[RawLine], columns: Sequence[Column]
) -> dict[str, list[Any]]:
    """Convert values that are not all plain, and name the first that is bad."""
    values: dict[str, list[Any]] = {column.name: [] for column in columns}
    for row, record in enumerate(records):
        for position, column in enumerate(columns):
            text = record.fields[position] if position < len(record.fields) else None
            values[column.name].append(_value(text, column, position, where, row))
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


def _value(text: str | None, column: Column, position: int, where: Rows, row: int) -> Any:
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
    raise where.error(row, f"column {position + 1} ({column.name}) {problem}", expected=expected)
