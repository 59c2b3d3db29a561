from itertools import combinations

import numpy as np
import pytest
from hypothesis import given

from gridveil.dynamics import kron
from gridveil.dynamics.kron import edge_weights, kron_reduce, laplacian, reduce_each
from gridveil.dynamics.models import GridPorts
from gridveil.grid.facts import complete_edges
from helpers import few_examples, grids, random_grid, star


def reduce_grid(grid):
    return kron_reduce(
        laplacian(grid.facts.edges, grid.k, len(grid.facts.buses)), grid.facts.machines
    )


@few_examples
@given(grids())
def test_laplacian_is_incidence_times_weights_times_incidence_transposed(grid):
    n, edges = len(grid.facts.buses), grid.facts.edges
    C = np.zeros((n, len(edges)))
    C[edges[:, 0], np.arange(len(edges))] = 1
    C[edges[:, 1], np.arange(len(edges))] = -1
    np.testing.assert_allclose(
        laplacian(edges, grid.k, n), C @ np.diag(grid.k) @ C.T, rtol=1e-13, atol=1e-12
    )


def test_laplacian_adds_parallel_edges():
    twice = laplacian(np.array([[0, 1], [1, 0]]), np.array([2.0, 3.0]), 2)
    np.testing.assert_array_equal(twice, [[5, -5], [-5, 5]])


def test_star_reduces_to_the_papers_weights_in_the_order_of_pairs():
    L_red, K_ac = reduce_grid(star())
    np.testing.assert_allclose(edge_weights(L_red), [1, 1.6, 1, 4, 2.5, 4], rtol=1e-14)
    np.testing.assert_allclose(K_ac[:, 0], [0.1, 0.25, 0.4, 0.25], rtol=1e-14)
    np.testing.assert_array_equal(complete_edges(4), list(combinations(range(4), 2)))


def test_closed_form_gives_the_stars_weights_back():
    k = -reduce_grid(star())[0]
    others = {0: (1, 2), 1: (0, 2), 2: (0, 1), 3: (0, 1)}
    y = np.array([np.sqrt(k[i, j] * k[i, n] / k[j, n]) for i, (j, n) in others.items()])
    np.testing.assert_allclose(y * y.sum(), star().k, rtol=1e-14)


@few_examples
@given(grids())
def test_shares_are_not_negative_and_sum_to_one(grid):
    K_ac = reduce_grid(grid)[1]
    assert (K_ac >= -1e-14).all()
    np.testing.assert_allclose(K_ac.sum(axis=0), 1, rtol=1e-12)


@few_examples
@given(grids())
def test_reduced_laplacian_is_symmetric_positive_semidefinite_with_zero_row_sums(grid):
    L_red = reduce_grid(grid)[0]
    scale = np.abs(L_red).max() + grid.k.max()
    np.testing.assert_array_equal(L_red, L_red.T)
    np.testing.assert_allclose(L_red.sum(axis=1), 0, atol=1e-13 * scale)
    assert np.linalg.eigvalsh(L_red).min() > -1e-13 * scale
    assert (edge_weights(L_red) >= -1e-14 * scale).all()


@few_examples
@given(grids())
def test_reduction_in_two_stages_equals_reduction_at_once(grid):
    L = laplacian(grid.facts.edges, grid.k, len(grid.facts.buses))
    halfway = np.union1d(grid.facts.machines, grid.facts.interior[::2])
    staged = kron_reduce(kron_reduce(L, halfway)[0], np.searchsorted(halfway, grid.facts.machines))[
        0
    ]
    np.testing.assert_allclose(
        staged, kron_reduce(L, grid.facts.machines)[0], atol=1e-12 * grid.k.sum()
    )


def test_nothing_to_eliminate_leaves_the_laplacian():
    grid = random_grid(buses=4, machines=4, extra_edges=2, seed=1)
    L = laplacian(grid.facts.edges, grid.k, 4)
    L_red, K_ac = kron_reduce(L, np.arange(4))
    np.testing.assert_array_equal(L_red, L)
    assert K_ac.shape == (4, 0)


