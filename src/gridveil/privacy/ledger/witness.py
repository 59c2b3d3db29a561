"""The witness: each ledger's last seen head, kept where no backup of the ledger reaches.

A ledger that is restored from its backup, database, key and head together, has forgotten what was
spent since, and nothing in it tells. The witness knows better. It must therefore never be restored
together with the rest.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from sqlalchemy import Column, ColumnElement, MetaData, Table, Text, and_, delete, inspect, select

from gridveil.foundation.errors import NOTHING_SPENT, LedgerError
from gridveil.foundation.files import state_home
from gridveil.privacy.ledger.chain import Head, parse_head
from gridveil.privacy.ledger.database import Database

metadata = MetaData()
seen = Table(
    "gridveil_witness",
    metadata,
    Column("ledger", Text, primary_key=True),
    Column("head", Text, nullable=False),
    Column("place", Text, nullable=False),
)


class Witness:
    """Remembers how far ledgers had come.

    location : a path (SQLite) or a URL, as of a ledger; default: `default_witness`.
    """

    def __init__(self, location: str | Path | None = None) -> None:
        self._database = Database(
            location or default_witness(),
            what="witness of the ledger",
            option="--witness or $GRIDVEIL_WITNESS",
        )
        self.location, self.place = self._database.location, self._database.place

    def head(self, ledger: str, outcome: str) -> Head | None:
        """Read the last head that it saw of a ledger; None: it knows nothing of it."""
        heads = self._find(seen.c.ledger == ledger, outcome)
        return heads[0] if heads else None

    def prepare(self, outcome: str) -> None:
        """Make it if there is none; refuse one that cannot be written to."""
        self._database.make()
        with self._database.writing(outcome) as connection:
            metadata.create_all(connection)

    def keep(self, head: Head, where: str, outcome: str) -> Head | None:
        """Remember a later head and its ledger's place; return the one remembered before."""
        with self._database.writing(outcome) as connection:
            known = connection.execute(
                select(seen.c.head).where(seen.c.ledger == head.ledger)
            ).scalar()
            old = parse_head(known) if known else None
            if old is not None and old.count >= head.count:
                # an earlier one never replaces a later one
                return old
            connection.execute(delete(seen).where(seen.c.ledger == head.ledger))
            # to a server of several machines a path means nothing
            local = where if self._database.is_sqlite else ""
            connection.execute(
                seen.insert().values(ledger=head.ledger, head=json.dumps(vars(head)), place=local)
            )
            kept = connection.execute(
                select(seen.c.head).where(seen.c.ledger == head.ledger)
            ).scalar()
            if not kept or parse_head(kept) != head:
                raise self._database.error("it does not keep what is written to it", outcome)
            return old

    def head_at(self, where: str, besides: str = "") -> Head | None:
        """Find the last head of another ledger written at a place; only a local witness knows."""
        if not self._database.is_sqlite:
            return None
        heads = self._find(and_(seen.c.place == where, seen.c.ledger != besides), NOTHING_SPENT)
        return next((head for head in heads if head.count > 1), None)

    def _find(self, which: ColumnElement[bool], outcome: str) -> list[Head]:
        if not self._database.exists:
            return []
        with self._database.reading(outcome) as connection:
            if not inspect(connection).has_table(seen.name):
                return []
            texts = connection.execute(select(seen.c.head).where(which)).scalars().all()
        heads = [head for text in texts if (head := parse_head(text))]
        if len(heads) < len(texts):
            raise self._database.error("its record of a ledger is no head: it was changed", outcome)
        return heads


def default_witness() -> str:
    """Default place of the witness: $GRIDVEIL_WITNESS, or the user's state folder."""
    if named := os.environ.get("GRIDVEIL_WITNESS"):
        return named
    try:
        return str(state_home() / "witness.sqlite")
    except RuntimeError:
        raise LedgerError(
            "This user has no home folder to keep the ledger's witness in.",
            outcome=NOTHING_SPENT,
            remedy="Name a place with --witness or $GRIDVEIL_WITNESS.",
        ) from None
