"""The keyed hash chain: what makes an edited, dropped, swapped or inserted row of a ledger show.

mac_n = HMAC-SHA256(key, ledger, n, kind, body, mac_(n−1)). Whoever lacks the key cannot write a row
that fits; whoever has an old head (count, mac) notices a lost tail and a restored backup. Every
body holds a random nonce: two histories of one ledger, one of them forgotten by a restored backup,
never have the same macs.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridveil.foundation.errors import LedgerError
from gridveil.foundation.reading import read_regular

LARGEST_HEAD = 2**20  # bytes of a file that holds a head: a certificate has a few thousand


@dataclass(frozen=True)
class Row:
    """One row as it is stored. body : canonical JSON."""

    number: int
    kind: str
    body: str
    mac: str


@dataclass(frozen=True)
class Head:
    """Where a ledger stood: row count and last mac, signed with the ledger's own Ed25519 key."""

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
        self._seals = hmac.digest(secret, b"gridveil ledger seals", "sha256")

    def __repr__(self) -> str:
        return f"<Secret of ledger {self.ledger}>"

    def mac(self, number: int, kind: str, body: str, before: str) -> str:
        """Compute the mac of a row that follows one with the mac `before`."""
        text = json.dumps(
            [self.ledger, number, kind, body, before], ensure_ascii=False, default=repr
        )
        return hmac.digest(self._chain, text.encode("utf-8", "surrogatepass"), "sha256").hex()

    def name(self, data: bytes) -> str:
        """Name data by a keyed fingerprint: equal data, equal name; meaningless without the key."""
        return hmac.digest(self._names, data, "sha256").hex()[:32]

    def seal(self, *parts: str) -> str:
        """Seal what is kept beside the chain, so that nobody without the key can change it."""
        return hmac.digest(self._seals, json.dumps(parts).encode(), "sha256").hex()

    def head(self, count: int, mac: str) -> Head:
        """Sign where the ledger stands."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.from_private_bytes(self._head)
        signature = key.sign(_head_text(self.ledger, count, mac))
        return Head(
            self.ledger, count, mac, key.public_key().public_bytes_raw().hex(), signature.hex()
        )


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


def problems(
    secret: Secret, rows: Iterable[Row], heads: Mapping[str, Head | None], start: Row | None = None
) -> list[str]:
    """Compare rows with the chain and with heads by name; name the first row that is wrong.

    start : the row before them, if they are not all; then heads that saw fewer rows than that are
    not compared.
    """
    before, count = (start.mac, start.number) if start else ("", 0)
    macs = {count: before}
    for row in rows:
        count += 1
        if row.number != count:
            return (
                [f"row {count} is missing"]
                if row.number > count
                else [f"row {row.number} occurs twice"]
            )
        if row.mac != secret.mac(row.number, row.kind, row.body, before):
            # both are public: no need to hide where they differ
            return [
                f"row {row.number} was changed, swapped, inserted, or follows a row that was "
                "dropped"
            ]
        before = macs[count] = row.mac
    for name, head in heads.items():
        if head is None:
            continue
        if head.ledger != secret.ledger or not head_is_genuine(head, secret.head(0, "").public_key):
            return [f"the {name} is not a head of this ledger"]
        if count < head.count:
            return [
                f"rows {count + 1} to {head.count} are missing at the end: a tail was lost or an "
                f"old backup restored (by the {name})"
            ]
        if head.count in macs and macs[head.count] != head.mac:
            return [
                f"row {head.count} is not the one that the {name} saw: an old backup was restored "
                "and written on"
            ]
    return []


def read_head(path: Path) -> Head:
    """Read a head from a file of its own or from a certificate, strictly."""
    why = ""
    try:
        head = parse_head(read_regular(path, most=LARGEST_HEAD))
    except OSError as error:
        head, why = None, f": it cannot be read ({error.strerror})"
    if head is None:
        raise LedgerError(
            f"{path} is no ledger head{why}.",
            outcome="Nothing was checked.",
            remedy="Name a head file or a certificate.json.",
        )
    return head


def parse_head(text: str | bytes) -> Head | None:
    """Read a head, or the one in a certificate; None if it is none."""
    try:
        data: Any = json.loads(text)
        data = data.get("ledger_head", data)
        head = Head(**data)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    well_formed = type(head.count) is int and all(
        isinstance(value, str) for name, value in data.items() if name != "count"
    )
    return head if well_formed else None


def new_nonce() -> str:
    """Draw what makes a row unlike any other."""
    return secrets.token_hex(16)


def new_version_id() -> str:
    """Name a version of a grid: a name made of it would tell about it."""
    return secrets.token_hex(16)


def new_ledger_id() -> str:
    """Name a new ledger."""
    return secrets.token_hex(8)


def _head_text(ledger: str, count: int, mac: str) -> bytes:
    return f"gridveil ledger head\n{ledger}\n{count}\n{mac}\n".encode()
