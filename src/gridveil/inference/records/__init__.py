"""Measured trajectories: a public record in CSV, and a small TOML that declares what its numbers
mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import pi, sqrt
from pathlib import Path

import numpy as np

from gridveil.dynamics.events import Event, Step
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.arguments import a_number, a_place, of_type, takes
from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, GridFacts, IntArray, TableFacts
from gridveil.grid.parameters import DAMPING, Bounds
from gridveil.inference.fit import FitSettings, Observation, Unknown
from gridveil.inference.records.clock import lay_clock, resample, sampling
from gridveil.inference.records.declared import (
    Declaration,
    declaration,
    is_unknown,
    read_declaration,
    read_size,
    read_unknown,
)
from gridveil.inference.records.record import NOT_USED, RawRecord, read_record, read_time, refusal

__all__ = [
    "Declaration",
    "Location",
    "Measured",
    "check_size",
    "declaration",
    "measure",
    "read_declaration",
    "read_trajectory",
]

# No grid runs further from its nominal frequency than this; 50 and 60 Hz lie further apart.
FURTHEST = 0.15
MOST_GAPS = 0.9
FEWEST_AFTER, SHORTEST_AFTER_S, LONGEST_S = 10, 1.0, 3600.0
FEWEST_BEFORE = 3
# Units are confused by factors of 50 and more; no public bounds are that far off.
WRONG_SIZE = 20.0
# No sensor, and no model that is worth fitting, is further off [p.u. frequency].
LARGEST_SIGMA = 0.01


@dataclass(frozen=True)
class Location:
    """What was read at one place.

    samples : values in the file.
    gaps : share of its samples that are missing.
    used : samples that the fit gets.
    offset_hz : mean before the event, taken away [Hz].
    peak_hz, peak_s : largest deviation, and when after the event.
    """

    column: str
    bus: str
    samples: int
    gaps: float
    used: int
    offset_hz: float
    peak_hz: float
    peak_s: float


@dataclass(frozen=True, eq=False)
class Measured:
    """A record on the fit's clock, ready to be used.

    trajectory : NaN in gaps.
    event : on the same clock, with the owner's buses.
    interval_s : between two samples [s].
    unknown : what of the event is to be estimated; the event is then a guess.
    sigma : of a sample [p.u.], if declared.
    declared_s : when the event's first step is declared, after event_time [s].
    on_step, interpolated, left_out : values that lay on a step of the fit's clock, that were moved
    to the nearest one on the line to a neighbour, and that had no neighbour there or shared their
    step with others.
    repeated : rows that repeated another.
    unused : columns of the file that are no location.
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
    unused: tuple[str, ...]
    unknown: Unknown
    sigma: float | None
    declared_s: float

    @property
    def observation(self) -> Observation:
        """What the fit takes."""
        return Observation(
            self.event, self.trajectory, self.declared.provenance, self.unknown, self.sigma
        )

    @property
    def event_s(self) -> float:
        """When the first step falls, on the trajectory's clock [s]."""
        return self.event.steps[0].at_s


