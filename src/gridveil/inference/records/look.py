"""What a record's file looks like: columns, times, unit. A guess for its owner to check."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import RECORD_BYTES
from gridveil.foundation.reading import BINARY, bad_lines, plain_number, read_bytes
from gridveil.grid.facts import Array, IntArray
from gridveil.inference.records.comtrade import open_pair
from gridveil.inference.records.layout import COMTRADE, RecordFile, nominal_in
from gridveil.inference.records.record import EXPECTED, read_record, record_bytes, table_of
from gridveil.inference.records.refusing import NOT_USED, refusal
from gridveil.inference.records.sizes import FURTHEST, Likely, likely
from gridveil.inference.records.time_guess import find_times

HEAD_LINES, SAMPLE_ROWS = 400, 200
DELIMITERS = ("\t", ";", "|", ",")
FREQUENCY = re.compile(r"freq|δf|Δf|(?:^|[^a-z])(?:f|m?hz)(?:$|[^a-z])", re.IGNORECASE)
OTHER = re.compile(
    r"rocof|df/?dt|dfreq|volt|curr|angl|phas|power|kv|mw|time|date|stat|qual|flag|valid",
    re.IGNORECASE,
)
QUALITY = re.compile(r"stat|qual|flag|valid|good", re.IGNORECASE)
MOST_TEXTS, MOST_SENTINELS = 20, 3


@dataclass(frozen=True, eq=False)
class Looked:
    """What was found.

    file : how it seems to be laid out; its locations have no bus yet.
    nominal_hz : None where the file does not tell.
    time_s, hz : of its rows on its own clock [s], and their mean frequency [Hz], NaN where nothing
    usable stands.
    quality : how often its quality column says what.
    sentinels : what stands for a gap, and how often.
    far : rows that hold no frequency of this grid.
    times : as the file writes them, by line; empty for COMTRADE.
    trigger : the row at which a recorder began to keep it.
    """

    file: RecordFile
    nominal_hz: float | None
    time_s: Array
    hz: Array
    lines: IntArray
    quality: Counter[str]
    sentinels: Counter[str]
    other_columns: tuple[str, ...]
    far: IntArray
    times: Mapping[int, str]
    trigger: int | None = None

    def time_texts(self, rows: Sequence[int]) -> list[str]:
        """The times of some rows, as the file writes them."""
        if self.file.comtrade:
            return [self._stamp(float(self.time_s[row])) for row in rows]
        return [self.times[int(self.lines[row])] for row in rows]

    def _stamp(self, time_s: float) -> str:
        """A time of a COMTRADE pair's own clock."""
        if self.file.time_format == "seconds":
            return repr(time_s)
        moment = datetime.fromtimestamp(time_s, UTC).replace(tzinfo=None)
        return moment.isoformat(sep=" ", timespec="milliseconds")


def look(path: Path, time_format: str | None = None) -> Looked:
    """Look at a CSV, or at the .cfg of a COMTRADE pair. time_format : of its times, where it is
    known.
    """
    name = path.name
    if path.suffix.lower() in COMTRADE:
        return _look_pair(path)
    try:
        data = read_bytes(path, EXPECTED, RECORD_BYTES)
    except InputError as error:
        raise InputError(error.problem, outcome=NOT_USED, remedy=error.remedy) from None
    if path.suffix.lower() in (".dat", ".cff") and (
        path.suffix.lower() == ".cff" or path.with_suffix(".cfg").exists()
    ):
        raise refusal(
            "of COMTRADE, the .cfg is wanted",
            file=name,
            expected="a .cfg with its .dat beside it",
            remedy="Name the .cfg; write a .cff out as a pair.",
        )
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    if encoding == "utf-8" and BINARY.search(data):
        raise refusal("this is a binary file", file=name, expected=EXPECTED)
    if encoding == "utf-8":
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            encoding = "latin-1"
    draft = RecordFile(path, {}, (), "iso", "Hz", "absolute", encoding=encoding)
    data, _, _ = record_bytes(draft)
    if problem := bad_lines(data):
        raise refusal(problem, file=name, expected=EXPECTED)
    # splitlines() would also split at signs that a name may hold.
    head = re.split(r"\r\n|\n|\r", data.decode("utf-8-sig"))[:HEAD_LINES]
    delimiter, rows = _cells(head, name)
    width = Counter(len(cells) for _, cells in rows).most_common(1)[0][0]
    fitting = [(line, cells) for line, cells in rows if len(cells) == width]
    decimal = "," if delimiter != "," and _commas(fitting) else "."
    found = find_times([cells for _, cells in fitting], decimal, time_format, name)
    first = next(place for place, (_, cells) in enumerate(fitting) if found.is_time(cells, decimal))
    header_line, header = _header(fitting[:first], found.places, name)
    data_line = fitting[first][0]
    above = [line for line, _ in rows if line < header_line]
    between = [line for line, _ in rows if header_line < line < data_line]
    draft = replace(
        draft,
        delimiter=delimiter,
        decimal=decimal,
        time_column=tuple(header[place] for place in found.places),
        time_format=found.time_format,
        header_line=header_line if above else 0,
        data_line=data_line if between else 0,
    )
    samples = [cells for _, cells in fitting[first:]][:SAMPLE_ROWS]
    guess, columns = _frequencies(header, samples, decimal, set(found.places), name)
    return _read(draft, data, header, guess, columns)


