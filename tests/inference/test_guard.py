"""The guard on fits: its checks one by one, and good and bad records from end to end."""

import json
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import guard as benchmark
from bundle_helpers import edit_document
from gridveil import load, open_grid, publish, verify
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.foundation.errors import BundleError, InputError
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit import EstimatedEvent, FitSettings, Observation, Unknown, is_flat
from gridveil.inference.fit.guard import (
    Doubt,
    SwingFit,
    Verdict,
    held_out_findings,
    posterior_findings,
    residual_findings,
)
from gridveil.inference.fit.misfit import PlaceMisfit, Rms
from gridveil.inference.fit.noise import noise_of, sensor_noise
from gridveil.inference.fit.other_events import gained, likeliest
from gridveil.inference.posterior import Posterior
from gridveil.inference.records import check_size, measure
from gridveil.inference.records.declared import read_declaration
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.provenance import Provenance
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.truth import true_model
from measured_helpers import write_measured

ORIGIN = Provenance("simulated", "a test")
EVENT = Event.load({"5": 0.3}, at_s=1.0)
DT = 0.05
RANDOM = np.random.default_rng(4)


def grades(findings):
    return [finding.grade for finding in findings]


# --- noise ----------------------------------------------------------------------------------------


def test_independent_residuals_count_each_and_equal_ones_as_one_a_window():
    white = 2e-5 * RANDOM.standard_normal((1, 4000, 1))
    seen = np.ones(white.shape, dtype=bool)
    found = noise_of(white, seen, 0.05)
    assert found.rms == pytest.approx(2e-5, rel=0.05)
    assert found.together == pytest.approx(1.0, abs=0.4)
    alike = noise_of(np.full(white.shape, 3e-5), seen, 0.05)
    assert alike.together == pytest.approx(20)  # samples of a second
    assert alike.effective == pytest.approx(3e-5 * np.sqrt(20))


def test_only_samples_that_were_seen_go_together():
    seen = np.zeros((1, 4000, 1), dtype=bool)
    seen[:, ::10] = True
    found = noise_of(np.where(seen, 1e-4, 0.0), seen, 0.01)
    assert found.rms == pytest.approx(1e-4)
    assert found.together == pytest.approx(10)


def test_a_place_without_samples_has_no_noise():
    found = noise_of(np.zeros((1, 3, 1)), np.zeros((1, 3, 1), dtype=bool), 0.05)
    assert (found.rms, found.together) == (0.0, 1.0)


# --- checks ---------------------------------------------------------------------------------------


def test_the_worst_finding_is_the_grade_and_comes_first():
    assert Verdict.of([]) == Verdict("good")
    both = Verdict.of([Doubt("doubtful", "a"), Doubt("discarded", "b")])
    assert both == Verdict("discarded", ("b", "a"))
    assert both.discarded and "unfitted model is published" in both.in_words()
    assert "with doubts" in Verdict("doubtful", ("a",)).in_words()


@pytest.mark.parametrize(
    ("left", "expected"), [(0.01, []), (0.2, ["doubtful"]), (0.5, ["discarded", "doubtful"])]
)
def test_what_is_left_of_a_record_is_judged_by_its_size(left, expected):
    size, peak = np.array([1e-3, 1e-3]), np.array([2e-3, 2e-3])
    found = residual_findings(np.array([1e-5, left * 1e-3]), size, peak, 60.0)
    # the noise of the worst place hides its peak only where it is the only place
    assert grades(found) == expected[:1]
    one = residual_findings(np.array([left * 1e-3]), size[:1], peak[:1], 60.0)
    assert grades(one) == expected


def test_a_sensors_noise_is_no_part_of_a_record_that_a_model_could_explain():
    size, peak, left = np.array([1e-3]), np.array([2e-3]), np.array([1.5e-4])
    assert grades(residual_findings(left, size, peak, 60.0)) == ["doubtful"]
    assert grades(residual_findings(left, size, peak, 60.0, noise=np.array([1.4e-4]))) == []
    assert grades(residual_findings(left, size, peak, 60.0, noise=np.array([0.5e-4]))) == [
        "doubtful"
    ]


