"""Tables of a grid's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, GridFacts, frozen
from gridveil.grid.parameters import PARAMETERS

# Values by the name of their parameter, in the order of the registry; each has its asset's index.
Values = Mapping[str, Array]


class Table(Protocol):
    """Any whole table of a grid: its facts and the values of each protected parameter."""

    @property
    def facts(self) -> GridFacts:
        """The grid's public facts."""
        ...

    @property
    def values(self) -> Values:
        """Values by parameter: (e,) of lines, (g,) of machines, each in its unit."""
        ...


@dataclass(frozen=True, eq=False)
class PublicTable:
    """A whole table of a grid, every entry of it public: what post-processing makes of a noisy
    grid, or a public case.
    """

    facts: GridFacts
    values: Values

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen_values(self.values, self.facts.name))


def frozen_values(values: Values, file: str) -> Values:
    """Freeze the values of a table, in the order of the registry."""
    check_names(values, file)
    return {name: frozen(values[name]) for name in PARAMETERS}


def check_names(values: Mapping[str, Any], file: str) -> None:
    """Refuse a table of other parameters than the registry has."""
    if values.keys() != PARAMETERS.keys():
        raise InputError(
            f"a table names {', '.join(sorted(values)) or 'nothing'}",
            file=file,
            expected=f"values of {', '.join(PARAMETERS)}",
        )
