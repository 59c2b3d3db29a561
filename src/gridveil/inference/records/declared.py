"""The declaration of a measured trajectory: a small TOML, of which nothing is guessed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

from pydantic import Field, Strict, StrictBool, StrictFloat, StrictInt, StrictStr

from gridveil.foundation.errors import InputError, OptionError
from gridveil.foundation.toml import Declared, read_toml
from gridveil.inference.records.layout import COMTRADE, Encoding, RecordFile, Unit, Values
from gridveil.inference.records.refusing import NOT_USED, refusal
from gridveil.inference.records.times import FORMATS, check_format, check_zone
from gridveil.privacy.provenance import Provenance

Offset = Literal["pre-event", "none"]
Detrend = Literal["none", "linear"]

# What `record init` leaves to the owner begins with this word.
EDIT = "EDIT"

NOT_PUBLISHED = "none published"
Text = Annotated[str, Field(pattern=r"\S")]
Number = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(strict=True, ge=-1e6, le=1e6, allow_inf_nan=False)]
Span = Annotated[list[Seconds], Field(min_length=2, max_length=2)]
Line = Annotated[int, Field(strict=True, ge=1, le=1000)]
Cells = Annotated[list[StrictStr | StrictInt | StrictFloat], Field(max_length=100)]
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


class _Layout(Declared):
    """How a file is laid out: keys that may stand above, for all files, or in one of [[files]]."""

    refusal = staticmethod(refusal)

    record: Text | None = Field(
        None, description="the name of the CSV, or of a COMTRADE .cfg, beside it, in quotes"
    )
    time_column: Any = Field(
        None,
        description="the header of the column of times, in quotes, or of two that are date and "
        'time, such as ["Date", "Time"]',
    )
    time_format: Text | None = None
    zone: str | None = None
    unit: Unit | None = None
    values: Values | None = None
    delimiter: Literal[",", ";", "\t", "|"] | None = Field(
        None, description='what stands between two cells: ",", ";", "|" or "\\t" (a tab)'
    )
    decimal: Literal[".", ","] | None = Field(
        None, description='what stands before decimals: "." or ","'
    )
    encoding: Encoding | None = None
    header_line: Line | None = Field(None, description="the line of the header, from 1")
    data_line: Line | None = Field(None, description="the line of the first sample, from 1")
    missing: Cells | None = Field(
        None, description='a list of what stands for a gap, such as ["0", "Bad"]'
    )
    quality_column: Text | None = Field(
        None, description="the header of a column that says which rows are good"
    )
    quality_good: Cells | None = Field(
        None, description='a list of what quality_column says of good rows, such as ["0", "Good"]'
    )
    locations: dict[str, Bus] | None = Field(
        None,
        min_length=1,
        description='a table of the bus of each column, such as "PMU north" = "7"',
    )


class _Keys(_Layout):
    """Keys of a trajectory's TOML."""

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
    offset_window: Span | None = Field(
        None, description="two times in seconds from the event, such as [-20.0, -1.0]"
    )
    detrend: Detrend = "none"
    window: Span | None = Field(
        None, description="two times in seconds from the event, such as [-20.0, 40.0]"
    )
    event: Text = Field(
        description='words such as "load:7=+0.3", with the grid\'s own bus names, or '
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
    files: list[dict[str, Any]] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="tables [[files]] with record, locations and what is laid out in another way",
    )
    redistribute: StrictBool = Field(
        False, description="true where the record's licence lets a bundle carry it, else false"
    )
    provenance: dict[str, Any] = Field(
        description="a table with origin, source, date, link and event_source"
    )


@dataclass(frozen=True)
class Declaration:
    """What the owner declares about a record; nothing of it is guessed.

    files : of the record, all on one clock.
    unit : of sigma.
    event : in words, with times in seconds after event_time.
    event_time : as the first file writes times.
    offset : whether each location's mean before the event is taken away.
    offset_window : of that mean, in seconds from the event; None: all that lies before it.
    detrend : whether the line through it is taken away in place of the mean.
    window : what is used, in seconds from the event; None: all.
    sigma : of a sample, in the record's unit.
    event_size : bounds in words.
    event_time_window : ± [s].
    redistribute : whether its licence lets a bundle carry what is used of it.
    """

    file: str
    files: tuple[RecordFile, ...]
    unit: Unit
    nominal_hz: float
    event: str
    provenance: Provenance
    offset: Offset = "pre-event"
    offset_window: tuple[float, float] | None = None
    detrend: Detrend = "none"
    window: tuple[float, float] | None = None
    sigma: float | None = None
    event_time: Any = 0.0
    event_size: str | None = None
    event_time_window: float = 0.0
    redistribute: bool = False

    @property
    def buses(self) -> tuple[str, ...]:
        """The bus of each location, in the order of the files."""
        return tuple(bus for file in self.files for bus in file.locations.values())

    @property
    def record(self) -> str:
        """Its files in words."""
        return ", ".join(dict.fromkeys(file.path.name for file in self.files))


