"""Tables of named columns, as ANDES's workbooks and JSON files hold them: one a model, one row a
device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan
from typing import Any, Literal

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.foundation.reading import plain_number
from gridveil.grid.facts import Array, IntArray
from gridveil.readers.andes.workbook import Sheet
from gridveil.readers.network import Flags, Rows, quoted

Sign = Literal["any", "positive", "not negative"]
SIGNS: Mapping[Sign, str] = {
    "any": "a finite number",
    "positive": "a number above 0",
    "not negative": "a number of 0 or more",
}
LARGEST = (
    1e15  # in any column: products of a few stay finite, and nothing in a grid is of that size
)
SMALLEST = 1e-9  # of what is divided by
LONGEST_LABEL = 64


@dataclass(frozen=True, eq=False)
class Table:
    """A model's devices.

    columns : their names.
    rows : their cells.
    defaulted : empty cells that took ANDES's default.
    """

    where: Rows
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    defaulted: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.rows)

    def cells(self, column: str) -> list[Any] | None:
        """A column's cells as they are; None if there is no such column."""
        if column not in self.columns:
            return None
        position = self.columns.index(column)
        return [row[position] for row in self.rows]

    def numbers(
        self,
        column: str,
        default: float | None = None,
        *,
        sign: Sign = "any",
        nan_is_empty: bool = False,
        needed: bool = False,
    ) -> Array:
        """Take a column of numbers.

        default : for empty cells, and for the column if it is not there unless it is needed; None:
        all must be given.
        nan_is_empty : whether NaN says that nothing is given, as ANDES writes it in JSON.
        """
        cells = self.cells(column)
        if cells is None:
            if default is None or needed:
                raise self._no_column(column)
            return np.full(len(self), default)
        values = np.empty(len(self))
        for row, cell in enumerate(cells):
            value = _number(cell)
            if value is None or (nan_is_empty and isnan(value)):
                if cell is not None and value is None:
                    raise self.error(row, f"column {column} is not a number", expected=SIGNS[sign])
                if default is None:
                    raise self.error(row, f"column {column} is empty", expected=SIGNS[sign])
                values[row] = default
                if not nan_is_empty:
                    self.defaulted[column] += 1
                continue
            low = {"any": -LARGEST, "positive": SMALLEST, "not negative": 0.0}[sign]
            if not isfinite(value):
                raise self.error(row, f"column {column} is NaN or infinite", expected=SIGNS[sign])
            if not low <= value <= LARGEST:
                raise self.error(
                    row,
                    f"column {column} is not usable",
                    expected=f"{SIGNS[sign]}, of a size that a grid has",
                )
            values[row] = value
        return values

    def flags(self) -> Flags:
        """Take column u: whether a device is in service, which it is unless the file says
        otherwise.
        """
        values = self.numbers("u", 1.0)
        bad = np.flatnonzero((values != 0) & (values != 1))
        if len(bad):
            raise self.error(int(bad[0]), "column u is no status", expected="1 (in service) or 0")
        return values == 1

    def labels(self, column: str) -> list[str]:
        """Take a column of indices (whole numbers or names) that must all be given."""
        cells = self.cells(column)
        if cells is None:
            raise self._no_column(column)
        found: list[str] = []
        for row, cell in enumerate(cells):
            label = label_of(cell)
            if label is None:  # not quoted: in a shifted row a private value may stand here
                raise self.error(
                    row, f"column {column} is no index", expected="a whole number or a name"
                )
            found.append(label)
        return found

    def optional_labels(self, column: str) -> list[str | None]:
        """Take a column of indices of which some or all may be missing."""
        cells = self.cells(column) or [None] * len(self)
        labels = [label_of(cell) for cell in cells]
        for row, (cell, label) in enumerate(zip(cells, labels, strict=True)):
            if label is None and cell is not None and not (isinstance(cell, float) and isnan(cell)):
                raise self.error(
                    row,
                    f"column {column} is no index",
                    expected="a whole number, a name or nothing",
                )
        return labels

    def buses(self, column: str, known: Mapping[str, int]) -> IntArray:
        """Take a column of buses, as positions."""
        labels = self.labels(column)
        for row, label in enumerate(labels):
            if label not in known:
                raise self.error(
                    row, f"bus {quoted(label)} is unknown", expected="a bus of table Bus"
                )
        return np.array([known[label] for label in labels], dtype=np.int64)

    def error(self, row: int, problem: str, *, expected: str, remedy: str = "") -> InputError:
        """Say what is wrong with a row (from 0)."""
        return self.where.error(row, problem, expected=expected, remedy=remedy)

    def _no_column(self, column: str) -> InputError:
        return InputError(
            f"column {column} is missing",
            file=self.where.file,
            table=self.where.table,
            expected="the columns of ANDES's model",
        )


def label_of(cell: Any) -> str | None:
    """Write an index as text, the same for 7, 7.0 and "7"; None if it is empty or none."""
    if isinstance(cell, str):
        text = cell.strip()
        if plain_number(text) is None:
            return text if 0 < len(text) <= LONGEST_LABEL and text.isprintable() else None
    value = _number(cell)
    if value is None or not isfinite(value) or not value.is_integer() or abs(value) >= LARGEST:
        return None
    return f"{value:.0f}"


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
    _check_names(file, name, names, line=1)
    width = len(names)
    rows = []
    for position, row in enumerate(sheet.rows):
        if any(cell is not None for cell in row[width:]):
            raise where.error(
                position,
                "the row has more cells than the table has columns",
                expected=f"{width} columns",
            )
        rows.append(row[:width] + (None,) * (width - len(row)))
    table = Table(where, names, rows)
    _check_formulas(table)
    return table


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
    rows = []
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
        rows.append(tuple(record[column] for column in names))
    return Table(where, names, rows)


def _check_names(file: str, table: str, names: tuple[str, ...], line: int) -> None:
    for column, times in Counter(names).items():
        if column and times > 1:
            raise InputError(
                "a column's name occurs twice",
                file=file,
                table=table,
                line=line,
                expected="each column once",
            )


def _check_formulas(table: Table) -> None:
    """Refuse formulas: what they come to is not in the file, or may be out of date."""
    for row, cells in enumerate(table.rows):
        for column, cell in zip(table.columns, cells, strict=True):
            if isinstance(cell, str) and cell.startswith("=") and len(cell) > 1:
                raise table.error(
                    row,
                    f"column {column} holds a formula",
                    expected="plain numbers and text",
                    remedy="Paste it as values.",
                )


def _number(cell: Any) -> float | None:
    """A cell as a number; None if it is none.

    Text counts if it is nothing but a number: some writers save all as text.
    """
    if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
        return None
    if isinstance(cell, str):
        text = cell.strip()
        return plain_number(text) if len(text) <= LONGEST_LABEL else None
    return float(cell) if isinstance(cell, float) or abs(cell) < LARGEST else float("inf")
