"""A detailed model as it is published: linear, reduced to units and declared ports."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gridveil.dynamics.engine.lti import LTI
from gridveil.foundation.errors import InputError
from gridveil.foundation.looks import looks
from gridveil.grid.facts import Array, IntArray, frozen

# Arrays of a model that a trip needs, and nothing else does.
OF_TRIPS = ("given", "given_through", "dispatch", "turn", "turn_through")
MATRICES = ("A", "B", "C", "D", "loads", "inertia", *OF_TRIPS)


@looks(
    lambda own: (
        f"{own.units} units, {len(own.ports)} ports, {len(own.states)} states, "
        f"{own.frequency_hz:g} Hz, {own.base_mva:g} MVA"
    )
)
@dataclass(frozen=True, eq=False)
class DetailedModel:
    """ẋ = A x + B (P, Q), y = C x + D (P, Q), all as deviations from the operating point [p.u.].

    ports : the units' places first, then the declared buses.
    units : how many of them are units.
    B, D : (…, 2p) by P, then by Q, consumed at the ports beyond the loads.
    C : (2p, n) speed of the units, frequency of the other ports; then |V| at all ports.
    states : names. angles : those of them that turn with the whole system.
    loads : (p,) nominal active loads.
    inertia : (u,) of the units [p.u. power · s / p.u. frequency], 0 for an inverter.
    given, given_through : (2u, n), (2u, 2p) power of each unit, P then Q, that its current is at
    the operating point's voltages, by states and by inputs; dispatch : (2u,) the same at rest.
    turn, turn_through : (p, n), (p, 2p) angle of each port's voltage over ω_b [s], whose derivative
    is its frequency. These five are what a trip needs; all are empty in a model that no unit can
    leave.
    """

    ports: tuple[str, ...]
    units: int
    A: Array
    B: Array
    C: Array
    D: Array
    states: tuple[str, ...]
    angles: tuple[int, ...]
    loads: Array
    inertia: Array
    frequency_hz: float
    base_mva: float
    given: Array = field(default_factory=lambda: np.empty((0, 0)))
    given_through: Array = field(default_factory=lambda: np.empty((0, 0)))
    dispatch: Array = field(default_factory=lambda: np.empty(0))
    turn: Array = field(default_factory=lambda: np.empty((0, 0)))
    turn_through: Array = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        for name in MATRICES:
            object.__setattr__(self, name, frozen(getattr(self, name)))
        shapes = self.shapes(len(self.states), len(self.ports), self.units)
        if not self.can_trip:
            shapes = {name: shape for name, shape in shapes.items() if name not in OF_TRIPS}
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise InputError(
                    f"{name} has shape {getattr(self, name).shape}", expected=str(shape)
                )

    @staticmethod
    def shapes(states: int, ports: int, units: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays, in the order of files."""
        n, p, u = states, 2 * ports, 2 * units
        shapes = ((n, n), (n, p), (p, n), (p, p), (ports,), (units,))
        of_trips = ((u, n), (u, p), (u,), (ports, n), (ports, p))
        return dict(zip(MATRICES, (*shapes, *of_trips), strict=True))

    @property
    def arrays(self) -> dict[str, Array]:
        """All arrays by name, in the order of files."""
        return {name: getattr(self, name) for name in MATRICES}

    @property
    def can_trip(self) -> bool:
        """Whether the model knows what its units give."""
        return len(self.dispatch) > 0

    @property
    def machines(self) -> tuple[str, ...]:
        """Labels of the units' ports."""
        return self.ports[: self.units]

    @property
    def omega_b(self) -> float:
        """2π times the nominal frequency [rad/s]."""
        return 2 * np.pi * self.frequency_hz

    @cached_property
    def whole(self) -> LTI:
        """All inputs and outputs, without the structural zero: angles are counted from the last
        one.
        """
        return without_common_angle(LTI.of(self.A, self.B, self.C, self.D), self.angles)

    def lti(self, drive: Array, sense: IntArray) -> LTI:
        """Linear model from patterns of load, P or P + jQ (p, s), to speed or frequency at ports.

        See `Model`.
        """
        lti, rows = self.whole, np.asarray(sense)
        pattern = np.concatenate([np.real(drive), np.imag(drive)])
        return LTI.of(lti.A, lti.B @ pattern, lti.C[rows], lti.D[rows] @ pattern)

    def voltages(self, drive: Array, sense: IntArray) -> LTI:
        """The same, to |V| at ports [p.u.]."""
        return self.lti(drive, np.asarray(sense) + len(self.ports))

    def settling(self, load: Array) -> float:
        """Speed that all units settle at under a lasting load (p,): of 0 = A x + B u; infinite
        where nothing stops the fall.
        """
        lti = self.lti(load[:, None], np.array([0]))
        U, scale, Vh = np.linalg.svd(lti.A / _row_scale(lti.A))
        push = (lti.B / _row_scale(lti.A))[:, 0]
        if scale[-1] < 1e-10 * scale[0]:
            return -np.inf * float(np.sign(np.sum(np.real(load)))) if np.any(load) else 0.0
        x = -Vh.T @ ((U.T @ push) / scale)
        return float((lti.C @ x)[0] + lti.D[0, 0])


def _row_scale(A: Array) -> Array:
    """Largest entry of each row: times differ by 10⁴, and a rank does not depend on them."""
    return np.maximum(np.abs(A).max(axis=1, keepdims=True), np.finfo(float).tiny)


def without_common_angle(lti: LTI, angles: tuple[int, ...] | IntArray) -> LTI:
    """Count angles from the last of them: A has no part in a turn of all, so nothing is lost."""
    angles = np.asarray(angles)
    keep = np.delete(np.arange(lti.states), angles[-1])
    A, B = lti.A.copy(), lti.B.copy()
    A[..., angles, :] -= lti.A[..., angles[-1:], :]
    B[..., angles, :] -= lti.B[..., angles[-1:], :]
    return LTI.of(A[..., keep, :][..., keep], B[..., keep, :], lti.C[..., keep], lti.D)
