"""Step 1 of Algorithm 1: the only way out of the vault for the public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridveil.foundation import crash_points
from gridveil.foundation.errors import NOTHING_SPENT, OptionError
from gridveil.foundation.progress import stage
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.parameters import PARAMETERS, Bounds, Range, assets
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation, asked
from gridveil.privacy.epsilon import exact
from gridveil.privacy.guarantee import Guarantee, whole_loss
from gridveil.privacy.ledger import Charge, Ledger, Version
from gridveil.privacy.ledger.fingerprints import SAMPLE, line_marks
from gridveil.privacy.mechanisms import GroupLoss, Sampler, for_demos_only, parts
from gridveil.privacy.noisy import NoisyGrid
from gridveil.vault.sampler import SecureSampler, makes_demo
from gridveil.vault.source import Private, SourceGrid


@dataclass(frozen=True)
class Plan:
    """Scales and losses of a draw, fixed before anything is charged."""

    losses: Mapping[str, GroupLoss]
    total: Fraction


@sealed
def perturb(
    source: SourceGrid,
    *,
    epsilon: Fraction,
    adjacency: Adjacency,
    bounds: Bounds,
    ledger: Ledger | None,
    sampler: Sampler | None = None,
    lineage: str | None = None,
    allocation: Allocation = ITEMS,
) -> NoisyGrid:
    """Release clip(k + noise), and likewise m and d, before the Kron reduction.

    Privacy
    -------
    ε-DP for the adjacency: each mechanism has a loss of its share of ε at most (its proof stands
    with it), the adjacency's rule combines them, and clipping to public bounds is data-independent
    post-processing. A group of which nothing is drawn costs nothing. The charge is durable before
    the draw. A sampler with a seed needs no ledger, and all that it touches is a demo; a mechanism
    that is not proven draws demos alone.

    lineage : the account that is charged; default: the grid's own name.
    allocation : public, fixed before the draw.
    """
    sampler = sampler or SecureSampler()
    demo = makes_demo(sampler)
    epsilon = exact(epsilon)
    if not demo:
        _check_proven(allocation)
    if ledger is None and not demo:
        raise OptionError(
            "A real release needs a ledger.",
            outcome=NOTHING_SPENT,
            remedy="Pass ledger=Ledger(path), or use a DemoSampler.",
        )
    ranges = _ranges(source, bounds, allocation)
    plan = check_draw(source, epsilon, adjacency, bounds, allocation)
    drawn_by = {name: loss.mechanism for name, loss in plan.losses.items()}
    noises = tuple(dict.fromkeys(mechanism.noise for mechanism in drawn_by.values()))
    guarantee = Guarantee(
        epsilon=epsilon,
        spent=plan.total,
        rule=adjacency.rule,
        groups=plan.losses,
        mechanism=sampler.in_words(noises),
        operating_point=source.facts.operating_point,
        conditional_on=(),
        demo=demo,
        hides_network=allocation.hides_network,
    )

    stage("drawing the noise")
    entry = None
    if ledger is not None and not demo:
        charge = Charge(
            lineage=lineage or source.facts.name,
            version=version_of(source, ledger),
            rule=adjacency.rule,
            epsilon=epsilon,
            alpha=dict(adjacency.alpha),
            spent={name: loss.spent for name, loss in plan.losses.items()},
            scale={name: loss.scale for name, loss in plan.losses.items()},
            draws=dict(allocation.draws),
        )
        entry = ledger.charge(charge)
        crash_points.step("charged")
    drawn: dict[str, Array] = {}
    for mechanism, names in parts(
        {name: loss.drawn for name, loss in plan.losses.items()}, assets()
    ):
        part = {name: plan.losses[name] for name in names}
        prepared = {
            name: mechanism.prepare(Private.open(source.values[name]), part[name], ranges[name])
            for name in names
        }
        drawn |= mechanism.draw(prepared, part, sampler)
    crash_points.step("drawn")
    public = {
        name: drawn_by[name].released(drawn[name], plan.losses[name], ranges[name])
        if name in drawn
        else np.empty(0)
        for name in PARAMETERS
    }
    receipt = None
    if ledger is not None and entry is not None:
        receipt = ledger.mark_drawn(
            entry, b"".join(values.astype("<f8").tobytes() for values in public.values())
        )
    return NoisyGrid(
        source.facts,
        public,
        bounds=bounds,
        guarantee=guarantee,
        receipt=receipt,
        allocation=allocation,
    )


@sealed
def check_draw(
    source: SourceGrid,
    epsilon: Fraction,
    adjacency: Adjacency,
    bounds: Bounds,
    allocation: Allocation = ITEMS,
) -> Plan:
    """Plan a draw, or refuse one that cannot be made: before anything is charged, and before a
    budget is set for it.
    """
    if allocation.draws.keys() != PARAMETERS.keys():
        raise OptionError(
            "This allocation does not say what is drawn of each parameter.",
            expected=f"{', '.join(PARAMETERS)}, each once",
            outcome=NOTHING_SPENT,
            remedy="Make a new one with Allocation(), aggregates() or topology().",
        )
    if adjacency.relative:
        _check_positive(source, _ranges(source, bounds, allocation))
    return _plan(adjacency, epsilon, source.facts, allocation, bounds)


def _ranges(source: SourceGrid, bounds: Bounds, allocation: Allocation) -> dict[str, Range]:
    """Public bounds of what is drawn of each group."""
    return {
        name: allocation.of(name).range(bounds[name], source.facts.sizes[name])
        for name in allocation.drawn
    }


@sealed
def version_of(source: SourceGrid, ledger: Ledger) -> Version:
    """Describe a grid to a ledger by keyed marks of its network: public facts alone, no value."""
    marks = [
        f"{kind}:{name}"
        for kind, marks in line_marks(source.facts).items()
        for name in sorted(ledger.name(mark) for mark in marks)[:SAMPLE]
    ]
    return Version(tuple(marks))


def _plan(
    adjacency: Adjacency,
    epsilon: Fraction,
    facts: GridFacts,
    allocation: Allocation,
    bounds: Bounds,
) -> Plan:
    shares = allocation.over(adjacency).split(epsilon, allocation.assets)
    found: dict[str, GroupLoss] = {}
    for mechanism, names in parts({name: allocation.draws[name] for name in shares}, assets()):
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
    losses = {name: found[name] for name in shares}
    total = whole_loss(adjacency, losses, assets())
    assert total <= epsilon, "each group's loss is at most its share, so the rule cannot exceed ε"
    return Plan(losses, total)


def _check_proven(allocation: Allocation) -> None:
    """Refuse a mechanism that serves demos alone, before anything is charged."""
    for name in allocation.draws:
        if for_demos_only(allocation.of(name)):
            raise OptionError(
                f"The mechanism {allocation.draws[name]} of {name} serves demos alone.",
                outcome=NOTHING_SPENT,
                remedy="Choose a proven mechanism, or use a DemoSampler.",
            )


def _check_positive(source: SourceGrid, ranges: Mapping[str, Range]) -> None:
    """Refuse what has no logarithm."""
    for name, public in ranges.items():
        if public.lower <= 0 or (Private.open(source.values[name]) <= 0).any():
            raise OptionError(
                f"A relative adjacency needs values of {name} and a lower bound above 0.",
                outcome=NOTHING_SPENT,
                remedy=f"Raise --bounds {name}=… and fix the values that are 0, or choose an "
                "adjacency without -relative.",
            )
