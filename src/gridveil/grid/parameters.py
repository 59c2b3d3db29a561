"""Parameters, each declared once: what noise, fit, attack, export and words know of a model.

A family is what one kind of table has: the swing family k, m, d (and what devices add), or the
detailed one. Names are unique over families.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite
from typing import Any, Literal

from gridveil.foundation.arguments import Unfit, a_number, of_type, one_of, takes
from gridveil.foundation.errors import OptionError
from gridveil.foundation.limits import check_words
from gridveil.foundation.looks import looks

Asset = Literal["line", "machine", "load", "shunt"]

SWING, DETAILED = "swing", "detailed"

# α of the detailed family, as a ratio or in a parameter's unit.
FIVE_PERCENT = Fraction(1, 20)
# Where public bounds start at 0, logarithms start here, as a share of the upper one.
FLOOR = 1e-3


@looks()
@takes(
    lower=a_number("a number, the lower end"),
    upper=a_number("a number, the upper end"),
    signed=of_type(bool, "True or False"),
)
@dataclass(frozen=True)
class Range:
    """A public interval [lower, upper] that a group of parameters is clipped to.

    signed : whether values below 0 have a meaning.
    """

    lower: float
    upper: float
    signed: bool = False

    def __post_init__(self) -> None:
        if not (isfinite(self.lower) and isfinite(self.upper)):
            raise OptionError(
                f"Bounds {self.lower:g}:{self.upper:g} are not finite.",
                remedy="Give two finite numbers.",
            )
        if not self.lower < self.upper or not (self.signed or self.lower >= 0):
            raise OptionError(
                f"Bounds {self.lower:g}:{self.upper:g} are reversed, empty"
                f"{'' if self.signed else ' or negative'}.",
                expected=f"lower:upper with {'' if self.signed else '0 <= '}lower < upper",
                remedy="Swap or widen the bounds; they are public and must not come from the "
                "source grid.",
            )

    @classmethod
    def of(cls, value: Any) -> Range:
        """Read a range: itself, a pair (1, 40), or the text "1:40"."""
        if isinstance(value, Range):
            return value
        try:
            ends = value.split(":") if isinstance(value, str) else value
            lower, upper = (float(end) for end in ends)
        except (TypeError, ValueError):
            raise Unfit("a pair of numbers for each name, such as Bounds(m=(1, 40))") from None
        return cls(lower, upper, signed=lower < 0)

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
    family : the kind of table that has it.
    formula : how an entry follows from filed values; "" where it is one of them.
    absolute : whether it is counted in its unit even where the others are counted in ratios.
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
    family: str = SWING
    formula: str = ""
    absolute: bool = False

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


def _entry(
    asset: Asset, name: str, title: str, unit: str, bounds: Range, formula: str
) -> Parameter:
    """A parameter of the detailed family: above 0, or counted absolutely where it has a sign."""
    return Parameter(
        name,
        title,
        unit,
        asset,
        bounds,
        positive=not bounds.signed,
        why_positive=f"{title} of 0",
        alpha=FIVE_PERCENT,
        ratio=FIVE_PERCENT,
        family=DETAILED,
        formula=formula,
        absolute=bounds.signed,
    )


def _typical(name: str, title: str, formula: str, spread: float = 50.0) -> Parameter:
    """A parameter of devices, as a ratio to the public typical value of its device model, within a
    factor.
    """
    formula = f"{formula}, over its model's typical"
    return _entry("machine", name, title, "1", Range(1 / spread, spread), formula)


_GAIN = "p.u. power / p.u. frequency"
# In the order in which a released case is written: what a formula needs stands before it.
_DETAILED = (
    _entry("line", "x", "reactance", "p.u.", Range(1e-4, 10.0), "|x| of a line or transformer"),
    _entry("line", "b_ratio", "charging ratio", "1", Range(0.01, 200.0), "b/|x| of a charged line"),
    _entry("shunt", "b_shunt", "susceptance", "p.u.", Range(1e-3, 50.0), "|b| of a bus's shunts"),
    _entry("load", "p_load", "active power", "p.u. power", Range(1e-3, 200.0), "|P|"),
    _entry(
        "load",
        "q_ratio",
        "reactive ratio",
        "p.u. / p.u.",
        Range(-1.0, 1.0, signed=True),
        "Q/P, cut to -1 and 1",
    ),
    _entry("machine", "p_gen", "dispatch", "p.u. power", Range(1e-3, 200.0), "|P| as scheduled"),
    _entry(
        "machine", "M", "inertia", f"{_GAIN} * s", Range(0.1, 5000.0), "2H on the system's base"
    ),
    _entry(
        "machine",
        "x_machine",
        "scale of reactances",
        "s",
        Range(0.06, 50.0),
        "x'd M; the machine's other impedances go with x'd",
    ),
    _entry(
        "machine",
        "gov_gain",
        "governor gain",
        _GAIN,
        Range(0.1, 1e4),
        "1/R on the system's base; K of IEEEG1, K1 of IEESGO, At/R of HYGOV, 1/droop of a "
        "grid-forming inverter",
    ),
    _typical(
        "gov_servo",
        "governor's servo time",
        "T1 of TGOV1 and GAST, T3 of IEEEG1 and IEESGO, Tg of HYGOV",
    ),
    _typical(
        "gov_lag",
        "governor's lag time",
        "T3 of TGOV1, T2 of GAST, T5 of IEEEG1 and IEESGO, Tw of HYGOV",
    ),
    _entry(
        "machine",
        "gov_fast",
        "governor's fast gain",
        "1",
        Range(1e-3, 1e3),
        "governor gain times T2/T3 of TGOV1, T4 of IEEEG1 and IEESGO, Tr of HYGOV, over that of "
        "its model's typical device of 500 MVA",
    ),
    _typical(
        "avr_gain",
        "exciter's steady gain",
        "K_A/(K_E + d(E S_E)/dE) at a field voltage of 2 p.u., K_A or K of a static exciter",
    ),
    _typical("avr_feedback", "exciter's rate feedback", "K_F/T_F"),
    _typical(
        "pss_gain",
        "stabiliser's gain",
        "|gain| of IEEEST at 1 Hz, its filters left out; |K1| of ST2CUT",
        spread=500.0,
    ),
)

# The registry: every parameter, in the order of draws and files.
FAMILIES: dict[str, dict[str, Parameter]] = {
    family: {parameter.name: parameter for parameter in declared}
    for family, declared in (
        (SWING, (WEIGHT, REDUCED_WEIGHT, INERTIA, DAMPING)),
        (DETAILED, _DETAILED),
    )
}
# Those of the swing family, with what follows from them.
DECLARED: dict[str, Parameter] = FAMILIES[SWING]


@dataclass(frozen=True)
class _Protected(Mapping[str, Parameter]):
    """A family without what follows from other parameters."""

    family: str

    def __getitem__(self, name: str) -> Parameter:
        parameter = FAMILIES[self.family][name]
        if parameter.reduces:
            raise KeyError(name)
        return parameter

    def __iter__(self) -> Iterator[str]:
        return (name for name, own in FAMILIES[self.family].items() if not own.reduces)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def parameters_of(family: str) -> Mapping[str, Parameter]:
    """What is protected in a family, by name: a live view of the registry.

    >>> list(parameters_of("swing"))
    ['k', 'm', 'd']
    """
    return _Protected(family)


PARAMETERS: Mapping[str, Parameter] = parameters_of(SWING)


def family_of(names: Iterable[str]) -> str:
    """The family that names belong to; that of names which none declares is swing.

    An account may hold parameters of a device that is not declared now.

    >>> family_of(["p_load", "x"]), family_of(["of an old device"])
    ('detailed', 'swing')
    """
    names = set(names)
    return next((family for family, own in FAMILIES.items() if names & own.keys()), SWING)


@contextmanager
def registered(*parameters: Parameter) -> Iterator[None]:
    """Declare further parameters, of a device, within a block."""
    for parameter in parameters:
        if any(parameter.name in declared for declared in FAMILIES.values()):
            raise OptionError(f"A parameter {parameter.name!r} is declared already.")
        FAMILIES[parameter.family][parameter.name] = parameter
    try:
        yield
    finally:
        for parameter in parameters:
            del FAMILIES[parameter.family][parameter.name]


def released() -> dict[str, Parameter]:
    """What a reduced model has values of: reduced parameters, and those of machines."""
    return {name: p for name, p in DECLARED.items() if p.reduces or p.asset == "machine"}


def assets(family: str = SWING) -> dict[str, Asset]:
    """The asset that an entry of each protected parameter of a family belongs to."""
    return {name: parameter.asset for name, parameter in parameters_of(family).items()}


def of_asset(asset: Asset) -> tuple[str, ...]:
    """The protected parameters of an asset.

    >>> of_asset("machine")
    ('m', 'd')
    """
    return tuple(name for name, its in assets().items() if its == asset)


def _ranges(value: Any) -> dict[str, Range]:
    """Read the ranges of `Bounds`."""
    if not isinstance(value, Mapping):
        raise Unfit("ranges by name, such as Bounds(m=(1, 40)) or Bounds({'m': (1, 40)})")
    return {str(name): Range.of(own) for name, own in value.items()}


@looks(
    lambda bounds: (
        ", ".join(f"{name} {own.lower:g}:{own.upper:g}" for name, own in bounds.ranges.items())
        + f"; {bounds.origin}"
    ),
    lambda bounds: {
        f"{name} [{FAMILIES[bounds.family][name].unit}]": f"{own.lower:g} to {own.upper:g}"
        for name, own in bounds.ranges.items()
    },
)
@takes(
    gathers="ranges",
    ranges=_ranges,
    origin=of_type(str, "words that say where they are from"),
    family=one_of((SWING, DETAILED)),
)
@dataclass(frozen=True)
class Bounds(Mapping[str, Range]):
    """Public bounds of each parameter, those of reduced ones included.

    They are declared, never taken from the source: a bound that follows the data would leak it.
    ranges : by name; one that is left out has the registry's, and a reduced weight's reaches up to
    twice that of the weights.
    origin : where they are from.
    family : whose parameters they bound.
    facts : public facts of a grid that they follow from, in words, by name.
    given : names whose ranges were given.

    >>> Bounds(m=(2, 30))["m"].upper, Bounds({"m": Range(2, 30)})["m"].upper, Bounds()["k"].lower
    (30.0, 30.0, 1.0)
    """

    ranges: Mapping[str, Range] = field(default_factory=dict)
    origin: str = "gridveil's defaults"
    family: str = SWING
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    given: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_words("The origin of the bounds", self.origin)
        declared = FAMILIES[self.family]
        object.__setattr__(self, "given", frozenset(self.ranges))
        if unknown := self.ranges.keys() - declared.keys():
            raise OptionError(
                f"Bounds are given for {', '.join(sorted(unknown))}, which no model has.",
                expected=f"bounds of {', '.join(declared)}",
            )
        whole = {
            name: self.ranges.get(name) or self._usual(parameter)
            for name, parameter in declared.items()
        }
        object.__setattr__(self, "ranges", whole)
        for name, parameter in declared.items():
            if parameter.positive and whole[name].lower <= 0:
                raise OptionError(
                    f"The lower bound of {name} must be above 0: {parameter.why_positive} has no "
                    f"{'swing equation' if self.family == SWING else 'meaning'}.",
                    remedy=f"Give --bounds {name}=… a positive lower end.",
                )
            if whole[name].lower < 0 and not parameter.bounds.signed:
                raise OptionError(
                    f"The lower bound of {name} is below 0, where it has no meaning.",
                    expected="lower:upper with 0 <= lower < upper",
                )

    @classmethod
    def of(cls, value: Any, family: str) -> Bounds:
        """The bounds that are meant: themselves, or ranges by name of a family's parameters."""
        if isinstance(value, Bounds):
            return value
        return cls(value, "declared public by the owner", family) if value else cls(family=family)

    def _usual(self, parameter: Parameter) -> Range:
        whole = self.ranges.get(parameter.reduces)
        return Range(0.0, 2 * whole.upper) if whole else parameter.bounds

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
