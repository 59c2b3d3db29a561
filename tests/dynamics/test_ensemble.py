"""Ensembles: members, their answers and the bands that they span."""

from dataclasses import replace

import numpy as np
import pytest

from gridveil.dynamics.engine.lti import LTI
from gridveil.dynamics.ensemble import (
    Ensemble,
    quantiles,
    system_band,
    with_band,
)
from gridveil.dynamics.events import Event
from gridveil.dynamics.metrics import read
from gridveil.dynamics.simulate import Clock, simulate
from gridveil.dynamics.trajectory import nadir, rocof
from gridveil.dynamics.truncation import balanced, cut, is_stable
from gridveil.foundation.errors import InputError
from gridveil.readers.cases import open_grid
from gridveil.vault.truth import true_model

CLOCK = Clock(10.0, 0.05)
EVENT = Event.parse("load:1=+0.1;load:7=+0.2@2s", base_mva=100)


@pytest.fixture(scope="module")
def model():
    return true_model(open_grid("ieee30"))


@pytest.fixture(scope="module")
def models(model):
    random = np.random.default_rng(1)
    return [
        replace(model, m=model.m * random.uniform(0.5, 2, 6), d=model.d * random.uniform(0.5, 2, 6))
        for _ in range(12)
    ]


def answered(model, event=EVENT, buses=None):
    return simulate(model, event, horizon_s=10.0, dt_s=0.05, buses=buses)


def test_a_member_answers_as_the_model_that_it_was_made_of(models, model):
    ensemble = Ensemble.of(models, counts=())
    buses = ("1", "2", "7")
    sense = np.array([model.ports.index(bus) for bus in buses])
    found = ensemble.answers(EVENT, CLOCK, sense, model)
    expected = np.stack([answered(one, buses=buses).omega for one in models])
    # parameters are in single precision
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    settled = [answered(one).settling for one in models]
    np.testing.assert_allclose(ensemble.settling(EVENT, model), settled, rtol=1e-6)


def test_a_band_is_of_the_members_quantiles(models, model):
    ensemble = Ensemble.of(models, counts=())
    centre = answered(model)
    band = with_band(centre, ensemble, model, EVENT, CLOCK).band
    omega = ensemble.answers(EVENT, CLOCK, np.arange(6), model)
    low, high = (np.sort(omega, axis=0)[place] for place in (0, 11))
    # 10 % of 13 places is the 1.3rd of 12
    second = np.sort(omega, axis=0)[1]
    np.testing.assert_allclose(band.lower, low + 0.3 * (second - low), rtol=0, atol=1e-15)
    assert (band.upper <= high).all()
    lows = nadir(CLOCK.time_s, omega.swapaxes(1, 2))[0]
    np.testing.assert_allclose(band.nadir, quantiles(lows).T)
    np.testing.assert_allclose(band.rocof, quantiles(rocof(CLOCK.time_s, omega.swapaxes(1, 2))).T)


def test_a_further_draw_lies_in_a_band_of_few_as_often_as_it_says():
    random = np.random.default_rng(2)
    for members in (9, 19, 49):
        drawn = random.standard_normal((members, 20_000))
        low, high = quantiles(drawn)
        further = random.standard_normal(20_000)
        inside = np.mean((low <= further) & (further <= high))
        assert abs(inside - 0.8) < 0.01


def test_the_systems_band_weighs_each_member_by_its_own_inertia(models, model):
    ensemble = Ensemble.of(models, counts=())
    band = system_band(answered(model), ensemble, model, EVENT, CLOCK)
    figures = [read(answered(one), one, EVENT) for one in models]
    hz = model.frequency_hz
    for name, own in (("nadir", "nadir_hz"), ("rocof", "rocof_hz_s"), ("settling", "settling_hz")):
        expected = quantiles(np.array([getattr(one, own) for one in figures]) / hz)
        np.testing.assert_allclose(getattr(band, name), expected, rtol=1e-5)


