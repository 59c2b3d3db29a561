import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm

from baseline import objective_and_gradient
from gridveil.dynamics.engine import LTI, SCHEMES, LinearFamily, Objective, SampledRecord
from gridveil.dynamics.engine.propagate import (
    STEPPING_FROM,
    BlockLayout,
    step_responses,
    takes_steps,
)
from gridveil.dynamics.swing import DrivenSwingFamily, SwingFamily
from gridveil.grid.parameters import Bounds, Group, Range
from helpers import (
    PAPER,
    PHYSICAL,
    few_examples,
    forward_sensitivities,
    grids,
    ieee30_like,
    plain_swing,
    random_grid,
    transition,
    transition_slope,
)

DT = 0.05
PATHS = ("block", "stepping")
REDUCED = random_grid(buses=6, machines=3, extra_edges=3, seed=11).reduced
DRIVE = np.random.default_rng(0).uniform(0, 0.5, (6, 2))
PORTS = {
    "all machines": [0, 1, 2],
    "one machine": [1],
    "interior buses": [3, 5],
    "gaps": [0, 2],
    "even weights": [0, 2],
}
# (samples, steps) of each record; a step is (sample, input).
EVENTS = {
    "step at 0": [(40, ((0, 0),))],
    "step later": [(40, ((7, 1),))],
    "two records": [(40, ((0, 0),)), (23, ((5, 1),))],
    "steps in a record": [(40, ((9, 1), (0, 0), (4, 0))), (31, ((2, 1),))],
}


def same(actual, expected, tolerance):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def swing_family(reduced=REDUCED, drive=DRIVE, ports=(0, 1, 2)):
    return SwingFamily(
        reduced.edges,
        governor_rate=reduced.governor_rate,
        droop_gain=reduced.droop_gain,
        omega_b=reduced.omega_b,
        drive=reduced.port_map @ drive,
        sense=reduced.port_map.T[list(ports)],
        bounds=Bounds(),
    )


def driven_family():
    return DrivenSwingFamily(
        REDUCED.edges,
        inputs=2,
        governor_rate=REDUCED.governor_rate,
        droop_gain=REDUCED.droop_gain,
        omega_b=REDUCED.omega_b,
        sense=np.eye(3),
        bounds=Bounds(),
    )


def plain_family(reduced=REDUCED, drive=DRIVE, ports=(0, 1, 2)):
    return plain_swing(reduced, reduced.port_map @ drive, reduced.port_map.T[list(ports)])


def make_records(events, outputs, gaps=False, even=False, seed=1):
    rng = np.random.default_rng(seed)
    records = []
    for samples, steps in events:
        observed, weights = (
            0.02 * rng.standard_normal((samples, outputs)),
            rng.uniform(0, DT, (samples, outputs)),
        )
        if even:
            weights[:] = DT
        if gaps:
            observed[rng.random(observed.shape) < 0.3] = np.nan
            weights[rng.random(weights.shape) < 0.3] = 0.0
        records.append(SampledRecord(steps, observed, weights))
    return records


def near(theta, models, seed=2):
    return theta * np.random.default_rng(seed).uniform(0.7, 1.4, (models, len(theta)))


every_event = pytest.mark.parametrize("event", EVENTS)
every_output = pytest.mark.parametrize("outputs", PORTS)
every_path = pytest.mark.parametrize("path", PATHS)
every_scheme = pytest.mark.parametrize("scheme", SCHEMES)
every_batch = pytest.mark.parametrize("models", [None, 3], ids=["single", "batch"])


def make_case(event, outputs, models=None):
    ports = PORTS[outputs]
    theta = REDUCED.theta if models is None else near(REDUCED.theta, models)
    return (
        ports,
        make_records(
            EVENTS[event], len(ports), gaps=outputs == "gaps", even=outputs == "even weights"
        ),
        theta,
    )


