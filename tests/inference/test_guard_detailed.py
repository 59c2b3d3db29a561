"""The guard on a detailed fit: the release's own answer against the record."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.events import Event, Step
from gridveil.inference.fit.controls import FitControls
from gridveil.inference.fit.detailed import fit_detailed
from gridveil.inference.fit.guard_detailed import DetailedGuard, response_deviation
from gridveil.inference.fit.noise import sensor_noise
from gridveil.inference.fit.other_events import SLOWER_S, compared_with, elsewhere, scaled, slower
from small_detailed import DT, PORTS, SETTINGS, moved, recorded, small_case


def verdict(record, deviation=0.15):
    released = moved(small_case(), inertia=-0.1, governor_gain=0.1)
    fitted = fit_detailed(released, PORTS, [record], SETTINGS)
    controls = FitControls((record,), None, (DT,), SETTINGS, (None, None), (None, None))
    misfit = controls.beside(released, fitted)
    return DetailedGuard(released, fitted, misfit, controls, deviation).verdict()


def test_a_record_of_the_grid_is_good():
    assert verdict(recorded(small_case())).grade == "good"


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_record_of_another_size_is_discarded(factor):
    seen = recorded(small_case())
    larger = replace(seen.trajectory, omega=factor * seen.trajectory.omega)
    found = verdict(replace(seen, trajectory=larger))
    assert found.discarded and "times as large as what the release answers" in found.reasons[0]


def test_a_size_that_the_noise_allows_is_discarded_where_another_is_far_likelier():
    seen = recorded(small_case())
    larger = replace(seen.trajectory, omega=2 * seen.trajectory.omega)
    found = verdict(replace(seen, trajectory=larger), deviation=0.25)
    assert found.discarded
    assert any("times the declared size" in reason for reason in found.reasons)


def test_a_step_declared_at_another_bus_is_discarded():
    step = Event.load({"L1": 0.4})
    seen = recorded(small_case(), step)
    assert verdict(seen).grade == "good"
    found = verdict(replace(seen, event=Event.load({"L3": 0.4})))
    assert found.discarded and any("at another bus" in reason for reason in found.reasons)


@pytest.mark.parametrize("seconds", [3.0, 5.0])
def test_a_slow_change_declared_as_a_step_is_discarded(seconds, monkeypatch):
    monkeypatch.setattr("gridveil.inference.fit.guard_detailed.MOST_UNLIKE", 1.0)
    step = Event.load({"L1": 0.4}, at_s=DT)
    assert verdict(recorded(small_case(), step)).grade == "good"
    times = DT * np.rint((DT + seconds * np.linspace(0.05, 0.95, 10)) / DT)
    slow = Event(tuple(Step(at_s, {"L1": 0.04}) for at_s in times.tolist()))
    found = verdict(replace(recorded(small_case(), slow), event=step))
    assert found.discarded and any("than after a step" in reason for reason in found.reasons)


def test_one_step_of_load_is_spread_over_seconds():
    seen = recorded(small_case(), Event.load({"L1": 0.4, "L3": -0.2}, at_s=2 * DT))
    end_s = seen.trajectory.time_s[-1]
    steps = slower(seen, DT).event.steps
    assert {bus: sum(step.change[bus] for step in steps) for bus in ("L1", "L3")} == pytest.approx(
        {"L1": 0.4, "L3": -0.2}
    )
    times = np.array([step.at_s for step in steps])
    assert times.mean() == pytest.approx(2 * DT + SLOWER_S / 2, abs=DT)
    assert np.ptp(times) < SLOWER_S and np.allclose(times / DT, np.rint(times / DT))
    uniform = slower(replace(seen, event=Event.uniform(0.2)), DT)
    assert sum(step.uniform for step in uniform.event.steps) == pytest.approx(0.2)
    for event in (
        Event.trip({"G1": 1.0}),
        Event.load({"L1": 0.4}, at_s=end_s - SLOWER_S / 2),
        Event.load({"L1": 0.4}, over_s=1.0),
        Event.parse("lost:L1"),
        Event((Step(0.0, {"L1": 0.2}), Step(1.0, {"L1": 0.2}))),
    ):
        assert slower(replace(seen, event=event), DT) is None


def test_steps_are_scaled_and_trips_are_not():
    seen = recorded(small_case())
    steps = scaled(seen, 2.0).event.steps
    assert [dict(step.change) for step in steps] == [{"L1": 0.8}, {"L3": -0.3}]
    (everywhere,) = scaled(replace(seen, event=Event.uniform(0.05)), 2.0).event.steps
    assert everywhere.uniform == 0.1
    assert scaled(replace(seen, event=Event.trip({"G1": 1.0})), 2.0) is None


def test_a_record_of_another_shape_is_discarded():
    seen = recorded(small_case())
    time = seen.trajectory.time_s
    other = replace(seen.trajectory, omega=-1e-3 * np.sin(time)[:, None] * np.ones((1, 2)))
    found = verdict(replace(seen, trajectory=other))
    assert found.discarded and any("another shape" in reason for reason in found.reasons)


@pytest.mark.parametrize("sigma", [1e-5, 1e-4])
def test_white_noise_on_a_response_is_told_from_it(sigma):
    seen = recorded(small_case(), sigma=sigma, seed=5)
    omega = seen.trajectory.omega[:, 0].copy()
    assert sensor_noise(omega) == pytest.approx(sigma, rel=0.2)
    omega[40:60] = np.nan
    assert sensor_noise(omega) == pytest.approx(sigma, rel=0.2)
    assert sensor_noise(np.array([1.0, 2.0])) == 0.0


def test_what_a_fit_leaves_counts_beyond_the_noise_of_the_sensor():
    quiet = recorded(small_case(), sigma=1e-5)
    size = np.sqrt(np.mean(quiet.trajectory.omega**2, axis=0))
    loud = recorded(small_case(), sigma=0.2 * float(size.min()))
    controls = FitControls((loud,), None, (DT,), SETTINGS, (None, None), (None, None))
    model = linearise(small_case(), solve(small_case()), PORTS)
    fitted = SimpleNamespace(model=model)  # the grid's own: nothing but noise is left
    misfit = controls.beside(small_case(), fitted)
    guard = DetailedGuard(small_case(), fitted, misfit, controls, 0.15)
    assert guard.share_left() < 0.08 < 0.15 < float(misfit[0].whole.release) / (6e4 * size[0])


def test_a_multiple_of_an_answer_is_told_with_gaps():
    answer = np.random.default_rng(0).standard_normal((50, 2))
    omega = 3.0 * answer
    omega[4:9, 1] = np.nan
    size, unlike = compared_with(answer, omega)
    assert (size, unlike) == (pytest.approx(3.0), pytest.approx(0.0, abs=1e-12))
    across = np.zeros_like(answer)
    across[0, 0], across[1, 0] = answer[1, 0], -answer[0, 0]
    assert compared_with(answer, across) == (pytest.approx(0.0), pytest.approx(1.0))


def test_only_a_step_at_one_bus_is_tried_elsewhere():
    one = recorded(small_case(), Event.load({"L1": 0.1}))
    tried = [moved.event for moved in elsewhere(one, ("G1", "L1", "L2"))]
    assert tried == [Event.load({"G1": 0.1}), Event.load({"L2": 0.1})]
    two = replace(one, event=Event.load({"L1": 0.1, "L2": 0.1}))
    assert not list(elsewhere(two, ("G1", "L1", "L2")))


def test_the_deviation_of_a_response_is_that_of_inertia_and_governor_gain():
    def loss(scale, takes):
        return SimpleNamespace(
            noise=SimpleNamespace(deviation=2.0),
            scale=scale,
            relative=True,
            mechanism=SimpleNamespace(takes=takes),
        )

    noisy = SimpleNamespace(
        facts=SimpleNamespace(parameters={"M": 0, "gov_gain": 0}, sizes={"M": 4, "gov_gain": 4}),
        allocation=SimpleNamespace(published=()),
        guarantee=SimpleNamespace(groups={"M": loss(0.1, "items"), "gov_gain": loss(0.05, "mean")}),
    )
    assert response_deviation(noisy) == pytest.approx(np.sqrt(0.2**2 / 4 + 0.1**2))
    noisy.guarantee.groups.clear()
    assert response_deviation(noisy) == pytest.approx(np.sqrt(0.5))
