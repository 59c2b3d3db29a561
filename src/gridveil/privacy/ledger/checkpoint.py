"""The checkpoint: sealed sums of a ledger's rows, so that a charge need not read them all.

Accounts lie on shelves, by a hash of their lineage; the checkpoint holds the digest of every shelf,
and where the chain stood. It is sealed with the ledger's key and written in the transaction that
writes the rows. Whoever lacks the key can change neither it nor a shelf, nor bring an older shelf
back; an older checkpoint is that of an older chain, which head and witness notice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection

from gridveil.foundation.shown import json_line
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.ledger.accounts import Account, exact_values
from gridveil.privacy.ledger.chain import Secret
from gridveil.privacy.ledger.store import Store

NAME = "checkpoint"
SHELVES = 256
LATEST = 256  # charges before it that a certificate names
KEPT = 2 * LATEST  # kept: others may be charged between a charge and its draw


class CheckpointDamaged(Exception):
    """The checkpoint or a shelf is not as it was sealed."""


class Checkpoint:
    """The accounts of a ledger inside one transaction.

    count, mac : of the last row.
    nonces : of the latest charges, oldest first.
    versions : grids that are known.
    """

    def __init__(self, store: Store, connection: Connection, secret: Secret) -> None:
        self._store, self._connection, self._secret = store, connection, secret
        self.count, self.mac, self.versions = 0, "", 0
        self.nonces: list[str] = []
        self._digests: dict[str, str] = {}
        self._shelves: dict[str, dict[str, Account]] = {}
        self._changed: set[str] = set()

    def read(self) -> bool:
        """Read the sealed sums; False in a new ledger."""
        text = self._store.read_state(self._connection, NAME)
        if text is None:
            return False
        seal, _, body = text.partition("\n")
        if seal != self._secret.seal(NAME, body):
            raise CheckpointDamaged
        self.count, self.mac, self.nonces, self.versions, self._digests = json.loads(body)
        return True

    def save(self) -> None:
        """Seal the accounts as they stand."""
        for shelf in sorted(self._changed):
            text = json_line(
                {name: _to_json(account) for name, account in self._shelves[shelf].items()}
            )
            self._digests[shelf] = sha256(text.encode()).hexdigest()
            self._store.write_state(self._connection, shelf, text)
        self._changed.clear()
        self.nonces = self.nonces[-KEPT:]
        body = json_line([self.count, self.mac, self.nonces, self.versions, self._digests])
        self._store.write_state(self._connection, NAME, f"{self._secret.seal(NAME, body)}\n{body}")

    def account(self, lineage: str) -> Account | None:
        """Look an account up; None: the lineage is not registered."""
        return self._shelf(_shelf_of(lineage)).get(lineage)

    def put(self, account: Account) -> None:
        """Put an account back as it is now."""
        shelf = _shelf_of(account.lineage)
        self._shelf(shelf)[account.lineage] = account
        self._changed.add(shelf)

    def accounts(self) -> dict[str, Account]:
        """All accounts."""
        return {
            name: account
            for shelf in sorted(self._digests)
            for name, account in self._shelf(shelf).items()
        }

    def _shelf(self, shelf: str) -> dict[str, Account]:
        if shelf not in self._shelves:
            digest = self._digests.get(shelf)
            text = "{}" if digest is None else self._store.read_state(self._connection, shelf) or ""
            if digest is not None and sha256(text.encode()).hexdigest() != digest:
                raise CheckpointDamaged
            self._shelves[shelf] = {
                name: _from_json(name, data) for name, data in json.loads(text).items()
            }
        return self._shelves[shelf]


def _shelf_of(lineage: str) -> str:
    return f"shelf {sha256(lineage.encode('utf-8', 'surrogatepass')).digest()[0] % SHELVES}"


def _to_json(account: Account) -> dict[str, Any]:
    fixed = account.adjacency
    return {
        "draws": account.draws,
        "rule": fixed.rule if fixed else None,
        "alpha": {name: str(value) for name, value in fixed.alpha.items()} if fixed else None,
        "epsilon": str(account.epsilon),
        "totals": {name: str(value) for name, value in account.totals.items()},
        "family": fixed.family if fixed else None,
        "published": list(fixed.published) if fixed else [],
    }


def _from_json(lineage: str, data: Mapping[str, Any]) -> Account:
    fixed = None
    if data["rule"]:
        fixed = Adjacency(
            data["rule"],
            exact_values(data["alpha"]),
            family=data["family"],
            published=tuple(data["published"]),
        )
    return Account(
        lineage,
        fixed,
        Fraction(data["epsilon"]),
        exact_values(data["totals"]),
        data["draws"],
    )
