"""Trajectories step by step: the path for large models, where powers of E cost more than the steps.

One product a step forwards (z_{n+1} = E z_n) and one backwards (λ_n = Eᵀ λ_{n+1} + Hᵀ ȳ_n); all
states are kept, so that dJ/dE = Σ λ_{n+1} z_nᵀ is a single product at the end.
"""

from __future__ import annotations

from gridveil.dynamics.engine.lti import XArray, namespace


def respond(E: XArray, H: XArray, start: XArray, samples: int) -> tuple[XArray, XArray]:
    """Compute states (samples, ..., n, c) and outputs (..., c, samples, h) from each column."""
    xp = namespace(E)
    states = xp.empty((samples, *E.shape[:-1], start.shape[-1]), dtype=E.dtype)
    states[0, ...] = start
    for n in range(samples - 1):
        states[n + 1, ...] = E @ states[n, ...]
    outputs = xp.moveaxis(H @ states, (0, -1), (-2, -3))
    return states, outputs


def pull(E: XArray, H: XArray, states: XArray, outputs_bar: XArray) -> tuple[XArray, XArray]:
    """Turn dJ/d(outputs) (..., c, samples, h) into dJ/dE and dJ/dH."""
    xp = namespace(E)
    samples = states.shape[0]
    y_bar = xp.moveaxis(outputs_bar, (-2, -3), (0, -1))
    source = H.mT @ y_bar
    adjoints = xp.empty(states.shape, dtype=E.dtype)
    adjoints[samples - 1, ...] = source[samples - 1, ...]
    for n in range(samples - 2, -1, -1):
        adjoints[n, ...] = E.mT @ adjoints[n + 1, ...] + source[n, ...]
    E_bar = _sum_of_products(adjoints[1:, ...], states[:-1, ...])
    return E_bar, _sum_of_products(y_bar, states)


def _sum_of_products(left: XArray, right: XArray) -> XArray:
    """Σ over samples and columns of left · rightᵀ: (samples, ..., a, c) and (samples, ..., b, c) to
    (..., a, b).
    """
    return _rows(left) @ _rows(right).mT


def _rows(series: XArray) -> XArray:
    xp = namespace(series)
    moved = xp.moveaxis(series, 0, -1)
    return xp.reshape(moved, (*moved.shape[:-2], moved.shape[-2] * moved.shape[-1]))