@pytest.mark.parametrize(
    ("second", "unfitted", "control", "expected"),
    [
        (2.0, 0.5, 0.5, []),  # no worse than the noise
        (9.0, 8.0, 99.0, ["discarded"]),
        (9.0, 30.0, 5.0, ["doubtful"]),
        (9.0, 30.0, 20.0, []),
    ],
)
def test_held_out_a_fit_must_beat_the_unfitted_release(second, unfitted, control, expected):
    values = (1e-5 * value for value in (second, 1.0, unfitted, control))
    assert grades(held_out_findings(*values, 60.0, "standing still", "doubtful")) == expected


def test_a_fit_as_far_as_the_posterior_draws_is_good_and_a_common_factor_beyond_is_not():
    drawn = RANDOM.standard_normal((2000, 12))
    whole = [("k", np.arange(12) >= 0)]
    for row in drawn[:20]:
        if np.sum(row**2) < np.quantile(np.sum(drawn**2, axis=1), 0.98):
            assert not list(posterior_findings(row, drawn, whole, np.ones(12)))
    far = list(posterior_findings(np.full(12, 3.0), drawn, whole, np.ones(12)))
    assert grades(far) == ["discarded", "discarded"]
    assert "k at 20 times what was released, 10 deviations" in far[1].words


def test_convergence_matters_only_where_the_mismatch_still_moves():
    assert is_flat(np.array([9.0, 1.0, 1.0, 1.0, 1.0, 1.0]))
    assert not is_flat(np.array([9.0, 1.4, 1.3, 1.2, 1.1, 1.0]))
    assert not is_flat(np.array([1.0, 1.0]))


def test_of_a_discarded_fit_the_unfitted_release_is_the_release():
    place = PlaceMisfit(1, 1, Rms(20.0, 1.0, 5.0, 2.0, None), Rms(5.0, 3.0, 4.0, None, None))
    found = place.unfitted()
    assert (found.whole.release, found.held_out.release) == (5.0, 4.0)
    assert replace(place, held_out=None).unfitted().held_out is None


def judged(**found):
    """The guard of a fit of the star, of which no more is known than what it found."""
    facts = open_grid("star5").facts
    sizes = {"k": 4, "m": 4, "d": 4}
    belief = {name: Posterior.of(np.full(n, 5.0), 1.0, 1.0, 40.0) for name, n in sizes.items()}
    observed = [record(unknown=Unknown(split=True, size=(0.05, 2.0)))]
    model = true_model(open_grid("star5"))
    found = SimpleNamespace(**found)
    return SwingFit(facts, observed, found, belief, np.zeros(12), model, None, DT)


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ([0.1, 0.1, 0.2, 0.1], []),
        ([0.9, -0.5, 0.05, 0.05], []),
        ([2.0, -1.5, 0.0, 0.0], ["discarded"]),  # on a grid with 1 p.u. of load
        ([0.7, -0.5, 0.0, 0.0], ["discarded"]),  # of 0.2 p.u. in all
        ([0.05 * share for share in (0.25, 0.25, 0.25, 0.25)], ["discarded"]),  # on its bound
    ],
)
def test_an_event_that_no_grid_has_is_discarded(split, expected):
    split = np.array(split)
    event = EstimatedEvent(0, float(split.sum()), 0.01, split, np.full(4, 0.01), 1.0, 0.0)
    assert grades(judged(events=[event])._events()) == expected


def test_values_on_their_bounds_are_doubtful_group_by_group():
    prior = SimpleNamespace(lower=np.zeros(12), upper=np.full(12, 3.0))
    y = np.ones(12)
    y[4:6], y[8] = 0.0, 3.0
    (found,) = judged(y=y, prior=prior)._bounds()
    assert found == Doubt("doubtful", "2 of 4 values of m lie on their public bounds")


def test_a_fastest_mode_of_another_order_is_doubtful():
    model = true_model(open_grid("star5"))
    stiff = model.with_theta(np.where(np.arange(len(model.theta)) < 6, 30, 1) * model.theta)
    assert not list(judged(model=model)._modes())
    assert grades(judged(model=stiff)._modes()) == ["doubtful"]


# --- fits of the star -----------------------------------------------------------------------------


def record(factor=1.0, noise=1e-5, told=EVENT, unknown=None, sigma=None, seed=0):
    found = simulate(true_model(open_grid("star5")), EVENT, horizon_s=15, dt_s=DT)
    random = np.random.default_rng(seed)
    omega = factor * found.omega + noise * random.standard_normal(found.omega.shape)
    unknown = unknown or Unknown()
    return Observation(told, replace(found, omega=omega), ORIGIN, unknown, sigma)


