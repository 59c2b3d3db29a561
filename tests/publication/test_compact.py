"""Compact models: what they leave out is what they state, their files are SciPy's and MATLAB's
sparse matrices, and nothing but what gridveil writes is read.
"""

import io
import json
import shutil
import struct
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from scipy.io import loadmat, savemat

from bundle_helpers import seal
from cli_helpers import gridveil
from gridveil import Adjacency, Bounds, DemoSampler, load, open_grid, publish, verify
from gridveil.dynamics import compact
from gridveil.dynamics.compact import Compaction, SparseShares, large_weights
from gridveil.dynamics.kron import reduce, reduced_model
from gridveil.dynamics.simulate import simulate
from gridveil.dynamics.swing import SWING
from gridveil.foundation.errors import BundleError, InputError
from gridveil.grid.facts import OPERATING_POINTS, complete_edges
from gridveil.grid.tables import PublicTable
from gridveil.privacy.allocation import ITEMS
from gridveil.publication.matfile import HEADER, from_mat, to_mat
from gridveil.publication.ports import zone_ports
from gridveil.publication.release import loaded_buses
from gridveil.vault.source import SourceGrid
from helpers import make_grid

SETTINGS = {
    "epsilon": Fraction(1),
    "adjacency": Adjacency(),
    "bounds": Bounds(),
    "ledger": None,
    "allocation": ITEMS,
}


def released(**more):
    return publish(
        open_grid("ieee30"), **SETTINGS, sampler=DemoSampler(1), error_bars=False, **more
    )


def make_compact(patch):
    """As if IEEE-30 were large, and shares below 0.1 small; every bus is a probe."""
    for name, value in {
        "COMPACT_ABOVE": 0,
        "LEAST_SHARE": 0.1,
        "LEAST_WEIGHT": 0.1,
        "PROBES": 60,
    }.items():
        patch.setattr(compact, name, value)


@pytest.fixture
def every_model_is_compact(monkeypatch):
    make_compact(monkeypatch)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compact") / "bundle"
    with pytest.MonkeyPatch.context() as patch:
        make_compact(patch)
        release = released()
    release.save(folder)
    return folder, release


@pytest.fixture
def bundle(made, tmp_path):
    return shutil.copytree(made[0], tmp_path / "bundle")


# --- what is left out -----------------------------------------------------------------------------


def test_a_small_grid_has_no_compact_model(tmp_path):
    release = released()
    assert isinstance(release.model.K_ac, np.ndarray) and release.model.compact is None
    release.save(tmp_path / "bundle")
    assert "compact" not in json.loads((tmp_path / "bundle/release.json").read_text())["model"]


def test_a_compact_model_differs_from_the_whole_one_as_it_states(every_model_is_compact):
    small = released().model
    assert small.compact is not None and small.K_ac.matrix.nnz < 0.8 * small.K_ac.size
    np.testing.assert_allclose(small.K_ac.sum(axis=0), 1, atol=1e-14)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "COMPACT_ABOVE", 2**30)
        whole = released().model
    moved = np.abs(np.asarray(small.K_ac) - whole.K_ac).sum(axis=0) / 2
    assert small.compact.share_moved == pytest.approx(moved.max(), rel=1e-9)
    left = [
        (whole.k_r - small.k_r)[(whole.edges == machine).any(axis=1)].sum()
        / whole.k_r[(whole.edges == machine).any(axis=1)].sum()
        for machine in range(6)
    ]
    assert small.compact.weight_left_out == pytest.approx(max(left), rel=1e-9)
    clock = {"horizon_s": compact.HORIZON_S, "dt_s": compact.DT_S, "scheme": "trapezoidal"}
    worst = 0.0
    for number in range(1, 19):
        one, two = (
            simulate(model, f"load:L{number}=+1", **clock, buses=model.ports).omega
            for model in (whole, small)
        )
        worst = max(worst, np.abs(one - two).max() / np.abs(one).max())
    assert 0 < worst <= small.compact.response_error * (1 + 1e-9)
    assert worst == pytest.approx(small.compact.response_error, rel=0.3)


def test_sums_and_columns_of_sparse_shares_are_those_of_the_matrix():
    dense = np.array([[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]])
    shares = SparseShares(sparse.csc_array(dense))
    load = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_array_equal(shares @ load, dense @ load)
    np.testing.assert_array_equal(shares[:, [2, 0]], dense[:, [2, 0]])
    np.testing.assert_array_equal(np.asarray(shares), dense)
    np.testing.assert_array_equal(shares.sum(axis=0), [1, 1, 1])
    assert (shares.min(), shares.max(), shares.shape, shares.size) == (0, 1, (2, 3), 6)
    with pytest.raises(InputError, match="cannot be taken alone"):
        shares[[0], :]


