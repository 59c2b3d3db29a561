"""Writing to a ledger, inside one transaction: checked first, then appended, then sealed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from shlex import quote
from typing import Any

from sqlalchemy import Connection

from gridveil.foundation.errors import NOTHING_SPENT, LedgerError
from gridveil.foundation.shown import json_line
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.epsilon import float_at_least
from gridveil.privacy.ledger.accounts import (
    GROWN,
    OF_A_LINEAGE,
    Account,
    Charge,
    Version,
    check_family,
    check_lineage,
    check_same,
    counted,
    grows,
    in_row,
    replay,
)
from gridveil.privacy.ledger.chain import Head, Row, Secret, new_nonce, new_version_id, problems
from gridveil.privacy.ledger.checkpoint import KEPT, LATEST, Checkpoint, CheckpointDamaged
from gridveil.privacy.ledger.fingerprints import Sought
from gridveil.privacy.ledger.store import Store, StoredVersion

LOST = (
    "Bring the whole ledger back, with all its rows; a copy that was restored or left behind "
    "forgets what was spent since. If it is lost for good: docs/ledger.md, If rows are lost."
)


class Writer:
    """Appends rows inside one transaction, to a ledger that is as it was written."""

    def __init__(self, store: Store, connection: Connection, secret: Secret) -> None:
        self._store, self._connection, self._secret = store, connection, secret
        self._books = Checkpoint(store, connection, secret)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self._books.count

    @property
    def head(self) -> Head:
        """Where the ledger stands, signed."""
        return self._secret.head(self._books.count, self._books.mac)

    @contextmanager
    def sealed(self, outcome: str, *, read: bool = True) -> Iterator[None]:
        """Work on what was sealed, read first unless it was; say clearly where it was changed."""
        try:
            if read and not self._books.read():
                raise CheckpointDamaged
            yield
        except CheckpointDamaged:
            raise self.changed("what its rows add up to was changed", outcome) from None

    def check_whole(self, kept: Mapping[str, Head | None], outcome: str) -> None:
        """Refuse to write on a ledger that was changed, or lost rows since head or witness saw it.

        Only rows since then are read: of those before, the checkpoint holds what they add up to. To
        change them changes nothing that is counted, and `problems` finds it.
        """
        with self.sealed(outcome):
            heads = {name: head for name, head in kept.items() if head is not None}
            count, last = self._store.extent(self._connection)
            for name, head in heads.items():
                if min(count, self.count) < head.count:
                    raise LedgerError(
                        f"The ledger {self._store.location} has lost rows since its {name} was "
                        f"kept ({head.count} rows then).",
                        outcome=outcome,
                        remedy=LOST,
                    )
            # One that was only just begun may have been cut off before it had any.
            if len(heads) < len(kept) and self.count > 1:
                raise self._unanchored([name for name in kept if name not in heads], outcome)
            since = min(
                [head.count for head in heads.values() if head.count > 0], default=self.count
            )
            start = self._store.row(self._connection, since - 1)
            rows = self._store.rows(self._connection, since=since)
            wrong = problems(self._secret, rows, heads, start)
            if not wrong and (count, last) != (self.count, self.count):
                wrong = [f"it has {count} rows, the last of number {last}, and had {self.count}"]
            if not wrong and (rows[-1].number, rows[-1].mac) != (self.count, self._books.mac):
                wrong = [f"row {self.count} was changed"]
            for problem in wrong:
                raise self.changed(problem, outcome)

    def problems(self, heads: Mapping[str, Head | None]) -> list[str]:
        """Check every row, and the sealed sums against the rows; return what is wrong."""
        rows = self._store.rows(self._connection)
        if wrong := problems(self._secret, rows, heads):
            return wrong
        try:
            same = (
                self._books.read()
                and self._books.accounts() == replay(rows)
                and self._books.nonces == _nonces(rows)
            )
            known = [self._checked(stored) for stored in self._store.versions(self._connection)]
            same = same and self._books.versions == len(known)
        except CheckpointDamaged:
            same = False
        return [] if same else ["what its rows add up to, or the marks of its grids, was changed"]

    def rebuild(self, heads: Mapping[str, Head | None], outcome: str) -> None:
        """Add up all rows anew, once checked."""
        rows = self._store.rows(self._connection)
        for problem in problems(self._secret, rows, heads) or ([] if rows else ["it has no rows"]):
            raise self.changed(problem, outcome)
        expected = self._sealed_versions()
        self._books = Checkpoint(self._store, self._connection, self._secret)
        self._books.count, self._books.mac, self._books.nonces = (
            rows[-1].number,
            rows[-1].mac,
            _nonces(rows),
        )
        for account in replay(rows).values():
            self._books.put(account)
        with self.sealed(outcome, read=False):
            known = self.versions()
            self._books.versions = sum(known.values())
        # Rows do not tell how many there were, but each charge was of one.
        charged = {_body(row)["lineage"] for row in rows if row.kind == "reserved"}
        if expected not in (None, self._books.versions) or charged - known.keys():
            raise self.changed("marks of its grids are missing", outcome)

    def _sealed_versions(self) -> int | None:
        """How many versions there were when the ledger was last sealed; None: that is not known."""
        try:
            return self._books.versions if self._books.read() else None
        except CheckpointDamaged:
            return None

    def seal(self) -> None:
        """Seal what was written; without it, what was appended is no part of the ledger."""
        self._books.save()

    def append(self, kind: str, body: Mapping[str, Any]) -> int:
        """Add a row with a nonce of its own, and count it in."""
        nonce, number = new_nonce(), self.count + 1
        text = json_line({**body, "nonce": nonce})
        row = Row(number, kind, text, self._secret.mac(number, kind, text, self._books.mac))
        self._store.append(self._connection, row)
        if kind in OF_A_LINEAGE:
            name = body["lineage"]
            self._books.put((self._books.account(name) or Account(name)).after(kind, body))
        if kind == "reserved":
            self._books.nonces.append(nonce)
        self._books.count, self._books.mac = number, row.mac
        return number

    def before(self, number: int, nonce: str) -> tuple[str, ...]:
        """Nonces of the latest charges before one."""
        nonces = self._books.nonces
        if nonce in nonces[LATEST:] or (nonce in nonces and len(nonces) < KEPT):
            return tuple(nonces[: nonces.index(nonce)][-LATEST:])
        rows = [row for row in self._store.rows(self._connection) if row.number < number]
        return tuple(_nonces(rows)[-LATEST:])

    def account(self, lineage: str) -> Account | None:
        """Look an account up; None: the lineage is not registered."""
        return self._books.account(lineage)

    def admit(self, lineage: str, version: Version | None, family: str | None = None) -> None:
        """Register a lineage and note a version of it, unless the grid belongs to another one.

        Versions stay out of the chain: even that a lineage has a new one tells something of its
        network.
        family : of what is to be counted, if anything is: an account has one for ever, whatever
        name it is found by.
        """
        if self._is_new(lineage, version, family) and version is not None:
            self._keep_marks(new_version_id(), lineage, version.marks)
        if self.account(lineage) is None:
            check_lineage(lineage)
            self.append("registered", {"lineage": lineage})

    def _is_new(self, lineage: str, version: Version | None, family: str | None) -> bool:
        """Whether a version of a lineage is not known yet; refuse one that belongs to another."""
        stored = (
            self._store.versions(self._connection, name=self._name(version.marks))
            if version
            else []
        )
        known = self._checked(stored[0]) if stored else None
        if known is not None and known.lineage == lineage:
            return False  # it was compared with all others when it was admitted
        other = self.kin(version, besides=lineage) if version else None
        if other is not None:
            if family is not None:
                check_family(self.account(other), family)
            raise LedgerError(
                f"This grid, or a part of it, has the lines of lineage {other!r}: it is a "
                "version of that one.",
                outcome=NOTHING_SPENT,
                remedy=f"Release it with --lineage {quote(other)}, from the same budget.",
            )
        return True

    def check(self, charge: Charge, draws: int) -> None:
        """Refuse draws that `admit` and `reserve` would refuse; nothing is written."""
        self._is_new(charge.lineage, charge.version, charge.family)
        if (account := self.account(charge.lineage)) is None:
            check_lineage(charge.lineage)
        else:
            _check_covered(account, charge, draws)

    def reserve(self, charge: Charge) -> int:
        """Write a charge of an admitted grid down, if the budget covers it; return its number."""
        account = self.account(charge.lineage)
        assert account is not None, "admitted"
        _check_covered(account, charge)
        return self.append(
            "reserved",
            {
                "lineage": charge.lineage,
                "epsilon": str(charge.epsilon),
                **in_row(charge.adjacency),
                "spent": dict(charge.spent),
                "scale": dict(charge.scale),
                "draws": dict(charge.draws),
            },
        )

    def kin(self, version: Version, besides: str | None = None) -> str | None:
        """Find a lineage that a grid belongs to, by its marks."""
        known = self._store.versions(self._connection)
        if len(known) != self._books.versions:
            raise CheckpointDamaged
        sought = Sought(version.marks)
        for stored in map(self._checked, known):
            if stored.lineage != besides and sought.is_like(json.loads(stored.marks)):
                return stored.lineage
        return None

    def versions(self) -> dict[str, int]:
        """Count the networks that are known of each lineage."""
        return Counter(
            self._checked(stored).lineage for stored in self._store.versions(self._connection)
        )

    def set_budget(self, lineage: str, adjacency: Adjacency, epsilon: Fraction) -> None:
        """Give a lineage its budget, or raise it."""
        account = self.account(lineage)
        assert account is not None, "admitted"
        kind = "budget"
        if account.adjacency is not None:
            if grows(account, adjacency):
                kind, account = GROWN, account.grown(adjacency)
                _check_covers_past(account, epsilon)
            check_same(account, adjacency)
            if epsilon < account.epsilon:
                raise LedgerError(
                    f"The budget of {lineage!r} is ε = {account.epsilon}; it cannot shrink to "
                    f"{epsilon}.",
                    outcome="Nothing was changed.",
                )
        self.append(kind, {"lineage": lineage, "epsilon": str(epsilon), **in_row(adjacency)})

    def charged(self, number: int, outcome: str) -> Mapping[str, Any]:
        """The body of a charge; refuse a row that is none, or was changed."""
        before, row = (self._store.row(self._connection, at) for at in (number - 1, number))
        if row is None or row.kind != "reserved":
            raise LedgerError(
                f"Row {number} of the ledger {self._store.location} is no charge.", outcome=outcome
            )
        for problem in problems(self._secret, [row], {}, before):
            raise self.changed(problem, outcome)
        return _body(row)

    def _keep_marks(self, identity: str, lineage: str, marks: Sequence[str]) -> None:
        parts = (identity, self._name(marks), json.dumps(lineage), json.dumps(list(marks)))
        self._store.add_version(self._connection, StoredVersion(*parts, self._secret.seal(*parts)))
        self._books.versions += 1

    def _checked(self, stored: StoredVersion) -> StoredVersion:
        """A stored grid with its lineage in plain text, if its seal fits."""
        if stored.seal != self._secret.seal(stored.id, stored.name, stored.lineage, stored.marks):
            raise CheckpointDamaged
        return replace(stored, lineage=json.loads(stored.lineage))

    def _name(self, marks: Sequence[str]) -> str:
        return self._secret.name(json.dumps(sorted(marks)).encode())

    def _unanchored(self, names: Sequence[str], outcome: str) -> LedgerError:
        return LedgerError(
            f"The ledger {self._store.location} has {self.count} rows, and no "
            f"{' and no '.join(names)} that knows them.",
            outcome=outcome,
            remedy="Bring it back, or name the right --witness. If it is lost for good, check the "
            "ledger against the latest certificate and go on: gridveil ledger adopt --head "
            "certificate.json (docs/ledger.md).",
        )

    def changed(self, problem: str, outcome: str) -> LedgerError:
        """Say that the ledger is not as it was written."""
        return LedgerError(
            f"The ledger {self._store.location} is not as it was written: {problem}.",
            outcome=outcome,
            remedy=LOST,
        )


def _check_covered(account: Account, charge: Charge, draws: int = 1) -> None:
    """Refuse draws for other neighbours than the budget's, or beyond it."""
    if account.adjacency is not None:
        check_same(account, charge.adjacency)
    losses = {name: Fraction(spent) for name, spent in charge.spent.items()}
    account.check_covers(charge.epsilon, counted(losses, charge.draws, charge.adjacency), draws)


def _check_covers_past(grown: Account, epsilon: Fraction) -> None:
    """Refuse a budget for larger distances that does not cover what was drawn before."""
    if epsilon < grown.spent:
        raise LedgerError(
            f"For these α, what was drawn of {grown.lineage!r} so far counts ε = "
            f"{float_at_least(grown.spent):g}, and the budget would be {epsilon}.",
            outcome="Nothing was changed.",
            remedy="Give a larger --epsilon: that much, and what is still to be spent.",
        )


def _body(row: Row) -> dict[str, Any]:
    return json.loads(row.body)


def _nonces(rows: Sequence[Row]) -> list[str]:
    return [_body(row)["nonce"] for row in rows if row.kind == "reserved"][-KEPT:]


def commitment(nonce: str, output: bytes) -> str:
    """Commit to what was drawn: SHA-256 of the reservation's nonce and of it."""
    return sha256(bytes.fromhex(nonce) + output).hexdigest()
