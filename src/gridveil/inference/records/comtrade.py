"""COMTRADE: a .cfg that names channels, and a .dat beside it with their samples.

The package comtrade reads both. What the .cfg claims is checked first: the package would make room
for any number of samples and channels.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import COMTRADE_BYTES, MOST_LINES, MOST_VALUES, RECORD_BYTES
from gridveil.foundation.reading import bad_lines, plain_number, read_bytes
from gridveil.grid.facts import Array
from gridveil.inference.records.layout import RecordFile
from gridveil.inference.records.record import RawRecord
from gridveil.inference.records.refusing import NOT_USED, refusal
from gridveil.inference.records.times import known_time

EXPECTED = "the .cfg of a COMTRADE pair, with its .dat beside it"
MOST_CHANNELS, MOST_RATES = 5000, 100
ROW_BYTES = {"BINARY": 2, "BINARY32": 4, "FLOAT32": 4}  # of an analog value
EARLIEST = 1900  # the year of a recorder whose clock was set


@dataclass(frozen=True, eq=False)
class Pair:
    """What a pair holds.

    names, units : of the analog channels, in order.
    time_s : (n,) after `begin` [s].
    values : (n, channels), NaN where a sample is marked as missing.
    begin, trigger : as its own clock says, without a zone.
    nominal_hz : None where it is not said.
    digests : SHA-256 of both files, in hex.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    time_s: Array
    values: Array
    begin: datetime
    trigger: datetime
    nominal_hz: float | None
    digests: tuple[str, str] = ("", "")

    @property
    def dated(self) -> bool:
        """Whether it says when it began."""
        return self.begin.year >= EARLIEST


def open_pair(path: Path) -> Pair:
    """Read a pair; refuse one whose parts do not fit each other."""
    if find_spec("comtrade") is None:
        raise refusal(
            "COMTRADE is read through the package comtrade, which is not installed",
            file=path.name,
            expected="gridveil with the extra comtrade",
            remedy="pip install 'gridveil[comtrade]'",
        )
    cfg = _read(path, COMTRADE_BYTES)
    if problem := bad_lines(cfg):
        raise refusal(problem, file=path.name, expected=EXPECTED)
    try:
        text = cfg.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = cfg.decode("latin-1")
    # The package cuts at every sign that Python takes for a line end.
    lines = re.split(r"\r\n|\n|\r", text)
    dat_path = _beside(path)
    dat = _read(dat_path, RECORD_BYTES)
    _check_claims(lines, path.name, dat, dat_path.name)
    found = _parsed("\n".join(lines), dat)
    if found is None:
        raise refusal(
            "the pair cannot be read as COMTRADE",
            file=path.name,
            expected=EXPECTED,
            remedy="Check that both files belong together and were copied whole.",
        )
    return replace(
        found, digests=(hashlib.sha256(cfg).hexdigest(), hashlib.sha256(dat).hexdigest())
    )


def read_pair(file: RecordFile) -> RawRecord:
    """Read the channels of a pair's locations, its samples numbered from 1 as lines."""
    name, pair = file.path.name, open_pair(file.path)
    if file.quality_column is not None:
        raise refusal(
            "quality_column is declared for a COMTRADE pair",
            file=name,
            expected="a column of a CSV; COMTRADE marks missing samples itself",
        )
    if file.time_format not in ("seconds", "iso"):
        raise refusal(
            "time_format is not usable",
            file=name,
            expected="iso (the recorder's own clock) or seconds (from the first sample)",
        )
    begin_s, zoned = 0.0, None
    if file.time_format == "iso":
        if not pair.dated:
            raise refusal(
                "the pair does not say when it began",
                file=name,
                expected='time_format = "seconds"',
            )
        begin_s, zoned = known_time(
            pair.begin.isoformat(), "iso", file=name, what="the start", zone=file.zone
        )
    places = [_channel(pair, column, name) for column in file.locations]
    values = pair.values[:, places]
    sentinels = [plain_number(text) for text in file.missing]
    for sentinel in sentinels:
        values = np.where(values == sentinel, np.nan, values)
    unused = tuple(one for place, one in enumerate(pair.names) if place not in places)
    return RawRecord(
        name,
        np.arange(1, len(pair.time_s) + 1),
        begin_s + pair.time_s,
        values,
        zoned,
        0,
        unused,
        digests=pair.digests,
    )


def _channel(pair: Pair, column: str, file: str) -> int:
    count = pair.names.count(column)
    if count != 1:
        raise refusal(
            f"channel {column!r} {'occurs twice' if count else 'is missing'}",
            file=file,
            expected="analog channels of the .cfg, each once",
        )
    return pair.names.index(column)


