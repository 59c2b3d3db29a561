"""Adjacency: which two grids a release must not tell apart, and what that costs.

A group γ of parameters (k, m, d) is drawn with loss ε_γ for a change of one entry by at most α_γ.

=================  ====================================================  =========================
rule               neighbours differ in                                  loss of the whole release
=================  ====================================================  =========================
``one-asset``      one line's k, or one machine's m and d together       max(ε_k, ε_m + ε_d)
``one-item``       one entry of (k, m, d)                                max(ε_k, ε_m, ε_d)
``one-per-group``  one entry in each of k, m and d                       ε_k + ε_m + ε_d
=================  ====================================================  =========================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, get_args

from gridveil.errors import BudgetExceeded, OptionError
from gridveil.groups import Asset
from gridveil.privacy.epsilon import exact

Rule = Literal["one-asset", "one-item", "one-per-group"]
RULES: tuple[Rule, ...] = get_args(Rule)
NOTHING_SPENT = "Nothing was drawn and nothing was spent."

IN_WORDS: Mapping[Rule, str] = {
    "one-asset": "one line's weight k, or one machine's inertia m and damping d together, differ by at most their α",
    "one-item": "one single entry of (k, m, d) differs by at most its α",
    "one-per-group": "one entry in each of k, m and d differs by at most its α",
}


@dataclass(frozen=True)
class Adjacency:
    """A rule for neighbours, the distance α of each group, and how ε is shared among the groups.

    alpha : α of each group [the group's unit]; shares : part of ε each group gets (None: the rule's own).

    >>> a = Adjacency("one-asset", alpha={"k": Fraction(1), "m": Fraction(1), "d": Fraction(1)})
    >>> a.split(Fraction(1, 2), ASSETS)["m"]
    Fraction(1, 4)
    """

    rule: Rule = "one-asset"
    alpha: Mapping[str, Fraction] = field(default_factory=lambda: dict.fromkeys("kmd", Fraction(1)))
    shares: Mapping[str, Fraction] | None = None

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise OptionError(
                f"Adjacency {self.rule!r} is unknown.", outcome=NOTHING_SPENT, remedy=f"Choose one of {', '.join(RULES)}."
            )
        object.__setattr__(self, "alpha", _exactly("alpha", self.alpha))
        if self.shares is not None:
            object.__setattr__(self, "shares", _exactly("share", self.shares))

    def loss(self, spent: Mapping[str, Fraction], assets: Mapping[str, Asset]) -> Fraction:
        """Combine the groups' losses by the rule of this adjacency (proof in docs/privacy.md)."""
        if self.rule == "one-item":
            return max(spent.values())
        if self.rule == "one-per-group":
            return sum(spent.values(), Fraction(0))
        per_asset: dict[Asset, Fraction] = {}
        for name, loss in spent.items():
            per_asset[assets[name]] = per_asset.get(assets[name], Fraction(0)) + loss
        return max(per_asset.values())

    def split(self, epsilon: Fraction, assets: Mapping[str, Asset]) -> dict[str, Fraction]:
        """Share ε among the groups: equal parts wherever losses add up, the whole where they do not."""
        shares = dict(self.shares) if self.shares is not None else self._default_shares(assets)
        for what, given in (("split", shares), ("alpha", self.alpha)):
            if set(given) != set(assets):
                raise OptionError(
                    f"The {what} names {', '.join(sorted(given)) or 'nothing'}.",
                    expected=f"a value for each of {', '.join(assets)}",
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

    def _default_shares(self, assets: Mapping[str, Asset]) -> dict[str, Fraction]:
        if self.rule == "one-item":
            return dict.fromkeys(assets, Fraction(1))
        if self.rule == "one-per-group":
            return dict.fromkeys(assets, Fraction(1, len(assets)))
        together = list(assets.values())
        return {name: Fraction(1, together.count(asset)) for name, asset in assets.items()}


def _exactly(what: str, values: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {name: exact(value, name=f"{what} of {name}") for name, value in values.items()}


ASSETS: Mapping[str, Asset] = {"k": "line", "m": "machine", "d": "machine"}