def released(*records, seed=1, **settings):
    return publish(
        open_grid("star5"),
        records,
        epsilon=Fraction(1),
        adjacency=Adjacency(),
        bounds=Bounds(),
        ledger=None,
        settings=FitSettings(dt_s=DT, **settings),
        sampler=DemoSampler(seed),
    )


def test_good_records_of_the_star_are_good():
    for seed in range(1, 7):
        fitted = released(record(seed=seed), seed=seed).fitted
        assert fitted.verdict == Verdict("good")
        assert fitted.sigma_mhz == pytest.approx(0.6)  # 1e-5 of 60 Hz


def test_noise_is_estimated_and_never_less_than_declared():
    loud = released(record(noise=2e-4)).fitted
    assert loud.verdict.grade == "good" and loud.sigma_mhz == pytest.approx(12, rel=0.3)
    assert released(record(noise=2e-4, sigma=1e-5)).fitted.sigma_mhz == loud.sigma_mhz
    declared = released(record(noise=1e-5, sigma=1e-3)).fitted
    assert declared.sigma_mhz == pytest.approx(60)


@pytest.mark.parametrize("factor", [0.5, 2.0, 1 / (2 * np.pi)])
def test_a_record_of_another_size_is_discarded_and_the_unfitted_model_published(factor):
    found = released(record(factor=factor))
    assert found.fitted.verdict.discarded
    assert "contradicts the release" in " ".join(found.fitted.verdict.reasons)
    assert found.fitted.mismatch_after == found.fitted.mismatch_before
    assert found.events == () and found.guarantee.conditional_on  # the choice saw the record
    # the unfitted model is that of the release alone; its seed is the same
    plain = released(record())
    assert plain.fitted.mismatch_after < plain.fitted.mismatch_before
    other = released(record(factor=3 * factor))
    if other.fitted.verdict.discarded:
        assert np.array_equal(other.model.m, found.model.m)


def test_a_step_declared_at_another_bus_is_discarded_by_the_likelihood_of_its_own():
    told = Event.load({"1": 0.3}, at_s=1.0)
    for seed in (1, 2):
        found = released(record(told=told, seed=seed), seed=seed).fitted.verdict
        assert found.discarded


def test_a_likelihood_counts_independent_samples_once():
    seen = record()  # 301 samples at each place
    places = len(seen.trajectory.buses)
    before, after = np.full((1, places), 3e-5), np.full((1, places), 1e-5)
    together = np.full((1, places), 4.0)
    gain = gained([seen], DT, before, after, together)
    assert gain == pytest.approx(places * 301 / 4 * np.log(3))
    seen.trajectory.omega[10:20, 0] = np.nan  # a gap, and a clock of ten steps a sample
    fine = gained([seen], DT / 10, before, after, together)
    assert fine == pytest.approx((places * 301 - 10) / 4 * np.log(3))


@pytest.mark.parametrize("rate_hz", [100, 50, 30, 25, 10])
def test_noise_is_told_from_a_response_at_any_rate(rate_hz):
    at = np.unique(np.rint(np.arange(0, 20, 1 / rate_hz) / 0.01).astype(int))
    time, random = 0.01 * at, np.random.default_rng(rate_hz)
    omega = 1e-3 * np.exp(-time / 3) + 1e-5 * random.standard_normal(len(at))
    on_clock = np.full(at[-1] + 1, np.nan)
    on_clock[at] = omega
    assert sensor_noise(on_clock) == pytest.approx(1e-5, rel=0.2)
    assert sensor_noise(omega, time) == pytest.approx(sensor_noise(on_clock))


def test_a_wrong_bus_is_found_whatever_the_rate_of_the_record():
    told = Event.load({"1": 0.3}, at_s=1.0)
    seen = record(told=told, seed=1)
    time_s, omega = seen.trajectory.time_s[::2], seen.trajectory.omega[::2]
    seen = replace(seen, trajectory=replace(seen.trajectory, time_s=time_s, omega=omega))
    assert released(seen).fitted.verdict.discarded


def test_the_likeliest_other_buses_are_those_whose_answers_are_most_alike():
    model = true_model(open_grid("star5"))
    told = Event.load({"1": 0.3}, at_s=1.0)

    def answer(one):
        return simulate(model, one.event, horizon_s=15, dt_s=DT).omega

    tried = likeliest(record(told=told), model.ports, answer)
    assert len(tried) == 2 and tried[0][0] < tried[1][0]
    assert tried[0][1].event == EVENT


