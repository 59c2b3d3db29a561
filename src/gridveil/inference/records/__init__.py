"""Measured trajectories: public records as their files have them, and a small TOML that declares
what their numbers mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gridveil.foundation.arguments import a_number, a_place, of_type, takes
from gridveil.grid.facts import GridFacts, TableFacts
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit import FitSettings
from gridveil.inference.records.check import WRONG_SIZE, check_size
from gridveil.inference.records.declared import Declaration, declaration, read_declaration
from gridveil.inference.records.measured import Location, Measured, measure
from gridveil.inference.records.refusing import NOT_USED

__all__ = [
    "WRONG_SIZE",
    "Declaration",
    "Location",
    "Measured",
    "check_size",
    "declaration",
    "measure",
    "read_all",
    "read_declaration",
    "read_trajectory",
]


@takes(
    outcome=NOT_USED,
    path=a_place("a path to the TOML that declares a record"),
    facts=of_type(GridFacts, "facts of a swing grid, such as source.facts"),
    dt_s=a_number("a time step above 0 [s]", above=0.0),
)
def read_trajectory(path: str | Path, facts: GridFacts, *, dt_s: float = 0.01) -> Measured:
    """Read a trajectory that a TOML declares, check it against a grid's public facts, and put it on
    the fit's clock.
    """
    return measure(read_declaration(Path(path)), facts, dt_s=dt_s)


def read_all(
    declared: Sequence[Declaration],
    facts: TableFacts,
    dt_s: float | None = None,
    bounds: Bounds | None = None,
) -> list[Measured]:
    """Read declared trajectories onto the fit's clock; refuse what does not fit the grid and, given
    bounds of a swing model, its event.
    """
    records = [measure(each, facts, dt_s=dt_s or FitSettings().dt_s) for each in declared]
    if bounds is not None and isinstance(facts, GridFacts):
        for record in records:
            check_size(record, facts, bounds)
    return records
