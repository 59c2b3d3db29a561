"""A ledger that is set back, in whole or in part, is found out: at the next charge, or by comparing
two certificates.
"""

import json
import shutil
from fractions import Fraction
from itertools import chain, combinations

import pytest

from cli_helpers import gridveil
from gridveil.foundation.errors import LedgerError
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.ledger.chain import read_head
from gridveil.privacy.ledger.witness import Witness
from gridveil.vault.perturb import version_of
from ledger_helpers import a_charge, a_version, an_adjacency, backup, sql
from privacy_helpers import private_grid

PARTS = ("database", "key", "head", "witness")


@pytest.fixture
def parts(location, home, folder):
    """How each part of a ledger is backed up; what that returns restores it."""

    def file(path):
        data = path.read_bytes()
        return lambda: path.write_bytes(data)

    return {
        "database": lambda: backup(location),
        "key": lambda: file(next(home.glob("ledgers/*.key"))),
        "head": lambda: file(next(home.glob("ledgers/*.head.json"))),
        "witness": lambda: file(folder / "witness" / "witness.sqlite"),
    }


def release(location, out, epsilon="1/10"):
    done = gridveil("release", "star5", "--epsilon", epsilon, "--ledger", location, "--out", out)
    return done, json.loads((out / "certificate.json").read_text()) if out.exists() else None


def subsets(items):
    return list(chain.from_iterable(combinations(items, size) for size in range(1, len(items) + 1)))


# What finds a rollback of these parts. The key never changes, and a head or a witness that lags
# behind is no rollback.
def found_by(rolled_back):
    if "database" not in rolled_back:
        return "nothing: nothing that counts was set back"
    if "head" not in rolled_back or "witness" not in rolled_back:
        return "the next charge"
    return "two certificates"


@pytest.mark.parametrize("rolled_back", subsets(PARTS), ids=" ".join)
def test_a_rollback_of_any_part_is_noticed_by_the_next_charge_or_by_two_certificates(
    parts, location, folder, rolled_back
):
    Ledger(location).set_budget("star5", Adjacency(), Fraction(1))
    restore = [parts[name]() for name in rolled_back]
    first, one = release(location, folder / "first")
    assert first.code == 0
    for step in restore:
        step()
    second, two = release(location, folder / "second")
    how = found_by(rolled_back)
    assert (second.code, two is None) == ((2, True) if how == "the next charge" else (0, False))
    if how == "the next charge":
        assert "has lost rows since its" in second.err
        assert "nothing was spent" in second.err
    elif how == "two certificates":
        assert one["ledger_entry"] == two["ledger_entry"]
        assert one["ledger_head"]["count"] == two["ledger_head"]["count"]
        assert one["ledger_nonce"] != two["ledger_nonce"]
        assert one["draw_commitment"] != two["draw_commitment"]
        assert one["ledger_head"]["mac"] != two["ledger_head"]["mac"]
        heads = [
            argument
            for name in ("first", "second")
            for argument in ("--head", folder / name / "certificate.json")
        ]
        told = gridveil("ledger", "verify", "--ledger", location, *heads)
        assert (
            told.code,
            "is not the one that the given head 1 saw: an old backup was restored" in told.out,
        ) == (1, True)
    else:
        assert two["ledger_entry"] > one["ledger_entry"]
        assert (
            Ledger(location).verify(
                *(read_head(folder / name / "certificate.json") for name in ("first", "second"))
            )
            == []
        )


@pytest.mark.parametrize("name", ["head", "witness"])
def test_a_ledger_with_rows_is_not_written_to_without_its_head_or_its_witness(
    location, home, folder, name
):
    ledger = Ledger(location)
    ledger.set_budget("chain", an_adjacency(), Fraction(1))
    ledger.charge(a_charge())
    files = {
        "head": next(home.glob("ledgers/*.head.json")),
        "witness": folder / "witness" / "witness.sqlite",
    }
    files[name].unlink()
    for opened in (ledger, Ledger(location)):
        with pytest.raises(
            LedgerError, match=f"has 4 rows, and no {name} that knows them"
        ) as refusal:
            opened.charge(a_charge())
        assert "nothing was spent" in str(refusal.value)
    assert ledger.missing == (name,)
    assert len(ledger.entries()) == 1
    ledger.adopt()
    assert ledger.export()[-1]["body"]["missing"] == [name]
    assert ledger.charge(a_charge()) == 6
    assert (ledger.missing, ledger.verify()) == ((), [])


def test_a_ledger_that_lost_rows_cannot_be_adopted(parts, location, folder):
    ledger = Ledger(location)
    ledger.set_budget("star5", Adjacency(), Fraction(1))
    restore = [parts[name]() for name in ("database", "head")]
    release(location, folder / "first")
    for step in restore:
        step()
    for heads in ((), (read_head(folder / "first" / "certificate.json"),)):
        with pytest.raises(LedgerError, match="are missing at the end"):
            ledger.adopt(*heads)
    (folder / "witness" / "witness.sqlite").unlink()  # now only the certificate knows better
    refused = gridveil(
        "ledger", "adopt", "--ledger", location, "--head", folder / "first" / "certificate.json"
    )
    assert (refused.code, "are missing at the end" in refused.err) == (2, True)
    adopted = gridveil("ledger", "adopt", "--ledger", location, "--json")
    assert json.loads(adopted.out)["missing"] == ["witness"]


