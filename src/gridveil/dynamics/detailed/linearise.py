"""The linear model of a case at its operating point: A = A_d + B_d J⁻¹ C_d.

A device gives ẋ = A_d x + B_d V and a current C_d x + D_d V; the network takes J V = C_d x − G u
with J = Y + ∂I_load/∂V − D_d, and u the power that is consumed beyond the loads. All buses go in
that one step: this is the Kron reduction of the detailed model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gridveil.dynamics.detailed import network
from gridveil.dynamics.detailed.equilibrium import (
    Equilibrium,
    at_units,
    flow,
    unit_currents,
)
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.numbers import Numbers, Wiring, numbers_of, real_numbers
from gridveil.dynamics.detailed.units import Settled, UnitGroup, groups_of
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array, IntArray


@dataclass(frozen=True, eq=False)
class Layout:
    """Where units, states and ports stand.

    ports : (p,) buses: those of the units, unit by unit, then the declared ones.
    offsets : first state of each group.
    """

    wiring: Wiring
    groups: tuple[UnitGroup, ...]
    ports: IntArray
    omega_b: float

    @classmethod
    def of(cls, case: DetailedCase, ports: IntArray) -> Layout:
        """Lay a case out; ports : buses besides the units' own, which are ports already."""
        wiring = Wiring.of(case)
        declared = np.asarray(ports, dtype=np.int64)
        rest = declared[~np.isin(declared, wiring.unit_bus)]
        return cls(
            wiring,
            groups_of(case),
            np.concatenate([wiring.unit_bus, rest]),
            2 * np.pi * case.frequency_hz,
        )


@dataclass(frozen=True, eq=False)
class Rest:
    """A case at rest: V (2n,), Y (2n, 2n), currents of the units (u, 2), and its groups."""

    numbers: Numbers
    Y: Any
    V: Any
    current: Any
    settled: tuple[Settled, ...]


@dataclass(frozen=True, eq=False)
class Pieces:
    """The parts of the linear model.

    A_d (n, n), B_d (n, 2b), C_d (2b, n); J (2b, 2b); G (2b, 2p), inputs P then Q;
    X = J⁻¹ C_d, Z = J⁻¹ G; A, B; angle, size (p, 2b) : angle and magnitude of the ports' voltage by
    V.
    """

    A_d: Any
    B_d: Any
    C_d: Any
    J: Any
    X: Any
    Z: Any
    A: Any
    B: Any
    angle: Any
    size: Any


def rest(layout: Layout, numbers: Numbers, start: Any = None) -> Rest:
    """Solve the power flow and settle every group.

    start : V (2b,) near the solution, if there is one.
    """
    wiring = layout.wiring
    Y = network.admittance(wiring, numbers)
    V = flow(wiring, numbers, Y, start)
    current, at = unit_currents(wiring, numbers, Y, V), at_units(wiring, V)
    settled = tuple(
        settle(group, group.parameters(numbers), at[group.units], current[group.units])
        for group in layout.groups
    )
    return Rest(numbers, Y, V, current, settled)


def settle(group: UnitGroup, parameters: Any, V: Any, current: Any) -> Settled:
    """Settle a group in real numbers, and carry a complex step over, if there is one."""
    columns = [column for own in parameters.values() for column in own.values()]
    if not any(np.iscomplexobj(column) for column in (*columns, V, current)):
        return group.settle(parameters, V, current)
    plain = group.settle(real_numbers(parameters), np.real(V), np.real(current))
    return carry(group, plain, parameters, V, current)


def carry(group: UnitGroup, plain: Settled, parameters: Any, V: Any, current: Any) -> Settled:
    """Take one complex Newton step from a real solution; leading axes are a batch."""
    k, states = plain.z.shape[-1], len(plain.states)
    z = np.broadcast_to(plain.z, (*V.shape[:-1], k)).astype(complex)
    result, _ = group.evaluate(plain.names, parameters, z, V)
    result[..., states:] -= current
    z = z - np.linalg.solve(plain.slopes[..., :k], result[..., None])[..., 0]
    slopes = group.evaluate(plain.names, parameters, z, V)[1]
    return Settled(plain.states, plain.references, plain.angles, z, slopes)


def places(layout: Layout, settled: tuple[Settled, ...]) -> list[IntArray]:
    """Positions of every group's states in x, (n, s) each, unit after unit."""
    counts = [len(s.states) for s in settled]
    first = np.cumsum([0, *(c * len(g.units) for c, g in zip(counts, layout.groups, strict=True))])
    return [
        first[number] + np.arange(len(group.units) * count).reshape(-1, count)
        for number, (group, count) in enumerate(zip(layout.groups, counts, strict=True))
    ]


