"""Ramps of load: exact for linear models, in every family, against closed forms and fine steps."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.events import Event, Step
from gridveil.dynamics.metrics import compare, measure, read
from gridveil.dynamics.models import port_positions
from gridveil.dynamics.simulate import simulate
from gridveil.foundation.errors import EventError
from helpers import PHYSICAL, ieee30_like, make_grid
from small_detailed import small_case

RAMP = "ramp:1=+0.4@0.5s..2.5s"


def one_machine():
    """One machine without a governor: m ω' = −d ω − u."""
    rest = {"rate": 0.0, "gain": 0.0, "loads": [0.1, 0.1]}
    return make_grid([(0, 1)], [10.0], [0], 8.0, 4.0, **rest).reduced


def small_model():
    case = small_case()
    return linearise(case, solve(case), np.array([3, 4, 5]))


def staircase(event_at, size, begin, end, stairs):
    """The same ramp as many small steps, each at the middle of its stair."""
    width = (end - begin) / stairs
    times = begin + width * (np.arange(stairs) + 0.5)
    return [Step(float(t), change={event_at: size / stairs}) for t in times]


def test_a_ramp_of_one_machine_is_its_closed_form():
    # m ω' = −d ω − s t for 0 ≤ t ≤ T: ω = −(s/d) (t − τ (1 − e^(−t/τ))), τ = m/d; after T the
    # same less the same, T later.
    m, d, size, T, begin = 8.0, 4.0, 0.4, 2.0, 0.5
    trajectory = simulate(one_machine(), RAMP, horizon_s=6.0, dt_s=0.05)
    tau, slope = m / d, size / T

    def rising(t):
        t = np.maximum(t, 0.0)
        return -(slope / d) * (t - tau * (1 - np.exp(-t / tau)))

    t = trajectory.time_s - begin
    np.testing.assert_allclose(trajectory.omega[:, 0], rising(t) - rising(t - T), atol=1e-14)
    assert trajectory.settling == pytest.approx(-size / d)


@pytest.mark.parametrize("family", ["swing", "full", "detailed"])
def test_a_ramp_is_what_a_fine_integration_of_the_equations_gives(family):
    if family == "detailed":
        model, place = small_model(), small_model().ports[-1]
    else:
        grid = ieee30_like(PHYSICAL)
        model, place = getattr(grid, "reduced" if family == "swing" else family), "30"
    event = Event.parse(f"ramp:{place}=+0.3@0.2s..1.2s")
    mine = simulate(model, event, horizon_s=2.0, dt_s=0.1)
    drive = event.steps[0].whole(model)[:, None]
    lti = model.lti(drive, port_positions(model, mine.buses))

    def load(t):
        return np.clip(t - 0.2, 0.0, 1.0)

    solved = solve_ivp(
        lambda t, x: lti.A @ x + lti.B[:, 0] * load(t),
        (0, 2.0),
        np.zeros(lti.states),
        method="Radau",
        t_eval=mine.time_s,
        rtol=1e-9,
        atol=1e-12,
        max_step=0.02,
        jac=lti.A,
    )
    expected = (lti.C @ solved.y + lti.D * load(mine.time_s)).T
    np.testing.assert_allclose(mine.omega, expected, atol=2e-7 * np.abs(expected).max())


@pytest.mark.parametrize("scheme", ["exact", "trapezoidal"])
def test_a_ramp_in_two_halves_is_the_whole(scheme):
    model = ieee30_like(PHYSICAL).reduced
    options = {"horizon_s": 4.0, "dt_s": 0.01, "scheme": scheme}
    whole = simulate(model, "ramp:30=+0.4@1s..3s", **options)
    halves = simulate(model, "ramp:30=+0.2@1s..2s; ramp:30=+0.2@2s..3s", **options)
    np.testing.assert_allclose(halves.omega, whole.omega, atol=1e-12)
    assert halves.settling == pytest.approx(whole.settling)


def test_many_small_steps_come_near_a_ramp_as_the_square_of_their_size():
    model = ieee30_like(PHYSICAL).reduced
    options = {"horizon_s": 3.0, "dt_s": 0.005}
    ramp = simulate(model, "ramp:30=+0.4@0.5s..2.5s", **options)
    off = []
    for stairs in (10, 20, 40):
        steps = staircase("30", 0.4, 0.5, 2.5, stairs)
        stepped = simulate(model, Event(tuple(steps)), **options)
        off.append(np.abs(stepped.omega - ramp.omega)[-1].max())
    assert off[2] < off[1] < off[0] < 0.05 * np.abs(ramp.omega).max()


