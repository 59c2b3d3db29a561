"""Step 3 takes the paper's steps to the letter, or converges; it wins the dynamics back from
whatever was observed.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from baseline import objective_and_gradient
from cli_helpers import charges
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduce
from gridveil.dynamics.simulate import simulate
from gridveil.foundation.errors import GridveilError, InputError, OptionError, UnstableStep
from gridveil.foundation.progress import told_to
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit import FitSettings, Observation, fit, problem
from gridveil.planning.profiles import PROFILES
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.guarantee import CONDITIONAL
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.provenance import Provenance
from gridveil.publication.bundle import load
from gridveil.readers.cases import open_grid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.truth import true_full_model, true_model
from gridveil.workflow.publish import publish

HALF = Fraction(1, 2)
EVENT = Event.uniform(0.2)
PAPER = PROFILES["paper"]
# A coarser clock than the default's, exact all the same.
QUICK = FitSettings("l-bfgs-b", dt_s=0.05)


@pytest.fixture(scope="module")
def source():
    return open_grid("ieee30")


@pytest.fixture(scope="module")
def truth(source):
    return true_model(source)


def noisy(source, seed, rule="one-asset", bounds=None):
    draw = {
        "epsilon": HALF,
        "adjacency": Adjacency(rule),
        "bounds": bounds or Bounds(),
        "ledger": None,
    }
    return reduce(perturb(source, **draw, sampler=DemoSampler(seed)))


RECORD = Provenance(
    "measured",
    "Wide-area record",
    "2016-01-06",
    "https://example.org/record",
    "the operator's report",
)
SIMULATED = Provenance("simulated", "the case itself")


def observe(model, event=EVENT, *, origin="measured", horizon_s=30.0, settings=QUICK, buses=None):
    clock = {"horizon_s": horizon_s, "dt_s": settings.dt_s, "scheme": settings.scheme}
    return Observation(
        event,
        simulate(model, event, **clock, buses=buses),
        RECORD if origin == "measured" else SIMULATED,
    )


def error(model, truth, event):
    """Largest distance from the truth's frequency after an event, at the machines [p.u.]."""
    return np.abs(simulate(model, event).omega - simulate(truth, event).omega).max()


# --- the paper's steps ----------------------------------------------------------------------------


def plain_descent(start, observed, bounds, steps):
    """θ ← P[θ − 100 dJ/dθ] with Euler's method at 0.01 s and its adjoint, written out as a time
    loop.
    """
    lower = np.repeat([bounds["k_r"].lower, bounds["m"].lower, bounds["d"].lower], [15, 6, 6])
    upper = np.repeat([bounds["k_r"].upper, bounds["m"].upper, bounds["d"].upper], [15, 6, 6])
    load = start.port_map @ (0.2 * start.loads)
    model = (
        start.edges,
        start.governor_rate,
        start.droop_gain,
        start.omega_b,
        load,
        observed.trajectory.omega,
        0.01,
    )
    theta, history = np.concatenate([start.k_r, start.m, start.d]), []
    for _ in range(steps):
        J, gradient = objective_and_gradient(theta[None], *model)
        history.append(J[0])
        theta = np.clip(theta - 100 * gradient[0], lower, upper)
    return theta, [*history, objective_and_gradient(theta[None], *model)[0][0]]


@pytest.mark.parametrize(
    ("steps", "horizon_s"), [(50, 3.0), pytest.param(500, 30.0, marks=pytest.mark.slow)]
)
def test_profile_paper_takes_the_papers_steps(source, truth, steps, horizon_s):
    start = noisy(source, 1, PAPER.rule, PAPER.bounds)
    observed = observe(truth, origin="simulated", horizon_s=horizon_s, settings=PAPER.settings)
    theta, history = plain_descent(start, observed, PAPER.bounds, steps)
    found = fit(start, [observed], replace(PAPER.settings, iterations=steps), PAPER.bounds)
    assert np.abs(found.model.theta / theta - 1).max() < 1e-10
    assert np.abs(found.history / history - 1).max() < 1e-10
    assert (found.mismatch_before, found.mismatch_after) == (found.history[0], found.history[-1])
    # the first step also brings the start into the box
    assert found.mismatch_after < found.history[1]
    assert not found.converged  # it stops after its steps, wherever that is


def test_profile_paper_has_the_papers_settings():
    assert PAPER.settings == FitSettings(
        "projected-gradient", "euler", dt_s=0.01, iterations=500, step=100.0, rho=0.0
    )


