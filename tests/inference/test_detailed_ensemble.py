"""Members of a detailed release's ensemble: draws with the right moments, cases that stand."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from detailed_releases import demo, detailed
from gridveil.dynamics.detailed.entries import entries_of
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.projection import is_stable, project
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.dynamics.ensemble import quantiles
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.grid.parameters import Bounds
from gridveil.inference.detailed_draws import ALIKE, alike_draws, entry_draws, scatter
from gridveil.inference.detailed_ensemble import detailed_members
from gridveil.inference.fit.detailed import factor_prior, fit_detailed
from gridveil.inference.fit.detailed_members import MemberFits, Mended, prediction_of
from gridveil.inference.fit.detailed_residuals import DetailedResiduals
from gridveil.inference.fit.least_squares import minimise
from gridveil.inference.plausible import plausible_case, plausible_loads, spread_of
from gridveil.inference.posterior import beliefs
from gridveil.privacy.adjacency import Adjacency
from gridveil.readers.detailed import locked
from gridveil.readers.dynamics import Detailed as DeclaredLoads
from gridveil.vault.perturb import PlannedDraw, perturb_planned
from gridveil.vault.sampler import DemoSampler
from gridveil.workflow.detailed import allocate, estimates
from small_detailed import PORTS, SETTINGS, moved, recorded, small_case


@pytest.fixture(scope="module")
def noisy():
    """What a release of Kundur's two areas draws."""
    return drawn_from(detailed(), 4)


def drawn_from(source, seed):
    adjacency = Adjacency("one-asset-relative", family=source.facts.family)
    bounds = Bounds(family=source.facts.family)
    plan = PlannedDraw(source, Fraction(1), adjacency, bounds, allocate(source.facts, adjacency))
    return perturb_planned(plan, ledger=None, sampler=DemoSampler(seed=seed), lineage=None)


# --- draws of entries -----------------------------------------------------------------------------


def test_items_that_may_be_alike_have_the_moments_of_their_posterior():
    """The oracle weighs draws of the prior by the likelihood of what was released."""
    logs, sigma, random = np.array([0.0, 0.3, 0.9]), 0.25, np.random.default_rng(7)
    mu = random.uniform(-3, 4, (400_000, 1))
    x = mu + ALIKE * np.abs(random.standard_normal(mu.shape)) * random.standard_normal((len(mu), 3))
    weight = np.exp(-0.5 * np.sum(((x - logs) / sigma) ** 2, axis=1))
    weight /= weight.sum()
    mean = weight @ x
    spread = np.sqrt(weight @ (x - mean) ** 2)
    sums = np.sqrt(weight @ (x.sum(axis=1) - mean.sum()) ** 2)
    drawn = alike_draws(logs, sigma, np.random.default_rng(1), 40_000)
    assert drawn.mean(axis=0) == pytest.approx(mean, abs=0.02)
    assert drawn.std(axis=0) == pytest.approx(spread, rel=0.06)
    assert drawn.sum(axis=1).std() == pytest.approx(sums, rel=0.06)


def test_items_with_hardly_any_noise_stay_as_they_are():
    logs = np.array([1.0, 2.0, 4.0])
    drawn = alike_draws(logs, 1e-6, np.random.default_rng(1), 50)
    assert drawn == pytest.approx(np.tile(logs, (50, 1)), abs=1e-5)


def test_items_that_scatter_no_more_than_their_noise_are_drawn_nearer_to_each_other():
    drawn = alike_draws(np.zeros(10), 0.3, np.random.default_rng(1), 4000)
    assert drawn.std(axis=1).mean() < 0.2
    assert drawn.mean(axis=1).std() == pytest.approx(0.3 / np.sqrt(10), rel=0.2)


def test_a_mean_that_was_drawn_is_kept_by_entries_that_scatter_around_it(noisy):
    belief = beliefs(noisy)["gov_gain"]
    entries = entry_draws(noisy, np.random.default_rng(2), 3000)["gov_gain"]
    mean = np.log(entries).mean(axis=1)
    assert entries.shape == (3000, 4)
    assert mean.mean() == pytest.approx(belief.log_mean[0], abs=0.01)
    assert mean.std() == pytest.approx(np.sqrt(belief.log_variance[0]), rel=0.06)
    assert np.log(entries).std(axis=1).mean() > 0.03