def test_some_weights_are_always_kept():
    """A file of next to nothing must not stand for gigabytes."""
    g = 40
    k_r = np.full(g * (g - 1) // 2, 1e-12)
    k_r[0] = 1e12
    found, share = large_weights(k_r, g)
    assert (found > 0).sum() >= len(k_r) / compact.FEWEST_WEIGHTS
    assert 0 <= share <= 1
    edges = complete_edges(3)
    assert edges.tolist() == [[0, 1], [0, 2], [1, 2]]
    np.testing.assert_array_equal(large_weights(np.array([1.0, 1e-9, 2.0]), 3)[0], [1, 0, 2])


def test_loads_of_a_compact_model_are_merged(every_model_is_compact, tmp_path):
    ports = zone_ports(open_grid("ieee30").facts, 5)
    merged = released(ports=ports)
    np.testing.assert_allclose(merged.model.K_ac.sum(axis=0), 1, atol=1e-14)
    merged.save(tmp_path / "bundle")
    verify(tmp_path / "bundle")


def test_reduce_makes_a_compact_model_of_any_table(every_model_is_compact):
    facts = open_grid("ieee30").facts
    values = {name: np.full(facts.sizes[name], 10.0) for name in SWING}
    loaded = loaded_buses(facts)
    whole = reduced_model(facts, values, loaded)
    small = reduce(PublicTable(facts, values), loaded, compact=True)
    assert np.abs(np.asarray(small.K_ac) - whole.K_ac).max() < 0.3
    assert small.compact is not None and small.ports == whole.ports


def test_what_is_left_out_is_said_in_words():
    words = Compaction(0.0021, 1e-4, 0.00031).in_words()
    assert "0.21 % of a bus's load" in words and "0.031 % of their peak" in words


# --- its bundle -----------------------------------------------------------------------------------


def test_a_compact_bundle_is_verified_loaded_and_simulated(made, bundle):
    report, again, first = verify(bundle), load(bundle), made[1]
    assert report.machines == 6
    np.testing.assert_array_equal(again.model.k_r, first.model.k_r)
    np.testing.assert_array_equal(np.asarray(again.model.K_ac), np.asarray(first.model.K_ac))
    assert again.model.compact == first.model.compact
    np.testing.assert_array_equal(
        again.simulate("load:L3=+0.1", horizon_s=2).omega,
        first.simulate("load:L3=+0.1", horizon_s=2).omega,
    )
    assert "are sparse matrices: small shares" in (bundle / "README.md").read_text()


def test_simulate_prints_what_a_compact_model_leaves_out(bundle):
    said = gridveil("simulate", bundle, "--event", "load:L3=+0.1").out
    assert "Compact  small shares and weights are left out" in said
    told = json.loads(gridveil("simulate", bundle, "--event", "load:L3=+0.1", "--json").out)
    assert told["compact"]["response_error"] == load(bundle).model.compact.response_error


def test_scipy_reads_the_sparse_matrices(bundle):
    read, model = loadmat(bundle / "model.mat"), load(bundle).model
    np.testing.assert_array_equal(read["K_ac"].toarray(), np.asarray(model.K_ac))
    np.testing.assert_array_equal(read["k_r"].toarray().ravel(), model.k_r)


@pytest.mark.parametrize("shape", [(3, 4), (4, 1), (2, 5)])
def test_a_sparse_matrix_is_written_as_scipy_writes_it(shape):
    values = np.random.default_rng(1).random(shape)
    matrix = sparse.csc_array(np.where(values > 0.4, values, 0))
    file = io.BytesIO()
    savemat(file, {"x": matrix}, format="5")
    written = to_mat({"x": matrix})
    assert written == HEADER + file.getvalue()[len(HEADER) :]
    again = from_mat(written, {"x": shape}, {}, sparse_ones=("x",))["x"]
    np.testing.assert_array_equal(again.toarray(), matrix.toarray())


def matrices(bundle):
    """Shapes of a bundle's arrays, in the order of its file."""
    model = load(bundle).model
    return {name: values.shape for name, values in model.arrays.items()}


def forged(bundle, name, change):
    """Write model.mat anew with one sparse matrix changed, and seal it."""
    data, shapes = (bundle / "model.mat").read_bytes(), matrices(bundle)
    arrays = from_mat(data, shapes, {"edges": complete_edges(6) + 1}, sparse_ones=("k_r", "K_ac"))
    arrays = {key: values.copy() for key, values in arrays.items()}
    arrays[name] = change(arrays[name])
    (bundle / "model.mat").write_bytes(to_mat(arrays | {"edges": complete_edges(6) + 1}))
    seal(bundle)


def spoilt(index, value):
    def change(matrix):
        matrix.data[index] = value
        return matrix

    return change


def swapped(matrix):
    """Two rows of a column in the wrong order."""
    matrix.indices[:2] = matrix.indices[1::-1].copy()
    return matrix


def doubled(matrix):
    matrix.indices[1] = matrix.indices[0]
    return matrix


def beyond(matrix):
    matrix.indices[0] = 10**6
    return matrix


def before(matrix):
    matrix.indices[0] = -1
    return matrix


def backwards(matrix):
    matrix.indptr[1] = matrix.indptr[2] + 1
    return matrix


def unfinished(matrix):
    matrix.indptr[-1] -= 1
    return matrix


def scaled(matrix):
    matrix.data[matrix.indptr[0] : matrix.indptr[1]] *= 1.01
    return matrix


def emptied(matrix):
    dense = matrix.toarray()
    dense[:, 0] = 0
    return sparse.csc_array(dense)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *[(name, spoilt(0, value)) for name in ("k_r", "K_ac") for value in (np.nan, -0.1, 0.0)],
        *[(name, spoilt(0, np.inf)) for name in ("k_r", "K_ac")],
        *[
            (name, change)
            for name in ("k_r", "K_ac")
            for change in (swapped, doubled, beyond, before, unfinished)
        ],
        ("K_ac", backwards),
        ("K_ac", scaled),
        ("K_ac", emptied),
        ("K_ac", spoilt(0, 1.5)),
        ("k_r", lambda matrix: sparse.csc_array(matrix.shape)),
    ],
)
def test_a_sparse_matrix_that_gridveil_does_not_write_is_refused(bundle, name, change):
    forged(bundle, name, change)
    with pytest.raises(BundleError, match="Do not use it"):
        load(bundle)


