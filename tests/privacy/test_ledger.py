"""Every draw is charged for good, exactly, to the budget of its lineage: in SQLite and in
PostgreSQL.
"""

import re
import sqlite3
import stat
import subprocess
import sys
import traceback
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from gridveil.foundation.errors import BudgetExceeded, LedgerError
from gridveil.grid.parameters import Bounds
from gridveil.privacy.adjacency import RULES, Adjacency
from gridveil.privacy.ledger import Ledger, database, default_location
from gridveil.vault.perturb import perturb
from ledger_helpers import PASSWORD, TENTH, a_charge, an_adjacency, sql
from privacy_helpers import TRUE, private_grid, traces

HALF, ONE = Fraction(1, 2), Fraction(1)


@pytest.fixture
def ledger(location):
    return Ledger(location)


@pytest.fixture
def path(folder, home):
    """Where SQLite alone is meant."""
    return folder / "data" / "ledger.sqlite"


# --- charges --------------------------------------------------------------------------------------


def test_a_charge_is_reserved_then_drawn_then_published(ledger):
    number = ledger.charge(a_charge())
    seen = [ledger.entries()]
    head = ledger.mark_drawn(number, b"").head
    seen.append(ledger.entries())
    assert head == ledger.head()
    ledger.mark_published(number, "digest")
    seen.append(ledger.entries())
    assert [(entry.number, entry.state, entry.digest) for (entry,) in seen] == [
        (number, "reserved", None),
        (number, "drawn", None),
        (number, "published", "digest"),
    ]


def test_charges_outlive_the_object_in_their_order(location):
    charges = [
        a_charge("a"),
        a_charge("b", Fraction(1, 3), rule="one-asset"),
        a_charge("c", alpha=HALF),
    ]
    numbers = [Ledger(location).charge(charge) for charge in charges]
    found = Ledger(location).entries()
    assert [entry.number for entry in found] == numbers == sorted(numbers)
    for name in ("lineage", "rule", "epsilon", "alpha", "spent"):
        assert [getattr(entry, name) for entry in found] == [
            getattr(charge, name) for charge in charges
        ]
    assert [entry.lineage for entry in Ledger(location).entries("b")] == ["b"]


def test_a_reserved_charge_counts_as_spent(ledger):
    ledger.set_budget("chain", an_adjacency(), 2 * TENTH)
    ledger.charge(a_charge())
    ledger.mark_drawn(ledger.charge(a_charge()), b"")
    account = ledger.accounts()["chain"]
    assert account.totals == dict.fromkeys("kmd", 2 * Fraction(a_charge().spent["k"]))
    with pytest.raises(BudgetExceeded):
        ledger.charge(a_charge())


@pytest.mark.parametrize("number", [1, 99], ids=["another row", "no row"])
def test_only_a_charge_can_be_marked(ledger, number):
    ledger.charge(a_charge())
    with pytest.raises(LedgerError):
        ledger.mark_drawn(number, b"")
    with pytest.raises(LedgerError):
        ledger.mark_published(number, "digest")


@pytest.mark.parametrize("spent", [-0.1, float("nan"), float("inf")])
def test_no_charge_gives_anything_back(ledger, spent):
    ledger.set_budget("chain", an_adjacency(), ONE)
    ledger.charge(a_charge())
    with pytest.raises(LedgerError):
        ledger.charge(replace(a_charge(), spent=dict.fromkeys("kmd", spent)))
    assert len(ledger.entries()) == 1


# --- budgets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_ten_tenths_fit_a_budget_of_one_and_an_eleventh_does_not(ledger, rule):
    ledger.set_budget("chain", an_adjacency(rule), ONE)
    for _ in range(10):
        ledger.charge(a_charge(rule=rule))
    with pytest.raises(BudgetExceeded, match="nothing was spent"):
        ledger.charge(a_charge(rule=rule))
    with pytest.raises(BudgetExceeded):
        ledger.charge(a_charge(epsilon=Fraction(1, 10**12), rule=rule))
    assert len(ledger.entries()) == 10
    assert ONE - Fraction(1, 10**15) < ledger.accounts()["chain"].spent <= ONE


