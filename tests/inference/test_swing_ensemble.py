"""Members of swing releases: draws of the posterior, with and without records."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from gridveil.dynamics.ensemble import quantiles
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.grid.parameters import Bounds
from gridveil.inference.alike import (
    LONE,
    Alike,
    half_normal,
    split,
    student,
    students,
    uneven_shares,
)
from gridveil.inference.ensemble import MEMBERS, OF_FEW_PLACES, members_for, tables
from gridveil.inference.fit import FitSettings, Observation
from gridveil.inference.posterior import Posterior, seed_of
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, aggregates, topology
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.truth import true_model
from gridveil.workflow.publish import publish

EVENT = Event.uniform(0.2)


def draw(allocation=ITEMS, seed=1, grid="ieee30"):
    return perturb(
        open_grid(grid),
        epsilon=Fraction(1),
        adjacency=Adjacency("one-asset"),
        bounds=Bounds(),
        ledger=None,
        sampler=DemoSampler(seed),
        allocation=allocation,
    )


def released(observed=(), seed=1, **settings):
    return publish(
        open_grid("ieee30"),
        observed,
        epsilon=Fraction(1),
        adjacency=Adjacency("one-asset"),
        bounds=Bounds(),
        ledger=None,
        sampler=DemoSampler(seed),
        **settings,
    )


def test_students_law_with_two_degrees_is_scipys():
    t = np.linspace(-20, 20, 81)
    np.testing.assert_allclose(student(t), stats.t(2).cdf(t), rtol=1e-9, atol=1e-12)
    share = np.linspace(0.001, 0.999, 81)
    np.testing.assert_allclose(students(share), stats.t(2).ppf(share), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(half_normal(share), stats.halfnorm(scale=0.7).ppf(share))


def test_items_that_may_be_alike_have_the_posterior_that_importance_sampling_finds():
    belief = Posterior.of(y=[5.0, 6.0, 30.0], scale=[2.0, 2.0, 2.0], lower=1.0, upper=40.0)
    alike = Alike(belief)
    random = np.random.default_rng(3)
    count = 400_000
    mu = np.log(40) * random.random((count, 1))
    tau = stats.halfnorm(scale=0.7).ppf(random.random((count, 1)))
    law = stats.t(2)
    low, high = (law.cdf((np.log(end) - mu) / tau) for end in (1.0, 40.0))
    logs = mu + tau * law.ppf(low + (high - low) * random.random((count, 3)))
    x = np.exp(logs)
    weight = np.exp(-np.abs(x - [5.0, 6.0, 30.0]) / 2.0).prod(axis=1)
    weight /= weight.sum()
    np.testing.assert_allclose(alike.mean, weight @ x, rtol=0.02)
    np.testing.assert_allclose(alike.log_mean, weight @ logs, rtol=0.02)
    variance = weight @ (x - weight @ x) ** 2
    np.testing.assert_allclose(alike.variance, variance, rtol=0.1)
    drawn = alike.sample(np.random.default_rng(4), 20_000)
    np.testing.assert_allclose(drawn.mean(axis=0), alike.mean, rtol=0.02)
    np.testing.assert_allclose(np.log(drawn).var(axis=0), alike.log_variance, rtol=0.08)
    assert (drawn >= 1.0).all()
    assert (drawn <= 40.0).all()


def test_alike_values_of_much_noise_lie_nearer_to_each_other_than_on_their_own():
    belief = Posterior.of(y=[6.0, 14.0, 9.0, 11.0], scale=4.0, lower=1.0, upper=40.0)
    assert np.ptp(Alike(belief).log_mean) < 0.8 * np.ptp(belief.log_mean)


def test_a_split_sum_keeps_its_sum_and_its_bounds():
    total = np.array([30.0, 60.0, 200.0])
    parts = split(total, np.full(6, 1 / 6), (1.0, 40.0), np.random.default_rng(5))
    np.testing.assert_allclose(parts.sum(axis=1), total)
    assert (parts[:2] >= 1.0).all()
    assert (parts[:2] <= 40.0).all()


@pytest.mark.parametrize("shares", [np.full(5, 0.2), np.array([0.1, 0.1, 0.2, 0.2, 0.4])])
def test_machines_of_a_split_differ_as_tables_of_the_prior_with_this_sum_do(shares):
    """Tables drawn with SciPy's laws and no bounds, weighted by how rare those within them are."""
    n, count, box, law = 5, 200_000, np.log([1.0, 100.0]), stats.t(2)
    found = np.concatenate(
        [split(np.full(50, 150.0), shares, (1, 100), np.random.default_rng(s)) for s in range(80)]
    )
    random = np.random.default_rng(6)
    mu, tau = random.uniform(*box, count), stats.halfnorm(scale=0.7).rvs(count, random_state=random)
    own = mu[:, None] + np.log(n * shares)
    lone, stands_out = random.integers(n, size=count), random.random(count) < LONE
    out = np.arange(n) == np.where(stands_out, lone, n)[:, None]
    logs = own + tau[:, None] * law.rvs(own.shape, random_state=random)
    logs += out * random.uniform(0, np.ptp(box), (count, 1))
    sums = np.log(np.exp(np.minimum(logs, 10)).sum(axis=1) / 150)
    kept = (np.abs(sums) < 0.05) & (logs >= box[0]).all(axis=1) & (logs <= box[1]).all(axis=1)
    logs, own, out, width = logs[kept], own[kept], out[kept], tau[kept][:, None]
    inside = np.diff([law.cdf((end - own) / width) for end in box], axis=0)[0]
    further = [own + np.ptp(box) * (part + 0.5) / 50 for part in range(50)]
    of_lone = np.mean(
        [np.diff([law.cdf((e - at) / width) for e in box], axis=0)[0] for at in further], axis=0
    )
    weight = 1 / np.where(out, of_lone, inside).prod(axis=1)
    levels = [0.1, 0.3, 0.5, 0.7, 0.9]
    for look in (lambda x: x.max(axis=1), lambda x: np.sort(x)[:, -2], lambda x: x[:, 0]):
        values = look(np.exp(logs))
        order = np.argsort(values)
        places = np.searchsorted(np.cumsum(weight[order]) / weight.sum(), levels)
        np.testing.assert_allclose(
            np.quantile(look(found), levels), values[order][places], rtol=0.1
        )


