"""Adjacency: which two grids a release must not tell apart, and what that costs.

A group γ of parameters (k, m, d) is drawn with loss ε_γ for a change of one entry by at most α_γ.

=================  ====================================================  =========================
rule               neighbours differ in                                  loss of the whole release
=================  ====================================================  =========================
``one-asset``      one line's k, or one machine's m and d together       max(ε_k, ε_m + ε_d)
``one-item``       one entry of (k, m, d)                                max(ε_k, ε_m, ε_d)
``one-per-group``  one entry in each of k, m and d                       ε_k + ε_m + ε_d
=================  ====================================================  =========================

Append ``-relative`` and a rule counts in ratios: entries differ by a factor of at most 1
+ α, noise is added to logarithms, and the distance is log(1 + α).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from gridveil.foundation.errors import NOTHING_SPENT, BudgetExceeded, OptionError
from gridveil.grid.parameters import PARAMETERS, Asset
from gridveil.privacy.epsilon import exact, float_at_least

Rule = Literal[
    "one-asset",
    "one-item",
    "one-per-group",
    "one-asset-relative",
    "one-item-relative",
    "one-per-group-relative",
]
RULES: tuple[Rule, ...] = get_args(Rule)
ABSOLUTE, RELATIVE = RULES[:3], RULES[3:]

# Logarithms of doubles lie within ±745, where a rounding is 1.1e-13 at most: this covers those of
# two neighbours and of 1 + α.
LOG_ROUNDING = Fraction(1, 10**12)


@dataclass(frozen=True)
class Adjacency:
    """A rule for neighbours, the distance α of each group, and how ε is shared among the groups.

    alpha : α of each group [the group's unit; relative: none] (None: the usual one);
    shares : part of ε each group gets (None: the rule's own).

    >>> a = Adjacency("one-asset", alpha={"k": Fraction(1), "m": Fraction(1), "d": Fraction(1)})
    >>> a.split(Fraction(1, 2), {"m": "machine", "d": "machine"})["m"]
    Fraction(1, 4)
    """

    rule: Rule = "one-asset"
    alpha: Mapping[str, Fraction] = None  # pyright: ignore[reportAssignmentType]  # filled in at once
    shares: Mapping[str, Fraction] | None = None

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise OptionError(
                f"Adjacency {self.rule!r} is unknown.",
                outcome=NOTHING_SPENT,
                remedy=f"Choose one of {', '.join(RULES)}.",
            )
        given = usual_alpha(self.rule) if self.alpha is None else self.alpha  # pyright: ignore[reportUnnecessaryComparison]
        object.__setattr__(self, "alpha", _exactly("alpha", given))
        if self.shares is not None:
            object.__setattr__(self, "shares", _exactly("share", self.shares))

    @property
    def relative(self) -> bool:
        """Whether neighbours differ by a factor, and noise goes on logarithms."""
        return self.rule.endswith("-relative")

    def distance(self, name: str) -> Fraction:
        """How far apart two neighbours' values of a group are at most, where noise is added: α, or
        log(1 + α), never less.

        A bound of what rounding does to this logarithm, and to those of the values, is added to it.
        """
        alpha = self.alpha[name]
        return (
            Fraction(math.log1p(float_at_least(alpha))) + LOG_ROUNDING if self.relative else alpha
        )

    def loss(self, spent: Mapping[str, Fraction], assets: Mapping[str, Asset]) -> Fraction:
        """Combine losses that add up by the rule of this adjacency (proof in docs/privacy.md)."""
        return max(
            (
                sum((spent[name] for name in moved), Fraction(0))
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
        for what, given, groups in (("split", shares, assets), ("alpha", self.alpha, PARAMETERS)):
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
        """The rule by which losses add up, which ratios do not change."""
        return self.rule.removesuffix("-relative")

    def _default_shares(self, assets: Mapping[str, Asset]) -> dict[str, Fraction]:
        return {name: Fraction(1, len(moved)) for moved in self.moved(assets) for name in moved}


def in_words(rule: Rule) -> str:
    """Say which two grids are neighbours, after "if".

    >>> in_words("one-item-relative")
    'one single entry of (k, m, d) differs by a factor of at most 1 + its α'
    """
    by = "by a factor of at most 1 + " if rule.endswith("-relative") else "by at most "
    names = list(PARAMETERS)
    if rule.startswith("one-item"):
        return f"one single entry of ({', '.join(names)}) differs {by}its α"
    if rule.startswith("one-per-group"):
        return f"one entry in each of {listed(names)} differs {by}its α"
    kinds: dict[Asset, list[str]] = {}
    for parameter in PARAMETERS.values():
        of = parameter.words.removeprefix(f"{parameter.asset} ")
        kinds.setdefault(parameter.asset, []).append(of)
    said = (
        f"one {asset}'s {listed(of)}{' together' if len(of) > 1 else ''}"
        for asset, of in kinds.items()
    )
    return f"{', or '.join(said)}, differ {by}their α"


def listed(names: Sequence[str]) -> str:
    """Join names as a sentence does: a, b and c."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def usual_alpha(rule: Rule) -> dict[str, Fraction]:
    """α of each group where none is given."""
    relative = rule.endswith("-relative")
    return {name: of.ratio if relative else of.alpha for name, of in PARAMETERS.items()}


def _exactly(what: str, values: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {name: exact(value, name=f"{what} of {name}") for name, value in values.items()}
