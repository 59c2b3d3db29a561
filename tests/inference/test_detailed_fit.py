"""The fit of a detailed case: slopes, factors that are found again, and priors that stay."""

from dataclasses import replace

import numpy as np
import pytest

from gridveil.dynamics.detailed.entries import ENTRIES
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.numbers import numbers_of
from gridveil.dynamics.detailed.projection import LEAST_DAMPING
from gridveil.dynamics.events import Event
from gridveil.dynamics.simulate import simulate
from gridveil.inference.fit.detailed import BEYOND, case_with, fit_detailed, stabler
from gridveil.inference.fit.detailed_residuals import (
    DetailedResiduals,
    discrepancy_shapes,
)
from gridveil.inference.fit.factors import factors_of, without_exponents
from small_detailed import CLOCK, DT, PORTS, SETTINGS, moved, predicted, recorded, small_case


def test_slopes_are_those_of_finite_differences():
    case = without_exponents(small_case())
    factors = factors_of(case, exponents=True)
    prediction = predicted(case, factors, recorded(case))
    shapes = discrepancy_shapes(prediction.records, DT, 0.02)
    residuals = DetailedResiduals(prediction, np.array([[[1e-4, 2e-4]]]), shapes)
    random = np.random.default_rng(1)
    x = np.concatenate([0.1 * random.uniform(size=len(factors)), random.standard_normal(4)])
    slopes, h = residuals.slopes(x), 1e-5
    for entry in range(len(x)):
        step = h * np.eye(len(x))[entry]
        difference = (residuals.at(x + step) - residuals.at(x - step)) / (2 * h)
        size = max(1.0, float(np.abs(difference).max()))
        assert np.abs(slopes[:, entry] - difference).max() <= 1e-6 * size, entry


def test_a_case_is_written_back_as_it_was_read():
    case = small_case()
    again = numbers_of(case_with(case, numbers_of(case)))
    for table, columns in numbers_of(case).items():
        for name, column in columns.items():
            assert again[table][name] == pytest.approx(column, abs=1e-15), (table, name)


def test_factors_and_exponents_of_the_model_itself_are_found():
    x = {"inertia": 0.15, "governor_gain": -0.25, "governor_time": 0.2}
    true = moved(small_case(0.8, 0.5), **x)
    fitted = fit_detailed(small_case(), PORTS, [recorded(true)], SETTINGS)
    for name, value in x.items():
        factor = fitted.factor(name)
        assert abs(factor.x - value) <= max(4 * factor.deviation, 0.02), name
        assert factor.deviation < 0.1
    share = fitted.factor("p_impedance")
    assert share.value == pytest.approx(0.8, abs=0.12)
    assert share.informed > 0.5
    assert fitted.mismatch_after < 1e-3 * fitted.mismatch_before
    assert fitted.by_records >= 4
    assert fitted.sigma == pytest.approx(1e-5, rel=0.25)
    assert np.abs(fitted.discrepancy).max() < 2.0
    held_out = Event.load({"L2": 0.5})
    there = simulate(linearise(true, solve(true), PORTS), held_out, **CLOCK)
    here = simulate(fitted.model, held_out, **CLOCK)
    assert np.abs(here.omega - there.omega).max() < 0.02 * np.abs(there.omega).max()


def test_the_fast_share_of_governors_is_found():
    true = moved(small_case(), governor_fast=-0.3)
    settings = replace(SETTINGS, exponents=False)
    fitted = fit_detailed(small_case(), PORTS, [recorded(true)], settings)
    assert fitted.factor("governor_fast").x == pytest.approx(-0.3, abs=0.05)
    assert fitted.factor("governor_gain").x == pytest.approx(0.0, abs=0.03)


def test_factors_move_what_was_drawn_of_governors_each_on_its_own():
    # Noise on gain, lag and fast gain has three directions: as many must be there to undo it.
    names = ("gov_gain", "gov_lag", "gov_fast")
    before = {name: ENTRIES[name].read(small_case())[0] for name in names}
    moves = []
    for factor in ("governor_gain", "governor_time", "governor_fast"):
        case = moved(small_case(), **{factor: 0.1})
        moves.append([np.log(ENTRIES[name].read(case)[0] / before[name]).mean() for name in names])
    assert np.abs(np.linalg.svd(moves, compute_uv=False)).min() > 0.03


def test_the_fitted_case_is_that_of_the_fitted_model():
    true = moved(small_case(0.2, 0.5), inertia=0.2)
    fitted = fit_detailed(small_case(), PORTS, [recorded(true)], SETTINGS)
    again = linearise(fitted.case, solve(fitted.case), PORTS)
    assert pytest.approx(fitted.model.A, abs=1e-9) == again.A
    assert fitted.moved_back == 0.0


