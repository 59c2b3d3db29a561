"""Samplers: the secure one (OpenDP), and a seeded one whose every result is a demo for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

import numpy as np

from gridveil.foundation.errors import NOTHING_SPENT, BudgetExceeded, OptionError
from gridveil.foundation.interrupts import held
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import Array
from gridveil.privacy.epsilon import float_at_least, float_at_most


@dataclass(frozen=True)
class Calibration:
    """A Laplace scale and the exact privacy loss that OpenDP's own map gives for it.

    scale : [the group's unit]; spent : ε of a change by α, never above the ε that was asked for.
    """

    scale: float
    spent: float


class Sampler(Protocol):
    """Adds Laplace noise of a scale to a vector."""

    @property
    def mechanism(self) -> str:
        """Name and version, for the guarantee."""
        ...

    def draw(self, values: Array, scale: float) -> Array:
        """Return values (n,) + Lap(scale)."""
        ...


def makes_demo(sampler: Sampler) -> bool:
    """Tell whether what a sampler draws is a demo: anything but `SecureSampler` itself, even a
    subclass, is.
    """
    return type(sampler) is not SecureSampler


@cache
def calibrate(alpha: Fraction, epsilon: Fraction, size: int) -> Calibration:
    """Find the least scale with loss ≤ ε for a change of α: about α/ε, a last bit above it where
    needed.

    Privacy
    -------
    OpenDP samples a discretised Laplace in exact arithmetic; its `map` counts the rounding to the
    grid as well, so a plain α/ε may overspend in the last bit. ε is rounded down and α up to floats
    before OpenDP sees them, and what `map` says is compared with the exact ε.
    """
    dp = _opendp()
    d_in, d_out = float_at_least(alpha), float_at_most(epsilon)
    try:
        with held():  # an exception that passes through OpenDP's own code aborts the process
            space = _space(size)
            scale = dp.binary_search_param(
                lambda s: dp.m.make_laplace(*space, scale=s), d_in=d_in, d_out=d_out
            )
            spent = dp.m.make_laplace(*space, scale=scale).map(d_in)
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


class SecureSampler:
    """OpenDP's Laplace: exact sampling from a cryptographic generator that the operating system
    seeds; we cannot.
    """

    @property
    def mechanism(self) -> str:
        """Name and version, for the guarantee."""
        from importlib.metadata import version

        return f"OpenDP {version('opendp')} make_laplace"

    @sealed
    def draw(self, values: Array, scale: float) -> Array:
        """Release values + Lap(scale).

        Privacy
        -------
        OpenDP checks nothing on call (NaN becomes 0, inf becomes 1.8e308, a wrong length passes,
        scale 0 publishes the truth), so values and scale are checked here first.
        """
        _check_draw(values, scale)
        released = _opendp().m.make_laplace(*_space(len(values)), scale=scale)(values.tolist())
        return np.asarray(released, dtype=np.float64)


class DemoSampler:
    """Seeded floating-point Laplace noise, for demos and tests.

    Known seed, no privacy: results are marked.
    """

    mechanism = "seeded NumPy Laplace (demo: no privacy)"

    def __init__(self, seed: int | Sequence[int]) -> None:
        if np.min(seed) < 0:
            raise OptionError(
                "The seed is negative.",
                expected="a whole number of 0 or more",
                outcome="Nothing was drawn.",
            )
        self._random = np.random.default_rng(seed)

    @sealed
    def draw(self, values: Array, scale: float) -> Array:
        """Return values + Lap(scale) from the seeded generator."""
        _check_draw(values, scale)
        return values + self._random.laplace(0.0, scale, size=len(values))


def _check_draw(values: Array, scale: float) -> None:
    if values.ndim != 1 or values.dtype != np.float64 or not np.isfinite(values).all():
        raise OptionError(
            "The values to perturb are not a finite vector.", outcome="Nothing was drawn."
        )
    if not (np.isfinite(scale) and scale > 0):
        raise OptionError(
            "The noise scale is not a finite number above 0.", outcome="Nothing was drawn."
        )


def _space(size: int) -> Any:
    dp = _opendp()
    return dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size), dp.l1_distance(T=float)


def _opendp() -> Any:
    """OpenDP's module, imported where it is used: it takes 0.3 s."""
    import opendp.prelude as dp

    dp.enable_features("contrib")  # pyright: ignore[reportPrivateImportUsage]
    return dp
