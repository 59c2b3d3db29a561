"""Which reader a file wants."""

from __future__ import annotations

import json
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import JSON_BYTES, MOST_FILES
from gridveil.foundation.reading import Twice, once, read_bytes
from gridveil.foundation.sealed import sealed
from gridveil.readers.network import FileGrid

MOST_MEMORY = 0.7e9  # bytes, estimated: an empty object takes 70 for its three characters
JSON = "a grid in ANDES's or pandapower's JSON"


class Format(NamedTuple):
    """A format: its name, and the function of `gridveil.readers` that reads it."""

    name: str
    module: str
    function: str

    def read(self, *content: Any) -> FileGrid:
        """Read a file; the reader is imported now, for most need other packages."""
        return getattr(import_module(f"gridveil.readers.{self.module}"), self.function)(*content)


CGMES = Format("CGMES", "cgmes", "read_cgmes")
CSV = Format("CSV tables", "csv_tables", "read_csv_tables")
ANDES_JSON = Format("ANDES", "andes", "read_andes_json")
PANDAPOWER_JSON = Format("pandapower", "pandapower", "read_pandapower_json")
FORMATS = {
    ".m": Format("MATPOWER", "matpower", "read_matpower"),
    ".mat": Format("MATPOWER, saved by MATLAB", "matlab", "read_matlab"),
    ".raw": Format("PSS/E", "psse", "read_psse"),
    ".xlsx": Format("ANDES", "andes", "read_andes_xlsx"),
    ".json": Format("ANDES or pandapower", "formats", "read_json"),
    ".xml": CGMES,
    ".zip": CGMES,
}
# What is no grid by itself: the problem, what was expected and the remedy.
PARTS = {
    ".dyr": (
        "a DYR holds machines and no network",
        "the RAW that it goes with",
        "Name the RAW as the grid, with --dynamics {name}.",
    ),
    ".csv": (
        "a table is no whole grid",
        "the folder that holds buses.csv, branches.csv, machines.csv and system.toml",
        "Name the folder.",
    ),
}


@sealed
def read_grid(path: Path, dyr: Path | None = None) -> FileGrid:
    """Read a grid file by the format that its name ends in; a folder holds CSV tables or CGMES
    files.

    dyr : PSS/E dynamics; default for a .raw: the .dyr of the same name beside it, if there is one.
    """
    suffix = path.suffix.lower()
    if dyr is not None and suffix != ".raw":
        raise InputError(
            "a DYR file goes with a RAW file",
            file=dyr.name,
            expected="GRID.raw",
            remedy="Give a TOML instead.",
        )
    if path.is_dir():
        return (CGMES if any(file.suffix == ".xml" for file in _listed(path)) else CSV).read(path)
    if suffix == ".raw":
        return FORMATS[suffix].read(path, dyr or _beside(path))
    if suffix in FORMATS:
        return FORMATS[suffix].read(path)
    known = ", ".join(f"{end} ({kind.name})" for end, kind in FORMATS.items())
    problem, expected, remedy = PARTS.get(
        suffix,
        (
            f"the format {suffix or 'of this file'} is not known",
            f"{known}, or a folder of CSV tables",
            "Save the grid in one of these.",
        ),
    )
    raise InputError(
        problem, file=path.name, expected=expected, remedy=remedy.format(name=path.name)
    )


def _listed(folder: Path) -> list[Path]:
    """List a folder; refuse one that this user may not list, whose files may not be looked at, or
    that has too many.
    """
    try:
        listed = list(islice(folder.iterdir(), MOST_FILES + 1))
        for file in listed[:1]:
            file.lstat()
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})",
            file=str(folder),
            remedy="Check the path and its permissions.",
        ) from None
    if len(listed) > MOST_FILES:
        raise InputError(
            f"there are more than {MOST_FILES} files in it",
            file=folder.name,
            expected="a folder of CSV tables, or of a CGMES model",
            remedy="Keep the files of one grid there.",
        )
    return listed


def _beside(path: Path) -> Path | None:
    return next(
        (other for end in (".dyr", ".DYR") if (other := path.with_suffix(end)).exists()), None
    )


def read_json(path: Path) -> FileGrid:
    """Read a grid in ANDES's or pandapower's JSON, whichever it is."""
    document = parse_json(path)
    if isinstance(document, dict) and document.get("_class") == "pandapowerNet":
        return PANDAPOWER_JSON.read(path, document)
    if isinstance(document, dict) and "Bus" in document:
        return ANDES_JSON.read(path, document)
    raise InputError("this is JSON, but no grid", file=path.name, expected=JSON)


def parse_json(path: Path) -> Any:
    """Parse a JSON file; a mistake is named by its line, and nothing of the file goes along with an
    error.
    """
    data = read_bytes(path, JSON, JSON_BYTES)
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
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=once)
    except UnicodeDecodeError:
        problem = "this is no text in UTF-8"
    except json.JSONDecodeError as error:
        line = error.lineno
    except Twice:
        problem = "an object has the same key twice"
    except (ValueError, RecursionError):
        problem = "it holds a number of too many digits, or is nested too deeply"
    # Raised out here: inside the handler, the decoder's error would become its context, with the
    # file's text in it.
    raise InputError(
        problem,
        file=path.name,
        line=line,
        expected=JSON,
        remedy="Check that it was copied whole.",
    )
