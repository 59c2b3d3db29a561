"""The owner's exit for fidelity: how far a release's answers lie from the grid's own, in mHz, on
events that no fit saw. Results are `Private`; only the sign-off writer opens them.

What is compared with is the grid's own table in the same kind of model, without noise: what that
model leaves out itself is not in these figures. Beside a release stand two controls that need none
of its draws or little of it: public facts alone, and one machine for the whole grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.projection import project
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduce, reduced_model
from gridveil.dynamics.metrics import (
    DT_S,
    HORIZON_S,
    Metrics,
    mode_errors,
    read,
    read_arrays,
)
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import eigenvalues, is_large, oscillating, simulate
from gridveil.dynamics.trajectory import Band, Trajectory
from gridveil.foundation.errors import GridveilError
from gridveil.foundation.sealed import sealed
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array, GridFacts
from gridveil.inference.fit.controls import FrequencyResponse, fitted_response
from gridveil.inference.fit.problem import Observation
from gridveil.planning.surrogate import at_middle, without_network
from gridveil.privacy.provenance import Provenance
from gridveil.publication.detailed import neutral_model
from gridveil.publication.ports import merged_shares, port_shares
from gridveil.publication.release import (
    Release,
    detailed_names,
    loaded_buses,
    neutral,
    neutral_names,
)
from gridveil.vault.source import Private, SourceGrid

EVENTS = 6  # places of a step of load, evenly picked
NADIR_MHZ = 100.0  # what a step is sized for, on the release
# Of the modes that are listed: up to this frequency and damping ratio, so many.
FASTEST_HZ, DAMPED, MOST_MODES = 3.0, 0.5, 10
RELEASE, PUBLIC, SIMPLEST = "release", "no release", "one machine"
TO_RECORDS = "one machine for the whole grid, fitted to the public records, without any release"
TO_RELEASE = "one machine for the whole grid, fitted to the release's own answer"
AT_MIDDLE = "public facts alone, every parameter at the middle of its public bounds"
AT_TYPICAL = "public facts alone, with typical devices"
NOT_COMPARED = "The grid's own model could not be computed here: nothing is known of fidelity."

LinearModel = ReducedModel | DetailedModel


@dataclass(frozen=True)
class Errors:
    """Model less truth, of the system's frequency: nadir [mHz], RoCoF over 0.5 s [mHz/s], settling
    [mHz]; and the root mean square over machines and time [mHz].
    """

    nadir_mhz: float
    rocof_mhz_s: float
    settling_mhz: float
    rms_mhz: float


@dataclass(frozen=True)
class EventRow:
    """A step of load: what the grid answers, and how far each model is off.

    inside : share of samples, over machines and time, at which the truth lies in the release's
    band; None: it has none.
    """

    place: str
    step_mw: float
    nadir_mhz: float
    rocof_mhz_s: float
    settling_mhz: float
    errors: Mapping[str, Errors]
    inside: float | None


@dataclass(frozen=True)
class ModeRow:
    """An oscillating mode of the grid: frequency [Hz], damping ratio [%]; errors of each model
    [mHz, percentage points], None where it has no such mode.
    """

    hz: float
    damping_percent: float
    errors: Mapping[str, tuple[float, float] | None]


@dataclass(frozen=True, eq=False)
class Curves:
    """Frequency at one machine after one event.

    time_s : (n,); by_model : deviations (n,) [mHz]; band : lower and upper (n,) [mHz].
    """

    place: str
    machine: str
    time_s: Array
    truth: Array
    by_model: Mapping[str, Array]
    band: tuple[Array, Array] | None


@dataclass(frozen=True, eq=False)
class Fidelity:
    """What held-out events and modes came to.

    models : what each control is, in words.
    level : of the bands.
    moved : whether the grid's own model had to be moved to stand; it is then another one.
    """

    events: tuple[EventRow, ...]
    modes: tuple[ModeRow, ...]
    curves: tuple[Curves, ...]
    models: Mapping[str, str]
    level: float | None
    moved: bool = False


@sealed
def assess_fidelity(
    source: SourceGrid[Any], release: Release, observed: Sequence[Observation] = ()
) -> Private[Fidelity] | None:
    """Compare a release with the grid's own model on held-out events; None: that model, or one of
    the controls, has no answer.

    observed : public records, if any, on the grid's own buses.

    Privacy
    -------
    For the owner alone: it compares with the truth, and no ε covers it. The result is `Private`.
    """
    try:
        models = _models(source, release)
        events = _held_out(release, _places_seen(release, source.facts, observed))
        simplest, words = _simplest(release, observed, events[0])
        return Private(_compared(release, models, simplest, events, words))
    except (GridveilError, ArithmeticError, ValueError, np.linalg.LinAlgError):
        return None


@dataclass(frozen=True, eq=False)
class _Models:
    """The truth and the control without a release, on neutral names.

    shares : of a swing grid, how its loaded buses make up the release's ports (loaded, ports).
    """

    truth: LinearModel
    public: LinearModel
    public_words: str
    shares: Array | None
    moved: bool


def _models(source: SourceGrid[Any], release: Release) -> _Models:
    values = {name: Private.open(private) for name, private in source.values.items()}
    facts = source.facts
    if isinstance(facts, DetailedFacts):
        own = project(facts.public, values)
        truth, public = (
            neutral_model(linearise(made.case, made.equilibrium, made.case.loads.bus))
            for made in (own, project(facts.public, {}))
        )
        return _Models(truth, public, AT_TYPICAL, None, own.is_moved)
    truth = neutral(reduced_model(facts, values, loaded_buses(facts)), facts)
    shares = port_shares(facts, release)
    if shares is None:
        alike = without_network(facts)
        public = reduce(at_middle(alike, release.bounds))
        whole = [np.arange(len(loaded_buses(facts)))]
        shares = merged_shares(facts, whole, by_load=release.publishes_loads)
        return _Models(truth, public, AT_MIDDLE, shares, False)
    public = neutral(reduce(at_middle(facts, release.bounds), loaded_buses(facts)), facts)
    return _Models(truth, _merged(public, shares), AT_MIDDLE, shares, False)


def _merged(model: ReducedModel, shares: Array) -> ReducedModel:
    """The model with the ports that a release has."""
    g, count = len(model.machines), shares.shape[1]
    return replace(
        model,
        ports=(*model.machines, *(f"L{n}" for n in range(1, count + 1))),
        K_ac=model.K_ac @ shares,
        loads=np.concatenate([model.loads[:g], np.full(count, np.nan)]),
    )


def _places_seen(
    release: Release, facts: GridFacts | DetailedFacts, observed: Sequence[Observation]
) -> set[str]:
    """Ports of the release that a record's event was at."""
    if release.replays:
        base = release.model.base_mva
        events = [Event.parse(replay.event, base_mva=base) for replay in release.replays]
        return {place for event in events for place in event.places}
    names = detailed_names(facts) if isinstance(facts, DetailedFacts) else neutral_names(facts)
    return {names.get(place, "") for record in observed for place in record.event.places}


