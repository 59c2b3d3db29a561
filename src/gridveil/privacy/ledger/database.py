"""A ledger's or witness's database: SQLite by path, PostgreSQL by URL. A commit is on disk."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, create_engine, event, make_url, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from gridveil.foundation.archive import DOCUMENT, SUMS, inside_bundle
from gridveil.foundation.errors import NOTHING_SPENT, LedgerError

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


class Database:
    """One database. location : a path (SQLite) or an SQLAlchemy URL, postgresql://host/database.

    what, option : how errors call it, and which option names another.
    """

    def __init__(
        self,
        location: str | Path,
        *,
        what: str = "ledger",
        option: str = "--ledger or $GRIDVEIL_LEDGER",
    ) -> None:
        self.is_sqlite, self._what, self._option = "://" not in str(location), what, option
        # No password in a message: of a URL, only where the server and the database are.
        self.location = (
            str(location) if self.is_sqlite else f"{str(location).partition('://')[0]}://…"
        )
        if self.is_sqlite:
            self._path = Path(location)
            # However it is written: where it is, links followed, and where a link to it lies.
            self.place, self.name = (
                os.path.realpath(location),
                os.path.normpath(self._path.absolute()),
            )
            self._engine = create_engine("sqlite://", poolclass=NullPool, creator=self._connect)
            event.listen(self._engine, "connect", _careful_sqlite)
            return
        try:
            url = make_url(re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", str(location)))
            if "@" in (url.host or ""):
                raise ValueError
        except (SQLAlchemyError, ValueError):
            raise self.error(
                "its URL cannot be read; in a password, write @ as %40 and / as %2F"
            ) from None
        if url.get_backend_name() != "postgresql":
            raise self.error(
                "its URL is not one of PostgreSQL, postgresql://…; for SQLite, give a path"
            )
        bare = url.set(
            drivername="postgresql",
            username=None,
            password=None,
            host=(url.host or "").lower(),
            port=url.port or 5432,
        )
        self.place = self.name = bare.difference_update_query(
            ["user", "password"]
        ).render_as_string()
        server = f"{url.host or ''}{f':{url.port}' if url.port else ''}/{url.database or ''}"
        socket = f"?host={url.query['host']}" if "host" in url.query else ""
        self.location = (
            f"{str(location).partition('://')[0]}://{'…@' if url.username else ''}{server}{socket}"
        )
        try:
            # Each statement sees what was committed before it: the first one waits for the lock.
            self._engine = create_engine(url, poolclass=NullPool, isolation_level="READ COMMITTED")
        except (SQLAlchemyError, ImportError) as error:
            raise self.error(
                f"cannot be used ({type(error).__name__}); pip install gridveil[postgres]"
            ) from None

    @property
    def exists(self) -> bool:
        """Whether there is a file of it; a server's database is taken to be there."""
        try:
            return not self.is_sqlite or self._path.exists()
        except OSError as error:  # a name that is too long, a folder that may not be entered
            raise self.error(error.strerror or "cannot be opened") from None

    def make(self) -> None:
        """Make the file of a new database, for this user's eyes only."""
        if not self.is_sqlite:
            return
        if inside_bundle(self._path, SUMS, DOCUMENT):
            raise self.error(
                "it would lie inside a bundle, which is public and would no longer verify"
            )
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # touch opens no file that exists: closing it would drop the POSIX locks this process
            # holds on it.
            self._path.touch(mode=0o600)
        except (OSError, ValueError) as error:
            raise self.error(
                getattr(error, "strerror", None) or "its name cannot be one of a file"
            ) from None

    @contextmanager
    def writing(self, outcome: str = NOTHING_SPENT) -> Iterator[Connection]:
        """Hold the database alone; commit at the end, durably, or leave everything as it was."""
        with self._connection(outcome) as connection:
            if self.is_sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.execute(DURABLY)
                connection.execute(PATIENTLY)
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
            yield connection
            connection.commit()

    @contextmanager
    def reading(self, outcome: str = "Nothing was read.") -> Iterator[Connection]:
        """See the database as it stands at one moment, on a read-only disk too; change nothing."""
        with self._connection(outcome) as connection:
            begin = (
                "BEGIN"
                if self.is_sqlite
                else "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
            )
            connection.exec_driver_sql(begin)
            yield connection

    def error(self, reason: str, outcome: str = NOTHING_SPENT) -> LedgerError:
        """Say what is wrong with this database."""
        return LedgerError(
            f"The {self._what} {self.location}: {reason}.",
            outcome=outcome,
            remedy=f"Name a {self._what} that this user may write with {self._option}.",
        )

    @contextmanager
    def _connection(self, outcome: str) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except (SQLAlchemyError, sqlite3.Error) as error:
            reason = str(
                getattr(error, "orig", None) or error or type(error).__name__
            ).splitlines()[0]
            raise self.error(reason, outcome) from None

    def _connect(self) -> sqlite3.Connection:
        # Quoted: no ?, # or % of a name is read as part of the URI. rw: a file that is gone is not
        # made anew.
        mode = (
            "rw"
            if os.access(self._path, os.W_OK) and os.access(self._path.absolute().parent, os.W_OK)
            else "ro"
        )
        uri = f"file:{quote(str(self._path.absolute()))}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=PATIENCE_S)


def _careful_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    # EXTRA: with FULL, a power cut after the commit may bring the deleted journal back and undo the
    # charge.
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA fullfsync = ON")
