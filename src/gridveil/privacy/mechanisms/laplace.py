"""Laplace noise, calibrated and sampled by OpenDP: on every entry, on sums, and on means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from gridveil.foundation.errors import NOTHING_SPENT, BudgetExceeded, OptionError
from gridveil.foundation.interrupts import held
from gridveil.grid.facts import Array
from gridveil.privacy.epsilon import float_at_least, float_at_most
from gridveil.privacy.mechanisms.additive import Additive
from gridveil.privacy.mechanisms.interface import Calibration, Noise

NODES = 16


@dataclass(frozen=True)
class Laplace(Noise):
    """Noise of density exp(−|z|) / 2 at scale 1: ε-DP at scale α/ε (proof in docs/privacy.md)."""

    name = "Laplace"
    measured_by = "make_laplace"
    reach = 45.0  # where the density is below 1e-19 of its peak

    def calibrate(self, distance: Fraction, epsilon: Fraction, size: int) -> Calibration:
        """About distance/ε, as OpenDP's own map has it."""
        return calibrate(distance, epsilon, size)

    def measurement(self, size: int, scale: Any) -> Callable[[list[Any]], list[Any]]:
        """OpenDP's discretised Laplace, in exact arithmetic."""
        return _measurement(_space(size), scale)

    def seeded(self, random: np.random.Generator, scale: Any, size: int | tuple[int, ...]) -> Array:
        """NumPy's, in floating point."""
        return random.laplace(0.0, scale, size=size)

    @property
    def deviation(self) -> float:
        """√2."""
        return math.sqrt(2)

    def cdf(self, z: Array) -> Array:
        """½ e^z below 0, 1 − ½ e^(−z) above."""
        return np.where(z < 0, 0.5 * np.exp(-np.abs(z)), 1 - 0.5 * np.exp(-np.abs(z)))

    def quantile(self, share: Array) -> Array:
        """∓ log(1 − 2 |share|)."""
        return -np.sign(share) * np.log1p(-2 * np.abs(share))

    def likelihood(self, apart: Array, scale: Array, clipped: Array) -> Array:  # noqa: ARG002
        """exp(−|x − y|/b), at a clip value as well: P(y = lower | x) = ½ exp(−(x − lower)/b)."""
        return np.exp(-np.abs(apart) / scale)

    def ratio(self, z: Array, loss: Any) -> Array:
        """2 z, and no more than the loss to either side."""
        return np.clip(2 * z, -loss, loss)

    def advantage(self, losses: Sequence[float]) -> float:
        """E[(1 − e^(−ℓ))⁺] under one of the two hypotheses.

        One coordinate alone gives 1 − e^(−ε/2); more are integrated one by one.

        >>> [round(Laplace().advantage([eps]), 3) for eps in (0.5, 1, 2)]
        [0.221, 0.393, 0.632]
        >>> [round(Laplace().advantage([eps / 2] * 2), 3) for eps in (0.5, 1, 2)]
        [0.124, 0.242, 0.448]
        >>> [round(Laplace().advantage([eps / 3] * 3), 3) for eps in (0.5, 1, 2)]
        [0.12, 0.229, 0.418]
        """
        return float(_expected(tuple(float(loss) for loss in losses), np.array(0.0)))

    def depth(self, x: Array, y: Array, scale: float) -> Array:
        """−Σ |x − y| / b, from the sums of those y below and above each x."""
        y = np.sort(y, axis=0)
        count, items = y.shape
        before = np.concatenate([np.zeros((1, items)), np.cumsum(y, axis=0)])
        below = np.stack([np.searchsorted(y[:, item], x[:, item]) for item in range(items)], axis=1)
        under = np.take_along_axis(before, below, axis=0)
        apart = (below * x - under) + (before[-1] - under - (count - below) * x)
        return -apart / scale


@cache
def calibrate(distance: Fraction, epsilon: Fraction, size: int) -> Calibration:
    """Find the least scale with loss ≤ ε for a change by a distance: about distance/ε, a last bit
    above it where needed.

    Privacy
    -------
    OpenDP samples a discretised Laplace in exact arithmetic; its `map` counts the rounding to the
    grid as well, so a plain α/ε may overspend in the last bit. ε is rounded down and α up to floats
    before OpenDP sees them, and what `map` says is compared with the exact ε.
    """
    dp = opendp()
    d_in, d_out = float_at_least(distance), float_at_most(epsilon)
    try:
        with held():  # an exception that passes through OpenDP's own code aborts the process
            space = _space(size)
            scale = dp.binary_search_param(lambda s: _measurement(space, s), d_in=d_in, d_out=d_out)
            spent = _measurement(space, scale).map(d_in)
    except Exception as error:
        raise OptionError(
            f"OpenDP finds no noise scale for α = {d_in:g} at ε = {d_out:g} "
            f"({type(error).__name__}).",
            outcome=NOTHING_SPENT,
            remedy="Choose α and ε of ordinary size (between 1e-6 and 1e6).",
        ) from None
    if not (np.isfinite(scale) and scale > 0):
        raise OptionError(f"The noise scale came out as {scale!r}.", outcome=NOTHING_SPENT)
    if Fraction(spent) > epsilon:
        raise BudgetExceeded(
            f"The mechanism would spend {spent!r}, above ε = {epsilon}.",
            outcome=NOTHING_SPENT,
        )
    return Calibration(scale, spent)


def _space(size: int) -> Any:
    dp = opendp()
    return dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size), dp.l1_distance(T=float)


def _measurement(space: Any, scale: float) -> Any:
    from opendp.measurements import make_laplace

    return make_laplace(*space, scale=scale)


def opendp() -> Any:
    """OpenDP's module, imported where it is used: it takes 0.3 s."""
    import opendp.prelude as dp

    dp.enable_features("contrib")  # pyright: ignore[reportPrivateImportUsage]
    return dp


def _expected(losses: tuple[float, ...], start: Array) -> Array:
    """E[(1 − e^(−(start + Σ ℓ_c)))⁺] for starts of any shape.

    ℓ_c is ε_c with probability ½, −ε_c with ½ e^(−ε_c), and in between has the density ¼ e^(−(ε_c −
    t)/2).
    """
    if not losses:
        return np.maximum(0.0, -np.expm1(-start))
    loss, rest = losses[-1], losses[:-1]
    ends = 0.5 * _expected(rest, start + loss) + 0.5 * math.exp(-loss) * _expected(
        rest, start - loss
    )
    # The inner expectation has kinks where start + t is a sum of ±ε of the rest; Gauss-Legendre
    # works from one to the next.
    kinks = np.array(sorted({sum(signs) for signs in product(*((-one, one) for one in rest))}))
    cuts = np.clip(np.concatenate([[-np.inf], kinks, [np.inf]]) - start[..., None], -loss, loss)
    low, width = cuts[..., :-1, None], np.diff(cuts)[..., None]
    node, weight = np.polynomial.legendre.leggauss(NODES)
    t = low + 0.5 * width * (node + 1)
    inner = np.exp(-(loss - t) / 2) * _expected(rest, start[..., None, None] + t)
    return ends + 0.125 * (width * weight * inner).sum(axis=(-2, -1))


LAPLACE = Laplace()
ON_ITEMS = Additive("items", LAPLACE)
ON_SUMS = Additive("sum", LAPLACE, "sum", "their sum", "their sum")
ON_MEANS = Additive("mean", LAPLACE, "mean", "their mean", "their mean")
