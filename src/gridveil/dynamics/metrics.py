"""Figures that engineers use: nadir, rate of change, settling frequency and modes of models, and
their errors.

The system's frequency is the inertia-weighted mean of the machines', Σ m ω / Σ m, each model with
its own m. Right after a step of load its slope is −Σu/Σm whatever the network is, and it settles at
−Σu/Σ(D + G).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.trips import lost_power, without_unit
from gridveil.dynamics.engine import LTI, SchemeName
from gridveil.dynamics.engine.compute import HELD
from gridveil.dynamics.engine.lti import XArray, namespace
from gridveil.dynamics.events import NOT_SIMULATED, Event
from gridveil.dynamics.models import FullModel, ReducedModel
from gridveil.dynamics.simulate import (
    Clock,
    check_euler,
    eigenvalues,
    is_large,
    oscillating,
    simulate,
    staying,
)
from gridveil.dynamics.superpose import added, parts_of, unit_responses
from gridveil.dynamics.trajectory import ROCOF_WINDOW_S, Trajectory, nadir, rocof
from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array, IntArray

AnyModel = ReducedModel | FullModel | DetailedModel
HORIZON_S, DT_S = 30.0, 0.02
# Relays look at a tenth of a second [s].
FIRST_SWING_S = 0.1
# Largest deviation of a machine at which linear models were held against nonlinear simulation, in
# docs/truth.md [p.u. frequency].
SHOWN_TO_HOLD = 0.005


@dataclass(frozen=True, eq=False)
class Metrics:
    """What is read off the answer to an event; leading axes are a batch.

    nadir_hz : (...,) largest deviation of the system's frequency, with its sign [Hz].
    nadir_s : when [s];
    machine_nadir_hz : (..., g) largest deviation of each machine's frequency [Hz];
    rocof_hz_s : (...,) steepest mean slope of the system's frequency over the window [Hz/s];
    initial_rocof_hz_s : (...,) its exact slope right after the largest step, −f Σu/Σm, and 0
    after a ramp [Hz/s];
    settling_hz : (...,) the deviation that it settles at, −f Σu/Σ(D + G) [Hz].
    """

    nadir_hz: Array
    nadir_s: Array
    machine_nadir_hz: Array
    rocof_hz_s: Array
    initial_rocof_hz_s: Array
    settling_hz: Array


@dataclass(frozen=True, eq=False)
class Comparison:
    """Errors of a model against a reference: model minus reference, and in percent of the
    reference's size.

    Of each event (..., events): nadir and settling [mHz, %], rocof and initial_rocof [mHz/s, %] of
    the system's frequency; machine_nadir_mhz at the machine whose nadir is furthest off; L = ∫ |ω −
    ω_ref|² dt, summed over the machines [p.u.² s]. Of each oscillating mode of the reference,
    slowest first (..., modes): mode_frequency_mhz, and mode_damping_points, the error of the
    damping ratio in percentage points; NaN where the model has no mode left for it.
    """

    nadir_mhz: Array
    nadir_percent: Array
    machine_nadir_mhz: Array
    rocof_mhz_s: Array
    rocof_percent: Array
    initial_rocof_mhz_s: Array
    initial_rocof_percent: Array
    settling_mhz: Array
    settling_percent: Array
    mode_frequency_mhz: Array
    mode_damping_points: Array
    L: Array


def read(
    trajectory: Trajectory, model: AnyModel, event: Event, *, window_s: float = ROCOF_WINDOW_S
) -> Metrics:
    """Read the figures off a model's answer to an event, at all its machines that stay."""
    machines = staying(model, event)
    if trajectory.buses != machines:
        raise OptionError(
            "The system's frequency is a mean over all machines.",
            expected="a trajectory of "
            f"{', '.join(machines[:8])}{', …' if len(machines) > 8 else ''}",
            outcome="Nothing was computed.",
        )
    if event.tripped and isinstance(model, DetailedModel):
        inertia, first = _inertia_and_slope(model, event)
        settling = trajectory.settling
    else:
        inertia = model.inertia
        first, settling = _slope_and_settling(model, event)
    return read_arrays(
        trajectory.time_s,
        trajectory.omega,
        inertia,
        first,
        settling,
        model.frequency_hz,
        window_s,
    )