@every_scheme
@every_path
@every_event
@every_output
@every_batch
def test_objective_and_gradient_equal_a_plain_loop_with_forward_sensitivities(
    scheme, path, event, outputs, models
):
    ports, records, theta = make_case(event, outputs, models)
    J, gradient = Objective(swing_family(ports=ports), records, dt_s=DT, scheme=scheme, path=path)(
        theta
    )
    assert J.shape == theta.shape[:-1]
    assert gradient.shape == theta.shape
    expected = [
        forward_sensitivities(plain_family(ports=ports), row, records, DT, scheme)
        for row in np.atleast_2d(theta)
    ]
    np.testing.assert_allclose(np.atleast_1d(J), [value for value, _ in expected], rtol=1e-12)
    for row, (_, slope) in zip(np.atleast_2d(gradient), expected, strict=True):
        same(row, slope, 1e-9)


@every_scheme
@every_path
@every_event
@every_output
def test_gradient_equals_central_differences(scheme, path, event, outputs):
    ports, records, theta = make_case(event, outputs)
    objective = Objective(swing_family(ports=ports), records, dt_s=DT, scheme=scheme, path=path)
    nudge = 1e-4 * theta
    J = objective(theta + np.concatenate([np.diag(nudge), -np.diag(nudge)]))[0]
    same(objective(theta)[1], (J[: len(theta)] - J[len(theta) :]) / (2 * nudge), 1e-6)


@every_scheme
@every_event
@every_output
@every_batch
def test_both_paths_agree(scheme, event, outputs, models):
    ports, records, theta = make_case(event, outputs, models)
    (J, gradient), (J_stepped, gradient_stepped) = (
        Objective(swing_family(ports=ports), records, dt_s=DT, scheme=scheme, path=path)(theta)
        for path in PATHS
    )
    np.testing.assert_allclose(J, J_stepped, rtol=1e-12)
    same(gradient, gradient_stepped, 1e-10)


@every_scheme
@every_path
@pytest.mark.parametrize("event", ["two records", "steps in a record"])
@pytest.mark.parametrize("models", [1, 16, 17, 40])
def test_a_batch_equals_a_loop_over_its_models(scheme, path, event, models):
    ports, records, theta = make_case(event, "interior buses", models)
    objective = Objective(swing_family(ports=ports), records, dt_s=DT, scheme=scheme, path=path)
    J, gradient = objective(theta)
    for row, value, slope in zip(theta, J, gradient, strict=True):
        J_alone, alone = objective(row)
        assert value == pytest.approx(J_alone, rel=1e-12)
        same(slope, alone, 1e-12)


@pytest.mark.parametrize("omega_b", [PAPER, PHYSICAL])
@every_scheme
@few_examples
@given(st.data())
def test_gradient_is_exact_on_random_networks(scheme, omega_b, data):
    reduced = data.draw(grids(omega_b)).reduced
    seed = data.draw(st.integers(0, 2**32 - 1))
    drive = np.random.default_rng(seed).standard_normal((len(reduced.ports), 2))
    ports = data.draw(
        st.lists(st.sampled_from(range(len(reduced.ports))), min_size=1, max_size=4, unique=True)
    )
    records = make_records(
        EVENTS[data.draw(st.sampled_from(list(EVENTS)))],
        len(ports),
        gaps=data.draw(st.booleans()),
        seed=seed,
    )
    theta, dt = reduced.theta, 0.002
    J, gradient = forward_sensitivities(
        plain_family(reduced, drive, ports), theta, records, dt, scheme
    )
    for path in PATHS:
        found = Objective(
            swing_family(reduced, drive, ports), records, dt_s=dt, scheme=scheme, path=path
        )(theta)
        assert found[0] == pytest.approx(J, rel=1e-11)
        same(found[1], gradient, 1e-9)


