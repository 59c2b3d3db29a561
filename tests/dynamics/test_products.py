"""Sums of products of small matrices, written in place or not."""

import array_api_strict
import numpy as np
import pytest

from gridveil.dynamics.engine import products

every_library = pytest.mark.parametrize("xp", [np, array_api_strict], ids=["numpy", "strict"])


def drawn(*shapes):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape) for shape in shapes]


@every_library
def test_pairs_add_up_and_may_be_shared_by_all_models(xp):
    a, b, shared, d = drawn((4, 5, 3), (4, 3, 2), (5, 6), (4, 6, 2))
    found = products.sum_of_products(
        *((xp.asarray(x), xp.asarray(y)) for x, y in ((a, b), (shared, d)))
    )
    np.testing.assert_allclose(np.asarray(found), a @ b + shared @ d, rtol=1e-13)


@every_library
@pytest.mark.parametrize("start", [0, 2, 4])
def test_a_product_is_added_to_the_rows_it_is_for(xp, start):
    base, a, b = drawn((4, 6, 2), (4, 2, 3), (4, 3, 2))
    expected = base.copy()
    expected[:, start : start + 2] += a @ b
    found = products.plus_product(*(xp.asarray(part.copy()) for part in (base, a, b)), start)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-13)


@every_library
def test_a_stack_grows_by_its_first_rows_times_a_matrix(xp):
    first, P = drawn((2, 3), (4, 3, 3))
    stack = products.Stack(xp.asarray(first), xp.asarray(P), 5)
    stack.add(2, xp.asarray(P))
    stack.add(1, xp.asarray(P))
    expected = np.broadcast_to(first, (4, 2, 3))
    expected = np.concatenate([expected, expected @ P, (expected @ P)[:, :1]], axis=1)
    np.testing.assert_allclose(np.asarray(stack.V), expected, rtol=1e-13)
