"""The operating point of a case: power flow, then every unit at rest at its bus.

It is solved in real numbers; where the numbers carry a complex step, one more Newton step with the
real slopes carries it over, which is exact to first order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gridveil.dynamics.detailed import network
from gridveil.dynamics.detailed.numbers import (
    Numbers,
    Wiring,
    is_complex,
    numbers_of,
    real_numbers,
)
from gridveil.dynamics.detailed.units import NoOperatingPoint
from gridveil.dynamics.powerflow import Network, newton
from gridveil.foundation.errors import InputError
from gridveil.grid.case import Complex, DetailedCase

__all__ = ["Equilibrium", "NoOperatingPoint", "solve"]

_UNSOLVED = "The power flow of the case does not converge"


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """A solved power flow.

    voltage : (n,) phasors of the buses [p.u.]; the slack's angle is zero.
    power : (u,) P + jQ that each unit generates [p.u.].
    """

    voltage: Complex
    power: Complex


def solve(case: DetailedCase, near: Equilibrium | None = None) -> Equilibrium:
    """Solve a case's power flow on its own numbers.

    near : of a case that differs little, to begin with.

    Raises
    ------
    NoOperatingPoint : where there is none.
    """
    wiring, numbers = Wiring.of(case), numbers_of(case)
    Y = network.admittance(wiring, numbers)
    start = None if near is None else np.concatenate([near.voltage.real, near.voltage.imag])
    V = flow(wiring, numbers, Y, start)
    P, Q = unit_powers(wiring, numbers, Y, V)
    n = wiring.size
    return Equilibrium(V[:n] + 1j * V[n:], P + 1j * Q)


def flow(wiring: Wiring, numbers: Numbers, Y: Any, start: Any = None) -> Any:
    """Solve the power flow for V (2n,), from a start (2n,) near it or from a flat one."""
    plain, Y_real = real_numbers(numbers), np.real(Y)
    V = _polished(wiring, plain, Y_real, _by_newton(wiring, plain) if start is None else start)
    if V is None and start is not None:
        V = _polished(wiring, plain, Y_real, _by_newton(wiring, plain))
    if V is None:
        raise NoOperatingPoint(_UNSOLVED)
    if is_complex(numbers):
        slopes = network.flow_slopes(wiring, Y_real, V)
        V = V - np.linalg.solve(slopes, network.flow_residual(wiring, numbers, Y, V))
    return V


# a step may lead to infinity: reported as no solution
@np.errstate(all="ignore")
def _polished(wiring: Wiring, numbers: Numbers, Y: Any, V: Any) -> Any:
    """Newton's method to rounding, from a near start; None where it does not converge."""
    size = np.inf
    for _ in range(10):
        residual = network.flow_residual(wiring, numbers, Y, V)
        try:
            step = np.linalg.solve(network.flow_slopes(wiring, Y, V), residual)
        except np.linalg.LinAlgError:
            return None
        before, size = size, np.abs(step).max()
        # rounding ends the progress of a large or stiff network before 1e-13
        if not np.isfinite(size) or before < 1e-9:
            return V if before < 1e-9 else None
        V = V - step
        if size < 1e-13:
            return V
    return None


def _by_newton(wiring: Wiring, numbers: Numbers) -> Any:
    branch, shunt, load, unit = (numbers[name] for name in ("branch", "shunt", "load", "unit"))
    made = network.at_buses(wiring, wiring.unit_bus, unit["power"])
    used = network.at_buses(wiring, wiring.load_bus, load["p"] + 1j * load["q"])
    held = wiring.held
    grid = Network(
        wiring.ends,
        branch["r"] + 1j * branch["x"],
        branch["b"],
        branch["tap"] * np.exp(1j * branch["phase"]),
        shunt["g"] + 1j * shunt["b"],
        made - used,
        held[:1],
        held,
    )
    voltage = np.ones(wiring.size)
    voltage[held] = unit["set_point"][wiring.holder]
    try:
        magnitude, angle = newton(grid, voltage, np.zeros(wiring.size))
    except InputError:
        raise NoOperatingPoint(_UNSOLVED) from None
    return np.concatenate([magnitude * np.cos(angle), magnitude * np.sin(angle)])


