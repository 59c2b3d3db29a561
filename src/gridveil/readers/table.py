"""One strict table for every format: columns by name, each defect named by its row and never by a
private value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf, isfinite, isnan, nan
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.foundation.errors import InputError
from gridveil.foundation.reading import plain_number
from gridveil.grid.facts import Array, IntArray

Flags = NDArray[np.bool_]
FIGURE = re.compile(r"\d[.,]\d|\d[eE][-+]?\d")
TRUTHS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
BITS: Mapping[float, bool] = {0: False, 1: True}
REMEDY = "Fix that row and try again."


@dataclass(frozen=True, eq=False)
class Rows:
    """Where the rows of a table stand, for errors.

    lines : (rows,) line numbers from 1, or None where a format has none.
    places : own table of each row, and its row there (from 0) or its name, where they differ.
    """

    file: str
    table: str
    lines: Sequence[int] | IntArray | None = None
    places: Sequence[tuple[str, int | str]] | None = None

    @classmethod
    def of(cls, *parts: tuple[Rows, Iterable[int]]) -> Rows:
        """Rows of several tables of a file, one after the other."""
        chosen = [(part, int(row)) for part, rows in parts for row in rows]
        lines = [part.lines[row] for part, row in chosen if part.lines is not None]
        places = [part.places[row] if part.places else (part.table, row) for part, row in chosen]
        first = parts[0][0]
        return cls(first.file, first.table, lines if len(lines) == len(chosen) else None, places)

    def error(self, row: int, problem: str, *, expected: str, remedy: str = "") -> InputError:
        """Say what is wrong with a row (from 0), by its place in its table and in the file."""
        table, own = self.places[row] if self.places is not None else (self.table, row)
        if isinstance(own, str):
            shown = own if own.isprintable() and len(own) <= 100 else f"row {row + 1}"
            table = f"{table.replace('_', ' ')}, {shown}"
        return InputError(
            problem,
            file=self.file,
            table=table,
            row=None if isinstance(own, str) else own + 1,
            line=int(self.lines[row]) if self.lines is not None else None,
            expected=expected,
            remedy=remedy or REMEDY,
        )


@dataclass(frozen=True)
class Dialect:
    """How a format writes its cells.

    number, truth, label : read a cell; None where nothing is there. A cell that is no such thing
    raises KeyError, TypeError or ValueError.
    words : what `truth` takes.
    columns : what columns a table should have, and what to do if it lacks one.
    largest : of all numbers.
    smallest : of those that must lie above 0.
    """

    number: Callable[[Any], float | None]
    truth: Callable[[Any], bool | None]
    label: Callable[[Any], str | None] = str
    words: str = "true or false"
    columns: tuple[str, str] = ("the columns of its format", REMEDY)
    largest: float = inf
    smallest: float = 0.0


@dataclass(frozen=True, eq=False)
class Table:
    """A table of a file. columns : cells by name.

    defaulted : empty cells of each column that took a default.
    """

    where: Rows
    columns: Mapping[str, Any]
    dialect: Dialect
    defaulted: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def error(self, row: int, problem: str, *, expected: str, remedy: str = "") -> InputError:
        """Say what is wrong with a row (from 0)."""
        return self.where.error(row, problem, expected=expected, remedy=remedy)

    def refuse(self, bad: Any, problem: str, *, expected: str, remedy: str = "") -> None:
        """Refuse the first row for which bad is true."""
        for row in np.flatnonzero(bad)[:1]:
            raise self.error(int(row), problem, expected=expected, remedy=remedy)

    def refuse_twins(self, keys: Sequence[Any], what: str) -> None:
        """Refuse a row whose key an earlier one has."""
        if len(set(keys)) == len(keys):
            return
        seen: set[Any] = set()
        for row, key in enumerate(keys):
            if key in seen:
                raise self.error(row, f"the same {what} occurs twice", expected="each once")
            seen.add(key)

    def floats(self, name: str) -> Array:
        """A column whose cells are known to be numbers."""
        return np.array(self.columns[name], dtype=float)

    def integers(self, name: str) -> IntArray:
        """A column whose cells are known to be whole numbers."""
        return np.array(self.columns[name], dtype=np.int64)

    def numbers(
        self,
        name: str,
        default: float | None = None,
        *,
        above: float = -inf,
        lowest: float = -inf,
        needed: bool = False,
        nan_is_empty: bool = False,
    ) -> Array:
        """Finite numbers, more than above and no less than lowest.

        default : for empty cells, and for a missing column unless it is needed; None: all must be
        given.
        nan_is_empty : whether NaN says that nothing is given, and the default need not be counted.
        """
        limit = (
            f" above {above:g}"
            if isfinite(above)
            else f" of {lowest:g} or more"
            if isfinite(lowest)
            else ""
        )
        expected = f"a finite number{limit}"
        cells = self._cells(name, optional=default is not None and not needed)
        numbers_read = cells
        if not isinstance(cells, np.ndarray):
            numbers_read = self._each(name, cells, self.dialect.number, "is not a number", expected)
        elif np.isfinite(cells).all() and not limit:  # all of a MATPOWER case
            return cells
        if nan_is_empty:
            numbers_read = [
                None if value is None or isnan(value) else value for value in numbers_read
            ]
        given = np.array([value is not None for value in numbers_read], dtype=bool)
        values = np.array([nan if value is None else value for value in numbers_read], dtype=float)
        if not given.all():
            if default is None:
                self.refuse(~given, f"column {name} is empty", expected=expected)
            if name in self.columns and not nan_is_empty:
                self.defaulted[name] += int((~given).sum())
        self.refuse(
            given & ~np.isfinite(values), f"column {name} is NaN or infinite", expected=expected
        )
        usable = (values > above) & (values >= lowest) & (np.abs(values) <= self.dialect.largest)
        if above == 0:
            usable &= values >= self.dialect.smallest
        self.refuse(given & ~usable, f"column {name} is not usable", expected=expected)
        return np.where(given, values, nan if default is None else default)

    def flags(self, name: str, default: bool | None = None) -> Flags:
        """True or false. default : for empty cells and a missing column; None: all are needed."""
        cells = self._cells(name, optional=default is not None)
        problem, expected = "is neither true nor false", self.dialect.words
        values = self._each(name, cells, self.dialect.truth, problem, expected)
        empty = [truth is None for truth in values]
        if default is None:
            self.refuse(empty, f"column {name} {problem}", expected=expected)
        elif name in self.columns and any(empty):
            self.defaulted[name] += sum(empty)
        return np.array([default if truth is None else truth for truth in values], dtype=bool)

    def labels(self, name: str) -> list[str]:
        """Names or indices, which must all be given."""
        values = self.optional_labels(name, optional=False)
        self.refuse(
            [label is None for label in values],
            f"column {name} is no name",
            expected="a whole number or a short printable name",
        )
        return [label for label in values if label is not None]

    def optional_labels(self, name: str, *, optional: bool = True) -> list[str | None]:
        """Names or indices, of which some or all may be missing."""
        cells = self._cells(name, optional=optional)
        expected = "a whole number or a short printable name"
        return self._each(name, cells, self.dialect.label, "is no name", expected)

    def texts(self, name: str) -> list[str]:
        """Short texts for notes and fuels; "" where there is none."""
        return [
            text if isinstance(text, str) and len(text) <= 100 and text.isprintable() else ""
            for text in self._cells(name, optional=True)
        ]

    def whole(self, name: str) -> list[int]:
        """Whole numbers, such as those of buses."""
        values = self.numbers(name)
        self.refuse(
            (np.abs(values) >= 2**53) | (values != np.floor(values)),
            f"column {name} is no whole number",
            expected="the number of a row of its table",
        )
        return [int(value) for value in values]

    def _cells(self, name: str, *, optional: bool) -> Any:
        if name in self.columns:
            return self.columns[name]
        if optional or not len(self):
            return [None] * len(self)
        expected, remedy = self.dialect.columns
        raise InputError(
            f"column {name} is missing",
            file=self.where.file,
            table=self.where.table,
            expected=expected,
            remedy=remedy,
        )

    def _each(
        self,
        name: str,
        cells: Sequence[Any],
        read: Callable[[Any], Any],
        problem: str,
        expected: str,
    ) -> list[Any]:
        values: list[Any] = []
        with suppress(KeyError, TypeError, ValueError):
            values += map(read, cells)
        # Raised out here, without the cell: it may hold a private figure.
        if len(values) < len(cells):
            raise self.error(len(values), f"column {name} {problem}", expected=expected)
        return values


def text_number(cell: str) -> float | None:
    """A number in text; None where there is no text."""
    if not cell:
        return None
    value = plain_number(cell)
    if value is None:
        raise ValueError
    return value


def typed_number(cell: Any) -> float | None:
    """A number that is one already, not a text or a truth; NaN says that nothing is there."""
    if cell is None or cell != cell:
        return None
    if not isinstance(cell, Real) or isinstance(cell, (bool, np.bool_)):
        raise TypeError
    try:
        return float(cell)
    except OverflowError:
        return inf


def text_label(cell: str) -> str | None:
    """A name in text: one printable line; None where there is no text."""
    if not cell:
        return None
    if not cell.isprintable() or len(cell) > 100:
        raise ValueError
    return cell


TEXT = Dialect(
    number=text_number,
    truth=lambda cell: TRUTHS[cell.lower()] if cell else None,
    label=text_label,
    words=f"one of {', '.join(TRUTHS)}",
)
TYPED = Dialect(
    number=typed_number, truth=lambda cell: None if cell is None or cell != cell else BITS[cell]
)


def bus_positions(where: Rows, what: str, ids: Sequence[Any], known: Mapping[Any, int]) -> IntArray:
    """Turn bus numbers or names of a table into positions; name the row of one that is unknown."""
    positions = np.array([known.get(label, -1) for label in ids], dtype=np.int64)
    for row in np.flatnonzero(positions < 0)[:1]:
        # A bus is quoted only if it looks like one: in a shifted row a private reactance may stand
        # here.
        label = ids[row]
        if isinstance(label, float) and label.is_integer():
            label = f"{label:.0f}"
        plain = not isinstance(label, float) and quoted(label) != "…"
        shown = f"bus {label}" if plain else f"the {what}"
        raise where.error(int(row), f"{shown} is unknown", expected="a bus of the bus table")
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


def words(text: str) -> tuple[str, ...]:
    """Names of columns or models, written as one text."""
    return tuple(text.split())
