"""A unit that leaves a detailed model."""

from dataclasses import replace

import numpy as np
import pytest

from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import Layout, linearise, model_of, rest
from gridveil.dynamics.detailed.model import OF_TRIPS
from gridveil.dynamics.detailed.numbers import numbers_of
from gridveil.dynamics.detailed.trips import lost_power, with_active_dispatch, without_unit
from gridveil.dynamics.engine import LTI
from gridveil.dynamics.engine.propagate import step_responses
from gridveil.dynamics.events import Event
from gridveil.dynamics.metrics import read
from gridveil.dynamics.simulate import simulate
from gridveil.foundation.errors import EventError, OptionError
from small_detailed import small_case

PORTS = np.array([3, 4, 5])


@pytest.fixture(scope="module")
def model():
    case = small_case()
    return linearise(case, solve(case), PORTS)


def never_there(unit):
    """Oracle: the same operating point, with the unit's equations left out before elimination."""
    case = small_case()
    layout = Layout.of(case, PORTS)
    at = rest(layout, numbers_of(case))
    groups, settled = [], []
    for group, own in zip(layout.groups, at.settled, strict=True):
        keep = group.units != unit
        rows = {role: places[keep] for role, places in group.rows.items()}
        groups.append(replace(group, units=group.units[keep], rows=rows))
        settled.append(replace(own, z=own.z[keep], slopes=own.slopes[keep]))
    layout = replace(layout, groups=tuple(groups))
    return model_of(case, layout, replace(at, settled=tuple(settled)))


def from_the_mean(rows, model):
    """Angles are counted from their mean: what was given does not turn with the others any more."""
    rows, angles = rows.copy(), list(model.angles)
    rows[:, angles] -= rows[:, angles].mean(axis=1, keepdims=True)
    return rows


@pytest.mark.parametrize("unit", [0, 1, 2])
def test_a_model_without_a_unit_is_the_one_that_never_had_it(model, unit):
    label = model.machines[unit]
    left, oracle = without_unit(model, label), never_there(unit)
    assert left.states == oracle.states
    assert left.machines == tuple(name for name in model.machines if name != label)
    order = [oracle.ports.index(port) for port in left.ports]
    twice = np.concatenate([order, len(order) + np.array(order)])
    assert pytest.approx(from_the_mean(oracle.A, oracle), abs=1e-9) == left.A
    assert left.A[:, left.angles].sum(axis=1) == pytest.approx(0.0, abs=1e-9)
    assert pytest.approx(oracle.B[:, twice], abs=1e-9) == left.B
    turn = from_the_mean(oracle.turn, oracle)
    C, D = from_the_mean(oracle.C, oracle), oracle.D.copy()
    buses = [unit, 3, 4, 5]
    mean = [rows[list(left.angles)].mean(axis=0) / model.omega_b for rows in (left.A, oracle.B)]
    C[buses], D[buses] = turn[buses] @ left.A + mean[0], turn[buses] @ oracle.B + mean[1]
    assert pytest.approx(C[twice], abs=1e-9) == left.C
    assert pytest.approx(D[np.ix_(twice, twice)], abs=1e-9) == left.D


def test_two_units_leave_in_either_order(model):
    one = without_unit(without_unit(model, "G1"), "G2")
    other = without_unit(without_unit(model, "G2"), "G1")
    assert one.states == other.states
    assert pytest.approx(other.A, abs=1e-8) == one.A


def test_what_a_unit_gives_is_its_power_flow(model):
    power = solve(small_case()).power
    assert [lost_power(model, name) for name in model.machines] == pytest.approx(power)


def test_a_trip_is_a_step_of_the_lost_power_without_the_unit(model):
    trajectory = simulate(model, Event.trip({"G2": None}), horizon_s=5.0, dt_s=0.02)
    assert trajectory.buses == ("G1", "G3")
    oracle = never_there(1)
    power, p = solve(small_case()).power[1], len(oracle.ports)
    B = oracle.B[:, [1]] * power.real + oracle.B[:, [p + 1]] * power.imag
    A, C = from_the_mean(oracle.A, oracle), from_the_mean(oracle.C, oracle)[[0, 2]]
    lti = LTI.of(A, B, C, np.zeros((2, 1)))
    expected = step_responses(lti, range(1), 251, dt_s=0.02, scheme="exact")[0]
    assert trajectory.omega == pytest.approx(expected, abs=1e-9)
    last = simulate(model, Event.trip({"G2": None}), horizon_s=200.0, dt_s=0.1).omega[-1]
    assert trajectory.settling == pytest.approx(last[0], rel=1e-4)


