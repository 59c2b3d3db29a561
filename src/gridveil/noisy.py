"""The noisy grid: what comes out of step 1. Public from here on."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from gridveil.grid import Array, GridFacts, frozen
from gridveil.groups import Bounds
from gridveil.privacy.guarantee import Guarantee
from gridveil.privacy.ledger.chain import Head


@dataclass(frozen=True)
class Receipt:
    """What the ledger gave for a draw: the number of its entry, and where the ledger and the account stood after it.

    spent, budget : ε spent on the lineage so far, this draw included, and ε that may be.
    """

    entry: int
    head: Head
    spent: Fraction
    budget: Fraction


@dataclass(frozen=True, eq=False)
class NoisyGrid:
    """Line weights, inertia and damping after Laplace noise and clipping.

    k : (e,) [p.u. power / rad]; m : (g,) [p.u. power · s / p.u. frequency]; d : (g,) [p.u. power / p.u. frequency].
    """

    facts: GridFacts
    k: Array
    m: Array
    d: Array
    bounds: Bounds
    guarantee: Guarantee
    receipt: Receipt | None = None

    @property
    def demo(self) -> bool:
        """Whether a seed made this; then it protects nothing, for ever."""
        return self.guarantee.demo

    def __post_init__(self) -> None:
        for name in ("k", "m", "d"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def clipped(self) -> dict[str, int]:
        """Count the entries of each group that lie on a public bound."""
        counts: dict[str, int] = {}
        for name in ("k", "m", "d"):
            public, values = getattr(self.bounds, name), getattr(self, name)
            counts[name] = int(((values == public.lower) | (values == public.upper)).sum())
        return counts
