"""The trapezoidal rule on the swing equations as they stand is the engine's own scheme, without its
(3g)² matrix.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse
from scipy.sparse.linalg import splu

from gridveil.dynamics import simulate as dynamics
from gridveil.dynamics.engine.propagate import step_responses
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import laplacian
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import modes, simulate
from gridveil.dynamics.simulate_large import swing_responses
from gridveil.foundation.errors import OptionError
from helpers import PAPER, PHYSICAL, few_examples, grids, ieee30_like, random_grid, star

SAMPLES, DT = 400, 0.01


def patterns(model, count=3, seed=1):
    """Load patterns (ports, count): random ones, then a single bus each."""
    drive = np.random.default_rng(seed).normal(size=(len(model.ports), count))
    drive[:, -1] = 0
    drive[-1, -1] = 0.3
    return drive


def by_engine(model, drive, sense, samples, dt_s, scheme):
    return step_responses(
        model.lti(drive, sense), range(drive.shape[1]), samples, dt_s=dt_s, scheme=scheme
    )


def agrees_with_the_engine(model, samples=SAMPLES, dt_s=DT, tolerance=1e-10):
    drive, sense = patterns(model), np.arange(len(model.ports))[::-1]
    ours = swing_responses(model, drive, sense, samples, dt_s)
    theirs = by_engine(model, drive, sense, samples, dt_s, "trapezoidal")
    assert ours.shape == theirs.shape == (3, samples, len(model.ports))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())


# --- against the engine ---------------------------------------------------------------------------


@few_examples
@given(grids(PAPER))
def test_it_is_the_engines_trapezoidal_rule_with_omega_b_of_the_paper(grid):
    agrees_with_the_engine(grid.reduced)


@few_examples
@given(grids(PHYSICAL))
def test_it_is_the_engines_trapezoidal_rule_with_omega_b_of_physics(grid):
    agrees_with_the_engine(grid.reduced)


@pytest.mark.parametrize("omega_b", [PAPER, PHYSICAL], ids=["omega_b 1", "omega_b 377"])
@pytest.mark.parametrize(
    "changes",
    [
        {"d": 0.0},
        {"droop_gain": 0.0},
        {"governor_rate": 0.0},
        {"d": 0.0, "droop_gain": 0.0},
        {"k_r": 0.0},
        {"governor_rate": 1e4},  # 1 − h T / 2 < 0: the rule rings, in both alike
        {"m": 1e-3},
        {"droop_gain": 500.0, "governor_rate": 0.1},
    ],
    ids=lambda changes: ", ".join(f"{name} = {value:g}" for name, value in changes.items()),
)
def test_it_is_the_engines_rule_at_the_edges_too(changes, omega_b):
    model = ieee30_like(omega_b).reduced
    agrees_with_the_engine(
        replace(
            model, **{name: np.full_like(getattr(model, name), to) for name, to in changes.items()}
        )
    )


@pytest.mark.parametrize("dt_s", [1e-4, 0.01, 0.5, 10.0])
def test_it_is_the_engines_rule_at_small_and_at_large_steps(dt_s):
    agrees_with_the_engine(ieee30_like(PHYSICAL).reduced, dt_s=dt_s)


def test_rounding_does_not_pile_up_over_twenty_thousand_steps():
    agrees_with_the_engine(ieee30_like(PHYSICAL).reduced, samples=20_000, tolerance=1e-11)


def test_one_machine_alone_follows_the_rule():
    agrees_with_the_engine(random_grid(buses=4, machines=1, extra_edges=1, seed=2).reduced)


@pytest.mark.parametrize("omega_b", [PAPER, PHYSICAL], ids=["omega_b 1", "omega_b 377"])
def test_it_tends_to_the_exact_answer_with_the_square_of_the_step(omega_b):
    model = ieee30_like(omega_b).reduced
    drive, sense = patterns(model), np.arange(len(model.ports))
    errors = []
    for dt_s in (4e-3, 2e-3, 1e-3):
        samples = round(0.4 / dt_s) + 1
        exact = by_engine(model, drive, sense, samples, dt_s, "exact")
        errors.append(
            np.abs(swing_responses(model, drive, sense, samples, dt_s) - exact).max()
            / np.abs(exact).max()
        )
    assert errors[-1] < 5e-3
    assert np.divide(errors[:-1], errors[1:]) == pytest.approx([4, 4], rel=0.1)


def test_patterns_are_answered_independently_and_in_proportion():
    model = ieee30_like(PHYSICAL).reduced
    drive, sense = patterns(model), np.arange(4)
    together = swing_responses(model, drive, sense, 100, DT)
    for column in range(3):
        alone = swing_responses(model, -2 * drive[:, [column]], sense, 100, DT)
        np.testing.assert_allclose(
            alone[0], -2 * together[column], rtol=1e-9, atol=1e-12 * np.abs(together).max()
        )


def test_it_starts_from_rest_and_settles_where_the_model_says():
    model = star().reduced
    drive = patterns(model)[:, :2]
    out = swing_responses(model, drive, np.arange(5), 4000, 0.05)
    assert not out[:, 0].any()
    for column in range(2):
        np.testing.assert_allclose(out[column, -1], model.settling(drive[:, column]), rtol=1e-6)


def test_a_model_of_five_hundred_machines_follows_its_equations():
    """Against steps of the whole descriptor (ω, δ, p) by a sparse LU: nothing eliminated, nothing
    in common.
    """
    g, samples, h = 500, 60, 0.01
    rng = np.random.default_rng(5)
    k = rng.uniform(0, 0.5, g * (g - 1) // 2)
    model = ReducedModel(
        ports=tuple(f"G{i}" for i in range(g)),
        k_r=k,
        m=rng.uniform(1, 40, g),
        d=rng.uniform(0, 9, g),
        governor_rate=rng.uniform(0.1, 20, g),
        droop_gain=rng.uniform(0, 30, g),
        K_ac=np.zeros((g, 0)),
        loads=np.full(g, np.nan),
        omega_b=PHYSICAL,
        frequency_hz=60.0,
        base_mva=100.0,
    )
    L, eye, diag = (
        sparse.csr_array(laplacian(model.edges, k, g)),
        sparse.eye_array(g),
        sparse.diags_array,
    )
    A = sparse.block_array(
        [
            [-diag(model.d / model.m), -diag(1 / model.m) @ L, diag(1 / model.m)],
            [PHYSICAL * eye, None, None],
            [-diag(model.governor_rate * model.droop_gain), None, -diag(model.governor_rate)],
        ],
        format="csc",
    )
    left, right = (
        splu(sparse.eye_array(3 * g, format="csc") - h / 2 * A),
        sparse.eye_array(3 * g) + h / 2 * A,
    )
    load = np.zeros(g)
    load[7] = 0.5
    push = np.concatenate([-load / model.m, np.zeros(2 * g)])
    state, expected = np.zeros(3 * g), np.zeros((samples, g))
    for n in range(1, samples):
        state = left.solve(right @ state + h * push)
        expected[n] = state[:g]
    found = simulate(
        model, Event.parse("load:G7=+0.5", base_mva=100), horizon_s=h * (samples - 1), dt_s=h
    )
    np.testing.assert_allclose(found.omega, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_weights_that_make_no_grid_are_refused_without_their_values():
    model = star().reduced
    with pytest.raises(OptionError, match="not positive definite") as refusal:
        swing_responses(
            replace(model, k_r=np.full(6, -1234567.0)), patterns(model), np.arange(4), 10, DT
        )
    assert "1234567" not in str(refusal.value)


# --- when simulate takes it -----------------------------------------------------------------------


@pytest.fixture
def six_is_many(monkeypatch):
    monkeypatch.setattr(dynamics, "LARGE", 5)


EVENT = Event.parse("load:30=+0.1@0.5s; load:1=-0.2@1s", base_mva=100)


def test_simulate_answers_a_large_model_as_the_trapezoidal_scheme_does_a_small_one(monkeypatch):
    model = ieee30_like(PHYSICAL).reduced
    options = {"horizon_s": 3.0, "dt_s": 0.01, "buses": ["1", "30", "11"]}
    small = simulate(model, EVENT, scheme="trapezoidal", **options)
    monkeypatch.setattr(dynamics, "LARGE", 5)
    monkeypatch.setattr(dynamics, "unit_responses", None)  # the engine is not asked
    for scheme in (None, "trapezoidal"):
        large = simulate(model, EVENT, scheme=scheme, **options)
        np.testing.assert_allclose(
            large.omega, small.omega, rtol=0, atol=1e-11 * np.abs(small.omega).max()
        )
        assert not large.omega[:50].any()
        for name in ("buses", "frequency_hz", "settling"):
            assert getattr(large, name) == getattr(small, name), name


@pytest.mark.parametrize("scheme", ["exact", "euler"])
def test_other_schemes_are_refused_for_a_large_model(six_is_many, scheme):
    with pytest.raises(
        OptionError, match=rf"'{scheme}' is not for 6 machines; expected trapezoidal"
    ):
        simulate(ieee30_like(PHYSICAL).reduced, EVENT, scheme=scheme)


def test_a_large_model_lists_no_modes(monkeypatch):
    model = ieee30_like(PHYSICAL).reduced
    assert len(modes(model)) >= 5
    monkeypatch.setattr(dynamics, "LARGE", 5)
    assert modes(model) == []


def test_a_model_of_as_many_machines_as_the_limit_is_still_answered_exactly(monkeypatch):
    model = ieee30_like(PHYSICAL).reduced
    exact = simulate(model, EVENT, horizon_s=2.0)
    monkeypatch.setattr(dynamics, "LARGE", 6)
    np.testing.assert_array_equal(simulate(model, EVENT, horizon_s=2.0).omega, exact.omega)


def test_a_full_model_is_never_taken_for_a_large_one(six_is_many):
    grid = ieee30_like(PHYSICAL)
    assert len(modes(grid.full)) >= 5
    simulate(grid.full, EVENT, horizon_s=2.0, scheme="exact")
