"""What is believed of a value before any draw: public, and free to choose.

A prior is a density of s = log x on a public box, up to a factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gridveil.grid.facts import Array
from gridveil.grid.parameters import PARAMETERS, Range
from gridveil.privacy.mechanisms import Takes

DEVIATION = 1.0  # of the logarithm of a line's weight, around the middle of its bounds
# Estimates take it for narrower, with wider tails: on tables of the law above they are as near on
# average, and fewer tables lose by them, since machines that share a sum are off as well.
ESTIMATED = 0.6
WIDTHS = 8.0  # beyond so many deviations from its peak a prior is next to nothing


@dataclass(frozen=True)
class Prior:
    """Log-uniform on the box: every factor alike.

    geometric : whether the estimate is exp(E[log x | y]) instead of E[x | y].
    """

    geometric: bool = False

    def density(self, s: Array, low: Array, high: Array) -> Array:  # noqa: ARG002
        """Density of s = log x on a box from low to high (both logarithms), up to a factor that is
        the same for all s.
        """
        return np.ones(np.shape(s))

    def peak(self, low: Array, high: Array) -> tuple[Array, Array] | None:  # noqa: ARG002
        """Where log x is likely: centre and deviation, of the box's shape; None: everywhere."""
        return None


@dataclass(frozen=True)
class AroundMiddle(Prior):
    """Around the geometric middle of the box, cut off at its ends: Student's law of log x with two
    degrees of freedom, so that a line far from the middle is hardly drawn to it.
    """

    geometric: bool = True

    def density(self, s: Array, low: Array, high: Array) -> Array:
        """(2 + t²)^(−3/2), t = (s − middle) / ESTIMATED."""
        return (2 + ((s - 0.5 * (low + high)) / ESTIMATED) ** 2) ** -1.5


@dataclass(frozen=True)
class OfSum(Prior):
    """A sum of entries: half log-uniform, as of machines that are alike, and half the sum of
    independent log-uniform entries, as the Gamma law of its mean and variance.

    entries : how many there are; the box is as many times that of one.
    """

    entries: int = 1

    def density(self, s: Array, low: Array, high: Array) -> Array:
        """½ / (high − low) + ½ x^a e^(−x/θ) / (Γ(a) θ^a), its mass outside of the box left out."""
        if self.entries == 1:
            return super().density(s, low, high)
        from scipy.special import gammainc, gammaln, xlogy

        shape, scale = self._gamma(low, high)
        mass = gammainc(shape, np.exp(high) / scale) - gammainc(shape, np.exp(low) / scale)
        x = np.exp(s) / scale
        independent = np.exp(xlogy(shape, x) - x - gammaln(shape)) / mass
        return 0.5 / (high - low) + 0.5 * independent

    def peak(self, low: Array, high: Array) -> tuple[Array, Array] | None:
        """Of the second half."""
        if self.entries == 1:
            return None
        shape, scale = self._gamma(low, high)
        return np.log(shape * scale), 1 / np.sqrt(shape)

    def _gamma(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Shape and scale of the sum: its mean² / variance and variance / mean."""
        mean, second = ((np.exp(n * high) - np.exp(n * low)) / (n * (high - low)) for n in (1, 2))
        # low and high are of the sum: in entries' units, mean / entries and so on
        variance = (second - mean**2) / self.entries
        return mean**2 / variance, variance / mean


LOG_UNIFORM, AROUND_MIDDLE = Prior(), AroundMiddle()


def prior_of(name: str, takes: Takes, entries: int) -> Prior:
    """The prior that a release's estimate of a parameter uses.

    takes : what was drawn of it; entries : how many the table has.
    """
    if takes == "sum":
        return OfSum(entries=entries)
    return AROUND_MIDDLE if PARAMETERS[name].asset == "line" else LOG_UNIFORM


def log_uniform(share: Array, public: Range) -> Array:
    """Quantiles of a log-uniform value on public bounds; share in [0, 1]."""
    low, high = math.log(public.least), math.log(public.upper)
    return np.exp(low + (high - low) * share)


def around_middle(share: Array, public: Range) -> Array:
    """Quantiles of a value log-normal around the middle of public bounds, cut off at them."""
    from scipy.special import ndtr, ndtri

    low, high = math.log(public.least), math.log(public.upper)
    half = (high - low) / (2 * DEVIATION)
    within = ndtr(-half) + share * (ndtr(half) - ndtr(-half))
    return np.exp(np.clip(0.5 * (low + high) + DEVIATION * ndtri(within), low, high))