def pieces(layout: Layout, at: Rest) -> Pieces:
    """Assemble the linear model and eliminate every bus."""
    wiring, b = layout.wiring, layout.wiring.size
    where = places(layout, at.settled)
    n = sum(own.size for own in where)
    kind = np.result_type(at.V, at.Y, *(s.slopes for s in at.settled))
    A_d, J = np.zeros((n, n), dtype=kind), at.Y.astype(kind)
    B_d, C_d = np.zeros((n, 2 * b), dtype=kind), np.zeros((2 * b, n), dtype=kind)
    for group, settled, own in zip(layout.groups, at.settled, where, strict=True):
        s, blocks = own.shape[1], settled.blocks
        bus = wiring.unit_bus[group.units]
        ends = np.stack([bus, b + bus], axis=-1)
        A_d[own[:, :, None], own[:, None, :]] = blocks[:, :s, :s]
        B_d[own[:, :, None], ends[:, None, :]] = blocks[:, :s, s:]
        C_d[ends[:, :, None], own[:, None, :]] = blocks[:, s:, :s]
        np.add.at(J, (ends[:, :, None], ends[:, None, :]), -blocks[:, s:, s:])
    load, bus = network.loads(wiring, at.numbers, at.V), wiring.load_bus
    for number, (row, column) in enumerate(((0, 0), (0, b), (b, 0), (b, b))):
        np.add.at(J, (row + bus, column + bus), load[2 + number])
    G, angle, size = port_maps(layout, at.V)
    solved = np.linalg.solve(J, np.concatenate([C_d, G], axis=1))
    X, Z = solved[:, :n], solved[:, n:]
    return Pieces(A_d, B_d, C_d, J, X, Z, A_d + B_d @ X, -B_d @ Z, angle, size)


def port_maps(layout: Layout, V: Any) -> tuple[Any, Any, Any]:
    """G (2b, 2p): current of one unit of P, and of Q, consumed at a port; the ports' angle and |V|
    (p, 2b) by V.
    """
    b, bus = layout.wiring.size, layout.ports
    p = len(bus)
    vr, vi = V[bus], V[b + bus]
    square, column = vr * vr + vi * vi, np.arange(p)
    G = np.zeros((2 * b, 2 * p), dtype=V.dtype)
    G[bus, column], G[b + bus, column] = vr / square, vi / square
    G[bus, p + column], G[b + bus, p + column] = vi / square, -vr / square
    angle, size = np.zeros((p, 2 * b), dtype=V.dtype), np.zeros((p, 2 * b), dtype=V.dtype)
    angle[column, bus], angle[column, b + bus] = -vi / square, vr / square
    length = np.sqrt(square)
    size[column, bus], size[column, b + bus] = vr / length, vi / length
    return G, angle, size


def speeds(layout: Layout, settled: tuple[Settled, ...]) -> IntArray:
    """The state that is each unit's speed (u,), −1 for one without."""
    found = np.full(len(layout.wiring.unit_bus), -1)
    for group, own, at in zip(layout.groups, places(layout, settled), settled, strict=True):
        for name in ("machine.omega", "inverter.omega"):
            if name in at.states:
                found[group.units] = own[:, at.states.index(name)]
    return found


def outputs(layout: Layout, parts: Pieces, speed: IntArray) -> tuple[Any, Any]:
    """C and D of: speed at the units' ports and frequency at the others, then |V| at the ports.

    Frequency is the derivative of a voltage's angle, over ω_b; so it also stands for the speed of a
    unit that has none.
    """
    p, n = len(layout.ports), parts.A.shape[0]
    turning = parts.angle @ parts.X / layout.omega_b
    C, D = turning @ parts.A, turning @ parts.B
    units = np.flatnonzero(speed >= 0)
    C[units], D[units] = 0.0, 0.0
    C[units, speed[units]] = 1.0
    C = np.concatenate([C, parts.size @ parts.X])
    D = np.concatenate([D, -parts.size @ parts.Z])
    assert C.shape == (2 * p, n)
    return C, D


def linearise(case: DetailedCase, equilibrium: Equilibrium, ports: IntArray) -> DetailedModel:
    """Linearise a case at its operating point.

    ports : (h,) buses where load may change and frequency is read, besides the units' own.
    """
    layout = Layout.of(case, ports)
    voltage = equilibrium.voltage
    at = rest(layout, numbers_of(case), np.concatenate([voltage.real, voltage.imag]))
    return model_of(case, layout, at)


