"""An owner's own files: where they lie; a crash leaves them as they were or as they should be."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MADE = "made"  # what a workplace holds: a file or a folder
WORKPLACE = re.compile(r"\.gridveil-making-[a-z0-9_]{8}")


def write_synced(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a new file, for those whom its mode admits, and wait until it is on disk."""
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file whole or not at all, durably; until then only this user can read it."""
    with workplace(path.parent) as made:
        write_synced(made, data, 0o600)
        made.chmod(mode)
        made.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    with suppress(OSError):  # not every file system can
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def workplace(folder: Path) -> Iterator[Path]:
    """Give a private place to make something that is then moved elsewhere on the same disk.

    Workplaces of runs that were killed are swept away first. A run locks its own while it lives:
    one that is not locked is nobody's any more.
    """
    sweep(folder)
    place, lock = _new(folder)
    try:
        yield place / MADE
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _new(folder: Path) -> tuple[Path, int | None]:
    while True:
        place = Path(tempfile.mkdtemp(prefix=".gridveil-making-", dir=folder))
        try:
            lock = _lock(place)
        except (BlockingIOError, FileNotFoundError):
            # another run's sweep was quicker than our lock
            continue
        except (ImportError, OSError):  # without locks nothing is swept either
            return place, None
        if place.exists():
            return place, lock
        os.close(lock)


def sweep(folder: Path) -> None:
    """Remove workplaces that nobody has locked; nothing that could be anybody else's."""
    if not hasattr(os, "geteuid"):  # Windows tells neither who made a folder nor who locks it
        return
    with suppress(OSError), os.scandir(folder) as leftover:
        for place in [Path(entry) for entry in leftover if WORKPLACE.fullmatch(entry.name)]:
            with suppress(ImportError, OSError):
                known = place.lstat()
                if (
                    not stat.S_ISDIR(known.st_mode)
                    or known.st_uid != os.geteuid()
                    or known.st_mode & 0o777 != 0o700
                ):
                    continue
                lock = _lock(place)
                try:
                    if all(inside.name == MADE for inside in place.iterdir()):
                        shutil.rmtree(place, ignore_errors=True)
                finally:
                    os.close(lock)


def _lock(place: Path) -> int:
    import fcntl  # here: Windows has none

    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def gridveil_home() -> Path:
    """Name the owner's folder: $GRIDVEIL_HOME, or gridveil in the user's data folder.

    It may not exist yet.
    """
    if named := os.environ.get("GRIDVEIL_HOME"):
        return Path(named)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "gridveil"


def state_home() -> Path:
    """Name gridveil's state folder, outside the owner's backups. It may not exist yet."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "gridveil"
