"""CSV of the matrices A, B, C and D, with names and units of their rows and columns."""

from __future__ import annotations

from gridveil.dynamics.events import Event
from gridveil.foundation.shown import csv_cell
from gridveil.publication.export.common import TextFormat, about
from gridveil.publication.export.linear import Linear, Signal
from gridveil.publication.release import Release

MEANING = "x' = A x + B u [1/s times the state's unit], y = C x + D u; all are deviations."


def write(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write one table a matrix; lines in front of each, behind a #, say what it is."""
    del event
    files = {}
    for name, (matrix, rows, columns) in Linear.of(release).matrices().items():
        lines = [f"# {line}" for line in (*about(release), MEANING)]
        lines.append(",".join(csv_cell(head) for head in (name, *map(_head, columns))))
        for signal, values in zip(rows, matrix, strict=True):
            lines.append(",".join(map(csv_cell, (_head(signal), *values.tolist()))))
        files[f"matrix_{name}.csv"] = "\n".join([*lines, ""]).encode("ascii")
    return files


def _head(signal: Signal) -> str:
    return f"{signal.name} [{signal.unit}]"


FORMAT = TextFormat(
    "matrices",
    1,
    write,
    runs=(
        "python -c \"import pandas; print(pandas.read_csv('matrix_A.csv', comment='#', "
        'index_col=0))"'
    ),
    write_detailed=write,
)
