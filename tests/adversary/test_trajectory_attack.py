"""What an attacker gets from public trajectories alone: exact without noise, at the Cramér-Rao
bound with it.
"""

from dataclasses import replace

import numpy as np
import pytest

from gridveil import open_grid, reduce, simulate
from gridveil.adversary.attack.regression import regress
from gridveil.adversary.attack.trajectory import estimate, from_records
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduced_model
from gridveil.foundation.errors import OptionError
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit import Observation
from gridveil.privacy.provenance import Provenance
from gridveil.readers.cases import declared_public
from helpers import PHYSICAL, make_grid, star

ORIGIN = Provenance("simulated", "a test")
UP = Event.uniform(0.2)
SIGMA = 1e-4


def varied_star(omega_b=1.0, gain=0.04):
    """The star with machines that differ and governors that matter or not."""
    edges = [(0, 4), (1, 4), (2, 4), (3, 4)]
    loads = [0.1, 0.3, 0.2, 0.4, 0.5]
    grid = make_grid(
        edges, [4, 10, 16, 10], range(4), m=1, d=1, rate=20, gain=gain, loads=loads, omega_b=omega_b
    )
    return grid._replace(m=np.array([6.0, 9.0, 14.0, 21.0]), d=np.array([3.0, 4.0, 6.0, 9.0]))


def record(
    model, event=UP, *, noise=0.0, seed=0, horizon_s=20, dt_s=0.02, scheme="exact", buses=None
):
    found = simulate(model, event, horizon_s=horizon_s, dt_s=dt_s, scheme=scheme, buses=buses)
    noisy = found.omega + noise * np.random.default_rng(seed).normal(size=found.omega.shape)
    return Observation(event, replace(found, omega=noisy), ORIGIN)


def worst(found, truth, scale=1.0):
    return max(
        np.abs(scale * found.values[name] / getattr(truth, name) - 1).max()
        for name in ("k_r", "m", "d")
    )


@pytest.fixture(scope="module")
def ieee30():
    table = declared_public(open_grid("ieee30"))
    return table.facts, reduce(table)


# --- without noise --------------------------------------------------------------------------------


@pytest.mark.parametrize(("scheme", "dt_s"), [("euler", 0.01), ("exact", 0.02)])
def test_six_locations_give_ieee30_back(ieee30, scheme, dt_s):
    facts, truth = ieee30
    seen = record(truth, horizon_s=30, dt_s=dt_s, scheme=scheme)
    found = estimate(facts, [seen], dt_s=dt_s, scheme=scheme, sigma=1e-12)
    assert worst(found, truth) < 1e-9
    assert found.converged
    assert found.scale is None
    np.testing.assert_allclose(found.u.sum(), 0.2 * facts.loads.sum(), rtol=1e-12)
    np.testing.assert_allclose(found.u[0], truth.to_machines(0.2 * truth.loads), rtol=1e-9)


def test_the_regression_alone_is_exact_for_euler(ieee30):
    facts, truth = ieee30
    seen = record(truth, horizon_s=30, dt_s=0.01, scheme="euler")
    found = regress(facts, [seen], np.array([0.2 * facts.loads.sum()]), dt_s=0.01, scheme="euler")
    np.testing.assert_allclose(found[:27], truth.theta, rtol=1e-9)


@pytest.mark.parametrize("omega_b", [1.0, PHYSICAL])
def test_gaps_steps_and_records_add_up(omega_b):
    grid = varied_star(omega_b)
    first = record(
        grid.reduced,
        Event.load({"5": 0.3}, at_s=1).then(Event.load({"2": -0.2}, at_s=4)),
        horizon_s=8,
    )
    omega = first.trajectory.omega.copy()
    omega[np.random.default_rng(0).random(omega.shape) < 0.2] = np.nan
    first = replace(first, trajectory=replace(first.trajectory, omega=omega))
    second = record(
        grid.reduced, Event.load({"3": 0.1}), horizon_s=6, buses=["4", "5", "3", "2", "1"]
    )
    found = estimate(grid.facts, [first, second], dt_s=0.02, sigma=1e-12)
    assert worst(found, grid.reduced) < 1e-9
    np.testing.assert_allclose(found.u.sum(axis=1), [0.3, -0.2, 0.1], rtol=1e-9)


