"""What is audited: a draw of releases from synthetic grids, and what was charged for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import chain as chain_of
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np

from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import DECLARED, PARAMETERS, Bounds, Range
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import Sampler
from gridveil.privacy.noisy import NoisyGrid
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import makes_demo
from gridveil.vault.source import SourceGrid

NAME = "synthetic grid of an audit"
# So wide that clipping, which could only hide something, never bites (of ratios at a tiny ε, it
# does, and only hides).
WIDE = Range(1e-300, 1e300)


def alphas() -> dict[str, Fraction]:
    """α of an audit: different ones, so that a mechanism which mixed up two groups would show."""
    different = chain_of((Fraction(2), Fraction(1, 2)), map(Fraction, count(3)))
    return dict(zip(PARAMETERS, different, strict=False))


@dataclass(frozen=True, eq=False)
class Drawn:
    """Releases, one for each source that was given, and the loss that was charged for all of them
    together.
    """

    noisy: tuple[NoisyGrid, ...]
    charged: Fraction


class Draw(Protocol):
    """Releases some versions of one grid, all of the same public facts, and says what it charged
    for them.
    """

    def __call__(self, sources: Sequence[SourceGrid]) -> Drawn:
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

    def draw(sources: Sequence[SourceGrid]) -> Drawn:
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
        return Drawn(noisy, charged)

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
