"""The differential test: under constant noise, two private tables of one grid must give the same
bundle, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from gridveil.assurance.audit.findings import Fit
from gridveil.assurance.audit.releases import KINDS, Kind, chain
from gridveil.grid.facts import Array
from gridveil.grid.parameters import PARAMETERS, Bounds
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.mechanisms import Noise
from gridveil.publication.bundle import contents
from gridveil.publication.export import FORMATS
from gridveil.vault.source import SourceGrid
from gridveil.workflow.publish import publish

MACHINES = 2


class Constant:
    """Draws the same vector whatever it is given: what it makes is a demo, and holds a true value
    only if something leaks.
    """

    def in_words(self, noises: Sequence[Noise]) -> str:  # noqa: ARG002 - a sampler's
        """No noise, whatever was asked for."""
        return "constant vector (demo: no privacy)"

    def draw(self, values: Array, scale: Any, noise: Noise) -> Array:  # noqa: ARG002
        """Return numbers that lie, with their exponentials, in the usual bounds of items and of
        sums; (n,), or (n, d).
        """
        return np.linspace(2.2, 3.5, values.size).reshape(values.shape)


def audit_constant(adjacency: Adjacency, epsilon: Fraction, kinds: Sequence[Kind] = KINDS) -> Fit:
    """Publish two tables with equal public facts under constant noise; every file and every export
    must be equal.

    Finds any figure that carries a true value past the noise, in whichever digit. Honest code
    passes with certainty. The row names a file that differs.
    """
    random, files, differing = np.random.default_rng(), 0, list[str]()
    # Some within the bounds, some beyond.
    tables = [
        {name: np.exp(random.uniform(-1, 6, MACHINES)) for name in PARAMETERS} for _ in range(2)
    ]
    for kind in kinds:
        first, other = (
            _files(SourceGrid.of(chain(MACHINES), **table), adjacency, epsilon, kind)
            for table in tables
        )
        files += len(first)
        differing += [
            f"{name} of {kind.name}" for name in first | other if first.get(name) != other.get(name)
        ]
    subject = f"{adjacency.rule}: bundles of two tables, constant noise"
    return Fit(
        subject, differing[0] if differing else "all equal", files, 0.0 if differing else 1.0, 0.5
    )


def _files(
    source: SourceGrid, adjacency: Adjacency, epsilon: Fraction, kind: Kind
) -> dict[str, bytes]:
    release = publish(
        source,
        epsilon=epsilon,
        adjacency=adjacency,
        bounds=Bounds(),
        ledger=None,
        sampler=Constant(),
        allocation=kind.allocation,
        start=kind.start,
    )
    return contents(release, formats=tuple(FORMATS))
