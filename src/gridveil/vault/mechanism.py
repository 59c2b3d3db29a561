"""Step 1 of Algorithm 1: the only way out of the vault for the public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridveil import faults
from gridveil.errors import OptionError
from gridveil.grid import Array
from gridveil.groups import UNITS, Bounds
from gridveil.noisy import NoisyGrid, Receipt
from gridveil.privacy.adjacency import ASSETS, NOTHING_SPENT, Adjacency
from gridveil.privacy.epsilon import exact
from gridveil.privacy.guarantee import GroupLoss, Guarantee
from gridveil.privacy.ledger import Charge, Ledger, Version
from gridveil.privacy.ledger.marks import SAMPLE, line_marks
from gridveil.stages import stage
from gridveil.vault.sampler import Sampler, SecureSampler, calibrate, makes_demo
from gridveil.vault.source import Private, SourceGrid


@dataclass(frozen=True)
class _Plan:
    """Scales and losses of a draw, fixed before anything is charged."""

    losses: Mapping[str, GroupLoss]
    total: Fraction


def perturb(
    source: SourceGrid,
    *,
    epsilon: Fraction,
    adjacency: Adjacency,
    bounds: Bounds,
    ledger: Ledger | None,
    sampler: Sampler | None = None,
    lineage: str | None = None,
) -> NoisyGrid:
    """Release k̃ = clip(k + Lap(α_k/ε_k)), and likewise m and d, before the Kron reduction.

    Privacy
    -------
    ε-DP for the adjacency: each group is a vector Laplace mechanism with loss ε_γ for a change of one entry by α_γ, the
    adjacency's rule combines them, and clipping to public bounds is data-independent post-processing. The charge is durable
    before the draw. A sampler with a seed needs no ledger, and all that it touches is a demo.

    lineage : the account that is charged; default: the grid's own name.
    """
    sampler = sampler or SecureSampler()
    demo = makes_demo(sampler)
    epsilon = exact(epsilon)
    if ledger is None and not demo:
        raise OptionError(
            "A real release needs a ledger.", outcome=NOTHING_SPENT, remedy="Pass ledger=Ledger(path), or use a DemoSampler."
        )
    private: dict[str, Private[Array]] = {"k": source.k, "m": source.m, "d": source.d}
    lines, machines = len(source.facts.edges), len(source.facts.machines)
    sizes = {"k": lines, "m": machines, "d": machines}
    plan = _plan(adjacency, epsilon, sizes)
    guarantee = Guarantee(
        epsilon=epsilon,
        spent=plan.total,
        rule=adjacency.rule,
        groups=plan.losses,
        mechanism=sampler.mechanism,
        operating_point=source.facts.operating_point,
        conditional_on=(),
        demo=demo,
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
        )
        entry = ledger.charge(charge)
        faults.step("charged")
    drawn = {name: sampler.draw(Private.open(values), plan.losses[name].scale) for name, values in private.items()}
    faults.step("drawn")
    receipt = None
    if ledger is not None and entry is not None:
        head, account = ledger.mark_drawn(entry), ledger.accounts()[lineage or source.facts.name]
        receipt = Receipt(entry, head, account.spent, account.epsilon)

    clipped = {name: np.clip(values, *_ends(bounds, name)) for name, values in drawn.items()}
    return NoisyGrid(source.facts, **clipped, bounds=bounds, guarantee=guarantee, receipt=receipt)


def version_of(source: SourceGrid, ledger: Ledger) -> Version:
    """Name a grid by keyed fingerprints: one of all its values, and one of the network around each line."""
    content = [source.facts.edges.tobytes(), *(Private.open(values).tobytes() for values in (source.k, source.m, source.d))]
    marks = [
        f"{kind}:{name}"
        for kind, marks in line_marks(source.facts).items()
        for name in sorted(ledger.name(mark) for mark in marks)[:SAMPLE]
    ]
    return Version(ledger.name(b"".join(content)), tuple(marks))


def _plan(adjacency: Adjacency, epsilon: Fraction, sizes: Mapping[str, int]) -> _Plan:
    losses: dict[str, GroupLoss] = {}
    for name, share in adjacency.split(epsilon, ASSETS).items():
        alpha = adjacency.alpha[name]
        calibration = calibrate(alpha, share, sizes[name])
        losses[name] = GroupLoss(UNITS[name], alpha, share, calibration.spent, calibration.scale)
    total = adjacency.loss({name: Fraction(loss.spent) for name, loss in losses.items()}, ASSETS)
    assert total <= epsilon, "each group's loss is at most its share, so the rule cannot exceed ε"
    return _Plan(losses, total)


def _ends(bounds: Bounds, name: str) -> tuple[float, float]:
    public = getattr(bounds, name)
    return public.lower, public.upper
