"""Text files, cut into lines, and the numbers in them: sizes are checked first, and no pattern tries a text twice."""

from __future__ import annotations

import re
from pathlib import Path

from gridveil.errors import InputError
from gridveil.io.network import read_bytes
from gridveil.limits import GRID_BYTES, LONGEST_NUMBER, bad_lines

BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f]")
# Python's float() also takes 1_000 and digits of other scripts; MATLAB and PSS/E do not. ++ and *+ never give back a digit.
_DIGITS = r"(?:\d++(?:\.\d*+)?|\.\d++)"
NUMBER = re.compile(rf"[-+]?(?:{_DIGITS}(?:e[-+]?\d++)?|inf|nan)", re.ASCII | re.IGNORECASE)
FORTRAN = re.compile(rf"[-+]?{_DIGITS}(?:[ed][-+]?\d++)?", re.ASCII | re.IGNORECASE)


def read_lines(path: Path, what: str) -> list[str]:
    """Read a text file into lines, or say why it is none. what : what it should hold, for errors."""
    data = read_bytes(path, what, GRID_BYTES)
    if BINARY.search(data):
        raise InputError("this is a binary file", file=path.name, expected=f"{what}, in plain text")
    if problem := bad_lines(data):
        raise InputError(problem, file=path.name, expected=f"{what}, a line a row", remedy="Check that this is such a file.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # names of buses in an older encoding; numbers are ASCII in both
    return re.split(r"\r\n|\n|\r", text)  # splitlines() would also split at characters that a name may hold


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