def test_model_error_moves_a_member_by_a_share_of_its_largest_deviation_so_far(models, model):
    offset = np.full((12, len(model.ports)), 0.25)
    plain, moved = (Ensemble.of(models, counts=(), offset=part) for part in (None, offset))
    sense = np.arange(6)
    omega = plain.answers(EVENT, CLOCK, sense, model)
    peak = np.maximum.accumulate(np.abs(omega), axis=1)
    found = moved.answers(EVENT, CLOCK, sense, model)
    np.testing.assert_allclose(found, omega + 0.25 * peak, rtol=0, atol=1e-15)


def test_merged_ports_answer_as_their_buses_together(models, model):
    ensemble = Ensemble.of(models, counts=())
    shares = np.zeros((len(model.ports), 7))
    shares[:6, :6], shares[6, 6], shares[9, 6] = np.eye(6), 0.25, 0.75
    merged = ensemble.merged((*model.ports[:6], "L1"), shares)
    both = Event.load({model.ports[6]: 0.25, model.ports[9]: 0.75})
    places = replace(
        model, ports=(*model.ports[:6], "L1"), K_ac=model.K_ac[:, :1], loads=np.zeros(7)
    )
    one = merged.answers(Event.load({"L1": 1.0}), CLOCK, np.arange(6), places)
    np.testing.assert_allclose(one, ensemble.answers(both, CLOCK, np.arange(6), model), atol=1e-12)
    again = Ensemble.of_swing(places, merged.swing, merged.offset, ())
    np.testing.assert_allclose(again.B, merged.B, rtol=1e-6, atol=1e-9)


def test_balanced_truncation_keeps_all_of_a_model_that_has_no_more(model):
    whole = model.lti(np.eye(len(model.ports)), np.arange(len(model.ports)))
    small = balanced(whole, 17)
    # the transfer at some frequencies is the same
    for s in (0.0, 0.3j, 2.0j):
        transfers = [
            one.C @ np.linalg.solve(s * np.eye(one.states) - one.A, one.B) for one in (whole, small)
        ]
        np.testing.assert_allclose(
            transfers[1], transfers[0], atol=1e-9 * np.abs(transfers[0]).max()
        )


def test_cutting_states_states_its_error(model):
    whole = model.lti(np.eye(len(model.ports)), np.arange(len(model.ports)))
    members, error = cut([whole, whole], 14)
    assert members[0].states <= 14
    assert 0 < error < 1e-3
    kept, nothing = cut([whole], 40)
    assert (kept[0].states, nothing) == (17, 0.0)


def test_states_that_never_move_are_left_out_and_unstable_members_are_refused():
    A, B, C = np.diag([-1.0, 0.0]), np.array([[1.0], [0.0]]), np.array([[1.0, 1.0]])
    D = np.zeros((1, 1))
    (member,), _ = cut([LTI.of(A, B, C, D)], 40)
    assert member.states == 1
    assert is_stable(member.A)
    with pytest.raises(InputError, match="not stable"):
        cut([LTI.of(np.diag([-1.0, 0.1]), B, C, D)], 40)


def test_an_ensemble_refuses_matrices_of_other_shapes(models):
    ensemble = Ensemble.of(models, counts=())
    with pytest.raises(InputError, match="inertia"):
        replace(ensemble, inertia=ensemble.inertia[:, :5])


def test_a_frame_and_a_table_have_bands_where_they_are_asked_for(models, model):
    ensemble = Ensemble.of(models, counts=())
    shown = with_band(answered(model), ensemble, model, EVENT, CLOCK)
    plain = replace(shown, band=None)
    assert shown.to_csv() == plain.to_csv()
    head = shown.to_csv(bands=True).splitlines()[0].split(",")
    assert head[1 + 6 :][:2] == ["omega_1_low_pu", "omega_1_high_pu"]
    frame = shown.to_frame(bands=True)
    np.testing.assert_allclose(frame["1 low"], shown.band.lower[:, 0] * 60)
    np.testing.assert_allclose(frame["13 high"], shown.band.upper[:, -1] * 60)
    assert list(shown.to_frame().columns) == list(plain.to_frame().columns)
    response = shown.responses()[0]
    assert response.nadir_band_hz[0] <= response.nadir_band_hz[1]
    assert plain.responses()[0].nadir_band_hz is None
