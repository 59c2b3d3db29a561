"""Where a ledger's rows are, beside what they add up to and the marks of its grids."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    MetaData,
    Table,
    Text,
    delete,
    func,
    inspect,
    select,
)

from gridveil.foundation.errors import NoLedger
from gridveil.privacy.ledger.chain import Row
from gridveil.privacy.ledger.database import Database

SCHEMA_VERSION = 3

metadata = MetaData()
entry = Table(
    "gridveil_entry",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("mac", Text, nullable=False),
)
meta = Table(
    "gridveil_meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
# What the rows add up to; see checkpoint.py.
state = Table(
    "gridveil_state",
    metadata,
    Column("name", Text, primary_key=True),
    Column("body", Text, nullable=False),
)
# Marks of grids stay here, beside the chain: its head is published, and must be no function of a
# network.
version = Table(
    "gridveil_version",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, index=True),
    Column("lineage", Text, nullable=False),
    Column("marks", Text, nullable=False),
    Column("seal", Text, nullable=False),
)


@dataclass(frozen=True)
class StoredVersion:
    """A grid as it is stored.

    name : keyed, of all its marks.
    lineage, marks : JSON.
    seal : over all of it.
    """

    id: str
    name: str
    lineage: str
    marks: str
    seal: str


class Store(Database):
    """The rows of one ledger, and what is kept beside them."""

    def prepare(self, connection: Connection) -> None:
        """Create the tables of a new ledger."""
        if self.schema(connection) == 0:
            metadata.create_all(connection)
            self.write_meta(connection, "schema_version", str(SCHEMA_VERSION))

    def schema(self, connection: Connection) -> int:
        """Read the schema version; 0 where there are no tables of ours."""
        if not inspect(connection).has_table(meta.name):
            return 0
        number = int(self.read_meta(connection, "schema_version") or 0)
        if number not in (0, SCHEMA_VERSION):
            raise self.error(
                f"was written by another gridveil (schema {number}, this one knows "
                f"{SCHEMA_VERSION})"
            )
        return number

    def read_meta(self, connection: Connection, name: str) -> str | None:
        """Read a fact about the ledger itself."""
        return connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar()

    def write_meta(self, connection: Connection, name: str, value: str) -> None:
        """Write a fact about the ledger itself, once."""
        connection.execute(meta.insert().values(name=name, value=value))

    def rows(self, connection: Connection, since: int | None = None) -> list[Row]:
        """All rows in order, or those from a number on."""
        wanted = select(entry).order_by(entry.c.number)
        if since is not None:
            wanted = wanted.where(entry.c.number >= since)
        return [Row(*row) for row in connection.execute(wanted)]

    def row(self, connection: Connection, number: int) -> Row | None:
        """One row."""
        row = connection.execute(select(entry).where(entry.c.number == number)).first()
        return Row(*row) if row else None

    def extent(self, connection: Connection) -> tuple[int, int]:
        """How many rows there are, and the highest number."""
        count, last = connection.execute(
            select(func.count(entry.c.number), func.max(entry.c.number))
        ).one()
        return count, last or 0

    def append(self, connection: Connection, row: Row) -> None:
        """Add a row."""
        connection.execute(entry.insert().values(**vars(row)))

    def read_state(self, connection: Connection, name: str) -> str | None:
        """Read a part of what the rows add up to."""
        return connection.execute(select(state.c.body).where(state.c.name == name)).scalar()

    def write_state(self, connection: Connection, name: str, body: str) -> None:
        """Replace a part of what the rows add up to."""
        connection.execute(delete(state).where(state.c.name == name))
        connection.execute(state.insert().values(name=name, body=body))

    def versions(self, connection: Connection, **equal: str) -> list[StoredVersion]:
        """The grids that are known: all, or those with a name."""
        rows = connection.execute(select(version).filter_by(**equal))
        return [StoredVersion(**row) for row in rows.mappings()]

    def add_version(self, connection: Connection, stored: StoredVersion) -> None:
        """Keep a grid's marks."""
        connection.execute(version.insert().values(**vars(stored)))

    def absent(self) -> NoLedger:
        """Say that there is no ledger to look at."""
        return NoLedger(
            f"There is no ledger at {self.location}.",
            outcome="Nothing was read.",
            remedy="Check --ledger and $GRIDVEIL_LEDGER; the first release or `gridveil ledger "
            "register` makes one.",
        )
