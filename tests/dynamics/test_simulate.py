from math import exp, inf, nan, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridveil.dynamics.events import Event, Step
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import Clock, modes, simulate
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation.errors import (
    EventError,
    GridveilError,
    InputError,
    OptionError,
    UnstableStep,
)
from helpers import (
    PAPER,
    PHYSICAL,
    few_examples,
    grids,
    ieee30_like,
    integrate_dae,
    integrate_ode,
    largest_euler_step,
    make_grid,
    random_grid,
    star,
)

SCHEMES = ("exact", "trapezoidal", "euler")
EVERYWHERE = Event.uniform(0.2)
MIXED = Event(
    (
        Step(0.0, uniform=0.05, lost=("3",)),
        Step(0.3, change={"5": 0.2, "1": -0.1}),
        Step(0.5, change={"2": -0.4}),
    )
)


def same(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def euler_step(model):
    return largest_euler_step(model.lti(np.zeros((len(model.ports), 1)), np.array([0])).A) / 2


@st.composite
def events(draw, grid, dt):
    share = st.floats(-1, 1)
    buses = st.sampled_from(grid.facts.buses)
    steps = [
        Step(
            at_s=dt * draw(st.integers(0, 100)),
            change=draw(st.dictionaries(buses, share, max_size=3)),
            uniform=draw(share),
            lost=tuple(draw(st.sets(buses, max_size=2))),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    return Event((*steps, Step(change={grid.facts.buses[0]: 0.5})))


@pytest.mark.parametrize("omega_b", [PAPER, PHYSICAL])
@pytest.mark.parametrize("scheme", SCHEMES)
@few_examples
@given(st.data())
def test_reduced_model_gives_the_full_models_frequencies_at_every_bus(scheme, omega_b, data):
    grid = data.draw(grids(omega_b))
    dt = euler_step(grid.reduced) if scheme == "euler" else 0.01
    event = data.draw(events(grid, dt))
    clock = {"horizon_s": 300 * dt, "dt_s": dt, "scheme": scheme, "buses": grid.facts.buses}
    same(simulate(grid.reduced, event, **clock).omega, simulate(grid.full, event, **clock).omega)


@pytest.mark.parametrize("load_damping", [0.0, 0.5], ids=["undamped", "damped"])
@pytest.mark.parametrize("omega_b", [PAPER, PHYSICAL])
@pytest.mark.parametrize("scheme", ["trapezoidal", "euler"])
def test_full_model_matches_a_plain_time_loop_over_the_constrained_equations(
    scheme, omega_b, load_damping
):
    grid = random_grid(buses=9, machines=4, extra_edges=4, seed=7, omega_b=omega_b)
    grid = grid.with_facts(load_damping=load_damping * (np.arange(9) % 3 > 0))
    dt = 0.01 if scheme == "trapezoidal" else euler_step(grid.full)
    loads = np.tile(EVERYWHERE.steps[0].loads(grid.full), (301, 1))
    omega, delta = integrate_dae(grid, loads, dt, scheme)
    clock = {"horizon_s": 300 * dt, "dt_s": dt, "scheme": scheme}
    same(simulate(grid.full, EVERYWHERE, **clock).omega, omega)
    # δ̇ = ω_b ω at every bus, in the scheme's own quadrature: the frequency of interior buses is
    # the rate of their angle.
    everywhere = simulate(grid.full, EVERYWHERE, **clock, buses=grid.facts.buses).omega
    over_step = everywhere[:-1] if scheme == "euler" else (everywhere[:-1] + everywhere[1:]) / 2
    same(over_step, np.diff(delta, axis=0) / (dt * omega_b))


@pytest.mark.parametrize("scheme", ["trapezoidal", "euler"])
def test_steps_at_several_times_match_the_plain_time_loop(scheme):
    grid = random_grid(buses=9, machines=4, extra_edges=4, seed=8)
    loads = np.zeros((101, 9))
    for step in MIXED.steps:
        loads[round(step.at_s / 0.01) :] += step.loads(grid.full)
    trajectory = simulate(grid.full, MIXED, horizon_s=1, scheme=scheme)
    same(trajectory.omega, integrate_dae(grid, loads, 0.01, scheme)[0])


@pytest.mark.parametrize("load_damping", [0.0, 5.0], ids=["undamped", "damped"])
@pytest.mark.parametrize("omega_b", [PAPER, PHYSICAL])
def test_exact_scheme_matches_a_runge_kutta_solution_of_the_differential_equation(
    omega_b, load_damping
):
    grid = random_grid(buses=9, machines=4, extra_edges=4, seed=9, omega_b=omega_b)
    grid = grid.with_facts(load_damping=load_damping * (np.arange(9) % 3 > 0))
    trajectory = simulate(grid.full, EVERYWHERE, horizon_s=1, dt_s=0.1)
    same(
        trajectory.omega,
        integrate_ode(grid, EVERYWHERE.steps[0].loads(grid.full), trajectory.time_s),
    )


def test_exact_scheme_has_no_step_error_and_trapezoidal_converges_to_it_at_second_order():
    model = ieee30_like(PAPER).reduced
    exact = simulate(model, EVERYWHERE, horizon_s=10, dt_s=0.1).omega
    same(simulate(model, EVERYWHERE, horizon_s=10, dt_s=0.0125).omega[::8], exact, 1e-12)
    coarse, fine = (
        np.abs(
            simulate(model, EVERYWHERE, horizon_s=10, dt_s=dt, scheme="trapezoidal").omega[
                :: round(0.1 / dt)
            ]
            - exact
        ).max()
        for dt in (0.05, 0.025)
    )
    assert coarse / fine == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_several_steps_in_a_row_are_the_sum_of_each_alone(scheme):
    model = star().reduced
    alone = [
        simulate(model, Event((step,)), horizon_s=2, scheme=scheme).omega for step in MIXED.steps
    ]
    same(simulate(model, MIXED, horizon_s=2, scheme=scheme).omega, sum(alone), 1e-13)


def test_events_joined_by_then_come_in_order_of_time():
    late, early = Event.lost(["3"], at_s=10), Event.uniform(0.1, at_s=2)
    assert late.then(early).steps == (*early.steps, *late.steps)


def test_generation_is_the_opposite_of_load():
    model = star().full
    more = simulate(model, Event.load({"5": 0.2, "1": -0.1}), horizon_s=5)
    less = simulate(model, Event.generation({"5": 0.2, "1": -0.1}), horizon_s=5)
    np.testing.assert_array_equal(less.omega, -more.omega)
    assert less.settling == -more.settling


@pytest.mark.parametrize(
    ("event", "size"),
    [(Event.uniform(0.2), 0.2), (Event.lost(["1", "2", "3", "4", "5"]), -1.0)],
    ids=["uniform", "lost"],
)
def test_uniform_and_lost_refer_to_nominal_loads(event, size):
    grid = random_grid(buses=5, machines=2, extra_edges=2, seed=2)
    for model in (grid.full, grid.reduced):
        np.testing.assert_allclose(event.steps[0].loads(model), size * model.loads, rtol=1e-15)
        bus_by_bus = Event.load(dict(zip(model.ports, size * model.loads, strict=True)))
        same(
            simulate(model, event, horizon_s=2).omega,
            simulate(model, bus_by_bus, horizon_s=2).omega,
            1e-13,
        )


@pytest.mark.parametrize("event", [EVERYWHERE, Event.lost(["5"])], ids=["uniform", "lost"])
def test_shares_of_loads_that_were_not_published_are_refused(event):
    reduced = star().reduced
    model = ReducedModel(**(vars(reduced) | {"loads": np.full(5, nan)}))
    with pytest.raises(EventError, match="no nominal loads"):
        simulate(model, event)
    assert simulate(model, Event.load({"5": 0.1}), horizon_s=1).omega.any()


def test_frequency_moves_only_from_the_event_on():
    omega = simulate(star().full, Event.load({"5": 0.2}, at_s=0.5), horizon_s=1).omega
    assert not omega[:51].any()
    assert (omega[51:] < 0).all()


@pytest.mark.parametrize("load_damping", [0.0, 0.3], ids=["undamped", "damped"])
@pytest.mark.parametrize("kind", ["full", "reduced"])
def test_every_bus_settles_at_the_settling_value(kind, load_damping):
    grid = random_grid(buses=6, machines=3, extra_edges=3, seed=4).with_facts(
        load_damping=np.full(6, load_damping)
    )
    model = getattr(grid, kind)
    trajectory = simulate(model, EVERYWHERE, horizon_s=3000, dt_s=1, buses=model.ports)
    np.testing.assert_allclose(trajectory.omega[-1], trajectory.settling, rtol=1e-9)
    gains = grid.d.sum() + grid.facts.droop_gain.sum() + 6 * load_damping
    assert trajectory.settling == pytest.approx(-0.2 * grid.facts.loads.sum() / gains)


@pytest.mark.parametrize("kind", ["full", "reduced"])
def test_modes_of_two_machines_are_those_of_the_closed_form(kind):
    # With d/m alike, the machines' difference obeys λ² + (d/m) λ + ω_b k (1/m₁ + 1/m₂) = 0.
    grid = make_grid(
        [(0, 1)],
        [3.0],
        [0, 1],
        m=[4.0, 12.0],
        d=[2.0, 6.0],
        rate=5,
        gain=0,
        loads=[0, 0],
        omega_b=PHYSICAL,
    )
    stiffness = PHYSICAL * 3.0 * (1 / 4 + 1 / 12)
    (mode,) = modes(getattr(grid, kind))
    assert mode.frequency_hz == pytest.approx(sqrt(stiffness - 0.25**2) / (2 * pi), rel=1e-12)
    assert mode.damping_ratio == pytest.approx(0.25 / sqrt(stiffness), rel=1e-12)


def test_modes_come_slowest_first_one_less_than_machines():
    found = modes(ieee30_like(PHYSICAL).reduced)
    frequencies = [mode.frequency_hz for mode in found]
    assert len(found) == 5
    assert frequencies == sorted(frequencies)
    assert 1 < frequencies[0] < frequencies[-1] < 10


def test_physical_ieee30_runs_for_a_minute_where_euler_is_refused_with_a_step_that_does():
    model = ieee30_like(PHYSICAL).reduced
    exact = simulate(model, EVERYWHERE, horizon_s=60)
    assert np.abs(exact.omega).max() < 0.1
    same(simulate(model, EVERYWHERE, horizon_s=60, scheme="trapezoidal").omega, exact.omega, 0.01)
    with pytest.raises(UnstableStep) as refused:
        simulate(model, EVERYWHERE, horizon_s=60, scheme="euler")
    assert refused.value.dt_s == 0.01
    assert refused.value.stable_dt_s == pytest.approx(2 * euler_step(model), rel=1e-9)
    stable = simulate(
        model, EVERYWHERE, horizon_s=60, dt_s=refused.value.stable_dt_s, scheme="euler"
    )
    assert np.abs(stable.omega).max() < 0.1
    with pytest.raises(UnstableStep):
        simulate(model, EVERYWHERE, dt_s=1.001 * refused.value.stable_dt_s, scheme="euler")


def test_the_step_that_a_refusal_recommends_in_words_is_stable():
    for seed in range(20):
        model = random_grid(buses=6, machines=3, extra_edges=3, seed=seed, omega_b=PHYSICAL).reduced
        with pytest.raises(UnstableStep) as refused:
            simulate(model, EVERYWHERE, dt_s=1, scheme="euler")
        said = float(refused.value.remedy.split(" s or less")[0].split()[-1])
        simulate(model, EVERYWHERE, horizon_s=10 * said, dt_s=said, scheme="euler")


def test_damping_of_interior_loads_is_better_folded_into_the_machines_than_left_out():
    grid = ieee30_like(PHYSICAL)
    damped = grid.with_facts(load_damping=np.full(30, 0.2))
    truth = simulate(damped.full, EVERYWHERE).omega
    folded, ignored = (
        np.abs(simulate(model, EVERYWHERE).omega - truth).max()
        for model in (damped.reduced, grid.reduced)
    )
    assert folded < 0.02 * ignored


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (Event.load({"5": 0.1}, at_s=0.015), "falls between two samples"),
        (Event.load({"5": 0.1}, at_s=1.01), "behind the horizon"),
        (Event.load({"6": 0.1}), "'6' is not a bus"),
        (Event.lost(["6"]), "'6' is not a bus"),
    ],
    ids=["off the clock", "after the end", "unknown bus", "unknown lost bus"],
)
def test_events_that_do_not_fit_the_model_are_refused(event, said):
    with pytest.raises(EventError, match=said) as refused:
        simulate(star().full, event, horizon_s=1)
    assert refused.value.outcome == "Nothing was simulated."
    assert refused.value.remedy


def test_a_step_at_the_last_sample_is_within_the_horizon():
    assert not simulate(star().full, Event.load({"5": 0.1}, at_s=1), horizon_s=1).omega.any()


def test_an_unknown_bus_to_observe_is_refused():
    with pytest.raises(EventError, match="'6' is not a bus"):
        simulate(star().full, EVERYWHERE, buses=["6"])


@pytest.mark.parametrize("wrong", [nan, inf, -inf])
@pytest.mark.parametrize(
    "make",
    [Event.uniform, lambda size: Event.load({"5": size}), lambda at: Event.lost(["5"], at_s=at)],
)
def test_sizes_and_times_that_are_not_finite_are_refused(make, wrong):
    with pytest.raises(EventError, match="must be finite"):
        make(wrong)


def test_a_negative_time_is_refused():
    with pytest.raises(EventError, match="not negative"):
        Event.uniform(0.1, at_s=-1)


@pytest.mark.parametrize(
    "clock",
    [
        {"horizon_s": 0},
        {"horizon_s": nan},
        {"dt_s": -0.01},
        {"dt_s": inf},
        {"horizon_s": 1, "dt_s": 2},
        {"dt_s": 1e-9},
        {"dt_s": 1e-320},
        {"scheme": "rk4"},
    ],
    ids=str,
)
def test_clocks_and_schemes_that_cannot_run_are_refused(clock):
    with pytest.raises(OptionError) as refused:
        simulate(star().full, EVERYWHERE, **clock)
    assert refused.value.outcome == "Nothing was simulated."


def test_clock_counts_steps_and_finds_samples_through_rounding():
    clock = Clock(30.0, 0.01)
    assert clock.steps == 3000
    assert clock.time_s[-1] == 30.0
    assert [clock.sample(at_s) for at_s in (0.0, 0.07, 0.1 + 0.2, 29.99)] == [0, 7, 30, 2999]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("uniform:+20%", [Step(uniform=0.2)]),
        ("uniform:-0.05 @ 10 s", [Step(10, uniform=-0.05)]),
        ("load:3=+0.2,4=15MW", [Step(change={"3": 0.2, "4": 0.15})]),
        ("load:3=0.1pu, 3=-40 mw @2.5", [Step(2.5, change={"3": -0.3})]),
        ("gen:1=-0.5@10s", [Step(10, change={"1": 0.5})]),
        ("lost:10, 30@1e1s", [Step(10, lost=("10", "30"))]),
        ("lost:5@3s; gen:a:b=1", [Step(change={"a:b": -1}), Step(3, lost=("5",))]),
    ],
)
def test_events_are_read_as_written(text, steps):
    found = Event.parse(text, base_mva=100).steps
    assert [(step.at_s, step.uniform, step.lost, list(step.change)) for step in found] == [
        (step.at_s, step.uniform, step.lost, list(step.change)) for step in steps
    ]
    for step, expected in zip(found, steps, strict=True):
        assert step.change == pytest.approx(expected.change)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "uniform",
        "uniform:",
        "uniform:%",
        "uniform:much",
        "uniform:1%@soon",
        "uniform:1%@10ms",
        "uniform:1%@1@2",
        "load:5",
        "load:5=",
        "load:5=MW",
        "load:5=0.1kW",
        "load:5=0.1;nonsense",
        "loss:5",
        "load 5=0.1",
    ],
)
def test_events_that_cannot_be_read_are_refused_with_the_grammar(text):
    with pytest.raises(EventError, match="cannot be read") as refused:
        Event.parse(text, base_mva=100)
    assert "uniform:+20%" in refused.value.expected


