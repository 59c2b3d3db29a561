"""Adjacency: which two grids a release must not tell apart, and what that costs.

A group γ of parameters (k, m, d) is drawn with loss ε_γ for a change of one entry by at most α_γ.
Groups that are drawn jointly, for one asset, have one loss, which counts once.

=================  ====================================================  =========================
rule               neighbours differ in                                  loss of the whole release
=================  ====================================================  =========================
``one-asset``      one line's k, or one machine's m and d together       max(ε_k, ε_m + ε_d)
``one-item``       one entry of (k, m, d)                                max(ε_k, ε_m, ε_d)
``one-per-group``  one entry in each of k, m and d                       ε_k + ε_m + ε_d
=================  ====================================================  =========================

Append ``-relative`` and a rule counts in ratios: entries differ by a factor of at most 1
+ α, noise is added to logarithms, and the distance is log(1 + α). A parameter that is declared
absolute is counted in its unit all the same.

Tables of the detailed family are counted in ratios, by ``one-asset``, ``one-item`` or
``asset-l1-relative``: neighbours differ in the entries of one asset, whose changes, each as a part
of its distance, add up to at most 1. Noise and loss are those of ``one-item-relative``. What an
owner declares public is the same for neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, get_args

from gridveil.foundation.arguments import names, of_type, one_of, takes
from gridveil.foundation.errors import NOTHING_SPENT, BudgetExceeded, OptionError
from gridveil.foundation.looks import looks
from gridveil.grid.parameters import (
    DETAILED,
    PARAMETERS,
    SWING,
    Asset,
    Parameter,
    parameters_of,
)
from gridveil.privacy.epsilon import exact, float_at_least

Rule = Literal[
    "one-asset",
    "one-item",
    "one-per-group",
    "one-asset-relative",
    "one-item-relative",
    "one-per-group-relative",
    "asset-l1-relative",
]
RULES_OF: Mapping[str, tuple[Rule, ...]] = {
    SWING: get_args(Rule)[:6],
    DETAILED: ("one-asset-relative", "one-item-relative", "asset-l1-relative"),
}
RULES = RULES_OF[SWING]
ABSOLUTE, RELATIVE = RULES[:3], RULES[3:]

# Logarithms of doubles lie within ±745, where a rounding is 1.1e-13 at most: this covers those of
# two neighbours and of 1 + α.
LOG_ROUNDING = Fraction(1, 10**12)


_BY_GROUP = "numbers by group, such as {'k': 1, 'm': '1/2'}"


@looks(
    lambda own: (
        f"{own.rule}: α " + ", ".join(f"{name} {alpha}" for name, alpha in own.alpha.items())
    ),
    lambda own: {
        "neighbours": f"if {in_words(own.rule, parameters_of(own.family))}",
        **{f"α of {name}": str(alpha) for name, alpha in own.alpha.items()},
    },
)
@takes(
    outcome=NOTHING_SPENT,
    alpha=of_type(Mapping, _BY_GROUP),
    shares=of_type(Mapping, _BY_GROUP),
    family=one_of((SWING, DETAILED)),
    together=of_type(Mapping, "names of joint draws by group"),
    published=names("names of parameters", least=0),
)
@dataclass(frozen=True)
class Adjacency:
    """A rule for neighbours, the distance α of each group, and how ε is shared among the groups.

    alpha : α of each group [the group's unit; relative: none] (None: the usual one);
    shares : part of ε each group gets (None: the rule's own).
    family : whose parameters the groups are.
    together : of groups that are drawn jointly, a name of the draw: all of them have its one share.
    published : groups that the owner declares public, in which neighbours do not differ; of
    detailed tables alone.

    >>> a = Adjacency("one-asset", alpha={"k": Fraction(1), "m": Fraction(1), "d": Fraction(1)})
    >>> a.split(Fraction(1, 2), {"m": "machine", "d": "machine"})["m"]
    Fraction(1, 4)
    """

    rule: Rule = "one-asset"
    alpha: Mapping[str, Fraction] = None  # pyright: ignore[reportAssignmentType]  # filled in at once
    shares: Mapping[str, Fraction] | None = None
    family: str = SWING
    together: Mapping[str, str] = field(default_factory=dict[str, str])
    published: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        allowed = RULES_OF[self.family]
        if self.rule not in allowed:
            known = self.rule in get_args(Rule)
            raise OptionError(
                f"Adjacency {self.rule!r} is "
                + (f"not for tables of the {self.family} family." if known else "unknown."),
                outcome=NOTHING_SPENT,
                remedy=f"Choose one of {', '.join(allowed)}.",
            )
        given = usual_alpha(self.rule, self.family) if self.alpha is None else self.alpha  # pyright: ignore[reportUnnecessaryComparison]
        object.__setattr__(self, "alpha", _exactly("alpha", given))
        if self.shares is not None:
            object.__setattr__(self, "shares", _exactly("share", self.shares))
        known = () if self.family == SWING else tuple(parameters_of(self.family))
        if unknown := set(self.published) - set(known):
            raise OptionError(
                f"{min(unknown)} cannot be published: only entries of detailed tables can.",
                outcome=NOTHING_SPENT,
            )
        in_order = tuple(name for name in known if name in self.published)
        object.__setattr__(self, "published", in_order)

    @classmethod
    def of(cls, value: Adjacency | str, family: str) -> Adjacency:
        """The adjacency that is meant: itself, or a rule with the usual α of a family."""
        return value if isinstance(value, Adjacency) else cls(value, family=family)  # pyright: ignore[reportArgumentType]  # the rule is checked

    @property
    def relative(self) -> bool:
        """Whether neighbours differ by a factor, and noise goes on logarithms."""
        return self.rule.endswith("-relative")

    def in_ratios(self, name: str) -> bool:
        """The same of one group, which may be declared absolute."""
        declared = parameters_of(self.family).get(name)
        return self.relative and not (declared and declared.absolute)

    def distance(self, name: str) -> Fraction:
        """How far apart two neighbours' values of a group are at most, where noise is added: α, or
        log(1 + α), never less.

        A bound of what rounding does to this logarithm, and to those of the values, is added to it.
        """
        alpha = self.alpha[name]
        return (
            Fraction(math.log1p(float_at_least(alpha))) + LOG_ROUNDING
            if self.in_ratios(name)
            else alpha
        )

    def loss(self, spent: Mapping[str, Fraction], assets: Mapping[str, Asset]) -> Fraction:
        """Combine losses that add up by the rule of this adjacency (proof in docs/privacy.md)."""
        return max(
            (
                sum((max(spent[name] for name in draw) for draw in self._draws(moved)), Fraction(0))
                for moved in self.moved({name: assets[name] for name in spent})
            ),
            default=Fraction(0),
        )

    def moved(self, assets: Mapping[str, Asset]) -> list[tuple[str, ...]]:
        """List the kinds of neighbours: the groups that differ between two of them."""
        if self.counts == "one-item":
            return [(name,) for name in assets]
        if self.counts == "one-per-group":
            return [tuple(assets)] if assets else []
        return [
            tuple(name for name, of in assets.items() if of == asset)
            for asset in dict.fromkeys(assets.values())
        ]

    def split(self, epsilon: Fraction, assets: Mapping[str, Asset]) -> dict[str, Fraction]:
        """Share ε among the groups: equal parts wherever losses add up, the whole where they do
        not.

        assets : the groups that are drawn; one that is not drawn has no share.
        """
        shares = dict(self.shares) if self.shares is not None else self._default_shares(assets)
        for what, given, groups in (
            ("split", shares, assets),
            ("alpha", self.alpha, parameters_of(self.family)),
        ):
            if set(given) != set(groups):
                raise OptionError(
                    f"The {what} names {', '.join(sorted(given)) or 'nothing'}.",
                    expected=f"a value for each of {', '.join(groups)}",
                    outcome=NOTHING_SPENT,
                )
        whole = self.loss(shares, assets)
        if whole > 1:
            raise BudgetExceeded(
                f"The split adds up to {whole} of ε under {self.rule}.",
                outcome=NOTHING_SPENT,
                remedy="Lower the shares until the rule of the adjacency gives 1 or less.",
            )
        return {name: epsilon * share for name, share in shares.items()}

    @property
    def counts(self) -> str:
        """The rule by which losses add up, which ratios do not change.

        Changes of an asset that add up to one distance cost no more than one entry's change by it.
        """
        return self.rule.removesuffix("-relative").replace("asset-l1", "one-item")

    def _default_shares(self, assets: Mapping[str, Asset]) -> dict[str, Fraction]:
        return {
            name: Fraction(1, len(self._draws(moved)))
            for moved in self.moved(assets)
            for name in moved
        }

    def _draws(self, moved: Sequence[str]) -> list[list[str]]:
        """Sort what moves by the draws that show it, each with a loss of its own."""
        draws: dict[str, list[str]] = {}
        for name in moved:
            draws.setdefault(self.together.get(name, name), []).append(name)
        return list(draws.values())


def in_words(rule: Rule, declared: Mapping[str, Parameter] = PARAMETERS) -> str:
    """Say which two grids are neighbours, after "if", and what an entry is where it has a formula.

    declared : the parameters of the table.

    >>> in_words("one-item-relative")
    'one single entry of (k, m, d) differs by a factor of at most 1 + its α'
    """
    by = "by a factor of at most 1 + " if rule.endswith("-relative") else "by at most "
    names, absolute = list(declared), [name for name, own in declared.items() if own.absolute]
    but = f" ({listed(absolute)} by at most its α itself)" if absolute else ""
    if rule == "asset-l1-relative":
        distance = "log(1 + α) of its logarithm"
        if absolute:
            distance += f", or α of {listed(absolute)}"
        return (
            f"{_of_one_asset(declared)}, differ by changes that add up to at most 1, each counted "
            f"as a part of its distance ({distance}){_formulas(declared)}"
        )
    if rule.startswith("one-item"):
        said = f"one single entry of ({', '.join(names)}) differs {by}its α"
    elif rule.startswith("one-per-group"):
        said = f"one entry in each of {listed(names)} differs {by}its α"
    else:
        said = f"{_of_one_asset(declared)}, differ {by}their α"
    return f"{said}{but}{_formulas(declared)}"


def _of_one_asset(declared: Mapping[str, Parameter]) -> str:
    """The parameters of each kind of asset: one line's …, or one machine's … together."""
    kinds: dict[Asset, list[str]] = {}
    for parameter in declared.values():
        of = parameter.words.removeprefix(f"{parameter.asset} ")
        kinds.setdefault(parameter.asset, []).append(of)
    return ", or ".join(
        f"one {asset}'s {listed(of)}{' together' if len(of) > 1 else ''}"
        for asset, of in kinds.items()
    )


def _formulas(declared: Mapping[str, Parameter]) -> str:
    """Say how entries follow from filed values, where any do; a further sentence."""
    formulas = [f"{name}: {own.formula}" for name, own in declared.items() if own.formula]
    if not formulas:
        return ""
    return (
        f". An entry is what its formula gives ({'; '.join(formulas)}). The promise is about "
        "entries: filed values that each move by α may move an entry further, a product of n of "
        "them by n α, at that multiple of ε"
    )


def listed(names: Sequence[str]) -> str:
    """Join names as a sentence does: a, b and c."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def usual_alpha(rule: Rule, family: str = SWING) -> dict[str, Fraction]:
    """α of each group where none is given."""
    relative = rule.endswith("-relative")
    return {
        name: of.ratio if relative and not of.absolute else of.alpha
        for name, of in parameters_of(family).items()
    }


def _exactly(what: str, values: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {name: exact(value, name=f"{what} of {name}") for name, value in values.items()}
