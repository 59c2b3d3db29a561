"""Files that a crash leaves either as they were or as they should be."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_synced(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a new file, for those whom its mode admits, and wait until it is on disk."""
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file whole or not at all, durably; until then its text is for this user's eyes only."""
    handle, name = tempfile.mkstemp(prefix=".writing-", dir=path.parent)  # 0600 from the start
    work = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        work.replace(path)
    finally:
        work.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    with suppress(OSError):  # not every file system can
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
