"""Whoever changes a ledger without its key is found out, and a ledger that lost something takes no
further charge.
"""

import json
from contextlib import contextmanager
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import pytest

from gridveil.foundation.errors import BudgetExceeded, LedgerError
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.ledger.chain import Secret, head_is_genuine, new_ledger_id, read_head
from gridveil.privacy.ledger.store import Store
from ledger_helpers import TABLES, a_charge, a_version, an_adjacency, backup, sql

ROWS = 8


@pytest.fixture
def ledger(location):
    """A ledger of eight rows: opened, registered, budget, reserved, drawn, published, reserved,
    drawn.
    """
    ledger = Ledger(location)
    ledger.set_budget("chain", an_adjacency(), Fraction(1))
    number = ledger.charge(a_charge())
    ledger.mark_drawn(number, b"")
    ledger.mark_published(number, "digest")
    ledger.mark_drawn(ledger.charge(a_charge()), b"")
    assert len(ledger.export()) == ROWS
    return ledger


def renumber(by, above):
    """SQL that moves all rows above a number; in two steps, because no number may occur twice in
    between.
    """
    return (
        f"UPDATE gridveil_entry SET number = -(number + ({by})) WHERE number > {above}",
        "UPDATE gridveil_entry SET number = -number WHERE number < 0",
    )


def copy(row, to):
    return (
        f"INSERT INTO gridveil_entry SELECT {to}, kind, body, mac FROM gridveil_entry WHERE "
        f"number = {row}"
    )


DAMAGES = {
    "changed body": (
        4,
        "UPDATE gridveil_entry SET body = replace(body, '1/10', '1/99') WHERE number = 4",
    ),
    "changed kind": (4, "UPDATE gridveil_entry SET kind = 'drawn' WHERE number = 4"),
    "changed mac": (4, "UPDATE gridveil_entry SET mac = 'ä' || mac WHERE number = 4"),
    "no JSON": (4, "UPDATE gridveil_entry SET body = '[' WHERE number = 4"),
    "changed last row": (
        8,
        "UPDATE gridveil_entry SET body = replace(body, 'of', 'fo') WHERE number = 8",
    ),
    "dropped": (4, "DELETE FROM gridveil_entry WHERE number = 4"),
    "dropped and closed": (4, "DELETE FROM gridveil_entry WHERE number = 4", *renumber(-1, 4)),
    "dropped first": (1, "DELETE FROM gridveil_entry WHERE number = 1"),
    "swapped": (
        4,
        "UPDATE gridveil_entry SET number = -4 WHERE number = 4",
        "UPDATE gridveil_entry SET number = 4 WHERE number = 7",
        "UPDATE gridveil_entry SET number = 7 WHERE number = -4",
    ),
    "inserted": (5, *renumber(1, 4), copy(4, 5)),
    "inserted at the end": (9, copy(4, 9)),
    "inserted in front": (0, copy(4, 0)),
}


@pytest.fixture(params=DAMAGES)
def damaged_row(request, ledger, location):
    row, *statements = DAMAGES[request.param]
    for statement in statements:
        sql(location, statement)
    return row


def test_an_untouched_ledger_verifies(ledger, location):
    assert ledger.verify() == ledger.verify(ledger.head()) == Ledger(location).verify() == []


def test_a_changed_dropped_swapped_or_inserted_row_is_named(ledger, damaged_row):
    (problem,) = ledger.verify()
    assert f"row {damaged_row} " in problem


# Of rows before the head a charge reads nothing but their number: the checkpoint has what they add
# up to.
UNNOTICED_BY_A_CHARGE = ("changed body", "changed kind", "changed mac", "no JSON")


@pytest.mark.parametrize(
    "damaged_row", [name for name in DAMAGES if name not in UNNOTICED_BY_A_CHARGE], indirect=True
)
def test_a_ledger_of_another_length_or_end_takes_no_charge(ledger, location, damaged_row):
    before = ledger.export()
    for opened in (ledger, Ledger(location)):
        with pytest.raises(LedgerError, match=r"not as it was written|has lost rows") as refusal:
            opened.charge(a_charge())
        assert "nothing was spent" in str(refusal.value)
    assert ledger.export() == before


@pytest.mark.parametrize("damaged_row", UNNOTICED_BY_A_CHARGE, indirect=True)
def test_a_row_that_was_changed_afterwards_frees_nothing_of_the_budget(
    ledger, location, damaged_row
):
    """Two tenths of one are spent, whatever the rows say now: eight fit, and a ninth does not."""
    for _ in range(8):
        Ledger(location).charge(a_charge())
    with pytest.raises(BudgetExceeded):
        ledger.charge(a_charge())
    (problem,) = ledger.verify()
    assert f"row {damaged_row} " in problem


