"""Allocation: what of each group is drawn, which part of ε it gets, and how sums are shared out
again. Public, all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from gridveil.foundation.errors import NOTHING_SPENT, OptionError
from gridveil.foundation.limits import check_words
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.parameters import (
    DETAILED,
    PARAMETERS,
    SWING,
    Asset,
    Parameter,
    Range,
    assets,
    family_of,
    of_asset,
    parameters_of,
)
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.mechanisms import (
    HEXAGONS,
    NOISY,
    REGISTERED,
    Asked,
    Mechanism,
    Takes,
    drawn_jointly,
    named,
)

Sharing = Literal["equal", "rating"]
MechanismName = Literal["aggregates", "items", "topology"]
MECHANISMS: tuple[MechanismName, ...] = get_args(MechanismName)

MECHANISMS_IN_WORDS: Mapping[MechanismName, str] = {
    "items": "noise on every line's weight and on every machine's inertia and damping",
    "aggregates": "noise on the sums of inertia and of damping, and on every line's weight or on "
    "none",
    "topology": "noise on the sums of inertia and of damping; nothing of the network is drawn or "
    "shown",
}
# What can be taken of an asset's parameters, by family. Swing: lines have no key by which they
# could share a sum. Detailed: a mean stands for every entry, and a typical value for nothing; what
# is public already may be published.
TAKEN: Mapping[str, Mapping[Asset, tuple[Takes, ...]]] = {
    SWING: {"line": ("items", "nothing"), "machine": ("items", "sum", "mean")},
    DETAILED: dict.fromkeys(get_args(Asset), ("items", "mean", "nothing", "published")),
}
SHARINGS_IN_WORDS: Mapping[Sharing, str] = {"equal": "in equal parts", "rating": "by rated MVA"}


def taken_of(parameter: Parameter) -> tuple[Takes, ...]:
    """What can be taken of a parameter."""
    return TAKEN[parameter.family][parameter.asset]


@dataclass(frozen=True)
class Allocation:
    """What is drawn of each group, with which part of ε.

    draws : name of the mechanism that draws each group. Of a swing model, sums are of machines
    only, nothing is of lines only.
    shares : part of ε each drawn group gets (None: as the adjacency says).
    sharing : the public key by which the machines share a sum.
    hides_network : whether the released network is a complete graph of equal weights, whatever the
    grid is (topology mode).
    origin : how it was chosen, in words.

    >>> Allocation().draws["m"], aggregates().drawn
    ('items', ('k', 'm', 'd'))
    """

    draws: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(PARAMETERS, "items"))
    shares: Mapping[str, Fraction] | None = None
    sharing: Sharing = "equal"
    hides_network: bool = False
    origin: str = "as its owner set it"

    def __post_init__(self) -> None:
        check_words("The origin of the allocation", self.origin)
        allowed = {
            name: tuple(
                way
                for way, mechanism in REGISTERED.items()
                if mechanism.takes in taken_of(parameter)
            )
            for name, parameter in parameters_of(self.family).items()
            if self.family == SWING or name in self.draws
        }
        if self.draws.keys() != allowed.keys() or any(
            self.draws[name] not in ways for name, ways in allowed.items()
        ):
            raise OptionError(
                "This allocation cannot be drawn.",
                expected="; ".join(
                    f"{name}: {' or '.join(ways)}" for name, ways in allowed.items()
                ),
                outcome=NOTHING_SPENT,
            )
        if self.family != SWING:  # one order, in which a recipient says it again
            ordered = {name: self.draws[name] for name in allowed}
            object.__setattr__(self, "draws", ordered)
            if self.shares is not None:
                rank = list(allowed).index
                given = {n: self.shares[n] for n in sorted(self.shares, key=rank)}
                object.__setattr__(self, "shares", given)
        if self.hides_network and self.family != SWING:
            raise OptionError(
                "Topology mode is for swing models: a detailed one shows its lines.",
                outcome=NOTHING_SPENT,
                remedy="Leave topology mode out, or release a swing model.",
            )
        if self.hides_network and any(asset == "line" for asset in self.assets.values()):
            raise OptionError(
                "A release that hides the network draws nothing of its lines.",
                outcome=NOTHING_SPENT,
            )

    @property
    def family(self) -> str:
        """The family of its parameters."""
        return family_of(self.draws)

    @property
    def drawn(self) -> tuple[str, ...]:
        """The groups of which anything is drawn."""
        return tuple(name for name in self.draws if self.of(name).takes in NOISY)

    @property
    def published(self) -> tuple[str, ...]:
        """The groups that go out as they are: neighbours do not differ in them."""
        return tuple(name for name in self.draws if self.of(name).takes == "published")

    def of(self, name: str) -> Mechanism:
        """What draws a group."""
        return named(self.draws[name])

    @property
    def takes(self) -> set[Takes]:
        """What is taken of any group: entries, sums, nothing."""
        return {self.of(name).takes for name in self.draws}

    @property
    def assets(self) -> dict[str, Asset]:
        """The drawn groups, with the asset that an entry belongs to."""
        declared = parameters_of(self.family)
        return {name: declared[name].asset for name in self.drawn}

    @property
    def mechanism(self) -> MechanismName:
        """Its name."""
        if self.hides_network:
            return "topology"
        return "items" if self.takes == {"items"} else "aggregates"

    @property
    def shares_by_rating(self) -> bool:
        """Whether the machines' ratings shape the release."""
        return "sum" in self.takes and self.sharing == "rating"

    def over(self, adjacency: Adjacency) -> Adjacency:
        """The adjacency with this allocation's shares, where it has any, and its joint draws."""
        shares = adjacency.shares if self.shares is None else self.shares
        drawn = {name: self.draws[name] for name in self.drawn}
        together = drawn_jointly(drawn, self.assets)
        if drawn_jointly(drawn, self.assets, adjacency.counts) != together:
            raise OptionError(
                f"Joint noise on {', '.join(together)} gains nothing under {adjacency.rule}.",
                expected="a rule by which all that is drawn together moves at once, one-asset",
                outcome=NOTHING_SPENT,
                remedy="Draw each of them with noise of its own (items, sum, mean), or choose "
                "one-asset.",
            )
        return replace(adjacency, shares=shares, together=together)

    def in_words(self) -> str:
        """Say what is drawn, how ε is shared and who chose that."""
        parts = ", ".join(f"{name}: {self.of(name).each}" for name in self.draws)
        shares = (
            ""
            if self.shares is None
            else "; shares of ε: "
            + ", ".join(f"{name} {share}" for name, share in self.shares.items())
        )
        shared = f"; sums shared {SHARINGS_IN_WORDS[self.sharing]}" if "sum" in self.takes else ""
        return f"{self.mechanism} ({parts}{shares}{shared}), {self.origin}"


