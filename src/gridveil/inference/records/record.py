"""Columns of a measured record: times, and a value or a gap for each location."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import RECORD_BYTES
from gridveil.foundation.reading import csv_rows, plain_number, read_bytes
from gridveil.grid.facts import Array, IntArray
from gridveil.inference.records.layout import RecordFile
from gridveil.inference.records.refusing import NOT_USED, refusal
from gridveil.inference.records.times import known_time

Rows = NDArray[np.bool_]
EXPECTED = "a record in CSV: a header, a column of times and a column for each location, in UTF-8"


@dataclass(frozen=True, eq=False)
class RawRecord:
    """A record as its file has it, in order of time, each time once.

    lines : (n,) where each row stands, from 1.
    time_s : (n,) on the file's own clock [s].
    values : (n, h) in the file's unit, NaN in a gap.
    zoned : whether the zone of timestamps is known, None where times are numbers.
    repeated : rows that said again what another had said.
    flagged : rows that their quality column calls bad.
    unused : columns that nobody asked for.
    cut_off : whether the last line had no end, and was left out.
    digests : SHA-256 of its files, in hex.
    """

    file: str
    lines: IntArray
    time_s: Array
    values: Array
    zoned: bool | None
    repeated: int
    unused: tuple[str, ...]
    flagged: int = 0
    cut_off: bool = False
    digests: tuple[str, ...] = ()

    def rows(self, kept: Rows) -> RawRecord:
        """Some of its rows. kept : (n,)."""
        return replace(
            self, lines=self.lines[kept], time_s=self.time_s[kept], values=self.values[kept]
        )

    def error(
        self, row: int, problem: str, *, expected: str, remedy: str = "Fix that row and try again."
    ) -> InputError:
        """Say what is wrong with a row, by its line."""
        return refusal(
            problem, file=self.file, line=int(self.lines[row]), expected=expected, remedy=remedy
        )


def read_record(file: RecordFile) -> RawRecord:
    """Read the columns of a file's locations.

    An empty cell, NaN, or what is declared as missing is a gap; anything else must be a plain
    number.
    """
    if file.comtrade:
        from gridveil.inference.records.comtrade import read_pair

        return read_pair(file)
    name, columns = file.path.name, list(file.locations)
    data, cut_off, digest = record_bytes(file)
    rows = table_of(data, file)
    line, header = next(rows, (1, []))
    times = [_place(name, line, header, column) for column in file.time_column]
    places = [_place(name, line, header, column) for column in columns]
    quality = (
        [_place(name, line, header, file.quality_column)] if file.quality_column is not None else []
    )
    cells_of = _Cells(file)
    lines: list[int] = []
    time_s: list[float] = []
    values: list[list[float]] = []
    zoned: bool | None = None
    repeated = flagged = 0
    for line, cells in rows:
        if len(cells) != len(header):
            raise refusal(
                f"the row has {len(cells)} columns",
                file=name,
                line=line,
                expected=f"{len(header)}, as in the header",
            )
        time, zone = cells_of.time(" ".join(cells[place] for place in times), line)
        if lines and zone != zoned:
            raise refusal(
                "some timestamps say their zone and some do not",
                file=name,
                line=line,
                expected="all of them, or none",
            )
        zoned = zone
        found = [
            cells_of.value(cells[place], line, column)
            for place, column in zip(places, columns, strict=True)
        ]
        if quality and cells[quality[0]] not in file.quality_good:
            found = [np.nan] * len(found)
            flagged += 1
        if time_s and time < time_s[-1]:
            raise refusal(
                f"the time goes back: it lies before that of line {lines[-1]}",
                file=name,
                line=line,
                expected="times that increase from row to row",
                remedy="Sort the rows; give local timestamps their zone where the clock was put "
                "back.",
            )
        if time_s and time == time_s[-1]:
            values[-1] = _merged(values[-1], found, name, line, lines[-1])
            repeated += 1
            continue
        lines.append(line)
        time_s.append(time)
        values.append(found)
    if not time_s:
        raise refusal(
            "the record is empty", file=name, expected="a header, and a row for each sample"
        )
    asked = {*times, *places, *quality}
    unused = tuple(column for place, column in enumerate(header) if place not in asked and column)
    return RawRecord(
        name,
        np.array(lines),
        np.array(time_s),
        np.array(values).reshape(len(time_s), len(columns)),
        zoned,
        repeated,
        unused,
        flagged,
        cut_off,
        (digest,),
    )


def record_bytes(file: RecordFile) -> tuple[bytes, bool, str]:
    """A file's lines in UTF-8, whether the last one had no end and was left out (a number that is
    cut off is a number still), and the SHA-256 of the file as it is.
    """
    try:
        data = read_bytes(file.path, EXPECTED, RECORD_BYTES)
    except InputError as error:
        raise InputError(error.problem, outcome=NOT_USED, remedy=error.remedy) from None
    digest = hashlib.sha256(data).hexdigest()
    if file.encoding != "utf-8":
        text = None
        with suppress(UnicodeDecodeError):  # whose error carries the file's bytes
            text = data.decode(file.encoding)
        if text is None:
            raise refusal(
                f"the file is not in {file.encoding}",
                file=file.path.name,
                expected="the encoding that is declared",
            )
        data = text.encode("utf-8")
    end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    if end < len(data) and data[:end].strip().count(b"\n") > 1:
        return data[:end], True, digest
    return data, False, digest


def table_of(data: bytes, file: RecordFile) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of the header and of each row below it; empty cells behind the last column are
    cut off.
    """
    width = None
    for line, cells in csv_rows(data, file.path.name, EXPECTED, refusal, delimiter=file.delimiter):
        if width is None:
            if line >= file.header_line:
                while len(cells) > 1 and not cells[-1]:
                    cells.pop()
                width = len(cells)
                yield line, cells
        elif line >= file.data_line:
            if len(cells) > width and not any(cells[width:]):
                cells = cells[:width]
            yield line, cells


