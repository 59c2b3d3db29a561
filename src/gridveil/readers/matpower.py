"""MATPOWER case files (.m), read strictly: what is not plain data is refused, by line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import LONGEST_LINE, MOST_VALUES
from gridveil.foundation.reading import plain_number, read_lines
from gridveil.grid.facts import Array
from gridveil.readers.network import (
    BranchRecords,
    Buses,
    FileGrid,
    Machines,
    known_kv,
    unknown_dynamics,
)
from gridveil.readers.table import TYPED, Rows, Table, bus_positions, check_labels

CELL = re.compile(r"'([^']*)'")
FIELD = re.compile(r"mpc\.(\w+)\s*=\s*(.*)", re.DOTALL)
# The columns of each table, as MATPOWER's manual counts and names them.
COLUMNS = {
    "bus": "bus number, type, Pd, Qd, Gs, Bs, area, Vm, Va, baseKV, zone, Vmax, Vmin",
    "gen": "bus number, Pg, Qg, Qmax, Qmin, Vg, mBase, status, Pmax, Pmin",
    "branch": "from bus, to bus, r, x, b, rateA, rateB, rateC, ratio, angle, status",
}


class Matrix(NamedTuple):
    """A numeric table. values : (rows, columns); lines : of each row, if it stands in lines."""

    values: Array
    lines: Sequence[int] | None = None


def read_matpower(path: Path) -> FileGrid:
    """Read a MATPOWER `.m` file of version 2."""
    tables, numbers, texts = read_tables(path)
    return matpower_case(
        path.name, tables, numbers.get("baseMVA", float("nan")), texts.get("genfuel", ())
    )


@np.errstate(all="ignore")  # what overflows is refused later, by its row
def matpower_case(
    file: str, tables: Mapping[str, Matrix], base_mva: float, fuels: Sequence[str]
) -> FileGrid:
    """Turn the tables of a MATPOWER case, in its columns and units (MW, degrees, p.u.), into a
    grid.
    """
    bus, gen, branch = (_named(file, name, tables.get(name)) for name in COLUMNS)
    if not (np.isfinite(base_mva) and base_mva > 0):
        raise InputError(
            "mpc.baseMVA is missing or unusable", file=file, expected="a finite number above 0"
        )
    numbers, kind = bus.numbers("1 (bus number)"), bus.numbers("2 (type)")
    bus.refuse(
        ~((numbers == np.round(numbers)) & (numbers > 0) & (numbers < 1e15)),
        "column 1 is no bus number",
        expected="a whole number above 0",
    )
    bus.refuse(~np.isin(kind, (1, 2, 3, 4)), "column 2 is no bus type", expected="1, 2, 3 or 4")
    labels = tuple(f"{number:.0f}" for number in numbers)
    check_labels(bus.where, labels)
    known = {number: position for position, number in enumerate(numbers.tolist())}
    ends = [_buses(branch, column, known) for column in ("1 (from bus)", "2 (to bus)")]
    if fuels and len(fuels) != len(gen):
        raise InputError(
            f"mpc.genfuel has {len(fuels)} entries",
            file=file,
            expected=f"{len(gen)}, one for each row of mpc.gen",
        )
    ratio, shift = branch.numbers("9 (ratio)"), np.deg2rad(branch.numbers("10 (angle)"))
    rated = gen.numbers("7 (mBase)")
    return FileGrid(
        file=file,
        base_mva=base_mva,
        frequency_hz=None,
        buses=Buses(
            bus.where,
            np.arange(len(bus)),
            labels=labels,
            kind=kind.astype(np.int64),
            load=(bus.numbers("3 (Pd)") + 1j * bus.numbers("4 (Qd)")) / base_mva,
            shunt=(bus.numbers("5 (Gs)") + 1j * bus.numbers("6 (Bs)")) / base_mva,
            voltage=bus.numbers("8 (Vm)"),
            angle=np.deg2rad(bus.numbers("9 (Va)")),
            nominal_kv=known_kv(bus.floats("10 (baseKV)")),
        ),
        branches=BranchRecords(
            branch.where,
            np.arange(len(branch)),
            ends=np.stack(ends, axis=1),
            series=branch.numbers("3 (r)") + 1j * branch.numbers("4 (x)"),
            charging=branch.numbers("5 (b)"),
            ratio=np.where(ratio == 0, 1.0, ratio) * np.exp(1j * shift),
            in_service=branch.numbers("11 (status)") > 0,
        ),
        machines=Machines(
            gen.where,
            np.arange(len(gen)),
            bus=_buses(gen, "1 (bus number)", known),
            power=(gen.numbers("2 (Pg)") + 1j * gen.numbers("3 (Qg)")) / base_mva,
            set_point=gen.numbers("6 (Vg)"),
            in_service=gen.numbers("8 (status)") > 0,
            rated_mva=np.where(rated > 0, rated, np.nan),
            fuel=tuple(fuels) or ("",) * len(gen),
            **unknown_dynamics(len(gen)),
        ),
        notes=_left_out(tables.get("dcline")),
    )


def _named(file: str, name: str, matrix: Matrix | None) -> Table:
    """Give the columns of a table their names; refuse one that is missing, empty or too narrow."""
    if matrix is None:
        raise InputError(
            f"there is no table mpc.{name}",
            file=file,
            expected="a MATPOWER case of version 2 with mpc.bus, mpc.gen and mpc.branch",
            remedy="Check that this is a case file, and that it was copied whole.",
        )
    names, (rows, width) = COLUMNS[name].split(", "), matrix.values.shape
    if not rows:
        what = "no machine" if name == "gen" else f"no {name}"
        raise InputError(
            f"{what}: table mpc.{name} is empty", file=file, expected="at least one row"
        )
    where = Rows(file, f"mpc.{name}", matrix.lines)
    if width < len(names):
        expected = f"MATPOWER case format 2: at least {len(names)}"
        raise where.error(0, f"the table has {width} columns", expected=expected)
    columns = {f"{n} ({what})": matrix.values[:, n - 1] for n, what in enumerate(names, start=1)}
    return Table(where, columns, TYPED)


def _buses(table: Table, column: str, known: Mapping[float, int]) -> np.ndarray:
    what = f"bus in column {column[0]}"
    return bus_positions(table.where, what, table.numbers(column).tolist(), known)


def _left_out(lines: Matrix | None) -> tuple[str, ...]:
    running = 0 if lines is None else int((lines.values[:, 2:3] > 0).sum())
    note = f"{running} DC lines (mpc.dcline) left out, and their power with them"
    return (note,) if running else ()


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
) -> tuple[dict[str, Matrix], dict[str, float], dict[str, tuple[str, ...]]]:
    """Read every numeric table `mpc.name = [ … ]`, number `mpc.name = …` and list of texts
    `mpc.name = { … }` of a case file.

    Statements that MATLAB would run on top of the tables are not run, hence refused.
    """
    name = path.name
    tables: dict[str, Matrix] = {}
    numbers: dict[str, float] = {}
    texts: dict[str, tuple[str, ...]] = {}
    rows = _statements(path)
    count = 0  # of numbers and texts
    for line, text in rows:
        if re.match(r"function\b", text) or text.rstrip(";") in ("end", "return", "endfunction"):
            continue
        statement = FIELD.match(text)
        if not statement:
            raise _not_run(name, line)
        field, body = statement.groups()
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
) -> Matrix:
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
    return Matrix(np.array(values, dtype=float).reshape(len(values), -1 if values else 0), lines)


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
