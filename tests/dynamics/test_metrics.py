"""Metrics against closed forms of one machine, and against dense simulation and SciPy's
integrator.
"""

from math import atan2, cos, exp, pi, sin, sqrt

import numpy as np
import pytest

from gridveil.dynamics.events import Event, Step
from gridveil.dynamics.metrics import compare, measure, read
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import modes, simulate
from gridveil.dynamics.trajectory import nadir, rocof
from gridveil.foundation.errors import OptionError
from helpers import PAPER, PHYSICAL, ieee30_like, integrate_ode, random_grid, star

M, D, T, G, U, F = 8.0, 1.5, 0.4, 18.0, 0.3, 50.0


def one_machine(m=M, d=D, rate=T, gain=G):
    """m ω' = p − d ω − u, p' = −T (p + G ω)."""
    return ReducedModel(
        ("1",), [], [m], [d], [rate], [gain], np.zeros((1, 0)), [U], PAPER, F, 100.0
    )


class ClosedForm:
    """ω(t) = ω_s (1 − e^(−a t) (cos b t + c sin b t)), written down from the characteristic
    polynomial.
    """

    a = (D / M + T) / 2
    natural = sqrt(T * (D + G) / M)
    b = sqrt(natural**2 - a**2)
    settling = -U / (D + G)
    c = (a - (D + G) / M) / b
    nadir_s = atan2(-(a - b * c), a * c + b) / b % (pi / b)

    @classmethod
    def omega(cls, t):
        return cls.settling * (1 - exp(-cls.a * t) * (cos(cls.b * t) + cls.c * sin(cls.b * t)))