def _held_out(release: Release, seen: set[str]) -> list[Event]:
    """Steps of load at single ports, none of them where a record's event was; of a size at which
    the release's nadir is about NADIR_MHZ.
    """
    model = release.model
    free = [port for port in model.ports if port not in seen] or list(model.ports)
    picked = np.linspace(0, len(free) - 1, min(EVENTS, len(free))).round().astype(int)
    unit = Event.load({free[0]: 1.0})
    nadir = 1000 * abs(float(read(_run(model, unit), model, unit).nadir_hz))
    size = float(f"{NADIR_MHZ / nadir:.1g}")
    return [Event.load({free[place]: size}) for place in dict.fromkeys(picked.tolist())]


def _run(model: LinearModel, event: Event, **more: Any) -> Trajectory:
    return simulate(model, event, horizon_s=HORIZON_S, dt_s=DT_S, **more)


def _simplest(
    release: Release, observed: Sequence[Observation], event: Event
) -> tuple[FrequencyResponse, str]:
    """One machine for the whole grid, by the records where they tell the event's size."""
    if observed:
        try:
            steps = [float(np.diff(record.trajectory.time_s).min()) for record in observed]
            return fitted_response(observed, round(min(steps), 9)), TO_RECORDS
        except (ArithmeticError, ValueError, IndexError):
            pass
    model = release.model
    run = _run(model, event)
    system = run.omega @ model.inertia / model.inertia.sum()
    answer = replace(run, omega=system[:, None], buses=run.buses[:1])
    made = Provenance("simulated", "the release's own answer")
    return fitted_response([Observation(event, answer, made)], DT_S), TO_RELEASE


def _compared(
    release: Release,
    models: _Models,
    simplest: FrequencyResponse,
    events: Sequence[Event],
    simplest_words: str,
) -> Fidelity:
    step = simplest.step(round(HORIZON_S / DT_S) + 1, DT_S)
    answers = [_answers(release, models, simplest, step, event) for event in events]
    drawn = [answers[n] for n in dict.fromkeys((0, len(answers) - 1))]
    return Fidelity(
        events=tuple(one.row(release.model.base_mva) for one in answers),
        modes=_modes(models, release.model, simplest),
        curves=tuple(one.curves(release.model.machines) for one in drawn),
        models={
            RELEASE: "the model in the bundle",
            PUBLIC: models.public_words,
            SIMPLEST: simplest_words,
        },
        level=answers[0].band.level if answers[0].band else None,
        moved=models.moved,
    )