def _read(path: Path, limit: int) -> bytes:
    try:
        return read_bytes(path, EXPECTED, limit)
    except InputError as error:
        raise InputError(error.problem, outcome=NOT_USED, remedy=error.remedy) from None


def _beside(path: Path) -> Path:
    """The .dat of a .cfg, in the same case of letters where there is one."""
    usual = path.with_suffix(".DAT" if path.suffix.isupper() else ".dat")
    other = path.with_suffix(".dat" if path.suffix.isupper() else ".DAT")
    return other if other.exists() and not usual.exists() else usual


def _check_claims(lines: list[str], file: str, dat: bytes, dat_file: str) -> None:
    """Refuse numbers of channels and samples that the two files do not hold."""

    def refused(line: int, expected: str) -> InputError:
        return refusal("this is no .cfg of COMTRADE", file=file, line=line, expected=expected)

    counts = re.fullmatch(
        r"\s*\d{1,6}\s*,\s*(\d{1,6})\s*A\s*,\s*(\d{1,6})\s*D\s*",
        lines[1] if len(lines) > 1 else "",
        re.ASCII | re.IGNORECASE,
    )
    if not counts:
        raise refused(2, "numbers of channels such as 3,2A,1D")
    analog, status = int(counts[1]), int(counts[2])
    first = 2 + analog + status
    if analog + status > MOST_CHANNELS or first + 6 > len(lines):
        raise refused(2, f"up to {MOST_CHANNELS} channels, a line each")
    rates = re.fullmatch(r"\s*(\d{1,3})\s*", lines[first + 1], re.ASCII)
    if not rates or int(rates[1]) > MOST_RATES or first + 2 + int(rates[1]) + 3 > len(lines):
        raise refused(first + 2, f"up to {MOST_RATES} sampling rates, a line each")
    count = max(int(rates[1]), 1)
    samples = 0
    for number in range(first + 2, first + 2 + count):
        rate = re.fullmatch(r"\s*([^,]{1,40}),\s*(\d{1,9})\s*", lines[number], re.ASCII)
        if not rate or plain_number(rate[1].strip()) is None or int(rate[2]) < samples:
            raise refused(number + 1, "a sampling rate and its last sample, such as 50,600")
        samples = int(rate[2])
    if samples > MOST_LINES or samples * (analog + status + 2) > MOST_VALUES:
        raise refusal(
            "the pair is too large",
            file=file,
            expected=f"up to {MOST_VALUES} values",
            remedy="Export the frequency channels around the event.",
        )
    kind = lines[first + 2 + count + 2].strip().upper()
    if kind == "ASCII":
        if problem := bad_lines(dat):
            raise refusal(problem, file=dat_file, expected="a row for each sample")
        held = sum(1 for line in dat.splitlines() if line.strip(b" \t\x1a"))
    elif kind in ROW_BYTES:
        held = len(dat) // (8 + analog * ROW_BYTES[kind] + 2 * -(-status // 16))
    else:
        raise refused(first + 2 + count + 3, "ASCII, BINARY, BINARY32 or FLOAT32")
    if held < samples:
        raise refusal(
            f"it ends after {held} of {samples} samples",
            file=dat_file,
            expected="as many as the .cfg says",
            remedy="Copy the whole file again.",
        )


def _parsed(cfg: str, dat: bytes) -> Pair | None:
    """What the package makes of both; None where it cannot, or makes no sense of them."""
    import comtrade

    reader: Any = comtrade.Comtrade(
        ignore_warnings=True, use_numpy_arrays=True, use_double_precision=True
    )
    try:
        with np.errstate(all="ignore"):
            ascii_text = dat.decode("ascii") if _is_ascii(cfg) else dat
            reader.read(cfg, ascii_text)
            time_s = np.asarray(reader.time, dtype=np.float64)
            values = np.array(reader.analog, dtype=np.float64).reshape(-1, len(time_s)).T
        channels = reader.cfg.analog_channels
        begin, trigger = reader.start_timestamp, reader.trigger_timestamp
        nominal = float(reader.frequency)
        if len(time_s) < 2 or not np.isfinite(time_s).all() or (np.diff(time_s) <= 0).any():
            return None
        return Pair(
            tuple(str(one.name).strip() for one in channels),
            tuple(str(one.uu).strip() for one in channels),
            time_s,
            np.where(np.isinf(values), np.nan, values),
            begin.replace(tzinfo=None),
            trigger.replace(tzinfo=None),
            nominal if 1 <= nominal <= 1000 else None,
        )
    except Exception:  # noqa: S110 - a damaged file can raise anything, and no word of it is shown
        pass
    return None


def _is_ascii(cfg: str) -> bool:
    return re.search(r"^\s*ASCII\s*$", cfg, re.MULTILINE | re.IGNORECASE) is not None