@pytest.mark.parametrize("text", ["uniform:nan%", "load:5=inf", "lost:5@-1s"])
def test_events_that_read_well_but_make_no_sense_are_refused(text):
    with pytest.raises(EventError):
        Event.parse(text, base_mva=100)


def test_a_bus_is_lost_only_once():
    (step,) = Event.lost(["5", "5"]).steps
    np.testing.assert_array_equal(step.loads(star().full), [0, 0, 0, 0, -0.1])


def test_an_event_without_steps_is_refused():
    with pytest.raises(GridveilError):
        simulate(star().full, Event(()))


def trajectory_of(function, horizon_s=10.0, dt_s=0.01):
    time_s = Clock(horizon_s, dt_s).time_s
    return Trajectory(time_s, function(time_s)[:, None], ("7",), frequency_hz=50.0, settling=-0.001)


def test_nadir_is_the_largest_deviation_with_its_sign_and_time():
    (response,) = trajectory_of(lambda t: -0.02 * t * np.exp(-t)).responses()
    assert response.bus == "7"
    assert response.nadir_s == pytest.approx(1, abs=1e-4)  # a hundredth of a step
    assert response.nadir_hz == pytest.approx(-50 * 0.02 / exp(1))
    assert response.settling_hz == pytest.approx(-0.05)
    (upwards,) = trajectory_of(lambda t: 0.02 * t * np.exp(-t)).responses()
    assert upwards.nadir_hz == -response.nadir_hz


