"""Groups of parameters: the words in which noise, fit, attack and export speak of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from gridveil.foundation.errors import OptionError
from gridveil.foundation.words import check_words

# The private groups: line weights, inertia and damping. k_r is what the first becomes by Kron
# reduction.
GROUPS = ("k", "m", "d")
UNITS: Mapping[str, str] = {
    "k": "p.u. power / rad",
    "k_r": "p.u. power / rad",
    "m": "p.u. power * s / p.u. frequency",
    "d": "p.u. power / p.u. frequency",
}

Asset = Literal["line", "machine"]

# Where public bounds start at 0, logarithms start here, as a share of the upper one.
FLOOR = 1e-3


@dataclass(frozen=True)
class Range:
    """A public interval [lower, upper] that a group of parameters is clipped to."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not (isfinite(self.lower) and isfinite(self.upper)):
            raise OptionError(
                f"Bounds {self.lower:g}:{self.upper:g} are not finite.",
                remedy="Give two finite numbers.",
            )
        if not 0 <= self.lower < self.upper:
            raise OptionError(
                f"Bounds {self.lower:g}:{self.upper:g} are reversed, empty or negative.",
                expected="lower:upper with 0 <= lower < upper",
                remedy="Swap or widen the bounds; they are public and must not come from the "
                "source grid.",
            )

    @property
    def least(self) -> float:
        """Lower end, above 0: where a log-uniform prior starts."""
        return self.lower or FLOOR * self.upper


@dataclass(frozen=True)
class Bounds:
    """Public bounds: of the source's line weights, of the reduced ones, of inertia and of damping.

    They are declared, never taken from the source: a bound that follows the data would leak it.
    origin : where they are from.
    """

    k: Range = Range(1.0, 100.0)
    k_r: Range = Range(0.0, 200.0)
    m: Range = Range(1.0, 40.0)
    d: Range = Range(1.0, 40.0)
    origin: str = "gridveil's defaults"

    def __post_init__(self) -> None:
        check_words("The origin of the bounds", self.origin)
        for name in ("k", "m"):
            if getattr(self, name).lower <= 0:
                raise OptionError(
                    f"The lower bound of {name} must be above 0: a line without weight or a "
                    "machine without inertia has no swing equation.",
                    remedy=f"Give --bounds {name}=… a positive lower end.",
                )


@dataclass(frozen=True)
class Group:
    """One named group of parameters of a model.

    range holds its public bounds (None: free); alpha is the distance that the guarantee speaks of
    (None where the group is public); asset says which physical thing an entry belongs to, so that
    `one-asset` knows which entries change together.
    """

    name: str
    size: int
    unit: str
    range: Range | None
    alpha: float | None = None
    sensitive: bool = True
    asset: Asset = "line"


def slices(groups: Iterable[Group]) -> dict[str, slice]:
    """Place each group in the stacked parameter vector θ.

    >>> slices([Group("m", 2, "", Range(0, 1)), Group("d", 2, "", Range(0, 1))])["d"]
    slice(2, 4, None)
    """
    out: dict[str, slice] = {}
    start = 0
    for group in groups:
        out[group.name] = slice(start, start + group.size)
        start += group.size
    return out
