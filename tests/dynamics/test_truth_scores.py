"""The scores of `benchmarks/truth.py`, and its frequency response, against hand figures."""

import numpy as np
import pytest

from gridveil.dynamics.events import Event
from gridveil.dynamics.trajectory import Trajectory
from gridveil.inference.fit import Observation
from gridveil.privacy.provenance import Provenance
from truth_cases import SPREAD, spread_factors
from truth_controls import FrequencyResponse, fitted_response
from truth_judge import judge_answer, table
from truth_runs import Truth

TIME = np.arange(1001) * 0.02


def truth(tripped=""):
    """Two machines of inertias 3 and 1, at −10 and +10 mHz after a step of 1 p.u."""
    omega = np.tile([-0.01 / 60, 0.01 / 60], (len(TIME), 1))
    return Truth(
        TIME, omega, ("1", "2"), np.array([3.0, 1.0]), 60.0, 100.0, {"1": 1.0}, 0j, tripped
    )


def test_rms_is_over_machines_and_the_nadir_is_of_the_centre_of_inertia():
    off = np.array([0.003, -0.004]) / 60
    scores = judge_answer(lambda event: event.omega + off, [truth()])
    assert scores.rms == pytest.approx(np.sqrt((3**2 + 4**2) / 2))
    # truth: −10 · 3/4 + 10 · 1/4 = −5 mHz; the model is 3 · 3/4 − 4 · 1/4 = 1.25 mHz above it
    assert scores.nadir == pytest.approx(25.0)


def test_a_machine_that_left_does_not_count():
    scores = judge_answer(lambda event: event.omega + np.array([0.0, 1.0]), [truth(tripped="2")])
    assert scores.rms == scores.nadir == 0.0


def test_a_table_leaves_out_what_was_not_judged():
    scores = judge_answer(lambda event: event.omega, [truth()])
    assert (
        table("t", ["a", "b"], {"row": {"a": scores}}).splitlines()[-1] == "| row | 0.0 / 0.0 | – |"
    )


def test_a_frequency_response_settles_at_its_gain_and_falls_by_its_inertia():
    one = FrequencyResponse(gain=20.0, inertia=8.0, damping=1.0, fraction=0.3, time_s=2.0)
    step = one.step(3001)
    assert step[-1] == pytest.approx(-1 / 21, rel=1e-6)
    # −t/M + (D + K F) t²/(2 M²) + O(t³)
    assert step[1] == pytest.approx(-0.02 / 8 + 7 * 0.02**2 / 128, rel=1e-3)


def test_a_fit_finds_the_response_behind_a_record():
    one = FrequencyResponse(gain=20.0, inertia=8.0, damping=1.0, fraction=0.3, time_s=2.0)
    noise = 1e-5 * np.random.default_rng(1).standard_normal((len(TIME), 2))
    seen = Trajectory(TIME, 0.1 * one.step(len(TIME))[:, None] + noise, ("1", "2"), 60.0, np.nan)
    record = Observation(Event.load({"5": 0.1}), seen, Provenance("simulated", "a test"))
    fitted = fitted_response(record)
    assert np.abs(fitted.step(1001) - one.step(1001)).max() < 1e-3 * np.abs(one.step(1001)).max()


def test_factors_of_the_heterogeneous_case_stay_within_their_spread():
    factors = np.concatenate(list(spread_factors().values()))
    assert len(factors) == 60
    assert 1 / SPREAD <= factors.min() < 0.8
    assert 1.25 < factors.max() <= SPREAD
