"""The scores of `benchmarks/truth.py`, and its frequency response, against hand figures."""

import numpy as np
import pytest

from gridveil.inference.fit.controls import FrequencyResponse
from truth_cases import SPREAD, spread_factors
from truth_controls import response_answer
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


def test_a_frequency_response_answers_all_machines_alike():
    response = FrequencyResponse(gain=20.0, inertia=8.0, damping=1.0, fraction=0.3, time_s=2.0)
    step = response.step(len(TIME), 0.02)
    assert response_answer(response, truth()) == pytest.approx(np.stack([step, step], axis=1))


def test_factors_of_the_heterogeneous_case_stay_within_their_spread():
    factors = np.concatenate(list(spread_factors().values()))
    assert len(factors) == 60
    assert 1 / SPREAD <= factors.min() < 0.8
    assert 1.25 < factors.max() <= SPREAD
