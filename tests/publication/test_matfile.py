"""MAT-files are SciPy's to the byte, read back as views, and nothing but what was written is
read.
"""

import io
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import loadmat, savemat

from cli_helpers import charges, gridveil, write_grid
from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.errors import GridveilError
from gridveil.grid.facts import complete_edges
from gridveil.publication import matfile
from gridveil.publication.matfile import HEADER, from_mat, to_mat
from helpers import few_examples, random_grid


def by_scipy(arrays):
    """What SciPy writes, behind a header of ours: its own tells the platform and the time."""
    file = io.BytesIO()
    savemat(file, arrays, format="5", oned_as="column")
    return HEADER + file.getvalue()[len(HEADER) :]


def model_arrays(machines, buses, seed=1):
    model = random_grid(buses, machines, 3, seed).reduced
    return model.arrays


def machine_alone():
    """One machine and no other bus: weights (0,) and shares (1, 0)."""
    return dict.fromkeys(ReducedModel.shapes(1, 1), np.array([2.0])) | {
        "k_r": np.zeros(0),
        "K_ac": np.zeros((1, 0)),
    }


SHAPES = [(0,), (1,), (7,), (0, 0), (0, 3), (3, 0), (1, 1), (1, 5), (5, 1), (4, 6)]


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_matrix_is_written_as_scipy_writes_it(shape, dtype):
    values = np.arange(np.prod(shape), dtype=dtype).reshape(shape) - 3
    assert to_mat({"x": values}) == by_scipy({"x": values})


@pytest.mark.parametrize(
    "name", ["d", "K_ac", "abcd", "loads", "eight888", "governor_rate", "n" * 31]
)
def test_a_name_of_any_length_is_written_as_scipy_writes_it(name):
    values = np.linspace(0, 1, 6).reshape(2, 3)
    assert to_mat({name: values}) == by_scipy({name: values})


@few_examples
@given(st.lists(st.sampled_from(SHAPES), max_size=5), st.integers(0, 2**32 - 1))
def test_several_matrices_are_written_as_scipy_writes_them(shapes, seed):
    rng = np.random.default_rng(seed)
    arrays = {f"matrix{n}"[-n - 1 :]: rng.normal(size=shape) for n, shape in enumerate(shapes)}
    assert to_mat(arrays) == by_scipy(arrays)


MODELS = {
    "one machine": model_arrays(1, 4),
    "one machine alone": machine_alone(),
    "machines alone": model_arrays(5, 5),
    "machines and loads": model_arrays(4, 12),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_model_is_written_as_scipy_writes_it(model):
    arrays = model | {"edges": complete_edges(len(model["m"])) + 1}
    assert to_mat(arrays) == by_scipy(arrays)
    loaded = loadmat(io.BytesIO(to_mat(arrays)))
    for name, values in arrays.items():
        np.testing.assert_array_equal(loaded[name].reshape(values.shape), values)


@pytest.mark.parametrize(
    "view",
    [
        np.asfortranarray,
        lambda a: a[::2, ::-1],
        lambda a: a.T,
        lambda a: a[:, :0],
        lambda a: np.broadcast_to(a[0], (4, 6)),
    ],
    ids=["column order", "strided", "transposed", "empty", "broadcast"],
)
def test_the_layout_in_memory_does_not_matter(view):
    values = view(np.arange(24.0).reshape(4, 6))
    assert to_mat({"x": values}) == by_scipy({"x": np.array(values)})


def test_special_numbers_keep_their_bits():
    values = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 5e-324, np.finfo(float).max])
    found = from_mat(to_mat({"x": values}), {"x": (7,)}, {})["x"]
    assert found.tobytes() == values.tobytes()


def test_a_matrix_above_two_gigabytes_is_refused_before_a_byte_of_it_is_made():
    huge = np.broadcast_to(np.float64(1.5), (16_400, 16_400))  # 2 GiB that take 8 bytes
    tracemalloc.start()
    try:
        with pytest.raises(GridveilError, match=r"matrix K_ac takes 2\.0 GiB") as refusal:
            to_mat({"K_ac": huge})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1e6
    assert "1.5" not in str(refusal.value)


