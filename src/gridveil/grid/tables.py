"""Tables of a grid's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gridveil.grid.facts import Array, GridFacts, frozen
from gridveil.grid.parameters import GROUPS


class Table(Protocol):
    """Any whole table of a grid: its facts and a value of each private parameter."""

    @property
    def facts(self) -> GridFacts:
        """The grid's public facts."""
        ...

    @property
    def k(self) -> Array:
        """(e,) Line weights [p.u. power / rad]."""
        ...

    @property
    def m(self) -> Array:
        """(g,) Inertia [p.u. power · s / p.u. frequency]."""
        ...

    @property
    def d(self) -> Array:
        """(g,) Damping [p.u. power / p.u. frequency]."""
        ...


@dataclass(frozen=True, eq=False)
class PublicTable:
    """A whole table of a grid, every entry of it public: what post-processing makes of a noisy
    grid, or a public case.
    """

    facts: GridFacts
    k: Array
    m: Array
    d: Array

    def __post_init__(self) -> None:
        for name in GROUPS:
            object.__setattr__(self, name, frozen(getattr(self, name)))
