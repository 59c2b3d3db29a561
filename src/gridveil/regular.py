"""Files that a user names: regular ones only, read whole and never beyond a limit."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST = 2**31  # bytes: beyond every grid, record and bundle there is


def read_regular(path: Path, *, most: int = LARGEST) -> bytes:
    """Read a regular file of at most so many bytes.

    A pipe is not waited for, and a device, which may have no end, is not begun; links are followed.

    Raises
    ------
    OSError : as `open` does, and in the same form for what is not a regular file or is too large.
    """
    if "\0" in str(path):  # open raises a ValueError, which no caller expects
        raise OSError(errno.EINVAL, "its name holds a NUL", str(path))
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        data = file.read(found.st_size + 1) if found.st_size <= most else b""
        if len(data) > found.st_size:  # it has grown, or is one of those that report a size of 0
            data += file.read(most + 1 - len(data))
    if found.st_size > most or len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {_size(most)}", str(path))
    return data


def _size(count: int) -> str:
    """A size in the largest unit that gives a whole number.

    >>> _size(2**31), _size(3 * 2**20), _size(5)
    ('2 GiB', '3 MiB', '5 bytes')
    """
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count % 2**power == 0:
            return f"{count >> power} {unit}"
    return f"{count} bytes"