def test_every_release_has_a_seed_of_its_own_that_follows_from_what_was_drawn():
    one, again, other = draw(seed=1), draw(seed=1), draw(seed=2)
    assert seed_of(one) == seed_of(again) != seed_of(other)
    # of no network, nothing but the sums of its machines
    first, second = draw(topology(), seed=1), draw(topology(), seed=2)
    assert seed_of(first) != seed_of(second)


@pytest.mark.parametrize("allocation", [ITEMS, aggregates(), topology()])
def test_tables_have_every_entry_and_sums_that_the_draw_leaves_possible(allocation):
    noisy = draw(allocation)
    found = tables(noisy, 200, np.random.default_rng(6))
    assert {name: values.shape for name, values in found.items()} == {
        name: (200, size) for name, size in noisy.facts.sizes.items()
    }
    assert all((values > 0).all() for values in found.values())
    if allocation.of("m").takes == "sum":
        low, high = quantiles(found["m"].sum(axis=1), 0.98)
        assert low < noisy.values["m"][0] < high


def test_the_ensemble_is_the_same_in_every_run_and_has_the_models_ports():
    one, other = released(), released()
    assert one.ensemble.members == MEMBERS
    assert one.ensemble.ports == one.model.ports
    for name, values in one.ensemble.arrays.items():
        assert (values == other.ensemble.arrays[name]).all()


def test_topology_mode_has_members_without_a_network():
    release = released(allocation=topology())
    assert release.ensemble.ports == ("G1", "G2", "G3", "G4", "G5", "G6", "L1")
    assert release.simulate("load:L1=+0.1", horizon_s=5.0, dt_s=0.1).band is not None


def test_merged_loads_merge_their_ensemble():
    release = released(ports=[np.arange(9), np.arange(9, 18)])
    assert release.ensemble.ports == release.model.ports
    shares = release.ensemble.swing["K_ac"].sum(axis=1)
    np.testing.assert_allclose(shares, 1, atol=1e-5)


def test_large_grids_have_fewer_members_and_the_largest_none():
    assert (members_for(6, 18), members_for(100, 150), members_for(101, 5)) == (49, 29, 0)


def record(places, sigma=1e-5):
    truth = true_model(open_grid("ieee30"))
    trajectory = simulate(truth, EVENT, dt_s=0.05, buses=truth.machines[:places])
    noise = np.random.default_rng(7).standard_normal(trajectory.omega.shape)
    noisy = replace(trajectory, omega=trajectory.omega + sigma * noise)
    return [Observation(EVENT, noisy, Provenance("simulated", "a test"))]


def test_members_of_a_fit_explain_the_record_far_better_than_those_of_the_release():
    settings = FitSettings(dt_s=0.05)
    release = released(record(6), allocation=ITEMS, settings=settings)
    plain = released(allocation=ITEMS)
    widths = []
    for one in (release, plain):
        band = one.simulate("uniform:+10%", horizon_s=20.0, dt_s=0.1).band
        widths.append(float((band.upper - band.lower).max()))
    assert "noise of the records" in release.ensemble.counts
    assert widths[0] < 0.05 * widths[1]


@pytest.mark.slow
def test_bands_of_releases_without_a_record_hold_the_truth_about_as_often_as_they_say():
    truth = true_model(open_grid("ieee30"))
    held = []
    for seed in range(60):
        release = released(seed=seed)
        answer = release.simulate("load:G1=+0.2,G4=+0.3", horizon_s=20.0, dt_s=0.05)
        load = {truth.machines[0]: 0.2, truth.machines[3]: 0.3}
        true = simulate(truth, Event.load(load), horizon_s=20.0, dt_s=0.05)
        inside = (answer.band.lower <= true.omega) & (true.omega <= answer.band.upper)
        held.append(inside[1:].mean())
    assert 0.65 < np.mean(held) < 0.97


@pytest.mark.slow
def test_members_of_few_places_are_searched_for_one_by_one():
    settings = FitSettings(dt_s=0.05)
    release = released(record(1), allocation=ITEMS, settings=settings)
    assert release.ensemble.members == OF_FEW_PLACES


def test_no_share_vanishes():
    """Student's law alone lets one fall below what a bundle may hold, in some thousand splits."""
    random = np.random.default_rng(0)
    parts = np.array([uneven_shares(6, random) for _ in range(20_000)])
    assert np.allclose(parts.sum(axis=1), 1.0)
    assert (parts.min(axis=1) >= 0.999 * np.exp(-12.0) * parts.max(axis=1)).all()
