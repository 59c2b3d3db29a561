"""The truth of public cases, for demos and surrogates: never of a grid that a release is made
of.
"""

from __future__ import annotations

from typing import Any

from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.models import FullModel, ReducedModel
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import Facts
from gridveil.grid.tables import PublicTable, Values
from gridveil.vault.source import Private, SourceGrid


@sealed
def true_model(source: SourceGrid) -> ReducedModel:
    """Reduce the source grid without noise, to show it beside its release."""
    return reduced_model(source.facts, _opened(source))


@sealed
def public_table(source: SourceGrid[Facts]) -> PublicTable[Facts]:
    """The table of a case that is public: a surrogate to try settings out on."""
    return PublicTable(source.facts, _opened(source))


@sealed
def true_full_model(source: SourceGrid) -> FullModel:
    """The source grid with all its buses."""
    return FullModel(source.facts, _opened(source))


def _opened(source: SourceGrid[Any]) -> Values:
    return {name: Private.open(values) for name, values in source.values.items()}