class _Cells:
    """How the cells of a file are read."""

    def __init__(self, file: RecordFile) -> None:
        self._file = file
        self._name = file.path.name
        self._missing = set(file.missing)
        numbers = (plain_number(self._dotted(text)) for text in file.missing)
        self._sentinels = {number for number in numbers if number is not None}
        self._what = f"column {' and '.join(map(repr, file.time_column))}"

    def time(self, text: str, line: int) -> tuple[float, bool | None]:
        return known_time(
            self._dotted(text),
            self._file.time_format,
            file=self._name,
            what=self._what,
            line=line,
            zone=self._file.zone,
        )

    def value(self, text: str, line: int, column: str) -> float:
        if not text or text in self._missing:
            return np.nan
        value = plain_number(self._dotted(text))
        if value is None:
            raise refusal(
                f"column {column!r} is not a number",
                file=self._name,
                line=line,
                expected="a plain number such as 49.98, or nothing",
                remedy="Fix that row, or declare what stands for a gap: missing = […].",
            )
        if value in self._sentinels:
            return np.nan
        if np.isinf(value):
            raise refusal(
                f"column {column!r} is infinite",
                file=self._name,
                line=line,
                expected="a finite number, or nothing",
            )
        return value

    def _dotted(self, text: str) -> str:
        if self._file.decimal != "," or "." in text:
            return text
        return text.replace(",", ".", 1)


def _merged(
    before: list[float], again: list[float], file: str, line: int, first: int
) -> list[float]:
    """Take two rows of one time together; they may not contradict each other."""
    if any(a != b for a, b in zip(before, again, strict=True) if np.isfinite(a) and np.isfinite(b)):
        raise refusal(
            f"the time is that of line {first}, the values are not",
            file=file,
            line=line,
            expected="each time once, or repeated with the same values",
            remedy="Check whether the times were rounded, or drop one of the rows.",
        )
    return [b if np.isnan(a) else a for a, b in zip(before, again, strict=True)]


def _place(file: str, line: int, header: Sequence[str], column: str) -> int:
    count = header.count(column)
    if count != 1:
        raise refusal(
            f"column {column!r} {'occurs twice' if count else 'is missing'}",
            file=file,
            line=line,
            expected="a header with each declared column once",
            remedy="Compare the header with time_column, delimiter, header_line and [locations] "
            "of the TOML.",
        )
    return header.index(column)
