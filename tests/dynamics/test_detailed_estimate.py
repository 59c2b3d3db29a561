"""Shrinking of noisy items: against hand figures, and whether it helps."""

import numpy as np
import pytest

from gridveil.dynamics.detailed.estimate import toward_mean


def test_the_share_is_that_of_the_formula():
    values = np.exp([0.0, 1.0, 2.0])  # s² = 1
    assert np.log(toward_mean(values, 0.6)) == pytest.approx([1 - 0.64, 1.0, 1 + 0.64])
    assert toward_mean(values, 1.5) == pytest.approx(np.full(3, np.e))
    assert toward_mean(values, 0.0) == pytest.approx(values)
    assert (toward_mean(values[:2], 1.0) == values[:2]).all()


@pytest.mark.parametrize(("spread", "gain"), [(0.0, 0.4), (0.2, 0.9), (2.0, 1.02)])
def test_it_helps_where_machines_are_alike_and_does_no_harm_elsewhere(spread, gain):
    random = np.random.default_rng(0)
    truth = random.normal(0, spread, (2000, 10))
    noisy = truth + random.laplace(0, 0.2 / np.sqrt(2), truth.shape)
    better = np.array([np.log(toward_mean(np.exp(row), 0.2)) for row in noisy])
    assert np.mean((better - truth) ** 2) <= gain * np.mean((noisy - truth) ** 2)
