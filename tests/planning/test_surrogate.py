"""A public surrogate chooses how ε is shared: by simulated releases of itself, never of the private
grid.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduce
from gridveil.dynamics.simulate import simulate
from gridveil.grid.tables import PublicTable
from gridveil.planning.profiles import PROFILES
from gridveil.planning.surrogate import MOST_MACHINES, at_middle, choose
from gridveil.planning.trials import Trials
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import aggregates
from gridveil.readers.cases import declared_public, open_grid
from gridveil.vault.source import SourceGrid
from privacy_helpers import chain

BOUNDS = PROFILES["paper"].bounds
ONE, HALF = Fraction(1), Fraction(1, 2)


@pytest.fixture(scope="module")
def ieee30():
    return open_grid("ieee30")


def test_a_choice_is_the_same_whatever_the_private_values_are(ieee30):
    chosen = [
        choose(at_middle(source.facts, BOUNDS), Adjacency(), ONE, BOUNDS)
        for source in (
            ieee30,
            SourceGrid.of(ieee30.facts, k=np.full(41, 3.0), m=np.full(6, 2.0), d=np.full(6, 30.0)),
        )
    ]
    assert chosen[0] == chosen[1]
    assert chosen[0].draws == {"k": "items", "m": "sum", "d": "sum"}
    assert sum(chosen[0].shares[name] for name in "md") == 1
    assert "geometric middle" in chosen[0].origin


def test_lines_get_nothing_where_that_serves_the_surrogate_better(ieee30):
    chosen = choose(at_middle(ieee30.facts, BOUNDS), Adjacency("one-per-group"), HALF, BOUNDS)
    assert chosen.draws["k"] == "nothing"
    assert chosen.shares["d"] > chosen.shares["m"]


def test_a_surrogate_of_machines_that_differ_falls_back_to_items_and_with_ratings_it_does_not(
    ieee30,
):
    table = declared_public(ieee30)
    m = np.array([2.0, 32.0, 3.0, 25.0, 2.0, 4.0])
    facts = replace(table.facts, rated_mva=100 * m)
    unlike = PublicTable(facts, {"k": table.values["k"], "m": m, "d": m / 2})
    assert choose(unlike, Adjacency(), Fraction(2), BOUNDS).mechanism == "items"
    assert (
        choose(unlike, Adjacency(), Fraction(2), BOUNDS, sharing="rating").mechanism == "aggregates"
    )


def test_many_machines_are_judged_as_one():
    g = MOST_MACHINES + 10
    table = at_middle(chain(g + 5, g), BOUNDS)
    assert choose(table, Adjacency("one-per-group"), ONE, BOUNDS).draws == {
        "k": "nothing",
        "m": "sum",
        "d": "sum",
    }
    assert choose(table, Adjacency("one-asset"), ONE, BOUNDS).draws == {
        "k": "items",
        "m": "sum",
        "d": "sum",
    }
    assert choose(table, Adjacency("one-asset"), ONE, BOUNDS, mechanism="topology").hides_network


def test_thousands_of_machines_are_no_hindrance():
    g = 3000
    assert choose(at_middle(chain(g + 5, g), BOUNDS), Adjacency(), ONE, BOUNDS).draws["m"] == "sum"


def test_candidates_are_judged_by_the_distance_of_simulated_models(ieee30):
    """One step alone: what `distances` says is ∫ |ω − ω_ref|² dt of models that `simulate` runs."""
    table, event = declared_public(ieee30), Event.load({"5": 0.1})
    trials = Trials(table, event, BOUNDS, draws=3, seed=0, dt_s=0.2)
    allocation = aggregates(lines=False)
    drawn = trials.reduced(Adjacency(), allocation, ONE)
    reference = simulate(reduce(table), event, dt_s=0.2).omega
    for number, found in enumerate(trials.distances(Adjacency(), allocation, ONE)):
        model = reduce(
            PublicTable(
                table.facts,
                {"k": np.full(41, 10.0), "m": drawn.inertia[number], "d": drawn.damping[number]},
            )
        )
        off = simulate(model, event, dt_s=0.2).omega - reference
        assert found == pytest.approx(0.2 * np.sum(off**2), rel=1e-9)
