"""What an audit of noise looks at: outputs of `perturb`, or of a bundle that was published, written
and loaded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from gridveil.assurance.audit.draws import NAME, chain, throwaway_ledger
from gridveil.dynamics.models import ReducedModel
from gridveil.grid.facts import Array, GridFacts, complete_edges
from gridveil.grid.parameters import DECLARED, Bounds, Range
from gridveil.inference.posterior import Posterior, Start
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation, aggregates, topology
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import GroupLoss, Sampler
from gridveil.publication.bundle import load, write
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import SecureSampler
from gridveil.vault.source import SourceGrid
from gridveil.workflow.publish import publish

RENEWED = 50  # releases to a throw-away ledger


class Uncharged(SecureSampler):
    """The secure noise, on synthetic grids that nobody keeps: as any sampler but the secure one
    itself, it makes demos.
    """


@dataclass(frozen=True, eq=False)
class Seen:
    """What one release showed of each group that was drawn.

    drawn : noisy items, (n,), or a noisy sum, (1,).
    spent : what was charged.
    means : losses of what drawn holds posterior means of instead, None where it holds the noisy
    values themselves.
    """

    drawn: Mapping[str, Array]
    spent: Mapping[str, float]
    means: Mapping[str, GroupLoss] | None = None


Look = Callable[[SourceGrid], Seen]


@dataclass(frozen=True)
class Kind:
    """A way to release: what is drawn, and what a bundle shows of items, their posterior means or
    the values as clipped.
    """

    name: str
    allocation: Allocation
    start: Start = "posterior"


KINDS = (
    Kind("items", ITEMS),
    Kind("items as clipped", ITEMS, "clipped"),
    Kind("aggregates", aggregates()),
    Kind("topology", topology()),
)


@cache
def row(buses: int) -> GridFacts:
    """Public facts of a synthetic grid: buses in a row, a machine on each, so that nothing is
    eliminated.
    """
    facts = chain(buses - 1)
    return replace(
        facts,
        machines=np.arange(buses),
        governor_rate=np.full(buses, 2.0),
        droop_gain=np.full(buses, 20.0),
    )


@contextmanager
def by_perturb(
    adjacency: Adjacency,
    epsilon: Fraction,
    bounds: Bounds,
    kind: Kind,
    sampler: Sampler | None = None,
) -> Iterator[Look]:
    """Look at what `perturb` returns, without a ledger: its claim is what its guarantee says."""
    sampler = sampler or Uncharged()

    def look(source: SourceGrid) -> Seen:
        noisy = perturb(
            source,
            epsilon=epsilon,
            adjacency=adjacency,
            bounds=bounds,
            ledger=None,
            sampler=sampler,
            allocation=kind.allocation,
        )
        groups = noisy.guarantee.groups
        return Seen(
            {name: noisy.values[name] for name in groups},
            {name: loss.spent for name, loss in groups.items()},
        )

    yield look


@contextmanager
def by_bundle(
    adjacency: Adjacency,
    epsilon: Fraction,
    bounds: Bounds,
    kind: Kind,
    sampler: Sampler | None = None,
) -> Iterator[Look]:
    """Look at what lies in a bundle, charged to throw-away ledgers; the claim is what the ledger
    was charged.

    sampler : a seeded one makes demos, which are not charged: their claim is what the bundle says.
    """
    with TemporaryDirectory(prefix="gridveil-audit-") as folder:
        made, ledgers = 0, list[Ledger]()

        def look(source: SourceGrid) -> Seen:
            nonlocal made
            if sampler is None and made % RENEWED == 0:
                ledgers[:] = [
                    throwaway_ledger(Path(folder) / f"ledger-{made}", adjacency, epsilon * RENEWED)
                ]
            path = Path(folder) / f"{made}.zip"
            made += 1
            release = publish(
                source,
                epsilon=epsilon,
                adjacency=adjacency,
                bounds=bounds,
                ledger=ledgers[0] if ledgers else None,
                sampler=sampler,
                lineage=NAME,
                allocation=kind.allocation,
                start=kind.start,
            )
            write(release, path)
            loaded = load(path)
            path.unlink()
            groups = loaded.guarantee.groups
            spent = (
                ledgers[0].entries(NAME)[-1].spent
                if ledgers
                else {name: loss.spent for name, loss in groups.items()}
            )
            means = groups if kind.start == "posterior" else None
            return Seen(_shown(loaded.model, kind), dict(spent), means)

        yield look


def _shown(model: ReducedModel, kind: Kind) -> dict[str, Array]:
    """Read off a model what was drawn: k_r of neighbours in the row is their line's k, and shares
    add up to their sum.
    """
    pairs = complete_edges(len(model.machines))
    of_lines = {
        DECLARED[name].reduces: values[pairs[:, 1] == pairs[:, 0] + 1]
        for name, values in model.values.items()
        if DECLARED[name].reduces
    }
    shown = of_lines | model.of_machines
    return {
        name: shown[name].sum(keepdims=True)
        if kind.allocation.of(name).takes == "sum"
        else shown[name]
        for name in kind.allocation.drawn
    }


def noisy_behind(means: Array, loss: GroupLoss, public: Range) -> Array:
    """Invert posterior means, which grow with the noisy value: y with E[x | y] = means, of any
    shape, by bisection.
    """

    def mean(y: Array) -> Array:
        return Posterior.behind(y.ravel(), loss, public).mean.reshape(y.shape)

    low, high = np.full(means.shape, public.lower), np.full(means.shape, public.upper)
    least, most = mean(low), mean(high)
    for _ in range(50):
        y = (low + high) / 2
        small = mean(y) < means
        low, high = np.where(small, y, low), np.where(small, high, y)
    # the map is flat at its ends, where no bisection tells a clip value from its neighbours
    near = 1e-12 * most
    return np.select(
        [means <= least + near, means >= most - near],
        [public.lower, public.upper],
        (low + high) / 2,
    )


def ranges(bounds: Bounds, kind: Kind, buses: int) -> dict[str, Range]:
    """Public bounds of what is drawn of each group."""
    return {
        name: kind.allocation.of(name).range(bounds[name], row(buses).sizes[name])
        for name in kind.allocation.drawn
    }


def source_of(buses: int, kind: Kind, wanted: Mapping[str, Sequence[float] | Array]) -> SourceGrid:
    """Make a table whose drawn items, or sums, are those wanted; what is not drawn is 1."""
    sizes = row(buses).sizes
    values = {name: np.ones(size) for name, size in sizes.items()}
    for name, value in wanted.items():
        values[name] = (
            np.asarray(value)
            if kind.allocation.of(name).takes == "items"
            else np.full(sizes[name], value[0] / sizes[name])
        )
    return SourceGrid.of(row(buses), **values)
