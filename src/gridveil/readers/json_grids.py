"""JSON files: parsed once, then handed to the reader of ANDES or of pandapower."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import JSON_BYTES
from gridveil.foundation.reading import read_bytes
from gridveil.readers.network import FileGrid

MOST_MEMORY = 0.7e9  # bytes, estimated: an empty object takes 70 for its three characters
EXPECTED = "a grid in ANDES's or pandapower's JSON"


def read_json(path: Path) -> FileGrid:
    """Read a grid in ANDES's or pandapower's JSON, whichever it is."""
    document = parse_json(path)
    if isinstance(document, dict) and document.get("_class") == "pandapowerNet":
        from gridveil.readers.pandapower import read_pandapower_json

        return read_pandapower_json(path, document)
    if isinstance(document, dict) and "Bus" in document:
        from gridveil.readers.andes import read_andes_json

        return read_andes_json(path, document)
    raise InputError("this is JSON, but no grid", file=path.name, expected=EXPECTED)


def parse_json(path: Path) -> Any:
    """Parse a JSON file; a mistake is named by its line, and nothing of the file goes along with an
    error.
    """
    data = read_bytes(path, EXPECTED, JSON_BYTES)
    if (
        2 * len(data) + 72 * (data.count(b"{") + data.count(b"[")) + 40 * data.count(b",")
        > MOST_MEMORY
    ):
        raise InputError(
            "the file holds too much", file=path.name, expected="a grid of up to some 100 000 buses"
        )
    line: int | None = None
    problem = "this is no JSON, or it is cut off"
    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once)
    except UnicodeDecodeError:
        problem = "this is no text in UTF-8"
    except json.JSONDecodeError as error:
        line = error.lineno
    except _Twice:
        problem = "an object has the same key twice"
    except (ValueError, RecursionError):
        problem = "it holds a number of too many digits, or is nested too deeply"
    # Raised out here: inside the handler, the decoder's error would become its context, with the
    # file's text in it.
    raise InputError(
        problem,
        file=path.name,
        line=line,
        expected=EXPECTED,
        remedy="Check that it was copied whole.",
    )


class _Twice(Exception):
    """An object with the same key twice, of which one would be lost."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice
    return found