SEALED = {
    "checkpoint": "UPDATE gridveil_state SET body = replace(body, '[8,', '[7,') WHERE name = "
    "'checkpoint'",
    "no checkpoint": "DELETE FROM gridveil_state WHERE name = 'checkpoint'",
    "shelf": "UPDATE gridveil_state SET body = replace(body, 'epsilon', 'epsilom') WHERE name <> "
    "'checkpoint'",
    "no shelf": "DELETE FROM gridveil_state WHERE name <> 'checkpoint'",
}


@pytest.mark.parametrize("damage", SEALED.values(), ids=SEALED)
def test_what_rows_add_up_to_cannot_be_changed_without_the_key(ledger, location, damage):
    sql(location, damage)
    for attempt in (lambda: ledger.charge(a_charge()), lambda: ledger.account("chain")):
        with pytest.raises(LedgerError):
            attempt()
    assert ledger.verify() == ["what its rows add up to, or the marks of its grids, was changed"]
    ledger.adopt()  # the rows are whole, so that all can be added up anew
    assert ledger.verify() == []
    assert ledger.account("chain") == ledger.accounts()["chain"]


def test_an_older_shelf_does_not_fit_a_later_checkpoint(ledger, location):
    """Each was sealed once: what tells is that they were not sealed together."""
    ((old,),) = sql(location, "SELECT body FROM gridveil_state WHERE name <> 'checkpoint'")
    ledger.charge(a_charge())
    sql(location, "UPDATE gridveil_state SET body = :old WHERE name <> 'checkpoint'", old=old)
    with pytest.raises(LedgerError, match="add up to was changed"):
        ledger.charge(a_charge())


MARKS = {
    "dropped": "DELETE FROM gridveil_version",
    "changed": "UPDATE gridveil_version SET marks = '[]'",
    "given away": "UPDATE gridveil_version SET lineage = '\"another\"'",
}


@pytest.mark.parametrize("damage", MARKS.values(), ids=MARKS)
def test_a_grid_whose_marks_were_touched_gets_no_new_budget(ledger, location, damage):
    sql(location, damage)
    with pytest.raises(LedgerError, match="add up to was changed"):
        ledger.charge(a_charge("another", version=a_version("chain")))
    assert ledger.verify() == ["what its rows add up to, or the marks of its grids, was changed"]
    for also in ("SELECT 1", "DELETE FROM gridveil_state"):  # to adopt it forgives nothing of that
        sql(location, also)
        with pytest.raises(
            LedgerError, match=r"marks of its grids are missing|add up to was changed"
        ):
            ledger.adopt()


# --- lost tails and old backups -------------------------------------------------------------------


def test_a_restored_backup_is_found_and_takes_no_charge(ledger, location):
    restore = backup(location)
    ledger.mark_drawn(ledger.charge(a_charge()), b"")
    restore()
    for opened in (ledger, Ledger(location)):
        (problem,) = opened.verify()
        assert "rows 9 to 10 are missing at the end" in problem
        with pytest.raises(LedgerError, match="has lost rows since its head was kept") as refusal:
            opened.charge(a_charge())
        assert "nothing was spent" in str(refusal.value)
    assert len(ledger.export()) == ROWS


def test_an_older_head_still_fits(ledger):
    heads = [ledger.mark_drawn(ledger.charge(a_charge()), b"").head for _ in range(2)]
    assert [ledger.verify(head) for head in heads] == [[], []]


def test_a_check_beside_a_charge_raises_no_false_alarm(ledger, location, monkeypatch):
    """A row that is written between the look at the rows and the look at the head is no lost
    one.
    """
    reading = Store.reading

    @contextmanager
    def and_then_another_process_charges(store, *outcome):
        with reading(store, *outcome) as connection:
            yield connection
        monkeypatch.undo()
        Ledger(location, safe=safe, witness=witness).charge(a_charge())

    safe, witness = ledger._safe.folder, ledger._witness.location
    monkeypatch.setattr(Store, "reading", and_then_another_process_charges)
    assert ledger.verify() == []


def test_a_ledger_that_vanished_is_not_begun_anew(ledger, location):
    """All its rows lost is a lost tail too: what was spent would be forgotten, and the head outside
    knows better.
    """
    if "://" in location:
        sql(location, f"DROP TABLE {', '.join(TABLES)}")
    else:
        Path(location).unlink()
    with pytest.raises(LedgerError, match="nothing was spent"):
        Ledger(location).charge(a_charge("another"))