def test_a_step_that_leaves_the_box_is_brought_back(source, truth):
    start = noisy(source, 1, PAPER.rule, PAPER.bounds)
    observed = observe(truth, horizon_s=3.0, settings=PAPER.settings)
    found = fit(start, [observed], replace(PAPER.settings, iterations=1, step=1e9), PAPER.bounds)
    task = problem(start, [observed], PAPER.bounds, dt_s=0.01, scheme="euler", rho=0)
    assert np.isin(found.model.theta, np.concatenate([task.lower, task.upper])).all()


# --- the default ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
def test_the_default_fit_converges(source, truth, seed):
    start, observed = noisy(source, seed), observe(truth)
    found = fit(start, [observed], QUICK, Bounds())
    task = problem(start, [observed], Bounds(), dt_s=QUICK.dt_s, scheme=QUICK.scheme, rho=0)
    theta = found.model.theta
    assert found.converged
    assert found.mismatch_after < found.mismatch_before / 100
    assert ((task.lower <= theta) & (theta <= task.upper)).all()
    assert projected_gradient_size(task, theta) < 1e-3 * projected_gradient_size(
        task, np.clip(task.start, task.lower, task.upper)
    )
    assert error(found.model, truth, EVENT) < error(start, truth, EVENT) / 3


def projected_gradient_size(task, theta):
    """Largest change of J that a small relative step inside the box promises."""
    _, gradient = task(theta)
    inward = np.where(
        ((theta <= task.lower) & (gradient > 0)) | ((theta >= task.upper) & (gradient < 0)),
        0.0,
        gradient,
    )
    return np.abs(inward * np.maximum(theta, 0.01 * (task.upper - task.lower))).max()


def test_the_fit_holds_K_ac_and_the_public_parameters(source, truth):
    start = noisy(source, 1)
    found = fit(start, [observe(truth)], replace(QUICK, iterations=3), Bounds()).model
    for name in ("K_ac", "loads", "governor_rate", "droop_gain"):
        assert np.array_equal(getattr(found, name), getattr(start, name)), name
    assert not np.isclose(found.theta, start.theta).all()


def test_the_truth_is_left_where_it_is(truth):
    found = fit(truth, [observe(truth)], QUICK, Bounds())
    assert found.mismatch_before == pytest.approx(0, abs=1e-25)
    assert np.allclose(found.model.theta, truth.theta, rtol=1e-6)


def test_rho_pulls_towards_the_start(source, truth):
    start, observed = noisy(source, 1), observe(truth)
    inside = np.clip(start.theta, 1e-9, None)
    moved = [
        np.linalg.norm(
            fit(start, [observed], replace(QUICK, rho=rho, iterations=100), Bounds()).model.theta
            - inside
        )
        for rho in (0.0, 1e-6, 1.0)
    ]
    assert moved[0] > moved[1] > 100 * moved[2]


@pytest.mark.parametrize("method", ["l-bfgs-b", "projected-gradient"])
def test_progress_is_told_of_every_iteration(source, truth, method):
    told = []
    settings = replace(QUICK, method=method, step=1.0, iterations=5)
    with told_to(lambda *news: told.append(news)):
        found = fit(noisy(source, 1), [observe(truth)], settings, Bounds())
    told = [news for news in told if news[0].startswith("fitting, J = ")]
    assert [news[1:] for news in told] == [(n, 5) for n in range(1, 6)]
    assert len(found.history) == 6


# --- what was observed ----------------------------------------------------------------------------


def with_trajectory(observed, **changes):
    return replace(observed, trajectory=replace(observed.trajectory, **changes))


def gaps(observed):
    """The record with 16 s missing at one place, and single samples elsewhere."""
    omega = observed.trajectory.omega.copy()
    omega[100:420, 0] = np.nan
    omega[np.random.default_rng(1).random(omega.shape) < 0.2] = np.nan
    return with_trajectory(observed, omega=omega)


def sparse(observed, every):
    return with_trajectory(
        observed,
        time_s=observed.trajectory.time_s[::every],
        omega=observed.trajectory.omega[::every],
    )


@pytest.mark.parametrize(
    "records",
    [
        lambda truth, full: [observe(truth, buses=["1", "5", "11"])],
        lambda truth, full: [observe(full, buses=["30"])],
        lambda truth, full: [gaps(observe(truth))],
        lambda truth, full: [sparse(observe(truth), every=4)],
        lambda truth, full: [
            observe(truth),
            observe(truth, Event.load({"5": 0.5}, at_s=2.0), horizon_s=20.0),
        ],
        lambda truth, full: [
            observe(truth, Event.uniform(0.1).then(Event.lost(["8", "21"], at_s=10.0)))
        ],
    ],
    ids=[
        "three of six machines",
        "an interior bus",
        "gaps",
        "every fourth sample",
        "two records",
        "two steps",
    ],
)
def test_whatever_was_observed_is_fitted(source, truth, records):
    observed = records(truth, true_full_model(source))
    found = fit(noisy(source, 1), observed, replace(QUICK, iterations=150), Bounds())
    assert np.isfinite(found.model.theta).all()
    assert found.mismatch_after < found.mismatch_before / 50


