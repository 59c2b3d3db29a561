"""Rows of a CSV file, refused where it is not whole: tables of a grid and measured records are both
read through here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import MOST_VALUES, bad_lines


def csv_rows(
    data: bytes, file: str, expected: str, refusal: Callable[..., InputError] = InputError
) -> Iterator[tuple[int, list[str]]]:
    r"""Line and cells of each row that is not empty, the header first. refusal : makes the error of
    what it is read for.

    >>> list(csv_rows(b"bus, load\n\n1, 0.5\n", "buses.csv", "a table"))
    [(1, ['bus', 'load']), (3, ['1', '0.5'])]
    """
    if problem := bad_lines(data):
        raise refusal(problem, file=file, expected=expected)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        problem = "the file is not in UTF-8"
    if problem:  # raised out here: the decoder's error carries the file's bytes
        raise refusal(problem, file=file, expected=expected, remedy="Save it as CSV in UTF-8.")
    if not data.endswith((b"\n", b"\r")):  # a number that was cut off is a number still
        raise refusal(
            "the last line does not end: the file may be cut off",
            file=file,
            line=data.count(b"\n") + 1,
            expected="a line end after the last row",
            remedy="Copy the whole file again, or end the line.",
        )
    # Decoded as it is read: whole, it would take four times its size.
    reader = csv.reader(
        io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline=""), strict=True
    )
    count = 0
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            count += len(cells)
            if count > MOST_VALUES:
                problem = f"there are more than {MOST_VALUES} cells"
                break
            if any(cells):
                yield reader.line_num, cells
    except csv.Error:
        problem = "the row cannot be split into columns: its quotes do not fit"
    if problem:
        raise refusal(problem, file=file, line=reader.line_num, expected=expected)
