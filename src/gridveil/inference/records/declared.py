"""The declaration of a measured trajectory: a small TOML, of which nothing is guessed. Its event
may say what is not known of it: "unknown:total=+0.3@10s", or "unknown".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, Strict, StrictInt, StrictStr

from gridveil.foundation.errors import InputError, OptionError
from gridveil.foundation.limits import LONGEST_OPTION
from gridveil.foundation.toml import Declared, read_toml
from gridveil.inference.records.record import NOT_USED, TimeFormat, refusal
from gridveil.privacy.provenance import Provenance

Unit = Literal["Hz", "mHz", "p.u.", "rad/s"]
Values = Literal["absolute", "deviation"]
Offset = Literal["pre-event", "none"]

NOT_PUBLISHED = "none published"
Text = Annotated[str, Field(pattern=r"\S")]
Number = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Bus = StrictStr | StrictInt
Day = StrictStr | Annotated[date, Strict()]


class _Origin(Declared):
    """Table [provenance]."""

    refusal = staticmethod(refusal)

    origin: str = Field(description="measured or simulated")
    source: str = Field(description="who published it, in quotes")
    date: Day = Field("", description="the day it became public, such as 2026-05-24")
    link: str = Field("", description="an https:// or doi: address where it can be read")
    event_source: str = Field("", description="who published the size and place of the event")


class _Keys(Declared):
    """Keys of a trajectory's TOML."""

    refusal = staticmethod(refusal)

    record: Text = Field(description="the name of the CSV beside it, in quotes")
    time_column: Text = Field(description="the header of the column of times, in quotes")
    time_format: TimeFormat
    unit: Unit
    values: Values
    nominal_hz: float = Field(
        strict=True,
        ge=1,
        le=1000,
        description="the grid's nominal frequency in Hz, such as 50 or 60",
    )
    sigma: Number | None = Field(
        None,
        description="the standard deviation of a sample in the record's unit, of sensor and model "
        "error together",
    )
    offset: Offset = "pre-event"
    event: Text = Field(
        description='words such as "load:7=+0.3@10s", with the grid\'s own bus names, or '
        '"unknown:total=+0.3" or "unknown"'
    )
    event_size: str | None = Field(
        None,
        description='public bounds of what it added or took in all, such as "0.05:2" p.u. or '
        '"5:200MW"',
    )
    event_time: Any = None
    event_time_window: Number | None = Field(
        None,
        description="seconds that the event may have come earlier or later than event_time, such "
        "as 2.0",
    )
    locations: dict[str, Bus] = Field(
        min_length=1, description='a table of the bus of each column, such as "PMU north" = "7"'
    )
    provenance: dict[str, Any] = Field(
        description="a table with origin, source, date, link and event_source"
    )


@dataclass(frozen=True)
class Declaration:
    """What the owner declares about a record; nothing of it is guessed.

    record : the CSV.
    event : in words, with times in seconds after event_time.
    event_time : as the record writes times;
    locations : bus of each column.
    offset : whether each location's mean before the event is taken away.
    sigma : of a sample, in the record's unit.
    event_size : bounds in words.
    event_time_window : ± [s].
    """

    file: str
    record: Path
    time_column: str
    time_format: TimeFormat
    unit: Unit
    values: Values
    nominal_hz: float
    offset: Offset
    event: str
    locations: Mapping[str, str]
    provenance: Provenance
    event_time: Any = 0.0
    sigma: float | None = None
    event_size: str | None = None
    event_time_window: float = 0.0


def read_declaration(path: Path) -> Declaration:
    """Read the TOML of a trajectory; the record lies beside it."""
    try:
        data = read_toml(path)
    except InputError as error:
        raise InputError(error.problem, outcome=NOT_USED, remedy=error.remedy) from None
    return declaration(data, file=path.name, folder=path.parent)


