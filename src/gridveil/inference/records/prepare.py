"""What is done to a record before it is fitted: the window that is used, the offset or trend before
the event that is taken away, and where its gaps lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gridveil.grid.facts import Array
from gridveil.inference.records.clock import NEIGHBOURS
from gridveil.inference.records.declared import Declaration
from gridveil.inference.records.layout import RecordFile
from gridveil.inference.records.record import RawRecord, Rows
from gridveil.inference.records.refusing import refusal

FEWEST_BEFORE, FEWEST_FOR_TREND = 3, 10
HOLES_SHOWN = 3


@dataclass(frozen=True)
class Hole:
    """A gap of a location.

    from_s : after the event, of the last sample before it [s].
    length_s : to the first sample behind it [s].
    """

    from_s: float
    length_s: float


@dataclass(frozen=True, eq=False)
class Before:
    """What each location did before the event: level (h,) [p.u.] at it, and trend (h,) [p.u./s]."""

    level: Array
    trend: Array

    def at(self, since_s: Array) -> Array:
        """What goes on if nothing happens (n, h). since_s : (n,) after the event [s]."""
        return self.level + np.asarray(since_s)[:, None] * self.trend


def cut(raw: RawRecord, declared: Declaration, first_s: float) -> tuple[RawRecord, RawRecord]:
    """The rows that are used, and those before the event that its offset follows from.

    first_s : the event's first step on the record's clock [s].
    """
    since = raw.time_s - first_s
    used: Rows = np.ones(len(since), dtype=np.bool_)
    if declared.window:
        used = _within(since, declared.window)
        if not used.any():
            raise refusal(
                f"the window holds no sample: the record goes from {since[0]:.6g} to "
                f"{since[-1]:.6g} s after the event",
                file=raw.file,
                expected="a window within the record",
                remedy="Check event_time and window.",
            )
    early = since < -declared.event_time_window
    before = _within(since, declared.offset_window) if declared.offset_window else used & early
    return raw.rows(used), raw.rows(before)


def _within(since: Array, window: tuple[float, float]) -> Rows:
    # Times in words are exact to a microsecond at best.
    return (since >= window[0] - 1e-6) & (since <= window[1] + 1e-6)


def level_before(
    raw: RawRecord, file: RecordFile, declared: Declaration, omega: Array, first_s: float
) -> Before:
    """Mean of each location before the event, or the line through it; zeros where none is to be
    taken away.

    raw, omega : rows before the event, and their deviations (n, h) [p.u.].
    """
    nothing = np.zeros(omega.shape[1])
    if declared.offset == "none":
        return Before(nothing, nothing)
    linear = declared.detrend == "linear"
    fewest = FEWEST_FOR_TREND if linear else FEWEST_BEFORE
    counts = np.isfinite(omega).sum(axis=0)
    for column, count in zip(file.locations, counts, strict=True):
        if count < fewest:
            raise refusal(
                f"column {column!r} has {count} samples before the event, too few for its "
                f"{'trend' if linear else 'offset'}",
                file=raw.file,
                expected=f"at least {fewest}",
                remedy="Use a longer record, check event_time"
                f"{' and offset_window' if declared.offset_window else ''}, or declare "
                + ('detrend = "none".' if linear else 'offset = "none".'),
            )
    if not linear:
        return Before(np.nanmean(omega, axis=0), nothing)
    since = raw.time_s - first_s
    lines = []
    for values in omega.T:
        seen = np.isfinite(values)
        lines.append(np.polynomial.polynomial.polyfit(since[seen], values[seen], 1))
    level, trend = np.array(lines).T
    return Before(level, trend)


def holes(since_s: Array, seen: Rows, interval_s: float) -> tuple[Hole, ...]:
    """Gaps of one location, in order of time.

    since_s : (n,) times of the rows after the event [s].
    seen : (n,) whether each has a value.
    """
    times = since_s[seen]
    between = np.diff(times)
    return tuple(
        Hole(float(times[place]), float(between[place]))
        for place in np.flatnonzero(between > NEIGHBOURS * interval_s)
    )


def longest(found: tuple[Hole, ...]) -> tuple[Hole, ...]:
    """The few longest, in order of time."""
    chosen = sorted(found, key=lambda hole: -hole.length_s)[:HOLES_SHOWN]
    return tuple(sorted(chosen, key=lambda hole: hole.from_s))
