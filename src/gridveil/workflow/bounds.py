"""Which public bounds and α a grid is released with: those given, its own, or derived ones that
were accepted. No others: bounds that do not suit a grid spoil a release that is charged all the
same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from gridveil.foundation.errors import NOTHING_SPENT, OptionError
from gridveil.grid.derived import derive, derive_detailed
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import TableFacts
from gridveil.grid.parameters import Bounds

OF_THE_CLASS = "range of the class"


@dataclass(frozen=True)
class Chosen:
    """Public bounds of a grid, and where they come from.

    alpha : distances that were derived with them, by group.
    sources : of each group's bounds, in words.
    missing : groups whose bounds were neither given nor derived; their derived ones stand in
    bounds, and are to be accepted.
    """

    bounds: Bounds
    sources: Mapping[str, str]
    alpha: Mapping[str, Fraction] = field(default_factory=dict[str, Fraction])
    missing: tuple[str, ...] = ()


def choose_bounds(
    given: Bounds,
    facts: TableFacts,
    *,
    derive_others: bool = False,
    rule: str | None = None,
    topology: bool = False,
) -> Chosen:
    """Bounds of every parameter of a grid: what is given, else what its owner declares beside its
    file, else what its public facts tell.

    derive_others : whether those that are not given are derived, in place of the grid's own.
    rule : the adjacency's; one in ratios needs lower bounds above 0.
    topology : whether nothing of the network may be used.
    """
    if isinstance(facts, DetailedFacts):
        return _of_detailed(given, facts)
    if facts.own_bounds is not None and not derive_others:
        given = _joined(given, facts.own_bounds)
    missing = tuple(name for name in facts.parameters if name not in given.given)
    sources = {name: given.origin for name in facts.parameters if name in given.given}
    if not missing:
        return Chosen(given, sources)
    relative = (rule or "").endswith("-relative")
    derived = derive(facts, relative=relative, hides_network=topology)
    known = [name for name in missing if name in derived.sources]
    sources |= {name: derived.sources.get(name, given.origin) for name in missing}
    return Chosen(
        derived.over(given),
        {name: sources[name] for name in facts.parameters},
        {} if relative else {name: derived.alpha[name] for name in known},
        () if derive_others else tuple(known),
    )


def _joined(given: Bounds, own: Bounds) -> Bounds:
    """The grid's own bounds under those that settings give."""
    if not given.given:
        return Bounds(
            {name: own[name] for name in own.given}, origin=_origin(given, own), facts=own.facts
        )
    ranges = {name: own[name] for name in own.given} | {name: given[name] for name in given.given}
    return Bounds(ranges, origin=given.origin)


def _origin(given: Bounds, own: Bounds) -> str:
    """The owner's words of where bounds come from, if settings say any."""
    return own.origin if given.origin == Bounds().origin else given.origin


def _of_detailed(given: Bounds, facts: DetailedFacts) -> Chosen:
    """Ranges of the class alone: they suit every grid, and follow from its base power at most."""
    usual = derive_detailed(facts.base_mva)
    given = given if given.family == facts.family else usual
    ranges = {name: (given if name in given.given else usual)[name] for name in usual}
    sources = {
        name: given.origin if given is not usual and name in given.given else OF_THE_CLASS
        for name in facts.parameters
    }
    return Chosen(Bounds(ranges, origin=given.origin, family=facts.family), sources)


def refuse_missing(grid: str, missing: tuple[str, ...]) -> OptionError:
    """Say that a release needs bounds, and how to come by them."""
    return OptionError(
        f"The public bounds of {', '.join(missing)} are neither given nor derived, and gridveil's "
        f"usual ones may not suit {grid}.",
        outcome=NOTHING_SPENT,
        remedy="See what follows from public facts with --bounds derived --dry-run and accept it "
        "with --bounds derived, or give them all: --bounds k=LOWER:UPPER,m=LOWER:UPPER,"
        "d=LOWER:UPPER.",
    )
