"""The noisy grid: what comes out of step 1. Public from here on."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction

from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import Bounds, Range
from gridveil.grid.tables import Values, frozen_values
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation, Drawn
from gridveil.privacy.guarantee import Guarantee
from gridveil.privacy.ledger.accounts import Receipt

FAR = 2.0**10  # times a public upper bound: see `furthest`


@dataclass(frozen=True, eq=False)
class NoisyGrid:
    """Protected parameters after noise and clipping: all that the allocation drew of them.

    values : by parameter, an entry of each asset, (1,) where their sum was drawn, (0,) where
    nothing was [the parameter's unit].
    """

    facts: GridFacts
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
        object.__setattr__(self, "values", frozen_values(self.values, self.facts.name))

    def range(self, name: str) -> Range:
        """Public bounds of what was drawn of a group: of an item, or of a sum."""
        return drawn_range(self.bounds, name, self.allocation.draws[name], len(self.facts.machines))

    def clipped(self) -> dict[str, int]:
        """Count the drawn values of each group that lie on a public bound."""
        counts: dict[str, int] = {}
        for name, values in self.values.items():
            public = self.range(name)
            counts[name] = int(((values == public.lower) | (values == public.upper)).sum())
        return counts


def drawn_range(bounds: Bounds, name: str, way: Drawn, machines: int) -> Range:
    """Public bounds of what is drawn of a group: its items' own, or as many times those as there
    are machines.
    """
    public = bounds[name]
    return Range(machines * public.lower, machines * public.upper) if way == "sum" else public


def drawn_distance(
    adjacency: Adjacency, name: str, way: Drawn, public: Range, *, summed: bool = False
) -> Fraction:
    """How far apart two neighbours are at most in what is drawn of a group; public : bounds of
    that.

    Noise is made for it, and whoever verifies a bundle compares its scale with it.
    summed : whether entries of the group are sums of parts themselves.
    """
    distance = adjacency.distance(name)
    if adjacency.relative:  # the distance of logarithms counts roundings already
        return distance
    # What is a sum is rounded to a double once, for each of two neighbours.
    rounded = [public.upper] * (way == "sum") + [furthest(public)] * summed
    return distance + sum(Fraction(math.ulp(most)) for most in rounded)


def furthest(public: Range) -> float:
    """The largest value that noise is added to: values beyond it are taken for it, which bounds
    their rounding.

    Noise of any use does not reach from there to the bound, so that what is released of them is the
    bound, as it is without.
    """
    return min(FAR * public.upper, sys.float_info.max)