def test_rocof_is_the_steepest_mean_slope_over_half_a_second():
    (ramp,) = trajectory_of(lambda t: -0.004 * np.clip(t - 2, 0, 1)).responses()
    assert ramp.rocof_hz_s == pytest.approx(-0.2)
    (short,) = trajectory_of(lambda t: 0.004 * np.clip(t - 2, 0, 0.25)).responses()
    assert short.rocof_hz_s == pytest.approx(0.1)


def test_rocof_counts_the_rest_before_the_record():
    (short,) = trajectory_of(lambda t: 0.004 * t, 0.2, 0.01).responses()
    assert short.rocof_hz_s == pytest.approx(0.004 * 0.2 * 50 / 0.5)
    (coarse,) = trajectory_of(lambda t: 0.004 * t, 4.0, 2.0).responses()
    assert coarse.rocof_hz_s == pytest.approx(0.2)


def test_trajectory_becomes_a_frame_in_hertz():
    trajectory = simulate(star().full, Event.load({"5": 0.2}), horizon_s=1, buses=["2", "5"])
    frame = trajectory.to_frame()
    assert list(frame.columns) == ["2", "5"]
    assert frame.index.name == "time_s"
    np.testing.assert_array_equal(frame.index, trajectory.time_s)
    np.testing.assert_array_equal(frame.to_numpy(), 60 * trajectory.omega)


def test_trajectory_survives_csv_to_the_last_bit():
    trajectory = simulate(star().full, Event.load({"5": 0.2}), horizon_s=1, buses=["2", "5"])
    header, *rows = trajectory.to_csv().splitlines()
    assert header == "time_s,omega_2_pu,omega_5_pu"
    read = [[float(cell) for cell in row.split(",")] for row in rows]
    np.testing.assert_array_equal(read, np.column_stack([trajectory.time_s, trajectory.omega]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"machines": []}, "no machine"),
        ({"buses": ("1", "1", "3", "4", "5")}, "bus 1 occurs twice"),
        ({"governor_rate": [1.0]}, "shape"),
        ({"loads": [nan, 0, 0, 0, 0]}, "not finite"),
        ({"droop_gain": [-1.0, 0, 0, 0]}, "negative"),
        ({"omega_b": 0.0}, "omega_b is 0"),
        ({"edges": [[0, 0]]}, "joins a bus to itself"),
        ({"edges": [[0, 1], [1, 2], [2, 3]]}, "not connected"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value,
)
def test_facts_that_make_no_grid_are_refused(changes, said):
    with pytest.raises(InputError, match=said):
        star().with_facts(**changes)