@dataclass(frozen=True, eq=False)
class _Answers:
    """What the grid and each model answer to a step of load.

    by_model : ω of the machines (N + 1, g) [p.u.], and the system's figures.
    """

    place: str
    size: float
    truth: Trajectory
    base: Metrics
    by_model: Mapping[str, tuple[Array, Metrics]]
    band: Band | None

    def row(self, base_mva: float) -> EventRow:
        inside, hz = None, self.truth.frequency_hz
        if self.band is not None:
            omega = self.truth.omega
            held = (omega >= self.band.lower) & (omega <= self.band.upper)
            inside = float(held[1:].mean())
        errors = {
            name: Errors(
                1e3 * float(own.nadir_hz - self.base.nadir_hz),
                1e3 * float(own.rocof_hz_s - self.base.rocof_hz_s),
                1e3 * float(own.settling_hz - self.base.settling_hz),
                1e3 * hz * float(np.sqrt(np.mean((omega - self.truth.omega) ** 2))),
            )
            for name, (omega, own) in self.by_model.items()
        }
        return EventRow(
            self.place,
            self.size * base_mva,
            1e3 * float(self.base.nadir_hz),
            1e3 * float(self.base.rocof_hz_s),
            1e3 * float(self.base.settling_hz),
            errors,
            inside,
        )

    def curves(self, machines: Sequence[str]) -> Curves:
        at = machines.index(self.place) if self.place in machines else 0
        mhz = 1e3 * self.truth.frequency_hz
        ends = self.band and (self.band.lower, self.band.upper)
        return Curves(
            self.place,
            machines[at],
            self.truth.time_s,
            mhz * self.truth.omega[:, at],
            {name: mhz * omega[:, at] for name, (omega, _) in self.by_model.items()},
            (mhz * ends[0][:, at], mhz * ends[1][:, at]) if ends else None,
        )


def _answers(
    release: Release, models: _Models, simplest: FrequencyResponse, step: Array, event: Event
) -> _Answers:
    ((place, size),) = event.steps[0].change.items()
    own = _on_own_buses(place, size, models.shares)
    truth = _run(models.truth, own)
    answer = release.simulate(event, horizon_s=HORIZON_S, dt_s=DT_S)
    public = _run(models.public, event)
    single = np.repeat(size * step[:, None], truth.omega.shape[1], axis=1)
    slope, settling = -size / simplest.inertia, -size / (simplest.damping + simplest.gain)
    even = np.ones(single.shape[1])
    by_model = {
        RELEASE: (answer.omega, read(answer, release.model, event)),
        PUBLIC: (public.omega, read(public, models.public, event)),
        SIMPLEST: (
            single,
            read_arrays(truth.time_s, single, even, slope, settling, truth.frequency_hz),
        ),
    }
    return _Answers(place, size, truth, read(truth, models.truth, own), by_model, answer.band)


def _on_own_buses(place: str, size: float, shares: Array | None) -> Event:
    """The same event on the grid's own buses, whose loaded ones a port may stand for."""
    if shares is None or place.startswith("G"):
        return Event.load({place: size})
    column = shares[:, int(place[1:]) - 1]
    return Event.load({f"L{n + 1}": size * float(column[n]) for n in np.flatnonzero(column)})


def _modes(
    models: _Models, released: LinearModel, simplest: FrequencyResponse
) -> tuple[ModeRow, ...]:
    """Modes of the grid, slowest first, each beside the nearest that a model has left for it."""
    if is_large(models.truth) or is_large(released):
        return ()
    reference = oscillating(eigenvalues(models.truth))
    others: dict[str, NDArray[np.complex128]] = {
        RELEASE: oscillating(eigenvalues(released)),
        PUBLIC: oscillating(eigenvalues(models.public)),
        SIMPLEST: oscillating(np.linalg.eigvals(simplest.lti.A).astype(np.complex128)),
    }
    off = mode_errors(list(others.values()), reference)
    rows = []
    for n, value in enumerate(reference):
        ratio = -float(value.real / abs(value))
        if value.imag > 2 * np.pi * FASTEST_HZ or ratio > DAMPED or len(rows) == MOST_MODES:
            continue
        errors: dict[str, tuple[float, float] | None] = {}
        for number, name in enumerate(others):
            pair = tuple(
                float(off[key][number, n]) for key in ("mode_frequency_mhz", "mode_damping_points")
            )
            errors[name] = (pair[0], pair[1]) if np.isfinite(pair).all() else None
        rows.append(ModeRow(float(value.imag / (2 * np.pi)), 100 * ratio, errors))
    return tuple(rows)
