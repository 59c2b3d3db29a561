"""Samplers: the secure one (OpenDP), and a seeded one whose every result is a demo for ever."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from gridveil.foundation.arguments import several, takes, whole
from gridveil.foundation.errors import OptionError
from gridveil.foundation.looks import looks
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import Array
from gridveil.privacy.mechanisms import Noise, Sampler


def makes_demo(sampler: Sampler) -> bool:
    """Tell whether what a sampler draws is a demo: anything but `SecureSampler` itself, even a
    subclass, is.
    """
    return type(sampler) is not SecureSampler


@looks(lambda _: "of OpenDP: cryptographic noise, no seed")
@takes(outcome="Nothing was drawn.")
class SecureSampler:
    """OpenDP's noise, and joint noise made of it: exact sampling from cryptographic generators that
    the operating system seeds; we cannot.
    """

    def __init__(self) -> None:
        pass

    def in_words(self, noises: Sequence[Noise]) -> str:
        """OpenDP with its version, and what of it samples each noise."""
        return f"OpenDP {version('opendp')} {', '.join(noise.measured_by for noise in noises)}"

    @sealed
    def draw(self, values: Array, scale: Any, noise: Noise) -> Array:
        """Release values (n,) + noise of a scale, or rows (n, d) + joint noise of scales (d,).

        Privacy
        -------
        OpenDP checks nothing on call (NaN becomes 0, inf becomes 1.8e308, a wrong length passes,
        scale 0 publishes the truth), so values and scale are checked here first.
        """
        _check_draw(values, scale)
        released = noise.measurement(len(values), scale)(values.tolist())
        return np.asarray(released, dtype=np.float64)


_SEED = "a whole number of 0 or more, or several"


@looks(lambda _: "of a known seed: what it draws is a demo for ever")
@takes(outcome="Nothing was drawn.", seed=several(whole(_SEED), _SEED))
class DemoSampler:
    """Seeded floating-point noise, for demos and tests.

    Known seed, no privacy: results are marked.
    """

    def __init__(self, seed: int | Sequence[int]) -> None:
        self._random = np.random.default_rng(seed)

    def in_words(self, noises: Sequence[Noise]) -> str:
        """NumPy, the noises, and that it is a demo."""
        return f"seeded NumPy {', '.join(noise.name for noise in noises)} (demo: no privacy)"

    @sealed
    def draw(self, values: Array, scale: Any, noise: Noise) -> Array:
        """Return values + noise of a scale from the seeded generator; shapes as of the secure
        one.
        """
        _check_draw(values, scale)
        return values + noise.seeded(self._random, scale, values.shape)


def _check_draw(values: Array, scale: Any) -> None:
    if values.ndim not in (1, 2) or values.dtype != np.float64 or not np.isfinite(values).all():
        raise OptionError(
            "The values to perturb are not a finite vector, nor rows of finite numbers.",
            outcome="Nothing was drawn.",
        )
    if np.shape(scale) != values.shape[1:]:
        raise OptionError(
            "The noise does not have one scale for each column.", outcome="Nothing was drawn."
        )
    if not (np.isfinite(scale) & (np.asarray(scale) > 0)).all():
        raise OptionError(
            "The noise scale is not a finite number above 0.", outcome="Nothing was drawn."
        )