def test_without_noise_the_governors_give_the_scale_too():
    grid = varied_star(gain=2.0)
    found = estimate(grid.facts, [record(grid.reduced)], dt_s=0.02, sigma=1e-12, total_known=False)
    assert 1 / found.scale.per_load == pytest.approx(0.2 * grid.facts.loads.sum(), rel=1e-8)
    assert not found.scale.free
    assert worst(found, grid.reduced, 1 / found.scale.per_load) < 1e-8


# --- with noise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [1e-6, 1e-5])
def test_fast_swings_with_noise_are_followed_from_their_start(noise):
    """With ω_b = 2π f a search over all samples at once ends in a valley beside, at several times
    the noise.
    """
    grid = varied_star(PHYSICAL)
    found = estimate(grid.facts, [record(grid.reduced, noise=noise)], dt_s=0.02, sigma=noise)
    assert found.converged
    assert found.misfit == pytest.approx(noise, rel=0.05)


def test_a_large_step_of_unknown_size_shows_its_scale_where_governors_are_strong():
    grid = varied_star(gain=25.0)
    seen = record(grid.reduced, Event.uniform(10.0), noise=SIGMA)
    found = estimate(grid.facts, [seen], dt_s=0.02, sigma=SIGMA, total_known=False)
    assert found.converged and not found.scale.free
    assert abs(found.scale.per_load - 1 / 15) < 4 * found.scale.deviation < 0.1 / 15
    assert found.misfit == pytest.approx(SIGMA, rel=0.05)


def test_a_search_that_meets_a_bound_does_not_break_down():
    """A machine without any weight swings by itself, and its equations have no rest to come to."""
    grid = varied_star(gain=100.0)
    found = estimate(grid.facts, [record(grid.reduced, noise=SIGMA)], dt_s=0.02, sigma=SIGMA)
    assert found.misfit == pytest.approx(SIGMA, rel=0.05)


def test_the_bound_is_that_of_finite_differences():
    grid = varied_star()
    truth, facts = grid.reduced, grid.facts
    u = truth.to_machines(0.2 * truth.loads)
    found = estimate(facts, [record(truth)], dt_s=0.02, sigma=SIGMA)

    def omega(theta):
        """ω of a model whose machines' own buses carry the load u, written without the attack's own
        code.
        """
        k_r, m, d, load = np.split(theta, [6, 10, 14])
        model = replace(truth, k_r=k_r, m=m, d=d)
        event = Event.load(dict(zip(model.machines, load, strict=True)))
        return simulate(model, event, horizon_s=20, dt_s=0.02).omega.ravel()

    theta = np.concatenate([truth.k_r, truth.m, truth.d, u])
    step = 1e-5 * theta
    J = np.stack(
        [(omega(theta + h) - omega(theta - h)) / (2 * h.sum()) for h in np.diag(step)], axis=1
    )
    null = np.linalg.svd(np.concatenate([np.zeros(14), np.ones(4)])[None])[2][
        1:
    ].T  # what leaves Σu as it is
    spread = SIGMA * np.linalg.pinv(J @ null)
    bound = np.linalg.norm(null @ spread, axis=1)
    shown = np.concatenate([found.deviation[name] for name in ("k_r", "m", "d", "u")])
    np.testing.assert_allclose(shown, bound, rtol=1e-5)


def ratios(facts, truth, draws, **settings):
    """RMS error of each item over noise draws, in units of the Cramér-Rao bound."""
    clean = estimate(facts, [record(truth, **settings)], dt_s=0.02, sigma=SIGMA)
    errors = {name: [] for name in ("k_r", "m", "d")}
    for seed in range(draws):
        found = estimate(
            facts, [record(truth, noise=SIGMA, seed=seed, **settings)], dt_s=0.02, sigma=SIGMA
        )
        for name, rows in errors.items():
            rows.append((found.values[name] - clean.values[name]) / clean.deviation[name])
    return {name: np.sqrt(np.mean(np.square(rows), axis=0)) for name, rows in errors.items()}


def test_noise_costs_no_more_than_it_must():
    grid = varied_star()
    for name, ratio in ratios(grid.facts, grid.reduced, 12, event=UP).items():
        assert 0.5 < np.sqrt(np.mean(ratio**2)) < 1.5, name


