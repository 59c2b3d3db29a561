"""The ledger: every draw is charged here, durably, before any noise is drawn."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

from gridveil.errors import NOTHING_SPENT, LedgerError
from gridveil.home import gridveil_home
from gridveil.privacy.adjacency import ASSETS, Adjacency
from gridveil.privacy.ledger.accounts import (
    Account,
    Charge,
    Entry,
    Version,
    check_lineage,
    check_same,
    exact_values,
    replay,
    versions_of,
)
from gridveil.privacy.ledger.chain import Head, Row, Safe, Secret, check_nothing_lost, new_ledger_id, problems
from gridveil.privacy.ledger.marks import are_alike
from gridveil.privacy.ledger.store import Store

__all__ = ["Account", "Charge", "Entry", "Ledger", "Version", "default_location"]


class Ledger:
    """A durable account of privacy spent: append-only, chained by keyed hashes, in SQLite or PostgreSQL.

    location : a path, or a URL such as postgresql://host/database. Its key and its latest head lie outside the database, in
    `safe` (default: the folder `ledgers` of gridveil's home). create : whether to make one where there is none.

    Privacy
    -------
    A charge is checked against the budget and committed with full synchronisation, by one writer at a time, before `charge`
    returns; `perturb` draws only after that. A crash in between counts as spent, never as free. Rows hold what was asked and
    charged and keyed fingerprints, never a seed or a value of the grid.
    """

    def __init__(self, location: str | Path, *, safe: Path | None = None, create: bool = True) -> None:
        self._store = Store(location, create=create)
        self.location = self._store.location
        folder = safe or gridveil_home() / "ledgers"
        try:
            with self._store.transaction() as connection:
                found = self._store.prepare(connection)
                identity = self._store.read_meta(connection, "ledger")
                if identity is None and self._store.rows(connection):
                    raise self._store.error("has rows, but its name is gone: it was changed")
                if identity is None:
                    check_nothing_lost(folder, self.location)
                    identity = new_ledger_id()
                    self._safe = Safe(folder, identity)
                    self._secret = self._safe.make_secret(self.location)
                    self._store.write_meta(connection, "ledger", identity)
                    writer = _Writer(self._store, connection, self._secret)
                    writer.append("opened", {"ledger": identity})
                    if found == 1:
                        _import_first_version(writer)
                else:
                    if not re.fullmatch("[0-9a-f]{16}", identity):  # it names the key's file
                        raise self._store.error("its name is not one that gridveil gives: it was changed")
                    self._safe = Safe(folder, identity)
                    self._secret = self._safe.secret()
        except OSError as error:
            raise self._store.error(f"its key cannot be written to {folder} ({error.strerror})") from None

    def name(self, data: bytes) -> str:
        """Name data by this ledger's keyed fingerprint."""
        return self._secret.name(data)

    def register(self, lineage: str, version: Version | None = None) -> None:
        """Open an account for a grid and all its versions."""
        with self._writing() as writer:
            if lineage in writer.accounts():
                raise LedgerError(f"The lineage {lineage!r} is registered already.", outcome="Nothing was changed.")
            writer.admit(lineage, version)

    def set_budget(self, lineage: str, adjacency: Adjacency, epsilon: Fraction, version: Version | None = None) -> None:
        """Give a lineage its budget, or raise it; adjacency and α stay as they were first set, for ever."""
        with self._writing() as writer:
            writer.admit(lineage, version)
            writer.set_budget(lineage, adjacency, epsilon)

    def charge(self, charge: Charge) -> int:
        """Write a charge down for good and return its number; only then may anything be drawn.

        A lineage that was never registered is registered now, with a budget of just this charge.

        Raises
        ------
        BudgetExceeded : if the budget does not cover it; says what is left.
        LedgerError : if adjacency or α are not the budget's, or the grid belongs to another lineage.
        """
        if not all(0 <= spent < math.inf for spent in charge.spent.values()):
            raise LedgerError("A charge is a finite loss of 0 or more in each group.", outcome=NOTHING_SPENT)
        with self._writing() as writer:
            known = charge.lineage in writer.accounts()
            writer.admit(charge.lineage, charge.version)
            adjacency = Adjacency(charge.rule, charge.alpha)
            account = writer.accounts()[charge.lineage]
            if not known:
                writer.set_budget(charge.lineage, adjacency, charge.epsilon)
                account = writer.accounts()[charge.lineage]
            if account.adjacency is not None:
                check_same(account, adjacency)
            account.check_covers(charge.epsilon, {name: Fraction(spent) for name, spent in charge.spent.items()})
            return writer.append(
                "reserved",
                {
                    "lineage": charge.lineage,
                    "version": charge.version.fingerprint,
                    "adjacency": charge.rule,
                    "epsilon": str(charge.epsilon),
                    "alpha": {name: str(alpha) for name, alpha in charge.alpha.items()},
                    "spent": dict(charge.spent),
                    "scale": dict(charge.scale),
                    "draws": dict(charge.draws),
                },
            )

    def mark_drawn(self, number: int) -> Head:
        """Note that the noise of a charge was drawn; return where the ledger stands then."""
        outcome = "The noise was drawn and stays charged; nothing was released."
        with self._writing(outcome) as writer:
            writer.check_drawn_from(number, outcome)
            writer.append("drawn", {"of": number})
        return self._secret.head(writer.count, writer.mac)

    def mark_published(self, number: int, digest: str) -> None:
        """Note which bundle a draw went into."""
        outcome = "The release stays charged; its bundle stands."
        with self._writing(outcome) as writer:
            writer.check_drawn_from(number, outcome)
            writer.append("published", {"of": number, "digest": digest})

    def accounts(self) -> dict[str, Account]:
        """List the lineages with their budgets and what was spent."""
        with self._store.transaction("Nothing was read.") as connection:
            return replay(self._store.rows(connection))

    def entries(self, lineage: str | None = None) -> list[Entry]:
        """List the draws, oldest first, of one lineage or of all."""
        found = [entry for account in self.accounts().values() for entry in account.entries]
        return sorted((entry for entry in found if lineage in (None, entry.lineage)), key=lambda entry: entry.number)

    def head(self) -> Head:
        """Sign where the ledger stands now."""
        with self._store.transaction("Nothing was read.") as connection:
            rows = self._store.rows(connection)
        return self._secret.head(len(rows), rows[-1].mac if rows else "")

    def verify(self, head: Head | None = None) -> list[str]:
        """Check every row against the chain and against a head (default: the one kept outside); return what is wrong."""
        head = head or self._safe.head()  # before the rows: what is written in between is no lost row
        with self._store.transaction("Nothing was checked.") as connection:
            rows = self._store.rows(connection)
        return problems(self._secret, rows, head)

    def export(self) -> list[dict[str, Any]]:
        """Return all rows, for an auditor: no key, no value of a grid."""
        with self._store.transaction("Nothing was read.") as connection:
            rows = self._store.rows(connection)
        return [{"number": row.number, "kind": row.kind, "body": json.loads(row.body), "mac": row.mac} for row in rows]

    @contextmanager
    def _writing(self, outcome: str = NOTHING_SPENT) -> Iterator[_Writer]:
        with self._store.transaction(outcome) as connection:
            writer = _Writer(self._store, connection, self._secret)
            writer.check_whole(self._safe.head(), outcome)
            yield writer
        try:
            # After the commit: a head that is one behind is harmless, one ahead would cry wolf.
            self._safe.keep(self._secret.head(writer.count, writer.mac))
        except OSError as error:
            outcome = "Nothing was drawn; what was charged stays charged." if outcome == NOTHING_SPENT else outcome
            raise self._store.error(f"its head cannot be kept in {self._safe.folder} ({error.strerror})", outcome) from None


class _Writer:
    """Appends rows inside one transaction."""

    def __init__(self, store: Store, connection: Any, secret: Secret) -> None:
        self._store, self._connection, self._secret = store, connection, secret
        self._rows = store.rows(connection)

    @property
    def count(self) -> int:
        return len(self._rows)

    @property
    def mac(self) -> str:
        return self._rows[-1].mac if self._rows else ""

    def first_version(self) -> list[tuple[str, ...]]:
        return self._store.first_version(self._connection)

    def accounts(self) -> dict[str, Account]:
        return replay(self._rows)

    def append(self, kind: str, body: Mapping[str, Any]) -> int:
        number, text = self.count + 1, json.dumps(body, sort_keys=True, separators=(",", ":"))
        row = Row(number, kind, text, self._secret.mac(number, kind, text, self.mac))
        self._store.append(self._connection, row)
        self._rows.append(row)
        return number

    def admit(self, lineage: str, version: Version | None) -> None:
        """Register a lineage and note a version of it, unless the grid belongs to another one."""
        seen = versions_of(self._rows)
        if version is not None:
            for other, versions in seen.items():
                if other != lineage and any(are_alike(version.marks, marks) for marks in versions.values()):
                    raise LedgerError(
                        f"This grid shares most of its lines with lineage {other!r}: it is a version of that one.",
                        outcome=NOTHING_SPENT,
                        remedy=f"Release it with --lineage {other}, from the same budget.",
                    )
        if lineage not in self.accounts():
            check_lineage(lineage)
            self.append("registered", {"lineage": lineage})
        if version is not None and version.fingerprint not in seen.get(lineage, {}):
            self.append("version", {"lineage": lineage, "fingerprint": version.fingerprint, "marks": list(version.marks)})

    def set_budget(self, lineage: str, adjacency: Adjacency, epsilon: Fraction) -> None:
        account = self.accounts()[lineage]
        if account.adjacency is not None:
            check_same(account, adjacency)
            if epsilon < account.epsilon:
                raise LedgerError(
                    f"The budget of {lineage!r} is ε = {account.epsilon}; it cannot shrink to {epsilon}.",
                    outcome="Nothing was changed.",
                )
        alpha = {name: str(value) for name, value in adjacency.alpha.items()}
        self.append("budget", {"lineage": lineage, "adjacency": adjacency.rule, "alpha": alpha, "epsilon": str(epsilon)})

    def check_whole(self, head: Head | None, outcome: str) -> None:
        """Refuse to write on a ledger that was changed, or has lost rows since the head was kept."""
        if head is not None and self.count < head.count:
            raise LedgerError(
                f"The ledger {self._store.location} has lost rows since its head was kept ({head.count} rows then).",
                outcome=outcome,
                remedy="A restored backup forgets what was spent: see `gridveil ledger verify` and docs/ledger.md.",
            )
        for problem in problems(self._secret, self._rows, head):
            raise LedgerError(
                f"The ledger {self._store.location} is not as it was written: {problem}.",
                outcome=outcome,
                remedy="Restore it, with its key, from before that: see `gridveil ledger verify` and docs/ledger.md.",
            )

    def check_drawn_from(self, number: int, outcome: str) -> None:
        """Refuse to note something about a row that is no charge."""
        if not any(row.number == number and row.kind == "reserved" for row in self._rows):
            raise LedgerError(f"Row {number} of the ledger {self._store.location} is no charge.", outcome=outcome)


def default_location() -> str:
    """Where the ledger lies if nobody says otherwise: $GRIDVEIL_LEDGER, or gridveil's home."""
    return os.environ.get("GRIDVEIL_LEDGER") or str(gridveil_home() / "ledger.sqlite")


def _import_first_version(writer: _Writer) -> None:
    """Carry the rows of a schema-1 ledger over: each grid becomes a lineage whose budget is what it had spent."""
    rows = [
        (state, grid, rule, epsilon, json.loads(alpha), json.loads(spent))
        for state, grid, rule, epsilon, alpha, spent in writer.first_version()
    ]
    for grid in dict.fromkeys(row[1] for row in rows):
        mine = [row for row in rows if row[1] == grid]
        writer.append("registered", {"lineage": grid})
        adjacency = Adjacency(mine[0][2], exact_values(mine[0][4]))  # pyright: ignore[reportArgumentType] - checked there
        losses = dict.fromkeys(ASSETS, Fraction(0))
        for _, _, _, _, alpha, spent in mine:
            for name in losses:
                losses[name] += Fraction(spent[name]) * adjacency.alpha[name] / Fraction(alpha[name])
        total = adjacency.loss(losses, ASSETS)
        writer.append("budget", {"lineage": grid, "adjacency": mine[0][2], "alpha": mine[0][4], "epsilon": str(total)})
        for state, _, rule, epsilon, alpha, spent in mine:
            body = {
                "lineage": grid,
                "version": "",
                "adjacency": rule,
                "epsilon": epsilon,
                "alpha": alpha,
                "spent": spent,
                "scale": {},
            }
            number = writer.append("reserved", body)
            if state == "drawn":
                writer.append("drawn", {"of": number})