ITEMS = Allocation()


def aggregates(
    *, lines: bool = True, shares: Mapping[str, Fraction] | None = None, sharing: Sharing = "equal"
) -> Allocation:
    """Sums of inertia and damping; each line's weight, or nothing of the lines."""
    ways: Mapping[Asset, str] = {"line": "items" if lines else "nothing", "machine": "sum"}
    return Allocation({name: ways[asset] for name, asset in assets().items()}, shares, sharing)


def topology(
    *, shares: Mapping[str, Fraction] | None = None, sharing: Sharing = "equal"
) -> Allocation:
    """Sums of inertia and damping; a network that says nothing of the grid's own."""
    return replace(aggregates(lines=False, shares=shares, sharing=sharing), hides_network=True)


def asked(
    adjacency: Adjacency,
    name: str,
    public: Range,
    entries: int,
    epsilon: Fraction,
    *,
    summed: bool,
) -> Asked:
    """What an adjacency asks of whatever draws a group; public : bounds of one entry."""
    return Asked(
        parameters_of(adjacency.family)[name].unit,
        entries,
        public,
        adjacency.alpha[name],
        adjacency.distance(name),
        epsilon,
        adjacency.in_ratios(name),
        summed,
    )


def machine_shares(facts: GridFacts, sharing: Sharing) -> Array:
    """Part of a sum that each machine gets, (g,), by a public key."""
    g = len(facts.machines)
    if sharing == "equal":
        return np.full(g, 1 / g)
    rated = facts.rated_mva
    if rated is None or not (np.isfinite(rated).all() and (rated > 0).all()):
        raise OptionError(
            f"{facts.name} does not give the rated MVA of every machine.",
            outcome=NOTHING_SPENT,
            remedy="Share the sums in equal parts, or fill the ratings in.",
        )
    return rated / rated.sum()


