"""Step 1 of Algorithm 1: the only way out of the vault for the public."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridveil.foundation import crash_points
from gridveil.foundation.errors import OptionError
from gridveil.foundation.progress import stage
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.parameters import UNITS, Bounds, Range
from gridveil.privacy.adjacency import NOTHING_SPENT, Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation
from gridveil.privacy.epsilon import exact
from gridveil.privacy.guarantee import GroupLoss, Guarantee
from gridveil.privacy.ledger import Charge, Ledger, Version
from gridveil.privacy.ledger.fingerprints import SAMPLE, line_marks
from gridveil.privacy.noisy import NoisyGrid, drawn_distance, drawn_range, furthest
from gridveil.vault.sampler import Sampler, SecureSampler, calibrate, makes_demo
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
    """Release k̃ = clip(k + Lap(α_k/ε_k)), and likewise m and d, before the Kron reduction.

    Privacy
    -------
    ε-DP for the adjacency: each group is a vector Laplace mechanism with loss ε_γ for a change of
    one entry by α_γ, the adjacency's rule combines them, and clipping to public bounds is
    data-independent post-processing. The charge is durable before the draw. A sampler with a seed
    needs no ledger, and all that it touches is a demo.

    A sum moves by as much as its one entry does, α_γ at most, so its loss is the same ε_γ; a group
    of which nothing is drawn costs nothing. Under a relative adjacency the same holds for
    logarithms, with log(1 + α_γ): Σ m_i grows by a factor of 1 + α at most if one m_i does.
    Roundings of sums and logarithms are bounded, and counted in the distance that noise is made
    for.

    An entry that is itself a sum of parts (parallel circuits, machines of one bus) is rounded once:
    where a part moves by α, entries v and v' of two neighbours lie up to α + ulp(v)/2 + ulp(v')/2
    apart. Before the noise, values are clamped to FAR times their public upper bound U, which moves
    no two further apart; so ulp(FAR · U), a public number, covers the rounding.

    lineage : the account that is charged; default: the grid's own name.
    allocation : public, fixed before the draw.
    """
    sampler = sampler or SecureSampler()
    demo = makes_demo(sampler)
    epsilon = exact(epsilon)
    if ledger is None and not demo:
        raise OptionError(
            "A real release needs a ledger.",
            outcome=NOTHING_SPENT,
            remedy="Pass ledger=Ledger(path), or use a DemoSampler.",
        )
    private: dict[str, Private[Array]] = {"k": source.k, "m": source.m, "d": source.d}
    ranges = _ranges(source, bounds, allocation)
    plan = check_draw(source, epsilon, adjacency, bounds, allocation)
    guarantee = Guarantee(
        epsilon=epsilon,
        spent=plan.total,
        rule=adjacency.rule,
        groups=plan.losses,
        mechanism=sampler.mechanism,
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
    drawn = {
        name: sampler.draw(_to_draw(Private.open(private[name]), loss, ranges[name]), loss.scale)
        for name, loss in plan.losses.items()
    }
    crash_points.step("drawn")
    public = {
        name: _clipped(drawn[name], ranges[name], adjacency) if name in drawn else np.empty(0)
        for name in private
    }
    receipt = None
    if ledger is not None and entry is not None:
        receipt = ledger.mark_drawn(
            entry, b"".join(values.astype("<f8").tobytes() for values in public.values())
        )
    return NoisyGrid(
        source.facts,
        **public,
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
    ranges = _ranges(source, bounds, allocation)
    if adjacency.relative:
        _check_positive(source, ranges)
    return _plan(adjacency, epsilon, source.facts, allocation, ranges)


def _ranges(source: SourceGrid, bounds: Bounds, allocation: Allocation) -> dict[str, Range]:
    machines = len(source.facts.machines)
    return {
        name: drawn_range(bounds, name, allocation.draws[name], machines)
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
    ranges: Mapping[str, Range],
) -> Plan:
    losses: dict[str, GroupLoss] = {}
    for name, share in allocation.over(adjacency).split(epsilon, allocation.assets).items():
        way = allocation.draws[name]
        assert way != "nothing", "only what is drawn has a share"
        # Where the network is hidden, the scale does not tell whether anything was summed.
        summed = name in facts.summed or allocation.hides_network
        distance = drawn_distance(adjacency, name, way, ranges[name], summed=summed)
        calibration = calibrate(distance, share, 1 if way == "sum" else facts.sizes[name])
        losses[name] = GroupLoss(
            UNITS[name],
            adjacency.alpha[name],
            share,
            calibration.spent,
            calibration.scale,
            way,
            adjacency.relative,
        )
    total = adjacency.loss(
        {name: Fraction(loss.spent) for name, loss in losses.items()}, allocation.assets
    )
    assert total <= epsilon, "each group's loss is at most its share, so the rule cannot exceed ε"
    return Plan(losses, total)


def _to_draw(values: Array, loss: GroupLoss, public: Range) -> Array:
    """What the noise is added to: the items, their exact sum inside its public bounds, or the
    logarithms of either.
    """
    values = np.minimum(values, furthest(public))
    if loss.drawn == "items":
        return np.array([math.log(value) for value in values]) if loss.relative else values
    # Exact, then rounded once. Clamping to public bounds moves two neighbours no further apart, and
    # bounds the rounding.
    total = sum(map(Fraction, values.tolist()), Fraction(0))
    total = float(min(max(total, Fraction(public.lower)), Fraction(public.upper)))
    return np.array([math.log(total) if loss.relative else total])


def _clipped(drawn: Array, public: Range, adjacency: Adjacency) -> Array:
    with np.errstate(over="ignore"):
        values = np.exp(drawn) if adjacency.relative else drawn
    return np.clip(values, public.lower, public.upper)


def _check_positive(source: SourceGrid, ranges: Mapping[str, Range]) -> None:
    """Refuse what has no logarithm."""
    for name, public in ranges.items():
        if public.lower <= 0 or (Private.open(getattr(source, name)) <= 0).any():
            raise OptionError(
                f"A relative adjacency needs values of {name} and a lower bound above 0.",
                outcome=NOTHING_SPENT,
                remedy=f"Raise --bounds {name}=… and mend the values that are 0, or choose an "
                "adjacency without -relative.",
            )
