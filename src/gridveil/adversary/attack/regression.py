"""The swing equation as a linear regression: k_r, m, d, u from records at every machine.

Each row of the swing equation is linear in its own parameters. Integrated from rest to t, row i
reads

    m_i ω_i + Σ_j k_ij ∫(δ_i − δ_j) + d_i ∫ω_i + Σ_s u_is (t − t_s)₊ = ∫p_i,

where δ and p follow from ω and the public ω_b, T and G.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.signal import lfilter

from gridveil.dynamics.engine.propagate import SchemeName
from gridveil.grid.facts import Array, GridFacts, complete_edges
from gridveil.inference.fit.problem import Observation

# Rows of the regression, a machine; more would not make a better start.
ROWS = 3000


def regress(
    facts: GridFacts,
    observed: Sequence[Observation],
    totals: Array | None,
    *,
    dt_s: float,
    scheme: SchemeName,
) -> Array:
    """Solve the integrated swing equations for θ = (k_r, m, d, u); totals (s,) : Σu of each step.

    With totals None the first step's total is taken as 1 p.u. and governors are left out: only
    ratios are found. Integrals are left sums for `euler`, which makes the regression exact for its
    data, and those of cubic splines else, which also fill gaps.
    """
    g, edges = len(facts.machines), complete_edges(len(facts.machines))
    e, s = len(edges), sum(len(observation.event.steps) for observation in observed)
    rows, right = [], []
    column = 0
    for observation in observed:
        time, omega = observation.trajectory.time_s, observation.trajectory.omega
        first = int(np.argmin(np.abs(time - observation.event.steps[0].at_s)))
        time, omega = time[first:], omega[first:]
        h = float(time[1] - time[0])
        if scheme == "euler" and abs(h - dt_s) < 1e-9 * dt_s and np.isfinite(omega).all():
            angle, power = _left_sums(omega, h), _left_sums(_euler_governors(facts, omega, h), h)
            swing = facts.omega_b * _left_sums(angle, h)
        else:
            omega, angle, swing = _integrals(
                time, omega, [step.at_s for step in observation.event.steps]
            )
            power, swing = _governors(facts, omega, angle, h), facts.omega_b * swing
        ramps = np.stack(
            [np.maximum(time - step.at_s, 0.0) for step in observation.event.steps], axis=1
        )
        taken = slice(1, None, max(1, len(time) // ROWS))
        for i in range(g):
            A = np.zeros((len(time), e + 2 * g + s * g))
            for place in np.flatnonzero((edges == i).any(axis=1)):
                j = edges[place].sum() - i
                A[:, place] = swing[:, i] - swing[:, j]
            A[:, e + i], A[:, e + g + i] = omega[:, i], angle[:, i]
            for number in range(len(observation.event.steps)):
                A[:, e + 2 * g + (column + number) * g + i] = ramps[:, number]
            rows.append(A[taken])
            right.append((power[:, i] if totals is not None else np.zeros(len(time)))[taken])
        column += len(observation.event.steps)
    A, b = np.concatenate(rows), np.concatenate(right)
    offset, basis = with_totals(e + 2 * g, g, np.ones(1) if totals is None else totals, s)
    columns = A @ basis
    size = np.linalg.norm(columns, axis=0)
    size[size == 0] = 1.0
    solution = np.linalg.lstsq(columns / size, b - A @ offset, rcond=None)[0] / size
    return offset + basis @ solution


def with_totals(rest: int, g: int, totals: Array, inputs: int) -> tuple[Array, Array]:
    """θ = offset + basis x, with the sums of u of the first steps fixed and the others free."""
    sums_to_0 = np.linalg.qr(np.concatenate([np.ones((g, 1)), np.eye(g)[:, 1:]], axis=1))[0][:, 1:]
    offset = np.zeros(rest + inputs * g)
    blocks = [np.eye(rest)]
    for number in range(inputs):
        given = number < len(totals)
        blocks.append(sums_to_0 if given else np.eye(g))
        if given:
            offset[rest + number * g : rest + (number + 1) * g] = totals[number] / g
    basis = np.zeros((len(offset), sum(block.shape[1] for block in blocks)))
    row = column = 0
    for block in blocks:
        basis[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    return offset, basis


def _left_sums(values: Array, h: float) -> Array:
    """∫ from the first sample to each, as Euler's scheme has it."""
    return h * np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values[:-1], axis=0)])


def _euler_governors(facts: GridFacts, omega: Array, h: float) -> Array:
    """P of ṗ = −T (p + G ω) from rest, by Euler's scheme."""
    power = np.zeros_like(omega)
    for i, (rate, gain) in enumerate(zip(facts.governor_rate, facts.droop_gain, strict=True)):
        power[1:, i] = lfilter([-h * rate * gain], [1.0, h * rate - 1.0], omega[:-1, i])
    return power


def _integrals(time: Array, omega: Array, steps: Sequence[float]) -> tuple[Array, Array, Array]:
    """ω without gaps, ∫ω and ∫∫ω from the first sample on, by cubic splines between steps."""
    filled, once, twice = (np.zeros_like(omega) for _ in range(3))
    kinks = [0, *(int(np.searchsorted(time, at - 1e-9)) for at in steps[1:]), len(time) - 1]
    for start, stop in pairwise(dict.fromkeys(kinks)):
        part = slice(start, stop + 1)
        for column in range(omega.shape[1]):
            seen = np.flatnonzero(np.isfinite(omega[part, column]))
            spline = CubicSpline(time[part][seen], omega[part][seen, column])
            first, second = spline.antiderivative(), spline.antiderivative(2)
            t = time[part]
            area, moment, begin = once[start, column], twice[start, column], time[start]
            filled[part, column] = spline(t)
            once[part, column] = area + first(t) - first(begin)
            twice[part, column] = (
                moment + (area - first(begin)) * (t - begin) + second(t) - second(begin)
            )
    return filled, once, twice


def _governors(facts: GridFacts, omega: Array, angle: Array, h: float) -> Array:
    """∫p of ṗ = −T (p + G ω) from rest, which is −p/T − G ∫ω; p is exact for ω that is linear
    between samples.
    """
    out = np.zeros_like(omega)
    for i, (rate, gain) in enumerate(zip(facts.governor_rate, facts.droop_gain, strict=True)):
        if rate == 0:
            continue
        decay = np.exp(-rate * h)
        ramp = (1 - decay) / (rate * h)
        held = (1 - ramp) * omega[1:, i] + (ramp - decay) * omega[:-1, i]
        power: Array = np.asarray(lfilter([-gain], [1.0, -decay], held))
        out[1:, i] = -power / rate - gain * angle[1:, i]
    return out
