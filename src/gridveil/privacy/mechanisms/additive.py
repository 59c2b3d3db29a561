"""Noise of one law on every entry, or on their sum: each value for itself."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridveil.grid.facts import Array, IntArray
from gridveil.grid.parameters import Range
from gridveil.privacy.mechanisms.interface import (
    Asked,
    GroupLoss,
    Mechanism,
    Noise,
    Sampler,
    Takes,
)

FAR = 2.0**10  # times a public upper bound: see `furthest`
LARGEST_LOG = 745.0  # of a double, whichever way


@dataclass(frozen=True)
class Additive(Mechanism):
    """Adds independent noise to entries, to their sum, or to their mean.

    Privacy
    -------
    A sum moves by as much as its one entry does, α at most, so its loss is the same. Under a
    relative adjacency the same holds for logarithms, with log(1 + α): Σ m_i grows by a factor of 1
    + α at most if one m_i does. Roundings of sums and logarithms are bounded, and counted in the
    distance that noise is made for.

    An entry that is itself a sum of parts (parallel circuits, machines of one bus) is rounded once:
    where a part moves by α, entries v and v' of two neighbours lie up to α + ulp(v)/2 + ulp(v')/2
    apart. Before the noise, values are clamped to FAR times their public upper bound U, which moves
    no two further apart; so ulp(FAR · U), a public number, covers the rounding. Clipping to public
    bounds is data-independent post-processing.

    A mean of g entries (of their logarithms, where the parameter counts in ratios) moves by a g-th
    of what its one entry moves by. It is formed in exact fractions and rounded to a double once;
    two such roundings are counted in the distance that noise is made for.
    """

    name: str
    noise: Noise
    takes: Takes = "items"
    each: str = "each"
    whole: str = "every item"

    def distance(self, asked: Asked) -> Fraction:
        """α, or log(1 + α), and the roundings that neighbours may differ by besides; of a mean, a
        part of it.
        """
        apart = asked.distance
        if not asked.relative:  # the distance of logarithms counts roundings already
            # What is a sum is rounded to a double once, for each of two neighbours.
            public = self.range(asked.public, asked.entries)
            rounded = [public.upper] * (self.takes == "sum") + [furthest(public)] * asked.summed
            apart += sum(Fraction(math.ulp(most)) for most in rounded)
        if self.takes != "mean":
            return apart
        largest = LARGEST_LOG if asked.relative else furthest(asked.public)
        return apart / asked.entries + Fraction(math.ulp(largest))

    def calibrate(self, part: Mapping[str, Asked]) -> dict[str, GroupLoss]:
        """Calibrate each parameter for itself."""
        losses: dict[str, GroupLoss] = {}
        for name, asked in part.items():
            size = self.size(asked.entries)
            found = self.noise.calibrate(self.distance(asked), asked.epsilon, size)
            losses[name] = GroupLoss(
                asked.unit,
                asked.alpha,
                asked.epsilon,
                found.spent,
                found.scale,
                self.name,
                asked.relative,
            )
        return losses

    def prepare(self, values: Array, loss: GroupLoss, public: Range) -> Array:
        """The items or their mean, or those of logarithms; or their exact sum inside its public
        bounds, or its logarithm.
        """
        values = np.clip(values, -furthest(public), furthest(public))
        if self.takes != "sum":
            if loss.relative:
                values = np.array([math.log(value) for value in values])
            if self.takes == "items":
                return values
            total = sum(map(Fraction, values.tolist()), Fraction(0))
            return np.array([float(total / len(values))])
        # Exact, then rounded once. Clamping to public bounds moves two neighbours no further apart,
        # and bounds the rounding.
        total = sum(map(Fraction, values.tolist()), Fraction(0))
        total = float(min(max(total, Fraction(public.lower)), Fraction(public.upper)))
        return np.array([math.log(total) if loss.relative else total])

    def draw(
        self,
        prepared: Mapping[str, Array],
        part: Mapping[str, GroupLoss],
        sampler: Sampler,
        at: Mapping[str, IntArray],  # noqa: ARG002
    ) -> dict[str, Array]:
        """Draw one parameter after the other."""
        return {
            name: sampler.draw(values, part[name].scale, self.noise)
            for name, values in prepared.items()
        }

    def released(self, drawn: Array, loss: GroupLoss, public: Range) -> Array:
        """Clip to the public bounds, after the exponential of logarithms."""
        with np.errstate(over="ignore"):
            values = np.exp(drawn) if loss.relative else drawn
        return np.clip(values, public.lower, public.upper)


def furthest(public: Range) -> float:
    """The largest value that noise is added to, of either sign: values beyond it are taken for it,
    which bounds their rounding.

    Noise of any use does not reach from there to the bound, so that what is released of them is the
    bound, as it is without.
    """
    return min(FAR * max(abs(public.lower), abs(public.upper)), sys.float_info.max)
