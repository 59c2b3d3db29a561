"""Step 1 of Algorithm 1: the only way out of the vault for the public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import NoneType
from typing import Any, Generic

import numpy as np

from gridveil.foundation import crash_points
from gridveil.foundation.arguments import of_type, takes
from gridveil.foundation.errors import NOTHING_SPENT, OptionError
from gridveil.foundation.progress import stage
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import Array, Facts, TableFacts
from gridveil.grid.parameters import SWING, Bounds, Range, assets
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation, asked
from gridveil.privacy.epsilon import Exact, exact
from gridveil.privacy.guarantee import Guarantee, whole_loss
from gridveil.privacy.ledger import Charge, Ledger, Version
from gridveil.privacy.ledger.fingerprints import SAMPLE, line_marks
from gridveil.privacy.mechanisms import GroupLoss, Sampler, for_demos_only, parts
from gridveil.privacy.noisy import NoisyGrid
from gridveil.vault.sampler import SecureSampler, makes_demo
from gridveil.vault.source import Private, SourceGrid


@dataclass(frozen=True, eq=False)
class PlannedDraw(Generic[Facts]):
    """A draw with its scales and losses, fixed before anything is charged and before a budget is
    set for it. One that cannot be made is refused: there is no plan that was not checked.

    ranges : public bounds of what is drawn of each group.
    losses : of each group that is drawn.
    total : ε of all of them, by the adjacency's rule.
    """

    source: SourceGrid[Facts]
    epsilon: Fraction
    adjacency: Adjacency
    bounds: Bounds
    allocation: Allocation = ITEMS
    ranges: Mapping[str, Range] = field(init=False)
    losses: Mapping[str, GroupLoss] = field(init=False)
    total: Fraction = field(init=False)

    @sealed
    def __post_init__(self) -> None:
        facts, allocation = self.source.facts, self.allocation
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        if allocation.draws.keys() != facts.parameters.keys():
            made = "Allocation(), aggregates() or topology()"
            if facts.family != SWING:
                made = "Allocation({name: mechanism, …})"
            raise OptionError(
                "This allocation does not say what is drawn of each parameter.",
                expected=f"{', '.join(facts.parameters)}, each once",
                outcome=NOTHING_SPENT,
                remedy=f"Make a new one with {made}.",
            )
        for what, given in (("adjacency", self.adjacency), ("bounds", self.bounds)):
            if given.family != facts.family:
                raise OptionError(
                    f"The {what} of a {given.family} table cannot serve a {facts.family} one.",
                    outcome=NOTHING_SPENT,
                    remedy=f"Make them with family={facts.family!r}.",
                )
        here = tuple(n for n in self.adjacency.published if n in facts.parameters)
        if here != allocation.published:
            raise OptionError(
                "What is published is not what neighbours share by the adjacency.",
                expected=f"published: {', '.join(allocation.published) or 'nothing'}",
                outcome=NOTHING_SPENT,
                remedy="Make the adjacency with published=allocation.published.",
            )
        if not allocation.drawn:
            raise OptionError(
                "Nothing is drawn: such a release has no noise, and protects nothing.",
                outcome=NOTHING_SPENT,
                remedy="Protect a parameter, or its mean.",
            )
        ranges = {
            name: allocation.of(name).range(self.bounds[name], facts.sizes[name])
            for name in allocation.drawn
        }
        in_ratios = {n: public for n, public in ranges.items() if self.adjacency.in_ratios(n)}
        _check_positive(self.source, in_ratios)
        losses = losses_of(self.adjacency, self.epsilon, facts, allocation, self.bounds)
        total = whole_loss(self.adjacency, losses, assets(facts.family))
        assert total <= self.epsilon, "each group's loss is at most its share, as the rule adds up"
        for name, value in (("ranges", ranges), ("losses", losses), ("total", total)):
            object.__setattr__(self, name, value)


# How public functions read what a draw needs: by type alone, and nothing of the source.
DRAWING = {
    "source": of_type(SourceGrid, "a grid that open_grid returns"),
    "epsilon": exact,
    "adjacency": of_type((Adjacency, str), "an Adjacency, or its rule, such as 'one-asset'"),
    "bounds": of_type(Mapping, "Bounds, or ranges by name, such as {'m': (1, 40)}"),
    "ledger": of_type((Ledger, NoneType), "a Ledger, such as Ledger.default(); None for a demo"),
    "sampler": of_type(Sampler, "a SecureSampler or a DemoSampler"),
    "lineage": of_type(str, "the name of an account"),
    "allocation": of_type(Allocation, "an Allocation, such as ITEMS or aggregates()"),
}


@sealed
@takes(outcome=NOTHING_SPENT, **DRAWING)
def perturb(
    source: SourceGrid[Facts],
    *,
    epsilon: Exact,
    adjacency: Adjacency | str,
    bounds: Bounds | Mapping[str, Any],
    ledger: Ledger | None,
    sampler: Sampler | None = None,
    lineage: str | None = None,
    allocation: Allocation = ITEMS,
) -> NoisyGrid[Facts]:
    """Release clip(k + noise), and likewise m and d, before the Kron reduction; and likewise the
    entries of a detailed table.

    Privacy
    -------
    ε-DP for the adjacency: each mechanism has a loss of its share of ε at most (its proof stands
    with it), the adjacency's rule combines them, and clipping to public bounds is data-independent
    post-processing. A group of which nothing is drawn costs nothing. What the owner declares public
    goes out as it is: neighbours do not differ in it. The charge is durable before the draw. A
    sampler with a seed needs no ledger, and all that it touches is a demo; a mechanism that is not
    proven draws demos alone.

    lineage : the account that is charged; default: the grid's own name.
    allocation : public, fixed before the draw.
    """
    family = source.facts.family
    plan = PlannedDraw(
        source,
        exact(epsilon),
        Adjacency.of(adjacency, family),
        Bounds.of(bounds, family),
        allocation,
    )
    return perturb_planned(plan, ledger=ledger, sampler=sampler, lineage=lineage)


@sealed
def perturb_planned(
    plan: PlannedDraw[Facts],
    *,
    ledger: Ledger | None,
    sampler: Sampler | None = None,
    lineage: str | None = None,
) -> NoisyGrid[Facts]:
    """Charge a draw that was planned, and make it: `perturb` from there on."""
    source, allocation, ranges = plan.source, plan.allocation, plan.ranges
    sampler = sampler or SecureSampler()
    demo = makes_demo(sampler)
    if not demo:
        _check_proven(allocation)
    if ledger is None and not demo:
        raise OptionError(
            "A real release needs a ledger.",
            outcome=NOTHING_SPENT,
            remedy="Pass ledger=Ledger(path), or use a DemoSampler.",
        )
    facts = source.facts
    drawn_by = {name: loss.mechanism for name, loss in plan.losses.items()}
    guarantee = guarantee_of(plan, sampler)

    stage("drawing the noise")
    entry = None
    if ledger is not None and not demo:
        entry = ledger.charge(charge_of(plan, ledger, lineage or facts.name))
        crash_points.step("charged")
    drawn: dict[str, Array] = {}
    for mechanism, names in parts(
        {name: loss.drawn for name, loss in plan.losses.items()}, assets(facts.family)
    ):
        part = {name: plan.losses[name] for name in names}
        prepared = {
            name: mechanism.prepare(Private.open(source.values[name]), part[name], ranges[name])
            for name in names
        }
        at = {name: facts.positions(name) for name in names}
        drawn |= mechanism.draw(prepared, part, sampler, at)
    crash_points.step("drawn")
    public = {name: np.empty(0) for name in facts.parameters}
    for name, values in drawn.items():
        public[name] = drawn_by[name].released(values, plan.losses[name], ranges[name])
    for name in allocation.published:  # declared public: neighbours have the same
        public[name] = Private.open(source.values[name])
    receipt = None
    if ledger is not None and entry is not None:
        receipt = ledger.mark_drawn(
            entry, b"".join(values.astype("<f8").tobytes() for values in public.values())
        )
    return NoisyGrid(
        facts,
        public,
        bounds=plan.bounds,
        guarantee=guarantee,
        receipt=receipt,
        allocation=allocation,
    )


@sealed
def guarantee_of(plan: PlannedDraw[Any], sampler: Sampler) -> Guarantee:
    """What a draw will promise: fixed by its plan, before anything is charged."""
    facts, allocation = plan.source.facts, plan.allocation
    drawn_by = {name: loss.mechanism for name, loss in plan.losses.items()}
    noises = tuple(dict.fromkeys(mechanism.noise for mechanism in drawn_by.values()))
    return Guarantee(
        epsilon=plan.epsilon,
        spent=plan.total,
        rule=plan.adjacency.rule,
        groups=plan.losses,
        mechanism=sampler.in_words(noises),
        operating_point=facts.operating_point,
        conditional_on=(),
        demo=makes_demo(sampler),
        hides_network=allocation.hides_network,
        parameters=tuple(facts.parameters),
        means={name: facts.sizes[name] for name, by in drawn_by.items() if by.takes == "mean"},
        published=allocation.published,
    )


@sealed
def charge_of(plan: PlannedDraw[Any], ledger: Ledger, lineage: str) -> Charge:
    """What a draw costs, as a ledger takes it: public facts and scales alone."""
    adjacency = plan.adjacency
    return Charge(
        lineage=lineage,
        version=version_of(plan.source, ledger),
        rule=adjacency.rule,
        epsilon=plan.epsilon,
        alpha=dict(adjacency.alpha),
        spent={name: loss.spent for name, loss in plan.losses.items()},
        scale={name: loss.scale for name, loss in plan.losses.items()},
        draws=dict(plan.allocation.draws),
        family=plan.source.facts.family,
        published=adjacency.published,
    )


@sealed
def version_of(source: SourceGrid[Any], ledger: Ledger) -> Version:
    """Describe a grid to a ledger by keyed marks of its network: public facts alone, no value."""
    marks = [
        f"{kind}:{name}"
        for kind, marks in line_marks(source.facts).items()
        for name in sorted(ledger.name(mark) for mark in marks)[:SAMPLE]
    ]
    return Version(tuple(marks))


def losses_of(
    adjacency: Adjacency,
    epsilon: Fraction,
    facts: TableFacts,
    allocation: Allocation,
    bounds: Bounds,
) -> dict[str, GroupLoss]:
    """Calibrate each mechanism to its share of ε: public facts and settings alone."""
    shares = allocation.over(adjacency).split(epsilon, allocation.assets)
    found: dict[str, GroupLoss] = {}
    kinds = assets(facts.family)
    for mechanism, names in parts({name: allocation.draws[name] for name in shares}, kinds):
        # Where the network is hidden, the scale does not tell whether anything was summed.
        part = {
            name: asked(
                adjacency,
                name,
                bounds[name],
                facts.sizes[name],
                shares[name],
                summed=name in facts.summed or allocation.hides_network,
            )
            for name in names
        }
        found |= mechanism.calibrate(part)
    return {name: found[name] for name in shares}


def _check_proven(allocation: Allocation) -> None:
    """Refuse a mechanism that serves demos alone, before anything is charged."""
    for name in allocation.draws:
        if for_demos_only(allocation.of(name)):
            raise OptionError(
                f"The mechanism {allocation.draws[name]} of {name} serves demos alone.",
                outcome=NOTHING_SPENT,
                remedy="Choose a proven mechanism, or use a DemoSampler.",
            )


def _check_positive(source: SourceGrid[Any], ranges: Mapping[str, Range]) -> None:
    """Refuse what has no logarithm."""
    for name, public in ranges.items():
        if public.lower <= 0 or (Private.open(source.values[name]) <= 0).any():
            raise OptionError(
                f"A relative adjacency needs values of {name} and a lower bound above 0.",
                outcome=NOTHING_SPENT,
                remedy=f"Raise --bounds {name}=… and fix the values that are 0, or choose an "
                "adjacency without -relative.",
            )
