"""The records that a release was fitted to, on its own buses: so that whoever has the bundle can
replay them.

Privacy
-------
Records and declared events are public; estimated events, and the answers of the unfitted and of the
fitted model, follow from them and from released values: post-processing. Buses have the neutral
names of the bundle, and those that it does not show are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.events import Event, Step
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import is_large, simulate
from gridveil.foundation.errors import GridveilError
from gridveil.grid.facts import Array
from gridveil.inference.fit import EstimatedEvent, FitResult, Observation

if TYPE_CHECKING:
    from gridveil.dynamics.trajectory import Trajectory
    from gridveil.publication.release import Release

DT_S = 0.01
# Of a bundle: more would outweigh its model, and take whoever verifies it minutes.
MOST_VALUES, MOST_RECORDS, MOST_PLACES, LONGEST_S = 100_000, 20, 200, 3700.0
LONGEST_WORDS = 2**15


@dataclass(frozen=True, eq=False)
class Replay:
    """A record, and what happened then.

    record : its number among the release's trajectories, from 1.
    event : in words that `simulate` reads, on the record's clock.
    estimated : what of it was estimated, in words; empty: nothing.
    digests : SHA-256 of the record's files, in hex.
    carried : whether a bundle holds the samples: their licence allows it.
    every : each so many-th sample is kept.
    time_s : (n,) [s]; buses : h.
    measured : (n, h) [p.u.], NaN in gaps; None where a bundle does not hold it.
    unfitted : (n, h) what the model before the fit gives [p.u.].
    rms_mhz : (h, 2) of what the unfitted and the fitted model leave, where measured is None.
    """

    record: int
    event: str
    estimated: str
    digests: tuple[str, ...]
    carried: bool
    every: int
    time_s: Array
    buses: tuple[str, ...]
    measured: Array | None
    unfitted: Array
    samples: tuple[int, ...]
    rms_mhz: Array | None = None

    def renamed(self, names: Mapping[str, str]) -> Replay:
        """With the names of merged ports."""
        event = re.sub(r"\bL\d+\b", lambda found: names[found[0]], self.event)
        return replace(self, event=event, buses=tuple(names.get(bus, bus) for bus in self.buses))


def replays_of(
    reduced: ReducedModel,
    fitted: FitResult,
    observed: Sequence[Observation],
    names: Mapping[str, str],
    *,
    loads_are_public: bool,
) -> tuple[Replay, ...]:
    """What a bundle keeps of each record; nothing of one that it cannot show.

    reduced : before the fit, with all buses.
    names : of the owner's buses in the bundle.
    """
    if is_large(reduced) or len(observed) > MOST_RECORDS:
        return ()
    found = []
    every = _every(observed)
    for number, one in enumerate(observed):
        estimate = next((event for event in fitted.events if event.observation == number), None)
        if one.unknown.anything and estimate is None:  # the fit was discarded, and with it this
            continue
        event, late_s = _happened(one, estimate, fitted.model.machines)
        words = _in_words(event, fitted.model, names, loads_are_public)
        shown = _shown(one, names)
        if not shown or len(words) > LONGEST_WORDS:
            continue
        buses = [one.trajectory.buses[place] for place in shown]
        time_s = np.round(one.trajectory.time_s[::every] - late_s, 9)
        unfitted = answer(reduced, event, time_s, buses)
        found.append(_kept(one, number, every, shown, names, words, time_s, unfitted))
    return tuple(found)


def detailed_replays(
    unfitted: DetailedModel,
    fitted: DetailedModel,
    observed: Sequence[Observation],
    names: Mapping[str, str],
) -> tuple[Replay, ...]:
    """The same of a detailed release; nothing of a record whose event is at a bus that the bundle
    does not show, or that either model cannot answer: a machine may leave that one of them needs.

    unfitted, fitted : under neutral names.
    """
    if len(observed) > MOST_RECORDS:
        return ()
    found = []
    every = _every(observed)
    for number, one in enumerate(observed):
        event = _renamed(one.event, names)
        shown = _shown(one, names)
        if event is None or not shown or len(event.in_words()) > LONGEST_WORDS:
            continue
        event = Event.parse(event.in_words(), base_mva=fitted.base_mva)
        buses = [names[one.trajectory.buses[place]] for place in shown]
        time_s = np.round(one.trajectory.time_s[::every], 9)
        asked = (event, time_s, buses)
        before, after = (
            tried(lambda model=model, asked=asked: answer(model, *asked))
            for model in (unfitted, fitted)
        )
        if before is None or after is None:
            continue
        words = event.in_words()
        found.append(_kept(one, number, every, shown, names, words, time_s, before))
    return tuple(found)


def _every(observed: Sequence[Observation]) -> int:
    """Each so many-th sample of all records is kept."""
    return ceil(sum(one.trajectory.omega.size for one in observed) / MOST_VALUES)


def _shown(one: Observation, names: Mapping[str, str]) -> list[int]:
    """Places of a record that a bundle shows; one that is simulated, which demos alone are fitted
    to, only where it says that it may be passed on.
    """
    if one.provenance.origin != "measured" and not one.redistribute:
        return []
    return [i for i, bus in enumerate(one.trajectory.buses) if bus in names][:MOST_PLACES]


def _kept(
    one: Observation,
    number: int,
    every: int,
    shown: list[int],
    names: Mapping[str, str],
    words: str,
    time_s: Array,
    unfitted: Array,
) -> Replay:
    measured = one.trajectory.omega[::every][:, shown]
    return Replay(
        record=number + 1,
        event=words,
        estimated=one.unknown.in_words(),
        digests=one.digests,
        carried=one.redistribute,
        every=every,
        time_s=time_s,
        buses=tuple(names[one.trajectory.buses[place]] for place in shown),
        measured=measured,
        unfitted=unfitted,
        samples=tuple(int(count) for count in np.isfinite(measured).sum(axis=0)),
    )


def _renamed(event: Event, names: Mapping[str, str]) -> Event | None:
    """An event under neutral names; None: it is at a bus that has none."""
    if not {place for step in event.steps for place in (*step.change, *step.trips)} <= names.keys():
        return None
    return Event(
        tuple(
            replace(
                step,
                change={names[bus]: size for bus, size in step.change.items()},
                trips={names[machine]: power for machine, power in step.trips.items()},
            )
            for step in event.steps
        )
    )


def answer(
    model: ReducedModel | DetailedModel, event: Event, time_s: Array, buses: Sequence[str]
) -> Array:
    """What a model gives at some times (n, h) [p.u.]: on the line between two steps of DT_S."""
    run = simulate(model, event, horizon_s=horizon_of(event, time_s), dt_s=DT_S, buses=buses)
    return read_off(run, time_s)


def horizon_of(event: Event, time_s: Array) -> float:
    """How long to simulate to cover an event and some times [s]."""
    last = max(float(time_s[-1]), event.steps[-1].at_s)
    return DT_S * (ceil(last / DT_S - 1e-9) + 1)


def read_off(run: Trajectory, time_s: Array) -> Array:
    """A run at some times (n, h) [p.u.]."""
    return np.stack([np.interp(time_s, run.time_s, values) for values in run.omega.T], axis=1)


def released_words(release: Release) -> str:
    """What a release's own answer is called: where its fit was discarded, it is no fitted one."""
    verdict = release.fitted.verdict if release.fitted else None
    return "released" if verdict is not None and verdict.discarded else "fitted"


