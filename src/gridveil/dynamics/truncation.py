"""Balanced truncation: large stable models with fewer states, by the square-root method.

With the Gramians A P + P Aᵀ + B Bᵀ = 0 and Aᵀ Q + Q A + Cᵀ C = 0, P = S Sᵀ, Q = R Rᵀ and the
singular values Σ of Rᵀ S = U Σ Vᵀ, the states Σ^(−½) Uᵀ Rᵀ x are as easy to reach as to see;
those of the largest Σ are kept. See Antoulas, Approximation of Large-Scale Dynamical Systems, 2005.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gridveil.dynamics.engine.lti import LTI
from gridveil.dynamics.engine.propagate import step_responses
from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, IntArray

CLOSE = 1e-3  # of a response's peak: fewer states are kept where they are as near
SMALLEST = 1e-12  # of the largest singular value: below, a state is rounding
# Steps that the error is measured on: inputs of each model, horizon and sampling [s].
PROBES, HORIZON_S, DT_S = 4, 30.0, 0.05


def cut(models: Sequence[LTI], most: int) -> tuple[list[LTI], float]:
    """Bring models of p inputs to one number of states, at most `most` or as many as they have.

    Returns them with the largest error of a step response that this left, as a share of the
    response's largest value. Models without too many states stay as they are, padded with states
    that nothing reaches.
    """
    moving = [_moving(model) for model in models]
    if max(model.states for model in moving) <= most:
        return _padded(moving), 0.0
    small = [balanced(model, most) for model in moving]
    for states in range(most // 4, most, max(1, most // 8)):
        fewer = [_first(model, states) for model in small[:3]]
        pairs = zip(moving, fewer, strict=False)
        if max(_error(model, other, number) for number, (model, other) in enumerate(pairs)) < CLOSE:
            small = [_first(model, states) for model in small]
            break
    pairs = zip(moving, small, strict=True)
    error = max(_error(model, other, number) for number, (model, other) in enumerate(pairs))
    return _padded(small), error


def balanced(model: LTI, states: int) -> LTI:
    """Keep the states of a stable model that its inputs reach and its outputs see best.

    The result's first states are those of every smaller such model.
    """
    S = _factor(_gramian(model.A, model.B @ model.B.T))
    R = _factor(_gramian(model.A.T, model.C.T @ model.C))
    U, sigma, Vt = np.linalg.svd(R.T @ S)
    kept = min(states, int((sigma > SMALLEST * sigma[0]).sum()))
    root = 1 / np.sqrt(sigma[:kept])
    left, right = root[:, None] * (U[:, :kept].T @ R.T), S @ Vt[:kept].T * root
    return LTI.of(left @ model.A @ right, left @ model.B, model.C @ right, model.D)


def is_stable(A: Array, margin: float = 0.0) -> bool:
    """Whether every mode of A (…, n, n) decays, faster than e^(−margin t)."""
    return bool(np.isfinite(A).all() and np.linalg.eigvals(A).real.max(initial=-np.inf) < -margin)


def _gramian(A: Array, W: Array) -> Array:
    """X of A X + X Aᵀ + W = 0."""
    from scipy.linalg import solve_continuous_lyapunov

    return np.asarray(solve_continuous_lyapunov(A, -W), dtype=np.float64)


def _factor(X: Array) -> Array:
    """S with S Sᵀ = X, where X is positive semidefinite up to rounding."""
    values, vectors = np.linalg.eigh(0.5 * (X + X.T))
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _moving(model: LTI) -> LTI:
    """Leave out states that never move from rest, such as governors with T = 0."""
    reached = np.asarray(model.A.any(axis=1) | model.B.any(axis=1))
    if not is_stable(model.A[np.ix_(reached, reached)]):
        raise InputError("a member of an ensemble is not stable", expected="modes that decay")
    if reached.all():
        return model
    return _of(model, np.flatnonzero(reached))


def _first(model: LTI, states: int) -> LTI:
    return _of(model, np.arange(min(states, model.states)))


def _of(model: LTI, states: IntArray) -> LTI:
    return LTI.of(model.A[np.ix_(states, states)], model.B[states], model.C[:, states], model.D)


def _padded(models: Sequence[LTI]) -> list[LTI]:
    """Give all models the states of the largest; those added decay and are never reached."""
    n = max(model.states for model in models)

    def pad(model: LTI) -> LTI:
        more = n - model.states
        if not more:
            return model
        A = np.pad(model.A, (0, more))
        A[range(n - more, n), range(n - more, n)] = -1.0
        return LTI.of(
            A, np.pad(model.B, ((0, more), (0, 0))), np.pad(model.C, ((0, 0), (0, more))), model.D
        )

    return [pad(model) for model in models]


def _error(model: LTI, other: LTI, number: int) -> float:
    """Largest difference of two models' answers to a few unit steps, each output against its own
    largest value in the answers.

    number : of the model, so that different ones are asked about different inputs.
    """
    inputs = sorted({(number + model.inputs * i // PROBES) % model.inputs for i in range(PROBES)})
    samples = round(HORIZON_S / DT_S) + 1
    one, two = (
        step_responses(each, inputs, samples, dt_s=DT_S, scheme="exact") for each in (model, other)
    )
    return float((np.abs(one - two).max(axis=1) / np.abs(one).max(axis=1)).max())
