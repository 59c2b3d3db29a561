"""Parameters, each declared once: what noise, fit, attack, export and words know of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite
from typing import Literal

from gridveil.foundation.errors import OptionError
from gridveil.foundation.words import check_words

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
class Parameter:
    """One protected parameter of a grid's assets, or what Kron reduction makes of one.

    name : its symbol, in files and options.
    title : what it is, of one asset, such as "inertia".
    unit : in words.
    asset : the physical thing that an entry belongs to; entries of one asset change together.
    bounds : public bounds where none are declared.
    positive : whether an entry of 0 has no meaning.
    why_positive : what an entry of 0 would be.
    alpha : distance of neighbours where none is given [unit].
    ratio : the same under a relative adjacency.
    reduces : the parameter that this is the Kron reduction of; "" where it is protected itself.
    """

    name: str
    title: str
    unit: str
    asset: Asset
    bounds: Range
    positive: bool = False
    why_positive: str = ""
    alpha: Fraction = Fraction(1)
    ratio: Fraction = Fraction(1, 10)
    reduces: str = ""

    @property
    def words(self) -> str:
        """Title and symbol."""
        return f"{self.title} {self.name}"

    @property
    def plural(self) -> str:
        """What the parameter is, of several assets: line weights, inertia."""
        return f"{self.title}s" if self.title.startswith(self.asset) else self.title

    @property
    def several(self) -> str:
        """What several entries are called: line weights, values of inertia."""
        return self.plural if self.plural != self.title else f"values of {self.title}"


WEIGHT = Parameter(
    "k",
    "line weight",
    "p.u. power / rad",
    "line",
    Range(1.0, 100.0),
    positive=True,
    why_positive="a line without weight",
)
REDUCED_WEIGHT = Parameter(
    "k_r", "reduced weight", "p.u. power / rad", "line", Range(0.0, 200.0), reduces=WEIGHT.name
)
INERTIA = Parameter(
    "m",
    "inertia",
    "p.u. power * s / p.u. frequency",
    "machine",
    Range(1.0, 40.0),
    positive=True,
    why_positive="a machine without inertia",
)
DAMPING = Parameter("d", "damping", "p.u. power / p.u. frequency", "machine", Range(1.0, 40.0))

# The registry: every parameter, in the order of draws and files.
DECLARED: dict[str, Parameter] = {
    parameter.name: parameter for parameter in (WEIGHT, REDUCED_WEIGHT, INERTIA, DAMPING)
}


class _Protected(Mapping[str, Parameter]):
    """The registry without what follows from other parameters."""

    def __getitem__(self, name: str) -> Parameter:
        if DECLARED[name].reduces:
            raise KeyError(name)
        return DECLARED[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, parameter in DECLARED.items() if not parameter.reduces)

    def __len__(self) -> int:
        return sum(1 for _ in self)


# What is protected, by name: a live view of the registry.
PARAMETERS: Mapping[str, Parameter] = _Protected()


@contextmanager
def registered(*parameters: Parameter) -> Iterator[None]:
    """Declare further parameters, of a device, within a block."""
    for parameter in parameters:
        if parameter.name in DECLARED:
            raise OptionError(f"A parameter {parameter.name!r} is declared already.")
        DECLARED[parameter.name] = parameter
    try:
        yield
    finally:
        for parameter in parameters:
            del DECLARED[parameter.name]


def released() -> dict[str, Parameter]:
    """What a reduced model has values of: reduced parameters, and those of machines."""
    return {name: p for name, p in DECLARED.items() if p.reduces or p.asset == "machine"}


def assets() -> dict[str, Asset]:
    """The asset that an entry of each protected parameter belongs to."""
    return {name: parameter.asset for name, parameter in PARAMETERS.items()}


def of_asset(asset: Asset) -> tuple[str, ...]:
    """The protected parameters of an asset.

    >>> of_asset("machine")
    ('m', 'd')
    """
    return tuple(name for name, its in assets().items() if its == asset)


@dataclass(frozen=True)
class Bounds(Mapping[str, Range]):
    """Public bounds of each parameter, those of reduced ones included.

    They are declared, never taken from the source: a bound that follows the data would leak it.
    ranges : by name; one that is left out has the registry's.
    origin : where they are from.

    >>> Bounds({"m": Range(2, 30)})["m"].upper, Bounds()["k"].lower
    (30, 1.0)
    """

    ranges: Mapping[str, Range] = field(default_factory=dict)
    origin: str = "gridveil's defaults"

    def __post_init__(self) -> None:
        check_words("The origin of the bounds", self.origin)
        if unknown := self.ranges.keys() - DECLARED.keys():
            raise OptionError(
                f"Bounds are given for {', '.join(sorted(unknown))}, which no model has.",
                expected=f"bounds of {', '.join(DECLARED)}",
            )
        whole = {
            name: self.ranges.get(name, parameter.bounds) for name, parameter in DECLARED.items()
        }
        object.__setattr__(self, "ranges", whole)
        for name, parameter in DECLARED.items():
            if parameter.positive and whole[name].lower <= 0:
                raise OptionError(
                    f"The lower bound of {name} must be above 0: {parameter.why_positive} has no "
                    "swing equation.",
                    remedy=f"Give --bounds {name}=… a positive lower end.",
                )

    def __getitem__(self, name: str) -> Range:
        return self.ranges[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.ranges)

    def __len__(self) -> int:
        return len(self.ranges)


@dataclass(frozen=True)
class Group:
    """One named group of parameters in θ, with its public bounds (None: free)."""

    name: str
    size: int
    range: Range | None


def slices(groups: Iterable[Group]) -> dict[str, slice]:
    """Place each group in the stacked parameter vector θ.

    >>> slices([Group("m", 2, Range(0, 1)), Group("d", 2, Range(0, 1))])["d"]
    slice(2, 4, None)
    """
    out: dict[str, slice] = {}
    start = 0
    for group in groups:
        out[group.name] = slice(start, start + group.size)
        start += group.size
    return out