def fitted_answer(release: Release, replay: Replay) -> Array:
    """What the release itself gives (n, h) [p.u.]."""
    event = Event.parse(replay.event, base_mva=release.model.base_mva)
    return answer(release.model, event, replay.time_s, replay.buses)


def rms_mhz(replay: Replay, fitted: Array, frequency_hz: float) -> Array:
    """Root mean square of what the unfitted and the fitted model leave of each place (h, 2)."""
    if replay.measured is None:
        assert replay.rms_mhz is not None
        return replay.rms_mhz
    left = [replay.measured - model for model in (replay.unfitted, fitted)]
    seen = np.isfinite(replay.measured)
    counts = np.maximum(seen.sum(axis=0), 1)
    squares = [np.where(seen, one, 0.0) ** 2 for one in left]
    return np.stack(
        [1000 * frequency_hz * np.sqrt(one.sum(axis=0) / counts) for one in squares], axis=1
    )


def _happened(
    one: Observation, estimate: EstimatedEvent | None, machines: Sequence[str]
) -> tuple[Event, float]:
    """The event as declared or estimated, on a step of the clock; and how much later the record's
    clock is than that [s].
    """
    event, late_s = one.event, 0.0
    if estimate is None:
        return event, late_s
    steps = event.steps
    first = steps[0].at_s
    at_s = max(round(estimate.time_s / DT_S), 0) * DT_S
    if estimate.split is not None:
        load = dict(zip(machines, estimate.split.tolist(), strict=True))
        return Event.load(load, at_s=at_s), estimate.time_s - at_s
    moved = tuple(replace(step, at_s=at_s + step.at_s - first) for step in steps)
    return Event(moved), estimate.time_s - at_s


def _in_words(
    event: Event, model: ReducedModel, names: Mapping[str, str], loads_are_public: bool
) -> str:
    """An event under neutral names; what acts on a bus that the bundle does not show acts on the
    machines, as the model has it.
    """
    return "; ".join(_step_in_words(step, model, names, loads_are_public) for step in event.steps)


def _step_in_words(
    step: Step, model: ReducedModel, names: Mapping[str, str], loads_are_public: bool
) -> str:
    at = f"@{round(step.at_s, 9)!r}s"
    if step.uniform and loads_are_public and not step.change and not step.lost:
        return f"uniform:{100 * step.uniform!r}%{at}"
    loads, machines = step.loads(model), len(model.machines)
    for place, port in enumerate(model.ports):
        if port not in names and loads[place]:
            loads[:machines] += model.K_ac[:, place - machines] * loads[place]
            loads[place] = 0.0
    named = [
        f"{names[port]}={load!r}"
        for port, load in zip(model.ports, loads.tolist(), strict=True)
        if load
    ]
    return f"load:{','.join(named) or f'{names[model.machines[0]]}=0.0'}{at}"


def tried(answer_of: Callable[[], Array]) -> Array | None:
    """What a model of a bundle gives, or None where it gives nothing: a forged one may hold
    anything.
    """
    try:
        with np.errstate(all="ignore"):
            found = answer_of()
    except (GridveilError, ArithmeticError, ValueError, KeyError):
        return None
    return found if np.isfinite(found).all() else None
