"""Trips: a unit leaves a detailed model, with its states, its inertia and its controls.

The model stays linearised at the operating point before the trip; what the unit gave is taken from
the network as the current that it was. That point is then none of rest, so that a turn of all
angles would be felt: angles are counted from the mean of those that stay, with which the lost
current turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.engine import SCHEMES, SchemeName
from gridveil.dynamics.events import NOT_SIMULATED, Event, Step
from gridveil.dynamics.models import port_positions
from gridveil.foundation.errors import EventError
from gridveil.grid.facts import Array, IntArray

GROWING = 0.01  # Re λ of a mode that is no rounding of the common angle's zero [1/s]


def without_unit(model: DetailedModel, machine: str) -> DetailedModel:
    """Take a unit out of a model: u ↦ u + w with w = K (given x + given_through u) consumed at its
    port, which is what it gives, so that nothing of it remains.

    K = (1 − T)⁻¹, with T the unit's own part of given_through. Its port stays, as one without a
    unit: it shows its bus's frequency.
    """
    unit = _unit(model, machine)
    u, p = model.units, len(model.ports)
    rows, inputs = np.array([unit, u + unit]), np.array([unit, p + unit])
    own = model.given_through[np.ix_(rows, inputs)]
    K = np.linalg.inv(np.eye(2) - own)
    by_state, by_input = K @ model.given[rows], K @ model.given_through[rows]
    keep = kept_states(model, machine)
    order = np.concatenate([np.delete(np.arange(p), unit)[: u - 1], [unit], np.arange(u, p)])
    twice = np.concatenate([order, p + order])
    staying = np.delete(np.arange(2 * u), rows)
    place = {old: new for new, old in enumerate(keep.tolist())}

    angles = np.array([place[angle] for angle in model.angles if angle in place])

    def by_states(left: Array, through: Array) -> Array:
        moved = (left + through[:, inputs] @ by_state)[:, keep]
        moved[:, angles] -= moved[:, angles].sum(axis=1, keepdims=True) / len(angles)
        return moved

    def by_inputs(through: Array) -> Array:
        return (through + through[:, inputs] @ by_input)[:, twice]

    A, B = by_states(model.A, model.B)[keep], by_inputs(model.B)[keep]
    C, D = by_states(model.C, model.D), by_inputs(model.D)
    turn, through = by_states(model.turn, model.turn_through), by_inputs(model.turn_through)
    buses = np.concatenate([[unit], np.arange(u, p)])
    # Their angles are counted from the mean, whose own turn is part of their frequency.
    C[buses] = turn[buses] @ A + A[angles].mean(axis=0) / model.omega_b
    D[buses] = turn[buses] @ B + B[angles].mean(axis=0) / model.omega_b
    return replace(
        model,
        ports=tuple(model.ports[port] for port in order),
        units=u - 1,
        A=A,
        B=B,
        C=C[twice],
        D=D[twice],
        states=tuple(model.states[state] for state in keep),
        angles=tuple(angles.tolist()),
        loads=model.loads[order],
        inertia=np.delete(model.inertia, unit),
        given=by_states(model.given, model.given_through)[staying],
        given_through=by_inputs(model.given_through)[staying],
        dispatch=model.dispatch[staying],
        turn=turn[order],
        turn_through=through[order],
    )


def with_active_dispatch(model: DetailedModel) -> DetailedModel:
    """Let no reactive power leave with a unit.

    In a released case it follows from typical set points, of which nothing was drawn: its error is
    larger than itself, and a trip is nearer to the grid without it.
    """
    active = np.arange(2 * model.units) < model.units
    return replace(model, dispatch=np.where(active, model.dispatch, 0.0))


def check_trips(model: DetailedModel, event: Event) -> None:
    """Refuse an event after whose trips the model grows without end."""
    for machine in event.tripped:
        model = without_unit(model, machine)
    if np.linalg.eigvals(model.A).real.max() > GROWING:
        left = ", ".join(event.tripped)
        raise EventError(
            f"without {left} this linear model is not stable",
            expected="trips that the other machines survive",
            outcome=NOT_SIMULATED,
            remedy="Take the power away and keep the machine in: gen:BUS=-0.5, in p.u. or MW.",
        )


def kept_states(model: DetailedModel, machine: str) -> IntArray:
    """States of all units but one."""
    return np.array(
        [i for i, name in enumerate(model.states) if name.rsplit(" ", 1)[0] != machine],
        dtype=np.int64,
    )


def lost_power(model: DetailedModel, machine: str) -> complex:
    """P + jQ that a unit gives at the operating point [p.u.]."""
    unit = _unit(model, machine)
    return complex(model.dispatch[unit], model.dispatch[model.units + unit])


def tripped_omega(
    model: DetailedModel,
    event: Event,
    names: Sequence[str],
    spans: Sequence[tuple[int, int]],
    samples: int,
    *,
    dt_s: float,
    scheme: SchemeName,
) -> tuple[Array, float]:
    """Speeds or frequencies (samples, h) at the ports `names` through an event with trips, and
    what they settle at [p.u.]; at a machine that left, its bus's frequency.

    spans : the sample at which each step of the event falls, or those between which a ramp lies.
    """
    x, now = np.zeros(len(model.states)), 0
    load, rate, final = (dict.fromkeys(model.ports, 0j) for _ in range(3))
    omega = np.zeros((samples, len(names)))
    for at, step, begins in _changes(event, spans, samples):
        x = _through(model, load, rate, names, x, omega[now:at], dt_s, scheme)
        load = {port: own + rate[port] * (at - now) * dt_s for port, own in load.items()}
        now = at
        gone = {}
        for machine, power in step.trips.items():
            lost = lost_power(model, machine)
            gone[machine] = lost if power is None else complex(power, lost.imag)
        for port, more in zip(model.ports, replace(step, trips={}).whole(model), strict=True):
            whole = more + gone.get(port, 0)
            final[port] += whole if begins else 0
            if step.over_s:
                rate[port] += (1 if begins else -1) * whole / step.over_s
            else:
                load[port] += whole
        for machine in step.trips:
            x, model = x[kept_states(model, machine)], without_unit(model, machine)
    _through(model, load, rate, names, x, omega[now:], dt_s, scheme)
    return omega, model.settling(np.array([final[port] for port in model.ports]))


def _changes(
    event: Event, spans: Sequence[tuple[int, int]], samples: int
) -> list[tuple[int, Step, bool]]:
    """Samples at which a step falls or a ramp begins (True), or a ramp ends (False), in order."""
    changes = []
    for step, (begin, end) in zip(event.steps, spans, strict=True):
        changes.append((begin, step, True))
        if step.over_s and end < samples:
            changes.append((end, step, False))
    return sorted(changes, key=lambda change: change[0])


def _through(
    model: DetailedModel,
    load: Mapping[str, complex],
    rate: Mapping[str, complex],
    names: Sequence[str],
    x: Array,
    omega: Array,
    dt_s: float,
    scheme: SchemeName,
) -> Array:
    """Go through samples under a load that changes evenly, from x; write ω into omega (samples, h),
    return x at the end.

    load, rate : by port, at the begin [p.u.] and per second [p.u./s].
    """
    u, w = (
        np.concatenate([np.real(own), np.imag(own)])
        for own in (np.array([by[port] for port in model.ports]) for by in (load, rate))
    )
    n = len(x)
    F = np.zeros((n + 2, n + 2))  # z = (x, 1, time)
    F[:n, :n], F[:n, n], F[:n, n + 1], F[n + 1, n] = model.A, model.B @ u, model.B @ w, 1.0
    E = SCHEMES[scheme](F, dt_s)[0]
    sense = port_positions(model, names)
    H = np.column_stack([model.C[sense], model.D[sense] @ u, model.D[sense] @ w])
    z = np.concatenate([x, [1.0, 0.0]])
    for sample in range(len(omega)):
        omega[sample] = H @ z
        z = E @ z
    return z[:n]


def _unit(model: DetailedModel, machine: str) -> int:
    if not model.can_trip:
        raise EventError(
            "a machine cannot leave this model, which does not carry what its units give",
            expected="a model made from a case",
            outcome=NOT_SIMULATED,
            remedy="Write the lost power as gen:BUS=-0.5, in p.u. or MW; the machine stays.",
        )
    if machine not in model.machines:
        raise EventError(
            f"{machine!r} is not a machine of this model, or has left already",
            expected=f"one of {', '.join(model.machines[:8])}",
            outcome=NOT_SIMULATED,
        )
    if model.units == 1:
        raise EventError("the last machine leaves", outcome=NOT_SIMULATED)
    return model.machines.index(machine)