def test_euler_equals_the_benchmarks_baseline():
    reduced = ieee30_like(PAPER).reduced
    u = reduced.port_map @ (0.2 * reduced.loads)
    observed = 0.01 * np.random.default_rng(3).standard_normal((301, 6))
    theta = near(reduced.theta, 20)
    expected = objective_and_gradient(
        theta,
        reduced.edges,
        reduced.governor_rate,
        reduced.droop_gain,
        reduced.omega_b,
        u,
        observed,
        0.01,
    )
    record = SampledRecord(((0, 0),), observed, np.full(observed.shape, 0.01))
    family = swing_family(reduced, 0.2 * reduced.loads[:, None], range(6))
    for path in PATHS:
        J, gradient = Objective(family, [record], dt_s=0.01, scheme="euler", path=path)(theta)
        np.testing.assert_allclose(J, expected[0], rtol=1e-10)
        same(gradient, expected[1], 1e-10)


@every_scheme
@every_path
@every_event
@every_batch
def test_engine_runs_unchanged_on_a_strict_array_api(scheme, path, event, models):
    ports, records, theta = make_case(event, "gaps", models)
    J, gradient = Objective(swing_family(ports=ports), records, dt_s=DT, scheme=scheme, path=path)(
        theta
    )
    family = swing_family(ports=ports)
    objective = Objective(family, records, dt_s=DT, scheme=scheme, path=path)
    strict = objective(array_api_strict.asarray(theta))
    assert all(isinstance(part, type(array_api_strict.asarray(0.0))) for part in strict)
    np.testing.assert_allclose(np.asarray(strict[0]), J, rtol=1e-13)
    same(np.asarray(strict[1]), gradient, 1e-13)


@every_scheme
@every_path
@every_event
def test_prediction_is_what_the_objective_compares(scheme, path, event):
    ports, records, theta = make_case(event, "gaps", 3)
    objective = Objective(swing_family(ports=ports), records, dt_s=DT, scheme=scheme, path=path)
    predicted = objective.predict(theta)
    assert predicted.shape == (3, len(records), 40, len(ports))
    J = sum(
        np.nansum(
            record.weights * (predicted[:, r, : len(record.observed)] - record.observed) ** 2,
            axis=(1, 2),
        )
        for r, record in enumerate(records)
    )
    np.testing.assert_allclose(objective(theta)[0], J, rtol=1e-12)


@every_path
@every_event
def test_objective_and_gradient_vanish_at_the_truth(path, event):
    ports, records, theta = make_case(event, "all machines")
    truth = Objective(swing_family(ports=ports), records, dt_s=DT, path=path).predict(theta)
    seen = [
        SampledRecord(r.steps, truth[i, : len(r.observed)], r.weights)
        for i, r in enumerate(records)
    ]
    J, gradient = Objective(swing_family(ports=ports), seen, dt_s=DT, path=path)(theta)
    size = sum((record.weights * record.observed**2).sum() for record in seen)
    assert 0 <= J < 1e-27 * size
    assert np.abs(gradient).max() < 1e-12 * size


def test_what_is_seen_before_the_step_counts_but_does_not_pull():
    steps, weights = ((10, 0),), np.ones((20, 3))
    still, stirred = np.zeros((20, 3)), np.zeros((20, 3))
    stirred[:10] = 0.1
    for path in PATHS:
        quiet, loud = (
            Objective(swing_family(), [SampledRecord(steps, seen, weights)], dt_s=DT, path=path)(
                REDUCED.theta
            )
            for seen in (still, stirred)
        )
        assert loud[0] - quiet[0] == pytest.approx(0.3)
        np.testing.assert_array_equal(loud[1], quiet[1])


@every_path
@pytest.mark.parametrize("even", [True, False], ids=["even weights", "uneven weights"])
@pytest.mark.parametrize("sample", [0, 3])
def test_a_record_without_an_event_is_a_constant(path, even, sample):
    quiet, stirred = make_records([(20, ()), (20, ((sample, 0),))], 3, even=even)
    both = Objective(swing_family(), [quiet, stirred], dt_s=DT, path=path)(REDUCED.theta)
    alone = Objective(swing_family(), [stirred], dt_s=DT, path=path)(REDUCED.theta)
    assert both[0] - alone[0] == pytest.approx((quiet.weights * quiet.observed**2).sum())
    same(both[1], alone[1], 1e-13)


