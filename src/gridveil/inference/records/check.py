"""Whether a record says enough of its event, and can be the answer to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gridveil.dynamics.events import Step
from gridveil.grid.facts import Array, GridFacts, IntArray
from gridveil.grid.parameters import DAMPING, Bounds
from gridveil.inference.records.declared import Declaration
from gridveil.inference.records.layout import RecordFile, nominal_in
from gridveil.inference.records.record import RawRecord
from gridveil.inference.records.refusing import refusal
from gridveil.inference.records.sizes import UNITS

if TYPE_CHECKING:
    from gridveil.inference.records.measured import Measured

MOST_GAPS = 0.9
FEWEST_AFTER, SHORTEST_AFTER_S, LONGEST_S = 10, 1.0, 3600.0
# Units are confused by factors of 50 and more; no public bounds are that far off. Where another
# unit would fit, less is enough.
WRONG_SIZE, WRONG_UNIT = 20.0, 4.0


def check_enough(
    raw: RawRecord, file: RecordFile, omega: Array, gaps: Array, first_s: float
) -> None:
    """Refuse a record that says too little about its event.

    omega : (n, h) [p.u.].
    gaps : (h,) shares.
    first_s : when the event is over at the latest that it began, on the record's clock [s].
    """
    length_s = raw.time_s[-1] - min(first_s, raw.time_s[0])
    if length_s > LONGEST_S:
        raise refusal(
            f"the record is {length_s / 3600:.2g} hours long",
            file=raw.file,
            expected="up to an hour",
            remedy="Declare a window around the event, such as window = [-20.0, 40.0].",
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
    for place, column in enumerate(file.locations):
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
    check_after(
        raw,
        file,
        np.isfinite(omega[raw.time_s >= first_s]).sum(axis=0),
        "samples after the event",
    )


def check_after(raw: RawRecord, file: RecordFile, counts: IntArray, what: str) -> None:
    """Refuse a location with too few values. counts : (h,) of what."""
    for column, count in zip(file.locations, counts, strict=True):
        if count < FEWEST_AFTER:
            raise refusal(
                f"column {column!r} has {count} {what}",
                file=raw.file,
                expected=f"at least {FEWEST_AFTER}",
                remedy="Use a longer record, leave the location out, or check event_time.",
            )


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
    likely = _likely_unit(measured.declared, peak, least, largest)
    times = WRONG_UNIT if likely else WRONG_SIZE
    if not least / times <= peak <= largest * times:
        unit = f" If it is in {likely}, declare that." if likely else ""
        raise refusal(
            f"the largest deviation is {1000 * hz * peak:.3g} mHz, where the event and the public "
            f"bounds of d let expect {1000 * hz * least:.3g} to {1000 * hz * largest:.3g} mHz",
            file=measured.declared.file,
            expected=f"no more than {times:g} times less or more",
            remedy="Check unit, values and the size of the event; or set --bounds d=… from public "
            f"knowledge.{unit}",
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


def _likely_unit(declared: Declaration, peak: float, least: float, largest: float) -> str:
    """The unit in which deviations of this record would be as large as its event lets expect; none
    where its own is one, or none is. An absolute record is told by its mean.
    """
    absolute = all(file.values == "absolute" for file in declared.files)
    if least <= peak <= largest or absolute:
        return ""
    own = nominal_in(declared.unit, declared.nominal_hz)
    return " or ".join(
        unit
        for unit in UNITS
        if least <= peak * own / nominal_in(unit, declared.nominal_hz) <= largest
    )


def _added(step: Step, facts: GridFacts) -> float:
    """Load that a step adds in all [p.u. power]; NaN where it depends on loads that are
    withheld.
    """
    if (step.uniform or step.lost) and not facts.loads_are_public:
        return float("nan")
    lost = sum(float(facts.loads[facts.buses.index(bus)]) for bus in dict.fromkeys(step.lost))
    return step.uniform * float(facts.loads.sum()) - lost + sum(step.change.values())
