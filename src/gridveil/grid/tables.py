"""Tables of a grid's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, Facts, GridFacts, TableFacts, frozen

# Values by the name of their parameter, in the order of the registry; each has its asset's index.
Values = Mapping[str, Array]


class GridTable(Protocol):
    """Any whole table of a swing model: its facts and the values of each protected parameter."""

    @property
    def facts(self) -> GridFacts:
        """The grid's public facts."""
        ...

    @property
    def values(self) -> Values:
        """Values by parameter: (e,) of lines, (g,) of machines, each in its unit."""
        ...


@dataclass(frozen=True, eq=False)
class PublicTable(Generic[Facts]):
    """A whole table of a grid, every entry of it public: what post-processing makes of a noisy
    grid, or a public case.
    """

    facts: Facts
    values: Values

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen_values(self.values, self.facts))


def frozen_values(values: Values, facts: TableFacts) -> Values:
    """Freeze the values of a table, in the order of its parameters."""
    check_names(values, facts)
    return {name: frozen(values[name]) for name in facts.parameters}


def check_names(values: Mapping[str, Any], facts: TableFacts) -> None:
    """Refuse a table of other parameters than its facts have."""
    if values.keys() != facts.parameters.keys():
        raise InputError(
            f"a table names {', '.join(sorted(values)) or 'nothing'}",
            file=facts.name,
            expected=f"values of {', '.join(facts.parameters)}",
        )
