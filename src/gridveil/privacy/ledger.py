"""The ledger: every draw is charged here, durably, before any noise is drawn."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from gridveil.errors import LedgerError

SCHEMA_VERSION = 1
NOTHING_SPENT = "Nothing was drawn and nothing was spent."
State = Literal["reserved", "drawn"]


@dataclass(frozen=True)
class Charge:
    """What a draw costs: the rule of neighbours, α, exact ε asked for and loss charged, group by group."""

    grid: str
    rule: str
    epsilon: Fraction
    alpha: Mapping[str, Fraction]
    spent: Mapping[str, float]


@dataclass(frozen=True)
class Entry:
    """A row of the ledger. A reserved one counts as spent, whatever became of it."""

    number: int
    state: State
    charge: Charge


class Ledger:
    """A small durable account of privacy spent, in one SQLite file.

    It holds what was asked and what was charged, never a seed or a value of the grid.

    Privacy
    -------
    A charge is committed with full synchronisation before `charge` returns, and `perturb` draws only after that: a crash in
    between counts as spent, never as free.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # The file may name grids and budgets: for its owner's eyes.
            # touch opens no file that exists: closing it would drop the POSIX locks this process holds on it.
            self.path.touch(mode=0o600)
        except OSError as error:
            raise self._error(error.strerror or "cannot be opened") from None
        with self._transaction() as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA_VERSION:
                raise self._error(f"was written by a newer gridveil (schema {version}, this one knows {SCHEMA_VERSION})")
            if version == 0:
                db.execute(
                    "CREATE TABLE entry (number INTEGER PRIMARY KEY AUTOINCREMENT, state TEXT NOT NULL "
                    "CHECK (state IN ('reserved', 'drawn')), grid TEXT NOT NULL, rule TEXT NOT NULL, "
                    "epsilon TEXT NOT NULL, alpha TEXT NOT NULL, spent TEXT NOT NULL)"
                )
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def charge(self, charge: Charge) -> int:
        """Write a charge down for good and return its number. Only then may anything be drawn."""
        with self._transaction() as db:
            row = db.execute(
                "INSERT INTO entry (state, grid, rule, epsilon, alpha, spent) VALUES ('reserved', ?, ?, ?, ?, ?)",
                (
                    charge.grid,
                    charge.rule,
                    str(charge.epsilon),
                    json.dumps({name: str(alpha) for name, alpha in charge.alpha.items()}),
                    json.dumps(dict(charge.spent)),
                ),
            )
            assert row.lastrowid is not None
            return row.lastrowid

    def mark_drawn(self, number: int) -> None:
        """Note that the noise of a charge was drawn."""
        with self._transaction(outcome="The noise was drawn and stays charged; nothing was released.") as db:
            db.execute("UPDATE entry SET state = 'drawn' WHERE number = ?", (number,))

    def entries(self, grid: str | None = None) -> list[Entry]:
        """List the charges, oldest first, of one grid or of all."""
        with self._transaction() as db:
            rows = db.execute("SELECT number, state, grid, rule, epsilon, alpha, spent FROM entry ORDER BY number").fetchall()
        entries = [
            Entry(
                number,
                state,
                Charge(
                    name,
                    rule,
                    Fraction(epsilon),
                    {group: Fraction(value) for group, value in json.loads(alpha).items()},
                    json.loads(spent),
                ),
            )
            for number, state, name, rule, epsilon, alpha, spent in rows
        ]
        return [entry for entry in entries if grid is None or entry.charge.grid == grid]

    def totals(self, grid: str, alpha: Mapping[str, Fraction]) -> dict[str, Fraction]:
        """Add up, group by group, what all draws of a grid tell about a change by alpha: Σ spent · alpha / α."""
        totals = dict.fromkeys(alpha, Fraction(0))
        for entry in self.entries(grid):
            for name, spent in entry.charge.spent.items():
                if name in totals:
                    totals[name] += Fraction(spent) * alpha[name] / entry.charge.alpha[name]
        return totals

    @contextmanager
    def _transaction(self, outcome: str = NOTHING_SPENT) -> Iterator[sqlite3.Connection]:
        try:
            db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
            try:
                # EXTRA: with FULL, a power cut after the commit may bring the deleted journal back and undo the charge.
                db.execute("PRAGMA synchronous = EXTRA")
                db.execute("PRAGMA fullfsync = ON")
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            finally:
                db.close()
        except sqlite3.Error as error:
            raise self._error(str(error), outcome) from None

    def _error(self, reason: str, outcome: str = NOTHING_SPENT) -> LedgerError:
        return LedgerError(
            f"The ledger {self.path}: {reason}.",
            outcome=outcome,
            remedy="Name a ledger that this user may write with --ledger.",
        )


def default_path() -> Path:
    """Where the ledger lies if nobody says otherwise: $GRIDVEIL_LEDGER, or the user's data folder."""
    if named := os.environ.get("GRIDVEIL_LEDGER"):
        return Path(named)
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return data / "gridveil" / "ledger.sqlite"
