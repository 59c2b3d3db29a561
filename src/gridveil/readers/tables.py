"""The numeric tables of a MATPOWER case file, read strictly: what is not plain data is refused, by
line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import LONGEST_LINE, MOST_VALUES
from gridveil.foundation.reading import plain_number, read_lines
from gridveil.grid.facts import Array

CELL = re.compile(r"'([^']*)'")
FIELD = re.compile(r"mpc\.(\w+)\s*=\s*(.*)", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Table:
    """A numeric table of a file.

    values : (rows, columns).
    lines : (rows,) where each row stands, from 1, if in lines.
    """

    file: str
    name: str
    values: Array
    lines: tuple[int, ...] | None = None

    def error(self, row: int, problem: str, *, expected: str, remedy: str = "") -> InputError:
        """Say what is wrong with a row (from 0), by its place in the table and in the file."""
        return InputError(
            problem,
            file=self.file,
            table=self.name,
            row=row + 1,
            line=self.lines[row] if self.lines is not None else None,
            expected=expected,
            remedy=remedy or "Fix that row and try again.",
        )

    def column(self, number: int, meaning: str) -> Array:
        """Take a column (from 1, as MATPOWER's manual counts) whose numbers must be finite."""
        values = self.values[:, number - 1]
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise self.error(
                int(bad[0]),
                f"column {number} ({meaning}) is NaN or infinite",
                expected="a finite number",
            )
        return values


def _statements(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the statements of a file with their line numbers: comments gone, continuations
    joined.
    """
    inside_comment, joined, start = False, "", 0
    for number, raw in enumerate(read_lines(path, "a MATPOWER case (.m)"), start=1):
        if raw.strip() in ("%{", "#{"):
            inside_comment = True
        elif raw.strip() in ("%}", "#}"):
            inside_comment = False
        elif not inside_comment:
            line = _without_comment(raw).rstrip()
            start = start if joined else number
            joined += line.removesuffix("...")
            if len(joined) > LONGEST_LINE:
                raise _too_much(
                    path.name, f"a continued line is longer than {LONGEST_LINE} characters", start
                )
            if not line.endswith("..."):
                if joined.strip():
                    yield start, joined.strip()
                joined = ""


def read_tables(
    path: Path,
) -> tuple[dict[str, Table], dict[str, float], dict[str, tuple[str, ...]]]:
    """Read every numeric table `mpc.name = [ … ]`, number `mpc.name = …` and list of texts
    `mpc.name = { … }` of a case file.

    Statements that MATLAB would run on top of the tables are not run, hence refused.
    """
    name = path.name
    tables: dict[str, Table] = {}
    numbers: dict[str, float] = {}
    texts: dict[str, tuple[str, ...]] = {}
    rows = _statements(path)
    count = 0  # of numbers and texts
    for line, text in rows:
        if re.match(r"function\b", text) or text.rstrip(";") in ("end", "return", "endfunction"):
            continue
        found = FIELD.match(text)
        if not found:
            raise _not_run(name, line)
        field, body = found.groups()
        if body.startswith("["):
            tables[field] = _table(name, field, line, body, rows, MOST_VALUES - count)
            count += tables[field].values.size
        elif body.startswith("{"):
            texts[field] = _cells(name, field, line, body, rows, MOST_VALUES - count)
            count += len(texts[field])
        elif (number := plain_number(body.rstrip("; \t"))) is not None:
            numbers[field] = number
        elif not re.fullmatch(r"'[^']*'\s*;?|\"[^\"]*\"\s*;?", body):
            raise _not_run(name, line)
    return tables, numbers, texts


def _table(
    file: str, name: str, line: int, body: str, rows: Iterator[tuple[int, str]], most: int
) -> Table:
    """Collect rows until the closing bracket. most : how many numbers there may be."""
    values: list[list[float]] = []
    lines: list[int] = []
    text = body[1:]
    while True:
        content, closed, rest = text.partition("]")
        for part in content.split(";"):
            if part.strip():
                values.append(_row(file, name, len(values) + 1, line, part))
                lines.append(line)
                if len(values) * len(values[0]) > most:
                    raise _too_much(file, f"the file has more than {MOST_VALUES} numbers", line)
                if len(values[-1]) != len(values[0]):
                    raise InputError(
                        f"the row has {len(values[-1])} columns",
                        file=file,
                        table=f"mpc.{name}",
                        row=len(values),
                        line=line,
                        expected=f"{len(values[0])}, as in the first row",
                        remedy="Check whether the row was cut off.",
                    )
        if closed:
            if rest.strip(" ;\t"):
                raise _not_run(file, line)
            break
        try:
            line, text = next(rows)
        except StopIteration:
            raise _cut_off(file, name, line) from None
    width = len(values[0]) if values else 0
    return Table(
        file, f"mpc.{name}", np.array(values, dtype=float).reshape(len(values), width), tuple(lines)
    )


def _row(file: str, table: str, row: int, line: int, text: str) -> list[float]:
    numbers: list[float] = []
    for column, token in enumerate(text.replace(",", " ").split(), start=1):
        number = plain_number(token)
        if number is None:
            # The token is not quoted: it may hold a private figure.
            raise InputError(
                f"column {column} is not a number",
                file=file,
                table=f"mpc.{table}",
                row=row,
                line=line,
                expected="plain numbers, no text and no expressions",
                remedy="Write the number out.",
            )
        numbers.append(number)
    return numbers


def _cells(
    file: str, name: str, line: int, body: str, rows: Iterator[tuple[int, str]], most: int
) -> tuple[str, ...]:
    """Collect the texts of a cell array, such as the machines' fuels.

    most : how many there may be.
    """
    texts: list[str] = []
    while True:
        texts += CELL.findall(body)
        if len(texts) > most:
            raise _too_much(file, f"the file has more than {MOST_VALUES} texts", line)
        if "}" in CELL.sub("", body):
            return tuple(texts)
        try:
            line, body = next(rows)
        except StopIteration:
            raise _cut_off(file, name, line) from None


def _without_comment(line: str) -> str:
    if "%" not in line and "#" not in line:  # almost every line of a large case
        return line
    quoted = False
    for position, character in enumerate(line):
        if character == "'":
            quoted = not quoted
        elif character in "%#" and not quoted:
            return line[:position]
    return line


def _too_much(file: str, problem: str, line: int) -> InputError:
    return InputError(
        problem,
        file=file,
        line=line,
        expected="a case of a power grid",
        remedy="Check that this is one.",
    )


def _not_run(file: str, line: int) -> InputError:
    return InputError(
        "this line is a statement, and gridveil reads tables only: it would change them, or is no "
        "MATPOWER at all",
        file=file,
        line=line,
        expected="mpc.name = [ numbers ];",
        remedy="Run the file in MATPOWER and save the result with savecase, then use that.",
    )


def _cut_off(file: str, name: str, line: int) -> InputError:
    return InputError(
        f"the file ends inside table mpc.{name}: it is cut off",
        file=file,
        table=f"mpc.{name}",
        line=line,
        expected="a closing bracket",
        remedy="Copy the whole file again.",
    )
