"""Measured records as files: a CSV and the TOML that declares it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

PROVENANCE = {
    "origin": "measured",
    "source": "Wide-area record",
    "date": "2016-01-06",
    "link": "https://example.org/record",
    "event_source": "the operator's report",
}
DECLARED = {
    "record": "record.csv",
    "time_column": "time",
    "time_format": "seconds",
    "unit": "Hz",
    "values": "absolute",
    "nominal_hz": 60.0,
    "event": "load:5=+0.1@2s",
    "locations": {"north": "1", "south": "4"},
    "provenance": PROVENANCE,
}
BEGIN = datetime(2016, 1, 5, 12, 33, 16, tzinfo=UTC)


def signal(time_s, event_s=2.0):
    """Deviations at two places after an event [p.u.]: (n, 2)."""
    since = np.maximum(np.asarray(time_s) - event_s, 0.0)
    north = -0.002 * (1 - np.exp(-since / 2))
    return np.stack([north, north * (1 + 0.1 * np.sin(2 * since))], axis=1)


def in_words(value):
    """A cell of a CSV: nothing for a gap."""
    if isinstance(value, str):
        return value
    return "" if np.isnan(value) else repr(float(value))


def write_csv(path: Path, times, values, columns=("north", "south"), time_column="time") -> Path:
    """Write rows of a time and a value a location."""
    rows = [
        ",".join([in_words(t), *map(in_words, row)]) for t, row in zip(times, values, strict=True)
    ]
    path.write_text("\n".join([",".join([time_column, *columns]), *rows]) + "\n", encoding="utf-8")
    return path


def write_toml(path: Path, **changes) -> Path:
    """Write a declaration; a change to None leaves the key out, `provenance` is merged."""
    declared = DECLARED | changes
    provenance = PROVENANCE | changes.get("provenance", {})
    lines = [
        f"{key} = {_toml(value)}"
        for key, value in declared.items()
        if not isinstance(value, dict) and value is not None
    ]
    for name, table in (("locations", declared["locations"]), ("provenance", provenance)):
        if table is not None:
            lines += [
                f"[{name}]",
                *(f'"{key}" = {_toml(value)}' for key, value in table.items() if value is not None),
            ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _toml(value):
    return (
        f'"{value}"'
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


def write_measured(folder: Path, times=None, rows=None, /, **changes) -> Path:
    """Write record.csv and record.toml; by default 12 s at 50 Hz, of which 2 s before the event, in
    Hz.
    """
    folder.mkdir(parents=True, exist_ok=True)
    times = np.arange(601) / 50 if times is None else times
    rows = 60 * (1 + signal(times)) if rows is None else rows
    write_csv(folder / "record.csv", times, rows)
    return write_toml(folder / "record.toml", **changes)


def stamps(times, zone="+00:00"):
    """Timestamps of some seconds after 12:33:16."""
    return [
        (BEGIN + timedelta(seconds=float(t)))
        .replace(tzinfo=None)
        .isoformat(timespec="milliseconds")
        + zone
        for t in times
    ]
