"""Processes that ask at once never overspend together, and nothing but the budget refuses them."""

from collections import Counter
from fractions import Fraction

import pytest

from gridveil.privacy.ledger import Ledger
from ledger_helpers import TENTH, a_charge, an_adjacency, at_once, sql, wait


def charge(location):
    ledger = Ledger(location)
    wait()
    ledger.charge(a_charge())


def charge_anew(location):
    wait()
    Ledger(location).charge(a_charge())


def charge_draw_and_publish(location):
    ledger = Ledger(location)
    wait()
    number = ledger.charge(a_charge())
    ledger.mark_drawn(number, b"")
    ledger.mark_published(number, "digest")


def verify(location):
    ledger = Ledger(location)
    wait()
    for _ in range(30):
        assert ledger.verify() == []


@pytest.mark.slow
def test_of_32_processes_that_ask_for_a_tenth_ten_get_it(location):
    Ledger(location).set_budget("chain", an_adjacency(), Fraction(1))
    assert Counter(at_once([charge] * 32, location)) == {"done": 10, "refused": 22}
    ledger = Ledger(location)
    assert [entry.state for entry in ledger.entries()] == ["reserved"] * 10
    assert ledger.verify() == []


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_postgresql_queues_at_every_default_isolation(postgres, isolation):
    Ledger(postgres).set_budget("chain", an_adjacency(), 4 * TENTH)
    sql(postgres, f"ALTER DATABASE ledger SET default_transaction_isolation = '{isolation}'")
    assert Counter(at_once([charge] * 8, postgres)) == {"done": 4, "refused": 4}


def test_eight_processes_open_a_new_ledger_at_once(location, home):
    assert Counter(at_once([charge_anew] * 8, location)) == {"done": 1, "refused": 7}
    ledger = Ledger(location)
    assert [row["kind"] for row in ledger.export()] == [
        "opened",
        "registered",
        "budget",
        "reserved",
    ]
    assert len(list(home.glob("ledgers/*.key"))) == 1
    assert ledger.verify() == []


def test_draws_side_by_side_keep_their_states_and_raise_no_false_alarm(location):
    Ledger(location).set_budget("chain", an_adjacency(), Fraction(1))
    assert at_once([charge_draw_and_publish] * 8 + [verify], location) == ["done"] * 9
    ledger = Ledger(location)
    assert [entry.state for entry in ledger.entries()] == ["published"] * 8
    assert ledger.verify() == []
