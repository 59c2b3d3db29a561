"""The ledger: every draw is charged here, durably, before any noise is drawn."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from gridveil.foundation.archive import check_outside_bundles
from gridveil.foundation.arguments import Unfit, takes
from gridveil.foundation.errors import NOTHING_SPENT, LedgerError
from gridveil.foundation.files import gridveil_home
from gridveil.foundation.looks import looks
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.ledger.accounts import (
    Account,
    Charge,
    Entry,
    Receipt,
    Version,
    entries_of,
    replay,
)
from gridveil.privacy.ledger.chain import Head, Row, new_ledger_id
from gridveil.privacy.ledger.safe import Safe, file_locks, head_at
from gridveil.privacy.ledger.store import Store
from gridveil.privacy.ledger.witness import Witness
from gridveil.privacy.ledger.writer import Writer, commitment

T = TypeVar("T")

__all__ = ["Account", "Charge", "Entry", "Ledger", "Receipt", "Version", "default_location"]


def _location(value: Any) -> str | Path:
    """Read where a ledger lies; the default place is never guessed from a mistake."""
    if not isinstance(value, str | Path) or not str(value).strip() or "\0" in str(value):
        raise Unfit("a path or a postgresql:// URL; Ledger.default() is the usual one")
    return value


@looks(lambda ledger: str(ledger.location))
@takes(outcome=NOTHING_SPENT, location=_location, witness=_location)
class Ledger:
    """A durable account of privacy spent: append-only, keyed hash chain, SQLite or PostgreSQL.

    location : a path, or a URL such as postgresql://host/database. Its key and its latest head lie
    outside the database, in `safe` (default: the folder `ledgers` of gridveil's home).
    witness : a path or a URL where each head is noted as well, away from whatever is backed up with
    the ledger (default: `default_witness`).
    create : whether to make one where there is none.
    charged : numbers of the charges that were made through this very object.

    Privacy
    -------
    A charge is checked against the budget and committed with full synchronisation, by one writer at
    a time, before `charge` returns; `perturb` draws only after that. A crash in between counts as
    spent, never as free. Rows hold what was asked and charged, random nonces and a commitment to
    the noisy values; never a seed, a value of the grid, or a function of one. Keyed marks of its
    network lie beside the rows and do not enter the chain, whose head is published.
    """

    def __init__(
        self,
        location: str | Path,
        *,
        safe: Path | None = None,
        witness: str | Path | None = None,
        create: bool = True,
    ) -> None:
        self._store = Store(location)
        self.location = self._store.location
        self._witness = Witness(witness)
        if self._witness.place == self._store.place:
            raise LedgerError(
                f"The witness of the ledger {self.location} cannot lie in the ledger itself, whose "
                "backups it has to outlive.",
                outcome=NOTHING_SPENT,
                remedy="Name another place with --witness or $GRIDVEIL_WITNESS.",
            )
        self.charged: list[int] = []
        folder = safe or gridveil_home() / "ledgers"
        identity = self._identity()
        if identity is None and not create:
            raise self._store.absent()
        try:
            if identity is None:
                identity = self._begin(folder)
            if not re.fullmatch("[0-9a-f]{16}", identity):  # it names the key's file
                raise self._store.error("its name is not one that gridveil gives: it was changed")
            self._safe = Safe(folder, identity)
            self._secret = self._safe.secret()
        except OSError as error:
            raise self._store.error(
                f"its key cannot be written to {folder} ({error.strerror})"
            ) from None

    @classmethod
    def default(cls) -> Ledger:
        """The usual ledger: $GRIDVEIL_LEDGER, or the one in gridveil's home; made where there is
        none.
        """
        return cls(default_location())

    def name(self, data: bytes) -> str:
        """Name data by this ledger's keyed fingerprint."""
        return self._secret.name(data)

    def register(self, lineage: str, version: Version | None = None) -> None:
        """Open an account for a grid and all its versions."""
        with self._writing() as writer:
            if writer.account(lineage) is not None:
                raise LedgerError(
                    f"The lineage {lineage!r} is registered already.",
                    outcome="Nothing was changed.",
                )
            writer.admit(lineage, version)

    def set_budget(
        self, lineage: str, adjacency: Adjacency, epsilon: Fraction, version: Version | None = None
    ) -> None:
        """Give a lineage its budget, or raise it; its adjacency never changes, and its α may grow
        alone: what was drawn before is then counted for the larger one.
        """
        with self._writing() as writer:
            writer.admit(lineage, version, adjacency.family)
            writer.set_budget(lineage, adjacency, epsilon)

    def charge(self, charge: Charge) -> int:
        """Write a charge down for good and return its number; only then may anything be drawn.

        A lineage that was never registered is registered now, with a budget of just this charge.

        Raises
        ------
        BudgetExceeded : if the budget does not cover it; says what is left.
        LedgerError : if parameters, adjacency or α are not the budget's, or the grid belongs to
        another lineage.
        """
        if not all(0 <= spent < math.inf for spent in charge.spent.values()):
            raise LedgerError(
                "A charge is a finite loss of 0 or more in each group.", outcome=NOTHING_SPENT
            )
        with self._writing() as writer:
            known = writer.account(charge.lineage) is not None
            writer.admit(charge.lineage, charge.version, charge.family)
            if not known:
                writer.set_budget(charge.lineage, charge.adjacency, charge.epsilon)
            number = writer.reserve(charge)
        self.charged.append(number)
        return number

    def check(self, charge: Charge, draws: int = 1) -> None:
        """Refuse what `charge` would refuse, of several draws alike; nothing is written."""
        with self._looking() as writer:
            writer.check(charge, draws)

    def mark_drawn(self, number: int, output: bytes) -> Receipt:
        """Note that the noise of a charge was drawn, and commit to what came out.

        output : the noisy values.
        """
        outcome = "The noise was drawn and stays charged; nothing was released."
        with self._writing(outcome) as writer:
            charge = writer.charged(number, outcome)
            nonce = charge["nonce"]
            drawn = commitment(nonce, output)
            writer.append("drawn", {"of": number, "commitment": drawn})
            account, earlier = writer.account(charge["lineage"]), writer.before(number, nonce)
            assert account is not None, "it was charged"
        return Receipt(number, nonce, drawn, earlier, writer.head, account.spent, account.epsilon)

    def mark_published(self, number: int, digest: str) -> None:
        """Note which bundle a draw went into."""
        outcome = "The release stays charged; its bundle stands."
        with self._writing(outcome) as writer:
            writer.charged(number, outcome)
            writer.append("published", {"of": number, "digest": digest})

    def account(self, lineage: str) -> Account | None:
        """Look one account up; None: the lineage is not registered."""
        with self._looking() as writer:
            return writer.account(lineage)

    def account_before(self, number: int) -> Account | None:
        """The account that a charge went to, as it stood before; None: there is no such charge."""
        lineage = next((one.lineage for one in self.entries() if one.number == number), None)
        if lineage is None:
            return None
        earlier = self._from_rows(lambda rows: replay(row for row in rows if row.number < number))
        return earlier.get(lineage)

    def lineage_of(self, version: Version) -> str | None:
        """Find the lineage that a grid belongs to; None: it is not known."""
        with self._looking() as writer:
            return writer.kin(version)

    def accounts(self) -> dict[str, Account]:
        """List the lineages with their budgets and what was spent."""
        return self._from_rows(replay)

    def entries(self, lineage: str | None = None) -> list[Entry]:
        """List the draws, oldest first, of one lineage or of all."""
        return [entry for entry in self._from_rows(entries_of) if lineage in (None, entry.lineage)]

    def versions(self) -> dict[str, int]:
        """Count the networks that are known of each lineage."""
        with self._looking() as writer:
            return writer.versions()

    def head(self) -> Head:
        """Sign where the ledger stands now, by what was sealed."""
        with self._looking() as writer:
            return writer.head

    def head_of(self, rows: Sequence[Mapping[str, Any]]) -> Head:
        """Sign the end of exported rows; give it to `verify` before it is given to anybody."""
        return self._secret.head(len(rows), rows[-1]["mac"] if rows else "")

    def verify(self, *heads: Head) -> list[str]:
        """Check every row against the chain, every head and what was sealed; return what is wrong.

        heads : those of certificates, say, besides the one that is kept and the witness's.
        """
        outcome = "Nothing was checked."
        kept = self._kept(outcome)  # before the rows: what is written in between is no lost row
        with self._store.reading(outcome) as connection:
            problems = Writer(self._store, connection, self._secret).problems(_named(kept, heads))
            count, _ = self._store.extent(connection)
        if not problems and self._stranger():
            problems = ["another ledger was at this place, and this one was put there instead"]
        if not problems and count > 1 and not (heads or any(kept.values())):
            problems = [
                "there is neither head nor witness nor certificate to tell whether rows are "
                "missing at the end"
            ]
        return problems

    @property
    def missing(self) -> tuple[str, ...]:
        """Which of head and witness do not know this ledger; without both, it is not written to."""
        return tuple(
            name for name, head in self._kept("Nothing was checked.").items() if head is None
        )

    def adopt(self, *heads: Head) -> None:
        """Accept the ledger as it stands where head or witness is missing, and note that in it.

        Every row is checked first, against heads too, of certificates say: nothing else tells what
        a ledger without head and witness has lost.
        """
        with self._writing("Nothing was changed.", adopted=heads) as writer:
            writer.append("adopted", {"missing": list(self.missing)})

    def export(self) -> list[dict[str, Any]]:
        """Return all rows for an auditor: no key, and nothing about a grid."""
        return self._from_rows(_exported)

    def _from_rows(self, read: Callable[[list[Row]], T]) -> T:
        """Read something from all rows; say clearly where they are none of gridveil's."""
        with self._store.reading() as connection:
            rows = self._store.rows(connection)
        try:
            return read(rows)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self._store.error(
                "a row cannot be read: see `gridveil ledger verify`", "Nothing was read."
            ) from None

    def _kept(self, outcome: str) -> dict[str, Head | None]:
        return {
            "head": self._safe.head(),
            "witness": self._witness.head(self._safe.ledger, outcome),
        }

    def _stranger(self) -> Head | None:
        """The head of another ledger that was here, in whose place this one was put."""
        mine = self._safe.ledger
        for here in {self._store.place, self._store.name}:
            if head := head_at(self._safe.folder, here, besides=mine) or self._witness.head_at(
                here, besides=mine
            ):
                return head
        return None

    @contextmanager
    def _looking(self) -> Iterator[Writer]:
        """See the accounts as they were sealed, without reading all rows."""
        with self._store.reading() as connection:
            writer = Writer(self._store, connection, self._secret)
            with writer.sealed("Nothing was read."):
                yield writer

    @contextmanager
    def _writing(
        self, outcome: str = NOTHING_SPENT, adopted: Sequence[Head] | None = None
    ) -> Iterator[Writer]:
        """Write, if the ledger is whole; then note where it stands outside of it.

        adopted : heads to adopt a ledger by.
        """
        self._check_keepable(outcome)
        with self._store.writing(outcome) as connection:
            writer = Writer(self._store, connection, self._secret)
            kept = self._kept(outcome)
            if adopted is None:
                writer.check_whole(kept, outcome)
            else:
                writer.rebuild(_named(kept, adopted), outcome)
            if writer.count == 1 and not all(kept.values()):
                # it was cut off when it was begun: a second cut must not leave it without
                self._keep(writer.head, outcome)
            with writer.sealed(outcome, read=False):
                yield writer
            writer.seal()
        # After the commit: a head that is one behind is harmless, one ahead would cry wolf.
        self._keep(
            writer.head,
            "Nothing was drawn; what was charged stays charged."
            if outcome == NOTHING_SPENT
            else outcome,
        )

    def _keep(self, head: Head, outcome: str) -> None:
        """Note where the ledger stands; an earlier note must be of this ledger, not of a copy."""
        try:
            before = {"head": self._safe.keep(head, self._store.place)}
        except OSError as error:
            raise self._store.error(
                f"its head cannot be kept in {self._safe.folder} ({error.strerror})", outcome
            ) from None
        before["witness"] = self._witness.keep(head, self._store.place, outcome)
        for name, other in before.items():
            if other is not None and other != head:
                with self._store.reading(outcome) as connection:
                    row = self._store.row(connection, other.count)
                if row is None or row.mac != other.mac:
                    raise LedgerError(
                        f"The {name} of the ledger {self.location} saw {other.count} rows that are "
                        "not this ledger's: there is another copy of it, and both are written to.",
                        outcome=outcome,
                        remedy="Keep one copy: see `gridveil ledger verify` and docs/ledger.md.",
                    )

    def _check_keepable(self, outcome: str) -> None:
        """Refuse to write where head or witness cannot be kept: a try would spend in vain."""
        try:
            with self._safe.locked():
                writable = os.access(self._safe.folder, os.W_OK)
        except OSError:
            writable = False
        if not writable:
            raise self._store.error(
                f"its head cannot be kept in {self._safe.folder}, which this user may not write",
                outcome,
            )
        self._witness.prepare(outcome)
        if stranger := self._stranger():
            raise LedgerError(
                f"Another ledger, of {stranger.count} rows, was at {self.location}, and this one "
                "was put there instead.",
                outcome=outcome,
                remedy="Move each back to its place: what was spent is in both.",
            )

    def _identity(self) -> str | None:
        """Read the ledger's name; None: there is no ledger yet."""
        if not self._store.exists:
            return None
        with self._store.reading(NOTHING_SPENT) as connection:
            if self._store.schema(connection) == 0:
                return None
            identity = self._store.read_meta(connection, "ledger")
            if identity is None and self._store.extent(connection) != (0, 0):
                raise self._store.error("has rows, but its name is gone: it was changed")
            return identity

    def _begin(self, folder: Path) -> str:
        """Begin a new ledger, unless one with rows was here: an empty one would forget them."""
        file_locks()  # before a file is made
        check_outside_bundles(folder)
        if self._lost(folder):
            # before a file is made; unless another process has begun one in the meantime
            if identity := self._identity():
                return identity
            raise self._gone(folder)
        self._witness.prepare(NOTHING_SPENT)
        self._store.make()
        with self._store.writing() as connection:
            self._store.prepare(connection)
            identity = self._store.read_meta(connection, "ledger")
            if identity is not None:  # another process was first
                return identity
            if self._lost(folder):
                raise self._gone(folder)
            self._safe = Safe(folder, identity := new_ledger_id())
            self._secret = self._safe.make_secret()
            self._store.write_meta(connection, "ledger", identity)
            writer = Writer(self._store, connection, self._secret)
            writer.append("opened", {"ledger": identity})
            writer.seal()
        self._keep(writer.head, NOTHING_SPENT)
        return identity

    def _lost(self, folder: Path) -> Head | None:
        """The last head of a ledger that was here."""
        return head_at(folder, self._store.place) or self._witness.head_at(self._store.place)

    def _gone(self, folder: Path) -> LedgerError:
        lost = self._lost(folder)
        return LedgerError(
            f"The ledger at {self.location} is gone: it had {lost.count if lost else 'more'} rows.",
            outcome=NOTHING_SPENT,
            remedy="Bring it back from its backup; to begin another one, name another place with "
            "--ledger.",
        )


def default_location() -> str:
    """Where the ledger lies if nobody says otherwise: $GRIDVEIL_LEDGER, or gridveil's home."""
    return os.environ.get("GRIDVEIL_LEDGER") or str(gridveil_home() / "ledger.sqlite")


def _named(kept: Mapping[str, Head | None], others: Sequence[Head]) -> dict[str, Head | None]:
    return {
        **kept,
        **{
            f"given head{f' {n}' if len(others) > 1 else ''}": head
            for n, head in enumerate(others, start=1)
        },
    }


def _exported(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{**vars(row), "body": json.loads(row.body)} for row in rows]