def test_a_release_that_no_bundle_could_hold_is_refused_before_its_budget_is_spent(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(
        matfile, "LARGEST", 40
    )  # bytes: less than 3 machines and 2 loaded buses take
    done = gridveil(
        "release",
        write_grid(tmp_path),
        "--epsilon",
        "1/2",
        "--out",
        tmp_path / "o",
        "--ledger",
        tmp_path / "l.db",
    )
    assert done.code == 2
    assert "2 GiB at most" in done.err
    assert "stays spent" not in done.err
    assert charges(tmp_path / "l.db") == []


# --- reading --------------------------------------------------------------------------------------


def read(data, arrays, rest):
    return from_mat(data, {name: values.shape for name, values in arrays.items()}, rest)


@pytest.mark.parametrize("arrays", MODELS.values(), ids=MODELS)
def test_a_model_reads_back_as_views_of_the_file(arrays):
    rest = {"edges": complete_edges(len(arrays["m"])) + 1}
    data = to_mat(arrays | rest)
    found = read(data, arrays, rest)
    assert list(found) == list(arrays)
    whole = np.frombuffer(data, np.uint8)
    for name, values in arrays.items():
        assert (found[name].shape, found[name].tobytes()) == (values.shape, values.tobytes())
        assert np.shares_memory(found[name], whole) == bool(values.size)
        assert not found[name].flags.writeable


def test_every_changed_byte_that_is_not_a_number_is_refused():
    arrays, rest = model_arrays(2, 4), {"edges": complete_edges(2) + 1}
    data = to_mat(arrays | rest)
    numbers = np.zeros(len(data), dtype=bool)
    for values in arrays.values():
        raw = np.asfortranarray(values).tobytes(order="F")
        start = data.index(raw)
        numbers[start : start + len(raw)] = True
    assert 0 < numbers.sum() < len(data) / 2
    for position in np.flatnonzero(~numbers):
        for flip in (1, 0x80):
            tampered = bytearray(data)
            tampered[position] ^= flip
            with pytest.raises(ValueError, match="not what gridveil writes"):
                read(bytes(tampered), arrays, rest)


@pytest.mark.parametrize("cut", [0, 1, 64, 127, 128, 200, -1, -8])
def test_a_file_that_was_cut_off_is_refused(cut):
    arrays, rest = model_arrays(3, 6), {"edges": complete_edges(3) + 1}
    with pytest.raises(ValueError, match="not what gridveil writes"):
        read(to_mat(arrays | rest)[:cut], arrays, rest)


def test_bytes_behind_the_last_matrix_are_refused():
    arrays = model_arrays(3, 6)
    for more in (b"\0", to_mat({"x": np.ones(1)})[len(HEADER) :]):
        with pytest.raises(ValueError, match="not what gridveil writes"):
            read(to_mat(arrays) + more, arrays, {})


def test_matrices_of_other_shapes_or_in_another_order_are_refused():
    arrays = model_arrays(3, 6)
    data = to_mat(arrays)
    for shapes in (
        {name: values.shape for name, values in reversed(arrays.items())},
        {name: values.shape for name, values in arrays.items()} | {"K_ac": (2, 3)},
        {name: values.shape for name, values in arrays.items()}
        | {"K_ac": arrays["K_ac"].shape[::-1], "m": (4,)},
    ):
        with pytest.raises(ValueError, match="not what gridveil writes"):
            from_mat(data, shapes, {})


@pytest.mark.parametrize("machines", [40_000, 100_000, 2**33])
def test_a_document_that_announces_more_than_a_file_can_hold_is_refused_as_any_other(machines):
    with pytest.raises(ValueError, match="not what gridveil writes"):
        from_mat(to_mat({}), {"k_r": (machines * (machines - 1) // 2,)}, {})
