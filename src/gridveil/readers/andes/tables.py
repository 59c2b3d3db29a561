"""Tables of ANDES's workbooks and JSON files: one a model, one row a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import zip_longest
from math import isfinite, isnan
from typing import Any

from gridveil.foundation.errors import InputError
from gridveil.foundation.reading import plain_number
from gridveil.grid.facts import IntArray
from gridveil.readers.andes.workbook import Sheet
from gridveil.readers.table import BITS, REMEDY, Dialect, Rows, Table, bus_positions

# In any column: products of a few stay finite, and nothing in a grid is of that size.
LARGEST = 1e15
SMALLEST = 1e-9  # of what is divided by
LONGEST_LABEL = 64


def _number(cell: Any) -> float | None:
    """A cell as a number. Text counts if it is nothing but a number: some writers save all as
    text.
    """
    if cell is None:
        return None
    if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
        raise TypeError
    if isinstance(cell, str):
        text = cell.strip()
        value = plain_number(text) if len(text) <= LONGEST_LABEL else None
        if value is None:
            raise ValueError
        return value
    return float(cell) if isinstance(cell, float) or abs(cell) < LARGEST else float("inf")


def _label(cell: Any) -> str | None:
    """Write an index as text, the same for 7, 7.0 and "7"."""
    text = cell.strip() if isinstance(cell, str) else ""
    if text and plain_number(text) is None:
        if len(text) > LONGEST_LABEL or not text.isprintable():
            raise ValueError
        return text
    value = _number(cell)
    if value is None or isnan(value):
        return None
    if not isfinite(value) or not value.is_integer() or abs(value) >= LARGEST:
        raise ValueError
    return f"{value:.0f}"


ANDES = Dialect(
    number=_number,
    truth=lambda cell: None if (number := _number(cell)) is None else BITS[number],
    label=_label,
    words="1 (in service) or 0",
    columns=("the columns of ANDES's model", REMEDY),
    largest=LARGEST,
    smallest=SMALLEST,
)


def table_of_sheet(file: str, name: str, sheet: Sheet) -> Table:
    """Take a sheet's first row as the names of its columns."""
    names = tuple("" if cell is None else str(cell).strip() for cell in sheet.header)
    if sheet.rows and not any(names):
        raise InputError(
            "the first row is blank",
            file=file,
            table=name,
            line=1,
            expected="the names of the columns",
        )
    where = Rows(file, name, sheet.lines)
    for column, times in Counter(names).items():
        if column and times > 1:
            raise InputError(
                "a column's name occurs twice",
                file=file,
                table=name,
                line=1,
                expected="each column once",
            )
    width = len(names)
    for position, row in enumerate(sheet.rows):
        if any(cell is not None for cell in row[width:]):
            raise where.error(
                position,
                "the row has more cells than the table has columns",
                expected=f"{width} columns",
            )
        for column, cell in zip(names, row, strict=False):
            # What a formula comes to is not in the file, or may be out of date.
            if isinstance(cell, str) and cell.startswith("=") and len(cell) > 1:
                raise where.error(
                    position,
                    f"column {column} holds a formula",
                    expected="plain numbers and text",
                    remedy="Paste it as values.",
                )
    cells = zip_longest(*sheet.rows, (None,) * width)
    return Table(where, {column: of[:-1] for column, of in zip(names, cells, strict=False)}, ANDES)


def table_of_records(file: str, name: str, records: Any) -> Table:
    """Take a JSON list of objects that all have the same keys."""
    where = Rows(file, name)
    if not isinstance(records, list):
        raise InputError(
            "the table is no list",
            file=file,
            table=name,
            expected="a list of objects, one a device",
        )
    names: tuple[str, ...] = ()
    for position, record in enumerate(records):
        if not isinstance(record, dict):
            raise where.error(
                position, "the row is no object", expected="an object with the model's columns"
            )
        names = names or tuple(record)
        if record.keys() != set(names):
            raise where.error(
                position,
                "the row has other columns than the first",
                expected="the same columns in every row",
            )
    columns = {column: [record[column] for record in records] for column in names}
    return Table(where, columns, ANDES)


def buses_of(table: Table, column: str, known: Mapping[str, int]) -> IntArray:
    """Positions of the buses that a column names."""
    return bus_positions(table.where, f"bus in {column}", table.labels(column), known)