@pytest.mark.slow
def test_six_locations_of_ieee30_reach_the_cramer_rao_bound(ieee30):
    facts, truth = ieee30
    clean = estimate(facts, [record(truth, horizon_s=30)], dt_s=0.02, sigma=SIGMA)
    relative = {
        name: np.median(clean.deviation[name] / getattr(truth, name)) for name in ("k_r", "m", "d")
    }
    assert (relative["k_r"], relative["m"], relative["d"]) == pytest.approx(
        (0.155, 0.0266, 0.0328), rel=0.02
    )
    for name, ratio in ratios(facts, truth, 30, horizon_s=30).items():
        assert np.sqrt(np.mean(ratio**2)) < 1.5, name
        assert ratio.max() < 1.5, name


def test_without_the_total_load_one_factor_stays_free_and_is_named(ieee30):
    facts, truth = ieee30
    seen = record(truth, noise=SIGMA, horizon_s=30)
    found = estimate(facts, [seen], dt_s=0.02, sigma=SIGMA, total_known=False)
    assert found.scale.free
    assert found.scale.name == "a common factor of k, m, d, u; only G ω fixes it"
    true = 1 / (0.2 * facts.loads.sum())
    assert found.scale.deviation > 50 * true
    assert (
        found.scale.per_load - 3 * found.scale.deviation
        < true
        < found.scale.per_load + 3 * found.scale.deviation
    )
    # Ratios are as well known as before: the two largest weights, and the inertias of two machines.
    assert found.values["k_r"][0] / found.values["k_r"][5] == pytest.approx(
        truth.k_r[0] / truth.k_r[5], rel=0.2
    )
    assert found.values["m"][0] / found.values["m"][2] == pytest.approx(1, rel=0.2)
    assert found.u.sum() == pytest.approx(1)


# --- few locations --------------------------------------------------------------------------------


def test_a_machine_that_was_not_recorded_is_named():
    grid = star()
    with pytest.raises(OptionError, match=r"lack 1 of 4 machines' buses.*from_records"):
        estimate(grid.facts, [record(grid.reduced, buses=["1", "2", "3", "5"])], sigma=SIGMA)


def test_steps_that_cancel_leave_the_scale_open():
    grid = varied_star()
    seen = record(grid.reduced, Event.load({"1": 0.1, "2": -0.1}))
    with pytest.raises(OptionError, match="only G ω fixes it"):
        estimate(grid.facts, [seen], dt_s=0.02, sigma=SIGMA)


def test_records_of_all_machines_bring_the_network_back_within_the_bounds():
    grid = varied_star()
    found = from_records(
        grid.facts, [record(grid.reduced)], Bounds(), dt_s=0.02, scheme="exact", sigma=1e-6
    )
    np.testing.assert_allclose(found.model.m, grid.m, rtol=0.02)
    np.testing.assert_allclose(found.values["k"], grid.k, rtol=0.02)


@pytest.mark.slow
def test_one_location_gives_sums_and_leaves_much_of_each_machine(ieee30):
    """Of IEEE-30 both sums; of a table whose machines differ the dampings' sum, and not its
    machines.
    """
    facts, truth = ieee30
    random = np.random.default_rng(0)
    k, m, d = (
        np.exp(random.uniform(0, np.log(end), size)) for end, size in ((100, 41), (40, 6), (40, 6))
    )
    settings = {"dt_s": 0.02, "scheme": "exact", "sigma": SIGMA}
    alike, apart = (
        from_records(
            facts, [record(model, noise=SIGMA, horizon_s=30, buses=["1"])], Bounds(), **settings
        ).model
        for model in (truth, reduced_model(facts, {"k": k, "m": m, "d": d}))
    )
    assert (alike.m.sum(), alike.d.sum()) == (
        pytest.approx(60, rel=0.2),
        pytest.approx(30, rel=0.01),
    )
    assert apart.d.sum() == pytest.approx(d.sum(), rel=0.05)
    prior = np.log(40) / np.sqrt(12)
    for values, true in ((apart.m, m), (apart.d, d)):
        assert 0.3 * prior < np.sqrt(np.mean(np.log(values / true) ** 2)) < 1.5 * prior