def _cells(head: list[str], file: str) -> tuple[str, list[tuple[int, list[str]]]]:
    """The delimiter that cuts most lines into as many cells, and the cells by line."""
    for delimiter in DELIMITERS:
        reader = csv.reader(head, delimiter=delimiter)
        try:
            rows = [
                (reader.line_num, [cell.strip() for cell in row])
                for row in reader
                if any(cell.strip() for cell in row)
            ]
        except csv.Error:
            continue
        tail = [len(cells) for _, cells in rows[len(rows) // 2 :]]
        width, count = Counter(tail).most_common(1)[0] if tail else (1, 0)
        # A quote that a wrong delimiter opens would swallow the lines that follow.
        if width > 1 and count >= 0.8 * len(tail) and 2 * len(rows) > len(list(filter(None, head))):
            # Cells behind the last column may be left out above the data, or be empty.
            return delimiter, [(line, _fitted(cells, width)) for line, cells in rows]
    raise refusal(
        "no delimiter cuts its lines into columns",
        file=file,
        expected="columns between commas, semicolons, tabs or |",
        remedy="Check that this is a record; export it as CSV.",
    )


def _fitted(cells: list[str], width: int) -> list[str]:
    return [*cells, ""] if len(cells) == width - 1 and len(cells) > 1 else cells


def _commas(rows: Sequence[tuple[int, list[str]]]) -> bool:
    cells = [cell for _, row in rows for cell in row]
    commas = sum(re.fullmatch(r"[-+]?\d+,\d+", cell) is not None for cell in cells)
    points = sum(re.fullmatch(r"[-+]?\d+\.\d+", cell) is not None for cell in cells)
    return commas > points


def _header(
    above: Sequence[tuple[int, list[str]]], places: Sequence[int], file: str
) -> tuple[int, list[str]]:
    """The row of names above the first sample; a row of units may stand between."""
    for line, cells in above[-2:]:
        named = [cell for cell in cells if cell]
        if len(named) == len(set(named)) and all(cells[place] for place in places):
            return line, cells[: max(place for place, cell in enumerate(cells) if cell) + 1]
    raise refusal(
        "there is no header: no row above the first sample names each column once",
        file=file,
        expected=EXPECTED,
        remedy="Put a row of names above the samples.",
    )


def _frequencies(
    header: list[str], rows: list[list[str]], decimal: str, times: set[int], file: str
) -> tuple[Likely, list[str]]:
    """What looks like frequencies of one unit: by name and size, or by size alone."""
    found: dict[str, Likely] = {}
    for by_name in (True, False):
        for place, column in enumerate(header):
            if not column or place in times or OTHER.search(column):
                continue
            if by_name and not FREQUENCY.search(column):
                continue
            numbers = [_number(row[place], decimal) for row in rows]
            guess = likely(np.array([np.nan if one is None else one for one in numbers]))
            if guess is None or (not by_name and guess.unit not in ("Hz", "mHz")):
                continue
            if not by_name and guess.values == "deviation":
                continue
            if guess.values == "deviation" and "mhz" in column.lower():
                guess = guess._replace(unit="mHz")
            found[column] = guess
        if found:
            break
    if not found:
        shown = ", ".join(column for column in header if column)
        raise refusal(
            "no column looks like a frequency",
            file=file,
            expected=f"one near 50 or 60 Hz, or a deviation that is named so; it has {shown}",
            remedy="Check that this is a record of frequencies.",
        )
    guess = Counter(found.values()).most_common(1)[0][0]
    return guess, [column for column, own in found.items() if own == guess]


def _number(text: str, decimal: str) -> float | None:
    return plain_number(text.replace(",", ".", 1) if decimal == "," else text)


def _read(
    file: RecordFile, data: bytes, header: list[str], guess: Likely, columns: list[str]
) -> Looked:
    """Read it whole, with what stands for a gap and which rows are flagged."""
    nominal = nominal_in(guess.unit, guess.nominal_hz or 50.0)
    places = [header.index(column) for column in columns]
    flags = next((place for place, one in enumerate(header) if QUALITY.search(one)), None)
    texts: Counter[str] = Counter()
    sentinels: Counter[str] = Counter()
    quality: Counter[str] = Counter()
    times: dict[int, str] = {}
    stamps = [header.index(column) for column in file.time_column]
    table = table_of(data, file)
    next(table, None)
    for line, cells in table:
        if len(cells) != len(header):
            continue
        times[line] = " ".join(cells[place] for place in stamps)
        for place in places:
            value = _number(cells[place], file.decimal) if cells[place] else np.nan
            if value is None or np.isinf(value):
                texts[cells[place]] += 1
            elif guess.values == "absolute" and abs(value / nominal - 1) > FURTHEST:
                sentinels[cells[place]] += 1
        if flags is not None:
            quality[cells[flags]] += 1
    found = texts if len(texts) <= MOST_TEXTS else Counter()
    found += sentinels if len(sentinels) <= MOST_SENTINELS else Counter()
    good = quality.most_common(1)[0][0] if quality else ""
    use_quality = 1 < len(quality) <= MOST_TEXTS
    file = replace(
        file,
        locations=dict.fromkeys(columns, ""),
        unit=guess.unit,
        values=guess.values,
        missing=tuple(found),
        quality_column=header[flags] if use_quality and flags is not None else None,
        quality_good=(good,) if use_quality else (),
    )
    raw = read_record(file)
    hz, far = in_hz(raw.values, guess)
    asked = {*file.time_column, *columns, file.quality_column}
    return Looked(
        file,
        guess.nominal_hz,
        raw.time_s,
        hz,
        raw.lines,
        quality if flags is not None else Counter(),
        found,
        tuple(column for column in header if column and column not in asked),
        far,
        times,
    )


def _look_pair(path: Path) -> Looked:
    """Look at a COMTRADE pair: channels in Hz, else those that look like frequencies."""
    pair = open_pair(path)
    guesses = {}
    for place, (column, unit) in enumerate(zip(pair.names, pair.units, strict=True)):
        guess = likely(pair.values[:, place], pair.nominal_hz)
        by_name = unit.lower() in ("hz", "mhz") or (
            FREQUENCY.search(column) and not OTHER.search(column)
        )
        if guess and by_name and "hz/s" not in unit.lower():
            guesses[column] = guess
    if not guesses:
        raise refusal(
            "no channel looks like a frequency",
            file=path.name,
            expected=f"one in Hz; it has {', '.join(pair.names)}",
            remedy="Export frequencies from the recorder: waveforms are none.",
        )
    guess = Counter(guesses.values()).most_common(1)[0][0]
    columns = [column for column, own in guesses.items() if own == guess]
    guess = guess._replace(nominal_hz=guess.nominal_hz or pair.nominal_hz)
    time_format = "iso" if pair.dated else "seconds"
    file = RecordFile(
        path, dict.fromkeys(columns, ""), ("time",), time_format, guess.unit, guess.values
    )
    raw = read_record(file)
    hz, far = in_hz(raw.values, guess)
    after_s = (pair.trigger - pair.begin).total_seconds()
    row = int(np.searchsorted(pair.time_s, after_s - 1e-6))
    return Looked(
        file,
        guess.nominal_hz,
        raw.time_s,
        hz,
        raw.lines,
        Counter(),
        Counter(),
        raw.unused,
        far,
        {},
        row if 0 < row < len(pair.time_s) else None,
    )


def in_hz(values: Array, guess: Likely) -> tuple[Array, IntArray]:
    """Mean of all locations [Hz], NaN where none has a usable value, and the rows that hold another
    kind of value.
    """
    hz_nominal = guess.nominal_hz or 50.0
    hz = values * hz_nominal / nominal_in(guess.unit, hz_nominal)
    deviation = hz - hz_nominal if guess.values == "absolute" else hz
    far = np.abs(deviation) > FURTHEST * hz_nominal
    usable = np.isfinite(hz) & ~far
    counts = usable.sum(axis=1)
    mean = np.where(usable, hz, 0.0).sum(axis=1) / np.maximum(counts, 1)
    return np.where(counts > 0, mean, np.nan), np.flatnonzero(far.any(axis=1))
