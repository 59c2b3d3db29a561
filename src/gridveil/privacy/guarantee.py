"""The guarantee: what a release promises, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from gridveil.grid.parameters import PARAMETERS, Asset, assets, family_of, parameters_of
from gridveil.privacy.adjacency import Adjacency, Rule, listed, usual_alpha
from gridveil.privacy.adjacency import in_words as neighbours
from gridveil.privacy.mechanisms import GroupLoss, drawn_jointly, parts

CONDITIONAL = (
    "For every fixed trajectory x with its event data, the map from the private table to this "
    "release is ε-DP for the stated adjacency: between any two neighbouring grids, the release "
    "multiplies the odds that an observer held after seeing x by at most e^ε. It does not limit "
    "what x itself reveals; where x already excludes one of the two, nothing is protected. It "
    "assumes that x is public, was fixed before the draw and not chosen by private results, and "
    "that the noise is independent of it."
)

UNCONDITIONAL = (
    "Unconditional: the release was made from the noisy table and public facts alone, so between "
    "any two neighbouring grids it multiplies an observer's odds by at most e^ε, whatever else the "
    "observer knows."
)

NETWORK_NOT_PROTECTED = (
    "the edge set and the number of buses (they shape the map of loads to machines)",
    "which buses have machines and which carry load",
)
MACHINES_NOT_PROTECTED = "the number of machines"
SIZES_NOT_PROTECTED = "the least, the median and the sum of the machines' rated MVA"
VOLTAGES_NOT_PROTECTED = "the lowest and the highest nominal voltage of the lines"
RATINGS_NOT_PROTECTED = "the machines' rated MVA, by which sums were shared out"
GOVERNORS_NOT_PROTECTED = (
    "governor rates T, droop gains G (and with them the machine ratings that "
    "they follow), base power and nominal frequency"
)
LOADS_NOT_PROTECTED = (
    "the nominal loads, which the bundle carries, and damping in proportion to them"
)
OPERATING_POINT_NOT_PROTECTED = (
    "a change of the operating point: it moves several line weights at "
    "once and costs ε_k Σ|Δk| / α_k"
)
OPERATING_POINT_NOT_PROTECTED_IN_RATIOS = (
    "a change of the operating point: it moves several line "
    "weights at once and costs ε_k Σ|Δ log k| / log(1 + α_k)"
)
DETAILED_NOT_PROTECTED = (
    "the edge set and the number of buses, and where units, loads and shunts stand",
    "which device models each unit has, and in which mode; which constants of lines, loads and "
    "devices are zero, and the signs of all others, net ones of a bus included",
    "which unit holds the angle",
    "base power, nominal frequency, and how loads are declared to depend on voltage",
)
PUBLISHED_NOT_PROTECTED = (
    "its true values are in this release, without noise: its owner declares that they are public "
    "already"
)
TRAJECTORY_NOT_PROTECTED = "whatever the public trajectory already tells"


@dataclass(frozen=True)
class Guarantee:
    """ε-differential privacy of a release for one adjacency.

    groups : what was drawn; a group of which nothing was drawn is not among them, and nothing was
    spent on it.
    conditional_on : descriptions of the public trajectories that the fit used; empty for an
    unconditional guarantee.
    hides_network : whether the edge set and the number of buses are hidden too (topology mode).
    parameters : names of all that the table has, drawn or not.
    means : of what was drawn as a mean, over how many entries.
    published : what goes out as it is, since its owner declares it public: neighbours share it.
    """

    epsilon: Fraction
    spent: Fraction
    rule: Rule
    groups: Mapping[str, GroupLoss]
    mechanism: str
    operating_point: str
    conditional_on: tuple[str, ...]
    demo: bool
    hides_network: bool = False
    parameters: tuple[str, ...] = field(default_factory=lambda: tuple(PARAMETERS))
    means: Mapping[str, int] = field(default_factory=dict)
    published: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The family of its parameters."""
        return family_of(self.parameters)

    @property
    def adjacency(self) -> Adjacency:
        """Its rule and α; of a group that nothing was drawn of, the usual α."""
        usual = usual_alpha(self.rule, self.family)
        return Adjacency(
            self.rule,
            usual | {name: loss.alpha for name, loss in self.groups.items()},
            family=self.family,
            together=drawn_jointly(
                {name: loss.drawn for name, loss in self.groups.items()}, assets(self.family)
            ),
            published=self.published,
        )

    @property
    def claim(self) -> str:
        """The exact sentence about what the guarantee depends on."""
        return CONDITIONAL if self.conditional_on else UNCONDITIONAL

    def in_words(self) -> str:
        """State the promise in plain words."""
        if self.demo:
            return (
                "DEMO: the noise came from a seed, so this release protects nothing. With secure "
                "noise, and fitted to a public trajectory or to none, it would be "
                f"ε-differentially private with ε = {self.epsilon}, where two grids are neighbours "
                f"if {self.neighbours}."
            )
        apart, odds = ("lie t apart", "e^(ε t/α)")
        if self.rule.endswith("-relative"):
            apart, odds = ("have logarithms that lie t apart", "e^(ε t/log(1 + α))")
            declared = parameters_of(self.family)
            if absolute := [
                name
                for name in self.parameters
                if declared[name].absolute and name not in self.published
            ]:
                odds += f" (of {listed(absolute)}, that lie t apart, by at most e^(ε t/α))"
        item = "one item that is not published and" if self.published else "one item that"
        return (
            f"ε-differential privacy with ε = {self.epsilon}. Two grids are neighbours if "
            f"{self.neighbours}. For any two values of {item} {apart}, with "
            "everything else known, this release changes an observer's odds between them by at "
            f"most {odds}. {self.claim}"
        )

    @property
    def neighbours(self) -> str:
        """Say which two grids are neighbours, after "if"; where an asset's entries share one
        change, what a change of all of them costs.
        """
        declared = parameters_of(self.family)
        differing = [name for name in self.parameters if name not in self.published]
        said = neighbours(self.rule, {name: declared[name] for name in differing})
        if self.published:
            said += f". They do not differ in {listed(self.published)}, published as they are"
        if self.rule != "asset-l1-relative":
            return said
        whole = Adjacency("one-asset-relative", self.adjacency.alpha, family=self.family)
        cost = whole.loss(
            {name: loss.epsilon for name, loss in self.groups.items()}, assets(self.family)
        )
        return (
            f"{said}. A change of every entry of one asset by its whole α is a larger one and "
            f"costs up to ε = {cost}, not {self.epsilon}"
        )


def whole_loss(
    adjacency: Adjacency, losses: Mapping[str, GroupLoss], assets: Mapping[str, Asset]
) -> Fraction:
    """Exact loss of a draw: the largest over all kinds of neighbours, of which each part of the
    draw says its own.

    One draw has one loss for all that moves in one row. Where the rule moves entries of several
    assets, joint noise on items shows each of them in a row of its own: they add up. Sums have one
    row.
    """
    counts = adjacency.counts
    drawn = parts({name: loss.drawn for name, loss in losses.items()}, assets)
    return max(
        (
            sum(
                (
                    mechanism.loss({name: losses[name] for name in names}, change)
                    for mechanism, names in drawn
                    for change in (
                        [moved] if counts in mechanism.at_once else [(name,) for name in moved]
                    )
                ),
                Fraction(0),
            )
            for moved in adjacency.moved({name: assets[name] for name in losses})
        ),
        default=Fraction(0),
    )
