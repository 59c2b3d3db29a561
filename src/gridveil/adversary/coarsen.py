"""A coarser record: fewer locations, a lower rate, rounded values.

It helps only where the finer one is not public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.foundation.archive import check_free_folder, write_files
from gridveil.foundation.errors import OptionError
from gridveil.foundation.shown import csv_cell, csv_name
from gridveil.foundation.toml import toml_value
from gridveil.inference.records import Declaration, read_declaration
from gridveil.inference.records.clock import sampling
from gridveil.inference.records.layout import RecordFile, nominal_in
from gridveil.inference.records.record import RawRecord, read_record
from gridveil.inference.records.times import read_time
from gridveil.inference.records.unknown_event import is_unknown, read_unknown

NOT_COARSER = "No coarser record was made."
RECORD, DECLARED = "record.csv", "record.toml"


@dataclass(frozen=True)
class Coarser:
    """How much coarser a record becomes; None leaves it as it is.

    keep : buses whose columns stay.
    rate_hz : samples per second.
    step_hz : values are rounded to multiples of it [Hz].
    """

    keep: tuple[str, ...] | None = None
    rate_hz: float | None = None
    step_hz: float | None = None

    @property
    def asked(self) -> bool:
        """Whether anything is to change."""
        return self.keep is not None or self.rate_hz is not None or self.step_hz is not None

    def sigma(self, sigma: float, unit_hz: float) -> float:
        """Noise of a rounded sample, in units of unit_hz [Hz]: a step s adds s/√12."""
        return math.hypot(sigma, (self.step_hz or 0.0) / unit_hz / math.sqrt(12))

    def notes(self, sigma: float, nominal_hz: float) -> tuple[str, ...]:
        """What the figures of a coarser record do not cover. sigma : of the finer one [p.u.]."""
        if (self.step_hz or 0.0) / nominal_hz <= 2 * sigma:
            return ()
        return (
            "Rounding is coarser than twice the noise, so that it is no white noise: the times at "
            "which values change tell more than these figures say.",
        )

    def in_words(self) -> str:
        """What was done."""
        parts = []
        if self.keep is not None:
            parts.append(f"{'bus' if len(self.keep) == 1 else 'buses'} {', '.join(self.keep)} only")
        if self.rate_hz is not None:
            parts.append(f"{self.rate_hz:g} samples per second")
        if self.step_hz is not None:
            parts.append(f"rounded to {1000 * self.step_hz:g} mHz")
        return ", ".join(parts) or "as it is"


def write_coarser(
    declared: Declaration, how: Coarser, out: Path, *, base_mva: float
) -> Declaration:
    """Write a coarser record and its declaration into a new folder; return it as read back.

    What it says of the event still holds; sigma grows by the rounding.
    """
    check_free_folder(out)
    sigma, written, content = declared.sigma, [], {}
    if sigma is not None:
        sigma = how.sigma(
            sigma, declared.nominal_hz / nominal_in(declared.unit, declared.nominal_hz)
        )
    zero_s, zoned = _zero(declared)
    kept = _kept(declared, how)
    for number, file in enumerate(kept, start=1):
        raw = read_record(file)
        rows = _rows(raw, declared, how, zero_s, base_mva)
        values = raw.values[rows]
        if how.step_hz is not None:
            step = how.step_hz * nominal_in(file.unit, declared.nominal_hz) / declared.nominal_hz
            values = np.rint(values / step) * step
        name = RECORD if len(kept) == 1 else f"record-{number}.csv"
        time_column = csv_name(" ".join(file.time_column))
        lines = [",".join(csv_cell(text) for text in (time_column, *file.locations))]
        for time, row in zip(raw.time_s[rows], values, strict=True):
            shown = ("" if np.isnan(value) else f"{value:.12g}" for value in row.tolist())
            lines.append(",".join([_time(float(time), raw.zoned), *shown]))
        content[name] = ("\n".join(lines) + "\n").encode()
        written.append(
            RecordFile(
                path=Path(name),
                locations={csv_name(column): bus for column, bus in file.locations.items()},
                time_column=(time_column,),
                time_format=_plain_format(file.time_format),
                unit=file.unit,
                values=file.values,
            )
        )
    event_time = declared.event_time
    if declared.files[0].time_format not in ("seconds", "epoch", "iso"):
        event_time = zero_s if zoned is None else _time(zero_s, zoned)
    coarser = replace(declared, files=tuple(written), sigma=sigma, event_time=event_time)
    write_files(out, content | {DECLARED: _toml(coarser, how).encode()})
    return read_declaration(out / DECLARED)


def copy_coarser(made: Path, out: Path) -> None:
    """Write a coarser record that was made elsewhere into a new folder, byte by byte."""
    write_files(out, {path.name: path.read_bytes() for path in sorted(made.iterdir())})


def _zero(declared: Declaration) -> tuple[float, bool | None]:
    first = declared.files[0]
    return read_time(
        declared.event_time,
        first.time_format,
        file=declared.file,
        key="event_time",
        zone=first.zone,
    )


def _plain_format(time_format: str) -> str:
    """The format in which times are written."""
    if time_format == "seconds":
        return time_format
    return "epoch" if time_format.startswith("epoch") else "iso"


def _kept(declared: Declaration, how: Coarser) -> list[RecordFile]:
    """Files with the columns that stay, in the record's order."""
    if how.keep is None:
        return list(declared.files)
    for bus in how.keep:
        if bus not in declared.buses:
            raise OptionError(
                f"--keep names bus {bus}, which the record does not have.",
                expected=f"some of {', '.join(declared.buses)}",
                outcome=NOT_COARSER,
            )
    files = []
    for file in declared.files:
        stay = {column: bus for column, bus in file.locations.items() if bus in how.keep}
        files += [replace(file, locations=stay)] if stay else []
    return files


