"""The noisy grid: what comes out of step 1. Public from here on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from gridveil.foundation.looks import looks
from gridveil.grid.facts import Facts
from gridveil.grid.parameters import Bounds, Range
from gridveil.grid.tables import Values, frozen_values
from gridveil.privacy.allocation import ITEMS, Allocation
from gridveil.privacy.guarantee import Guarantee

if TYPE_CHECKING:  # the batch path runs where no database is
    from gridveil.privacy.ledger.accounts import Receipt


@looks(
    lambda own: (
        f"{'DEMO, ' if own.demo else ''}{own.facts.name}: {', '.join(own.values)} with "
        f"noise, ε = {own.guarantee.epsilon} under {own.guarantee.rule}"
    )
)
@dataclass(frozen=True, eq=False)
class NoisyGrid(Generic[Facts]):
    """Protected parameters after noise and clipping: all that the allocation drew of them.

    values : by parameter, all its entries, (1,) where their sum or mean was drawn, (0,) where
    nothing was [the parameter's unit]; true ones of what its owner publishes.
    """

    facts: Facts
    values: Values
    bounds: Bounds
    guarantee: Guarantee
    receipt: Receipt | None = None
    allocation: Allocation = ITEMS

    @property
    def demo(self) -> bool:
        """Whether a seed made this; then it protects nothing, for ever."""
        return self.guarantee.demo

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen_values(self.values, self.facts))

    def range(self, name: str) -> Range:
        """Public bounds of what was drawn of a group: of an item, or of a sum."""
        return self.allocation.of(name).range(self.bounds[name], self.facts.sizes[name])

    def clipped(self) -> dict[str, int]:
        """Count the drawn values of each group that lie on a public bound."""
        counts: dict[str, int] = {}
        for name, values in self.values.items():
            public, drawn = self.range(name), name in self.allocation.drawn
            on_bound = (values == public.lower) | (values == public.upper)
            counts[name] = int(on_bound.sum()) if drawn else 0
        return counts