def test_a_new_ledger_does_not_pass_for_the_old_one(ledger, location, folder):
    (problem,) = Ledger(folder / "new.sqlite", safe=folder / "safe").verify(ledger.head())
    assert problem == "the given head is not a head of this ledger"


# --- heads and keys -------------------------------------------------------------------------------

FORGERIES = {
    "a smaller count": lambda head: replace(head, count=head.count - 1),
    "another mac": lambda head: replace(head, mac="0" * 64),
    "another ledger": lambda head: replace(head, ledger="0" * 16),
    "no signature": lambda head: replace(head, signature=""),
    "signed by another key": lambda head: Secret(head.ledger, b"x" * 32).head(head.count, head.mac),
    "a negative count": lambda head: Secret(head.ledger, b"x" * 32).head(-1, head.mac),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_head_is_refused(ledger, forge):
    head = ledger.head()
    assert head_is_genuine(head)
    assert ledger.verify(forge(head)) == ["the given head is not a head of this ledger"]
    assert not head_is_genuine(forge(head), head.public_key)


def test_a_head_is_read_from_its_own_file_and_from_a_certificate(ledger, folder):
    head = asdict(ledger.head())
    for document in (head, {"certificate_version": 1, "ledger_head": head}):
        (folder / "file.json").write_text(json.dumps(document))
        assert read_head(folder / "file.json") == ledger.head()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"ledger_head": null}',
        '{"ledger_head": {"count": 1}}',
        "\xff",
        "[" * 100_000,
    ],
    ids=["empty", "list", "object", "null", "no head", "half a head", "no UTF-8", "deep"],
)
def test_what_is_no_head_is_called_so(folder, text):
    (folder / "file.json").write_text(text, encoding="latin-1")
    with pytest.raises(LedgerError, match=r"file.json is no ledger head"):
        read_head(folder / "file.json")


KEYS = {
    "lost": lambda key: key.unlink(),
    "cut": lambda key: key.write_text(key.read_text()[:40]),
    "no hex": lambda key: key.write_bytes(b"\xff" * 64),
    "empty": lambda key: key.write_text(""),
}


@pytest.mark.parametrize("damage", KEYS.values(), ids=KEYS)
def test_a_ledger_without_its_key_is_not_opened(ledger, location, home, damage):
    (key,) = home.glob("ledgers/*.key")
    damage(key)
    with pytest.raises(LedgerError, match="nothing was spent") as refusal:
        Ledger(location)
    assert str(key) in str(refusal.value)


def test_a_ledger_takes_no_charge_under_another_key(ledger, location, home):
    (key,) = home.glob("ledgers/*.key")
    key.write_text("00" * 32 + "\n")
    with pytest.raises(LedgerError, match="nothing was spent"):
        Ledger(location).charge(a_charge())
    assert len(ledger.export()) == ROWS


@pytest.mark.parametrize("rows", [True, False], ids=["with its rows", "without rows"])
def test_a_ledger_without_its_name_is_not_begun_anew(ledger, location, rows):
    sql(location, "DELETE FROM gridveil_meta WHERE name = 'ledger'")
    if not rows:
        sql(location, "DELETE FROM gridveil_entry")
    with pytest.raises(LedgerError, match="nothing was spent"):
        Ledger(location)


def test_the_database_cannot_point_to_a_key_outside_the_safe(ledger, location, folder):
    """Who may write to the database, and to any folder, would bring his own key, and rows that fit
    it.
    """
    safe = folder / "world-writable"
    Ledger(folder / "forged.sqlite", safe=safe)
    (key,) = safe.glob("*.key")
    for name in (str(key.with_suffix("")), f"../../world-writable/{key.stem}"):
        sql(location, "UPDATE gridveil_meta SET value = :name WHERE name = 'ledger'", name=name)
        with pytest.raises(LedgerError, match="nothing was spent"):
            Ledger(location)


def test_two_ledgers_name_the_same_data_differently(folder, home):
    one, other = (Ledger(folder / name) for name in ("one", "other"))
    assert one.name(b"data") == Ledger(folder / "one").name(b"data") != other.name(b"data")
    assert len({new_ledger_id() for _ in range(100)}) == 100


def test_a_secret_does_not_show_itself(ledger, home):
    (key,) = home.glob("ledgers/*.key")
    shown = (
        repr(ledger._secret) + str(vars(ledger)) + json.dumps(ledger.export()) + str(ledger.head())
    )
    assert key.read_text().strip() not in shown
