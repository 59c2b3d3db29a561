"""Where a ledger's rows are: SQLite by default, PostgreSQL by URL. One writer at a time, and what is committed is on disk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from gridveil.errors import NOTHING_SPENT, LedgerError
from gridveil.privacy.ledger.chain import Row

SCHEMA_VERSION = 2
# Of the advisory lock that makes PostgreSQL's writers queue; any number that nobody else uses.
LOCK = 7_238_501_964
# How long a writer waits for its turn.
PATIENCE_S = 120
PATIENTLY = text(f"SELECT set_config('lock_timeout', '{PATIENCE_S}s', true)")
# A database may be set to confirm a commit before it is on disk; a charge must be there.
DURABLY = text(
    "SELECT set_config('synchronous_commit', 'on', true) "
    "WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')"
)

metadata = MetaData()
entry = Table(
    "gridveil_entry",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("mac", Text, nullable=False),
)
meta = Table("gridveil_meta", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))


class Store:
    """The rows of one ledger. location : a path (SQLite) or a URL of SQLAlchemy's, such as postgresql://host/database."""

    def __init__(self, location: str | Path, *, create: bool = True) -> None:
        self.is_sqlite, self._create = "://" not in str(location), create
        # No password in a message: of a URL, only where the server and the database are.
        self.location = str(location) if self.is_sqlite else f"{str(location).partition('://')[0]}://…"
        if self.is_sqlite:
            path = Path(location)
            if not create and not path.exists():
                raise self.absent()
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                # touch opens no file that exists: closing it would drop the POSIX locks this process holds on it.
                path.touch(mode=0o600)
            except OSError as error:
                raise self.error(error.strerror or "cannot be opened") from None
            # Made absolute: SQLite takes :memory: and file:… for something else. Given in parts: no ?, # or % is read in it.
            url = URL.create("sqlite", database=str(path.absolute()))
            self._engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": PATIENCE_S})
            event.listen(self._engine, "connect", _careful_sqlite)
        else:
            try:
                url = make_url(re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", str(location)))
                if "@" in (url.host or ""):
                    raise ValueError
            except (SQLAlchemyError, ValueError):
                raise self.error("its URL cannot be read; in a password, write @ as %40 and / as %2F") from None
            server = f"{url.host or ''}{f':{url.port}' if url.port else ''}/{url.database or ''}"
            socket = f"?host={url.query['host']}" if "host" in url.query else ""
            self.location = f"{str(location).partition('://')[0]}://{'…@' if url.username else ''}{server}{socket}"
            try:
                # Each statement sees what was committed before it: the first one waits for the lock.
                self._engine = create_engine(url, poolclass=NullPool, isolation_level="READ COMMITTED")
            except (SQLAlchemyError, ImportError) as error:
                raise self.error(f"cannot be used ({type(error).__name__}); pip install gridveil[postgres]") from None

    @contextmanager
    def transaction(self, outcome: str = NOTHING_SPENT) -> Iterator[Connection]:
        """Hold the ledger alone; commit at the end, durably, or leave everything as it was."""
        try:
            with self._engine.connect() as connection:
                if self.is_sqlite:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                else:
                    connection.execute(DURABLY)
                    connection.execute(PATIENTLY)
                    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
                yield connection
                connection.commit()
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or type(error).__name__).splitlines()[0]
            raise self.error(reason, outcome) from None

    def prepare(self, connection: Connection) -> int:
        """Create the tables if there are none; return the schema version that was found (0: a new ledger)."""
        names = set(inspect(connection).get_table_names())
        if meta.name in names:
            version = int(self.read_meta(connection, "schema_version") or 0)
            if version > SCHEMA_VERSION:
                raise self.error(f"was written by a newer gridveil (schema {version}, this one knows {SCHEMA_VERSION})")
            return version
        if not self._create:
            raise self.absent()
        metadata.create_all(connection)
        if self.is_sqlite:
            connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")  # where a gridveil of schema 1 looks
        self.write_meta(connection, "schema_version", str(SCHEMA_VERSION))
        return 1 if "entry" in names and self.is_sqlite else 0

    def read_meta(self, connection: Connection, name: str) -> str | None:
        """Read a fact about the ledger itself."""
        return connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar()

    def write_meta(self, connection: Connection, name: str, value: str) -> None:
        """Write a fact about the ledger itself, once."""
        connection.execute(meta.insert().values(name=name, value=value))

    def rows(self, connection: Connection) -> list[Row]:
        """All rows in order."""
        found = connection.execute(select(entry.c.number, entry.c.kind, entry.c.body, entry.c.mac).order_by(entry.c.number))
        return [Row(*row) for row in found]

    def append(self, connection: Connection, row: Row) -> None:
        """Add a row."""
        connection.execute(entry.insert().values(number=row.number, kind=row.kind, body=row.body, mac=row.mac))

    def first_version(self, connection: Connection) -> list[tuple[str, ...]]:
        """Rows of a ledger of schema 1: state, grid, rule, epsilon, alpha, spent."""
        found = connection.execute(text("SELECT state, grid, rule, epsilon, alpha, spent FROM entry ORDER BY number"))
        return [tuple(str(value) for value in row) for row in found]

    def absent(self) -> LedgerError:
        """Say that there is no ledger to look at."""
        return LedgerError(
            f"There is no ledger at {self.location}.",
            outcome="Nothing was read.",
            remedy="Check --ledger and $GRIDVEIL_LEDGER; the first release or `gridveil ledger register` makes one.",
        )

    def error(self, reason: str, outcome: str = NOTHING_SPENT) -> LedgerError:
        """Say what is wrong with this ledger."""
        return LedgerError(
            f"The ledger {self.location}: {reason}.",
            outcome=outcome,
            remedy="Name a ledger that this user may write with --ledger or $GRIDVEIL_LEDGER.",
        )


def _careful_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    # EXTRA: with FULL, a power cut after the commit may bring the deleted journal back and undo the charge.
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA fullfsync = ON")
