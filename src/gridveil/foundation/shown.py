"""Text of others, made fit to show: in a line, in a cell of a table, in a figure, in JSON."""

from __future__ import annotations

import json
from typing import Any

FORMULA = tuple("=+-@＝＋－＠")  # full-width signs too, which some spreadsheets take for the same


def shown(text: object) -> str:
    r"""Escape what does not print as itself: control characters, line ends, bidi marks, surrogates.

    What comes back is one line, and no terminal obeys it.

    >>> print(shown("G1\n\x1b[31m\u202e, ε"))
    G1\n\x1b[31m\u202e, ε
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


def csv_name(text: str) -> str:
    """Make a name that no spreadsheet takes for a formula, even one that splits at semicolons.

    >>> csv_name("=1+1"), csv_name("G1;=1")
    ("'=1+1", 'G1; =1')
    """
    text = shown(text).replace(";", "; ")
    return f"'{text}" if text.startswith(FORMULA) else text


def csv_cell(value: str | float) -> str:
    r"""Write a cell: a number in full; a name as no formula, quoted if it holds a comma.

    >>> print(csv_cell(-0.1), csv_cell("x\n=HYPERLINK(1),"), csv_cell("@a"))
    -0.1 "x\n=HYPERLINK(1)," '@a
    """
    if not isinstance(value, str):
        return repr(value)
    text = csv_name(value)
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',;"') else text


def json_text(data: Any) -> str:
    r"""Write JSON that reads like its text, with an escape for whatever does not print as itself.

    >>> print(json_text(["ε\x9b", "\x1b"]))
    [
      "ε\u009b",
      "\u001b"
    ]
    """
    lines = json.dumps(data, indent=2, ensure_ascii=False).split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_in_json, line)) for line in lines)


def json_file(data: Any) -> bytes:
    """The same as the content of a file."""
    return f"{json_text(data)}\n".encode()


def json_line(data: Any) -> str:
    """Write JSON in one line, whatever the order of its keys, to be sealed or hashed."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _in_json(sign: str) -> str:
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]