@takes(
    outcome=NOT_USED,
    path=a_place("a path to the TOML that declares a record"),
    facts=of_type(GridFacts, "facts of a swing grid, such as source.facts"),
    dt_s=a_number("a time step above 0 [s]", above=0.0),
)
def read_trajectory(path: str | Path, facts: GridFacts, *, dt_s: float = 0.01) -> Measured:
    """Read a trajectory that a TOML declares, check it against a grid's public facts, and put it on
    the fit's clock.
    """
    return measure(read_declaration(Path(path)), facts, dt_s=dt_s)


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
        *declared.locations.values(),
        *(bus for step in event.steps for bus in (*step.change, *step.lost, *step.trips)),
    ]:
        if bus not in known:
            raise refusal(
                f"bus {bus!r} is unknown",
                file=declared.file,
                expected="buses as the grid's own file names them",
            )
    columns = list(declared.locations)
    raw = read_record(
        declared.record,
        time_column=declared.time_column,
        time_format=declared.time_format,
        columns=columns,
    )
    zero_s, zoned = read_time(
        declared.event_time, declared.time_format, file=declared.file, key="event_time"
    )
    if zoned != raw.zoned and declared.time_format == "iso":
        raise refusal(
            "event_time and the record do not both say their zone",
            file=declared.file,
            expected="both, or neither",
        )
    first_s = zero_s + event.steps[0].at_s
    omega = _per_unit(raw, declared)
    interval_s, missing = sampling(raw)
    gaps = 1 - np.isfinite(omega).sum(axis=0) / (len(omega) + missing.sum())
    if window_s and first_s - window_s < raw.time_s[0]:
        raise refusal(
            f"the event may have come before the record begins, {first_s - raw.time_s[0]:.3g} s "
            "before event_time",
            file=declared.file,
            expected=f"a record from {window_s:g} s before it on",
            remedy="Narrow event_time_window, or use a longer record.",
        )
    _check_enough(raw, declared, omega, gaps, first_s + window_s)
    offset = _offset(raw, declared, omega, first_s - window_s)
    omega = omega - offset
    origin_s, event = lay_clock(event, first_s, float(raw.time_s[0]), dt_s, declared.file)
    if unknown.size:  # the frequency falls where load was added
        mean = float(np.nanmean(omega[raw.time_s > first_s + window_s]))
        event = Event(tuple(_times(step, -np.sign(mean) or 1.0) for step in event.steps))
    placed = resample(raw.time_s - origin_s, omega, interval_s, missing, dt_s, event, window_s)
    deviation = np.where(np.isfinite(omega), np.abs(omega), -1.0)
    peaks = [int(row) for row in deviation.argmax(axis=0)]
    used = np.isfinite(placed.omega).sum(axis=0)
    after = np.isfinite(
        placed.omega[placed.time_s >= event.steps[0].at_s + window_s - dt_s / 2]
    ).sum(axis=0)
    _check_after(
        raw, declared, after, f"samples after the event that come onto steps of {dt_s:g} s"
    )
    return Measured(
        declared=declared,
        trajectory=Trajectory(
            placed.time_s,
            placed.omega,
            tuple(declared.locations.values()),
            declared.nominal_hz,
            settling=float("nan"),
        ),
        event=event,
        locations=tuple(
            Location(
                column=column,
                bus=declared.locations[column],
                samples=int(np.isfinite(omega[:, place]).sum()),
                gaps=float(gaps[place]),
                used=int(used[place]),
                offset_hz=float(offset[place]) * declared.nominal_hz,
                peak_hz=float(omega[peaks[place], place]) * declared.nominal_hz,
                peak_s=float(raw.time_s[peaks[place]]) - first_s,
            )
            for place, column in enumerate(columns)
        ),
        interval_s=interval_s,
        duration_s=float(raw.time_s[-1] - raw.time_s[0]),
        on_step=placed.on_step,
        interpolated=placed.interpolated,
        left_out=max(0, int(np.isfinite(omega).sum()) - placed.on_step - placed.interpolated),
        repeated=raw.repeated,
        unused=raw.unused,
        unknown=unknown,
        sigma=sigma,
        declared_s=first_s - zero_s,
    )


def read_all(
    declared: Sequence[Declaration],
    facts: TableFacts,
    dt_s: float | None = None,
    bounds: Bounds | None = None,
) -> list[Measured]:
    """Read declared trajectories onto the fit's clock; refuse what does not fit the grid and, given
    bounds of a swing model, its event.
    """
    records = [measure(each, facts, dt_s=dt_s or FitSettings().dt_s) for each in declared]
    if bounds is not None and isinstance(facts, GridFacts):
        for record in records:
            check_size(record, facts, bounds)
    return records


def check_size(measured: Measured, facts: GridFacts, bounds: Bounds) -> None:
    """Refuse a record that is far larger or smaller than its event can be, or of the other sign: a
    wrong unit, or event.

    From public data alone: after a lasting load ℓ the frequency settles at −Σℓ/Σ(D + G), with D
    within its public bounds.
    """
    loads = [_added(step, facts) for step in measured.event.steps]
    total = abs(sum(loads))
    if not total or np.isnan(total) or min(loads) < 0 < max(loads):
        return
    smallest, greatest = measured.unknown.size or (total, total)
    public, omega = float(facts.load_damping.sum()), measured.trajectory.omega
    peak = float(np.nanmax(np.abs(omega)))
    least = smallest / (
        float(facts.droop_gain.sum()) + len(facts.machines) * bounds[DAMPING.name].upper + public
    )
    largest = greatest / max(len(facts.machines) * bounds[DAMPING.name].lower + public, 1e-9)
    hz = measured.declared.nominal_hz
    if not least / WRONG_SIZE <= peak <= largest * WRONG_SIZE:
        raise refusal(
            f"the largest deviation is {1000 * hz * peak:.3g} mHz, where the event and the public "
            f"bounds of d let expect {1000 * hz * least:.3g} to {1000 * hz * largest:.3g} mHz",
            file=measured.declared.file,
            expected=f"no more than {WRONG_SIZE:g} times less or more",
            remedy="Check unit, values and the size of the event; or set --bounds d=… from public "
            "knowledge.",
        )
    after = omega[measured.trajectory.time_s > measured.event_s]
    mean = float(np.nanmean(after))
    if not measured.unknown.size and abs(mean) > peak / 5 and (mean > 0) == (sum(loads) > 0):
        raise refusal(
            f"the frequency {'rises' if mean > 0 else 'falls'} after the event, which "
            f"{'adds' if mean > 0 else 'takes'} load",
            file=measured.declared.file,
            expected="a frequency that falls where load is added or generation lost",
            remedy="Check the sign of the event (load:BUS=+0.1 lowers the frequency) and "
            "event_time.",
        )


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