def test_a_ledger_that_vanished_with_its_home_is_missed_by_its_witness(folder, home):
    location = folder / "ledger.sqlite"
    Ledger(location).charge(a_charge())
    location.unlink()
    shutil.rmtree(home)
    with pytest.raises(LedgerError, match="is gone: it had 4 rows"):
        Ledger(location)


def test_a_witness_can_be_a_database(postgres, folder):
    """On another machine, say, where whoever restores this one has no hand in."""
    location = str(folder / "ledger.sqlite")
    ledger = Ledger(location, witness=postgres)
    ledger.charge(a_charge())
    head = ledger.head()
    assert Witness(postgres).head(head.ledger, "") == head
    assert sql(postgres, "SELECT ledger, place FROM gridveil_witness") == [(head.ledger, "")]
    assert not (folder / "witness").exists()
    with pytest.raises(LedgerError, match="no witness that knows them"):
        Ledger(location).charge(a_charge())


def test_a_witness_in_the_ledger_itself_is_none(location):
    with pytest.raises(LedgerError, match="cannot lie in the ledger itself"):
        Ledger(location, witness=location)


def test_a_witness_that_cannot_be_written_stops_a_charge_before_it_is_made(location, folder, home):
    ledger = Ledger(location)
    (folder / "witness" / "witness.sqlite").unlink()
    (folder / "witness").rmdir()
    (folder / "witness").write_text("no folder")
    with pytest.raises(LedgerError, match="nothing was spent"):
        ledger.charge(a_charge())
    assert ledger.entries() == []


def test_a_forged_witness_is_none(location, folder):
    ledger = Ledger(location)
    ledger.charge(a_charge())
    for head in ("{}", json.dumps(vars(ledger.head()) | {"count": 1})):
        sql(
            str(folder / "witness" / "witness.sqlite"),
            "UPDATE gridveil_witness SET head = :head",
            head=head,
        )
        with pytest.raises(LedgerError, match="nothing was spent"):
            ledger.charge(a_charge())


def test_no_two_rows_have_the_same_nonce(location):
    ledger = Ledger(location)
    ledger.set_budget("chain", an_adjacency(), Fraction(1))
    for _ in range(5):
        ledger.mark_drawn(ledger.charge(a_charge()), b"the same")
    nonces = [row["body"]["nonce"] for row in ledger.export()]
    commitments = [row["body"]["commitment"] for row in ledger.export() if row["kind"] == "drawn"]
    assert len(set(nonces)) == len(nonces) == 13
    assert len(set(commitments)) == 5


def test_rows_hold_no_function_of_the_grid(parts, location, monkeypatch):
    """With the key, and every value but one known, nothing that is published confirms a guess of
    that one, or of a line.

    Nor do they tell whether the network is the one of the charge before.
    """
    monkeypatch.setattr("gridveil.privacy.ledger.writer.new_nonce", lambda: "00" * 16)
    ledger = Ledger(location)
    restore, rows = [parts[name]() for name in PARTS], []
    grids = (private_grid(), private_grid(k=[9.0, 9.0, 9.0, 9.0]))
    for version in (*(version_of(grid, ledger) for grid in grids), a_version("another network")):
        ledger.set_budget("mine", an_adjacency(), Fraction(1), version_of(grids[0], ledger))
        ledger.charge(a_charge("mine", version=version))
        rows.append(ledger.export())
        for step in restore:
            step()
    assert rows[0] == rows[1] == rows[2]


# --- what a second pair of eyes found -------------------------------------------------------------


@pytest.mark.parametrize(
    "put", [shutil.copy, lambda other, here: here.symlink_to(other)], ids=["copied", "linked"]
)
def test_another_ledger_does_not_stand_in_for_one_that_was_spent(folder, home, put):
    one, other = folder / "one.sqlite", folder / "other.sqlite"
    for place in (one, other):
        Ledger(place).charge(a_charge())
    Ledger(other).set_budget("chain", an_adjacency(), Fraction(1))
    one.rename(folder / "away.sqlite")
    put(other, one)
    stranger = Ledger(one)
    with pytest.raises(LedgerError, match="Another ledger, of 4 rows, was at"):
        stranger.charge(a_charge())
    assert "another ledger was at this place" in stranger.verify()[0]


def test_a_place_is_the_same_however_it_is_written(folder, home):
    Ledger(folder / "ledger.sqlite").charge(a_charge())
    (folder / "ledger.sqlite").unlink()
    (folder / "link").symlink_to(folder)
    for place in (folder / "home" / ".." / "ledger.sqlite", folder / "link" / "ledger.sqlite"):
        with pytest.raises(LedgerError, match="is gone"):
            Ledger(place)