def declaration(data: Any, *, file: str, folder: Path) -> Declaration:
    """Check the keys of a trajectory's TOML.

    file : where they stand.
    folder : where its record lies.
    """
    keys = _Keys.read(file, data)
    if keys.time_format != "seconds" and keys.event_time is None:
        raise refusal(
            "event_time is not declared",
            file=file,
            expected="the event's time, written as in the record",
        )
    size_unknown = re.fullmatch(r"unknown\s*(@.*)?", keys.event.strip()) is not None
    if size_unknown and keys.event_size is None:
        raise refusal(
            "event_size is not declared", file=file, expected=_Keys.expected("event_size")
        )
    if keys.event_size is not None and not size_unknown:
        raise refusal(
            "event_size stands beside an event of known size",
            file=file,
            expected='event_size with event = "unknown" alone',
        )
    locations = {column: str(bus) for column, bus in keys.locations.items()}
    for bus, times in Counter(locations.values()).items():
        if times > 1:
            raise refusal(
                f"two locations lie at bus {bus!r}", file=file, expected="one column a bus"
            )
    origin = {"event_source": NOT_PUBLISHED} if size_unknown else {}
    plain = {name: value for name, value in dict(keys).items() if value is not None}
    return Declaration(
        **plain
        | {
            "file": file,
            "record": folder / keys.record,
            "locations": locations,
            "provenance": _provenance(origin | keys.provenance, file),
        }
    )


def _provenance(data: Mapping[str, Any], file: str) -> Provenance:
    origin = _Origin.read(f"{file} [provenance]", data)
    try:
        return Provenance(**{key: str(value) for key, value in dict(origin).items()})  # pyright: ignore[reportArgumentType]
    except OptionError as error:
        raise InputError(
            f"{file}: {error.problem}", outcome=error.outcome, remedy=error.remedy
        ) from None


EXPECTED = (
    '"unknown", or "unknown:total=+0.3" in p.u. or "unknown:total=+30MW", each with an '
    'optional time such as "@10s"'
)
SIZE_EXPECTED = 'two sizes above 0, the smaller first, such as "0.05:2" p.u. or "5:200MW"'
_NUMBER = r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?"
_SIZE = rf"({_NUMBER})\s*(MW|pu|p\.u\.)?"


def is_unknown(event: str) -> bool:
    """Whether an event in words is one of unknown place."""
    return re.match(r"\s*unknown\b", event) is not None


def read_unknown(event: str, base_mva: float, file: str) -> tuple[float, float]:
    """Read what is known of it: the load it adds in all [p.u. power], 0 where that is unknown too,
    and its time [s].
    """
    pattern = rf"\s*unknown\s*(?::\s*total\s*=\s*{_SIZE}\s*)?(?:@\s*({_NUMBER})\s*s?\s*)?"
    match = re.fullmatch(pattern, event) if len(event) <= LONGEST_OPTION else None
    if not match:
        raise refusal(f"the event {event!r} cannot be read", file=file, expected=EXPECTED)
    number, unit, time = match.groups()
    total = _per_unit(number, unit, base_mva) if number else 0.0
    if number and not total:
        raise refusal("the event's total is 0", file=file, expected="what it added or took in all")
    if time and float(time) < 0:
        raise refusal(
            "the event's time is negative", file=file, expected="seconds after event_time"
        )
    return total, float(time) if time else 0.0


def read_size(text: str, base_mva: float, file: str) -> tuple[float, float]:
    """Read public bounds of a size [p.u. power]; a unit behind the last stands for both."""
    match = (
        re.fullmatch(rf"\s*{_SIZE}\s*:\s*{_SIZE}\s*", text) if len(text) <= LONGEST_OPTION else None
    )
    if match:
        low, low_unit, high, high_unit = match.groups()
        lower, upper = (
            _per_unit(low, low_unit or high_unit, base_mva),
            _per_unit(high, high_unit, base_mva),
        )
        if 0 < lower < upper < float("inf"):
            return lower, upper
    raise refusal(f"event_size {text!r} cannot be used", file=file, expected=SIZE_EXPECTED)


def _per_unit(number: str, unit: str | None, base_mva: float) -> float:
    return float(number) / base_mva if unit == "MW" else float(number)
