"""Sheets of an Excel workbook (.xlsx), read warily: sizes and XML are checked before anything is parsed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridveil.errors import InputError

LARGEST_BYTES = 256 * 2**20  # unpacked; ANDES's largest case, with 2224 buses, takes 6 MB
MOST_MEMBERS = 2000
MOST_CELLS = 3_000_000  # empty ones count: a stray cell in the last row and column would make 17 billion


@dataclass(frozen=True, eq=False)
class Sheet:
    """A sheet. header : its first row; rows : the others, blank ones left out; lines : where each stands, from 1."""

    header: tuple[Any, ...]
    rows: list[tuple[Any, ...]]
    lines: list[int]


def read_workbook(path: Path, *, expected: str) -> dict[str, Sheet]:
    """Read every sheet of a workbook; formulas come as their text. expected : what kind of file this should be, for errors."""
    from importlib.util import find_spec

    if find_spec("openpyxl") is None:
        raise _error(
            path, "workbooks are read by openpyxl, which is not installed", expected, 'Run pip install "gridveil[xlsx]".'
        )
    refusal = _check_archive(path, expected)
    sheets: dict[str, Sheet] | None = None
    if refusal is None:
        try:
            sheets = _sheets(path)
        except Exception:  # openpyxl raises whatever its parsers do; its words may hold cells
            refusal = _unreadable(path, expected, "no workbook that can be read")
    # Raised out here: inside the handler, the parser's error would become its context, with the file's text in it.
    if refusal is not None:
        raise refusal
    if sheets is None:
        raise _error(path, "there are too many cells", f"at most {MOST_CELLS:_} cells", "Clear the sheets' unused cells.")
    return sheets


def _check_archive(path: Path, expected: str) -> InputError | None:
    """Refuse what is no archive, would not fit into memory, is damaged (its checksums say so), or defines XML entities."""
    import zipfile

    try:
        if not path.stat().st_size:
            return _error(path, "the file is empty", expected, "Check that it was copied whole.")
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MOST_MEMBERS or sum(member.file_size for member in members) > LARGEST_BYTES:
                return _error(path, "the workbook is too large", f"at most {LARGEST_BYTES:_} bytes unpacked", "Split it.")
            for member in members:
                content = archive.read(member).replace(b"\0", b"")  # UTF-16 would hide the word
                if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
                    return _error(path, "the workbook defines XML entities", "plain sheets", "Save it anew from Excel.")
    except OSError as error:
        if error.strerror:
            return _error(path, f"cannot be read ({error.strerror})", expected, "Check the path and its permissions.")
        return _unreadable(path, expected, "damaged or no workbook")
    except Exception:  # zipfile passes on what zlib, struct and its codecs raise
        return _unreadable(path, expected, "damaged, cut off or no workbook")
    return None


def _sheets(path: Path) -> dict[str, Sheet] | None:
    """Parse the sheets; None if they hold too many cells."""
    from openpyxl import load_workbook

    sheets: dict[str, Sheet] = {}
    cells = 0
    # The file is opened here: openpyxl leaves one open that it cannot read.
    with warnings.catch_warnings(), path.open("rb") as file:
        warnings.simplefilter("ignore")  # styles and extensions that openpyxl leaves out carry no data
        for page in load_workbook(file, read_only=True, data_only=False).worksheets:
            page.reset_dimensions()  # one that is wrong would hide rows and columns
            header: tuple[Any, ...] | None = None
            rows: list[tuple[Any, ...]] = []
            lines: list[int] = []
            for line, row in enumerate(page.iter_rows(values_only=True), start=1):
                cells += len(row) + 1
                if cells > MOST_CELLS:
                    return None
                if header is None:
                    header = row  # the first, even if it is blank: ANDES looks for names nowhere else
                elif any(cell is not None for cell in row):
                    rows.append(row)
                    lines.append(line)
            sheets[page.title] = Sheet(header or (), rows, lines)
    return sheets


def _unreadable(path: Path, expected: str, problem: str) -> InputError:
    return _error(path, f"the file is {problem}", expected, "Check that it was copied whole and is an .xlsx.")


def _error(path: Path, problem: str, expected: str, remedy: str) -> InputError:
    return InputError(problem, file=path.name, expected=expected, remedy=remedy)
