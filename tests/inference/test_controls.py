"""Controls of a detailed fit: what records tell without any release, and how near each model is."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from bundle_helpers import edit_document
from detailed_releases import demo, detailed
from gridveil import load, verify
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.projection import project
from gridveil.dynamics.detailed.typical import public_case
from gridveil.dynamics.events import Event, Step
from gridveil.dynamics.simulate import simulate
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.errors import BundleError, InputError
from gridveil.inference.fit import controls as controls_module
from gridveil.inference.fit.controls import FrequencyResponse, controls_of, fitted_response
from gridveil.inference.fit.detailed import fit_detailed
from gridveil.inference.fit.misfit import mismatches
from gridveil.inference.fit.problem import Observation
from gridveil.privacy.provenance import Provenance
from small_detailed import DT, ORIGIN, PORTS, SETTINGS, moved, recorded, small_case

PUBLIC = public_case(small_case())
QUICK = replace(SETTINGS, rounds=1, iterations=2)
TIME = np.arange(1001) * 0.02
RESPONSE = FrequencyResponse(gain=20.0, inertia=8.0, damping=1.0, fraction=0.3, time_s=2.0)
MODELS = ("release", "unfitted", "public_values", "frequency_response")


# --- the frequency response -----------------------------------------------------------------------


def test_a_frequency_response_settles_at_its_gain_and_falls_by_its_inertia():
    step = RESPONSE.step(3001, 0.02)
    assert step[-1] == pytest.approx(-1 / 21, rel=1e-6)
    # −t/M + (D + K F) t²/(2 M²) + O(t³)
    assert step[1] == pytest.approx(-0.02 / 8 + 7 * 0.02**2 / 128, rel=1e-3)


def test_a_fit_finds_the_response_behind_records_with_gaps_and_several_steps():
    events = (
        Event.load({"5": 0.1}),
        Event((Step(1.0, {"5": 0.2, "6": -0.1}), Step(6.0, {}, trips={"1": 0.3}))),
    )
    records = []
    for number, event in enumerate(events):
        blank = Trajectory(TIME, np.zeros((len(TIME), 2)), ("1", "2"), 60.0, np.nan)
        record = Observation(event, blank, Provenance("simulated", "a test"))
        (omega,) = RESPONSE.answers([record], 0.02)
        noisy = omega + 1e-5 * np.random.default_rng(number).standard_normal(omega.shape)
        noisy[300:340, 1] = np.nan
        records.append(replace(record, trajectory=replace(blank, omega=noisy)))
    own = RESPONSE.step(1001, 0.02)
    fitted = fitted_response(records, 0.02).step(1001, 0.02)
    assert np.abs(fitted - own).max() < 1e-3 * np.abs(own).max()
    later = RESPONSE.answers(records, 0.02)[1][:, 0]  # a trip is its power, and steps add up
    assert later[400] == pytest.approx(0.1 * own[350] + 0.3 * own[100], rel=1e-9)


def test_power_that_is_not_told_leaves_no_response_to_fit():
    record = replace(recorded(small_case()), event=Event.trip({"G2": None}))
    with pytest.raises(ValueError, match="not told"):
        fitted_response([record], DT)


# --- beside a release -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared():
    """A release that is a little off, its fit, the record, and the controls."""
    released = moved(small_case(), inertia=-0.2, governor_gain=0.3)
    record = recorded(small_case(), buses=("G3", "G1"))
    record.trajectory.omega[100:120, 1] = np.nan
    controls = controls_of(PUBLIC, [record], QUICK)
    fitted = fit_detailed(released, PORTS, [record], SETTINGS)
    return released, record, controls, fitted, controls.beside(released, fitted)


def test_figures_are_root_mean_squares_at_each_place(compared):
    released, record, _, fitted, places = compared
    omega, hz = record.trajectory.omega, record.trajectory.frequency_hz
    clock = {"horizon_s": 12.0, "dt_s": DT, "buses": ("G3", "G1")}
    models = {"release": fitted.model, "unfitted": linearise(released, solve(released), PORTS)}
    assert [(place.record, place.place) for place in places] == [(1, 1), (1, 2)]
    for name, model in models.items():
        off = 1000 * hz * (simulate(model, record.event, **clock).omega - omega)
        own = [getattr(place.whole, name) for place in places]
        assert own == pytest.approx(np.sqrt(np.nanmean(off**2, axis=0)), rel=1e-6)
    assert [place.whole.seconds for place in places] == pytest.approx([301 * DT, 281 * DT])


def test_the_mismatch_is_that_of_all_places(compared):
    *_, fitted, places = compared
    before, after = mismatches(places, 60.0)
    assert after == pytest.approx(fitted.mismatch_after, rel=1e-6)
    # loads of the release are half constant impedance, where the fit begins
    assert before == pytest.approx(fitted.mismatch_before, rel=1e-6)


def test_a_release_that_is_right_beats_its_controls(compared):
    for place in compared[-1]:
        assert place.whole.release < 1.2e-5 * 60e3  # the record's own noise
        assert place.whole.release < place.whole.unfitted
        assert place.whole.release < place.whole.frequency_response
        assert place.held_out.release < place.held_out.unfitted


def test_the_held_out_part_is_not_seen_by_the_fits_that_it_judges(compared):
    released, record, controls, fitted, _ = compared
    first = len(controls.early[0].trajectory.time_s)
    assert first == 1 + round((12.0 - 0.25 * (12.0 - 5.0)) / DT)
    omega = record.trajectory.omega.copy()
    omega[first:] += 1e-3
    other = replace(record, trajectory=replace(record.trajectory, omega=omega))
    again = controls_of(PUBLIC, [other], QUICK)
    for name in ("public_values", "frequency_response"):
        whole, late = getattr(controls, name), getattr(again, name)
        np.testing.assert_array_equal(whole[1], late[1])
        assert np.abs(whole[0][0] - late[0][0]).max() > 1e-5
    before, after = (each.beside(released, fitted)[0].held_out for each in (controls, again))
    assert before.release < 5.0
    assert after.release == pytest.approx(60.0, abs=5.0)  # 1e-3 p.u., which no fit has seen


def test_a_control_that_fails_fails_no_release(compared, monkeypatch):
    released, record, _, fitted, places = compared

    def fails(*_):
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(controls_module, "public_fit", fails)
    monkeypatch.setattr(controls_module, "fit_detailed", fails)
    again = controls_of(PUBLIC, [record], QUICK).beside(released, fitted)
    for old, new in zip(places, again, strict=True):
        assert (new.whole.public_values, new.held_out.public_values) == (None, None)
        assert new.held_out.release is None
        assert new.whole == replace(old.whole, public_values=None)


def test_a_short_record_has_no_held_out_part():
    record = recorded(small_case(), Event.load({"L1": 0.4}, at_s=11.0))
    controls = controls_of(PUBLIC, [record], QUICK)
    assert controls.early is None
    assert controls.public_values[1] is controls.frequency_response[1] is None


def test_a_record_off_the_clock_is_refused_before_a_draw():
    record = recorded(small_case())
    late = replace(record.trajectory, time_s=record.trajectory.time_s + 0.013)
    with pytest.raises(InputError, match="do not fall on steps"):
        controls_of(PUBLIC, [replace(record, trajectory=late)], SETTINGS)


# --- in a bundle ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A fitted demo of kundur, and its record."""
    facts = detailed().facts
    case = project(facts.public, {}).case
    model = linearise(case, solve(case), np.unique(case.loads.bus))
    event = Event.load({facts.buses[case.loads.bus[0]]: 0.5})
    trajectory = simulate(model, event, horizon_s=6.0, dt_s=0.02, buses=facts.units[:2])
    quick = replace(QUICK, dt_s=0.02)
    release = demo(observed=[Observation(event, trajectory, ORIGIN)], settings=quick)
    path = tmp_path_factory.mktemp("fitted") / "bundle"
    release.save(path)
    return release, path


