"""Columns of a measured record in CSV: times, and a value or a gap for each location."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import RECORD_BYTES
from gridveil.foundation.reading import csv_rows, plain_number, read_bytes
from gridveil.grid.facts import Array, IntArray

NOT_USED = "The trajectory was not used and nothing was spent."
EXPECTED = "a record in CSV: a header, a column of times and a column for each location, in UTF-8"
LATEST_EPOCH_S = 4_102_444_800  # the year 2100
TimeFormat = Literal["seconds", "epoch", "iso"]
TIMES = {
    "seconds": "a finite number of seconds",
    "epoch": "seconds since 1970, below 4.1e9 (divide milliseconds by 1000)",
    "iso": "a timestamp such as 2025-04-28T12:33:16.500+02:00",
}


@dataclass(frozen=True, eq=False)
class RawRecord:
    """A record as its file has it, in order of time, each time once.

    lines : (n,) where each row stands, from 1.
    time_s : (n,) on the file's own clock [s].
    values : (n, h) in the file's unit, NaN in a gap.
    zoned : whether timestamps say their zone, None where times are numbers.
    repeated : rows that said again what another had said.
    unused : columns that nobody asked for.
    """

    file: str
    lines: IntArray
    time_s: Array
    values: Array
    zoned: bool | None
    repeated: int
    unused: tuple[str, ...]

    def error(
        self, row: int, problem: str, *, expected: str, remedy: str = "Fix that row and try again."
    ) -> InputError:
        """Say what is wrong with a row, by its line."""
        return refusal(
            problem, file=self.file, line=int(self.lines[row]), expected=expected, remedy=remedy
        )


def refusal(
    problem: str, *, file: str, line: int | None = None, expected: str, remedy: str = "Correct it."
) -> InputError:
    """An error that says that the trajectory was not used."""
    return InputError(
        problem, file=file, line=line, expected=expected, outcome=NOT_USED, remedy=remedy
    )


def read_record(
    path: Path, *, time_column: str, time_format: TimeFormat, columns: Sequence[str]
) -> RawRecord:
    """Read the named columns.

    An empty cell, or NaN, is a gap; anything else must be a plain number.
    """
    name, rows = path.name, _rows(path)
    line, header = next(rows, (1, []))
    places = [_place(name, line, header, column) for column in (time_column, *columns)]
    lines: list[int] = []
    times: list[float] = []
    values: list[list[float]] = []
    zoned: bool | None = None
    repeated = 0
    for line, cells in rows:
        if len(cells) != len(header):
            raise refusal(
                f"the row has {len(cells)} columns",
                file=name,
                line=line,
                expected=f"{len(header)}, as in the header",
            )
        time, zone = _time(
            cells[places[0]], time_format, file=name, line=line, what=f"column {time_column!r}"
        )
        if lines and zone != zoned:
            raise refusal(
                "some timestamps say their zone and some do not",
                file=name,
                line=line,
                expected="all of them, or none",
            )
        zoned = zone
        found = [
            _value(cells[place], name, line, column)
            for place, column in zip(places[1:], columns, strict=True)
        ]
        if times and time < times[-1]:
            raise refusal(
                f"the time goes back: it lies before that of line {lines[-1]}",
                file=name,
                line=line,
                expected="times that increase from row to row",
                remedy="Sort the rows; give local timestamps their zone where the clock was put "
                "back.",
            )
        if times and time == times[-1]:
            values[-1] = _merged(values[-1], found, name, line, lines[-1])
            repeated += 1
            continue
        lines.append(line)
        times.append(time)
        values.append(found)
    if not times:
        raise refusal(
            "the record is empty", file=name, expected="a header, and a row for each sample"
        )
    unused = tuple(column for place, column in enumerate(header) if place not in places)
    return RawRecord(
        name, np.array(lines), np.array(times), np.array(values), zoned, repeated, unused
    )


def read_time(
    value: Any, time_format: TimeFormat, *, file: str, key: str
) -> tuple[float, bool | None]:
    """Read one time of a TOML file, written as in the record: seconds, and whether a timestamp says
    its zone.
    """
    if time_format != "iso" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return _time(repr(value), time_format, file=file, line=None, what=key)
    if time_format == "iso" and isinstance(value, (str, datetime)):
        return _time(str(value), time_format, file=file, line=None, what=key)
    raise refusal(f"{key} is no time as in the record", file=file, expected=TIMES[time_format])


def _time(
    text: str, time_format: TimeFormat, *, file: str, line: int | None, what: str
) -> tuple[float, bool | None]:
    """Seconds on the record's clock; for timestamps, whether they say their zone."""
    lowest, latest = (0.0, LATEST_EPOCH_S) if time_format == "epoch" else (-1e12, 1e12)
    if time_format == "iso":
        try:
            stamp = datetime.fromisoformat(text)
        except ValueError:
            stamp = None
        if stamp is not None and not _is_date(text):
            zoned = stamp.tzinfo is not None
            return (stamp if zoned else stamp.replace(tzinfo=UTC)).timestamp(), zoned
    elif (seconds := plain_number(text)) is not None and lowest <= seconds < latest:
        return seconds, None
    raise refusal(f"{what} is no time", file=file, line=line, expected=TIMES[time_format])


def _is_date(text: str) -> bool:
    """Whether a text is a day without a time of day, which Python takes for midnight."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _value(text: str, file: str, line: int, column: str) -> float:
    if not text:
        return np.nan
    value = plain_number(text)
    if value is None:
        raise refusal(
            f"column {column!r} is not a number",
            file=file,
            line=line,
            expected="a plain number such as 49.98, or nothing",
        )
    if np.isinf(value):
        raise refusal(
            f"column {column!r} is infinite",
            file=file,
            line=line,
            expected="a finite number, or nothing",
        )
    return value


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
            remedy="Compare the header with time_column and [locations] of the TOML.",
        )
    return header.index(column)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines and cells of each row that is not empty, the header first."""
    try:
        data = read_bytes(path, EXPECTED, RECORD_BYTES)
    except InputError as error:
        raise InputError(error.problem, outcome=NOT_USED, remedy=error.remedy) from None
    return csv_rows(data, path.name, EXPECTED, refusal)