@pytest.mark.parametrize("dt_s", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("at_s", [0.0, 2.0])
def test_one_machine_with_a_lagging_governor_has_the_closed_forms(dt_s, at_s):
    found = measure(one_machine(), [Event.load({"1": U}, at_s=at_s)], dt_s=dt_s)
    assert found.nadir_hz == pytest.approx([F * ClosedForm.omega(ClosedForm.nadir_s)], rel=2e-5)
    assert found.nadir_s == pytest.approx([at_s + ClosedForm.nadir_s], abs=dt_s / 20)
    assert found.rocof_hz_s == pytest.approx([F * ClosedForm.omega(0.5) / 0.5])
    assert found.initial_rocof_hz_s == pytest.approx([-F * U / M])
    assert found.settling_hz == pytest.approx([-F * U / (D + G)])
    assert found.machine_nadir_hz == pytest.approx(found.nadir_hz[:, None])


def test_the_mode_of_one_machine_has_the_closed_form():
    (mode,) = modes(one_machine())
    assert mode.frequency_hz == pytest.approx(ClosedForm.b / (2 * pi))
    assert mode.damping_ratio == pytest.approx(ClosedForm.a / ClosedForm.natural)


def test_errors_of_one_machine_are_those_of_the_closed_forms():
    found = compare(one_machine(m=1.1 * M, d=2 * D), one_machine(), [Event.load({"1": U})])
    assert found.initial_rocof_percent == pytest.approx([100 * (1 - 1 / 1.1)])  # a smaller fall
    assert found.initial_rocof_mhz_s == pytest.approx([1e3 * F * U / M * (1 - 1 / 1.1)])
    assert found.settling_mhz == pytest.approx([1e3 * F * U * (1 / (D + G) - 1 / (2 * D + G))])
    assert found.settling_percent == pytest.approx([100 * D / (2 * D + G)])
    (mode,) = modes(one_machine(m=1.1 * M, d=2 * D))
    (mode_ref,) = modes(one_machine())
    assert found.mode_frequency_mhz == pytest.approx(
        [1e3 * (mode.frequency_hz - mode_ref.frequency_hz)]
    )
    assert found.mode_damping_points == pytest.approx(
        [100 * (mode.damping_ratio - mode_ref.damping_ratio)]
    )


@pytest.mark.parametrize("omega_b", [PAPER, PHYSICAL])
def test_figures_of_many_machines_match_a_dense_runge_kutta_solution(omega_b):
    grid = random_grid(buses=9, machines=4, extra_edges=4, seed=3, omega_b=omega_b)
    change = {"2": 0.4, "7": -0.1}
    time_s = np.arange(20001) * 0.001
    hz = 60.0 * integrate_ode(
        grid, np.array([change.get(bus, 0.0) for bus in grid.facts.buses]), time_s
    )
    system = hz @ grid.m / grid.m.sum()
    found = measure(grid.reduced, [Event.load(change)], horizon_s=20.0, dt_s=0.01)
    worst = np.argmax(np.abs(system))
    assert found.nadir_hz == pytest.approx([system[worst]], rel=1e-5)
    assert found.nadir_s == pytest.approx([time_s[worst]], abs=2e-3)
    size = np.abs(hz).max(axis=0)
    np.testing.assert_allclose(np.abs(found.machine_nadir_hz[0]), size, rtol=2e-4)
    assert found.rocof_hz_s == pytest.approx(
        [np.min((system[500:] - system[:-500]) / 0.5)], rel=1e-4
    )
    assert found.initial_rocof_hz_s == pytest.approx([system[1] / 0.001], rel=0.02)
    assert found.settling_hz == pytest.approx(
        [60 * -0.3 / (grid.d.sum() + grid.facts.droop_gain.sum())]
    )


def test_the_full_model_with_damped_loads_starts_as_its_simulation_does():
    grid = random_grid(buses=9, machines=4, extra_edges=4, seed=5, omega_b=PHYSICAL)
    grid = grid.with_facts(load_damping=0.5 * (np.arange(9) % 2))
    event = Event.uniform(0.2)
    dense = (
        simulate(grid.full, event, horizon_s=1e-6, dt_s=1e-8).deviation_hz @ grid.m / grid.m.sum()
    )
    assert measure(grid.full, [event]).initial_rocof_hz_s == pytest.approx(
        [dense[1] / 1e-8], rel=1e-3
    )


def test_a_batch_gives_what_each_model_gives_alone(monkeypatch):
    grids = [random_grid(buses=8, machines=3, extra_edges=3, seed=1, omega_b=PHYSICAL)]
    grids += [
        grids[0]._replace(m=grids[0].m * factor, d=grids[0].d / factor) for factor in (0.7, 1.3)
    ]
    models = [grid.reduced for grid in grids]
    events = [
        Event.uniform(0.1),
        Event((Step(0.0, change={"2": 0.3}), Step(1.0, change={"3": -0.5}))),
    ]
    monkeypatch.setattr("gridveil.dynamics.metrics.HELD", 10)  # every model a chunk of its own
    together, errors = measure(models, events), compare(models, models[0], events)
    for number, one in enumerate(models):
        alone, error = measure(one, events), compare(one, models[0], events)
        for name in alone.__dataclass_fields__:
            np.testing.assert_allclose(
                getattr(together, name)[number], getattr(alone, name), rtol=1e-12
            )
        for name in error.__dataclass_fields__:
            np.testing.assert_allclose(
                getattr(errors, name)[number], getattr(error, name), rtol=1e-9, atol=1e-12
            )
        trajectory = simulate(one, events[1], dt_s=0.02)
        assert read(trajectory, one, events[1]).nadir_hz == pytest.approx(alone.nadir_hz[1])
    assert errors.nadir_mhz.shape == (3, 2)
    assert errors.L[0].max() == 0
    assert np.all(errors.nadir_mhz[0] == 0)


def test_L_is_the_integral_of_the_squared_distance():
    grid, other = (
        ieee30_like(PAPER).reduced,
        ieee30_like(PAPER)._replace(m=np.full(6, 12.0)).reduced,
    )
    event = Event.uniform(0.2)
    found = compare(other, grid, [event], horizon_s=20.0, dt_s=0.01)
    distance = (
        simulate(other, event, horizon_s=20.0).omega - simulate(grid, event, horizon_s=20.0).omega
    )
    assert pytest.approx([np.trapezoid((distance**2).sum(axis=1), dx=0.01)], rel=1e-3) == found.L


def test_modes_are_matched_one_to_one_and_lost_ones_are_nan():
    grid = star()
    reference = grid.reduced
    stiff = grid._replace(d=np.full(4, 60.0)).reduced  # overdamped: fewer modes
    found = compare(stiff, reference, [Event.uniform(0.1)])
    lost = len(modes(reference)) - len(modes(stiff))
    assert lost > 0
    assert (
        np.isnan(found.mode_frequency_mhz).sum()
        == np.isnan(found.mode_damping_points).sum()
        == lost
    )
    swapped = compare(grid._replace(m=grid.m * (1 + 1e-6)).reduced, reference, [Event.uniform(0.1)])
    assert np.abs(swapped.mode_frequency_mhz).max() < 1e-2


def test_a_nadir_between_samples_at_an_end_or_beside_a_gap():
    time_s = np.arange(6) * 0.5
    parabola = 3 - (time_s - 1.2) ** 2
    assert nadir(time_s, -parabola) == (pytest.approx(-3), pytest.approx(1.2))
    assert nadir(time_s, time_s) == (2.5, 2.5)
    assert nadir(time_s[:2], np.array([0.0, -1.0])) == (-1.0, 0.5)
    assert nadir(time_s, np.zeros(6)) == (0.0, 0.0)
    gap = parabola.copy()
    gap[3] = np.nan
    assert nadir(time_s, gap) == (parabola[2], 1.0)
    # from rest to the first sample; the gap counts for nothing
    assert rocof(time_s, gap) == pytest.approx(2 * parabola[0])


def test_what_cannot_be_compared_is_refused():
    model, event = star().reduced, Event.uniform(0.1)
    for wrong in (
        lambda: compare(one_machine(), model, [event]),
        lambda: measure([], [event]),
        lambda: measure(model, []),
        lambda: read(simulate(model, event, buses=["1", "5"]), model, event),
    ):
        with pytest.raises(OptionError):
            wrong()
