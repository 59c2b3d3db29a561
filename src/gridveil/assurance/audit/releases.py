"""What is audited: releases of synthetic grids, and what was charged for them; outputs of
`perturb`, or of a bundle that was published, written and loaded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import chain as chain_of
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np

from gridveil.dynamics.models import ReducedModel
from gridveil.grid.facts import Array, GridFacts, TableFacts, complete_edges
from gridveil.grid.parameters import (
    DECLARED,
    SWING,
    Asset,
    Bounds,
    Range,
    assets,
    parameters_of,
)
from gridveil.inference.posterior import Posterior, Start
from gridveil.inference.prior import LOG_UNIFORM, Prior
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation, aggregates, topology
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import HEXAGONS, GroupLoss, Sampler, Takes
from gridveil.privacy.noisy import NoisyGrid
from gridveil.publication.bundle import load, write
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import SecureSampler, makes_demo
from gridveil.vault.source import SourceGrid
from gridveil.workflow.publish import publish

NAME = "synthetic grid of an audit"
# So wide that clipping, which could only hide something, never bites (of ratios at a tiny ε, it
# does, and only hides).
WIDE = Range(1e-300, 1e300)
ITEM_BUSES, SUM_BUSES = 8, 2


def alphas(family: str = SWING) -> dict[str, Fraction]:
    """α of an audit: different ones, so that a mechanism which mixed up two groups would show.

    A detailed table has so many that they are parts of 1: one entry stays within its bounds.
    """
    different = chain_of((Fraction(2), Fraction(1, 2)), map(Fraction, count(3)))
    if family != SWING:
        different = (Fraction(1, n) for n in count(2))
    return dict(zip(parameters_of(family), different, strict=False))


@dataclass(frozen=True, eq=False)
class ChargedReleases:
    """Releases, one for each source that was given, and the loss that was charged for all of them
    together.
    """

    noisy: tuple[NoisyGrid, ...]
    charged: Fraction


class Draw(Protocol):
    """Releases some versions of one grid, all of the same public facts, and says what it charged
    for them.
    """

    def __call__(self, sources: Sequence[SourceGrid]) -> ChargedReleases:
        """Draw one release of each source."""
        ...


def perturbed(
    adjacency: Adjacency,
    epsilon: Fraction,
    sampler: Sampler | None = None,
    allocation: Allocation = ITEMS,
) -> Draw:
    """Draw by `perturb`, as a release does, with ε for each source.

    The charge is read back from the ledger, a throw-away one in a temporary folder. What a seeded
    sampler draws is never charged: its claim is the sum of what its guarantees say.
    """

    def draw(sources: Sequence[SourceGrid]) -> ChargedReleases:
        with TemporaryDirectory(prefix="gridveil-audit-") as folder:
            demo = sampler is not None and makes_demo(sampler)
            ledger = (
                None if demo else throwaway_ledger(Path(folder), adjacency, epsilon * len(sources))
            )
            noisy = tuple(
                perturb(
                    source,
                    epsilon=epsilon,
                    adjacency=adjacency,
                    bounds=Bounds(dict.fromkeys(DECLARED, WIDE)),
                    ledger=ledger,
                    sampler=sampler,
                    allocation=allocation,
                )
                for source in sources
            )
            charged = (
                sum((one.guarantee.spent for one in noisy), Fraction(0))
                if ledger is None
                else _charged(ledger)
            )
        return ChargedReleases(noisy, charged)

    return draw


def throwaway_ledger(folder: Path, adjacency: Adjacency, epsilon_total: Fraction) -> Ledger:
    """Open a ledger that lives as long as its folder, with room for epsilon_total."""
    ledger = Ledger(folder / "ledger.sqlite", safe=folder, witness=folder / "witness.sqlite")
    ledger.set_budget(NAME, adjacency, epsilon_total)
    return ledger


def _charged(ledger: Ledger) -> Fraction:
    """Read what the ledger was charged for the synthetic grid, by the adjacency's rule."""
    return ledger.accounts()[NAME].spent


@cache
def chain(positions: int) -> GridFacts:
    """Public facts of a synthetic grid: n lines in a row, a machine on each of the first n of its n
    + 1 buses.
    """
    return GridFacts(
        name=NAME,
        buses=tuple(f"b{i}" for i in range(positions + 1)),
        edges=np.column_stack([np.arange(positions), np.arange(1, positions + 1)]),
        machines=np.arange(positions),
        governor_rate=np.full(positions, 2.0),
        droop_gain=np.full(positions, 20.0),
        loads=np.ones(positions + 1),
        load_damping=np.zeros(positions + 1),
        omega_b=1.0,
        frequency_hz=60.0,
        base_mva=100.0,
        loads_are_public=True,
        operating_point="flat",
    )


RENEWED = 50  # releases to a throw-away ledger


class Uncharged(SecureSampler):
    """The secure noise, on synthetic grids that nobody keeps: as any sampler but the secure one
    itself, it makes demos.
    """


