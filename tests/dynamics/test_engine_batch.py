"""Batches in arrays that are used again, against blocks that allocate their own."""

from concurrent.futures import ThreadPoolExecutor
from time import sleep
from types import SimpleNamespace

import numpy as np
import pytest

from gridveil.dynamics.engine import Objective, SampledRecord
from gridveil.dynamics.engine.batch import BatchBlocks
from gridveil.dynamics.engine.objective import _cores, _on_all_cores
from gridveil.dynamics.engine.propagate import BlockLayout, Blocks
from gridveil.grid.parameters import Bounds
from helpers import PAPER, ieee30_like

# rows of blocks double so often, and so many block columns: one sample, one row, one column, a last
# doubling in part, and powers of 2
LAYOUTS = [(0, 1), (0, 5), (1, 1), (3, 1), (2, 2), (3, 7), (2, 16), (5, 94)]
MODELS, N = 4, 5


def drawn(layout, outputs, columns):
    rng = np.random.default_rng(outputs + 10 * columns)
    E = rng.standard_normal((MODELS, N, N))
    E *= 0.9 / np.abs(np.linalg.eigvals(E)).max(axis=1)[:, None, None]
    H, start = rng.standard_normal((MODELS, outputs, N)), rng.standard_normal((N, columns))
    doublings, count = layout
    own = BlockLayout(2**doublings * count, doublings, (count - 1).bit_length(), count)
    return E, H, start, own


def all_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        scale = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11 * (scale or 1.0))


every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda own: f"2^{own[0]}x{own[1]}")


@every_layout
@pytest.mark.parametrize(("outputs", "columns"), [(1, 1), (3, 1), (6, 2)])
def test_outputs_and_derivatives_are_those_of_plain_blocks(layout, outputs, columns):
    E, H, start, own = drawn(layout, outputs, columns)
    placed = BatchBlocks(MODELS, outputs, start, own)
    for factor in (0.0, 1.0):  # what an earlier batch left does not matter
        plain = Blocks.grow(factor * E, H, start, own)
        placed.grow(factor * E, H)
        bar = np.random.default_rng(1).standard_normal(plain.outputs().shape)
        np.testing.assert_allclose(placed.outputs(), plain.outputs(), rtol=1e-12, atol=1e-12)
        all_close(placed.pull_outputs(bar), plain.pull_outputs(bar))


@every_layout
@pytest.mark.parametrize("missing", [0, 1])
def test_the_mismatch_of_a_thin_record_is_that_of_its_residuals(layout, missing):
    E, H, start, own = drawn(layout, outputs=3, columns=2)
    rows = 3 * own.block_length
    last_rows = rows - 3 * min(missing, own.block_length - 1)
    rng = np.random.default_rng(2)
    record = SimpleNamespace(
        left=rng.standard_normal((rows, 2)),
        right=rng.standard_normal((2, 2 * own.block_count)),
    )
    inside = np.ones((rows, 2 * own.block_count))
    inside[last_rows:, -2:] = 0.0
    # outside, a record is nothing: there it is taken out with the outputs
    record.left[last_rows:] = 0.0
    plain = Blocks.grow(E, H, start, own)
    residual = inside * (plain.outputs() - record.left @ record.right)
    placed = BatchBlocks(MODELS, 3, start, own, record, last_rows)
    placed.grow(E, H)
    J = placed.against_record(np.sum((record.left @ record.right) ** 2))
    np.testing.assert_allclose(J, np.sum(residual**2, axis=(1, 2)), rtol=1e-11)
    all_close(placed.pull(), plain.pull_outputs(residual))


def objective_of(noise, steps=((0, 0),)):
    model = ieee30_like(PAPER).reduced
    drive = 0.2 * np.nan_to_num(model.loads)[:, None]
    family = model.family(drive, range(6), Bounds())
    time_s = np.arange(501) * 0.01
    observed = -0.01 * (1 - np.exp(-time_s))[:, None] * np.ones(6)
    observed += noise * np.random.default_rng(3).standard_normal(observed.shape)
    record = SampledRecord(steps, observed, np.full_like(observed, 0.01))
    theta = model.theta * np.random.default_rng(4).uniform(0.9, 1.1, (60, len(model.theta)))
    return Objective(family, [record], dt_s=0.01), theta


@pytest.mark.parametrize("noise", [0.0, 1e-3], ids=["thin record", "full record"])
def test_calls_of_any_size_and_thread_share_arrays_and_no_result(noise):
    objective, theta = objective_of(noise)
    alone = [objective(one) for one in theta]
    sizes = [1, 2, 7, 30, 60, 3, 2, 60]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda size: (size, objective(theta[:size])), 3 * sizes))
    for size, (J, gradient) in found:
        all_close((J, gradient), map(np.array, zip(*alone[:size], strict=True)))


TWO_STEPS = ((0, 0), (100, 0))
every_record = pytest.mark.parametrize(
    ("noise", "steps"),
    [(0.0, ((0, 0),)), (1e-3, ((0, 0),)), (0.0, TWO_STEPS)],
    ids=["thin record", "full record", "two steps"],
)


@every_record
@pytest.mark.parametrize("size", [1, 20, 60])
def test_no_result_lies_where_the_next_batch_is_computed(noise, steps, size, monkeypatch):
    objective, theta = objective_of(noise, steps)
    expected = objective(theta[:size])
    kept = []

    def spoiled(blocks):  # as another thread may, at once
        kept.append(blocks)
        for chain in (blocks._observing, blocks._starting):
            for own in (chain.wide.base, chain.V_bar.base, chain.P):
                own[:] = np.nan

    monkeypatch.setattr(objective, "_keep", spoiled)
    all_close(objective(theta[:size]), expected)
    assert kept


@every_record
def test_blocks_are_kept_up_to_a_number_of_bytes(noise, steps, monkeypatch):
    objective, theta = objective_of(noise, steps)
    for size in (1, 2, 3):
        objective(theta[:size])
    assert list(objective._spare) == [1, 2, 3]
    ((blocks,),) = (objective._spare[size] for size in (3,))
    assert blocks.nbytes > blocks.O.nbytes + blocks.Zt.nbytes
    room = objective._kept_bytes() / _cores()
    monkeypatch.setattr("gridveil.dynamics.engine.objective.KEPT_BYTES", room)
    objective(theta[:4])
    assert 4 in objective._spare
    assert 1 not in objective._spare
    assert objective._kept_bytes() <= room * _cores()
    monkeypatch.setattr("gridveil.dynamics.engine.objective.KEPT_BYTES", 0)
    objective(theta[:2])
    assert not objective._spare


def test_after_an_error_no_thread_begins_another_piece():
    done = []

    def work(piece):
        done.append(piece)
        sleep(0.01)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _on_all_cores(work, list(range(500)))
    assert len(done) <= 2 * _cores()


def test_one_model_differs_from_the_kept_order_by_rounding():
    objective, theta = objective_of(0.0)
    kept = Objective(
        objective.family, [record_of(objective)], dt_s=0.01, scheme="exact", same_bits=True
    )
    all_close(objective(theta[0]), kept(theta[0]))


def record_of(objective):
    records = objective.records
    return SampledRecord(((0, 0),), records.observed[0], records.weights[0])
