"""Sheets of an Excel workbook (.xlsx), read warily: sizes and XML are checked before anything is
parsed.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import GRID_BYTES, UNPACKED_BYTES
from gridveil.foundation.reading import BadZip, read_bytes, unzipped

MOST_TAGS = (
    10**6
    # in all its XML: openpyxl takes four seconds; ANDES's largest case, of 2224 buses, has a
    # quarter of that
)
MOST_CELLS = (
    10**6
)  # empty ones count: a stray cell in the last row and column would make 17 billion


@dataclass(frozen=True, eq=False)
class Sheet:
    """A sheet.

    header : its first row.
    rows : the others, blank ones left out.
    lines : where each stands, from 1.
    """

    header: tuple[Any, ...]
    rows: list[tuple[Any, ...]]
    lines: list[int]


def read_workbook(path: Path, *, expected: str) -> dict[str, Sheet]:
    """Read every sheet of a workbook; formulas come as their text.

    expected : what kind of file this should be, for errors.
    """
    from importlib.util import find_spec

    if find_spec("openpyxl") is None:
        raise _error(
            path,
            "workbooks are read by openpyxl, which is not installed",
            expected,
            'Run pip install "gridveil[xlsx]".',
        )
    data = read_bytes(path, expected, GRID_BYTES)
    refusal = _check_archive(path, data, expected)
    sheets: dict[str, Sheet] | None = None
    if refusal is None:
        try:
            sheets = _sheets(data)
        except Exception:  # openpyxl raises whatever its parsers do; its words may hold cells
            refusal = _unreadable(path, expected, "no workbook that can be read")
    # Raised out here: inside the handler, the parser's error would become its context, with the
    # file's text in it.
    if refusal is not None:
        raise refusal
    if sheets is None:
        raise _too_many(path)
    return sheets


def _check_archive(path: Path, data: bytes, expected: str) -> InputError | None:
    """Refuse what is no archive, would not fit into memory, is damaged (its checksums say so), or
    defines XML entities.
    """
    tags = 0
    try:
        for _, packed in unzipped(data, most=UNPACKED_BYTES):
            content = packed.replace(b"\0", b"")  # UTF-16 would hide the words
            if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
                return _error(
                    path,
                    "the workbook defines XML entities",
                    "plain sheets",
                    "Save it anew from Excel.",
                )
            tags += content.count(b"<") - content.count(b"</")
    except BadZip as error:
        return _unreadable(path, expected, f"no workbook, or {error}")
    return _too_many(path) if tags > MOST_TAGS else None


def _sheets(data: bytes) -> dict[str, Sheet] | None:
    """Parse the sheets; None if they hold too many cells."""
    from openpyxl import load_workbook

    sheets: dict[str, Sheet] = {}
    cells = 0
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # styles and extensions that openpyxl leaves out carry no data
        for page in load_workbook(io.BytesIO(data), read_only=True, data_only=False).worksheets:
            page.reset_dimensions()  # one that is wrong would hide rows and columns
            header: tuple[Any, ...] | None = None
            rows: list[tuple[Any, ...]] = []
            lines: list[int] = []
            for line, row in enumerate(page.iter_rows(values_only=True), start=1):
                cells += len(row) + 1
                if cells > MOST_CELLS:
                    return None
                if header is None:
                    header = (
                        row  # the first, even if it is blank: ANDES looks for names nowhere else
                    )
                elif any(cell is not None for cell in row):
                    rows.append(row)
                    lines.append(line)
            sheets[page.title] = Sheet(header or (), rows, lines)
    return sheets


def _too_many(path: Path) -> InputError:
    remedy = "Clear the sheets' unused cells; save a large case as JSON."
    return _error(
        path, "there are too many cells", f"at most some {MOST_TAGS // 2:_} with a value", remedy
    )


def _unreadable(path: Path, expected: str, problem: str) -> InputError:
    return _error(
        path, f"the file is {problem}", expected, "Check that it was copied whole and is an .xlsx."
    )


def _error(path: Path, problem: str, expected: str, remedy: str) -> InputError:
    return InputError(problem, file=path.name, expected=expected, remedy=remedy)
