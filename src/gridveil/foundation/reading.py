"""Files that a user names: regular ones only, never beyond a limit; their lines, rows of CSV and
numbers, and what a zip holds.

Sizes are checked first, and no pattern tries a text twice.
"""

from __future__ import annotations

import csv
import errno
import io
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import (
    GRID_BYTES,
    LONGEST_LINE,
    LONGEST_NUMBER,
    MOST_FILES,
    MOST_LINES,
    MOST_VALUES,
)

NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # Windows has none, and no pipes in its folders
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
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | NO_WAIT)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        data = file.read(status.st_size + 1) if status.st_size <= most else b""
        if len(data) > status.st_size:  # it has grown, or is one of those that report a size of 0
            data += file.read(most + 1 - len(data))
    if status.st_size > most or len(data) > most:
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


def bad_lines(data: bytes) -> str | None:
    r"""Say what is wrong with the lines of a text, before it is cut into any; None: nothing.

    >>> bad_lines(b"1 2\n3 4\r5"), bad_lines(b"1" * 2**21)
    (None, 'a line is longer than 1048576 characters')
    """
    ends = data.replace(b"\r", b"\n") if b"\r" in data else data
    if ends.count(b"\n") > MOST_LINES:
        return f"there are more than {MOST_LINES} lines"
    if max(map(len, io.BytesIO(ends)), default=0) > LONGEST_LINE:
        return f"a line is longer than {LONGEST_LINE} characters"
    return None


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


def csv_rows(
    data: bytes,
    file: str,
    expected: str,
    refusal: Callable[..., InputError] = InputError,
    delimiter: str = ",",
) -> Iterator[tuple[int, list[str]]]:
    r"""Line and cells of each row that is not empty, the header first. refusal : makes the error of
    what it is read for.

    >>> list(csv_rows(b"bus, load\n\n1, 0.5\n", "buses.csv", "a table"))
    [(1, ['bus', 'load']), (3, ['1', '0.5'])]
    """
    if problem := bad_lines(data):
        raise refusal(problem, file=file, expected=expected)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        problem = "the file is not in UTF-8"
    if problem:  # raised out here: the decoder's error carries the file's bytes
        raise refusal(problem, file=file, expected=expected, remedy="Save it as CSV in UTF-8.")
    if not data.endswith((b"\n", b"\r")):  # a number that was cut off is a number still
        raise refusal(
            "the last line does not end: the file may be cut off",
            file=file,
            line=data.count(b"\n") + 1,
            expected="a line end after the last row",
            remedy="Copy the whole file again, or end the line.",
        )
    # Decoded as it is read: whole, it would take four times its size.
    reader = csv.reader(
        io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline=""),
        strict=True,
        delimiter=delimiter,
    )
    count = 0
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            count += len(cells)
            if count > MOST_VALUES:
                problem = f"there are more than {MOST_VALUES} cells"
                break
            if any(cells):
                yield reader.line_num, cells
    except csv.Error:
        problem = "the row cannot be split into columns: its quotes do not fit"
    if problem:
        raise refusal(problem, file=file, line=reader.line_num, expected=expected)


UNPACKED = (
    zipfile.ZIP_STORED,
    zipfile.ZIP_DEFLATED,
)  # zipfile unpacks the others whole, whatever size they say


class BadZip(Exception):
    """A zip that is not unpacked; its words say why, and hold nothing of its content."""


def unzipped(
    data: bytes, *, most: int, wanted: Callable[[str], bool] = lambda _: True
) -> list[tuple[str, bytes]]:
    """Unpack the wanted files of a zip. most : bytes that all its files may take, wanted or not.

    Raises
    ------
    BadZip : for a zip that is damaged, too large, of too many files, of overlapping ones or packed
    in another way.
    """
    problem = "cut off or damaged"
    if (
        data.count(b"PK\1\2") > 10 * MOST_FILES
    ):  # a directory's entry each; zips within it have their own
        raise BadZip("of too many files")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len(entries) > MOST_FILES:
                problem = "of too many files"
            elif sum(entry.file_size for entry in entries) > most:
                problem = "too large once unpacked"
            elif sum(entry.compress_size for entry in entries) > len(data):
                problem = "of files that overlap"
            elif any(entry.compress_type not in UNPACKED for entry in entries):
                problem = "packed in an unusual way"
            else:
                return [
                    (entry.filename, archive.read(entry))
                    for entry in entries
                    if wanted(entry.filename)
                ]
    except Exception:  # noqa: S110 - zipfile passes on what its codecs raise, and trips over names itself
        pass
    raise BadZip(problem)  # out here: the decoder's error would become its context