def test_after_a_trip_every_bus_moves_with_the_machines_and_settles_with_them(model):
    buses = ["G1", "G3", "G2", "L1", "L2", "L3"]
    trajectory = simulate(model, "trip:G2", horizon_s=200.0, dt_s=0.1, buses=buses)
    assert trajectory.omega[-1] == pytest.approx(trajectory.settling, rel=1e-3)
    machines = trajectory.omega[:, :2].mean(axis=1)
    swing = np.abs(machines).max()
    assert np.abs(trajectory.omega[10:] - machines[10:, None]).max() < 0.3 * swing


def test_steps_before_a_trip_are_carried_over(model):
    event = Event.parse("load:L1=+20MW;trip:G1@2s;load:L3=-0.1@3s", base_mva=100)
    trajectory = simulate(model, event, horizon_s=4.0, dt_s=0.01)
    before = simulate(model, Event.load({"L1": 0.2}), horizon_s=4.0, dt_s=0.01, buses=["G2", "G3"])
    assert trajectory.omega[:200] == pytest.approx(before.omega[:200], abs=1e-10)
    # A trip that comes first, at rest, differs from one after a step.
    assert np.abs(trajectory.omega[250:] - before.omega[250:]).max() > 1e-3


def test_what_cannot_be_answered_is_refused(model):
    with pytest.raises(EventError, match="not a machine"):
        simulate(model, Event.trip({"L1": None}))
    with pytest.raises(EventError, match="the last machine"):
        simulate(model, Event.trip({"G1": None, "G2": None, "G3": None}))
    bare = replace(model, **dict.fromkeys(OF_TRIPS, np.empty(0)))
    with pytest.raises(EventError, match="does not carry"):
        simulate(bare, Event.trip({"G1": None}))


def test_a_trip_without_reactive_power_takes_the_active_power_alone(model):
    active = with_active_dispatch(model)
    assert lost_power(active, "G2") == lost_power(model, "G2").real
    assert active.dispatch[: model.units] == pytest.approx(model.dispatch[: model.units])


def test_a_trip_that_the_model_does_not_survive_is_refused(model):
    growing = replace(model, A=model.A + 0.5 * np.eye(len(model.A)))
    with pytest.raises(EventError, match="not stable"):
        simulate(growing, Event.trip({"G2": None}), horizon_s=1.0)


def test_a_trip_may_say_what_was_lost(model):
    P, Q = (lost_power(model, "G2").real, lost_power(model, "G2").imag)
    own = simulate(model, Event.trip({"G2": None}), horizon_s=3.0)
    same = simulate(model, Event.trip({"G2": P}), horizon_s=3.0)
    assert same.omega == pytest.approx(own.omega, abs=1e-12)
    event = Event.parse("trip:G2=150MW, G1@1s", base_mva=100)
    assert event.steps[0].trips == {"G2": 1.5, "G1": None}
    assert event.tripped == ("G2", "G1")
    assert Q != 0
    with pytest.raises(EventError, match="cannot be read"):
        Event.parse("trip:G2=much", base_mva=100)


@pytest.mark.parametrize(
    "events", ["trip:G1@1s", "load:L1=+0.1;trip:G2@1s", "trip:G1=1.5;trip:G3@1s"]
)
def test_figures_of_a_trip_are_of_the_machines_that_stay(model, events):
    event = Event.parse(events, base_mva=model.base_mva)
    answer = simulate(model, event, horizon_s=200.0, dt_s=0.01)
    figures = read(answer, model, event)
    staying = [machine not in event.tripped for machine in model.machines]
    inertia = model.inertia[staying]
    system = model.frequency_hz * answer.omega @ inertia / inertia.sum()
    assert figures.nadir_hz == pytest.approx(system.min(), rel=1e-4)
    assert figures.settling_hz == pytest.approx(system[-1], rel=1e-3)
    assert len(figures.machine_nadir_hz) == sum(staying)
    # by differences, over a short time after the first trip, from rest
    first = Event.trip(event.steps[-1].trips)
    quick = simulate(model, first, horizon_s=1e-4, dt_s=1e-5)
    if len(event.tripped) == 1:
        slope = (quick.omega[1] - quick.omega[0]) @ inertia / inertia.sum() / 1e-5
        assert figures.initial_rocof_hz_s == pytest.approx(model.frequency_hz * slope, rel=1e-3)


def test_figures_of_a_trip_need_all_machines_that_stay(model):
    event = Event.trip({"G1": None})
    for buses in (["G2"], list(model.machines)):
        with pytest.raises(OptionError, match="a mean over all machines"):
            read(simulate(model, event, horizon_s=1.0, buses=buses), model, event)