def test_a_record_that_says_nothing_leaves_the_prior():
    quiet = recorded(small_case(), Event.load({"L1": 1e-7}), sigma=1e-3)
    fitted = fit_detailed(small_case(), PORTS, [quiet], replace(SETTINGS, sigma=1e-3))
    for factor in fitted.factors:
        assert abs(factor.x) < 1e-3, factor.name
        assert abs(factor.informed) < 1e-3, factor.name
    assert (fitted.by_records, fitted.by_release) == (0, len(fitted.factors))
    shares = fitted.case.loads.impedance
    assert shares == pytest.approx(np.full((3, 2), 0.5), abs=1e-3)


def test_declared_exponents_are_not_moved():
    true = moved(small_case(0.7, 0.3), governor_gain=0.2)
    settings = replace(SETTINGS, exponents=False)
    fitted = fit_detailed(small_case(0.7, 0.3), PORTS, [recorded(true)], settings)
    assert fitted.case.loads.impedance == pytest.approx(true.loads.impedance)
    assert "p_impedance" not in {factor.name for factor in fitted.factors}
    assert fitted.factor("governor_gain").x == pytest.approx(0.2, abs=0.03)


def test_model_error_counts():
    # Machines that differ from the released ones in more than common factors.
    case = small_case()
    machine = case.devices[0]
    inertia = machine.values["M"] * np.array([3.0, 0.4, 1.0])
    unlike = replace(machine, values={**machine.values, "M": inertia})
    true = replace(case, devices=(unlike, *case.devices[1:]))
    fitted = fit_detailed(case, PORTS, [recorded(true)], SETTINGS)
    together = fitted.sigma * np.sqrt(fitted.correlation_s / DT)
    assert together.min() > 1.5e-5  # the record's own noise is 1e-5


def test_a_single_unit_is_found_beside_the_others():
    case = small_case()
    machine = case.devices[0]
    unlike = replace(machine, values={**machine.values, "M": machine.values["M"] * [1.3, 1.0, 1.0]})
    true = replace(case, devices=(unlike, *case.devices[1:]))
    record = recorded(true, buses=("G1", "G2", "G3"))
    fitted = fit_detailed(case, PORTS, [record], replace(SETTINGS, items=True))
    ratio = fitted.case.devices[0].values["M"] / machine.values["M"]
    assert ratio == pytest.approx([1.3, 1.0, 1.0], abs=0.05)


def test_a_record_of_a_trip_is_fitted_without_the_machine():
    true = moved(small_case(), inertia=0.15, governor_gain=-0.2)
    record = recorded(true, Event.trip({"G2": None}))
    fitted = fit_detailed(small_case(), PORTS, [record], replace(SETTINGS, exponents=False))
    assert fitted.factor("governor_gain").x == pytest.approx(-0.2, abs=0.03)
    assert fitted.factor("inertia").x == pytest.approx(0.15, abs=0.05)
    assert fitted.mismatch_after < 1e-3 * fitted.mismatch_before


def test_a_fit_that_stands_nowhere_ends_at_the_release_itself(monkeypatch):
    monkeypatch.setattr("gridveil.inference.fit.detailed.is_stable", lambda model: False)
    case = small_case()
    quick = replace(SETTINGS, rounds=1, iterations=1)
    fitted = fit_detailed(case, PORTS, [recorded(case)], quick)
    assert fitted.moved_back == 1.0
    assert fitted.case is case
    assert pytest.approx(linearise(case, solve(case), PORTS).A, abs=0) == fitted.model.A


def test_a_fit_is_made_to_stand_along_what_its_records_leave_open():
    # ζ = 0.01 + x · (1, 2), x1 fixed by the records and x2 not: x2 moves.
    slope, covariance = np.array([1.0, 2.0]), np.diag([1e-6, 1.0])
    x = stabler(lambda x: 0.01 + float(slope @ x), np.zeros(2), covariance)
    assert 0.01 + slope @ x == pytest.approx(LEAST_DAMPING + BEYOND, rel=1e-6)
    assert abs(x[0]) < 1e-6 < abs(x[1])
    assert (stabler(lambda _: 0.5, np.ones(2), covariance) == 1).all()
    assert (stabler(lambda _: None, np.ones(2), covariance) == 1).all()
    assert (stabler(lambda _: 0.01, np.ones(2), covariance) == 1).all()  # nothing moves ζ
