"""Files that a user names: regular ones only, never beyond a limit; their text in lines, and the
numbers in it.

Sizes are checked first, and no pattern tries a text twice.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import Any

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import GRID_BYTES, LONGEST_NUMBER, bad_lines

LARGEST = 2**31  # bytes: beyond every grid, record and bundle there is
BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f]")
# Python's float() also takes 1_000 and digits of other scripts; MATLAB and PSS/E do not. ++ and *+
# never give back a digit.
_DIGITS = r"(?:\d++(?:\.\d*+)?|\.\d++)"
NUMBER = re.compile(rf"[-+]?(?:{_DIGITS}(?:e[-+]?\d++)?|inf|nan)", re.ASCII | re.IGNORECASE)
FORTRAN = re.compile(rf"[-+]?{_DIGITS}(?:[ed][-+]?\d++)?", re.ASCII | re.IGNORECASE)


def read_regular(path: Path, *, most: int = LARGEST) -> bytes:
    """Read a regular file of at most so many bytes.

    A pipe is not waited for, and a device, which may have no end, is not begun; links are followed.

    Raises
    ------
    OSError : as `open` does, and in the same form for what is not a regular file or is too large.
    """
    if "\0" in str(path):  # open raises a ValueError, which no caller expects
        raise OSError(errno.EINVAL, "its name holds a NUL", str(path))
    with open(
        path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    ) as file:
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


def read_bytes(path: Path, expected: str, limit: int = GRID_BYTES) -> bytes:
    """Read a regular file whole, or say why that is not possible.

    expected : what the file should hold, for an error.
    """
    try:
        data = read_regular(path, most=limit)
    except FileNotFoundError:
        raise InputError(
            "there is no such file", file=str(path), expected=expected, remedy="Check the path."
        ) from None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise InputError(
                f"the file is larger than {limit // 2**20} MB",
                file=path.name,
                expected=expected,
                remedy="Check the path.",
            ) from None
        raise InputError(
            f"cannot be read ({error.strerror})",
            file=str(path),
            remedy="Check the path and its permissions.",
        ) from None
    if not data.strip():
        raise InputError(
            "the file is empty",
            file=path.name,
            expected=expected,
            remedy="Check that it was copied whole.",
        )
    return data


def read_lines(path: Path, what: str) -> list[str]:
    """Read a text file into lines, or say why it is none.

    what : what it should hold, for errors.
    """
    data = read_bytes(path, what, GRID_BYTES)
    if BINARY.search(data):
        raise InputError("this is a binary file", file=path.name, expected=f"{what}, in plain text")
    if problem := bad_lines(data):
        raise InputError(
            problem,
            file=path.name,
            expected=f"{what}, one row per line",
            remedy="Check that this is such a file.",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode(
            "latin-1"
        )  # names of buses in an older encoding; numbers are ASCII in both
    return re.split(
        r"\r\n|\n|\r", text
    )  # splitlines() would also split at characters that a name may hold


def plain_number(text: str) -> float | None:
    """A number as MATLAB and CSV files have it, inf and nan among them; None if it is none.

    >>> plain_number("-.5e3"), plain_number("1_000"), plain_number("9" * 10**6)
    (-500.0, None, None)
    """
    return float(text) if len(text) <= LONGEST_NUMBER and NUMBER.fullmatch(text) else None


def fortran_number(text: str | None) -> float | None:
    """A number as Fortran writes it, 1.0D+02 too; None if it is none."""
    if text is None or len(text) > LONGEST_NUMBER or not FORTRAN.fullmatch(text):
        return None
    return float(text.replace("D", "e").replace("d", "e"))


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for `object_pairs_hook`: of a key that occurs twice, one would be lost."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise Twice
    return content


class Twice(ValueError):
    """An object with the same key twice."""
