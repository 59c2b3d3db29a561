"""Modelica: one model, x' = A x + B u and y = C x + D u, with named inputs and outputs."""

from __future__ import annotations

from gridveil.dynamics.events import Event
from gridveil.grid.facts import Array
from gridveil.publication.export.common import TextFormat, about
from gridveil.publication.export.linear import HERTZ, Linear, Signal
from gridveil.publication.release import Release

MODEL = "gridveil_release"
FILE = f"{MODEL}.mo"
# Modelica knows units of the SI; what is in p.u. has none.
UNITS = {HERTZ: "Hz"}


def write(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write the model; it needs no library."""
    del event
    own = Linear.of(release)
    n, s, h = len(own.states), len(own.inputs), len(own.outputs)
    lines = [
        *(f"// {line}" for line in about(release)),
        f'model {MODEL} "Linear frequency dynamics, as deviations from the operating point"',
        *(_declared("input", signal) for signal in own.inputs),
        *(_declared("output", signal) for signal in own.outputs),
        f'  Real x[{n}](each start = 0, each fixed = true) "states, named below";',
        "protected",
        *(f"  // x[{i}]: {one.name} [{one.unit}]" for i, one in enumerate(own.states, start=1)),
        *(
            f"  parameter Real {name}[{len(rows)}, {len(columns)}] = {_matrix(matrix)};"
            for name, (matrix, rows, columns) in own.matrices().items()
        ),
        f"  Real u[{s}];",
        f"  Real y[{h}];",
        "equation",
        f"  u = {{{', '.join(signal.name for signal in own.inputs)}}};",
        "  der(x) = A * x + B * u;",
        "  y = C * x + D * u;",
        *(f"  {one.name} = y[{i}];" for i, one in enumerate(own.outputs, start=1)),
        f"end {MODEL};",
        "",
    ]
    return {FILE: "\n".join(lines).encode("ascii")}


def _declared(kind: str, signal: Signal) -> str:
    unit = UNITS.get(signal.unit, "1")
    words = f"{signal.words} [{signal.unit}]".replace("\\", "\\\\").replace('"', '\\"')
    return f'  {kind} Real {signal.name}(unit = "{unit}") "{words}";'


def _matrix(matrix: Array) -> str:
    rows = ("{" + ", ".join(map(number, row.tolist())) + "}" for row in matrix)
    return "{" + ",\n    ".join(rows) + "}"


def number(value: float) -> str:
    """Write a number in full, as Modelica and C read it; a zero in one sign.

    >>> [number(value) for value in (-0.0, 0.1, 1e-300)]
    ['0', '0.1', '1e-300']
    """
    return repr(value) if value else "0"


FORMAT = TextFormat(
    "modelica",
    1,
    write,
    runs=(
        f"python -c \"import pymoca.parser; print(*pymoca.parser.parse(open('{FILE}').read())"
        f".classes['{MODEL}'].symbols)\""
    ),
    write_detailed=write,
)