def unit_powers(wiring: Wiring, numbers: Numbers, Y: Any, V: Any) -> tuple[Any, Any]:
    """P and Q (u,) of the units: scheduled, and the bus's remainder; Q by shares."""
    n = wiring.size
    current = bus_currents(wiring, numbers, Y, V)
    active = V[:n] * current[:n] + V[n:] * current[n:]
    reactive = V[n:] * current[:n] - V[:n] * current[n:]
    bus, slack = wiring.unit_bus, wiring.slack
    P = np.array(numbers["unit"]["power"], dtype=np.result_type(active))
    others = bus == bus[slack]
    others[slack] = False
    P[slack] = active[bus[slack]] - P[others].sum()
    return P, wiring.share * reactive[bus]


def bus_currents(wiring: Wiring, numbers: Numbers, Y: Any, V: Any) -> Any:
    """Current (2n,) that the units of each bus give: Y V and the loads'."""
    load = network.loads(wiring, numbers, V)
    return Y @ V + np.concatenate(
        [
            network.at_buses(wiring, wiring.load_bus, load[0]),
            network.at_buses(wiring, wiring.load_bus, load[1]),
        ]
    )


def unit_currents(wiring: Wiring, numbers: Numbers, Y: Any, V: Any) -> Any:
    """Current (u, 2) of each unit into the network: conj(S / V)."""
    P, Q = unit_powers(wiring, numbers, Y, V)
    vr, vi = at_units(wiring, V).T
    square = vr * vr + vi * vi
    return np.stack([(P * vr + Q * vi) / square, (P * vi - Q * vr) / square], axis=-1)


def at_units(wiring: Wiring, V: Any) -> Any:
    """V at the units' buses, (u, 2)."""
    return np.stack([V[wiring.unit_bus], V[wiring.size + wiring.unit_bus]], axis=-1)


def unit_currents_pull(
    wiring: Wiring, numbers: Numbers, Y: Any, V: Any, bar: Any
) -> tuple[Any, Any, Any, Any]:
    """Turn dJ/d(unit currents) (u, 2) into dJ/d(scheduled powers) (u,), dJ/dV (2n,), dJ/dY and
    dJ/d(currents of the loads) (2, m).
    """
    n, bus, slack = wiring.size, wiring.unit_bus, wiring.slack
    P, Q = unit_powers(wiring, numbers, Y, V)
    (vr, vi), (br, bi) = at_units(wiring, V).T, bar.T
    square = vr * vr + vi * vi
    P_bar, Q_bar = (br * vr + bi * vi) / square, (br * vi - bi * vr) / square
    along = 2 * (P * P_bar + Q * Q_bar) / square
    V_bar = np.concatenate(
        [
            network.at_buses(wiring, bus, (br * P - bi * Q) / square - along * vr),
            network.at_buses(wiring, bus, (br * Q + bi * P) / square - along * vi),
        ]
    )
    reactive_bar = network.at_buses(wiring, bus, wiring.share * Q_bar)
    active_bar = np.zeros(n)
    active_bar[bus[slack]] = P_bar[slack]
    power_bar = np.where(bus == bus[slack], P_bar - P_bar[slack], P_bar)
    power_bar[slack] = 0.0
    current = bus_currents(wiring, numbers, Y, V)
    ir, ii, ur, ui = current[:n], current[n:], V[:n], V[n:]
    current_bar = np.concatenate(
        [active_bar * ur + reactive_bar * ui, active_bar * ui - reactive_bar * ur]
    )
    V_bar += np.concatenate(
        [active_bar * ir - reactive_bar * ii, active_bar * ii + reactive_bar * ir]
    )
    V_bar += Y.T @ current_bar
    load = wiring.load_bus
    return power_bar, V_bar, np.outer(current_bar, V), current_bar[[load, n + load]]
