"""The witness: the last head that it saw of each ledger, kept where no backup of the ledger reaches.

A ledger that is restored from its backup, database, key and head together, has forgotten what was spent since, and nothing in
it tells. The witness knows better. It must therefore never be restored together with the rest.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from sqlalchemy import BigInteger, Column, MetaData, Table, Text, delete, inspect, select

from gridveil.home import state_home
from gridveil.privacy.ledger.chain import Head, parse_head
from gridveil.privacy.ledger.database import Database
from gridveil.privacy.ledger.safe import place

metadata = MetaData()
seen = Table(
    "gridveil_witness",
    metadata,
    Column("ledger", Text, primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("head", Text, nullable=False),
    Column("place", Text, nullable=False),
)


class Witness:
    """Remembers how far ledgers had come. location : a path (SQLite) or a URL, as of a ledger; default: `default_witness`."""

    def __init__(self, location: str | Path | None = None) -> None:
        self._database = Database(
            location or default_witness(), what="witness of the ledger", option="--witness or $GRIDVEIL_WITNESS"
        )
        self.location = self._database.location

    def head(self, ledger: str, outcome: str) -> Head | None:
        """Read the last head that it saw of a ledger; None: it knows nothing of it."""
        if not self._database.exists:
            return None
        with self._database.reading(outcome) as connection:
            if not inspect(connection).has_table(seen.name):
                return None
            found = connection.execute(select(seen.c.head).where(seen.c.ledger == ledger)).scalar()
        if found is None:
            return None
        head = parse_head(found)
        if head is None:
            raise self._database.error("what it holds of this ledger is no head: it was changed", outcome)
        return head

    def prepare(self, outcome: str) -> None:
        """Make it if there is none; refuse one that cannot be written to."""
        self._database.make()
        with self._database.writing(outcome) as connection:
            metadata.create_all(connection)

    def keep(self, head: Head, location: str, outcome: str) -> None:
        """Remember a later head; an earlier one never replaces a later one."""
        with self._database.writing(outcome) as connection:
            known = connection.execute(select(seen.c.count).where(seen.c.ledger == head.ledger)).scalar()
            if known is None or known < head.count:
                connection.execute(delete(seen).where(seen.c.ledger == head.ledger))
                row = {"ledger": head.ledger, "count": head.count, "head": json.dumps(vars(head)), "place": place(location)}
                connection.execute(seen.insert().values(row))

    def lost_at(self, location: str) -> Head | None:
        """Find the last head of a ledger that was at a place.

        Only a witness on this machine tells: to one that serves several, the same path on two of them is two places.
        """
        if not (self._database.is_sqlite and self._database.exists):
            return None
        with self._database.reading() as connection:
            if not inspect(connection).has_table(seen.name):
                return None
            found = connection.execute(select(seen.c.head).where(seen.c.place == place(location), seen.c.count > 1)).scalar()
        return parse_head(found) if found else None


def default_witness() -> str:
    """Where the witness lies if nobody says otherwise: $GRIDVEIL_WITNESS, or the user's state folder, not the data folder."""
    return os.environ.get("GRIDVEIL_WITNESS") or str(state_home() / "witness.sqlite")