def test_scatter_has_a_mean_of_zero_in_every_draw():
    assert scatter("gov_gain", np.random.default_rng(1), 20, 7).mean(axis=1) == pytest.approx(
        np.zeros(20)
    )


def test_lines_are_drawn_from_their_own_posterior(noisy):
    belief = beliefs(noisy)["x"]
    logs = np.log(entry_draws(noisy, np.random.default_rng(2), 3000)["x"])
    assert logs.mean(axis=0) == pytest.approx(belief.log_mean, abs=0.01)
    assert logs.std(axis=0) == pytest.approx(np.sqrt(belief.log_variance), rel=0.08)


# --- what was not drawn ---------------------------------------------------------------------------


def test_a_plausible_case_without_reach_is_the_public_one(noisy):
    public = noisy.facts.public
    near = plausible_case(public, np.random.default_rng(1), 0.0)
    for own, typical in zip(near.devices, public.devices, strict=True):
        for name, values in typical.values.items():
            assert own.values[name] == pytest.approx(values, rel=1e-15), (own.model, name)
    assert near.branches.series == pytest.approx(public.branches.series)
    assert near.branches.ratio == pytest.approx(public.branches.ratio)
    assert near.units.set_point == pytest.approx(public.units.set_point)


def test_plausible_cases_keep_zeros_signs_order_and_what_entries_set(noisy):
    public, random = noisy.facts.public, np.random.default_rng(3)
    for _ in range(40):
        case = plausible_case(public, random)
        for own, typical in zip(case.devices, public.devices, strict=True):
            for name, values in typical.values.items():
                assert (np.sign(own.values[name]) == np.sign(values)).all(), name
        machine = case.devices[0].values
        assert (machine["xl"] < machine["xd2"]).all()
        assert (machine["xd2"] == machine["xq2"]).all()
        assert (machine["xd2"] < machine["xd1"]).all()
        assert (machine["xd1"] <= machine["xq1"]).all()
        assert (machine["xq1"] < machine["xq"]).all()
        assert (machine["xq"] < machine["xd"]).all()
        for name in ("M", "x_machine", "gov_gain", "gov_servo", "gov_lag"):
            entries, usual = entries_of(case)[name][0], entries_of(public)[name][0]
            assert entries == pytest.approx(usual), name


def test_constants_are_spread_by_their_guide_ranges(noisy):
    public, random = noisy.facts.public, np.random.default_rng(3)
    shift, spread = spread_of(DEVICES["GENROU"].parameter("Td10"))
    nine_in_ten = norm.ppf(0.95) * np.sqrt(2) * spread  # from the range's middle to its ends
    assert 2 * nine_in_ten == pytest.approx(np.log(10.0 / 3.0), rel=1e-3)
    assert shift == pytest.approx(0.5 * np.log(np.sqrt(3.0 * 10.0) / 8.0))
    logs = np.array(
        [np.log(plausible_case(public, random).devices[0].values["Td10"]) for _ in range(600)]
    ) - np.log(8.0)
    assert logs.mean() == pytest.approx(shift, abs=0.03)
    assert logs.std(axis=0).mean() == pytest.approx(np.sqrt(2) * spread, rel=0.1)
    assert logs.mean(axis=1).std() == pytest.approx(np.sqrt(1.25) * spread, rel=0.1)


def test_loads_of_which_nothing_is_known_are_anything_between_power_and_impedance(noisy):
    random = np.random.default_rng(3)
    cases = [plausible_loads(noisy.facts.public, random) for _ in range(400)]
    shares = np.array([case.loads.impedance[:, 0] for case in cases])
    assert (shares.std(axis=1) == 0).all()
    assert 0 <= shares.min() < 0.05
    assert 0.95 < shares.max() <= 1
    assert shares.mean() == pytest.approx(0.5, abs=0.06)


# --- members --------------------------------------------------------------------------------------


def released(noisy):
    own = project(noisy.facts.public, estimates(noisy))
    return own.case, own.equilibrium