def test_a_fitted_bundle_shows_its_controls_and_verifies(bundle):
    release, path = bundle
    assert verify(path).demo
    assert load(path).fitted == release.fitted
    stated = json.loads((path / "release.json").read_text())["fit"]["misfit"]
    assert [(place["record"], place["place"]) for place in stated] == [(1, 1), (1, 2)]
    for place in stated:
        assert all(place[part][name] >= 0 for part in ("whole", "held_out") for name in MODELS)
    assert "control: public values" in (path / "README.md").read_text()


@pytest.mark.parametrize(
    ("keys", "value", "words"),
    [
        (("misfit", 0, "whole", "release"), 1e-6, "not what its mismatch says"),
        (("mismatch_after",), 0.0, "not what its mismatch says"),
        (("misfit", 1, "place"), 3, "one after the other"),
        (("misfit", 1, "record"), 2, "one after the other"),
        (("misfit", 0, "whole", "unfitted"), 1e300, "not what its mismatch says"),
        (("method",), "two-stage", "only a detailed fit"),
        (("misfit", 0, "whole", "public_values"), -1.0, "does not follow schema 1"),
    ],
)
def test_figures_that_do_not_belong_together_are_refused(bundle, tmp_path, keys, value, words):
    forged = shutil.copytree(bundle[1], tmp_path / "bundle")
    edit_document(forged, "fit", *keys, value=value)
    with pytest.raises(BundleError, match=words):
        verify(forged)