def inertia_of(model: AnyModel, event: Event) -> Array:
    """Inertia of the machines that an event does not take away, by which the system's frequency is
    weighed.
    """
    stays = [machine not in event.tripped for machine in model.machines]
    return model.inertia[stays]


@dataclass(frozen=True)
class FirstSwing:
    """How steeply frequency falls or rises where an event is.

    bus : the place of the largest change.
    rocof_hz_s : steepest mean slope of its frequency over 0.1 s [Hz/s].
    """

    bus: str
    rocof_hz_s: float


def first_swing(model: AnyModel, event: Event, **clock: Any) -> FirstSwing | None:
    """Simulate the frequency where an event is; None: it names no place.

    clock : horizon_s, dt_s and scheme as `simulate` takes them.
    """
    if not event.places:
        return None
    bus = event.places[0]
    there = simulate(model, event, **clock, buses=[bus])
    slope = rocof(there.time_s, there.deviation_hz.T, FIRST_SWING_S)
    return FirstSwing(bus, float(slope[0]))


@dataclass(frozen=True)
class Validity:
    """Whether an answer stays where linear models were shown to hold [Hz]."""

    shown_up_to_hz: float
    largest_hz: float

    @classmethod
    def of(cls, trajectory: Trajectory) -> Validity:
        """Look at every bus of a trajectory."""
        largest = float(np.nanmax(np.abs(trajectory.deviation_hz)))
        return cls(SHOWN_TO_HOLD * trajectory.frequency_hz, largest)

    @property
    def beyond(self) -> bool:
        """Whether it goes further than was ever compared."""
        return not self.largest_hz <= self.shown_up_to_hz

    def in_words(self) -> str:
        """Say it."""
        where = "goes beyond" if self.beyond else "stays within"
        told = (
            f"This answer {where} the ±{1e3 * self.shown_up_to_hz:.0f} mHz up to which linear "
            "models were held against nonlinear simulation"
        )
        return told + (
            f": it reaches {1e3 * self.largest_hz:.0f} mHz, where limits and load shedding may act."
            if self.beyond
            else "."
        )


def measure(
    model: AnyModel | Sequence[AnyModel],
    events: Sequence[Event],
    *,
    horizon_s: float = HORIZON_S,
    dt_s: float = DT_S,
    scheme: SchemeName | None = None,
    window_s: float = ROCOF_WINDOW_S,
) -> Metrics:
    """Simulate events and read their figures: leading axes (events,), or (models, events) for a
    sequence of models.

    Models of a sequence have the same number of machines. The scheme `exact` has no step error and
    nadirs are found between samples, so that dt_s may be coarse against the slowest mode, but not
    against those that are looked for.
    """
    models = [model] if isinstance(model, AnyModel) else list(model)
    clock = Clock(horizon_s, dt_s)
    parts = [
        _read_batch(some, events, clock, omega, window_s)
        for some, omega in _answers(models, events, clock, scheme)
    ]
    return Metrics(**_joined([vars(part) for part in parts], alone=isinstance(model, AnyModel)))


def compare(
    model: AnyModel | Sequence[AnyModel],
    reference: AnyModel,
    events: Sequence[Event],
    *,
    horizon_s: float = HORIZON_S,
    dt_s: float = DT_S,
    scheme: SchemeName | None = None,
    window_s: float = ROCOF_WINDOW_S,
) -> Comparison:
    """Measure the errors of a model, or of each of a sequence of models, against a reference with
    the same machines.

    Modes are matched one to one, so that Σ |λ − λ_ref| over the pairs of eigenvalues [1/s] is
    least; a mode that the model has beyond those of the reference is left out.
    """
    models = [model] if isinstance(model, AnyModel) else list(model)
    clock = Clock(horizon_s, dt_s)
    ((_, omega_ref),) = _answers([reference], events, clock, scheme)
    base = _read_batch([reference], events, clock, omega_ref, window_s)
    values_ref = _oscillating(reference)
    parts: list[dict[str, Array]] = []
    for some, omega in _answers(models, events, clock, scheme):
        if omega.shape[-1] != omega_ref.shape[-1]:
            raise OptionError(
                f"A model of {omega.shape[-1]} machines cannot be compared with one of "
                f"{omega_ref.shape[-1]}.",
                outcome="Nothing was computed.",
            )
        part = errors(_read_batch(some, events, clock, omega, window_s), base)
        part["L"] = dt_s * np.einsum("rens,rens->re", omega - omega_ref, omega - omega_ref)
        part |= mode_errors([_oscillating(each) for each in some], values_ref)
        parts.append(part)
    return Comparison(**_joined(parts, alone=isinstance(model, AnyModel)))


