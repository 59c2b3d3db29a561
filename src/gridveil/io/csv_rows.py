"""Rows of a CSV file, refused where it is not whole: tables of a grid and measured records are both read through here."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator

from gridveil.errors import InputError


def csv_rows(
    data: bytes, file: str, expected: str, refusal: Callable[..., InputError] = InputError
) -> Iterator[tuple[int, list[str]]]:
    r"""Line and cells of each row that is not empty, the header first. refusal : makes the error of what it is read for.

    >>> list(csv_rows(b"bus, load\n\n1, 0.5\n", "buses.csv", "a table"))
    [(1, ['bus', 'load']), (3, ['1', '0.5'])]
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = None
    if text is None:  # raised out here: the decoder's error carries the file's bytes
        raise refusal("the file is not in UTF-8", file=file, expected=expected, remedy="Save it as CSV in UTF-8.")
    if not text.endswith(("\n", "\r")):  # a number that was cut off is a number still
        raise refusal(
            "the last line does not end: the file may be cut off",
            file=file,
            line=text.count("\n") + 1,
            expected="a line end after the last row",
            remedy="Copy the whole file again, or end the line.",
        )
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    broken = False
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield reader.line_num, cells
    except csv.Error:
        broken = True
    if broken:
        raise refusal(
            "the row cannot be split into columns: its quotes do not fit", file=file, line=reader.line_num, expected=expected
        )