@every_scheme
def test_a_batch_may_be_smaller_than_the_number_of_cores(scheme, monkeypatch):
    ports, records, theta = make_case("two records", "gaps", 17)
    objective = Objective(swing_family(ports=ports), records, dt_s=DT, scheme=scheme)
    expected = objective(theta[:16])
    monkeypatch.setattr("gridveil.dynamics.engine.objective._cores", lambda: 64)
    J, gradient = objective(theta)
    np.testing.assert_allclose(J[:16], expected[0], rtol=1e-12)
    same(gradient[:16], expected[1], 1e-12)


def random_bar(lti, rng):
    return LTI(rng.standard_normal(lti.F.shape), rng.standard_normal(lti.H.shape), lti.states)


@pytest.mark.parametrize("shape", [(), (4,)], ids=["single", "batch"])
def test_swing_familys_pull_equals_a_complex_step(shape):
    rng = np.random.default_rng(5)
    family = swing_family()
    theta = REDUCED.theta * rng.uniform(0.5, 2, (*shape, family.size))
    bar = random_bar(family.lti(theta), rng)
    same(family.pull(theta, bar), LinearFamily.pull(family, theta, bar), 1e-13)


@few_examples
@given(grids(PHYSICAL))
def test_swing_family_has_the_markov_parameters_of_the_swing_equations(grid):
    reduced = grid.reduced
    drive, ports = np.eye(len(reduced.ports)), range(len(reduced.ports))
    family, plain = swing_family(reduced, drive, ports), plain_family(reduced, drive, ports)
    ours, theirs = family.lti(reduced.theta), plain(reduced.theta)
    for power in range(6):
        same(
            ours.C @ np.linalg.matrix_power(ours.A, power) @ ours.B,
            theirs.C @ np.linalg.matrix_power(theirs.A, power) @ theirs.B,
            1e-12,
        )


@pytest.mark.parametrize("shape", [(), (4,)], ids=["single", "batch"])
def test_driven_familys_pull_equals_a_complex_step(shape):
    rng = np.random.default_rng(9)
    family = driven_family()
    theta = np.append(REDUCED.theta, (REDUCED.port_map @ DRIVE).T) * rng.uniform(
        0.5, 2, (*shape, family.size)
    )
    bar = random_bar(family.lti(theta), rng)
    same(family.pull(theta, bar), LinearFamily.pull(family, theta, bar), 1e-13)


def test_driven_family_at_the_drive_of_a_swing_family_is_that_family():
    ours, fixed = (
        driven_family().lti(np.append(REDUCED.theta, (REDUCED.port_map @ DRIVE).T)),
        swing_family().lti(REDUCED.theta),
    )
    same(ours.F, fixed.F, 1e-15)
    np.testing.assert_array_equal(ours.H, fixed.H)


def test_swing_family_names_its_groups():
    assert [(group.name, group.size) for group in swing_family().groups] == [
        ("k_r", 3),
        ("m", 3),
        ("d", 3),
    ]


class Oscillator(LinearFamily):
    """ÿ + b ẏ + a y = u, seen through (a y + ẏ + b u, u): all of A, C and D move with θ = (a,
    b).
    """

    groups = (Group("a", 1, Range(0, 10)), Group("b", 1, Range(0, 10)))

    def lti(self, theta):
        a, b = theta[..., 0], theta[..., 1]
        rows = [[0 * a, 0 * a + 1, 0 * a], [-a, -b, 0 * a + 1], [0 * a] * 3]
        outputs = [[a, 0 * a + 1, b], [0 * a, 0 * a, 0 * a + 1]]
        F, H = (
            np.stack([np.stack(row, axis=-1) for row in matrix], axis=-2)
            for matrix in (rows, outputs)
        )
        return LTI(F, H, 2)