def test_a_ramp_that_outlasts_the_horizon_is_still_rising():
    model = one_machine()
    long = simulate(model, "ramp:1=+0.4@0s..20s", horizon_s=5.0, dt_s=0.05)
    longer = simulate(model, "ramp:1=+0.8@0s..40s", horizon_s=5.0, dt_s=0.05)
    np.testing.assert_allclose(long.omega, longer.omega, atol=1e-15)
    assert longer.settling == pytest.approx(2 * long.settling)


def test_a_large_model_takes_ramps_as_the_trapezoidal_rule_does(monkeypatch):
    model = ieee30_like(PHYSICAL).reduced
    options = {"horizon_s": 3.0, "dt_s": 0.01, "buses": ["1", "30"], "scheme": "trapezoidal"}
    event = "ramp:30=+0.1@0.5s..1.5s; load:1=-0.2@1s"
    small = simulate(model, event, **options)
    monkeypatch.setattr("gridveil.dynamics.simulate.LARGE", 5)
    large = simulate(model, event, **options)
    np.testing.assert_allclose(large.omega, small.omega, atol=1e-11 * np.abs(small.omega).max())


def test_a_ramp_beside_a_trip_is_what_it_is_without_one_until_the_machine_leaves():
    model = small_model()
    place = model.ports[-1]
    gone = model.machines[-1]
    options = {"horizon_s": 3.0, "dt_s": 0.02, "buses": [model.machines[0]]}
    ramp = simulate(model, f"ramp:{place}=+0.02@0.2s..2.2s", **options)
    both = simulate(model, f"ramp:{place}=+0.02@0.2s..2.2s; trip:{gone}@1s", **options)
    before = ramp.time_s < 0.99
    np.testing.assert_allclose(both.omega[before], ramp.omega[before], atol=1e-12)
    # Superposition: the same trip alone, and what the ramp adds to it is linear in its size.
    alone = simulate(model, f"trip:{gone}@1s", **options)
    double = simulate(model, f"ramp:{place}=+0.04@0.2s..2.2s; trip:{gone}@1s", **options)
    once, twice = both.omega - alone.omega, double.omega - alone.omega
    np.testing.assert_allclose(twice, 2 * once, atol=1e-10 * np.abs(twice).max())
    assert both.settling == pytest.approx(
        simulate(model, f"load:{place}=+0.02@0.2s; trip:{gone}@1s", **options).settling
    )


def test_figures_of_a_ramp_are_those_of_its_trajectory():
    model = ieee30_like(PHYSICAL).reduced
    event = Event.parse("ramp:30=+0.4@1s..3s")
    figures = measure(model, [event], horizon_s=20.0, dt_s=0.02)
    trajectory = simulate(model, event, horizon_s=20.0, dt_s=0.02)
    mine = read(trajectory, model, event)
    np.testing.assert_allclose(figures.nadir_hz[0], mine.nadir_hz)
    np.testing.assert_allclose(figures.rocof_hz_s[0], mine.rocof_hz_s)
    assert figures.initial_rocof_hz_s[0] == 0.0  # nothing happens at once
    same = compare(model, model, [event], horizon_s=5.0, dt_s=0.02)
    assert same.L[0] == 0.0


def test_what_knows_steps_alone_refuses_a_ramp():
    with pytest.raises(EventError, match="a ramp cannot be used here"):
        Event.parse(RAMP).steps[0].loads(one_machine())


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("ramp:1=+0.4", "from when to when"),
        ("ramp:1=+0.4@3s..3s", "from when to when"),
        ("load:1=+0.4@3s..2s", "from when to when"),
        ("ramp:1=+0.4@0s..0.03s", "falls between two samples"),
        ("trip:1@1s..2s", "a trip has one time"),
    ],
)
def test_a_ramp_that_cannot_be_is_refused(text, match):
    with pytest.raises(EventError, match=match):
        simulate(one_machine(), text, horizon_s=5.0, dt_s=0.05)


@pytest.mark.parametrize(
    "text",
    [
        "load:G1=+0.1",
        "load:G1=-0.3,G2=+0.2@2s; uniform:+20%@10s",
        "ramp:G1=+0.2@5s..15s",
        "uniform:+5%@1s..2s",
        "lost:L1,L2; trip:G3=0.5@2s",
    ],
)
def test_an_event_says_itself_in_words_that_parse_reads(text):
    event = Event.parse(text)
    assert Event.parse(event.in_words()) == event
    assert event.in_words() == text
