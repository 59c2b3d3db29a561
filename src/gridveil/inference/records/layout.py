"""How a file of a record is laid out: what its owner declares, and nothing that is guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import pi
from pathlib import Path
from typing import Literal

Unit = Literal["Hz", "mHz", "p.u.", "rad/s"]
Values = Literal["absolute", "deviation"]
Encoding = Literal["utf-8", "utf-16", "latin-1"]

COMTRADE = (".cfg",)


@dataclass(frozen=True)
class RecordFile:
    """One file of a record.

    path : a CSV, or the .cfg of a COMTRADE pair.
    locations : bus of each column.
    time_column : headers of the columns whose texts, one after the other, are the time.
    zone : of timestamps that do not say theirs.
    header_line, data_line : lines of the header and of the first row, from 1; 0: the next one.
    missing : cells that stand for a gap, besides empty ones and NaN.
    quality_column, quality_good : a row counts only if that column says one of these.
    """

    path: Path
    locations: Mapping[str, str]
    time_column: tuple[str, ...]
    time_format: str
    unit: Unit
    values: Values
    zone: str | None = None
    delimiter: str = ","
    decimal: str = "."
    encoding: Encoding = "utf-8"
    header_line: int = 0
    data_line: int = 0
    missing: tuple[str, ...] = field(default=())
    quality_column: str | None = None
    quality_good: tuple[str, ...] = field(default=())

    @property
    def comtrade(self) -> bool:
        """Whether it is a COMTRADE pair."""
        return self.path.suffix.lower() in COMTRADE


def nominal_in(unit: Unit, nominal_hz: float) -> float:
    """The nominal frequency in a unit.

    >>> nominal_in("mHz", 50.0)
    50000.0
    """
    return {"Hz": nominal_hz, "mHz": 1000 * nominal_hz, "p.u.": 1.0, "rad/s": 2 * pi * nominal_hz}[
        unit
    ]
