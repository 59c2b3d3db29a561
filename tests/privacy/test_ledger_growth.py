"""An account whose α grows: earlier draws are counted for the larger α, and never for less than any
mechanism may lose for it.
"""

from dataclasses import replace
from fractions import Fraction

import pytest

from gridveil.foundation.errors import BudgetExceeded, LedgerError
from gridveil.grid.parameters import DETAILED, parameters_of
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.ledger import Account, Ledger
from ledger_helpers import TENTH, a_charge, an_adjacency

ONE, HALF = Fraction(1), Fraction(1, 2)


@pytest.fixture
def ledger(folder, home):
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.charge(a_charge())  # k, m and d at 1/10 each, for α = 1
    return ledger


def larger(**alpha):
    return Adjacency("one-item", {"k": ONE, "m": ONE, "d": ONE} | alpha)


def test_earlier_draws_count_as_many_times_as_the_old_distance_goes_into_the_new(ledger):
    before = ledger.account("chain").totals
    ledger.set_budget("chain", larger(m=Fraction(5), d=Fraction(5, 2)), Fraction(2))
    account = ledger.account("chain")
    assert dict(account.totals) == {
        "k": before["k"],
        "m": 5 * before["m"],
        "d": 3 * before["d"],  # 2.5 takes three steps of 1
    }
    assert (account.epsilon, account.adjacency.alpha["m"]) == (2, 5)
    assert ledger.verify() == []  # what was sealed is what the rows add up to
    assert [row["kind"] for row in ledger.export()][-1] == "budget-grown"


def test_a_later_draw_is_made_for_the_larger_distance_and_counts_once(ledger):
    ledger.set_budget("chain", an_adjacency(alpha=Fraction(4)), Fraction(2))
    spent = ledger.account("chain").spent
    with pytest.raises(LedgerError, match="for ever; α may only grow"):
        ledger.charge(a_charge())
    ledger.charge(a_charge(alpha=Fraction(4)))
    charged = max(map(Fraction, a_charge().spent.values()))
    assert ledger.account("chain").spent == spent + charged == 5 * charged
    assert ledger.verify() == []


def test_a_budget_that_does_not_cover_the_past_is_refused(ledger):
    before = ledger.export()
    with pytest.raises(LedgerError, match="so far counts ε"):
        ledger.set_budget("chain", larger(m=Fraction(5)), Fraction(2, 5))
    assert ledger.export() == before
    ledger.set_budget("chain", larger(m=Fraction(5)), HALF)
    with pytest.raises(BudgetExceeded, match="does not cover"):
        ledger.charge(replace(a_charge(), alpha=larger(m=Fraction(5)).alpha, epsilon=TENTH))


@pytest.mark.parametrize(
    "other",
    [
        larger(m=HALF),
        larger(m=Fraction(2), d=HALF),
        Adjacency("one-asset", {"k": ONE, "m": Fraction(2), "d": ONE}),
    ],
    ids=["smaller", "one larger and one smaller", "another rule"],
)
def test_nothing_but_growth_is_taken(ledger, other):
    before = ledger.export()
    with pytest.raises(LedgerError, match="for ever"):
        ledger.set_budget("chain", other, Fraction(9))
    assert ledger.export() == before


def test_steps_of_ratios_are_counted_by_their_products():
    account = Account(
        "chain",
        Adjacency("one-item-relative", dict.fromkeys("kmd", TENTH)),
        ONE,
        dict.fromkeys("kmd", TENTH),
    )
    alpha = {"k": TENTH, "m": Fraction(21, 100), "d": Fraction(22, 100)}
    grown = account.grown(Adjacency("one-item-relative", alpha))
    # 1.1² is 1.21 exactly; 1.22 takes a third step
    assert dict(grown.totals) == {"k": TENTH, "m": 2 * TENTH, "d": 3 * TENTH}


def test_a_joint_draw_and_a_shared_distance_take_the_largest_count():
    swing = Account("chain", an_adjacency(), ONE, {"k": TENTH, "hexagon: m, d": TENTH})
    grown = swing.grown(larger(m=Fraction(3)))
    assert dict(grown.totals) == {"k": TENTH, "hexagon: m, d": 3 * TENTH}
    usual = dict.fromkeys(parameters_of(DETAILED), Fraction(1, 20))
    fixed = Adjacency("asset-l1-relative", usual, family=DETAILED)
    detailed = Account("chain", fixed, ONE, {"x": TENTH, "M": TENTH})
    grown = detailed.grown(
        Adjacency("asset-l1-relative", usual | {"M": Fraction(1, 10)}, family=DETAILED)
    )
    assert dict(grown.totals) == {"x": 2 * TENTH, "M": 2 * TENTH}


def test_what_is_counted_covers_what_laplace_noise_loses_for_the_larger_distance(ledger):
    charge = a_charge()
    for alpha in (Fraction(11, 10), Fraction(2), Fraction(29, 4)):
        grown = ledger.account("chain").grown(an_adjacency(alpha=alpha))
        for name, total in grown.totals.items():
            assert total >= alpha / Fraction(charge.scale[name]) * (1 - Fraction(1, 10**12))
