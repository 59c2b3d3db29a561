"""What a ledger keeps outside its database: its key and its latest head."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridveil.foundation.errors import NOTHING_SPENT, LedgerError
from gridveil.foundation.files import replace_whole
from gridveil.foundation.reading import read_regular
from gridveil.foundation.shown import json_file
from gridveil.privacy.ledger.chain import LARGEST_HEAD, Head, Secret, parse_head


@dataclass(frozen=True)
class Safe:
    """A ledger's files outside its database, its key and its latest head, in their own folder."""

    folder: Path
    ledger: str

    def secret(self) -> Secret:
        """Read the key."""
        try:
            data = bytes.fromhex(read_regular(self._key_path, most=1000).decode("ascii").strip())
            if len(data) != 32:
                raise ValueError
        except (OSError, ValueError):
            raise LedgerError(
                f"The key of ledger {self.ledger} is missing or unreadable: {self._key_path}.",
                outcome=NOTHING_SPENT,
                remedy="Restore the key from a backup: without it a ledger can neither be "
                "checked nor written.",
            ) from None
        return Secret(self.ledger, data)

    def make_secret(self) -> Secret:
        """Make a new ledger's key."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        secret = secrets.token_bytes(32)
        replace_whole(self._key_path, f"{secret.hex()}\n".encode())
        return Secret(self.ledger, secret)

    def head(self) -> Head | None:
        """Read the latest head, if there is one."""
        try:
            head = parse_head(read_regular(self._head_path, most=LARGEST_HEAD))
        except FileNotFoundError:
            return None
        except OSError:
            head = None
        if head is None:
            raise LedgerError(
                f"The head of ledger {self.ledger} cannot be read: {self._head_path}.",
                outcome=NOTHING_SPENT,
                remedy="Make it readable, or restore it from a backup; if it is lost, "
                "remove it and see `gridveil ledger adopt`.",
            )
        return head

    def keep(self, head: Head, where: str) -> Head | None:
        """Replace the head by a later one, note its ledger's place, return the one before."""
        with self.locked():
            old = self.head()
            if old is not None and old.count >= head.count:
                # an earlier one never replaces a later one
                return old
            if self.place() != where:
                replace_whole(self._place_path, f"{where}\n".encode("utf-8", "surrogateescape"))
            replace_whole(self._head_path, json_file(vars(head)))
            return old

    def place(self) -> str | None:
        """Where the ledger was when its head was last kept."""
        try:
            return (
                read_regular(self._place_path, most=10_000)
                .decode("utf-8", "surrogateescape")
                .strip()
            )
        except OSError:
            return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the head alone."""
        fcntl = file_locks()
        with (self.folder / f"{self.ledger}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @property
    def _place_path(self) -> Path:
        return self.folder / f"{self.ledger}.place"

    @property
    def _key_path(self) -> Path:
        return self.folder / f"{self.ledger}.key"

    @property
    def _head_path(self) -> Path:
        return self.folder / f"{self.ledger}.head.json"


def file_locks() -> Any:
    """Python's module of POSIX file locks, without which no ledger is written to.

    Imported late: whoever only reads bundles needs no locks, and Windows has none.
    """
    try:
        import fcntl
    except ImportError:
        raise LedgerError(
            "A ledger is written under POSIX file locks, which this system does not have.",
            outcome=NOTHING_SPENT,
            remedy="Release on Linux, macOS or WSL. A recipient's commands and demos work "
            "everywhere.",
        ) from None
    return fcntl


def head_at(folder: Path, where: str, besides: str = "") -> Head | None:
    """Find the last head of a ledger, but one, that was at a place and was written to."""
    for note in sorted(folder.glob("*.place")):
        safe = Safe(folder, note.stem)
        if note.stem != besides and safe.place() == where:
            head = safe.head()
            if head is not None and head.count > 1:
                return head
    return None
