"""A public surrogate chooses how ε is shared: by simulated releases of itself, never of the private grid."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from gridveil.allocation import ITEMS, aggregates, topology
from gridveil.cases import declared_public, open_grid
from gridveil.kron import networkless_model, reduce
from gridveil.noisy import PublicTable
from gridveil.posterior import middle, posterior_mean
from gridveil.privacy.adjacency import Adjacency
from gridveil.profiles import PROFILES
from gridveil.surrogate import MOST_MACHINES, Trial, at_middle, choose, lumped, trial_loads
from gridveil.vault.mechanism import perturb
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from privacy_helpers import chain

BOUNDS = PROFILES["paper"].bounds
ONE, HALF = Fraction(1), Fraction(1, 2)


@pytest.fixture(scope="module")
def ieee30():
    return open_grid("ieee30")


@pytest.mark.parametrize("allocation", [ITEMS, aggregates(), aggregates(lines=False), topology()])
@pytest.mark.parametrize("rule", ["one-asset", "one-per-group-relative"])
def test_a_trial_is_spread_as_real_draws_of_the_surrogate_are(ieee30, allocation, rule):
    """Mean and spread of what a release would be made of, against `perturb` itself with the same settings."""
    table, adjacency = declared_public(ieee30), Adjacency(rule)
    trial = Trial(table, allocation, adjacency, HALF, BOUNDS, draws=300)
    given = {"epsilon": HALF, "adjacency": adjacency, "bounds": BOUNDS, "ledger": None, "allocation": allocation}
    drawn = [posterior_mean(perturb(ieee30, **given, sampler=DemoSampler(seed))) for seed in range(300)]
    for name in "kmd":
        tried, real = trial.table(name), np.array([getattr(one, name) for one in drawn])
        assert tried.shape == real.shape
        error = (tried.std() + real.std()) / np.sqrt(300)
        assert abs(tried.mean() - real.mean()) <= 4 * error + 1e-9
        assert tried.std() == pytest.approx(real.std(), rel=0.2, abs=1e-9)


def test_a_trials_parameters_are_those_of_the_models(ieee30):
    table = declared_public(ieee30)
    loads = trial_loads(table.facts)
    order = np.concatenate([table.facts.machines, table.facts.interior])
    for allocation in (aggregates(lines=False), topology()):
        trial = Trial(table, allocation, Adjacency(), HALF, BOUNDS, draws=2)
        tables = PublicTable(table.facts, **{name: trial.table(name)[0] for name in "kmd"})
        if allocation.hides_network:
            model = networkless_model(tables, middle(BOUNDS.k))
            u = loads[table.facts.machines] + model.K_ac @ loads[table.facts.interior].sum(axis=0, keepdims=True)
        else:
            model = reduce(tables)
            u = model.to_machines(loads[order])
        assert trial.parameters(loads)[0] == pytest.approx(np.concatenate([model.theta, u.T.ravel()]))


def test_a_choice_is_the_same_whatever_the_private_values_are(ieee30):
    chosen = [
        choose(at_middle(source.facts, BOUNDS), Adjacency(), ONE, BOUNDS)
        for source in (ieee30, SourceGrid.of(ieee30.facts, k=np.full(41, 3.0), m=np.full(6, 2.0), d=np.full(6, 30.0)))
    ]
    assert chosen[0] == chosen[1]
    assert chosen[0].draws == {"k": "items", "m": "sum", "d": "sum"}
    assert sum(chosen[0].shares[name] for name in "md") == 1
    assert "geometric middle" in chosen[0].origin


def test_lines_get_nothing_where_that_serves_the_surrogate_better(ieee30):
    chosen = choose(at_middle(ieee30.facts, BOUNDS), Adjacency("one-per-group"), HALF, BOUNDS)
    assert chosen.draws["k"] == "nothing"
    assert chosen.shares["d"] > chosen.shares["m"]


def test_a_surrogate_of_machines_that_differ_falls_back_to_items_and_with_ratings_it_does_not(ieee30):
    table = declared_public(ieee30)
    m = np.array([2.0, 32.0, 3.0, 25.0, 2.0, 4.0])
    facts = replace(table.facts, rated_mva=100 * m)
    unlike = PublicTable(facts, table.k, m, m / 2)
    assert choose(unlike, Adjacency(), Fraction(2), BOUNDS).mechanism == "items"
    assert choose(unlike, Adjacency(), Fraction(2), BOUNDS, sharing="rating").mechanism == "aggregates"


def test_many_machines_are_judged_as_one():
    g = MOST_MACHINES + 10
    table = at_middle(chain(g + 5, g), BOUNDS)
    one = lumped(table)
    assert (one.m.sum(), one.d.sum()) == (table.m.sum(), table.d.sum())
    assert one.facts.droop_gain.sum() == table.facts.droop_gain.sum()
    assert choose(table, Adjacency("one-per-group"), ONE, BOUNDS).draws == {"k": "nothing", "m": "sum", "d": "sum"}
    assert choose(table, Adjacency("one-asset"), ONE, BOUNDS).draws == {"k": "items", "m": "sum", "d": "sum"}
    assert choose(table, Adjacency("one-asset"), ONE, BOUNDS, mechanism="topology").hides_network