@dataclass(frozen=True, eq=False)
class Seen:
    """What one release showed of each group that was drawn.

    drawn : noisy items, (n,), or a noisy sum or mean, (1,).
    spent : what was charged.
    means : losses of what drawn holds posterior means of instead, None where it holds the noisy
    values themselves.
    """

    drawn: Mapping[str, Array]
    spent: Mapping[str, float]
    means: Mapping[str, GroupLoss] | None = None


Look = Callable[[SourceGrid[Any]], Seen]


@dataclass(frozen=True)
class Kind:
    """A way to release: what is drawn, and what a bundle shows of items, their posterior means or
    the values as clipped.

    table : public facts of what is released; None: a row of buses with machines.
    """

    name: str
    allocation: Allocation
    start: Start = "posterior"
    table: TableFacts | None = None

    @property
    def facts(self) -> TableFacts:
        """Public facts of the synthetic grid: few buses where sums or means are drawn."""
        return self.table or row(
            SUM_BUSES if self.allocation.takes & {"sum", "mean"} else ITEM_BUSES
        )

    def ranges(self, bounds: Bounds) -> dict[str, Range]:
        """Public bounds of what is drawn of each group."""
        by, sizes = self.allocation, self.facts.sizes
        return {name: by.of(name).range(bounds[name], sizes[name]) for name in by.drawn}


def jointly(way: str) -> Allocation:
    """Everything of a machine drawn by one joint mechanism, and lines by noise of one value."""
    ways: Mapping[Asset, str] = {"line": "box", "machine": way}
    return Allocation({name: ways[asset] for name, asset in assets().items()})


# Joint noise, for rules by which a whole asset moves.
JOINT = (Kind("joint items", jointly("box")), Kind("joint means", jointly("box-means")))
PAIR = HEXAGONS[1]  # which hexagon stands for all of them


def pair_of_sums(adjacency: Adjacency) -> tuple[Kind, ...]:
    """Sums of two parameters of the machines with noise of the hexagon norm; nothing where a rule
    or the declared parameters leave it out.
    """
    by_asset = assets()
    machines = [name for name, asset in by_asset.items() if asset == "machine"]
    if adjacency.counts not in PAIR.at_once or len(machines) != 2:
        return ()
    shares = dict.fromkeys(by_asset, Fraction(1))
    if adjacency.counts == "one-per-group":
        shares = {name: Fraction(4 if name in machines else 1, 5) for name in shares}
    draws = {name: PAIR.name if name in machines else "items" for name in shares}
    return (Kind("pair of sums", Allocation(draws, shares)),)


def joint_kinds(adjacency: Adjacency) -> tuple[Kind, ...]:
    """Joint noise that a rule allows: of the items and means of an asset, and of a pair of sums."""
    of_assets = JOINT if adjacency.counts == "one-asset" else ()
    return (*of_assets, *pair_of_sums(adjacency))


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

    def look(source: SourceGrid[Any]) -> Seen:
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
                error_bars=False,  # of what is read off below, nothing is theirs
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
            return Seen(_shown(loaded.swing, kind), dict(spent), means)

        yield look


def _shown(model: ReducedModel, kind: Kind) -> dict[str, Array]:
    """Read off a model what was drawn: k_r of neighbours in the row is their line's k, shares add
    up to their sum, and a mean is every machine's.
    """
    pairs = complete_edges(len(model.machines))
    of_lines = {
        DECLARED[name].reduces: values[pairs[:, 1] == pairs[:, 0] + 1]
        for name, values in model.values.items()
        if DECLARED[name].reduces
    }
    shown = of_lines | model.of_machines
    read: dict[Takes, Callable[[Array], Array]] = {
        "items": np.asarray,
        "sum": lambda values: values.sum(keepdims=True),
        "mean": lambda values: values[:1],
    }
    return {
        name: read[kind.allocation.of(name).takes](shown[name]) for name in kind.allocation.drawn
    }


def noisy_behind(means: Array, loss: GroupLoss, public: Range, prior: Prior = LOG_UNIFORM) -> Array:
    """Invert estimates, which grow with the noisy value: y whose estimate is in means, of any
    shape, by bisection.
    """

    def mean(y: Array) -> Array:
        return Posterior.behind(y.ravel(), loss, public, prior).estimate.reshape(y.shape)

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


def source_of(kind: Kind, wanted: Mapping[str, Sequence[float] | Array]) -> SourceGrid[Any]:
    """Make a table whose drawn items, sums or means are those wanted; what is not drawn is 1."""
    sizes = kind.facts.sizes
    values = {name: np.ones(size) for name, size in sizes.items()}
    for name, value in wanted.items():
        takes = kind.allocation.of(name).takes
        values[name] = (
            np.asarray(value)
            if takes == "items"
            else np.full(sizes[name], value[0] / (sizes[name] if takes == "sum" else 1))
        )
    return SourceGrid[TableFacts].of(kind.facts, **values)