@few_examples
@given(grids())
def test_reduced_model_puts_machines_first_and_takes_their_facts_along(grid):
    facts, model = grid.facts, grid.reduced
    L_red, K_ac = reduce_grid(grid)
    order = [*facts.machines, *facts.interior]
    assert model.ports == tuple(facts.buses[i] for i in order)
    assert model.machines == grid.full.machines
    np.testing.assert_array_equal(model.loads, facts.loads[order])
    np.testing.assert_allclose(
        model.k_r, edge_weights(L_red), rtol=1e-12, atol=1e-12 * np.abs(L_red).max()
    )
    np.testing.assert_allclose(model.K_ac, K_ac, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(model.m, grid.m)
    np.testing.assert_array_equal(model.d, grid.d)


@few_examples
@given(grids())
def test_a_batch_of_laplacians_reduces_as_each_does_alone(grid):
    edges, n, keep = grid.facts.edges, len(grid.facts.buses), grid.facts.machines
    k = grid.k * np.random.default_rng(n).uniform(0.5, 2, (2, 3, len(grid.k)))
    L = laplacian(edges, k, n)
    L_red, K_ac = kron_reduce(L, keep)
    for draw in np.ndindex(2, 3):
        np.testing.assert_array_equal(L[draw], laplacian(edges, k[draw], n))
        alone = kron_reduce(L[draw], keep)
        np.testing.assert_allclose(L_red[draw], alone[0], rtol=0, atol=1e-13 * k.sum())
        np.testing.assert_allclose(K_ac[draw], alone[1], rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(edge_weights(L_red)[draw], edge_weights(L_red[draw]))


@pytest.mark.parametrize("dense_up_to", [300, 10])
def test_many_networks_reduce_alike_whichever_way_their_size_chooses(monkeypatch, dense_up_to):
    monkeypatch.setattr(kron, "DENSE_UP_TO", dense_up_to)
    monkeypatch.setattr(kron.kernels, "DENSE_UP_TO", dense_up_to)
    grid = random_grid(buses=60, machines=5, extra_edges=30, seed=2)
    random = np.random.default_rng(1)
    k, loads = random.uniform(1, 50, (4, len(grid.k))), random.normal(size=(3, 60))
    k_r, felt = reduce_each(grid.facts, k, loads)
    for weights, reduced, load in zip(k, k_r, felt, strict=True):
        L_red, K_ac = kron_reduce(laplacian(grid.facts.edges, weights, 60), grid.facts.machines)
        np.testing.assert_allclose(reduced, edge_weights(L_red), rtol=1e-9, atol=1e-10)
        expected = loads[:, grid.facts.machines] + loads[:, grid.facts.interior] @ K_ac.T
        np.testing.assert_allclose(load, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("public", [True, False])
def test_the_places_of_a_reduced_model_are_known_without_a_reduction(public):
    grid = star().with_facts(loads_are_public=public)
    places = GridPorts.of(grid.facts)
    assert places.ports == grid.reduced.ports
    np.testing.assert_array_equal(places.loads, grid.reduced.loads)
    assert [grid.facts.buses[bus] for bus in places.order] == list(places.ports)


def test_damping_of_interior_loads_is_shared_out_over_the_machines():
    plain = star()
    damped = plain.with_facts(load_damping=np.array([0.1, 0.2, 0.3, 0.4, 2.0]))
    np.testing.assert_allclose(
        damped.reduced.d,
        plain.d + [0.1, 0.2, 0.3, 0.4] + 2.0 * plain.reduced.K_ac[:, 0],
        rtol=1e-14,
    )
    load = np.ones(5)
    assert damped.reduced.settling(load) == pytest.approx(damped.full.settling(load), rel=1e-14)