def _nominal(declared: Declaration) -> float:
    """The nominal frequency in the record's unit."""
    hz = declared.nominal_hz
    return {"Hz": hz, "mHz": 1000 * hz, "p.u.": 1.0, "rad/s": 2 * pi * hz}[declared.unit]


def _sigma(declared: Declaration) -> float | None:
    """Standard deviation of a sample [p.u.], if it is declared."""
    if declared.sigma is None:
        return None
    sigma = declared.sigma / _nominal(declared)
    if sigma > LARGEST_SIGMA:
        raise refusal(
            f"sigma is {declared.sigma:g} {declared.unit}, {100 * sigma:.3g} % of the nominal "
            "frequency",
            file=declared.file,
            expected=f"no more than {100 * LARGEST_SIGMA:g} %, in the record's unit",
        )
    return sigma


def _per_unit(raw: RawRecord, declared: Declaration) -> Array:
    """Turn values into deviations [p.u.], and refuse those that cannot be frequencies in their
    unit.
    """
    omega = raw.values / _nominal(declared) - (1.0 if declared.values == "absolute" else 0.0)
    wrong = np.argwhere(np.abs(omega) > FURTHEST)  # a gap is not
    if len(wrong):
        row, place = wrong[0]
        kind = "frequency" if declared.values == "absolute" else "deviation of the frequency"
        raise raw.error(
            int(row),
            f"column {list(declared.locations)[place]!r} is no {kind} of a {declared.nominal_hz:g} "
            f"Hz grid in {declared.unit}",
            expected=f"within {100 * FURTHEST:g} % of nominal, or nothing for a gap",
            remedy="Check unit, values (absolute or deviation) and nominal_hz; leave cells empty "
            "where nothing was measured.",
        )
    return omega


def _check_enough(
    raw: RawRecord, declared: Declaration, omega: Array, gaps: Array, first_s: float
) -> None:
    """Refuse a record that says too little about its event."""
    length_s = raw.time_s[-1] - min(first_s, raw.time_s[0])
    if length_s > LONGEST_S:
        raise refusal(
            f"the record is {length_s / 3600:.2g} hours long",
            file=raw.file,
            expected="up to an hour",
            remedy="Cut it to the minutes around the event.",
        )
    if raw.time_s[-1] < first_s + SHORTEST_AFTER_S:
        raise refusal(
            f"the record ends {raw.time_s[-1] - first_s:.3g} s after the event"
            if raw.time_s[-1] >= first_s
            else "the record ends before the event",
            file=raw.file,
            expected=f"at least {SHORTEST_AFTER_S:g} s after it",
            remedy="Use a longer record, or check event_time.",
        )
    for place, column in enumerate(declared.locations):
        seen = np.isfinite(omega[:, place])
        if gaps[place] > MOST_GAPS:
            raise refusal(
                f"{100 * gaps[place]:.0f} % of column {column!r} is missing",
                file=raw.file,
                expected=f"gaps of no more than {100 * MOST_GAPS:g} %",
                remedy="Leave the location out, or use another record.",
            )
        if np.ptp(omega[seen, place]) == 0:
            raise refusal(
                f"column {column!r} is constant",
                file=raw.file,
                expected="a frequency that answers the event",
                remedy="Leave the location out, or use another record.",
            )
    _check_after(
        raw,
        declared,
        np.isfinite(omega[raw.time_s >= first_s]).sum(axis=0),
        "samples after the event",
    )


def _check_after(raw: RawRecord, declared: Declaration, counts: IntArray, what: str) -> None:
    for column, count in zip(declared.locations, counts, strict=True):
        if count < FEWEST_AFTER:
            raise refusal(
                f"column {column!r} has {count} {what}",
                file=raw.file,
                expected=f"at least {FEWEST_AFTER}",
                remedy="Use a longer record, leave the location out, or check event_time.",
            )


def _offset(raw: RawRecord, declared: Declaration, omega: Array, first_s: float) -> Array:
    """Mean of each location before the event (h,) [p.u.]; zeros where none is to be taken away."""
    if declared.offset == "none":
        return np.zeros(omega.shape[1])
    before = omega[raw.time_s < first_s]
    for place, column in enumerate(declared.locations):
        count = int(np.isfinite(before[:, place]).sum())
        if count < FEWEST_BEFORE:
            raise refusal(
                f"column {column!r} has {count} samples before the event, too few for its offset",
                file=raw.file,
                expected=f"at least {FEWEST_BEFORE}",
                remedy='Use a longer record, check event_time, or declare offset = "none".',
            )
    return np.nanmean(before, axis=0)


def _added(step: Step, facts: GridFacts) -> float:
    """Load that a step adds in all [p.u. power]; NaN where it depends on loads that are
    withheld.
    """
    if (step.uniform or step.lost) and not facts.loads_are_public:
        return float("nan")
    lost = sum(float(facts.loads[facts.buses.index(bus)]) for bus in dict.fromkeys(step.lost))
    return step.uniform * float(facts.loads.sum()) - lost + sum(step.change.values())