@pytest.mark.slow
def test_an_event_whose_size_ends_on_its_bound_is_discarded():
    guess = Event.load(dict.fromkeys(("1", "2", "3", "4"), 0.001), at_s=1.0)
    unknown = Unknown(split=True, size=(0.001, 0.02))
    verdict = released(record(told=guess, unknown=unknown)).fitted.verdict
    assert verdict.discarded
    assert any("end of what was declared possible" in reason for reason in verdict.reasons)


def test_methods_without_a_noise_model_have_no_verdict():
    for method in ("l-bfgs-b", "projected-gradient"):
        fitted = released(record(), method=method, iterations=3).fitted
        assert (fitted.verdict, fitted.sigma_mhz) == (None, None)


# --- bundles --------------------------------------------------------------------------------------


def test_a_bundle_carries_the_verdict_and_one_without_it_still_loads(tmp_path):
    bundle = tmp_path / "bundle"
    saved = released(record(factor=0.5))
    saved.save(bundle)
    assert load(bundle).fitted.verdict == saved.fitted.verdict
    assert verify(bundle).verdict == saved.fitted.verdict
    text = (bundle / "README.md").read_text(encoding="utf-8")
    assert "**Discarded: the fit was discarded, and the unfitted model is published.**" in text
    assert saved.fitted.verdict.reasons[0] in text
    document = json.loads((bundle / "release.json").read_text())["fit"]
    assert document["verdict"]["grade"] == "discarded"
    known = replace(saved.fitted, verdict=None, sigma_mhz=None)
    before = replace(saved, fitted=known, ensemble=None)
    before.save(tmp_path / "before")
    document = json.loads((tmp_path / "before/release.json").read_text())["fit"]
    assert not {"verdict", "sigma_mhz"} & document.keys()  # as an earlier gridveil wrote it
    assert load(tmp_path / "before").fitted == before.fitted
    assert verify(tmp_path / "before").verdict is None


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ({"grade": "good", "reasons": ["none"]}, "reasons for a good fit"),
        ({"grade": "doubtful", "reasons": []}, "reasons for a good fit, or none for another"),
        ({"grade": "discarded", "reasons": ["a"]}, "discards a fit that its mismatch says"),
        ({"grade": "fine", "reasons": []}, "does not follow schema"),
    ],
)
def test_a_verdict_that_contradicts_its_bundle_is_refused(verdict, words, tmp_path):
    bundle = tmp_path / "bundle"
    released(record()).save(bundle)
    edit_document(bundle, "fit", "verdict", value=verdict)
    with pytest.raises(BundleError, match=words):
        load(bundle)


# --- the failures of before -----------------------------------------------------------------------


def test_a_record_in_hz_declared_as_mhz_is_refused_before_the_charge(tmp_path):
    source = open_grid("ieee30")
    found = simulate(true_model(source), Event.load({"7": 0.3}, at_s=1.0), dt_s=0.02)
    rows = 60 * found.omega[:, :2]  # deviations in Hz
    path = write_measured(
        tmp_path,
        found.time_s,
        rows,
        unit="mHz",
        values="deviation",
        offset="none",
        event="unknown@1s",
        event_size="0.05:2",
        locations={"north": "1", "south": "2"},
    )
    measured = measure(read_declaration(path), source.facts, dt_s=0.02)
    with pytest.raises(InputError, match="largest deviation is 0") as refused:
        check_size(measured, source.facts, Bounds())
    assert "If it is in Hz" in refused.value.remedy


@pytest.mark.slow
def test_a_record_of_another_grid_no_longer_moves_a_release():
    draw = benchmark.Draw("ieee30", False, "another grid", Fraction(1), 0, 3, None)
    found = benchmark.judged(draw)
    assert found.grade == "discarded" and found.published == found.unfitted


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["good", "another bus", "size halved", "size doubled", "a ramp"])
def test_the_guard_tells_good_records_of_ieee30_from_bad_ones(kind):
    for seed in range(2):
        found = benchmark.judged(benchmark.Draw("ieee30", False, kind, Fraction(1), seed, 6, None))
        assert (found.grade == "good") == (kind == "good"), found
        assert found.published <= 1.1 * found.unfitted
