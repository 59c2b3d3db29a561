"""From dJ/d(A, B, C, D) of a detailed model to dJ/d(numbers of its case)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gridveil.dynamics.detailed import network
from gridveil.dynamics.detailed.equilibrium import at_units, unit_currents_pull
from gridveil.dynamics.detailed.linearise import (
    Layout,
    Pieces,
    Rest,
    carry,
    pieces,
    places,
    speeds,
)
from gridveil.dynamics.detailed.numbers import Numbers
from gridveil.dynamics.detailed.units import Settled, UnitGroup
from gridveil.grid.facts import Array


@dataclass(frozen=True, eq=False)
class Bars:
    """dJ/dA (n, n), dJ/dB (n, 2p), dJ/dC (2p, n) and dJ/dD (2p, 2p) of the whole model."""

    A: Array
    B: Array
    C: Array
    D: Array


def pull_numbers(layout: Layout, at: Rest, bars: Bars) -> Numbers:
    """dJ/d(every column of the numbers), at a case at rest in real numbers."""
    wiring, b = layout.wiring, layout.wiring.size
    parts = pieces(layout, at)
    A_bar, B_bar, X_bar, Z_bar, V_bar = _outputs_pull(layout, at, parts, bars)
    # A = A_d + B_d X, B = −B_d Z, with X = J⁻¹ C_d and Z = J⁻¹ G
    X_bar += parts.B_d.T @ A_bar
    Z_bar -= parts.B_d.T @ B_bar
    B_d_bar = A_bar @ parts.X.T - B_bar @ parts.Z.T
    n = len(A_bar)
    solved = np.linalg.solve(parts.J.T, np.concatenate([X_bar, Z_bar], axis=1))
    C_d_bar, G_bar = solved[:, :n], solved[:, n:]
    J_bar = -C_d_bar @ parts.X.T - G_bar @ parts.Z.T
    V_bar += _port_maps_pull(layout, at.V, G_bar)

    result: Numbers = {
        table: {name: np.zeros(len(column)) for name, column in columns.items()}
        for table, columns in at.numbers.items()
    }
    current_bar = np.zeros((len(wiring.unit_bus), 2))
    for group, settled, own in zip(
        layout.groups, at.settled, places(layout, at.settled), strict=True
    ):
        bus = wiring.unit_bus[group.units]
        ends = np.stack([bus, b + bus], axis=-1)
        upper = [
            A_bar[own[:, :, None], own[:, None, :]],
            B_d_bar[own[:, :, None], ends[:, None, :]],
        ]
        lower = [
            C_d_bar[ends[:, :, None], own[:, None, :]],
            -J_bar[ends[:, :, None], ends[:, None, :]],
        ]
        block_bar = np.concatenate(
            [np.concatenate(upper, axis=-1), np.concatenate(lower, axis=-1)], axis=-2
        )
        slopes = _group_pull(group, settled, at, at_units(wiring, at.V), block_bar)
        for (role, name), column in zip(group.columns(at.numbers), slopes, strict=False):
            np.add.at(result[group.models[role]][name], group.rows[role], column)
        np.add.at(V_bar, ends, slopes[-4:-2].T)
        current_bar[group.units] = slopes[-2:].T

    load_bar = np.zeros((6, len(wiring.load_bus)))
    for number, (row, column) in enumerate(((0, 0), (0, b), (b, 0), (b, b))):
        load_bar[2 + number] = J_bar[row + wiring.load_bus, column + wiring.load_bus]
    power_bar, V_more, Y_bar, load_bar[:2] = unit_currents_pull(
        wiring, at.numbers, at.Y, at.V, current_bar
    )
    of_loads, V_loads = network.loads_pull(wiring, at.numbers, at.V, load_bar)
    of_flow, Y_more = network.flow_pull(wiring, at.numbers, at.Y, at.V, V_bar + V_more + V_loads)
    of_network = network.admittance_pull(wiring, at.numbers, J_bar + Y_bar + Y_more)
    for part in (of_network, of_flow, {"load": of_loads, "unit": {"power": power_bar}}):
        for table, columns in part.items():
            for name, column in columns.items():
                result[table][name] += column
    return result


def _outputs_pull(
    layout: Layout, at: Rest, parts: Pieces, bars: Bars
) -> tuple[Any, Any, Any, Any, Any]:
    """Back through speed, frequency and |V|: dJ/dA, dJ/dB, dJ/dX, dJ/dZ and dJ/dV (2b,)."""
    p, b, bus = len(layout.ports), layout.wiring.size, layout.ports
    speed = speeds(layout, at.settled)
    C_f, D_f = bars.C[:p].copy(), bars.D[:p].copy()
    units = np.flatnonzero(speed >= 0)
    C_f[units], D_f[units] = 0.0, 0.0  # a speed is a state itself
    C_v, D_v = bars.C[p:], bars.D[p:]
    turning = parts.angle @ parts.X / layout.omega_b
    turning_bar = (C_f @ parts.A.T + D_f @ parts.B.T) / layout.omega_b
    A_bar, B_bar = bars.A + turning.T @ C_f, bars.B + turning.T @ D_f
    X_bar = parts.angle.T @ turning_bar + parts.size.T @ C_v
    Z_bar = -parts.size.T @ D_v
    angle_bar, size_bar = turning_bar @ parts.X.T, C_v @ parts.X.T - D_v @ parts.Z.T
    vr, vi = at.V[bus], at.V[b + bus]
    port = np.arange(p)
    (ar, ai), (sr, si) = ((bar[port, bus], bar[port, b + bus]) for bar in (angle_bar, size_bar))
    square = vr * vr + vi * vi
    length = np.sqrt(square)
    # angle by V is (−v_i, v_r) / |V|², |V| by V is (v_r, v_i) / |V|
    turn, grow = 2 * (ai * vr - ar * vi) / square**2, (sr * vr + si * vi) / length**3
    V_bar = np.zeros(2 * b)
    np.add.at(V_bar, bus, ai / square - turn * vr + sr / length - grow * vr)
    np.add.at(V_bar, b + bus, -ar / square - turn * vi + si / length - grow * vi)
    return A_bar, B_bar, X_bar, Z_bar, V_bar


def _port_maps_pull(layout: Layout, V: Any, G_bar: Any) -> Any:
    """Back through the currents of P and Q: dJ/dV (2b,)."""
    b, bus, p = layout.wiring.size, layout.ports, len(layout.ports)
    port = np.arange(p)
    vr, vi = V[bus], V[b + bus]
    square = vr * vr + vi * vi
    by_r = G_bar[bus, port] - G_bar[b + bus, p + port]  # of v_r / |V|²
    by_i = G_bar[b + bus, port] + G_bar[bus, p + port]  # of v_i / |V|²
    along = 2 * (by_r * vr + by_i * vi) / square**2
    V_bar = np.zeros(2 * b)
    np.add.at(V_bar, bus, by_r / square - along * vr)
    np.add.at(V_bar, b + bus, by_i / square - along * vi)
    return V_bar


def _group_pull(group: UnitGroup, settled: Settled, at: Rest, V: Any, bar: Any) -> Any:
    """dJ/d(parameters, V_r, V_i, I_r, I_i) (k + 4, n), from dJ/d(blocks) (n, s + 2, s + 2).

    Every input takes a complex step of its own: a batch of k + 4.
    """
    h = 1e-30
    columns, own = group.columns(at.numbers), group.parameters(at.numbers)
    k = len(columns)
    steps = 1j * h * np.eye(k + 4)
    parameters: dict[str, dict[str, Any]] = {role: {} for role in own}
    for number, (role, name) in enumerate(columns):
        parameters[role][name] = own[role][name] + steps[:, number, None]
    voltage = V[group.units] + steps[:, None, k : k + 2]
    current = at.current[group.units] + steps[:, None, k + 2 :]
    moved = carry(group, settled, parameters, voltage, current)
    return np.einsum("kuij,uij->ku", np.imag(moved.blocks), bar) / h
