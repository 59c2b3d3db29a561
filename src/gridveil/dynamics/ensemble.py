"""Error bars: models that a release leaves possible, and the bands that their answers span.

Every member is a linear model from load at the ports to speed or frequency at them. Members of a
swing model are kept by their parameters, exactly; those of a detailed one are cut to fewer states
by balanced truncation, and what that leaves out is measured and stated. All are rounded to single
precision, as files hold them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from gridveil.dynamics.detailed.trips import lost_power
from gridveil.dynamics.engine.lti import LTI
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.events import Event, Step
from gridveil.dynamics.models import Places, ReducedModel, port_positions
from gridveil.dynamics.simulate import Clock, simulate
from gridveil.dynamics.superpose import added, parts_of, unit_responses
from gridveil.dynamics.trajectory import Band, Ends, Trajectory, nadir, rocof
from gridveil.dynamics.truncation import cut
from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, IntArray, frozen

if TYPE_CHECKING:
    from gridveil.dynamics.detailed.model import DetailedModel

LEVEL = 0.8  # share of cases in which a band is to hold the truth
MOST_STATES = 40  # of a member that is cut; smaller models stay as they are
# Numbers that a batch of answers holds at a time (256 MB), and samples above which no band is made.
HELD, MOST_SAMPLES = 2**25, 100_000
MATRICES = ("A", "B", "C", "D", "inertia", "offset")


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Models that a release leaves possible, each as likely as the others.

    ports, units : labels, and how many of them are machines, as the release's model has them.
    A : (k, r, r), B : (k, r, p), C : (k, p, r), D : (k, p, p), from load beyond nominal at the
    ports [p.u. power] to speed of the units and frequency of the other ports [p.u.].
    inertia : (k, u) of the units [p.u. power · s / p.u. frequency].
    offset : (k, p) model error, by which a member's answer at a port is off, as a share of its
    largest deviation so far; 0 where none is counted.
    truncation : largest error that cutting states left, as a share of a response's peak.
    counts : what the spread counts, in words.
    swing : of a swing model, what members are made of: k_r, m, d, K_ac and values of devices, each
    with the axis of members in front.
    """

    ports: tuple[str, ...]
    units: int
    A: Array
    B: Array
    C: Array
    D: Array
    inertia: Array
    offset: Array
    truncation: float = 0.0
    counts: tuple[str, ...] = ()
    swing: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in MATRICES:
            object.__setattr__(self, name, frozen(getattr(self, name)))
        members, states = self.A.shape[:2]
        shapes = self.shapes(members, states, len(self.ports), self.units)
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise InputError(
                    f"{name} of an ensemble has shape {getattr(self, name).shape}",
                    expected=str(shape),
                )

    @staticmethod
    def shapes(members: int, states: int, ports: int, units: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays, in the order of files."""
        k, r, p = members, states, ports
        shapes = ((k, r, r), (k, r, p), (k, p, r), (k, p, p), (k, units), (k, p))
        return dict(zip(MATRICES, shapes, strict=True))

    @classmethod
    def of(
        cls,
        models: Sequence[ReducedModel] | Sequence[DetailedModel],
        *,
        counts: tuple[str, ...],
        offset: Array | None = None,
        states: int = MOST_STATES,
    ) -> Ensemble:
        """Put members together. models : all with the same ports, and stable.

        offset : (k, p), see the class. states : most that a member of a detailed model keeps.
        """
        first = models[0]
        offset = np.zeros((len(models), len(first.ports))) if offset is None else offset
        if isinstance(first, ReducedModel):
            swing = {
                name: np.stack([model.arrays[name] for model in models])
                for name in (*first.values, "K_ac")
            }
            return cls.of_swing(first, swing, offset, counts)
        members, truncation = cut([_whole(model) for model in models], states)
        return cls(
            first.ports,
            len(first.machines),
            *map(_single, _matrices(members)),
            inertia=_single(np.stack([model.inertia for model in models])),
            offset=_single(offset),
            truncation=truncation,
            counts=counts,
        )

    @classmethod
    def of_swing(
        cls,
        model: ReducedModel,
        swing: Mapping[str, Array],
        offset: Array,
        counts: tuple[str, ...],
    ) -> Ensemble:
        """Put members of a swing model together: `model` with other parameters and another K_ac."""
        swing = {name: frozen(_single(values)) for name, values in swing.items()}
        members = [
            _whole(
                ReducedModel.of_arrays(
                    model.arrays | {name: values[number] for name, values in swing.items()},
                    ports=model.ports,
                    omega_b=model.omega_b,
                    frequency_hz=model.frequency_hz,
                    base_mva=model.base_mva,
                )
            )
            for number in range(len(offset))
        ]
        return cls(
            model.ports,
            len(model.machines),
            *_matrices(members),
            inertia=swing["m"],
            offset=_single(offset),
            counts=counts,
            swing=swing,
        )

    @property
    def members(self) -> int:
        """Number of members k."""
        return len(self.A)

    @property
    def arrays(self) -> dict[str, Array]:
        """What a file holds, by name and in order: all matrices, or what a swing model's members
        are made of.
        """
        own = {name: getattr(self, name) for name in MATRICES}
        return {**self.swing, "offset": self.offset} if self.swing else own

    def merged(self, ports: tuple[str, ...], shares: Array) -> Ensemble:
        """The same at other ports, whose load and frequency are shares (p, new p) of these."""
        return replace(
            self,
            ports=ports,
            B=self.B @ shares,
            C=shares.T @ self.C,
            D=shares.T @ self.D @ shares,
            offset=self.offset @ shares,
            swing=self.swing
            and {**self.swing, "K_ac": self.swing["K_ac"] @ shares[self.units :, self.units :]},
        )

    def answers(self, event: Event, clock: Clock, sense: IntArray, places: Places) -> Array:
        """Answers of all members to an event, (k, N + 1, h) ω at the ports `sense` [p.u.].

        places : the release's model, which knows nominal loads. A member answers a trip as the loss
        of the power that the unit gave: the unit stays.
        """
        drive, ramps = self._drive(event, places), [step.over_s > 0 for step in event.steps]
        lti = LTI.of(self.A, self.B @ drive, self.C[:, sense], self.D[:, sense] @ drive)
        omega = np.zeros((self.members, clock.steps + 1, len(sense)))
        with one_blas_thread():
            each = unit_responses(lti, ramps, clock.steps + 1, dt_s=clock.dt_s, scheme="exact")
        added(omega, each, parts_of(event, clock))
        if self.offset.any():
            furthest = np.maximum.accumulate(np.abs(omega), axis=1)
            omega += self.offset[:, None, sense] * furthest
        return omega

    def settling(self, event: Event, places: Places) -> Array:
        """What each member settles at, (k,) [p.u.]."""
        load = self._drive(event, places).sum(axis=1)
        x = np.linalg.solve(self.A, -(self.B @ load)[..., None])[..., 0]
        settled = np.vecdot(self.C[:, 0], x) + self.D[:, 0] @ load
        return settled + self.offset[:, 0] * np.abs(settled)

    def _drive(self, event: Event, places: Places) -> Array:
        """(p, s) load that each step adds [p.u. power]; of a trip, what the unit gave."""
        return np.stack(
            [_without_trips(step, places).whole(places) for step in event.steps], axis=1
        )


def _without_trips(step: Step, places: Places) -> Step:
    """The same step with the power that units gave in place of their trips."""
    if not step.trips:
        return step
    change = dict(step.change)
    for machine, power in step.trips.items():
        given = lost_power(places, machine).real if power is None else power  # pyright: ignore[reportArgumentType]
        change[machine] = change.get(machine, 0.0) + given
    return replace(step, change=change, trips={})


def _whole(model: ReducedModel | DetailedModel) -> LTI:
    """A model from P at all ports to ω at all of them."""
    return model.lti(np.eye(len(model.ports)), np.arange(len(model.ports)))


def _matrices(members: Sequence[LTI]) -> list[Array]:
    """A, B, C and D of all members."""
    return [np.stack([getattr(lti, name) for lti in members]) for name in "ABCD"]


def _single(values: Array) -> Array:
    """Round to single precision, and keep double: a member then is what its file says."""
    return values.astype(np.float32).astype(np.float64)


def quantiles(values: Array, level: float = LEVEL) -> Array:
    """Ends of the middle `level` of values along the first axis, (2, …).

    By Weibull's positions, a further draw of the same law lies between them with that probability
    exactly where the number of values plus one is a multiple of ten.
    """
    return np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0, method="weibull")


def with_band(
    trajectory: Trajectory, ensemble: Ensemble, model: Places, event: Event, clock: Clock
) -> Trajectory:
    """The answer of a release's model to an event, with the band that its ensemble spans.

    Where a unit trips, the band lies around the model's own answer: members answer the loss of its
    power, and what they differ by from the model's answer to that loss is added to the trip.
    """
    if clock.steps >= MOST_SAMPLES:
        return trajectory
    sense = port_positions(model, trajectory.buses)
    some = max(1, HELD // (ensemble.members * (clock.steps + 1)))
    by_trip, settled_by_trip = _trip_shift(trajectory, model, event, clock)
    parts = []
    for first in range(0, len(sense), some):
        part = slice(first, first + some)
        omega = ensemble.answers(event, clock, sense[part], model) + by_trip[:, part]
        by_bus = omega.swapaxes(1, 2)
        lows, slopes = nadir(clock.time_s, by_bus)[0], rocof(clock.time_s, by_bus)
        parts.append((*quantiles(omega), quantiles(lows).T, quantiles(slopes).T))
    lower, upper, lows, slopes = (
        np.concatenate([part[n] for part in parts], axis=axis)
        for n, axis in enumerate((1, 1, 0, 0))
    )
    settling = _ends(ensemble.settling(event, model) + settled_by_trip)
    return replace(trajectory, band=Band(lower, upper, lows, slopes, settling, LEVEL))


@dataclass(frozen=True)
class SystemBand:
    """Bands of the system's frequency, each for itself: nadir [p.u.], RoCoF over 0.5 s [p.u./s],
    what it settles at [p.u.].
    """

    nadir: Ends
    rocof: Ends
    settling: Ends


def system_band(
    trajectory: Trajectory, ensemble: Ensemble, model: Places, event: Event, clock: Clock
) -> SystemBand | None:
    """Bands of Σ m ω / Σ m, each member with its own m.

    trajectory : the model's own, of all machines that stay.
    """
    if clock.steps >= MOST_SAMPLES:
        return None
    sense = port_positions(model, trajectory.buses)
    by_trip, settled_by_trip = _trip_shift(trajectory, model, event, clock)
    weight = ensemble.inertia[:, sense] / ensemble.inertia[:, sense].sum(axis=1, keepdims=True)
    omega = np.stack(
        [
            np.vecdot(answer + by_trip, of_units)
            for answer, of_units in zip(
                ensemble.answers(event, clock, sense, model), weight[:, None], strict=True
            )
        ]
    )
    return SystemBand(
        _ends(nadir(clock.time_s, omega)[0]),
        _ends(rocof(clock.time_s, omega)),
        _ends(ensemble.settling(event, model) + settled_by_trip),
    )


def _ends(values: Array) -> Ends:
    low, high = quantiles(values)
    return float(low), float(high)


def _trip_shift(
    trajectory: Trajectory, model: Places, event: Event, clock: Clock
) -> tuple[Array, float]:
    """A trip's answer less the answer to the loss of the same power; 0 where nothing trips."""
    if not event.tripped:
        return np.zeros((1, len(trajectory.buses))), 0.0
    lost = Event(tuple(_without_trips(step, model) for step in event.steps))
    other = simulate(
        model,  # pyright: ignore[reportArgumentType]
        lost,
        horizon_s=clock.horizon_s,
        dt_s=clock.dt_s,
        buses=trajectory.buses,
    )
    return trajectory.omega - other.omega, trajectory.settling - other.settling
