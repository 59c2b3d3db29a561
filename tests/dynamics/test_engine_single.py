"""One model's arithmetic, which the profile `paper` is kept to, to the last bit."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gridveil.dynamics.engine import SCHEMES, LinearFamily, Objective, SampledRecord
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.engine.propagate import step_responses
from gridveil.grid.parameters import Bounds
from helpers import PAPER, ieee30_like

DT, SAMPLES, ROWS, COLUMNS = 0.01, 3001, 5, 7  # 94 blocks of 2^5 samples, doubled to 2^7
BLOCKS = 94


def doubled(P, V, times):
    """[P, V], [P², V, P V], …"""
    found = [np.hstack([P, V])]
    for _ in range(times):
        last = found[-1]
        power, more = np.hsplit(np.dot(last[:, : len(P)], last), [len(P)])
        found.append(np.hstack([power, last[:, len(P) :], more]))
    return found


def undone(found, bar):
    """The derivative by the last of `doubled`, turned into that by the first."""
    n = len(bar)
    for before in found[-2::-1]:
        width = before.shape[1]
        later = np.hstack([bar[:, :n], bar[:, width:]])
        own = np.dot(before[:, :n].T, later)
        own[:, :n] = own[:, :n] + np.dot(later, before.T)
        own[:, n:] = own[:, n:] + bar[:, n:width]
        bar = own
    return bar


def in_blocks(series):
    """Sample i + 32 j in block row i and block column j: (samples, h) to (32 h, 94)."""
    out = np.zeros((2**ROWS * series.shape[1], BLOCKS))
    for sample, values in enumerate(series):
        column, row = divmod(sample, 2**ROWS)
        out[row * len(values) : (row + 1) * len(values), column] = values
    return out


def plain(family, theta, observed, scheme):
    """ω (samples, h), and J = dt Σ |ω − ω̂|² with its gradient, in the order that is kept."""
    lti = family.lti(theta)
    E, pullback = SCHEMES[scheme](lti.F, DT)
    n, h = len(E), len(lti.H)
    start = np.zeros((n, 1))
    start[lti.states] = 1.0
    by_row = doubled(E.T, lti.H.T, ROWS)
    by_column = doubled(by_row[-1][:, :n].T, start, COLUMNS)
    O, Z = by_row[-1][:, n:].T, by_column[-1][:, n : n + BLOCKS]  # noqa: E741
    outputs = np.dot(O, Z)
    R = outputs - in_blocks(observed)
    R[in_blocks(np.ones_like(observed)) == 0] = 0.0
    J = 2 * DT * (0.5 * np.vecdot(R.ravel(), R.ravel()))
    Z_bar = np.zeros(by_column[-1].shape)
    Z_bar[:, n : n + BLOCKS] = np.dot(O.T, R)
    power_bar = undone(by_column, Z_bar)[:, :n]
    bar = undone(by_row, np.hstack([power_bar.T, np.dot(Z, R.T)]))
    E_bar, H_bar = 2 * DT * bar[:, :n].T, 2 * DT * bar[:, n:].T
    omega = [
        outputs[row * h : (row + 1) * h, column]
        for column, row in (divmod(sample, 2**ROWS) for sample in range(SAMPLES))
    ]
    return np.array(omega), J, family.pull(theta, type(lti)(pullback(E_bar), H_bar, lti.states))


@pytest.mark.parametrize("scheme", ["euler", "exact"])
def test_one_models_answer_mismatch_and_gradient_are_plain_products_to_the_last_bit(scheme):
    model = ieee30_like(PAPER).reduced
    drive = 0.2 * np.nan_to_num(model.loads)[:, None]
    family: LinearFamily = model.family(drive, range(6), Bounds())
    rng = np.random.default_rng(1)
    observed = 0.01 * rng.standard_normal((SAMPLES, 6))
    theta = model.theta * rng.uniform(0.9, 1.1, len(model.theta))
    record = SampledRecord(((0, 0),), observed, np.full_like(observed, DT))
    with one_blas_thread():  # as the engine
        omega, J, gradient = plain(family, theta, observed, scheme)
        answer = step_responses(family.lti(theta), [0], SAMPLES, dt_s=DT, scheme=scheme)[0]
    found = Objective(family, [record], dt_s=DT, scheme=scheme, same_bits=True)(theta)
    assert np.array_equal(answer, omega)
    assert found[0] == J
    assert np.array_equal(found[1], gradient)


def test_places_of_results_are_reused_by_no_two_threads_at_a_time():
    model = ieee30_like(PAPER).reduced
    drive = 0.2 * np.nan_to_num(model.loads)[:, None]
    rng = np.random.default_rng(2)
    observed = 0.01 * rng.standard_normal((SAMPLES, 6))
    record = SampledRecord(((0, 0),), observed, np.full_like(observed, DT))
    objective = Objective(model.family(drive, range(6), Bounds()), [record], dt_s=DT)
    thetas = model.theta * rng.uniform(0.9, 1.1, (12, len(model.theta)))
    alone = [objective(theta) for theta in thetas]
    with one_blas_thread(), ThreadPoolExecutor(4) as pool:
        together = list(pool.map(objective, [*thetas] * 5))
    for (J, gradient), (J_found, found) in zip(alone * 5, together, strict=True):
        assert J_found == J
        assert np.array_equal(found, gradient)