def _joined(parts: Sequence[Mapping[str, Array]], *, alone: bool) -> dict[str, Array]:
    """Figures of several batches of models as one; of a model alone, without its axis."""
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return {name: values[0] for name, values in whole.items()} if alone else whole


def _answers(
    models: Sequence[AnyModel], events: Sequence[Event], clock: Clock, scheme: SchemeName | None
) -> Iterator[tuple[Sequence[AnyModel], Array]]:
    """Simulate models through events, some models at a time: ω of the machines (models, events, N +
    1, g) [p.u.].
    """
    if not models or not events:
        raise OptionError(
            "There is no model or no event.", expected="at least one of each", outcome=NOT_SIMULATED
        )
    if any(is_large(model) for model in models):
        settings: dict[str, Any] = {
            "horizon_s": clock.horizon_s,
            "dt_s": clock.dt_s,
            "scheme": scheme,
        }
        for model in models:
            yield (
                [model],
                np.stack([simulate(model, event, **settings).omega for event in events])[None],
            )
        return
    for start, size in _chunks(models, events, clock):
        some = models[start : start + size]
        if scheme == "euler":
            for model in some:
                check_euler(model, clock.dt_s)
        each = [model.lti(_drive(model, events), _machine_ports(model)) for model in some]
        lti = LTI(
            np.stack([system.F for system in each]),
            np.stack([system.H for system in each]),
            each[0].states,
        )
        ramps = [step.over_s > 0 for event in events for step in event.steps]
        unit = unit_responses(
            lti, ramps, clock.steps + 1, dt_s=clock.dt_s, scheme=scheme or "exact"
        )
        omega = np.zeros((len(some), len(events), clock.steps + 1, unit.shape[-1]))
        column = 0
        for number, event in enumerate(events):
            own = unit[:, column : column + len(event.steps)]
            added(omega[:, number], own, parts_of(event, clock))
            column += len(event.steps)
        yield some, omega


