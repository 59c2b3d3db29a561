"""Simulate linear frequency models, and read their modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isfinite, pi
from typing import TypeGuard, get_args

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.trips import check_trips, tripped_omega
from gridveil.dynamics.engine import SchemeName
from gridveil.dynamics.events import NOT_SIMULATED, WORDS, Event
from gridveil.dynamics.models import FullModel, Model, ReducedModel, port_positions
from gridveil.dynamics.simulate_large import LARGE, swing_responses
from gridveil.dynamics.superpose import added, integral, parts_of, unit_responses
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.arguments import a_number, names, of_type, one_of, takes
from gridveil.foundation.errors import EventError, OptionError, UnstableStep
from gridveil.foundation.looks import looks
from gridveil.grid.facts import Array


@looks(lambda mode: f"{mode.frequency_hz:.4g} Hz, damping ratio {100 * mode.damping_ratio:.3g} %")
@dataclass(frozen=True)
class Mode:
    """An oscillation of a model.

    frequency_hz : of the damped oscillation [Hz].
    damping_ratio : −Re λ / |λ|.
    """

    frequency_hz: float
    damping_ratio: float


@dataclass(frozen=True)
class Clock:
    """An even clock from 0 to horizon_s in steps of dt_s [s]."""

    horizon_s: float
    dt_s: float

    def __post_init__(self) -> None:
        for name in ("horizon_s", "dt_s"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                raise OptionError(
                    f"{name} = {value:g}", expected="a finite time above 0 s", outcome=NOT_SIMULATED
                )
        if not 1 <= self.horizon_s / self.dt_s <= 10_000_000:
            raise OptionError(
                f"A step of {self.dt_s:g} s does not fit a horizon of {self.horizon_s:g} s.",
                expected="between 1 and 10 million steps",
                outcome=NOT_SIMULATED,
            )

    @property
    def steps(self) -> int:
        """Number of whole steps N within the horizon; samples are 0 … N."""
        return floor(self.horizon_s / self.dt_s * (1 + 1e-12))

    @property
    def time_s(self) -> Array:
        """(N + 1,) sample times [s]."""
        return np.arange(self.steps + 1, dtype=np.float64) * self.dt_s

    def sample(self, at_s: float, *, behind: bool = False) -> int:
        """Find the sample at which a step of load falls, or a ramp begins or ends.

        behind : whether it may lie behind the horizon.
        """
        sample = round(at_s / self.dt_s)
        if abs(sample * self.dt_s - at_s) > 1e-9 * max(1.0, at_s):
            raise EventError(
                f"a step at {at_s:g} s falls between two samples, {self.dt_s:g} s apart",
                expected=f"a multiple of {self.dt_s:g} s",
                outcome=NOT_SIMULATED,
                remedy=f"Move it to {sample * self.dt_s:g} s, or choose another time step.",
            )
        if sample > self.steps and not behind:
            raise EventError(
                f"a step at {at_s:g} s lies behind the horizon of {self.horizon_s:g} s",
                expected=f"a time up to {self.horizon_s:g} s",
                outcome=NOT_SIMULATED,
                remedy="Lengthen the horizon, or move the event forward.",
            )
        return sample


a_model = of_type(
    (ReducedModel, FullModel, DetailedModel),
    "a model, such as release.model or what reduce() returns; a release has simulate() and modes() "
    "of its own",
)


@takes(
    outcome=NOT_SIMULATED,
    model=a_model,
    event=of_type((Event, str), WORDS),
    horizon_s=a_number("a time above 0 [s]"),
    dt_s=a_number("a time step above 0 [s]"),
    scheme=one_of(get_args(SchemeName)),
    buses=names("names of buses, such as ['G1', 'L3']"),
)
def simulate(
    model: Model,
    event: Event | str,
    *,
    horizon_s: float = 30.0,
    dt_s: float = 0.01,
    scheme: SchemeName | None = None,
    buses: Sequence[str] | None = None,
) -> Trajectory:
    """Integrate x' = A x + B u from rest through an event; return ω at the machines that stay, or
    at the buses named.

    event : an `Event`, or words such as "load:G1=+0.1".

    The scheme `exact` (a matrix exponential) has no step error, since loads are constant between
    steps, or rise evenly; `trapezoidal` is A-stable; `euler` is the paper's and is refused where it
    would blow up. Default: exact, and trapezoidal above 400 machines.

    Raises
    ------
    UnstableStep : with the largest step that would do.
    EventError : if the event names a bus or a time that the model does not have.
    """
    event = Event.of(event, model.base_mva)
    scheme = scheme or default_scheme(model)
    clock = Clock(horizon_s, dt_s)
    names = tuple(buses) if buses is not None else staying(model, event)
    sense = port_positions(model, names)
    if event.tripped and isinstance(model, DetailedModel):
        return _with_trips(model, event, names, clock, scheme)
    drive = np.stack([step.whole(model) for step in event.steps], axis=1)
    parts, ramps = parts_of(event, clock), [step.over_s > 0 for step in event.steps]
    if is_large(model):
        if scheme != "trapezoidal":
            raise OptionError(
                f"The scheme {scheme!r} is not for {len(model.machines)} machines.",
                expected=f"trapezoidal above {LARGE} machines",
                outcome=NOT_SIMULATED,
            )
        responses = swing_responses(model, drive, sense, clock.steps + 1, dt_s)
        responses[ramps] = integral(responses[ramps], dt_s)
    else:
        if scheme == "euler":
            check_euler(model, dt_s)
        lti = model.lti(drive, sense)
        responses = unit_responses(lti, ramps, clock.steps + 1, dt_s=dt_s, scheme=scheme)
    omega = np.zeros((clock.steps + 1, len(names)))
    added(omega, responses, parts)
    return Trajectory(
        clock.time_s, omega, names, model.frequency_hz, model.settling(drive.sum(axis=1))
    )


def staying(model: Model, event: Event) -> tuple[str, ...]:
    """Machines that an event does not take away."""
    return tuple(machine for machine in model.machines if machine not in event.tripped)


def _with_trips(
    model: DetailedModel, event: Event, names: tuple[str, ...], clock: Clock, scheme: SchemeName
) -> Trajectory:
    check_trips(model, event)
    spans = [
        (clock.sample(step.at_s), clock.sample(step.at_s + step.over_s, behind=True))
        for step in event.steps
    ]
    omega, settling = tripped_omega(
        model, event, names, spans, clock.steps + 1, dt_s=clock.dt_s, scheme=scheme
    )
    return Trajectory(clock.time_s, omega, names, model.frequency_hz, settling)


def default_scheme(model: Model) -> SchemeName:
    """The scheme for a model where none is asked for."""
    return "trapezoidal" if is_large(model) else "exact"


def is_large(model: Model) -> TypeGuard[ReducedModel]:
    """Tell whether a model has too many machines for dense transition matrices and eigenvalues.

    One with devices is never taken for large: only the dense way knows their equations.
    """
    return isinstance(model, ReducedModel) and len(model.machines) > LARGE and not model.device


def check_euler(model: Model, dt_s: float) -> None:
    """Refuse a step at which |1 + dt λ| > 1 for an eigenvalue λ of A: dt must not exceed −2 Re λ /
    |λ|².
    """
    values = eigenvalues(model)
    # the common angle's λ = 0 never grows
    moving = values[np.abs(values) > 1e-9 * np.abs(values).max()]
    stable = max(0.0, float(np.min(-2 * moving.real / np.abs(moving) ** 2)))
    if dt_s > stable * (1 + 1e-9):
        raise UnstableStep("euler", dt_s, stable)


@takes(model=a_model)
def modes(model: Model) -> list[Mode]:
    """List the oscillatory modes, slowest first; none above 400 machines, whose eigenvalues take
    too long.
    """
    if is_large(model):
        return []
    return [
        Mode(value.imag / (2 * pi), -value.real / abs(value))
        for value in oscillating(eigenvalues(model)).tolist()
    ]


def oscillating(values: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Keep one eigenvalue of each oscillating pair, Im λ > 0, slowest first [1/s]."""
    upper = values[values.imag > 1e-9 * np.abs(values)]
    return upper[np.argsort(upper.imag, kind="stable")]


def eigenvalues(model: Model) -> NDArray[np.complex128]:
    """Eigenvalues of A [1/s]."""
    A = model.lti(np.zeros((len(model.ports), 1)), np.array([0])).A
    return np.linalg.eigvals(A).astype(np.complex128)
