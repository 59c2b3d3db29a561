"""Walks of an ensemble's members: draws of the posterior stay draws of it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduce
from gridveil.dynamics.simulate import simulate
from gridveil.dynamics.swing import SWING
from gridveil.grid.parameters import Bounds
from gridveil.inference.alike import Alike, beliefs_alike
from gridveil.inference.fit import FitSettings, Observation, fit
from gridveil.inference.fit import walk as walks
from gridveil.inference.normal import FURTHEST, Normal, given_common
from gridveil.inference.posterior import Posterior, posterior_mean
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.truth import true_model

SIGMA = 4e-3


def items(y=(5.0, 6.0, 30.0)):
    return Alike(Posterior.of(y=list(y), scale=2.0, lower=1.0, upper=40.0))


def test_coordinates_of_draws_are_standard_normal_and_lead_back():
    belief, random = items(), np.random.default_rng(1)
    drawn = np.log(belief.sample(random, 2000))
    u = np.empty_like(drawn)
    for row, logs in enumerate(drawn):
        law = given_common({"m": belief}, [logs], random)
        u[row] = law.coordinates(logs)
        np.testing.assert_allclose(law.logs(u[row])[0], logs, atol=1e-6)
    for column in u.T:
        assert stats.kstest(column, "norm").pvalue > 1e-3


def test_slopes_of_logarithms_are_those_of_finite_differences():
    law = Normal.of(*items().cells_given(300))
    u, step = np.array([-1.3, 0.2, 0.9]), 1e-6
    slope = (law.logs(u + step)[0] - law.logs(u - step)[0]) / (2 * step)
    np.testing.assert_allclose(law.logs(u)[1], slope, rtol=1e-4)


def test_a_value_on_its_bound_has_finite_coordinates():
    belief, random = items(y=(1.0, 40.0, 7.0)), np.random.default_rng(1)
    logs = np.log([1.0, 40.0, 7.0])
    u = given_common({"m": belief}, [logs], random).coordinates(logs)
    assert (np.abs(u) <= FURTHEST).all()


def star(places, sigma):
    """A release of star5, fitted to a wide record, whose posterior can be sampled by weights."""
    source = open_grid("star5")
    truth, event = true_model(source), Event.uniform(0.5)
    seen = simulate(truth, event, horizon_s=10.0, dt_s=0.05, buses=truth.machines[:places])
    noise = sigma * np.random.default_rng(5).standard_normal(seen.omega.shape)
    record = Observation(
        event, replace(seen, omega=seen.omega + noise), Provenance("simulated", "a test")
    )
    noisy = perturb(
        source,
        epsilon=Fraction(4),
        adjacency=Adjacency("one-asset"),
        bounds=Bounds(),
        ledger=None,
        sampler=DemoSampler(3),
    )
    settings = FitSettings(dt_s=0.05, sigma=sigma)
    found = fit(reduce(posterior_mean(noisy)), [record], settings, Bounds(), noisy)
    assert found.ended is not None
    return found.ended, beliefs_alike(noisy)


def weighted_draws(ended, belief, random):
    """The posterior by importance sampling: draws of the release (·, n), weighted by records."""
    y = np.concatenate([np.log(belief[name].sample(random, 20_000)) for name in SWING], axis=1)
    noise = ended.task.sigma(ended.sampling, ended.sigma)
    r = np.stack([ended.compare(one, ended.sampling) / noise for one in y])
    weight = -0.5 * np.vecdot(r, r)
    weight = np.exp(weight - weight.max())
    return y, weight / weight.sum()


@pytest.mark.slow
@pytest.mark.parametrize("across", [1.0, 1e9], ids=["on the surface", "everywhere"])
def test_draws_of_the_posterior_stay_draws_of_it(across, monkeypatch):
    monkeypatch.setattr(walks, "ACROSS", across)
    count, random = 400, np.random.default_rng(7)
    ended, belief = star(places=1, sigma=SIGMA)
    y, weight = weighted_draws(ended, belief, random)
    effective = 1 / np.sum(weight**2)
    assert effective > 500, "enough draws count"
    before = y[random.choice(len(y), size=count, p=weight)]
    after = walks.walk(ended, belief, before, random)
    assert np.mean(np.abs(after - before).max(axis=1) > 0.05) > 0.6, "they walk"
    every, ended_at = (
        np.concatenate([part, np.log(np.exp(part[:, 8:]).sum(axis=1, keepdims=True))], axis=1)
        for part in (y, after)
    )
    for entry, (expected, found) in enumerate(zip(every.T, ended_at.T, strict=True)):
        mean = weight @ expected
        variance = weight @ (expected - mean) ** 2
        error = np.sqrt(variance * (1 / count + 1 / effective))
        assert abs(found.mean() - mean) < 4 * error, entry
        order = np.argsort(expected)
        low, high = (
            expected[order][np.searchsorted(np.cumsum(weight[order]), share)]
            for share in (0.1, 0.9)
        )
        inside = np.mean((found >= low) & (found <= high))
        assert abs(inside - 0.8) < 4 * np.sqrt(0.16 * (1 / count + 1 / effective)), entry


def test_a_walk_stays_on_the_surface_that_records_fix():
    ended, belief = star(places=1, sigma=1e-6)
    first = ended.minimum.x
    own = walks._Walks(ended, belief, np.random.default_rng(2))
    last = own.end(first)
    assert np.abs(last - first).max() > 1e-3, "it walks"
    assert len(own._held) >= 3
    missed = own._across.T @ own._seen(own._residuals(last)) - own._held
    assert np.abs(missed).max() < walks.NEAR


def test_a_member_without_a_surface_stays_where_it_is(monkeypatch):
    ended, belief = star(places=1, sigma=1e-6)

    def singular(*_):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(walks._Walks, "_slopes", singular)
    members = np.stack([ended.minimum.x, ended.minimum.x + 0.01])
    found = walks.walk(ended, belief, members, np.random.default_rng(1))
    np.testing.assert_array_equal(found, members)
