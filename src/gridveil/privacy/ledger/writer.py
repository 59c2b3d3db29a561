"""Writing to a ledger, inside one transaction: checked first, then appended, then sealed."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection

from gridveil.errors import NOTHING_SPENT, LedgerError
from gridveil.privacy.adjacency import ASSETS, Adjacency
from gridveil.privacy.ledger.accounts import OF_A_LINEAGE, Account, Charge, Version, check_same, exact_values, replay
from gridveil.privacy.ledger.chain import Head, Row, Secret, new_nonce, problems
from gridveil.privacy.ledger.checkpoint import Checkpoint, CheckpointDamaged
from gridveil.privacy.ledger.marks import are_alike
from gridveil.privacy.ledger.store import SCHEMA_VERSION, Store, StoredVersion


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
                raise LedgerError(
                    f"The ledger {self._store.location} was written by an older gridveil.",
                    outcome=outcome,
                    remedy="Run gridveil ledger adopt once, which checks every row of it.",
                )
            yield
        except CheckpointDamaged:
            raise self._changed("what its rows add up to was changed", outcome) from None

    def check_whole(self, kept: Mapping[str, Head | None], outcome: str) -> None:
        """Refuse to write on a ledger that was changed, or has lost rows since its head or its witness saw it.

        Only rows since then are read: of those before, the checkpoint holds what they add up to. To change them changes nothing
        that is counted, and `problems` finds it.
        """
        with self.sealed(outcome):
            heads = {name: head for name, head in kept.items() if head is not None}
            count, last = self._store.extent(self._connection)
            for name, head in heads.items():
                if min(count, self.count) < head.count:
                    raise LedgerError(
                        f"The ledger {self._store.location} has lost rows since its {name} was kept ({head.count} rows then).",
                        outcome=outcome,
                        remedy="A restored backup forgets what was spent: see `gridveil ledger verify` and docs/ledger.md.",
                    )
            if (
                len(heads) < len(kept) and self.count > 1
            ):  # one that was only just begun may have been cut off before it had any
                raise self._unanchored([name for name in kept if name not in heads], outcome)
            since = min([head.count for head in heads.values() if head.count > 0], default=self.count)
            start = self._store.row(self._connection, since - 1)
            rows = self._store.rows(self._connection, since=since)
            found = problems(self._secret, rows, heads, start)
            if not found and (count, last) != (self.count, self.count):
                found = [f"it has {count} rows, the last of number {last}, and had {self.count}"]
            if not found and (rows[-1].number, rows[-1].mac) != (self.count, self._books.mac):
                found = [f"row {self.count} was changed"]
            for problem in found:
                raise self._changed(problem, outcome)

    def problems(self, heads: Mapping[str, Head | None]) -> list[str]:
        """Check every row, and what was sealed against what the rows add up to; return what is wrong."""
        rows = self._store.rows(self._connection)
        if found := problems(self._secret, rows, heads):
            return found
        if self._store.schema(self._connection) != SCHEMA_VERSION:
            return []  # an older one sealed nothing
        try:
            known = [self._checked(one) for one in self._store.versions(self._connection)]
            same = self._books.read() and self._books.accounts() == replay(rows) and (self._books.versions == len(known))
        except CheckpointDamaged:
            same = False
        return [] if same else ["what its rows add up to, or the marks of its grids, was changed"]

    def rebuild(self, heads: Mapping[str, Head | None], outcome: str) -> None:
        """Add all rows up anew, once they are seen to be whole; marks that an older gridveil left in rows go beside them."""
        rows = self._store.rows(self._connection)
        for problem in problems(self._secret, rows, heads):
            raise self._changed(problem, outcome)
        self._books.count, self._books.mac = rows[-1].number, rows[-1].mac
        for account in replay(rows).values():
            self._books.put(account)
        for body in [json.loads(row.body) for row in rows if row.kind == "version"]:
            if "marks" in body and not self._store.versions(self._connection, id=body["fingerprint"]):
                self._keep_marks(body["fingerprint"], body["lineage"], body["marks"])
            else:
                self._books.versions += 1

    def seal(self) -> None:
        """Seal what was written; without it, what was appended is no part of the ledger."""
        self._books.save()

    def append(self, kind: str, body: Mapping[str, Any]) -> int:
        """Add a row with a nonce of its own, and count it in."""
        text = json.dumps({**body, "nonce": new_nonce()}, sort_keys=True, separators=(",", ":"))
        number = self.count + 1
        row = Row(number, kind, text, self._secret.mac(number, kind, text, self._books.mac))
        self._store.append(self._connection, row)
        if kind in OF_A_LINEAGE:
            name = body["lineage"]
            self._books.put((self._books.account(name) or Account(name)).after(kind, body))
        self._books.count, self._books.mac = number, row.mac
        return number

    def account(self, lineage: str) -> Account | None:
        """Look an account up; None: the lineage is not registered."""
        return self._books.account(lineage)

    def admit(self, lineage: str, version: Version | None) -> str:
        """Register a lineage and note a version of it, unless the grid belongs to another one; return the version's id."""
        known = self._known(version) if version else None
        if known is not None and known.lineage == lineage:  # it was compared with all others when it was admitted
            return known.id
        other = self.kin(version, besides=lineage) if version else None
        if other is not None:
            raise LedgerError(
                f"This grid shares most of its lines with lineage {other!r}: it is a version of that one.",
                outcome=NOTHING_SPENT,
                remedy=f"Release it with --lineage {other}, from the same budget.",
            )
        if self.account(lineage) is None:
            self.append("registered", {"lineage": lineage})
        if version is None:
            return ""
        return self.admit_unseen(lineage, version)

    def admit_unseen(self, lineage: str, version: Version) -> str:
        """Note a version of a lineage, whatever other lineages look like; return its id."""
        identity = new_nonce()  # random: a name made of the grid would tell about it through the published head
        self.append("version", {"lineage": lineage, "version": identity})
        self._keep_marks(identity, lineage, version.marks)
        return identity

    def reserve(self, charge: Charge, version: str) -> int:
        """Write a charge of a known version down, if the budget covers it; return its number."""
        account = self.account(charge.lineage)
        assert account is not None, "admitted"
        if account.adjacency is not None:
            check_same(account, Adjacency(charge.rule, charge.alpha))
        account.check_covers(charge.epsilon, {name: Fraction(spent) for name, spent in charge.spent.items()})
        return self.append(
            "reserved",
            {
                "lineage": charge.lineage,
                "version": version,
                "adjacency": charge.rule,
                "epsilon": str(charge.epsilon),
                "alpha": {name: str(alpha) for name, alpha in charge.alpha.items()},
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
        for one in map(self._checked, known):
            if one.lineage != besides and are_alike(version.marks, json.loads(one.marks)):
                return one.lineage
        return None

    def set_budget(self, lineage: str, adjacency: Adjacency, epsilon: Fraction) -> None:
        """Give a lineage its budget, or raise it."""
        account = self.account(lineage)
        assert account is not None, "admitted"
        if account.adjacency is not None:
            check_same(account, adjacency)
            if epsilon < account.epsilon:
                raise LedgerError(
                    f"The budget of {lineage!r} is ε = {account.epsilon}; it cannot shrink to {epsilon}.",
                    outcome="Nothing was changed.",
                )
        alpha = {name: str(value) for name, value in adjacency.alpha.items()}
        self.append("budget", {"lineage": lineage, "adjacency": adjacency.rule, "alpha": alpha, "epsilon": str(epsilon)})

    def charged(self, number: int, outcome: str) -> Mapping[str, Any]:
        """The body of a charge; refuse a row that is none, or was changed."""
        before, row = (self._store.row(self._connection, one) for one in (number - 1, number))
        if row is None or row.kind != "reserved":
            raise LedgerError(f"Row {number} of the ledger {self._store.location} is no charge.", outcome=outcome)
        for problem in problems(self._secret, [row], {}, before):
            raise self._changed(problem, outcome)
        return json.loads(row.body)

    def import_first_version(self) -> None:
        """Carry the rows of a schema-1 ledger over: each grid becomes a lineage whose budget is what it had spent."""
        rows = [
            (state, grid, rule, epsilon, json.loads(alpha), json.loads(spent))
            for state, grid, rule, epsilon, alpha, spent in self._store.first_version(self._connection)
        ]
        for grid in dict.fromkeys(row[1] for row in rows):
            mine = [row for row in rows if row[1] == grid]
            self.append("registered", {"lineage": grid})
            adjacency = Adjacency(mine[0][2], exact_values(mine[0][4]))  # pyright: ignore[reportArgumentType] - checked there
            losses = dict.fromkeys(ASSETS, Fraction(0))
            for _, _, _, _, alpha, spent in mine:
                for name in losses:
                    losses[name] += Fraction(spent[name]) * adjacency.alpha[name] / Fraction(alpha[name])
            total = adjacency.loss(losses, ASSETS)
            self.append("budget", {"lineage": grid, "adjacency": mine[0][2], "alpha": mine[0][4], "epsilon": str(total)})
            for state, _, rule, epsilon, alpha, spent in mine:
                body = {"lineage": grid, "version": "", "adjacency": rule, "epsilon": epsilon, "alpha": alpha, "spent": spent}
                number = self.append("reserved", {**body, "scale": {}})
                if state == "drawn":
                    self.append("drawn", {"of": number})

    def _known(self, version: Version) -> StoredVersion | None:
        found = self._store.versions(self._connection, name=self._name(version.marks))
        return self._checked(found[0]) if found else None

    def _keep_marks(self, identity: str, lineage: str, marks: Sequence[str]) -> None:
        parts = (identity, self._name(marks), json.dumps(lineage), json.dumps(list(marks)))
        self._store.add_version(self._connection, StoredVersion(*parts, self._secret.seal(*parts)))
        self._books.versions += 1

    def _checked(self, one: StoredVersion) -> StoredVersion:
        """A stored grid with its lineage in plain text, if its seal fits."""
        if not hmac.compare_digest(self._secret.seal(one.id, one.name, one.lineage, one.marks), one.seal):
            raise CheckpointDamaged
        return replace(one, lineage=json.loads(one.lineage))

    def _name(self, marks: Sequence[str]) -> str:
        return self._secret.name(json.dumps(sorted(marks)).encode())

    def _unanchored(self, names: Sequence[str], outcome: str) -> LedgerError:
        return LedgerError(
            f"The ledger {self._store.location} has {self.count} rows, and no {' and no '.join(names)} that knows them.",
            outcome=outcome,
            remedy="Bring it back, or name the right --witness. If it is lost for good, check the ledger against the latest "
            "certificate and go on: gridveil ledger adopt --head certificate.json (docs/ledger.md).",
        )

    def _changed(self, problem: str, outcome: str) -> LedgerError:
        return LedgerError(
            f"The ledger {self._store.location} is not as it was written: {problem}.",
            outcome=outcome,
            remedy="Restore it, with its key, from before that: see `gridveil ledger verify` and docs/ledger.md.",
        )


def commitment(nonce: str, output: bytes) -> str:
    """Commit to what was drawn: SHA-256 of the reservation's nonce and of it."""
    return sha256(bytes.fromhex(nonce) + output).hexdigest()
