"""TOML files and what they declare: their text may hold private values, so no error shows any."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gridveil.foundation.errors import InputError, OptionError
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
        content = tomllib.loads(data.decode("utf-8-sig"))
        if _holds_only_small(content):
            return content
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


ABOVE_0 = Field(gt=0, lt=1e300, strict=True, description="a finite number above 0")
FROM_0 = Field(ge=0, lt=1e300, strict=True, description="a finite number of 0 or more")


class Declared(BaseModel):
    """A table of key = value lines, checked strictly as it is made: an error names the key and what
    it may be, never what was given.

    The description of a field is what an error says was expected.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    refusal: ClassVar[Callable[..., InputError]] = OptionError

    def __init__(self, place: str = "", /, **data: Any) -> None:
        """Check values. place : where they stand, for errors."""
        problems: list[Any] = []
        try:
            super().__init__(**data)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
        # Raised out here: inside the handler, the values would be in its context.
        if problems:
            strange = [problem for problem in problems if problem["type"] == "extra_forbidden"]
            raise self._refused(place, (strange or problems)[0])

    @classmethod
    def read(cls, place: str, data: Any) -> Self:
        """Check a part of a TOML file."""
        if not isinstance(data, dict):
            problem, expected = "a table was expected here", "key = value lines"
            raise cls.refusal(problem, file=place, expected=expected)
        return cls(place, **data)

    @classmethod
    def expected(cls, key: str) -> str:
        """What a key may be."""
        field = cls.model_fields[key]
        kind: Any = field.annotation
        if get_args(kind)[1:] == (NoneType,):  # it may be left out
            kind = get_args(kind)[0]
        if get_origin(kind) is Literal and not field.description:
            return f"one of {', '.join(get_args(kind))}"
        return field.description or "another value"

    @classmethod
    def _refused(cls, place: str, problem: Any) -> InputError:
        kind, key = problem["type"], str(problem["loc"][0])
        if kind == "extra_forbidden":
            # A key is quoted only if it is a word: a private figure may stand there.
            shown = repr(key) if key.isidentifier() and len(key) < 40 else "…"
            words, expected = f"the key {shown} is unknown", ", ".join(sorted(cls.model_fields))
            return cls.refusal(words, file=place, expected=f"one of {expected}")
        # A key of a table that may have any: a name, never a value.
        inner = f"{problem['loc'][1]!r} of " if len(problem["loc"]) > 1 else ""
        if inner and isinstance(entry := problem["loc"][1], int):
            inner = f"entry {entry + 1} of "
        remedy = "Correct it and try again."
        if kind == "missing":
            words, remedy = f"{key} is not declared", f"Add {key} to the TOML."
        else:
            words = f"{inner}{key} is {'unknown' if kind == 'literal_error' else 'not usable'}"
        return cls.refusal(words, file=place, expected=cls.expected(key), remedy=remedy)


def toml_value(value: object) -> str:
    r"""A value as TOML writes it: a number, a list of them, or a text in quotes.

    >>> print(toml_value('a "b"\n'), toml_value([-20.0, 40.0]), toml_value(True))
    "a \"b\"\u000A" [-20.0, 40.0] true
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"'
        + "".join(
            sign
            if sign.isprintable()
            else f"\\u{ord(sign):04X}"
            if ord(sign) < 2**16
            else f"\\U{ord(sign):08X}"
            for sign in text
        )
        + '"'
    )
