"""Slopes of records by the network itself: against the chain over reduced weights, and against
differences.
"""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit import direct
from gridveil.inference.fit.direct import Direct, LinearResiduals
from gridveil.inference.fit.least_squares import (
    Gaussian,
    _Alone,
    _expand,
    _Priors,
    _promised,
    _step,
)
from gridveil.inference.fit.problem import Observation
from gridveil.inference.fit.task import ReducedResiduals, Task
from gridveil.inference.fit.two_stage import two_stage
from gridveil.inference.posterior import Posterior
from gridveil.privacy.provenance import Provenance
from helpers import PAPER, ieee30_like, random_grid

MEASURED = Provenance("measured", "a record", "2016-01-06", "https://example.org", "a report")


def task_of(scheme, *, damped=True, seed=3):
    """Two records of three places, of which some have no machine, after steps at several buses."""
    grid = random_grid(14, 5, 6, seed, omega_b=PAPER)
    if damped:
        grid = grid.with_facts(load_damping=np.linspace(0, 2, 14))
    machines = {grid.facts.buses[i] for i in grid.facts.machines}
    others = [bus for bus in grid.facts.buses if bus not in machines]
    first = Event.load({others[0]: 0.3, grid.facts.buses[grid.facts.machines[1]]: -0.1}, at_s=0.1)
    second = Event.load({others[3]: 0.2}).then(Event.load({others[4]: 0.2}, at_s=0.3))
    places = [others[1], grid.facts.buses[grid.facts.machines[0]], others[2]]
    observed = [
        Observation(
            event, simulate(grid.reduced, event, horizon_s=2, dt_s=0.05, buses=places), MEASURED
        )
        for event in (first, second)
    ]
    y = np.log(np.concatenate([grid.k, grid.m, grid.d]))
    y = y + 0.1 * np.random.default_rng(1).standard_normal(len(y))
    return Task.of(grid.facts, observed, Bounds(), dt_s=0.05, scheme=scheme), y


@pytest.mark.parametrize("scheme", ["exact", "trapezoidal"])
@pytest.mark.parametrize("damped", [False, True])
def test_slopes_are_those_of_the_chain_over_reduced_weights(scheme, damped):
    task, y = task_of(scheme, damped=damped)
    sampling = task.predictor.sampling()
    reduced, found = ReducedResiduals(task, sampling, np.ones(len(sampling.observed))), Direct(task)
    x, chain = task.coordinates.slopes(y)
    np.testing.assert_allclose(found.compare(y, sampling), reduced.at(x), atol=1e-13)
    slopes, expected = found.slopes(y, sampling), reduced.slopes(x) @ chain
    np.testing.assert_allclose(slopes, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("damped", [False, True])
@pytest.mark.parametrize(("thin", "close"), [(1, 2e-3), (2, 2e-2)])
def test_a_convolution_gives_the_exact_slopes(monkeypatch, damped, thin, close):
    """To the error of its integration, which falls with the step."""
    task, y = task_of("exact", damped=damped)
    sampling, found = task.predictor.sampling(thin), Direct(task)
    values, expected = found.compare(y, sampling), found.slopes(y, sampling)
    monkeypatch.setattr(direct, "MODAL", 0)
    monkeypatch.setattr(direct, "LONGEST_S", 0.05 * thin)
    monkeypatch.setattr(direct, "BLOCK", 2000)  # several blocks
    np.testing.assert_allclose(
        found.compare(y, sampling), values, atol=close * np.abs(values).max()
    )
    slopes = found.slopes(y, sampling)
    np.testing.assert_allclose(slopes, expected, atol=close * np.abs(expected).max())


# --- the fit --------------------------------------------------------------------------------------


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_few_rows_give_the_step_that_the_whole_curvature_gives(damping):
    random, n, rows = np.random.default_rng(1), 12, 5
    mean, spread = random.normal(size=n), random.uniform(0.1, 2, n)
    x = mean + spread * random.normal(size=n)
    prior = Gaussian(mean, np.diag(spread**-2.0), x - 1, x + 1)
    prior.lower[3], prior.upper[4] = x[3], x[4]  # two that a step may push out
    slopes, r = random.normal(size=(rows, n)), random.normal(size=rows)
    priors, which, weight = _Priors.of([prior]), np.arange(1), 0.7
    here = _expand(
        _Alone(LinearResiduals(slopes, r, x)), priors, which, x[None], np.ones(1), r[None], weight
    )
    assert here.matrix.shape == (1, rows, rows)
    curvature = weight * slopes.T @ slopes + prior.precision
    dense = here._replace(matrix=curvature[None])
    step = _step(dense, priors, np.array([damping]), weight)
    found = _step(here, priors, np.array([damping]), weight)
    np.testing.assert_allclose(found, step, rtol=1e-9, atol=1e-12)
    free, whole = step[0] != 0, curvature + damping * prior.precision
    expected = -np.linalg.solve(whole[np.ix_(free, free)], here.gradient[0, free])
    assert not free.all()
    np.testing.assert_allclose(step[0, free], expected, rtol=1e-9)
    promised = -(here.gradient[0] @ step[0] + 0.5 * step[0] @ curvature @ step[0])
    assert _promised(here, priors, step, weight)[0] == pytest.approx(promised, rel=1e-12)


def found_by(kind, monkeypatch):
    """Fit a record of two places of a grid like IEEE-30's: in two stages, by the network in its
    model's eigenvectors, or by convolutions.
    """
    stages, network = (
        import_module(f"gridveil.inference.fit.{name}") for name in ("two_stage", "network_fit")
    )
    if kind != "two-stage":
        monkeypatch.setattr(stages, "MANY", 0)
    if kind == "convolution":
        for module in (direct, network):
            monkeypatch.setattr(module, "MODAL", 0)
        monkeypatch.setattr(network, "CLOSE_OF_MANY", 1e-3)
        monkeypatch.setattr(network, "STEPS_OF_MANY", 60)
    grid, random, belief = ieee30_like(PAPER), np.random.default_rng(0), {}
    for name, own in grid.values.items():
        noise = random.laplace(0, 0.1 * own)
        belief[name] = Posterior.of(own + noise, 0.1 * own, own.min() / 5, own.max() * 5)
    event = Event.uniform(0.2)
    record = simulate(grid.reduced, event, horizon_s=10, dt_s=0.05, buses=["1", "13"])
    noisy = record.omega + 1e-5 * random.standard_normal(record.omega.shape)
    observed = [Observation(event, replace(record, omega=noisy), MEASURED)]
    settings = {"dt_s": 0.05, "scheme": "exact", "sigma": 1e-5}
    return two_stage(grid.facts, observed, belief, Bounds(), **settings)


def test_the_network_is_found_that_two_stages_find(monkeypatch):
    with monkeypatch.context() as patch:
        expected = found_by("two-stage", patch)
    for kind, close in (("eigenvectors", 0.01), ("convolution", 0.1)):
        with monkeypatch.context() as patch:
            found = found_by(kind, patch)
        assert found.cost == pytest.approx(expected.cost, abs=close)
        np.testing.assert_allclose(found.y, expected.y, atol=0.05)
        known, usual = found.identifiability, expected.identifiability
        assert abs(known.by_data - usual.by_data) <= 1
        assert len(known.information) == len(found.y)
        assert (found.covariance is None) == (kind == "convolution")
