"""A declared record, read and put on the fit's clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from gridveil.dynamics.events import Event, Step
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, IntArray, TableFacts
from gridveil.inference.fit import Observation, Unknown
from gridveil.inference.records.check import check_after, check_enough
from gridveil.inference.records.clock import Placed, joined, lay_clock, resample, sampling
from gridveil.inference.records.declared import Declaration
from gridveil.inference.records.layout import RecordFile, nominal_in
from gridveil.inference.records.prepare import Before, Hole, cut, holes, level_before
from gridveil.inference.records.record import RawRecord, read_record
from gridveil.inference.records.refusing import NOT_USED, refusal
from gridveil.inference.records.sizes import per_unit
from gridveil.inference.records.times import origin_of, read_time
from gridveil.inference.records.unknown_event import is_unknown, read_size, read_unknown

# No sensor, and no model that is worth fitting, is further off [p.u. frequency].
LARGEST_SIGMA = 0.01
# After this long secondary control and other events are in a record, which no model here has [s].
LONG_AFTER_S = 120.0


@dataclass(frozen=True)
class Location:
    """What was read at one place.

    samples : values in the file.
    gaps : share of its samples that are missing.
    holes : where they are missing, in order of time.
    used : samples that the fit gets.
    offset_hz : mean before the event, or the end of the line through it, taken away [Hz].
    trend_hz_per_s : slope of that line, taken away [Hz/s].
    peak_hz, peak_s : largest deviation, and when after the event.
    """

    file: str
    column: str
    bus: str
    samples: int
    gaps: float
    holes: tuple[Hole, ...]
    used: int
    offset_hz: float
    trend_hz_per_s: float
    peak_hz: float
    peak_s: float


@dataclass(frozen=True, eq=False)
class Measured:
    """A record on the fit's clock, ready to be used.

    trajectory : NaN in gaps.
    event : on the same clock, with the owner's buses.
    interval_s : between two samples [s], of the fastest file.
    duration_s : of what is used [s].
    unknown : what of the event is to be estimated; the event is then a guess.
    sigma : of a sample [p.u.], if declared.
    declared_s : when the event's first step is declared, after event_time [s].
    on_step, interpolated, left_out : values that lay on a step of the fit's clock, that were moved
    to the nearest one on the line to a neighbour, and that had no neighbour there or shared their
    step with others.
    repeated : rows that repeated another.
    flagged : rows that their file calls bad.
    cut_away : rows outside of the window.
    unused : columns of the files that are no location.
    notes : what its owner should think of, in words.
    digests : SHA-256 of its files, in hex.
    """

    declared: Declaration
    trajectory: Trajectory
    event: Event
    locations: tuple[Location, ...]
    interval_s: float
    duration_s: float
    on_step: int
    interpolated: int
    left_out: int
    repeated: int
    flagged: int
    cut_away: int
    unused: tuple[str, ...]
    unknown: Unknown
    sigma: float | None
    declared_s: float
    notes: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()

    @property
    def observation(self) -> Observation:
        """What the fit takes."""
        return Observation(
            self.event,
            self.trajectory,
            self.declared.provenance,
            self.unknown,
            self.sigma,
            self.digests,
            self.declared.redistribute,
        )

    @property
    def event_s(self) -> float:
        """When the first step falls, on the trajectory's clock [s]."""
        return self.event.steps[0].at_s


