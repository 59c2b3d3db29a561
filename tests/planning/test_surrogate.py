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
from gridveil.planning.places import joint_places
from gridveil.planning.profiles import PROFILES
from gridveil.planning.surrogate import (
    WHOLE_UP_TO,
    _score,
    at_middle,
    choose,
    from_prior,
    trial_event,
)
from gridveil.planning.trials import Trials
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation, aggregates
from gridveil.privacy.mechanisms import named
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
        choose(source.facts, Adjacency(), ONE, BOUNDS)
        for source in (
            ieee30,
            SourceGrid.of(ieee30.facts, k=np.full(41, 3.0), m=np.full(6, 2.0), d=np.full(6, 30.0)),
        )
    ]
    assert chosen[0] == chosen[1]
    assert chosen[0].draws == {"k": "items", "m": "hexagon-0.25", "d": "hexagon-0.25"}
    assert set(chosen[0].shares.values()) == {ONE}
    assert "drawn from the prior" in chosen[0].origin


def test_lines_get_nothing_where_epsilon_is_small_and_more_the_larger_it_is(ieee30):
    rule = Adjacency("one-per-group")
    assert choose(ieee30.facts, rule, HALF, BOUNDS).draws["k"] == "nothing"
    for epsilon, share in ((1, Fraction(1, 8)), (2, Fraction(1, 5))):
        assert choose(ieee30.facts, rule, Fraction(epsilon), BOUNDS).shares["k"] == share
    # in the middle of the bounds, where nothing drawn of k is a perfect guess, it looks free
    middle = choose(at_middle(ieee30.facts, BOUNDS), rule, Fraction(2), BOUNDS)
    assert middle.draws["k"] == "nothing"


def test_tables_come_from_the_prior_and_lie_within_the_bounds(ieee30):
    tables, facts = from_prior(ieee30.facts, BOUNDS, draws=100), ieee30.facts
    assert all(
        (values >= BOUNDS[name].lower).all() and (values <= BOUNDS[name].upper).all()
        for name, values in tables.items()
    )
    assert np.ptp(tables["m"][::2], axis=1).max() < 1e-12 < np.ptp(tables["m"][1::2], axis=1).min()
    assert np.log(tables["k"]).mean() == pytest.approx(np.log(10), abs=0.02)
    assert np.log(tables["d"][1::2]).std() == pytest.approx(np.log(40) / 12**0.5, rel=0.1)
    # machines of one size are alike: droop gains, which are public, tell the size
    gain = facts.droop_gain * np.array([1, 1, 1, 2, 2, 2])
    sized = from_prior(replace(facts, droop_gain=gain), BOUNDS, draws=100)["m"][::2]
    inside = (sized > BOUNDS["m"].lower).all(axis=1) & (sized < BOUNDS["m"].upper).all(axis=1)
    assert (sized[:, 3] / sized[:, 0])[inside] == pytest.approx(2.0)


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


def test_few_draws_of_a_table_have_the_mean_square_of_each_law(ieee30):
    """Oracle: the law's own deviation. Even columns alone were off by 26 to 83 % in 40 draws."""
    tables = from_prior(ieee30.facts, BOUNDS, draws=4)
    table = at_middle(ieee30.facts, BOUNDS)
    trials = Trials(table, trial_event(table.facts), BOUNDS, draws=32, seed=1, tables=tables)
    for way in ("sum", "hexagon-0.25", "hexagon-0.6"):
        shares = dict.fromkeys("kmd", ONE) if way != "sum" else {"k": ONE, "m": HALF, "d": HALF}
        draws = {"k": "items", "m": way, "d": way}
        trials.reduced(Adjacency(), Allocation(draws, shares), ONE)
        for place, name in enumerate("md"):
            law = named(way).law(2, place)
            square = (trials._noise[law, "sum", name] ** 2).reshape(4, 8).mean(axis=1)
            assert square == pytest.approx(law.deviation**2)


def test_places_of_a_pair_cover_the_square_evenly():
    """Oracle: of 64 places in 16 equal cells, 4 lie in each, give or take 2."""
    places = joint_places(np.random.default_rng(3), 64, 2)
    assert np.abs(places).max() <= 0.5
    cells = np.histogram2d(*places.T, bins=4, range=[[-0.5, 0.5]] * 2)[0]
    assert cells.min() >= 2 and cells.max() <= 6


def test_a_loss_on_some_tables_is_not_bought_by_a_gain_on_others():
    assert _score(np.array([0.7, 1.1])) > _score(np.array([1.0, 0.9]))
    assert _score(np.array([0.5, 1.0])) < _score(np.array([0.8, 0.8]))


def test_draws_belong_to_their_tables(ieee30):
    """Oracle: the same table alone, without any noise to speak of."""
    facts = ieee30.facts
    tables = from_prior(facts, BOUNDS, draws=4)
    own = {name: values[2] for name, values in tables.items()}
    settings = {"draws": 8, "seed": 0, "dt_s": 0.4}
    event = trial_event(facts)
    all_of_them = Trials(at_middle(facts, BOUNDS), event, BOUNDS, tables=tables, **settings)
    alone = Trials(PublicTable(facts, own), event, BOUNDS, **settings)
    rule, much = Adjacency("one-per-group"), Fraction(10**6)
    found = all_of_them.by_table(rule, aggregates(lines=False), much)
    assert found.shape == (4,)
    assert found[2] == pytest.approx(
        alone.by_table(rule, aggregates(lines=False), much)[0], rel=1e-3
    )


@pytest.mark.parametrize("g", [WHOLE_UP_TO + 10, 3000])
def test_few_machines_stand_for_many_and_items_stay_a_candidate(g):
    facts = chain(g + 5, g)
    assert named(choose(facts, Adjacency(), ONE, BOUNDS).draws["m"]).takes == "sum"
    assert choose(facts, Adjacency(), Fraction(20), BOUNDS).mechanism == "items"
    assert choose(facts, Adjacency(), ONE, BOUNDS, mechanism="topology").hides_network
    unlike = {name: np.full(size, 10.0) for name, size in facts.sizes.items()}
    unlike["m"] = np.geomspace(1, 40, g)
    table = PublicTable(facts, unlike | {"d": unlike["m"]})
    assert choose(table, Adjacency(), Fraction(4), BOUNDS).mechanism == "items"


def test_the_noise_on_a_sum_weighs_less_on_few_that_stand_for_many():
    facts = chain(8, 6)
    few, many = (
        Trials(
            at_middle(facts, BOUNDS),
            trial_event(facts),
            BOUNDS,
            draws=50,
            seed=0,
            dt_s=0.2,
            stands_for=stands_for,
        ).reduced(Adjacency(), aggregates(), ONE)
        for stands_for in (None, 600)
    )
    assert many.inertia.std() < few.inertia.std() / 30


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