def test_gaps_count_for_nothing(source, truth):
    """J over a record with gaps is the sum over the samples that it has."""
    start, observed = noisy(source, 1), gaps(observe(truth))
    residual = simulate(start, EVENT, dt_s=QUICK.dt_s).omega - observed.trajectory.omega
    found, _ = problem(start, [observed], Bounds(), dt_s=QUICK.dt_s, scheme="exact", rho=0)(
        start.theta
    )
    assert found == pytest.approx(QUICK.dt_s * np.nansum(residual**2), rel=1e-9)


def test_two_records_add_up(source, truth):
    start = noisy(source, 1)
    records = [
        observe(truth),
        observe(truth, Event.load({"5": 0.5}, at_s=2.0), horizon_s=20.0, buses=["8", "30"]),
    ]
    together, alone = (
        sum(
            problem(start, part, Bounds(), dt_s=QUICK.dt_s, scheme="exact", rho=0)(start.theta)[0]
            for part in parts
        )
        for parts in ([records], [[one] for one in records])
    )
    assert together == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda one: with_trajectory(one, time_s=one.trajectory.time_s + 0.01),
            "multiple of the fit's time step",
        ),
        (lambda one: sparse(one, every=1000), "at least two samples"),
        (lambda one: with_trajectory(one, omega=one.trajectory.omega * np.nan), "no finite value"),
        (
            lambda one: with_trajectory(one, buses=("1", "2", "5", "8", "11", "x")),
            "'x' is not a bus",
        ),
        (lambda one: replace(one, event=Event.load({"x": 1.0})), "'x' is not a bus"),
        (lambda one: replace(one, event=Event.uniform(0.2, at_s=99.0)), "behind the horizon"),
    ],
    ids=[
        "between samples",
        "one sample",
        "nothing but gaps",
        "unknown bus",
        "unknown bus in the event",
        "event too late",
    ],
)
def test_a_record_that_cannot_be_fitted_is_refused_before_anything_is_charged(
    source, truth, tmp_path, change, said
):
    with pytest.raises(InputError, match=said):
        release(source, [change(observe(truth))], Ledger(tmp_path / "ledger"))
    assert charges(tmp_path / "ledger") == []


def test_an_unstable_step_is_refused(source, truth):
    start = replace(noisy(source, 1), omega_b=2 * np.pi * 60)
    with pytest.raises(UnstableStep, match="exact"):
        fit(start, [observe(truth, settings=PAPER.settings)], PAPER.settings, PAPER.bounds)


# --- the guarantee --------------------------------------------------------------------------------


def release(source, observed, ledger):
    draw = {"epsilon": HALF, "adjacency": Adjacency(), "bounds": Bounds(), "ledger": ledger}
    return publish(source, observed, **draw, settings=replace(QUICK, iterations=3))


def test_a_trajectory_simulated_from_the_source_is_refused_and_nothing_is_charged(
    source, truth, tmp_path
):
    observed = [observe(truth), observe(truth, origin="simulated")]
    with pytest.raises(OptionError, match=r"not public.*nothing was spent.*measured") as refusal:
        release(source, observed, Ledger(tmp_path / "ledger"))
    assert isinstance(refusal.value, GridveilError)
    assert charges(tmp_path / "ledger") == []


def test_a_measured_trajectory_makes_the_guarantee_conditional_on_it(source, truth, tmp_path):
    made = release(source, [observe(truth)], Ledger(tmp_path / "ledger"))
    made.save(tmp_path / "bundle")
    assert made.guarantee.conditional_on == (RECORD.in_words(),)
    assert load(tmp_path / "bundle").provenance == (RECORD,)
    assert not made.demo
    assert made.fitted.mismatch_after < made.fitted.mismatch_before
    for text in (made.guarantee.in_words(), (tmp_path / "bundle" / "README.md").read_text()):
        assert CONDITIONAL in text
        assert "Unconditional" not in text
    assert f"- {RECORD.in_words()}" in (tmp_path / "bundle" / "README.md").read_text()
    assert len(charges(tmp_path / "ledger")) == 1


def test_without_a_trajectory_the_guarantee_is_unconditional(source, tmp_path):
    made = release(source, [], Ledger(tmp_path / "ledger"))
    assert (made.guarantee.conditional_on, made.fitted) == ((), None)
    assert "Unconditional" in made.guarantee.in_words()
