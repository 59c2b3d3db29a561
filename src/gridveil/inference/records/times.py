"""Times as records write them: numbers, timestamps, or texts of a declared pattern."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, Literal

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import LONGEST_OPTION
from gridveil.foundation.reading import plain_number
from gridveil.inference.records.refusing import refusal

# How many of a format's numbers make a second.
NUMBERS = {"seconds": 1.0, "epoch": 1.0, "epoch-ms": 1e3, "epoch-us": 1e6, "epoch-ns": 1e9}
LATEST_EPOCH_S = 4_102_444_800  # the year 2100
TIMES = {
    "seconds": "a finite number of seconds",
    "epoch": "seconds since 1970, below 4.1e9 (for milliseconds declare epoch-ms, or divide "
    "milliseconds by 1000)",
    "epoch-ms": "milliseconds since 1970, below 4.1e12",
    "epoch-us": "microseconds since 1970, below 4.1e15",
    "epoch-ns": "nanoseconds since 1970, below 4.1e18",
    "iso": "a timestamp such as 2025-04-28T12:33:16.500+02:00",
}
FORMATS = f"one of {', '.join(TIMES)}, or a pattern such as %d-%b-%Y %H:%M:%S"
DIRECTIVES = frozenset("YymdbBHIMSpzfjaA%")
# A fraction behind the seconds, whatever stands around it.
_FRACTION = re.compile(r"(:\d\d)[.,](\d{1,12})(?!\d)", re.ASCII)
_ZONE = re.compile(r"(?:UTC|Z|([+-])(\d\d):?([0-5]\d))", re.ASCII)

# What a clock's zero is: of the file alone, of a place without a zone, or 1970 in UTC.
Origin = Literal["own", "local", "world"]


def check_format(time_format: str, file: str) -> None:
    """Refuse a format that is neither known nor a pattern that names a day and a time of day."""
    if time_format in TIMES:
        return
    signs = re.findall(r"%(.?)", time_format, re.DOTALL)
    whole = {"S", "M"} <= set(signs) and {"H", "I"} & set(signs) and {"d", "j"} & set(signs)
    once = len(signs) == len(set(signs) - {"%"}) + signs.count("%")
    if len(time_format) > LONGEST_OPTION or not whole or not once or set(signs) - DIRECTIVES:
        raise refusal("time_format is unknown", file=file, expected=FORMATS)


def check_zone(zone: str, file: str) -> None:
    """Refuse what is no distance from UTC."""
    if not _ZONE.fullmatch(zone):
        raise refusal("zone is not usable", file=file, expected='"UTC", or such as "+02:00"')


def origin_of(time_format: str, zoned: bool | None) -> Origin:
    """Where a clock has its zero. zoned : whether its timestamps say their zone."""
    if time_format.startswith("epoch") or zoned:
        return "world"
    return "own" if time_format == "seconds" else "local"


def seconds_of(
    text: str, time_format: str, zone: str | None = None
) -> tuple[float, bool | None] | None:
    """Seconds on the record's clock, and for timestamps whether their zone is known; None: no time.

    zone : of timestamps that do not say theirs.

    >>> seconds_of("28-Apr-2025 11:00:00.5", "%d-%b-%Y %H:%M:%S")
    (1745838000.5, False)
    >>> seconds_of("1745838000500", "epoch-ms"), seconds_of("soon", "iso")
    ((1745838000.5, None), None)
    """
    if len(text) > LONGEST_OPTION:
        return None
    if time_format in NUMBERS:
        number = plain_number(text)
        lowest, latest = (-1e12, 1e12) if time_format == "seconds" else (0.0, LATEST_EPOCH_S)
        seconds = None if number is None else number / NUMBERS[time_format]
        return (seconds, None) if seconds is not None and lowest <= seconds < latest else None
    fraction = 0.0
    try:
        if time_format == "iso":
            stamp = None if _is_date(text) else datetime.fromisoformat(text)
        else:
            plain = text
            if "%f" not in time_format and (found := _FRACTION.search(text)):
                plain = text[: found.end(1)] + text[found.end() :]
                fraction = float(f"0.{found[2]}")
            stamp = datetime.strptime(plain, time_format)
        if stamp is None:
            return None
        if stamp.tzinfo is None and zone is not None:
            stamp = stamp.replace(tzinfo=_zone(zone))
        zoned = stamp.tzinfo is not None
        return (stamp if zoned else stamp.replace(tzinfo=UTC)).timestamp() + fraction, zoned
    except (ValueError, OverflowError, re.error):
        return None


def read_time(
    value: Any, time_format: str, *, file: str, key: str, zone: str | None = None
) -> tuple[float, bool | None]:
    """Read one time of a TOML file, written as in the record: seconds, and whether a timestamp says
    its zone.
    """
    numeric = time_format in NUMBERS
    if numeric and isinstance(value, (int, float)) and not isinstance(value, bool):
        return known_time(repr(value), time_format, file=file, what=key)
    if not numeric and isinstance(value, datetime):
        return known_time(value.isoformat(), "iso", file=file, what=key, zone=zone)
    if not numeric and isinstance(value, str):
        return known_time(value, time_format, file=file, what=key, zone=zone)
    raise refusal(f"{key} is no time as in the record", file=file, expected=expected(time_format))


def known_time(
    text: str,
    time_format: str,
    *,
    file: str,
    what: str,
    line: int | None = None,
    zone: str | None = None,
) -> tuple[float, bool | None]:
    """`seconds_of`, or the refusal of a text that is no time."""
    found = seconds_of(text, time_format, zone)
    if found is None:
        raise _no_time(time_format, file, line, what)
    return found


def expected(time_format: str) -> str:
    """What a time of a format looks like."""
    return TIMES.get(time_format, f"a time of the pattern {time_format}")


def _no_time(time_format: str, file: str, line: int | None, what: str) -> InputError:
    remedy = "Fix that row, or correct time_format." if line else "Correct it."
    return refusal(
        f"{what} is no time", file=file, line=line, expected=expected(time_format), remedy=remedy
    )


def _zone(zone: str) -> timezone:
    found = _ZONE.fullmatch(zone)
    assert found is not None
    sign, hours, minutes = found.groups()
    if sign is None:
        return UTC
    ahead = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(ahead if sign == "+" else -ahead)


def _is_date(text: str) -> bool:
    """Whether a text is a day without a time of day, which Python takes for midnight."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
