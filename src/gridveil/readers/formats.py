"""Which reader a file wants."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import MOST_FILES
from gridveil.foundation.sealed import sealed
from gridveil.readers.network import FileGrid

FORMATS = {
    ".m": "MATPOWER",
    ".mat": "MATPOWER, saved by MATLAB",
    ".raw": "PSS/E",
    ".xlsx": "ANDES",
    ".json": "ANDES or pandapower",
    ".xml": "CGMES",
    ".zip": "CGMES",
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
        if any(file.suffix == ".xml" for file in _listed(path)):
            from gridveil.readers.cgmes import read_cgmes

            return read_cgmes(path)
        from gridveil.readers.csv_tables import read_csv_tables

        return read_csv_tables(path)
    match suffix:
        case ".m":
            from gridveil.readers.matpower import read_matpower

            return read_matpower(path)
        case ".mat":
            from gridveil.readers.matlab import read_matlab

            return read_matlab(path)
        case ".raw":
            from gridveil.readers.psse import read_psse

            return read_psse(path, dyr or _beside(path))
        case ".xlsx":
            from gridveil.readers.andes import read_andes_xlsx

            return read_andes_xlsx(path)
        case ".json":
            from gridveil.readers.json_grids import read_json

            return read_json(path)
        case ".xml" | ".zip":
            from gridveil.readers.cgmes import read_cgmes

            return read_cgmes(path)
        case ".dyr":
            raise InputError(
                "a DYR holds machines and no network",
                file=path.name,
                expected="the RAW that it goes with",
                remedy=f"Name the RAW as the grid, with --dynamics {path.name}.",
            )
        case ".csv":
            raise InputError(
                "a table is no whole grid",
                file=path.name,
                expected="the folder that holds buses.csv, branches.csv, machines.csv and "
                "system.toml",
                remedy="Name the folder.",
            )
        case _:
            raise InputError(
                f"the format {suffix or 'of this file'} is not known",
                file=path.name,
                expected=", ".join(f"{end} ({name})" for end, name in FORMATS.items())
                + ", or a folder of CSV tables",
                remedy="Save the grid in one of these.",
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