def candidates(
    adjacency: Adjacency, mechanism: MechanismName = "aggregates", sharing: Sharing = "equal"
) -> tuple[Allocation, ...]:
    """Allocations to choose from on a public surrogate, under a rule; "items" are among those for
    "aggregates".

    Where lines and machines do not share ε (one-asset, one-item), lines cost nothing and are always
    drawn.
    """
    if mechanism == "items":
        return tuple(
            replace(Allocation(), shares=shares)
            for shares in _splits(adjacency.counts, tuple(PARAMETERS))
        )
    if mechanism == "topology":
        return tuple(
            topology(shares=shares, sharing=sharing)
            for shares in _splits(adjacency.counts, of_asset("machine"))
        )
    found = [
        aggregates(shares=shares, sharing=sharing)
        for shares in _splits(adjacency.counts, tuple(PARAMETERS))
    ]
    if adjacency.counts == "one-per-group":
        found += [
            aggregates(lines=False, shares=shares, sharing=sharing)
            for shares in _splits("one-per-group", of_asset("machine"))
        ]
    return (*found, *candidates(adjacency, "items"))


def joint_candidates(
    adjacency: Adjacency, independent: Sequence[Allocation]
) -> tuple[Allocation, ...]:
    """The same with joint noise, once for each share of the lines: sums of two parameters by each
    hexagon, items of a machine by the box norm, where all that they draw together moves at once.
    """
    machines, found = of_asset("machine"), list[Allocation]()
    joint = {"sum": HEXAGONS if len(machines) == 2 else (), "items": (named("box"),)}
    for allocation in independent:
        of_lines = {n: s for n, s in (allocation.shares or {}).items() if n not in machines}
        whole = 1 if adjacency.counts == "one-asset" else 1 - sum(of_lines.values())
        shares = of_lines | dict.fromkeys(machines, Fraction(whole))
        for mechanism in joint[allocation.of(machines[0]).takes]:
            draws = dict(allocation.draws) | dict.fromkeys(machines, mechanism.name)
            one = replace(allocation, draws=draws, shares=shares)
            if adjacency.counts in mechanism.at_once and one not in found:
                found.append(one)
    return tuple(found)


def plain(independent: Sequence[Allocation]) -> tuple[Allocation, ...]:
    """The plain ones of some candidates, which others are measured by: Laplace noise on sums, where
    there are any, and on as few groups as any of them draws.
    """
    first, fewest = of_asset("machine")[0], min(len(one.drawn) for one in independent)
    takes = independent[0].of(first).takes
    return tuple(
        one for one in independent if len(one.drawn) == fewest and one.of(first).takes == takes
    )


def worthwhile(tried: Sequence[Allocation]) -> tuple[Allocation, ...]:
    """Leave out sums that have more noise on every parameter of the machines than the same sums
    drawn otherwise, with the same share for the lines.
    """
    machines = of_asset("machine")

    def noise(one: Allocation) -> list[float]:
        shares = one.shares or dict.fromkeys(machines, Fraction(1))
        laws = (one.of(name).law(len(machines), place) for place, name in enumerate(machines))
        return [
            law.deviation / float(shares[name]) for name, law in zip(machines, laws, strict=True)
        ]

    def lines(one: Allocation) -> dict[str, Fraction]:
        return {name: share for name, share in (one.shares or {}).items() if name not in machines}

    sums = [one for one in tried if all(one.of(name).takes == "sum" for name in machines)]
    beaten = [
        one
        for one in sums
        for other in sums
        if lines(one) == lines(other)
        and all(a > b for a, b in zip(noise(one), noise(other), strict=True))
    ]
    return tuple(one for one in tried if one not in beaten)


def _splits(counts: str, drawn: tuple[str, ...]) -> list[dict[str, Fraction]]:
    """Ways to share ε among groups: the whole to each where losses do not add up, else parts in
    steps of a tenth or so.
    """
    if counts == "one-item":
        return [dict.fromkeys(drawn, Fraction(1))]
    lines = [name for name in drawn if PARAMETERS[name].asset == "line"]
    first, *others = (name for name in drawn if name not in lines)
    # The first parameter of machines, inertia, gets a part, and the others equal parts of the rest.
    of_first = [Fraction(n, 20) for n in (3, 4, 5, 6, 10, 15)] if others else [Fraction(1)]
    machines = [
        {first: part} | {name: (1 - part) / len(others) for name in others} for part in of_first
    ]
    if counts == "one-asset" or not lines:
        return [{name: Fraction(1, len(lines)) for name in lines} | split for split in machines]
    return [
        {name: part / len(lines) for name in lines}
        | {name: (1 - part) * share for name, share in split.items()}
        for part in (Fraction(1, 8), Fraction(1, 5), Fraction(1, 3))
        for split in machines
    ]
