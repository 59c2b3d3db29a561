"""The noisy grid: what comes out of step 1. Public from here on."""

from __future__ import annotations

from dataclasses import dataclass

from gridveil.grid.facts import Array, GridFacts, frozen
from gridveil.grid.parameters import GROUPS, Bounds, Range
from gridveil.privacy.allocation import ITEMS, Allocation
from gridveil.privacy.guarantee import Guarantee
from gridveil.privacy.ledger.accounts import Receipt


@dataclass(frozen=True, eq=False)
class NoisyGrid:
    """Line weights, inertia and damping after noise and clipping: all that the allocation
    drew of them.

    k : (e,) [p.u. power / rad], or (0,) where nothing was drawn.
    m : (g,) [p.u. power · s / p.u. frequency] and
    d : (g,) [p.u. power / p.u. frequency], or (1,) where their sum was.
    """

    facts: GridFacts
    k: Array
    m: Array
    d: Array
    bounds: Bounds
    guarantee: Guarantee
    receipt: Receipt | None = None
    allocation: Allocation = ITEMS

    @property
    def demo(self) -> bool:
        """Whether a seed made this; then it protects nothing, for ever."""
        return self.guarantee.demo

    def __post_init__(self) -> None:
        for name in GROUPS:
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def range(self, name: str) -> Range:
        """Public bounds of what was drawn of a group: of an item, or of a sum."""
        return self.allocation.of(name).range(getattr(self.bounds, name), self.facts.sizes[name])

    def clipped(self) -> dict[str, int]:
        """Count the drawn values of each group that lie on a public bound."""
        counts: dict[str, int] = {}
        for name in GROUPS:
            public, values = self.range(name), getattr(self, name)
            counts[name] = int(((values == public.lower) | (values == public.upper)).sum())
        return counts
