"""Each adjacency's rule and split, in exact fractions."""

from fractions import Fraction

import pytest

from gridveil.foundation.errors import BudgetExceeded, OptionError
from gridveil.grid.parameters import assets
from gridveil.privacy.adjacency import RULES, Adjacency, in_words

EPSILON = Fraction(1, 3)


def thirds(k, m, d):
    return {"k": Fraction(k) / 3, "m": Fraction(m) / 3, "d": Fraction(d) / 3}


@pytest.mark.parametrize(
    ("rule", "shares"),
    [
        ("one-asset", thirds(3, "3/2", "3/2")),
        ("one-item", thirds(3, 3, 3)),
        ("one-per-group", thirds(1, 1, 1)),
    ],
)
def test_the_default_split_spends_the_whole_epsilon(rule, shares):
    adjacency = Adjacency(rule)
    split = adjacency.split(EPSILON, assets())
    assert split == {name: EPSILON * share for name, share in shares.items()}
    assert adjacency.loss(split, assets()) == EPSILON


@pytest.mark.parametrize(
    ("rule", "loss"),
    [
        ("one-asset", Fraction(5, 12)),
        ("one-item", Fraction(1, 3)),
        ("one-per-group", Fraction(3, 4)),
    ],
)
def test_the_loss_follows_the_rule(rule, loss):
    spent = {"k": Fraction(1, 3), "m": Fraction(1, 4), "d": Fraction(1, 6)}
    assert Adjacency(rule).loss(spent, assets()) == loss


def test_one_asset_counts_a_line_that_outweighs_the_machines():
    spent = {"k": Fraction(1, 2), "m": Fraction(1, 4), "d": Fraction(1, 6)}
    assert Adjacency("one-asset").loss(spent, assets()) == Fraction(1, 2)


@pytest.mark.parametrize(
    ("rule", "shares"),
    [
        ("one-asset", thirds(3, 2, 1)),
        ("one-item", thirds(1, 2, 3)),
        ("one-per-group", thirds(1, "3/2", "1/2")),
    ],
)
def test_a_custom_split_is_taken_as_it_is(rule, shares):
    split = Adjacency(rule, shares=shares).split(EPSILON, assets())
    assert split == {name: EPSILON * share for name, share in shares.items()}


@pytest.mark.parametrize(
    ("rule", "shares"),
    [
        ("one-asset", thirds(4, 1, 1)),
        ("one-asset", thirds(3, 2, "3/2")),
        ("one-item", thirds(1, 1, "10/3")),
        ("one-per-group", thirds(1, 1, "10/9")),
    ],
)
def test_a_split_that_exceeds_epsilon_is_refused(rule, shares):
    with pytest.raises(BudgetExceeded, match="nothing was spent"):
        Adjacency(rule, shares=shares).split(EPSILON, assets())


def test_shares_and_distances_given_as_decimals_become_exact():
    adjacency = Adjacency(
        "one-per-group", alpha={"k": 0.1, "m": "1/3", "d": 2}, shares={"k": 0.1, "m": 0.2, "d": 0.7}
    )
    assert adjacency.alpha == {"k": Fraction(1, 10), "m": Fraction(1, 3), "d": Fraction(2)}
    assert adjacency.loss(adjacency.split(EPSILON, assets()), assets()) == EPSILON


def test_a_later_change_of_the_callers_table_changes_nothing():
    alpha = dict.fromkeys("kmd", Fraction(1))
    adjacency = Adjacency(alpha=alpha)
    alpha["k"] = Fraction(1, 10**6)
    assert adjacency.alpha["k"] == 1


@pytest.mark.parametrize("names", ["", "k", "km", "kmdx", "xyz"])
def test_a_split_must_name_each_group_once(names):
    with pytest.raises(OptionError, match="nothing was spent"):
        Adjacency(shares=dict.fromkeys(names, Fraction(1, 4))).split(EPSILON, assets())


@pytest.mark.parametrize("names", ["", "k", "km", "kmdx", "xyz"])
def test_alpha_must_name_each_group_once(names):
    with pytest.raises(OptionError, match="nothing was spent"):
        Adjacency(alpha=dict.fromkeys(names, Fraction(1))).split(EPSILON, assets())


@pytest.mark.parametrize("rule", ["one-bus", "", "ONE-ITEM", None])
def test_an_unknown_adjacency_is_refused_with_the_known_ones(rule):
    with pytest.raises(OptionError, match="one-asset, one-item, one-per-group"):
        Adjacency(rule)


@pytest.mark.parametrize(
    "value", [Fraction(0), Fraction(-1), 0.0, float("nan"), float("inf"), "abc"]
)
@pytest.mark.parametrize("field", ["alpha", "shares"])
def test_distances_and_shares_must_be_above_zero(field, value):
    with pytest.raises(OptionError, match="of m"):
        Adjacency(**{field: {"k": Fraction(1), "m": value, "d": Fraction(1, 2)}})


def test_every_rule_is_put_in_words():
    assert len({in_words(rule) for rule in RULES}) == len(RULES)
    assert in_words("one-asset-relative") == (
        "one line's weight k, or one machine's inertia m and damping d together, differ by a "
        "factor of at most 1 + their α"
    )
    assert in_words("one-per-group") == "one entry in each of k, m and d differs by at most its α"
