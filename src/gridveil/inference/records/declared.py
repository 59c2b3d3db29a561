"""The declaration of a measured trajectory: a small TOML, of which nothing is guessed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal, get_args

from gridveil.foundation.errors import InputError, OptionError
from gridveil.foundation.toml import read_toml
from gridveil.inference.records.record import NOT_USED, TIME_FORMATS, TimeFormat, refusal
from gridveil.privacy.provenance import Provenance

Unit = Literal["Hz", "mHz", "p.u.", "rad/s"]
Values = Literal["absolute", "deviation"]
Offset = Literal["pre-event", "none"]

KEYS = (
    "record",
    "time_column",
    "time_format",
    "unit",
    "values",
    "nominal_hz",
    "sigma",
    "offset",
    "event",
    "event_size",
    "event_time",
    "event_time_window",
    "locations",
    "provenance",
)
OPTIONAL = ("offset", "event_time", "event_size", "event_time_window", "sigma")
NOT_PUBLISHED = "none published"

_CHOICES = {
    "time_format": TIME_FORMATS,
    "unit": get_args(Unit),
    "values": get_args(Values),
    "offset": get_args(Offset),
}
_EXPECTED = {
    "record": "the name of the CSV beside it, in quotes",
    "time_column": "the header of the column of times, in quotes",
    "nominal_hz": "the grid's nominal frequency in Hz, such as 50 or 60",
    "event": 'words such as "load:7=+0.3@10s", with the grid\'s own bus names, or '
    '"unknown:total=+0.3" or "unknown"',
    "event_size": 'public bounds of what it added or took in all, such as "0.05:2" p.u. or '
    '"5:200MW"',
    "event_time_window": "seconds that the event may have come earlier or later than event_time, "
    "such as 2.0",
    "sigma": "the standard deviation of a sample in the record's unit, of sensor and model error "
    "together",
    "locations": 'a table of the bus of each column, such as "PMU north" = "7"',
    "provenance": "a table with origin, source, date, link and event_source",
    **{key: f"one of {', '.join(words)}" for key, words in _CHOICES.items()},
}


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
    event_time: Any
    locations: Mapping[str, str]
    provenance: Provenance
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
    if not isinstance(data, dict):
        raise refusal(
            "a trajectory's table was expected here", file=file, expected="key = value lines"
        )
    for key in data:
        if key not in KEYS:
            raise refusal(
                f"the key {key!r} is unknown", file=file, expected=f"one of {', '.join(KEYS)}"
            )
    for key in KEYS:
        if key not in data and key not in OPTIONAL:
            raise refusal(
                f"{key} is not declared",
                file=file,
                expected=_EXPECTED[key],
                remedy=f"Add {key} to the TOML.",
            )
    for key in ("record", "time_column", "event"):
        if not (isinstance(data[key], str) and data[key].strip()):
            raise refusal(f"{key} is not usable", file=file, expected=_EXPECTED[key])
    data = {"offset": "pre-event"} | data
    for key, words in _CHOICES.items():
        if data[key] not in words:
            raise refusal(f"{key} is unknown", file=file, expected=_EXPECTED[key])
    nominal = data["nominal_hz"]
    if not (
        isinstance(nominal, (int, float)) and not isinstance(nominal, bool) and 1 <= nominal <= 1000
    ):
        raise refusal("nominal_hz is not usable", file=file, expected=_EXPECTED["nominal_hz"])
    if data["time_format"] != "seconds" and "event_time" not in data:
        raise refusal(
            "event_time is not declared",
            file=file,
            expected="the event's time, written as in the record",
        )
    for key in ("sigma", "event_time_window"):
        value = data.get(key, 1.0)
        if not (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and 0 < value < float("inf")
        ):
            raise refusal(f"{key} is not usable", file=file, expected=_EXPECTED[key])
    size_unknown = re.fullmatch(r"unknown\s*(@.*)?", data["event"].strip()) is not None
    if size_unknown != ("event_size" in data):
        raise refusal(
            "event_size is not declared"
            if size_unknown
            else "event_size stands beside an event of known size",
            file=file,
            expected=_EXPECTED["event_size"]
            if size_unknown
            else 'event_size with event = "unknown" alone',
        )
    if not isinstance(data.get("event_size", ""), str):
        raise refusal("event_size is not usable", file=file, expected=_EXPECTED["event_size"])
    return Declaration(
        file=file,
        record=folder / data["record"],
        time_column=data["time_column"],
        time_format=data["time_format"],
        unit=data["unit"],
        values=data["values"],
        nominal_hz=float(nominal),
        offset=data["offset"],
        event=data["event"],
        event_time=data.get("event_time", 0.0),
        locations=_locations(data["locations"], file),
        provenance=_provenance(
            data["provenance"], file, {"event_source": NOT_PUBLISHED} if size_unknown else {}
        ),
        sigma=float(data["sigma"]) if "sigma" in data else None,
        event_size=data.get("event_size"),
        event_time_window=float(data.get("event_time_window", 0.0)),
    )


def _locations(data: Any, file: str) -> dict[str, str]:
    if not isinstance(data, dict) or not data:
        raise refusal("locations is not usable", file=file, expected=_EXPECTED["locations"])
    for column, bus in data.items():
        if isinstance(bus, bool) or not isinstance(bus, (str, int)):
            raise refusal(
                f"the bus of location {column!r} is not usable",
                file=file,
                expected=_EXPECTED["locations"],
            )
    buses = [str(bus) for bus in data.values()]
    for bus, times in Counter(buses).items():
        if times > 1:
            raise refusal(
                f"two locations lie at bus {bus!r}", file=file, expected="one column a bus"
            )
    return dict(zip(data, buses, strict=True))


def _provenance(data: Any, file: str, usual: Mapping[str, str]) -> Provenance:
    known = ("origin", "source", "date", "link", "event_source")
    if not isinstance(data, dict) or "origin" not in data or "source" not in data:
        raise refusal("provenance is not declared", file=file, expected=_EXPECTED["provenance"])
    for key, value in data.items():
        if key not in known or not isinstance(value, (str, date)):
            problem = "is no text" if key in known else "is unknown"
            raise refusal(
                f"{key!r} of [provenance] {problem}", file=file, expected=_EXPECTED["provenance"]
            )
    try:
        return Provenance(**dict(usual) | {key: str(value) for key, value in data.items()})  # pyright: ignore[reportArgumentType]
    except OptionError as error:
        raise InputError(
            f"{file}: {error.problem}", outcome=error.outcome, remedy=error.remedy
        ) from None
