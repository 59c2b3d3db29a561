"""What an ε would mean, held against the plan and the dry run of the same settings."""

from fractions import Fraction

import numpy as np
import pytest

from gridveil import Bounds, simulate
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.events import Event
from gridveil.grid.parameters import DETAILED
from gridveil.grid.tables import PublicTable
from gridveil.planning.surrogate import from_prior
from gridveil.planning.trials import Trials
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS
from gridveil.workflow.foresee import foresee
from gridveil.workflow.opening import inspect_grid
from gridveil.workflow.plan_detailed import load_steps
from gridveil.workflow.preview import preview
from gridveil.workflow.settings import (
    USUAL_RULES,
    GridSettings,
    ReleaseSettings,
    adjacency_over,
)


@pytest.fixture(scope="module")
def facts():
    return inspect_grid(GridSettings.of(grid="ieee30"))[0]


def test_errors_are_those_of_other_draws_of_the_same_surrogate(facts):
    bounds, adjacency = Bounds(), Adjacency("one-asset")
    shown = preview(facts, bounds, adjacency, "items", Fraction(1))
    table = {name: values[0] for name, values in from_prior(facts, bounds, draws=1).items()}
    event = Event.uniform(0.1)
    fresh = Trials(PublicTable(facts, table), event, bounds, draws=400, seed=7)
    off = sorted(abs(fresh.errors(adjacency, ITEMS, Fraction(1))["nadir_mhz"]))
    assert shown.nadir_mhz == pytest.approx(off[359], rel=0.35)
    assert shown.reference_mhz == pytest.approx(1e3 * float(fresh.reference.nadir_hz[0]))


def test_errors_fall_as_epsilon_grows(facts):
    shown = [
        preview(facts, Bounds(), Adjacency("one-asset"), "items", Fraction(epsilon)).nadir_mhz
        for epsilon in (1, 5, 50)
    ]
    assert shown == sorted(shown, reverse=True)


@pytest.mark.parametrize("mechanism", ["items", "aggregates", "topology"])
def test_scales_are_those_that_a_release_would_have(facts, mechanism, tmp_path):
    settings = ReleaseSettings.of(
        grid="ieee30", epsilon="1/2", mechanism=mechanism, out=str(tmp_path / "b.zip")
    )
    guarantee = foresee(settings).guarantee
    shown = preview(facts, Bounds(), guarantee.adjacency, mechanism, Fraction(1, 2))
    assert {one.name: one.scale for one in shown.groups} == {
        name: loss.scale_in_words for name, loss in guarantee.groups.items()
    }
    for one in shown.groups:
        assert len(set(one.drawn)) == 3
        assert all(value > 0 for value in one.drawn)


@pytest.fixture(scope="module")
def detailed():
    return inspect_grid(GridSettings.of({"model": "detailed"}, grid="andes:ieee14"))[0]


def of_detailed(facts, epsilon, **more):
    adjacency = adjacency_over(None, USUAL_RULES[DETAILED], {}, DETAILED)
    bounds = Bounds(family=DETAILED)
    return preview(facts, bounds, adjacency, "aggregates", Fraction(epsilon), **more)


def test_a_detailed_release_is_off_by_its_noise_alone_on_the_surrogate(detailed):
    """With next to no noise, next to no error, of a nadir that is the public case's own."""
    shown = [of_detailed(detailed, epsilon) for epsilon in (1, 10**6)]
    nadirs = [one.nadir_mhz for one in shown]
    assert nadirs[0] > 1 and nadirs[-1] < 1e-3
    case = detailed.public
    model = linearise(case, solve(case), case.loads.bus)
    answers = [
        min(simulate(model, event, horizon_s=20, dt_s=0.05).deviation_hz @ model.inertia)
        for event in load_steps(model)
    ]
    nadir = 1e3 * np.mean(answers) / model.inertia.sum()
    assert shown[0].reference_mhz == pytest.approx(nadir, rel=0.01)
    assert shown[0].draws == 20


def test_nobody_computes_what_nobody_waits_for(detailed):
    shown = of_detailed(detailed, 1, goes_on=lambda: False)
    assert shown.nadir_mhz is None and shown.draws == 0
    assert {one.name for one in shown.groups} == set(detailed.sizes)
    assert all(len(set(one.drawn)) == 3 for one in shown.groups)
