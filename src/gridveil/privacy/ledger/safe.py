"""What a ledger keeps outside its database: its key and its latest head."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from gridveil.durable import replace_whole
from gridveil.errors import NOTHING_SPENT, LedgerError
from gridveil.privacy.ledger.chain import Head, Secret, read_head
from gridveil.regular import read_regular


@dataclass(frozen=True)
class Safe:
    """The files of a ledger outside its database: its key and its latest head, in a folder of their own."""

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
                remedy="Bring the key back from its backup: without it a ledger can neither be checked nor written.",
            ) from None
        return Secret(self.ledger, data)

    def make_secret(self, location: str) -> Secret:
        """Make a new ledger's key, and note where the ledger is."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        secret = secrets.token_bytes(32)
        replace_whole(self.folder / f"{self.ledger}.place", f"{place(location)}\n".encode())
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


def lost_at(folder: Path, location: str) -> Head | None:
    """Find the last head of a ledger that was at a place and was written to, by the notes in a folder."""
    for note in sorted(folder.glob("*.place")):
        head = Safe(folder, note.stem).head()
        if head is not None and head.count > 1 and note.read_text(encoding="utf-8").strip() == place(location):
            return head
    return None


def place(location: str) -> str:
    """Name the place of a ledger, however it was written."""
    return location if "://" in location else str(Path(location).absolute())
