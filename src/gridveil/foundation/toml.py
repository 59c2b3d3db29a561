"""TOML files, whose text may hold private values."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import MOST_DOTS, TOML_BYTES
from gridveil.foundation.reading import read_regular

QUOTED = re.compile(
    rb'"(?:[^"\\]|\\.)*+"?|\'[^\']*+\'?'
)  # a text in a line of TOML, to its end if it is not closed


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, whose text may hold private values: no error carries any of it along."""
    try:
        data = read_regular(path, most=TOML_BYTES)
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", file=str(path), remedy="Check the path."
        ) from None
    problem, line = "this is no TOML", None
    for number, text in enumerate(data.split(b"\n"), start=1):
        # Where a text of several lines ends, what stands between quotes may be a key.
        plain = text if b'"""' in text or b"'''" in text else QUOTED.sub(b"", text)
        if plain.count(b".") > MOST_DOTS:
            problem = f"there are more than {MOST_DOTS} points in a line, outside of quotes"
            raise InputError(problem, file=path.name, line=number, expected="key = value lines")
    try:
        found = tomllib.loads(data.decode("utf-8-sig"))
        if _holds_only_small(found):
            return found
        problem = "it holds a whole number of more than 64 bits"
    except (
        ValueError,
        RecursionError,
    ) as error:  # TOMLDecodeError, UnicodeDecodeError; tables within tables without end
        place = (
            re.search(r"line (\d+)", str(error))
            if isinstance(error, tomllib.TOMLDecodeError)
            else None
        )
        line = int(place[1]) if place else None
    # Raised out here: inside the handler, the decoder's error would become its context, with the
    # file's bytes in it.
    raise InputError(problem, file=path.name, line=line, expected="key = value lines in UTF-8")


def _holds_only_small(value: Any) -> bool:
    """Whether all whole numbers have 64 bits, as TOML says: Python writes longer ones slowly or not
    at all.
    """
    if isinstance(value, (dict, list)):
        return all(
            _holds_only_small(one) for one in (value.values() if isinstance(value, dict) else value)
        )
    return not isinstance(value, int) or -(2**63) <= value < 2**63
