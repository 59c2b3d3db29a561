"""The keyed hash chain: what makes an edited, dropped, swapped or inserted row of a ledger show.

mac_n = HMAC-SHA256(key, ledger, n, kind, body, mac_(n−1)). Whoever lacks the key cannot write a row that fits; whoever has an
old head (count, mac) notices a lost tail and a restored backup.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridveil.durable import replace_whole
from gridveil.errors import NOTHING_SPENT, LedgerError


@dataclass(frozen=True)
class Row:
    """One row as it is stored. body : canonical JSON."""

    number: int
    kind: str
    body: str
    mac: str


@dataclass(frozen=True)
class Head:
    """Where a ledger stood: how many rows, and the last one's mac; signed with the ledger's own Ed25519 key."""

    ledger: str
    count: int
    mac: str
    public_key: str
    signature: str


class Secret:
    """A ledger's key, kept in a file outside the database. It never leaves this object."""

    def __init__(self, ledger: str, secret: bytes) -> None:
        self.ledger = ledger
        self._chain = hmac.digest(secret, b"gridveil ledger chain", "sha256")
        self._names = hmac.digest(secret, b"gridveil ledger names", "sha256")
        self._head = hmac.digest(secret, b"gridveil ledger head", "sha256")

    def __repr__(self) -> str:
        return f"<Secret of ledger {self.ledger}>"

    def mac(self, number: int, kind: str, body: str, before: str) -> str:
        """Compute the mac of a row that follows one with the mac `before`."""
        text = json.dumps([self.ledger, number, kind, body, before], ensure_ascii=False)
        return hmac.digest(self._chain, text.encode(), "sha256").hex()

    def name(self, data: bytes) -> str:
        """Name data by a keyed fingerprint: the same data, the same name; without the key it tells nothing."""
        return hmac.digest(self._names, data, "sha256").hex()[:32]

    def head(self, count: int, mac: str) -> Head:
        """Sign where the ledger stands."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.from_private_bytes(self._head)
        signature = key.sign(_head_text(self.ledger, count, mac))
        return Head(self.ledger, count, mac, key.public_key().public_bytes_raw().hex(), signature.hex())


def head_is_genuine(head: Head, public_key: str | None = None) -> bool:
    """Check a head's signature, and that it was made with a given ledger's key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if public_key is not None and public_key != head.public_key:
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(head.public_key))
        key.verify(bytes.fromhex(head.signature), _head_text(head.ledger, head.count, head.mac))
    except (InvalidSignature, ValueError):
        return False
    return True


def problems(secret: Secret, rows: Iterable[Row], head: Head | None) -> list[str]:
    """Compare rows, in order, with the chain and with a head; name the first row that is wrong."""
    before, count, macs = "", 0, [""]
    for row in rows:
        count += 1
        if row.number != count:
            return [f"row {count} is missing"] if row.number > count else [f"row {row.number} occurs twice"]
        if not hmac.compare_digest(secret.mac(row.number, row.kind, row.body, before), row.mac):
            return [f"row {row.number} was changed, swapped, inserted, or follows a row that was dropped"]
        before = row.mac
        macs.append(row.mac)
    if head is None:
        return []
    if head.ledger != secret.ledger or not head_is_genuine(head, secret.head(0, "").public_key):
        return ["the head is not a head of this ledger"]
    if count < head.count:
        return [f"rows {count + 1} to {head.count} are missing at the end: a tail was lost or an old backup restored"]
    if macs[head.count] != head.mac:
        return [f"row {head.count} is not the one that the head saw: an old backup was restored and written on"]
    return []


@dataclass(frozen=True)
class Safe:
    """The files of a ledger outside its database: its key and its latest head, in a folder of their own."""

    folder: Path
    ledger: str

    def secret(self) -> Secret:
        """Read the key."""
        try:
            data = bytes.fromhex(self._key_path.read_text(encoding="ascii").strip())
            if len(data) != 32:
                raise ValueError
        except (OSError, ValueError):
            raise LedgerError(
                f"The key of ledger {self.ledger} is missing or unreadable: {self._key_path}.",
                outcome=NOTHING_SPENT,
                remedy="Bring the key back from its backup: without it a ledger can neither be checked nor written.",
            ) from None
        return Secret(self.ledger, data)

    def make_secret(self, location: str) -> Secret:
        """Make a new ledger's key, and note where the ledger is."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        secret = secrets.token_bytes(32)
        replace_whole(self.folder / f"{self.ledger}.place", f"{_place(location)}\n".encode())
        replace_whole(self._key_path, f"{secret.hex()}\n".encode())
        return Secret(self.ledger, secret)

    def head(self) -> Head | None:
        """Read the latest head, if there is one."""
        return read_head(self._head_path) if self._head_path.exists() else None

    def keep(self, head: Head) -> None:
        """Replace the head by a later one; an earlier one never replaces a later one."""
        import fcntl  # here: whoever only reads bundles needs no locks, and Windows has none

        with (self.folder / f"{self.ledger}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            old = self.head()
            if old is None or old.count < head.count:
                replace_whole(self._head_path, f"{json.dumps(head.__dict__, indent=2)}\n".encode())

    @property
    def _key_path(self) -> Path:
        return self.folder / f"{self.ledger}.key"

    @property
    def _head_path(self) -> Path:
        return self.folder / f"{self.ledger}.head.json"


def check_nothing_lost(folder: Path, location: str) -> None:
    """Refuse to open a new ledger where one with rows was before: an empty one would forget what was spent."""
    for note in sorted(folder.glob("*.place")):
        safe = Safe(folder, note.stem)
        head = safe.head()
        if head is not None and note.read_text(encoding="utf-8").strip() == _place(location):
            raise LedgerError(
                f"The ledger at {location} is gone: by its head it had {head.count} rows.",
                outcome=NOTHING_SPENT,
                remedy=f"Bring it back from its backup; to start anew all the same, remove {note}.",
            )


def _place(location: str) -> str:
    return location if "://" in location else str(Path(location).absolute())


def read_head(path: Path) -> Head:
    """Read a head from a file of its own or from a certificate, strictly."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        data = data.get("ledger_head", data)
        head = Head(**data)
        well_formed = isinstance(head.count, int) and all(isinstance(v, str) for k, v in data.items() if k != "count")
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        well_formed, head = False, None
    if not well_formed or head is None:
        raise LedgerError(
            f"{path} is no ledger head.", outcome="Nothing was checked.", remedy="Name a head file or a certificate."
        )
    return head


def new_ledger_id() -> str:
    """Name a new ledger."""
    return secrets.token_hex(8)


def _head_text(ledger: str, count: int, mac: str) -> bytes:
    return f"gridveil ledger head\n{ledger}\n{count}\n{mac}\n".encode()