def _rows(
    raw: RawRecord, declared: Declaration, how: Coarser, zero_s: float, base_mva: float
) -> Sequence[int]:
    """Rows that stay: every n-th, counted from the event, so that one falls on it where one did.

    Nothing is averaged.
    """
    if how.rate_hz is None:
        return range(len(raw.time_s))
    interval_s, _ = sampling(raw)
    every = round(1 / (how.rate_hz * interval_s))
    if every < 1 or abs(every * interval_s * how.rate_hz - 1) > 0.02:
        raise OptionError(
            f"A rate of {how.rate_hz:g} Hz does not divide the record's {1 / interval_s:.4g} Hz.",
            expected="the record's rate divided by a whole number",
            outcome=NOT_COARSER,
        )
    if is_unknown(declared.event):
        first_s = zero_s + read_unknown(declared.event, base_mva, declared.file)[1]
    else:
        first_s = zero_s + Event.parse(declared.event, base_mva=base_mva).steps[0].at_s
    numbers = np.rint((raw.time_s - first_s) / interval_s).astype(np.int64)
    return np.flatnonzero(numbers % every == 0).tolist()


def _time(time_s: float, zoned: bool | None) -> str:
    if zoned is None:
        return repr(time_s)
    stamp = datetime.fromtimestamp(time_s, UTC)
    return (stamp if zoned else stamp.replace(tzinfo=None)).isoformat(timespec="microseconds")


def _toml(declared: Declaration, how: Coarser) -> str:
    """The declaration as TOML; numbers and timestamps as they were."""
    names = "unit nominal_hz sigma offset offset_window detrend window event event_size event_time"
    given = {name: getattr(declared, name) for name in names.split()}
    given["event_time_window"] = declared.event_time_window or None
    given["redistribute"] = declared.redistribute or None
    lines = [f"# A coarser record: {how.in_words()}."]
    several = len(declared.files) > 1
    if not several:
        given |= _file_keys(declared.files[0])
    lines += _lines(given)
    for file in declared.files:
        if several:
            lines += ["", "[[files]]", *_lines(_file_keys(file))]
        lines += ["", f"[{'files.' * several}locations]", *_lines(file.locations, quoted=True)]
    provenance = {name: words for name, words in vars(declared.provenance).items() if words}
    return "\n".join([*lines, "", "[provenance]", *_lines(provenance)]) + "\n"


def _file_keys(file: RecordFile) -> dict[str, object]:
    return {
        "record": file.path.name,
        "time_column": file.time_column[0],
        "time_format": file.time_format,
        "unit": file.unit,
        "values": file.values,
    }


def _lines(table: Mapping[str, object], quoted: bool = False) -> list[str]:
    return [
        f"{toml_value(key) if quoted else key} = {toml_value(value)}"
        for key, value in table.items()
        if value is not None
    ]