def model_of(case: DetailedCase, layout: Layout, at: Rest) -> DetailedModel:
    """Make the model of a case at rest."""
    parts = pieces(layout, at)
    speed = speeds(layout, at.settled)
    C, D = outputs(layout, parts, speed)
    labels = port_labels(layout)
    given, through, dispatch = given_powers(layout, at, parts)
    names, angles = [""] * len(parts.A), []
    for group, own, settled in zip(
        layout.groups, places(layout, at.settled), at.settled, strict=True
    ):
        for unit, row in zip(group.units, own, strict=True):
            for name, place in zip(settled.states, row, strict=True):
                names[place] = f"{labels[unit]} {name}"
                if name in settled.angles:
                    angles.append(int(place))
    total = network.at_buses(layout.wiring, case.loads.bus, case.loads.power.real)
    first = np.unique(layout.ports, return_index=True)[1]
    nominal = np.zeros(len(layout.ports))
    nominal[first] = total[layout.ports[first]]
    return DetailedModel(
        ports=labels,
        units=len(layout.wiring.unit_bus),
        A=parts.A,
        B=parts.B,
        C=C,
        D=D,
        states=tuple(names),
        angles=tuple(angles),
        loads=nominal,
        inertia=inertia_of(case),
        frequency_hz=case.frequency_hz,
        base_mva=case.base_mva,
        given=given,
        given_through=through,
        dispatch=dispatch,
        turn=parts.angle @ parts.X / layout.omega_b,
        turn_through=-parts.angle @ parts.Z / layout.omega_b,
    )


def inertia_of(case: DetailedCase) -> Array:
    """M of every unit (u,), 0 where it has none."""
    inertia = np.zeros(len(case.units.bus))
    for table in case.devices:
        if "M" in table.values:
            inertia[table.unit] = table.values["M"]
    return inertia


def given_powers(layout: Layout, at: Rest, parts: Pieces) -> tuple[Any, Any, Any]:
    """Power of each unit, P then Q, that its current C_d x + D_d V is at the operating point's
    voltages: by states (2u, n), by inputs (2u, 2p), and at rest (2u,).
    """
    b, u = layout.wiring.size, len(layout.wiring.unit_bus)
    by_state = np.zeros((2, u, len(parts.A)), dtype=parts.A.dtype)
    by_input = np.zeros((2, u, parts.B.shape[1]), dtype=parts.A.dtype)
    for group, settled, own in zip(
        layout.groups, at.settled, places(layout, at.settled), strict=True
    ):
        s, blocks = own.shape[1], settled.blocks
        bus = layout.wiring.unit_bus[group.units]
        ends = np.stack([bus, b + bus], axis=-1)
        current = np.einsum("nij,njk->nik", blocks[:, s:, s:], parts.X[ends])
        rows = np.arange(len(bus))[:, None, None]
        current[rows, np.arange(2)[None, :, None], own[:, None, :]] += blocks[:, s:, :s]
        through = -np.einsum("nij,njk->nik", blocks[:, s:, s:], parts.Z[ends])
        for target, part in ((by_state, current), (by_input, through)):
            target[0, group.units], target[1, group.units] = _powers(at.V[ends], part)
    rest_power = _powers(at_units(layout.wiring, at.V), at.current[:, :, None])
    return (
        by_state.reshape(2 * u, -1),
        by_input.reshape(2 * u, -1),
        np.concatenate([part[:, 0] for part in rest_power]),
    )


def _powers(V: Any, current: Any) -> tuple[Any, Any]:
    """P and Q (n, k) of currents (n, 2, k) at voltages (n, 2): V conj(I)."""
    vr, vi = V[:, 0, None], V[:, 1, None]
    ir, ii = current[:, 0], current[:, 1]
    return vr * ir + vi * ii, vi * ir - vr * ii


def port_labels(layout: Layout) -> tuple[str, ...]:
    """Labels of the ports: their buses', and BUS#2 for the second unit of a bus."""
    seen: dict[int, int] = {}
    labels = []
    for bus in layout.ports.tolist():
        seen[bus] = seen.get(bus, 0) + 1
        label = layout.wiring.buses[bus]
        labels.append(label if seen[bus] == 1 else f"{label}#{seen[bus]}")
    return tuple(labels)