@pytest.mark.parametrize("entries", [0, 1, 2**31 - 1, 2**32 - 1])
def test_a_lie_about_the_number_of_entries_is_refused(bundle, entries):
    data = bytearray((bundle / "model.mat").read_bytes())
    struct.pack_into("<I", data, len(HEADER) + 20, entries)
    (bundle / "model.mat").write_bytes(bytes(data))
    seal(bundle)
    with pytest.raises(BundleError, match="Do not use it"):
        load(bundle)


@pytest.mark.parametrize("kept", [130, 150, 200, -8, -1])
def test_a_file_cut_short_is_refused(bundle, kept):
    data = (bundle / "model.mat").read_bytes()
    (bundle / "model.mat").write_bytes(data[:kept])
    seal(bundle)
    with pytest.raises(BundleError, match="Do not use it"):
        load(bundle)


@pytest.mark.parametrize(
    ("key", "value"),
    [("share_moved", -0.1), ("share_moved", 1.5), ("response_error", "0.1"), ("more", 1)],
)
def test_a_statement_of_another_shape_is_refused(bundle, key, value):
    document = json.loads((bundle / "release.json").read_text())
    document["model"]["compact"][key] = value
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    (bundle / "release.json").write_text(text, encoding="utf-8")
    seal(bundle)
    with pytest.raises(BundleError, match="Do not use it"):
        load(bundle)


def test_a_compact_bundle_must_say_that_it_is(bundle):
    document = json.loads((bundle / "release.json").read_text())
    del document["model"]["compact"]
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    (bundle / "release.json").write_text(text, encoding="utf-8")
    seal(bundle)
    with pytest.raises(BundleError, match="Do not use it"):
        load(bundle)


# --- a large grid ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_grid_of_thousands_of_machines_travels(tmp_path):
    """1600 machines on a torus of 12 800 buses: 170 MB densely."""
    bus = np.arange(12_800).reshape(80, 160)
    edges = np.concatenate(
        [np.stack([bus, np.roll(bus, 1, axis=axis)], axis=-1).reshape(-1, 2) for axis in (0, 1)]
    )
    k = np.random.default_rng(1).uniform(5, 40, len(edges))
    grid = make_grid(
        np.sort(edges), k, range(0, 12_800, 8), m=8, d=2, rate=1, gain=10, loads=np.ones(12_800)
    )
    facts = replace(grid.facts, operating_point=next(iter(OPERATING_POINTS)))
    source = SourceGrid.of(facts, **grid.values)
    release = publish(source, **SETTINGS, sampler=DemoSampler(1), error_bars=False)
    dense = 8 * (len(release.model.k_r) + release.model.K_ac.size)
    assert release.model.compact is not None and dense > compact.COMPACT_ABOVE
    release.save(tmp_path / "bundle")
    assert sum(file.stat().st_size for file in (tmp_path / "bundle").iterdir()) < 0.3 * dense
    assert verify(tmp_path / "bundle").machines == 1600
    whole = replace(release.model, compact=None)
    assert whole.K_ac.shape == load(tmp_path / "bundle").model.K_ac.shape
    assert release.model.compact.response_error < 0.01