def test_members_stand_differ_and_follow_from_what_was_drawn_alone(noisy):
    models = detailed_members(noisy, released(noisy), members=5)
    again = detailed_members(noisy, released(noisy), members=5)
    assert all(is_stable(model) for model in models)
    for model, other in zip(models, again, strict=True):
        assert (model.A == other.A).all()
    assert {model.ports for model in models} == {models[0].ports}
    assert len({model.inertia.sum() for model in models}) == 5


def test_a_detailed_release_carries_its_ensemble_and_gives_bands():
    release = demo(epsilon=Fraction(2), error_bars=True)
    assert release.ensemble is not None
    assert release.ensemble.members >= 20
    assert release.ensemble.ports == release.model.ports
    assert "noise of the release" in release.ensemble.counts
    shown = release.simulate("load:L1=+100MW@1s")
    assert shown.band is not None
    inside = (shown.band.lower <= shown.omega) & (shown.omega <= shown.band.upper)
    assert inside.mean() > 0.9


@pytest.mark.slow
def test_bands_hold_the_truth_about_as_often_as_they_say(noisy):
    """Truths are drawn from what is believed before a release; each has a release of its own."""
    public, inside = noisy.facts.public, []
    values = {name: entries for name, (entries, _) in entries_of(public).items() if len(entries)}
    event = Event.load({public.buses[public.loads.bus[0]]: 0.5})

    def answer(model):
        shown = simulate(model, event, horizon_s=10.0, dt_s=0.1, buses=model.machines)
        return shown.omega[5::5]

    for seed in range(14):
        true = project(plausible_case(public, np.random.default_rng([9, seed])), values)
        drawn = drawn_from(locked(true.case, DeclaredLoads(zip="Z")), seed)
        members = detailed_members(drawn, released(drawn))
        low, high = quantiles(np.stack([answer(model) for model in members]))
        truth = answer(linearise(true.case, true.equilibrium, true.case.loads.bus))
        inside.append(((low <= truth) & (truth <= high)).mean())
    assert 0.6 < np.mean(inside) < 0.97


# --- members that are fitted ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def fits():
    """The small case, fitted to a record of another one."""
    case, record = small_case(), recorded(moved(small_case(0.8, 0.5), inertia=0.1), sigma=1e-4)
    fitted = fit_detailed(case, PORTS, [record], SETTINGS)
    return case, fitted, MemberFits.of(case, PORTS, [record], SETTINGS, fitted)


def test_mended_slopes_lead_to_the_minimum_of_exact_ones(fits):
    case, _, shared = fits
    prediction = prediction_of(
        moved(case, inertia=-0.15, network=0.1), PORTS, shared.factors, shared.observed, SETTINGS
    )
    residuals = DetailedResiduals(prediction, shared.sigma, shared.shapes)
    prior = factor_prior(shared.factors, 4, 1.0)
    exact = minimise(residuals, prior, shared.start, cap=0.5, iterations=30, tolerance=1e-3)
    mended = minimise(
        Mended(residuals, shared.slopes), prior, shared.start, cap=0.5, iterations=8, tolerance=0.5
    )
    start = 0.5 * float(np.sum(residuals.at(shared.start) ** 2))
    assert mended.cost - exact.cost < 3.0 + 0.01 * (start - exact.cost)


def test_fitted_members_meet_their_own_records_and_differ_in_what_the_record_does_not_tell(fits):
    case, fitted, shared = fits
    inertia = []
    for number in range(6):
        own = moved(case, inertia=0.2 * (number - 2.5) / 2.5)
        found, _ = shared.fitted(own, np.random.default_rng([1, number]))
        inertia.append(np.log(found.devices[0].values["M"].sum()))
    released = np.log(fitted.case.devices[0].values["M"].sum())
    # cases 40 % apart come together where the record says what inertia is
    assert np.ptp(inertia) < 0.2
    assert np.mean(inertia) == pytest.approx(released, abs=0.08)


def test_noise_of_a_member_is_its_own_and_follows_from_its_seed(fits):
    case, _, shared = fits
    one, again, other = (
        shared.fitted(case, np.random.default_rng(seed))[0].devices[0].values["M"]
        for seed in (1, 1, 2)
    )
    assert (one == again).all()
    assert (one != other).any()