def _chunks(
    models: Sequence[AnyModel], events: Sequence[Event], clock: Clock
) -> Iterator[tuple[int, int]]:
    steps = sum(len(event.steps) for event in events)
    each = max(
        (clock.steps + 1) * len(models[0].machines) * steps, (3 * len(models[0].machines)) ** 2 * 20
    )
    size = max(1, HELD // each)
    return ((start, size) for start in range(0, len(models), size))


def _drive(model: AnyModel, events: Sequence[Event]) -> Array:
    """Load pattern of each step of each event (ports, steps) [p.u. power]."""
    return np.stack([step.whole(model) for event in events for step in event.steps], axis=1)


def _machine_ports(model: AnyModel) -> IntArray:
    if isinstance(model, FullModel):
        return model.facts.machines
    return np.arange(len(model.machines), dtype=np.int64)


def _slope_and_settling(model: AnyModel, event: Event) -> tuple[float, float]:
    """Slope of the system's frequency right after the largest step, none of a ramp [p.u./s], and
    where it settles [p.u.].
    """
    drive = _drive(model, [event])
    settling = model.settling(drive.sum(axis=1))
    drive = drive * [not step.over_s for step in event.steps]
    if isinstance(model, ReducedModel):
        slopes = -model.to_machines(drive).sum(axis=0) / model.inertia.sum()
    else:  # a damped bus without a machine takes part of a step at once
        lti = model.lti(drive, _machine_ports(model))
        slopes = model.inertia @ (lti.C @ lti.B) / model.inertia.sum()
    return float(slopes[np.argmax(np.abs(slopes))]), settling


def _inertia_and_slope(model: DetailedModel, event: Event) -> tuple[Array, float]:
    """Of an event with trips: inertia of the machines that stay, and the slope of the system's
    frequency right after the largest step, each from rest [p.u./s].
    """
    slopes = []
    for step in event.steps:
        at_once = replace(step, trips={}).whole(model) * (not step.over_s) + 0j
        more = dict(zip(model.ports, at_once, strict=True))
        for machine, power in step.trips.items():
            lost = lost_power(model, machine)
            more[machine] += lost if power is None else complex(power, lost.imag)
            model = without_unit(model, machine)
        load = np.array([more[port] for port in model.ports])
        push = model.C[: model.units] @ (model.B @ np.concatenate([np.real(load), np.imag(load)]))
        slopes.append(model.inertia @ push / model.inertia.sum())
    return model.inertia, float(max(slopes, key=abs))


def _read_batch(
    models: Sequence[AnyModel], events: Sequence[Event], clock: Clock, omega: Array, window_s: float
) -> Metrics:
    known = np.array([[_slope_and_settling(model, event) for event in events] for model in models])
    inertia = np.stack([model.inertia for model in models])[:, None]
    return read_arrays(
        clock.time_s, omega, inertia, known[..., 0], known[..., 1], models[0].frequency_hz, window_s
    )


def read_arrays(
    time_s: Array,
    omega: XArray,
    inertia: XArray,
    slope: Any,
    settling: Any,
    frequency_hz: float,
    window_s: float = ROCOF_WINDOW_S,
) -> Metrics:
    """Read the figures off ω (..., N + 1, g) [p.u.] on an even clock (N + 1,) [s], of any array
    library.

    inertia : (..., g); slope : (...,) −Σu/Σm [p.u./s]; settling : (...,) [p.u.].
    """
    xp = namespace(omega)
    weight = inertia / xp.sum(inertia, axis=-1, keepdims=True)
    system = frequency_hz * (omega @ weight[..., None])[..., 0]
    low, when = nadir(time_s, system)
    known = (slope, settling) if xp is not np else map(np.asarray, (slope, settling))
    first, at_last = (frequency_hz * value for value in known)
    return Metrics(
        nadir_hz=low,
        nadir_s=when,
        machine_nadir_hz=nadir(time_s, frequency_hz * xp.moveaxis(omega, -1, -2))[0],
        rocof_hz_s=rocof(time_s, system, window_s),
        initial_rocof_hz_s=first,
        settling_hz=at_last,
    )


def errors(metrics: Metrics, base: Metrics) -> dict[str, XArray]:
    """Subtract a reference's figures, by the names that they have in `Comparison`."""
    xp, off_by = namespace(metrics.nadir_hz), {}
    for name, unit in (
        ("nadir_hz", "mhz"),
        ("rocof_hz_s", "mhz_s"),
        ("initial_rocof_hz_s", "mhz_s"),
        ("settling_hz", "mhz"),
    ):
        short = name.partition("_hz")[0]
        off = getattr(metrics, name) - getattr(base, name)
        off_by[f"{short}_{unit}"] = 1e3 * off
        with np.errstate(divide="ignore", invalid="ignore"):
            off_by[f"{short}_percent"] = 100 * off / xp.abs(getattr(base, name))
    off = metrics.machine_nadir_hz - base.machine_nadir_hz
    furthest = xp.argmax(xp.abs(off), axis=-1)[..., None]
    off_by["machine_nadir_mhz"] = 1e3 * xp.take_along_axis(off, furthest, axis=-1)[..., 0]
    return off_by


def _oscillating(model: AnyModel) -> NDArray[np.complex128]:
    return (
        oscillating(eigenvalues(model)) if not is_large(model) else np.zeros(0, dtype=np.complex128)
    )


def mode_errors(
    values: Sequence[NDArray[np.complex128]], reference: NDArray[np.complex128]
) -> dict[str, Array]:
    """Match each model's oscillating eigenvalues to the reference's (modes,) [1/s], and subtract:
    (models, modes) each.
    """
    from scipy.optimize import linear_sum_assignment

    matched: NDArray[np.complex128] = np.full(
        (len(values), len(reference)), complex(np.nan, np.nan), dtype=np.complex128
    )
    for number, mine in enumerate(values):
        rows, columns = linear_sum_assignment(np.abs(mine[:, None] - reference))
        matched[number, columns] = mine[rows]
    return {
        "mode_frequency_mhz": 1e3 * (matched.imag - reference.imag) / (2 * pi),
        "mode_damping_points": 100
        * (reference.real / np.abs(reference) - matched.real / np.abs(matched)),
    }