@pytest.mark.parametrize(
    ("rule", "whole"),
    [("one-item", ONE), ("one-asset", Fraction(3, 2)), ("one-per-group", Fraction(5, 2))],
)
def test_groups_are_added_up_before_the_rule_is_applied(ledger, rule, whole):
    ledger.set_budget("chain", an_adjacency(rule), Fraction(10))
    for spent in ({"k": 0.75, "m": 0.25, "d": 0.25}, {"k": 0.25, "m": 0.75, "d": 0.25}):
        ledger.charge(replace(a_charge(rule=rule), spent=spent))
    account = ledger.accounts()["chain"]
    assert account.totals == {"k": 1, "m": 1, "d": HALF}
    assert (account.spent, account.left) == (whole, 10 - whole)


def test_a_refusal_says_what_is_left_and_that_much_can_be_had(ledger):
    ledger.set_budget("chain", an_adjacency(), ONE)
    ledger.charge(a_charge(epsilon=Fraction(1, 3)))
    with pytest.raises(
        BudgetExceeded, match=r"'chain' does not cover ε = 1: .* is left of ε = 1"
    ) as refusal:
        ledger.charge(a_charge(epsilon=ONE))
    left = Fraction(re.search(r": (\S+) is left", str(refusal.value))[1])
    assert left > Fraction(666, 1000)
    ledger.charge(a_charge(epsilon=left))


def test_a_budget_may_rise_and_never_shrinks(ledger):
    for epsilon in (ONE, ONE, Fraction(2)):
        ledger.set_budget("chain", an_adjacency(), epsilon)
    with pytest.raises(LedgerError, match="cannot shrink to 1"):
        ledger.set_budget("chain", an_adjacency(), ONE)
    assert ledger.accounts()["chain"].epsilon == 2


