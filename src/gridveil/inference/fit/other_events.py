"""The declared event of a record against others that might explain it: at another bus, of another
size, or slower than a step.

A fit explains much of what a wrong event leaves. A second fit with the right one explains all of
it, so that the two are told apart by their likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from gridveil.dynamics.engine.records import SampledRecords
from gridveil.dynamics.events import Event
from gridveil.grid.facts import Array
from gridveil.inference.fit.problem import Observation, as_records

# Buses that are tried, and how much likelier a record must be after another event [nats]. Two
# searches for one record end up to 17 apart, wrong sizes and places of the benchmark gained 32 and
# more.
OTHER_BUSES, LIKELIER = 2, 20.0
# How long a slower event takes, and in how many equal steps [s]: ramps of 1 to 6 s are closer to it
# than to one step.
SLOWER_S, SLOWER_STEPS = 3.0, 6


def compared_with(answer: Array, omega: Array) -> tuple[float, float]:
    """How many times an answer a record is, and the share of it that no multiple explains."""
    seen = np.isfinite(omega)
    ours, theirs = answer[seen], omega[seen]
    both, own = float(ours @ theirs), max(float(ours @ ours), np.finfo(float).tiny)
    return both / own, 1 - both**2 / (own * max(float(theirs @ theirs), np.finfo(float).tiny))


def elsewhere(record: Observation, ports: Sequence[str]) -> Iterator[Observation]:
    """The record with its event at every other port; none where it is not one step at one bus."""
    step, *others = record.event.steps
    elsewhere_too = step.uniform or step.lost or len(step.change) != 1
    if others or elsewhere_too or step.over_s or record.event.tripped:
        return
    ((declared, size),), at_s = step.change.items(), step.at_s
    for bus in ports:
        if bus != declared:
            yield replace(record, event=Event.load({bus: size}, at_s=at_s))


def likeliest(
    record: Observation, ports: Sequence[str], answer: Callable[[Observation], Array]
) -> list[tuple[float, Observation]]:
    """The record with its event at the other ports whose answers are most alike, and the shares
    that are not.
    """
    omega = record.trajectory.omega
    tried = [(compared_with(answer(one), omega)[1], one) for one in elsewhere(record, ports)]
    return sorted(tried, key=lambda one: one[0])[:OTHER_BUSES]


def scaled(record: Observation, factor: float) -> Observation | None:
    """The record with all of its steps so many times as large; None where a machine trips."""
    if record.event.tripped:
        return None
    steps = (
        replace(
            step,
            change={bus: factor * size for bus, size in step.change.items()},
            uniform=factor * step.uniform,
        )
        for step in record.event.steps
    )
    return replace(record, event=replace(record.event, steps=tuple(steps)))


def slower(record: Observation, dt_s: float) -> Observation | None:
    """The record with its step spread evenly over SLOWER_S; None where it is not one step of load
    so long before the record's end.
    """
    step, *others = record.event.steps
    begin, end_s = step.at_s, record.trajectory.time_s[-1]
    if others or step.lost or step.over_s or record.event.tripped or begin + SLOWER_S > end_s:
        return None
    middles = begin + SLOWER_S * (np.arange(SLOWER_STEPS) + 0.5) / SLOWER_STEPS
    change = {bus: size / SLOWER_STEPS for bus, size in step.change.items()}
    part = replace(step, change=change, uniform=step.uniform / SLOWER_STEPS)
    times = (dt_s * np.rint(middles / dt_s)).tolist()
    return replace(record, event=Event(tuple(replace(part, at_s=at_s) for at_s in times)))


def gained(
    observed: Sequence[Observation], dt_s: float, before: Array, after: Array, together: Array
) -> float:
    """Gain in log-likelihood when residuals become smaller [nats].

    before, after : (r, h) deviations of what two fits leave [p.u.]; together : (r, h) samples that
    go together, and count as one. Only samples that were seen count, not the clock's steps.
    """
    _, sampled = as_records(observed, dt_s)
    samples = np.count_nonzero(SampledRecords.of(sampled).weights, axis=1)
    return float(np.sum(samples / together * np.log(before / after)))
