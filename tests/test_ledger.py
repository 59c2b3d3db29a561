"""The ledger is durable, private, and exact under concurrent charges."""

import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from fractions import Fraction

import pytest

from gridveil.errors import LedgerError
from gridveil.groups import Bounds
from gridveil.privacy import ledger as ledger_module
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.ledger import Charge, Ledger, default_path
from gridveil.vault.mechanism import perturb
from privacy_helpers import TRUE, a_charge, private_grid, traces


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "ledger.sqlite"


def test_charges_outlive_the_object_in_their_order(path):
    charges = [a_charge(grid, epsilon) for grid, epsilon in [("a", Fraction(1, 3)), ("b", Fraction(1, 10)), ("a", Fraction(2))]]
    assert [Ledger(path).charge(charge) for charge in charges] == [1, 2, 3]
    assert [(entry.number, entry.charge) for entry in Ledger(path).entries()] == list(enumerate(charges, 1))
    assert [entry.number for entry in Ledger(path).entries("a")] == [1, 3]


def test_a_charge_is_reserved_until_it_is_marked_drawn(path):
    ledger = Ledger(path)
    ledger.charge(a_charge())
    ledger.mark_drawn(ledger.charge(a_charge()))
    assert [entry.state for entry in ledger.entries()] == ["reserved", "drawn"]


def test_a_reserved_charge_counts_as_spent(path):
    ledger = Ledger(path)
    ledger.charge(a_charge())
    ledger.mark_drawn(ledger.charge(a_charge()))
    ledger.charge(a_charge(grid="another"))
    spent = Fraction(a_charge().spent["k"])
    assert ledger.totals("chain", {"k": Fraction(1)})["k"] == 2 * spent


def test_a_draw_at_a_smaller_alpha_counts_for_more(path):
    ledger = Ledger(path)
    ledger.charge(Charge("chain", "one-item", Fraction(1, 2), {"k": Fraction(1, 1000)}, {"k": 0.5}))
    assert ledger.totals("chain", {"k": Fraction(1)}) == {"k": Fraction(500)}


CHARGE_FIVE_TIMES = """
import sys
from fractions import Fraction
from gridveil.privacy.ledger import Charge, Ledger

sys.stdin.read()
for _ in range(5):
    Ledger(sys.argv[1]).charge(Charge("chain", "one-item", Fraction(1, 3), {}, {}))
"""


def test_a_charge_survives_a_process_that_is_killed(path):
    script = CHARGE_FIVE_TIMES + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    killed = subprocess.run([sys.executable, "-c", script, path], stdin=subprocess.DEVNULL, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [entry.state for entry in Ledger(path).entries()] == ["reserved"] * 5


def test_eight_processes_leave_all_their_charges(path):
    processes = [subprocess.Popen([sys.executable, "-c", CHARGE_FIVE_TIMES, path], stdin=subprocess.PIPE) for _ in range(8)]
    for process in processes:
        process.stdin.close()  # the start: they wait for it, so that they charge at once
    assert [process.wait() for process in processes] == [0] * 8
    assert [entry.number for entry in Ledger(path).entries()] == list(range(1, 41))


def test_every_commit_is_synchronised_with_its_folder(path):
    with Ledger(path)._transaction() as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_opening_a_ledger_again_leaves_a_held_lock_in_place(path, monkeypatch):
    """Closing any other handle of the file would drop this process's locks: that is how POSIX locks are."""
    Ledger(path)
    connect = sqlite3.connect
    monkeypatch.setattr(ledger_module.sqlite3, "connect", lambda *args, **options: connect(*args, **options | {"timeout": 0}))
    with closing(connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="locked"):
            Ledger(path)
        other = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        refused = subprocess.run([sys.executable, "-c", other, path], capture_output=True, text=True, check=False)
    assert "database is locked" in refused.stderr


def test_only_its_owner_may_read_the_file(path):
    Ledger(path).charge(a_charge())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_value_of_the_grid_is_in_the_file(path):
    perturb(private_grid(), epsilon=Fraction(1, 2), adjacency=Adjacency(), bounds=Bounds(), ledger=Ledger(path))
    written = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"chain" in written
    assert not [form for values in TRUE.values() for form in traces(values) if form in written]


def test_a_newer_schema_is_refused(path):
    Ledger(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="newer gridveil"):
        Ledger(path)


def test_an_unwritable_place_spends_nothing(tmp_path):
    (tmp_path / "file").write_bytes(b"no database, but long enough to be read as the header of one" * 9)
    for place in (tmp_path, tmp_path / "file", tmp_path / "file" / "ledger.sqlite"):
        with pytest.raises(LedgerError, match="nothing was spent") as refusal:
            Ledger(place)
        assert str(place) in str(refusal.value)


def test_a_ledger_that_breaks_later_spends_nothing(path):
    ledger = Ledger(path)
    path.write_bytes(b"no database")
    with pytest.raises(LedgerError, match="nothing was spent"):
        ledger.charge(a_charge())


def test_a_ledger_that_breaks_after_the_draw_does_not_deny_the_charge(path):
    ledger = Ledger(path)
    number = ledger.charge(a_charge())
    path.write_bytes(b"no database")
    with pytest.raises(LedgerError) as refusal:
        ledger.mark_drawn(number)
    assert "nothing was spent" not in str(refusal.value)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"GRIDVEIL_LEDGER": "/a/b.sqlite"}, "/a/b.sqlite"),
        ({"XDG_DATA_HOME": "/data"}, "/data/gridveil/ledger.sqlite"),
        ({"HOME": "/home/me"}, "/home/me/.local/share/gridveil/ledger.sqlite"),
    ],
)
def test_the_default_place_follows_the_environment(environment, expected, monkeypatch):
    for name in ("GRIDVEIL_LEDGER", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(default_path()) == expected