OTHERS = {
    "another rule": Adjacency("one-asset"),
    "a smaller α": an_adjacency(alpha=Fraction(1, 10**6)),
    "a larger α": an_adjacency(alpha=Fraction(2)),
    "another α of one group": Adjacency("one-item", {"k": ONE, "m": ONE, "d": HALF}),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_adjacency_and_alpha_are_fixed_for_ever(ledger, other):
    ledger.set_budget("chain", an_adjacency(), ONE)
    before = ledger.export()
    with pytest.raises(
        LedgerError, match=r"'chain' is fixed to adjacency one-item with α = .*, for ever"
    ):
        ledger.charge(replace(a_charge(), rule=other.rule, alpha=other.alpha))
    assert ledger.export() == before
    if other != OTHERS["a larger α"]:  # a budget may follow it: tests/privacy/test_ledger_growth.py
        with pytest.raises(LedgerError, match="for ever"):
            ledger.set_budget("chain", other, Fraction(5))
        assert ledger.export() == before


def test_an_unknown_lineage_is_registered_with_a_budget_of_just_its_first_charge(ledger):
    ledger.charge(a_charge(alpha=HALF))
    account = ledger.accounts()["chain"]
    assert (account.epsilon, account.adjacency) == (TENTH, an_adjacency(alpha=HALF))
    with pytest.raises(BudgetExceeded, match="is left of ε = 1/10"):
        ledger.charge(a_charge(epsilon=Fraction(1, 1000), alpha=HALF))


def test_a_lineage_without_a_budget_is_charged_nothing(ledger):
    ledger.register("chain")
    with pytest.raises(BudgetExceeded, match="no budget yet"):
        ledger.charge(a_charge())
    with pytest.raises(LedgerError, match="registered already"):
        ledger.register("chain")


def test_lineages_do_not_share_budgets(ledger):
    ledger.charge(a_charge("one"))
    ledger.charge(a_charge("other"))
    assert {name: account.spent > 0 for name, account in ledger.accounts().items()} == {
        "one": True,
        "other": True,
    }


def test_a_refused_charge_leaves_nothing_behind(ledger):
    before = ledger.export()
    with pytest.raises(BudgetExceeded):
        ledger.charge(replace(a_charge(), spent=dict.fromkeys("kmd", 0.2)))  # more than it asks for
    assert ledger.export() == before


def test_a_lineage_may_have_any_name_that_prints(ledger):
    name = "ε „Netz“ 'x'; --"
    ledger.charge(a_charge(name))
    assert list(ledger.accounts()) == [name]
    assert ledger.verify() == []


# --- where it is kept -----------------------------------------------------------------------------


def test_no_value_of_the_grid_is_kept(location, folder):
    perturb(
        private_grid(),
        epsilon=HALF,
        adjacency=Adjacency(),
        bounds=Bounds(),
        ledger=Ledger(location),
    )
    kept = repr(sql(location, "SELECT * FROM gridveil_entry")).encode()
    kept += b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"chain" in kept
    assert not [form for values in TRUE.values() for form in traces(values) if form in kept]


def test_sqlite_synchronises_every_commit_with_its_folder(path):
    with Ledger(path)._store.writing() as db:
        assert db.exec_driver_sql("PRAGMA synchronous").scalar() == 3  # EXTRA
        assert db.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"


@pytest.mark.parametrize(
    ("setting", "careless", "needed"),
    [
        ("synchronous_commit", "off", "on"),
        ("default_transaction_isolation", "serializable", "read committed"),
    ],
)
def test_postgresql_is_durable_and_queues_whatever_the_database_is_set_to(
    postgres, setting, careless, needed
):
    sql(postgres, f"ALTER DATABASE ledger SET {setting} = '{careless}'")
    with Ledger(postgres)._store.writing() as db:
        assert db.exec_driver_sql(f"SHOW {setting.replace('default_', '')}").scalar() == needed


def test_opening_a_ledger_again_leaves_a_held_lock_in_place(path, monkeypatch):
    """Closing any other handle of the file would drop this process's locks: that is how POSIX locks
    are.
    """
    Ledger(path)
    monkeypatch.setattr(database, "PATIENCE_S", 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="locked"):
            Ledger(path).charge(a_charge())
        other = (
            "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN "
            "IMMEDIATE')"
        )
        refused = subprocess.run(
            [sys.executable, "-c", other, path], capture_output=True, text=True, check=False
        )
    assert "database is locked" in refused.stderr


def test_only_the_owner_may_read_rows_key_and_head(path, home):
    Ledger(path).charge(a_charge())
    key, head = (next((home / "ledgers").glob(f"*.{kind}")) for kind in ("key", "head.json"))
    modes = [stat.S_IMODE(file.stat().st_mode) for file in (path, key, head, home / "ledgers")]
    assert [f"{mode:o}" for mode in modes] == ["600", "600", "600", "700"]


@pytest.mark.parametrize("name", ["a?mode=ro", "a#b", "a%20b", "a b", ":memory:", "ü"])
def test_a_path_is_taken_as_it_is(folder, home, name, monkeypatch):
    monkeypatch.chdir(folder)
    Ledger(name).charge(a_charge())
    assert [file.name for file in folder.iterdir() if file.is_file()] == [name]
    assert len(Ledger(folder / name).entries()) == 1


def test_whoever_only_reads_bundles_needs_no_file_locks():
    """Windows has none, and verifying works everywhere."""
    script = "import sys; sys.modules['fcntl'] = None; import gridveil.publication.bundle"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"GRIDVEIL_LEDGER": "/a/b.sqlite"}, "/a/b.sqlite"),
        ({"GRIDVEIL_LEDGER": "postgresql://host/database"}, "postgresql://host/database"),
        ({"GRIDVEIL_HOME": "/mine"}, "/mine/ledger.sqlite"),
        ({"XDG_DATA_HOME": "/data"}, "/data/gridveil/ledger.sqlite"),
        ({"HOME": "/home/me"}, "/home/me/.local/share/gridveil/ledger.sqlite"),
    ],
)
def test_the_default_place_follows_the_environment(environment, expected, monkeypatch):
    for name in ("GRIDVEIL_LEDGER", "GRIDVEIL_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_location() == expected


# --- what goes wrong ------------------------------------------------------------------------------


def test_an_unwritable_place_spends_nothing(folder, home):
    (folder / "file").write_bytes(
        b"no database, but long enough to be read as the header of one" * 9
    )
    for place in (folder, folder / "file", folder / "file" / "ledger.sqlite"):
        with pytest.raises(LedgerError, match="nothing was spent") as refusal:
            Ledger(place)
        assert str(place) in str(refusal.value)


def test_a_ledger_that_breaks_before_the_draw_spends_nothing(ledger, location, home):
    _break(location, home, "rows")
    with pytest.raises(LedgerError, match="nothing was spent"):
        ledger.charge(a_charge())


def test_a_head_that_cannot_be_kept_stops_a_draw_and_tells_the_truth(ledger, location, home):
    _break(location, home, "safe")
    with pytest.raises(LedgerError, match="Nothing was drawn") as refusal:
        ledger.charge(a_charge())
    assert len(ledger.entries()) == ("nothing was spent" not in str(refusal.value))


@pytest.mark.parametrize("broken", ["rows", "safe"])
def test_a_ledger_that_breaks_after_the_draw_does_not_deny_the_charge(
    ledger, location, home, broken
):
    number = ledger.charge(a_charge())
    _break(location, home, broken)
    with pytest.raises(LedgerError) as refusal:
        ledger.mark_drawn(number, b"")
    assert "nothing was spent" not in str(refusal.value)


def _break(location, home, what):
    if what == "safe":
        (home / "ledgers").rename(home / "elsewhere")
    elif "://" in location:
        sql(location, "DROP TABLE gridveil_entry")
    else:
        Path(location).write_bytes(b"no database")


@pytest.mark.parametrize("number", [2, 99])
def test_another_schema_is_refused(ledger, location, number):
    sql(location, f"UPDATE gridveil_meta SET value = '{number}' WHERE name = 'schema_version'")
    with pytest.raises(LedgerError, match=rf"another gridveil \(schema {number}"):
        Ledger(location)


def all_that_is_shown(error):
    return "".join(traceback.format_exception(error)) + repr(vars(error))


UNREACHABLE = [
    "postgresql://me:Geheim@127.0.0.1:1/ledger",
    "postgresql+psycopg://me:Geheim@127.0.0.1:1/ledger",
    "postgres://me:Geheim@/ledger?host=/nowhere",
    "postgresql://me:Ge/heim@127.0.0.1:1/ledger",
    "postgresql://me:Ge@heim@127.0.0.1:1/ledger",
    "postgresql://127.0.0.1:1/ledger?user=me&password=Geheim",
    "postgresql://me:Geheim",
    "mysql://me:Geheim@127.0.0.1/ledger",
]


@pytest.mark.parametrize("url", UNREACHABLE)
def test_an_unreachable_server_is_named_without_its_password(url, home):
    with pytest.raises(LedgerError, match="nothing was spent") as refusal:
        Ledger(url)
    assert "heim" not in all_that_is_shown(refusal.value)
    assert str(refusal.value).startswith(f"The ledger {url.partition('://')[0]}://")


def test_a_server_that_refuses_is_quoted_without_its_password(postgres):
    for url in (
        postgres.replace("/ledger?", "/missing?"),
        postgres.replace(PASSWORD, f"{PASSWORD}1"),
    ):
        with pytest.raises(LedgerError, match=r"does not exist|authentication failed") as refusal:
            Ledger(url)
        assert PASSWORD not in all_that_is_shown(refusal.value)