def test_a_ledger_that_was_moved_is_missed_at_its_new_place(folder, home):
    old, new = folder / "old.sqlite", folder / "new.sqlite"
    ledger = Ledger(old)
    ledger.set_budget("chain", an_adjacency(), Fraction(1))
    old.rename(new)
    Ledger(new).charge(a_charge())
    new.unlink()
    Ledger(old)  # nothing was there since
    with pytest.raises(LedgerError, match="is gone"):
        Ledger(new)


def test_a_witness_that_does_not_keep_what_it_is_told_stops_the_ledger(location, folder):
    ledger = Ledger(location)
    ledger.set_budget("chain", an_adjacency(), Fraction(1))
    witness = str(folder / "witness" / "witness.sqlite")
    sql(
        witness,
        "CREATE TRIGGER deaf BEFORE DELETE ON gridveil_witness BEGIN SELECT RAISE(IGNORE); END",
    )
    with pytest.raises(LedgerError, match=r"witness .*Nothing was drawn"):
        ledger.charge(a_charge())
    assert len(ledger.entries()) == 1  # counted, though not drawn


def test_two_copies_of_a_ledger_are_not_both_written_to(location, folder, monkeypatch):
    """At the same time: each saw the head before the other's charge."""
    ledger = Ledger(location)
    ledger.set_budget("chain", an_adjacency(), Fraction(1))
    restore = backup(location)
    kept = ledger._kept("")
    ledger.charge(a_charge())
    restore()
    monkeypatch.setattr(Ledger, "_kept", lambda *_: kept)
    with pytest.raises(LedgerError, match="another copy of it, and both are written to"):
        ledger.charge(a_charge())


def test_no_head_is_signed_of_rows_that_were_changed(location):
    Ledger(location).charge(a_charge())
    sql(location, "DELETE FROM gridveil_entry WHERE number > 2")
    done = gridveil("ledger", "export", "--ledger", location)
    assert (done.code, "Nothing was exported" in done.err, "signature" in done.out) == (
        2,
        True,
        False,
    )


def test_a_rollback_before_a_shift_is_seen_by_comparing_two_certificates(parts, location, folder):
    """Numbers of rows need not collide: the later certificate must name the earlier draw."""
    Ledger(location).set_budget("star5", Adjacency(), Fraction(1))
    _, zero = release(location, folder / "zero")
    restore = [parts[name]() for name in PARTS]
    _, one = release(location, folder / "one")
    for step in restore:
        step()
    Ledger(location).register("unrelated")
    _, two = release(location, folder / "two")
    assert one["ledger_entry"] < two["ledger_entry"]
    assert zero["ledger_nonce"] in one["earlier_draws"]
    assert zero["ledger_nonce"] in two["earlier_draws"]
    assert one["ledger_nonce"] not in two["earlier_draws"]
    for earlier, code in (("zero", 0), ("one", 1)):
        told = gridveil("verify", folder / "two", "--beside", folder / earlier)
        assert told.code == code
        assert ("is not named in" in told.err + told.out) == (code == 1)


def test_after_more_charges_than_a_certificate_names_an_honest_history_is_still_one(folder, home):
    ledger, receipts = Ledger(folder / "ledger.sqlite"), []
    ledger.set_budget("chain", an_adjacency(), Fraction(1000))
    for number in range(260):
        if number in (0, 1, 250, 259):
            receipts.append(ledger.mark_drawn(ledger.charge(a_charge()), b""))
        else:
            ledger.charge(a_charge())
    assert [len(receipt.earlier) for receipt in receipts] == [0, 1, 250, 256]
    assert [receipts[n].nonce in receipts[3].earlier for n in (0, 1, 2)] == [False, False, True]
    assert ledger.verify() == []


def test_nothing_of_an_owner_is_begun_inside_a_bundle(folder, home, monkeypatch):
    Ledger(folder / "ledger.sqlite").set_budget("star5", Adjacency(), Fraction(1))
    release(str(folder / "ledger.sqlite"), folder / "bundle")
    inside = folder / "bundle" / "own"
    for more in (("--ledger", inside), ("--witness", inside)):
        done = gridveil("release", "star5", "--epsilon", "1/10", "--out", folder / "next", *more)
        assert (done.code, "inside a bundle" in done.err) == (2, True)
    monkeypatch.setenv("GRIDVEIL_HOME", str(inside))
    for command in (
        ("keys", "new", "--no-passphrase"),
        ("ledger", "register", "mine", "--ledger", folder / "mine.sqlite"),
    ):
        done = gridveil(*command)
        assert (done.code, "inside a bundle" in done.err) == (2, True)
    assert gridveil("verify", folder / "bundle").code == 0


def test_a_ledger_that_is_missed_leaves_no_empty_file_in_its_place(folder, home):
    Ledger(folder / "ledger.sqlite").charge(a_charge())
    (folder / "ledger.sqlite").unlink()
    with pytest.raises(LedgerError, match="is gone"):
        Ledger(folder / "ledger.sqlite")
    assert not (folder / "ledger.sqlite").exists()
