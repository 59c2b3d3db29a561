"""A record's own clock, and how its samples come onto the fit's without inventing any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gridveil.dynamics.events import Event, Step
from gridveil.grid.facts import Array, IntArray
from gridveil.inference.records.record import RawRecord
from gridveil.inference.records.refusing import refusal

# A sample this near to a step of the fit's clock counts as on it [steps]: times rounded to a
# millisecond are, at 0.01 s.
ON_STEP = 0.05 + 1e-6
# Two samples are neighbours up to this many sampling intervals: clocks jitter.
NEIGHBOURS = 1.5


def sampling(raw: RawRecord) -> tuple[float, IntArray]:
    """The record's own sampling interval [s], and the rows that are missing after each row but the
    last.
    """
    if len(raw.time_s) < 2:
        raise refusal(
            "the record has one sample",
            file=raw.file,
            expected="samples before and after the event",
        )
    between = np.diff(raw.time_s)
    shortest = np.quantile(between, 0.05)  # most rows may be missing, and a few may come early
    interval_s = float(between[between <= NEIGHBOURS * shortest].mean())
    return interval_s, np.maximum(np.rint(between / interval_s).astype(np.int64) - 1, 0)


def lay_clock(
    event: Event, first_s: float, start_s: float, dt_s: float, file: str
) -> tuple[float, Event]:
    """Lay a clock of steps dt_s that begins with the record or the event and has the first step of
    load on it.

    Returns its origin on the record's clock [s], and the event on the new clock.
    """
    lead = max(0, int(np.ceil((first_s - start_s) / dt_s - ON_STEP)))
    steps: list[Step] = []
    for step in event.steps:
        later = (step.at_s - event.steps[0].at_s) / dt_s
        if abs(later - round(later)) > 1e-6:
            raise refusal(
                f"a step of the event falls {step.at_s - event.steps[0].at_s:g} s after the first, "
                "between two of the fit's",
                file=file,
                expected=f"a multiple of {dt_s:g} s",
                remedy=f"Move it to {round(later) * dt_s + event.steps[0].at_s:g} s.",
            )
        steps.append(replace(step, at_s=(lead + round(later)) * dt_s))
    return first_s - lead * dt_s, Event(tuple(steps))


@dataclass(frozen=True, eq=False)
class Placed:
    """Values on steps of the fit's clock.

    time_s : (N,) [s].
    omega : (N, h) [p.u.], NaN in gaps; then how many came how.
    """

    time_s: Array
    omega: Array
    on_step: int
    interpolated: int


def resample(
    time_s: Array,
    omega: Array,
    interval_s: float,
    missing: IntArray,
    dt_s: float,
    event: Event,
    window_s: float = 0.0,
) -> Placed:
    """Put each sample on the nearest step of a clock, and leave gaps as they are.

    A sample that lies on its step is taken as it is; else the step's value is read off the line to
    the next sample on its other side, if that is a neighbour and no gap, and the event, where the
    frequency bends, does not fall between the two: with a time known to ± window_s only, where it
    cannot have fallen. Where several samples have one nearest step, it gets one value.
    """
    filled = [time_s[:1]]
    for start, stop, count in zip(time_s[:-1], time_s[1:], missing, strict=True):
        filled.append(np.linspace(start, stop, count + 2)[1:] if count else np.array([stop]))
    steps = np.unique(np.maximum(np.rint(np.concatenate(filled) / dt_s).astype(np.int64), 0))
    at_s = steps.astype(np.float64) * dt_s
    after = np.searchsorted(time_s, at_s).clip(1, len(time_s) - 1)
    before = after - 1
    nearest = np.where(at_s - time_s[before] <= time_s[after] - at_s, before, after)
    out = np.full((len(at_s), omega.shape[1]), np.nan)
    on = np.abs(time_s[nearest] - at_s) <= ON_STEP * dt_s
    out[on] = omega[nearest[on]]
    span = time_s[after] - time_s[before]
    between = (
        ~on & (time_s[before] < at_s) & (at_s < time_s[after]) & (span <= NEIGHBOURS * interval_s)
    )
    for step in event.steps:
        between &= ~(
            (time_s[before] < step.at_s + window_s) & (step.at_s - window_s < time_s[after])
        )
    share = ((at_s - time_s[before]) / span)[between, None]
    out[between] = (1 - share) * omega[before[between]] + share * omega[after[between]]
    return Placed(at_s, out, int(np.isfinite(out[on]).sum()), int(np.isfinite(out[between]).sum()))


def joined(parts: Sequence[Placed], dt_s: float) -> Placed:
    """Put the locations of several files beside each other; NaN where a file has no step."""
    if len(parts) == 1:
        return parts[0]
    steps = [np.rint(part.time_s / dt_s).astype(np.int64) for part in parts]
    every = np.unique(np.concatenate(steps))
    columns = []
    for part, own in zip(parts, steps, strict=True):
        column = np.full((len(every), part.omega.shape[1]), np.nan)
        column[np.searchsorted(every, own)] = part.omega
        columns.append(column)
    return Placed(
        every.astype(np.float64) * dt_s,
        np.concatenate(columns, axis=1),
        sum(part.on_step for part in parts),
        sum(part.interpolated for part in parts),
    )