@every_scheme
@every_path
@every_batch
@pytest.mark.parametrize("event", ["step later", "steps in a record"])
def test_another_family_works_through_the_default_pull(scheme, path, models, event):
    family = Oscillator()
    events = [
        (samples, tuple((sample, 0) for sample, _ in steps)) for samples, steps in EVENTS[event]
    ]
    records = make_records(events, 2, gaps=True)
    theta = np.array([3.0, 0.4]) if models is None else near(np.array([3.0, 0.4]), models)
    J, gradient = Objective(family, records, dt_s=DT, scheme=scheme, path=path)(theta)
    for row, value, slope in zip(
        np.atleast_2d(theta), np.atleast_1d(J), np.atleast_2d(gradient), strict=True
    ):
        expected = forward_sensitivities(family.lti, row, records, DT, scheme)
        assert value == pytest.approx(expected[0], rel=1e-12)
        same(slope, expected[1], 1e-9)


def test_default_pull_runs_on_a_strict_array_api():
    rng = np.random.default_rng(6)
    theta = near(REDUCED.theta, 2)
    bar = random_bar(swing_family().lti(theta), rng)
    strict_bar = LTI(array_api_strict.asarray(bar.F), array_api_strict.asarray(bar.H), bar.states)
    strict = LinearFamily.pull(swing_family(), array_api_strict.asarray(theta), strict_bar)
    same(np.asarray(strict), swing_family().pull(theta, bar), 1e-13)


@pytest.mark.parametrize("omega_b", [PAPER, PHYSICAL])
@pytest.mark.parametrize("dt", [1e-4, 0.01, 0.1])
def test_exact_transition_is_the_matrix_exponential(omega_b, dt):
    reduced = random_grid(9, 5, 4, seed=12, omega_b=omega_b).reduced
    F = plain_family(reduced, np.eye(9), [0])(reduced.theta).F
    same(SCHEMES["exact"](F, dt)[0], expm(dt * F), 1e-13)


@pytest.mark.parametrize("norm", [0.25, 0.5, 0.500001, 1.0, 30.0])
def test_exact_transition_holds_where_the_series_is_longest(norm):
    # Entries of one sign make the remainder as large as its bound; at a norm of 1/2 nothing is
    # halved yet.
    E = SCHEMES["exact"](np.full((4, 4), norm / 4), 1.0)[0]
    same(E, np.eye(4) + (np.exp(norm) - 1) / 4, 1e-13)


def test_exact_transition_of_nothing_is_the_identity():
    np.testing.assert_array_equal(SCHEMES["exact"](np.zeros((3, 3)), 0.1)[0], np.eye(3))


def test_trapezoidal_transition_is_cayleys():
    F, eye = plain_family()(REDUCED.theta).F, np.eye(11)
    E = SCHEMES["trapezoidal"](F, DT)[0]
    same(E, np.linalg.inv(eye - DT / 2 * F) @ (eye + DT / 2 * F), 1e-13)


def test_euler_transition_is_one_step_of_the_generator():
    F = plain_family()(REDUCED.theta).F
    same(SCHEMES["euler"](F, DT)[0], np.eye(11) + DT * F, 1e-15)


@every_scheme
@pytest.mark.parametrize("shape", [(), (3,)], ids=["single", "batch"])
def test_scheme_pulls_back_what_it_pushes_forward(scheme, shape):
    rng = np.random.default_rng(8)
    F, dF, E_bar = 5 * rng.standard_normal((3, *shape, 6, 6))
    rule = SCHEMES[scheme]
    F_bar = rule(F, 0.3)[1](E_bar)
    pushed = [
        transition_slope(*pair, 0.3, scheme)
        for pair in zip(F.reshape(-1, 6, 6), dF.reshape(-1, 6, 6), strict=True)
    ]
    np.testing.assert_allclose(
        np.vdot(F_bar, dF), np.vdot(E_bar.reshape(-1, 6, 6), pushed), rtol=1e-10
    )