def measure(declared: Declaration, facts: TableFacts, *, dt_s: float) -> Measured:
    """Read a declared record, check it against a grid's public facts, and put it on the fit's clock
    of dt_s [s].

    The clock is laid so that the first step of the event falls on it. Raises InputError, by line,
    for what cannot be used.
    """
    if abs(declared.nominal_hz - facts.frequency_hz) > 1e-9 * facts.frequency_hz:
        raise refusal(
            f"nominal_hz is {declared.nominal_hz:g} Hz, the grid's is {facts.frequency_hz:g} Hz",
            file=declared.file,
            expected="one nominal frequency",
            remedy="Correct nominal_hz, or give the grid its own with --frequency-hz.",
        )
    event, unknown = _event(declared, facts)
    window_s, sigma = unknown.window_s, _sigma(declared)
    known = set(facts.buses)
    for bus in [
        *declared.buses,
        *(bus for step in event.steps for bus in (*step.change, *step.lost, *step.trips)),
    ]:
        if bus not in known:
            raise refusal(
                f"bus {bus!r} is unknown",
                file=declared.file,
                expected="buses as the grid's own file names them",
            )
    raws = [read_record(file) for file in declared.files]
    zero_s = _zero(declared, raws)
    first_s = zero_s + event.steps[0].at_s
    parts = [
        _part(raw, file, declared, first_s, window_s)
        for raw, file in zip(raws, declared.files, strict=True)
    ]
    start_s = min(float(part.raw.time_s[0]) for part in parts)
    origin_s, event = lay_clock(event, first_s, start_s, dt_s, declared.file)
    if unknown.size:  # the frequency falls where load was added
        after = np.concatenate(
            [part.omega[part.raw.time_s > first_s + window_s].ravel() for part in parts]
        )
        sign = -np.sign(float(np.nanmean(after))) or 1.0
        event = Event(tuple(_times(step, sign) for step in event.steps))
    placed = [part.placed(origin_s, dt_s, event, window_s) for part in parts]
    late = event.steps[0].at_s + window_s - dt_s / 2
    for part, on_clock in zip(parts, placed, strict=True):
        after = np.isfinite(on_clock.omega[on_clock.time_s >= late]).sum(axis=0)
        what = f"samples after the event that come onto steps of {dt_s:g} s"
        check_after(part.raw, part.file, after, what)
    whole = joined(placed, dt_s)
    on_step, interpolated = whole.on_step, whole.interpolated
    end_s = max(float(part.raw.time_s[-1]) for part in parts)
    seen = sum(int(np.isfinite(part.omega).sum()) for part in parts)
    several = len(declared.files) > 1
    return Measured(
        declared=declared,
        trajectory=Trajectory(
            whole.time_s,
            whole.omega,
            declared.buses,
            declared.nominal_hz,
            settling=float("nan"),
        ),
        event=event,
        locations=tuple(
            location
            for part, on_clock in zip(parts, placed, strict=True)
            for location in part.locations(on_clock, declared.nominal_hz, first_s)
        ),
        interval_s=min(part.interval_s for part in parts),
        duration_s=end_s - start_s,
        on_step=on_step,
        interpolated=interpolated,
        left_out=max(0, seen - on_step - interpolated),
        repeated=sum(raw.repeated for raw in raws),
        flagged=sum(raw.flagged for raw in raws),
        cut_away=sum(
            len(raw.time_s) - len(part.raw.time_s) for raw, part in zip(raws, parts, strict=True)
        ),
        unused=tuple(
            f"{raw.file}: {column}" if several else column for raw in raws for column in raw.unused
        ),
        unknown=unknown,
        sigma=sigma,
        declared_s=first_s - zero_s,
        notes=tuple(_notes(declared, raws, end_s - first_s)),
        digests=tuple(dict.fromkeys(digest for raw in raws for digest in raw.digests)),
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """What one file has of a record: rows that are used, and their deviations (n, h) [p.u.] from
    what went on before the event.

    missing : rows that are missing after each row but the last.
    """

    raw: RawRecord
    file: RecordFile
    omega: Array
    gaps: Array
    before: Before
    interval_s: float
    missing: IntArray

    def placed(self, origin_s: float, dt_s: float, event: Event, window_s: float) -> Placed:
        """Its values on the fit's clock."""
        since = self.raw.time_s - origin_s
        return resample(since, self.omega, self.interval_s, self.missing, dt_s, event, window_s)

    def locations(self, placed: Placed, nominal_hz: float, first_s: float) -> list[Location]:
        """What was read at its places."""
        seen, since = np.isfinite(self.omega), self.raw.time_s - first_s
        peaks = np.where(seen, np.abs(self.omega), -1.0).argmax(axis=0)
        used = np.isfinite(placed.omega).sum(axis=0)
        return [
            Location(
                file=self.raw.file,
                column=column,
                bus=bus,
                samples=int(seen[:, place].sum()),
                gaps=float(self.gaps[place]),
                holes=holes(since, seen[:, place], self.interval_s),
                used=int(used[place]),
                offset_hz=float(self.before.level[place]) * nominal_hz,
                trend_hz_per_s=float(self.before.trend[place]) * nominal_hz,
                peak_hz=float(self.omega[peaks[place], place]) * nominal_hz,
                peak_s=float(since[peaks[place]]),
            )
            for place, (column, bus) in enumerate(self.file.locations.items())
        ]


def _part(
    raw: RawRecord, file: RecordFile, declared: Declaration, first_s: float, window_s: float
) -> _Part:
    """Cut a file to its window, check it, and take away what went on before the event."""
    if window_s and first_s - window_s < raw.time_s[0]:
        raise refusal(
            f"the event may have come before the record begins, {first_s - raw.time_s[0]:.3g} s "
            "before event_time",
            file=declared.file,
            expected=f"a record from {window_s:g} s before it on",
            remedy="Narrow event_time_window, or use a longer record.",
        )
    used, early = cut(raw, declared, first_s)
    omega = per_unit(used, file, declared.nominal_hz)
    interval_s, missing = sampling(used)
    gaps = 1 - np.isfinite(omega).sum(axis=0) / (len(omega) + missing.sum())
    check_enough(used, file, omega, gaps, first_s + window_s)
    before = level_before(
        early, file, declared, per_unit(early, file, declared.nominal_hz), first_s
    )
    omega = omega - before.at(used.time_s - first_s)
    return _Part(used, file, omega, gaps, before, interval_s, missing)


def _zero(declared: Declaration, raws: list[RawRecord]) -> float:
    """The event's time on the records' clock [s], which must be one for all."""
    first = declared.files[0]
    zero_s, zoned = read_time(
        declared.event_time,
        first.time_format,
        file=declared.file,
        key="event_time",
        zone=first.zone,
    )
    origin = origin_of(first.time_format, zoned)
    for raw, file in zip(raws, declared.files, strict=True):
        if origin_of(file.time_format, raw.zoned) != origin:
            both = (
                "event_time and the record do not both say their zone"
                if len(raws) == 1
                else f"the times of {raw.file} and event_time have no common zero"
            )
            raise refusal(
                both,
                file=declared.file,
                expected="both, or neither"
                if len(raws) == 1
                else "files of one clock: all in seconds, all without a zone, or all with one "
                '(zone = "+02:00" gives a file its own)',
            )
    return zero_s


def _notes(declared: Declaration, raws: list[RawRecord], after_s: float) -> list[str]:
    """What the owner should think of."""
    notes = [
        f"{raw.file}: the last line does not end, and was left out" for raw in raws if raw.cut_off
    ]
    if declared.window is None and after_s > LONG_AFTER_S:
        notes.append(
            f"the record goes on for {after_s:.4g} s after the event: secondary control and drift, "
            "which the model does not have, are fitted too; cut it with window = [-20.0, 40.0]"
        )
    return notes


def _event(declared: Declaration, facts: TableFacts) -> tuple[Event, Unknown]:
    """The event, or a guess that has its total on all machines alike, and what of it is to be
    estimated.
    """
    try:
        if not is_unknown(declared.event):
            event = Event.parse(declared.event, base_mva=facts.base_mva)
            return event, Unknown(window_s=declared.event_time_window)
        total, at_s = read_unknown(declared.event, facts.base_mva, declared.file)
        size = (
            read_size(declared.event_size, facts.base_mva, declared.file)
            if declared.event_size
            else None
        )
        if size:
            total = sqrt(size[0] * size[1])
        machines = [facts.buses[bus] for bus in facts.machines]
        guess = Event.load(dict.fromkeys(machines, total / len(machines)), at_s=at_s)
        return guess, Unknown(split=True, size=size, window_s=declared.event_time_window)
    except InputError as error:
        raise InputError(
            f"{declared.file}: {error.problem}", outcome=NOT_USED, remedy=error.remedy
        ) from None


def _times(step: Step, factor: float) -> Step:
    return replace(step, change={bus: factor * size for bus, size in step.change.items()})


def _sigma(declared: Declaration) -> float | None:
    """Standard deviation of a sample [p.u.], if it is declared."""
    if declared.sigma is None:
        return None
    sigma = declared.sigma / nominal_in(declared.unit, declared.nominal_hz)
    if sigma > LARGEST_SIGMA:
        raise refusal(
            f"sigma is {declared.sigma:g} {declared.unit}, {100 * sigma:.3g} % of the nominal "
            "frequency",
            file=declared.file,
            expected=f"no more than {100 * LARGEST_SIGMA:g} %, in the record's unit",
        )
    return sigma
