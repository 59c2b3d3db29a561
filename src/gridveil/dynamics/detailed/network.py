"""The network in real arithmetic: branches, loads, and the power flow's equations.

A phasor of all buses is a vector (2n,): real parts, then imaginary ones. Every function takes
leading batch axes in its columns where it works element by element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridveil.dynamics.detailed.numbers import BRANCH, LOAD, Numbers, Wiring


def branch_entries(r: Any, x: Any, b: Any, tap: Any, phase: Any) -> Any:
    """G and B of both ends and between them, (…, 8, l): G_ff, B_ff, G_ft, B_ft, G_tf, B_tf, G_tt,
    B_tt.
    """
    square = r * r + x * x
    g, s, half = r / square, -x / square, 0.5 * b
    c, n = np.cos(phase), np.sin(phase)
    parts = (
        g / tap**2,
        (s + half) / tap**2,
        -(g * c - s * n) / tap,
        -(g * n + s * c) / tap,
        -(g * c + s * n) / tap,
        -(s * c - g * n) / tap,
        g + 0 * tap,
        s + half,
    )
    return np.stack(np.broadcast_arrays(*parts), axis=-2)


def load_entries(p: Any, q: Any, zp: Any, zq: Any, ip: Any, iq: Any, vr: Any, vi: Any) -> Any:
    """Current of a load and its slopes by voltage, (…, 6, m): I_r, I_i, ∂I_r/∂(V_r, V_i), ∂I_i/….

    P = p (z |V/V₀|² + i |V/V₀| + 1 − z − i), and Q likewise, at V = V₀.
    """
    square = vr * vr + vi * vi
    ir, ii = (p * vr + q * vi) / square, (p * vi - q * vr) / square
    kp, kq = (2 * zp + ip) * p / square, (2 * zq + iq) * q / square
    by_r, by_i = vr / square, vi / square  # d log|V|² / 2
    along, across = kp * vr + kq * vi, kp * vi - kq * vr
    parts = (
        ir,
        ii,
        p / square - 2 * by_r * ir + along * by_r,
        q / square - 2 * by_i * ir + along * by_i,
        -q / square - 2 * by_r * ii + across * by_r,
        p / square - 2 * by_i * ii + across * by_i,
    )
    return np.stack(np.broadcast_arrays(*parts), axis=-2)


def branches(numbers: Numbers) -> Any:
    """`branch_entries` of the numbers."""
    return branch_entries(*(numbers["branch"][name] for name in BRANCH))


def loads(wiring: Wiring, numbers: Numbers, V: Any) -> Any:
    """`load_entries` of the numbers at V (2n,)."""
    bus = wiring.load_bus
    columns = [*(numbers["load"][name] for name in LOAD), V[bus], V[wiring.size + bus]]
    return load_entries(*columns)


def admittance(wiring: Wiring, numbers: Numbers) -> Any:
    """Y (2n, 2n) = [[G, −B], [B, G]] of branches and shunts."""
    n, (f, t) = wiring.size, wiring.ends.T
    entries = branches(numbers)
    G = np.zeros(
        (n, n), dtype=np.result_type(entries, numbers["shunt"]["g"], numbers["shunt"]["b"])
    )
    B = np.zeros_like(G)
    for number, (row, column) in enumerate(((f, f), (f, t), (t, f), (t, t))):
        np.add.at(G, (row, column), entries[2 * number])
        np.add.at(B, (row, column), entries[2 * number + 1])
    G[np.diag_indices(n)] += numbers["shunt"]["g"]
    B[np.diag_indices(n)] += numbers["shunt"]["b"]
    return np.block([[G, -B], [B, G]])


def admittance_pull(wiring: Wiring, numbers: Numbers, bar: Any) -> dict[str, dict[str, Any]]:
    """Turn dJ/dY (2n, 2n) into dJ/d(branch and shunt columns)."""
    n, (f, t) = wiring.size, wiring.ends.T
    of_G = bar[:n, :n] + bar[n:, n:]
    of_B = bar[n:, :n] - bar[:n, n:]
    weights = np.stack(
        [
            part
            for row, column in ((f, f), (f, t), (t, f), (t, t))
            for part in (of_G[row, column], of_B[row, column])
        ]
    )
    columns = [numbers["branch"][name] for name in BRANCH]
    branch = {
        name: np.sum(weights * slope, axis=0)
        for name, slope in zip(BRANCH, _slopes(branch_entries, columns), strict=True)
    }
    return {"branch": branch, "shunt": {"g": np.diag(of_G), "b": np.diag(of_B)}}


def loads_pull(wiring: Wiring, numbers: Numbers, V: Any, bar: Any) -> tuple[dict[str, Any], Any]:
    """Turn dJ/d(load entries) (6, m) into dJ/d(load columns) and dJ/dV (2n,)."""
    n, bus = wiring.size, wiring.load_bus
    columns = [numbers["load"][name] for name in LOAD] + [V[bus], V[n + bus]]
    slopes = [np.sum(bar * slope, axis=0) for slope in _slopes(load_entries, columns)]
    V_bar = np.zeros(2 * n)
    np.add.at(V_bar, bus, slopes[-2])
    np.add.at(V_bar, n + bus, slopes[-1])
    return dict(zip(LOAD, slopes, strict=False)), V_bar


def _slopes(function: Any, columns: list[Any]) -> Any:
    """∂ function / ∂ each column, element by element, by a complex step."""
    h = 1e-30
    stacked = np.stack(columns) + 1j * h * np.eye(len(columns))[:, :, None]  # (k, k, l)
    return np.imag(function(*np.moveaxis(stacked, 1, 0))) / h


def at_buses(wiring: Wiring, places: Any, values: Any) -> Any:
    """Sum values at buses (n,)."""
    total = np.zeros(wiring.size, dtype=np.asarray(values).dtype)
    np.add.at(total, places, values)
    return total


def flow_residual(wiring: Wiring, numbers: Numbers, Y: Any, V: Any) -> Any:
    """What a solved power flow makes zero (2n,): P at every bus but the slack's, whose V_i is zero;
    Q, or |V|² less the set-point's square; V_r of the slack less its set-point.
    """
    n = wiring.size
    current = Y @ V
    vr, vi, ir, ii = V[:n], V[n:], current[:n], current[n:]
    unit, load = numbers["unit"], numbers["load"]
    made = at_buses(wiring, wiring.unit_bus, unit["power"])
    active = vr * ir + vi * ii - made + at_buses(wiring, wiring.load_bus, load["p"])
    reactive = vi * ir - vr * ii + at_buses(wiring, wiring.load_bus, load["q"])
    held, goal = wiring.held, unit["set_point"][wiring.holder]
    residual = np.concatenate([active, reactive]).astype(np.result_type(active, reactive, goal))
    residual[n + held] = vr[held] ** 2 + vi[held] ** 2 - goal**2
    slack = held[0]
    residual[slack], residual[n + slack] = vi[slack], vr[slack] - goal[0]
    return residual


def flow_slopes(wiring: Wiring, Y: Any, V: Any) -> Any:
    """∂ flow_residual / ∂V (2n, 2n)."""
    n = wiring.size
    current = Y @ V
    vr, vi, ir, ii = V[:n], V[n:], current[:n], current[n:]
    diagonal = np.diag_indices(n)
    active = vr[:, None] * Y[:n] + vi[:, None] * Y[n:]
    active[:, :n][diagonal] += ir
    active[:, n:][diagonal] += ii
    reactive = vi[:, None] * Y[:n] - vr[:, None] * Y[n:]
    reactive[:, :n][diagonal] -= ii
    reactive[:, n:][diagonal] += ir
    slopes = np.concatenate([active, reactive])
    held, slack = wiring.held, wiring.held[0]
    slopes[n + held] = 0.0
    slopes[n + held, held], slopes[n + held, n + held] = 2 * vr[held], 2 * vi[held]
    slopes[[slack, n + slack]] = 0.0
    slopes[slack, n + slack] = slopes[n + slack, slack] = 1.0
    return slopes


def flow_pull(
    wiring: Wiring, numbers: Numbers, Y: Any, V: Any, V_bar: Any
) -> tuple[dict[str, dict[str, Any]], Any]:
    """Turn dJ/dV of a solved power flow into dJ/d(unit and load columns) and dJ/dY: the implicit
    function theorem, λ = −R_V⁻ᵀ V̄.
    """
    n = wiring.size
    multiplier = -np.linalg.solve(flow_slopes(wiring, Y, V).T, V_bar)
    held, holder, slack = wiring.held, wiring.holder, wiring.held[0]
    goal = numbers["unit"]["set_point"][holder]
    goal_bar = -2 * goal * multiplier[n + held]
    goal_bar[0] = -multiplier[n + slack]
    set_point = np.zeros(len(wiring.unit_bus))
    set_point[holder] = goal_bar
    active, reactive = multiplier[:n].copy(), multiplier[n:].copy()
    active[slack] = 0.0
    reactive[held] = 0.0
    vr, vi = V[:n], V[n:]
    current_bar = np.concatenate([vr * active + vi * reactive, vi * active - vr * reactive])
    columns = {
        "unit": {"power": -active[wiring.unit_bus], "set_point": set_point},
        "load": {"p": active[wiring.load_bus], "q": reactive[wiring.load_bus]},
    }
    return columns, np.outer(current_bar, V)
