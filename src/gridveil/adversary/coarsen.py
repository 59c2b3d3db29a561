"""A coarser record: fewer locations, a lower rate, rounded values.

It helps only where the finer one is not public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.foundation.archive import check_free_folder, write_files
from gridveil.foundation.errors import OptionError
from gridveil.foundation.shown import csv_cell, csv_name
from gridveil.inference.records import Declaration, read_declaration
from gridveil.inference.records.clock import sampling
from gridveil.inference.records.declared import is_unknown, read_unknown
from gridveil.inference.records.record import RawRecord, read_record, read_time

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
    columns = _kept(declared, how)
    raw = read_record(
        declared.record,
        time_column=declared.time_column,
        time_format=declared.time_format,
        columns=columns,
    )
    rows = _rows(raw, declared, how, base_mva)
    values, sigma = raw.values[rows], declared.sigma
    # of 1 Hz
    unit = {"Hz": 1.0, "mHz": 1000.0, "p.u.": 1 / declared.nominal_hz, "rad/s": 2 * math.pi}[
        declared.unit
    ]
    if how.step_hz is not None:
        values = np.rint(values / (how.step_hz * unit)) * (how.step_hz * unit)
    if sigma is not None:
        sigma = how.sigma(sigma, 1 / unit)
    written = replace(
        declared,
        time_column=csv_name(declared.time_column),
        locations={csv_name(column): declared.locations[column] for column in columns},
        sigma=sigma,
    )
    lines = [",".join(csv_cell(text) for text in (declared.time_column, *columns))]
    for time, row in zip(raw.time_s[rows], values, strict=True):
        shown = ("" if np.isnan(value) else f"{value:.12g}" for value in row.tolist())
        lines.append(",".join([_time(float(time), raw.zoned), *shown]))
    write_files(
        out, {RECORD: ("\n".join(lines) + "\n").encode(), DECLARED: _toml(written, how).encode()}
    )
    return read_declaration(out / DECLARED)


def copy_coarser(made: Path, out: Path) -> None:
    """Write a coarser record that was made elsewhere into a new folder, byte by byte."""
    write_files(out, {name: (made / name).read_bytes() for name in (RECORD, DECLARED)})


def _kept(declared: Declaration, how: Coarser) -> list[str]:
    """Columns that stay, in the record's order."""
    if how.keep is None:
        return list(declared.locations)
    for bus in how.keep:
        if bus not in declared.locations.values():
            raise OptionError(
                f"--keep names bus {bus}, which the record does not have.",
                expected=f"some of {', '.join(declared.locations.values())}",
                outcome=NOT_COARSER,
            )
    return [column for column, bus in declared.locations.items() if bus in how.keep]


def _rows(raw: RawRecord, declared: Declaration, how: Coarser, base_mva: float) -> Sequence[int]:
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
    zero_s, _ = read_time(
        declared.event_time, declared.time_format, file=declared.file, key="event_time"
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
    names = "time_column time_format unit values nominal_hz sigma offset event event_size"
    names = (*names.split(), "event_time")
    given = {"record": RECORD} | {name: getattr(declared, name) for name in names}
    given["event_time_window"] = declared.event_time_window or None
    shown = (f"{key} = {_value(value)}" for key, value in given.items() if value is not None)
    lines = [f"# A coarser record: {how.in_words()}.", *shown]
    provenance = {name: words for name, words in vars(declared.provenance).items() if words}
    for title, table in (("locations", declared.locations), ("provenance", provenance)):
        lines += [
            "",
            f"[{title}]",
            *(f"{_value(key)} = {_value(value)}" for key, value in table.items()),
        ]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, (int, float)):
        return repr(value)
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"' + "".join(sign if sign.isprintable() else f"\\u{ord(sign):04X}" for sign in text) + '"'
    )