def read_declaration(path: Path) -> Declaration:
    """Read the TOML of a trajectory; the record lies beside it."""
    if path.suffix.lower() in (".csv", ".tsv", ".txt", ".dat", *COMTRADE) and path.exists():
        raise refusal(
            "this is a record, and a TOML must say what its numbers mean",
            file=path.name,
            expected="the TOML that declares it",
            remedy=f"Write one with: gridveil record init {quote(str(path))}",
        )
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
    _check_edited(data, file)
    if isinstance(data, dict) and not data.keys() & {"record", "files"}:
        raise refusal(
            "record is not declared",
            file=file,
            expected=_expected("record"),
            remedy="Add record to the TOML; gridveil record init writes one.",
        )
    keys = _Keys.read(file, data)
    files = _files(keys, file, folder)
    if files[0].time_format != "seconds" and keys.event_time is None:
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
    _check_windows(keys, file)
    origin = {"event_source": NOT_PUBLISHED} if size_unknown else {}
    plain: dict[str, Any] = {
        name: value
        for name, value in dict(keys).items()
        if value is not None and name not in _Layout.model_fields
    }
    spans: dict[str, Any] = {
        name: tuple(plain[name]) for name in ("window", "offset_window") if name in plain
    }
    checked: dict[str, Any] = {
        "file": file,
        "files": files,
        "unit": keys.unit or files[0].unit,
        "provenance": _provenance(origin | keys.provenance, file),
    }
    return Declaration(**plain | spans | checked)


def _check_edited(data: Any, file: str, within: str = "") -> None:
    """Refuse what `record init` left to be filled in."""
    for key, value in data.items() if isinstance(data, dict) else ():
        name = f"{within}{key}"
        if isinstance(value, str) and value.startswith(EDIT):
            raise refusal(
                f"{name} is still to be filled in",
                file=file,
                expected=_Keys.expected(key) if key in _Keys.model_fields else "your own words",
                remedy=f"Put it in the place of {EDIT}.",
            )
        for inner in value if isinstance(value, list) else [value]:
            _check_edited(inner, file, f"{key}: ")


def _files(keys: _Keys, file: str, folder: Path) -> tuple[RecordFile, ...]:
    """The files of a record: one, whose keys stand above, or those of [[files]]."""
    common = {name: getattr(keys, name) for name in _Layout.model_fields}
    if keys.files is None:
        files = (_file(common, file, folder),)
    else:
        for name in ("record", "locations"):
            if common.pop(name) is not None:
                raise refusal(
                    f"{name} stands beside [[files]]",
                    file=file,
                    expected=f"{name} in each of [[files]]",
                )
        files = tuple(
            _file(
                common
                | {
                    name: value
                    for name, value in _Layout.read(f"{file} [[files]] {number}", own)
                    if value is not None
                },
                f"{file} [[files]] {number}",
                folder,
            )
            for number, own in enumerate(keys.files, start=1)
        )
    for bus, times in Counter(bus for one in files for bus in one.locations.values()).items():
        if times > 1:
            raise refusal(
                f"two locations lie at bus {bus!r}", file=file, expected="one column a bus"
            )
    return files


def _file(keys: Mapping[str, Any], place: str, folder: Path) -> RecordFile:
    given = {name: value for name, value in keys.items() if value is not None}
    path = folder / given.pop("record", "")
    if "record" in keys and path.suffix.lower() in COMTRADE:  # which has its own column of times
        given.setdefault("time_column", "time")
        given.setdefault("time_format", "iso")
    for name in ("record", "time_column", "time_format", "unit", "values", "locations"):
        if keys.get(name) is None and name not in given:
            raise refusal(
                f"{name} is not declared",
                file=place,
                expected=_expected(name),
                remedy=f"Add {name} to the TOML.",
            )
    check_format(given["time_format"], place)
    if "zone" in given:
        check_zone(given["zone"], place)
    if ("quality_column" in given) != ("quality_good" in given):
        raise refusal(
            "quality_column and quality_good do not stand together",
            file=place,
            expected="both, or neither",
        )
    columns = given["time_column"]
    columns = columns if isinstance(columns, list) else [columns]
    if not 1 <= len(columns) <= 3 or not all(isinstance(one, str) and one for one in columns):
        raise refusal("time_column is not usable", file=place, expected=_expected("time_column"))
    return RecordFile(
        **given
        | {
            "path": path,
            "time_column": tuple(columns),
            "locations": {name: str(bus) for name, bus in given["locations"].items()},
            "missing": tuple(map(str, given.get("missing", ()))),
            "quality_good": tuple(map(str, given.get("quality_good", ()))),
        }
    )


def _expected(name: str) -> str:
    return FORMATS if name == "time_format" else _Keys.expected(name)


def _check_windows(keys: _Keys, file: str) -> None:
    """Refuse windows that hold no event, and an offset that is taken during or after it."""
    early = keys.event_time_window or 0.0
    if keys.window and not keys.window[0] <= -early <= early < keys.window[1]:
        raise refusal(
            "window does not hold the event", file=file, expected=_Keys.expected("window")
        )
    if keys.offset_window:
        first, last = keys.offset_window
        if not first < last <= -early or keys.offset == "none":
            raise refusal(
                "offset_window is not usable",
                file=file,
                expected="two times in seconds from the event that lie before it, such as "
                '[-20.0, -1.0], and offset = "pre-event"',
            )
    if keys.detrend == "linear" and keys.offset == "none":
        raise refusal(
            "detrend takes the offset away too",
            file=file,
            expected='detrend = "linear" with offset = "pre-event"',
        )


def _provenance(data: Mapping[str, Any], file: str) -> Provenance:
    origin = _Origin.read(f"{file} [provenance]", data)
    try:
        return Provenance(**{key: str(value) for key, value in dict(origin).items()})  # pyright: ignore[reportArgumentType]
    except OptionError as error:
        raise InputError(
            f"{file}: {error.problem}", outcome=error.outcome, remedy=error.remedy
        ) from None
