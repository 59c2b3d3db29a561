"""Slopes of records by the network itself: against the chain over reduced weights, and against
differences.
"""

from dataclasses import replace
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest

from gridveil import open_grid, publish
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.grid.parameters import Bounds
from gridveil.inference import fit as fits
from gridveil.inference.alike import Alike
from gridveil.inference.fit import FitSettings, direct
from gridveil.inference.fit.direct import Direct, LinearResiduals
from gridveil.inference.fit.guard import SwingFit
from gridveil.inference.fit.least_squares import (
    Gaussian,
    _Alone,
    _expand,
    _Priors,
    _promised,
    _step,
)
from gridveil.inference.fit.network_fit import everything
from gridveil.inference.fit.problem import Observation
from gridveil.inference.fit.search import densest
from gridveil.inference.fit.task import ReducedResiduals, Task
from gridveil.inference.fit.two_stage import two_stage
from gridveil.inference.posterior import Posterior
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.provenance import Provenance
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.truth import true_model
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


def as_of_many_machines(monkeypatch):
    """Fit any grid as one whose eigenvectors cost too much."""
    for name in ("direct", "network_fit", "search"):
        monkeypatch.setattr(import_module(f"gridveil.inference.fit.{name}"), "MODAL", 0)
    monkeypatch.setattr(fits, "MODAL", 0)
    monkeypatch.setattr(import_module("gridveil.inference.fit.two_stage"), "MANY", 0)


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
        as_of_many_machines(monkeypatch)
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


# --- many machines --------------------------------------------------------------------------------


def test_samples_are_looked_at_where_a_record_has_them():
    """30 Hz on a clock of 10 ms: every eighth step, as a mere count would have it, has a quarter
    of what every tenth has.
    """
    grid, event = random_grid(14, 5, 6, 3), Event.uniform(0.2)
    shown = simulate(grid.reduced, event, horizon_s=35, dt_s=0.01, buses=["1"])
    at = np.rint(np.arange(0, 35, 1 / 30) / 0.01).astype(int)
    thinned = replace(shown, time_s=shown.time_s[at], omega=shown.omega[at])
    task = Task.of(
        grid.facts, [Observation(event, thinned, MEASURED)], Bounds(), dt_s=0.01, scheme="exact",
        reduced=False,
    )  # fmt: skip
    whole, eighth = densest(task, 400), task.predictor.sampling(8)
    assert (whole.stride, len(whole.observed)) == (10, 350)
    assert len(eighth.observed) == 88
    early = densest(task, 400, until=200)
    assert early.stride == 1 and len(early.observed) == 61  # all of them
    assert len(densest(task, 5).observed) <= 5
    assert len(everything(task).observed) == len(at)  # of one place, rows are few


@pytest.mark.parametrize(("factor", "grade"), [(1.0, "good"), (0.5, "discarded")])
def test_the_guard_compares_a_fit_of_many_machines_with_draws_of_its_own_prior(
    monkeypatch, factor, grade
):
    as_of_many_machines(monkeypatch)
    asked, beliefs = [], []
    monkeypatch.setattr(
        fits, "with_own_noise", lambda *a, old=fits.with_own_noise: asked.append(a) or old(*a)
    )
    monkeypatch.setattr(fits, "SwingFit", lambda *a: beliefs.append(a[3]) or SwingFit(*a))
    grid, event = open_grid("star5"), Event.load({"5": 0.3}, at_s=1.0)
    record = simulate(true_model(grid), event, horizon_s=15, dt_s=0.05)
    observed = Observation(
        event, replace(record, omega=factor * record.omega), Provenance("simulated", "a test")
    )
    release = publish(
        grid,
        [observed],
        epsilon=Fraction(1),
        adjacency=Adjacency(),
        bounds=Bounds(),
        ledger=None,
        settings=FitSettings(dt_s=0.05),
        sampler=DemoSampler(1),
    )
    assert release.fitted.verdict.grade == grade
    assert all(isinstance(own, Alike) for own in beliefs[0].values())
    assert len(asked) == 1  # a second search would be the first again
