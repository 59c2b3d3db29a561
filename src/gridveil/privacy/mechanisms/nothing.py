"""What is not drawn: nothing of a parameter, or all of it without noise, since it is public.
Neither spends anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridveil.grid.facts import Array, IntArray
from gridveil.grid.parameters import Range
from gridveil.privacy.mechanisms.interface import Asked, GroupLoss, Mechanism, Noise, Sampler


@dataclass(frozen=True)
class Nothing(Mechanism):
    """Draws nothing of a parameter: the prior alone is known of it.

    noise : of no value at all; whoever judges it, takes it at an infinite scale
    """

    noise: Noise
    name: str = "nothing"
    takes = "nothing"
    each = whole = "nothing"

    def distance(self, asked: Asked) -> Fraction:  # noqa: ARG002
        """0: neighbours do not differ in it."""
        return Fraction(0)

    def calibrate(self, part: Mapping[str, Asked]) -> dict[str, GroupLoss]:  # noqa: ARG002
        """No noise, and no loss."""
        return {}

    def prepare(self, values: Array, loss: GroupLoss, public: Range) -> Array:  # noqa: ARG002
        """Nothing."""
        return np.empty(0)

    def draw(
        self,
        prepared: Mapping[str, Array],
        part: Mapping[str, GroupLoss],  # noqa: ARG002
        sampler: Sampler,  # noqa: ARG002
        at: Mapping[str, IntArray],  # noqa: ARG002
    ) -> dict[str, Array]:
        """Nothing."""
        return {name: np.empty(0) for name in prepared}

    def released(self, drawn: Array, loss: GroupLoss, public: Range) -> Array:  # noqa: ARG002
        """Nothing."""
        return np.empty(0)


@dataclass(frozen=True)
class Published(Nothing):
    """Draws nothing: `perturb` lets the entries out as they are.

    Privacy
    -------
    Of what its owner declares public, neighbours have the same values: `Adjacency.published` names
    it, the ledger fixes it for a lineage, and the certificate says so. Nothing that tells two
    neighbours apart goes out, at no loss. Of grids that differ in it, nothing is promised.
    """

    name: str = "published"
    takes = "published"
    each = whole = "published as they are"