@few_examples
@given(st.lists(st.integers(1, 3), max_size=2), *(st.integers(1, top) for top in (4, 70, 5)))
def test_series_survive_being_packed_into_blocks(lead, columns, samples, outputs):
    series = np.random.default_rng(0).standard_normal((*lead, columns, samples, outputs))
    layout = BlockLayout.of(samples, outputs, columns)
    blocks = layout.pack(series)
    assert blocks.shape == (*lead, layout.block_length * outputs, layout.block_count * columns)
    np.testing.assert_array_equal(layout.unpack(blocks, columns), series)


@every_path
@pytest.mark.parametrize("samples", [1, 2, 3, 8, 61])
@pytest.mark.parametrize("inputs", [(0,), (1, 0, 1)], ids=str)
def test_step_responses_are_powers_of_the_transition(path, samples, inputs):
    lti = plain_family()(REDUCED.theta)
    found = step_responses(lti, inputs, samples, dt_s=DT, scheme="exact", path=path)
    E = transition(lti.F, DT, "exact")
    expected = [
        [lti.H @ np.linalg.matrix_power(E, n)[:, lti.states + column] for n in range(samples)]
        for column in inputs
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


@every_path
@pytest.mark.parametrize("samples", [1, 2, 3, 17])
@pytest.mark.parametrize("steps", [((0, 0),), ((0, 0), (1, 1))], ids=["one step", "two steps"])
def test_short_records_have_exact_gradients_too(path, samples, steps):
    records = make_records([(samples, steps)], 3)
    J, gradient = Objective(swing_family(), records, dt_s=DT, path=path)(REDUCED.theta)
    expected = forward_sensitivities(plain_family(), REDUCED.theta, records, DT, "exact")
    assert pytest.approx(expected[0], rel=1e-12) == J
    np.testing.assert_allclose(
        gradient, expected[1], rtol=0, atol=1e-9 * np.abs(expected[1]).max() + 1e-300
    )


def test_large_models_take_steps_by_themselves():
    small, large = (
        LTI(np.zeros((n, n)), np.zeros((1, n)), n - 1) for n in (STEPPING_FROM, STEPPING_FROM + 1)
    )
    assert [takes_steps(model, "auto") for model in (small, large)] == [False, True]
    assert [takes_steps(large, path) for path in PATHS] == [False, True]


@pytest.mark.parametrize("away", [0.0, 1e-7, 1e-3, 0.1], ids=str)
@pytest.mark.parametrize("noise", [0.0, 1e-3], ids=["smooth", "noisy"])
@pytest.mark.parametrize("samples", [96, 301])
@pytest.mark.parametrize("xp", [np, array_api_strict], ids=["numpy", "strict"])
def test_a_batch_near_its_record_has_each_models_own_mismatch(away, noise, samples, xp):
    # of smooth records Y is of low rank, of noisy ones it is not; near them J is all cancellation
    family, steps = swing_family(), ((0, 0),)
    record = SampledRecord(steps, np.zeros((samples, 3)), np.full((samples, 3), 0.5))
    rng = np.random.default_rng(4)
    truth = Objective(family, [record], dt_s=DT).predict(REDUCED.theta)[0]
    seen = truth + noise * rng.standard_normal(truth.shape)
    objective = Objective(family, [SampledRecord(steps, seen, record.weights)], dt_s=DT)
    theta = REDUCED.theta * (1 + away * rng.uniform(-1, 1, (6, family.size)))
    each = [objective(row) for row in theta]
    J, gradient = objective(xp.asarray(theta))
    size = 0.5 * (seen**2).sum()
    np.testing.assert_allclose(
        np.asarray(J), [one for one, _ in each], rtol=1e-10, atol=1e-26 * size
    )
    slopes = np.array([slope for _, slope in each])
    scale = np.abs(objective(1.1 * REDUCED.theta)[1]).max()
    np.testing.assert_allclose(np.asarray(gradient), slopes, rtol=0, atol=1e-11 * scale)
