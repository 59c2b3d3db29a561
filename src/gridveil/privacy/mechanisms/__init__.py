"""Mechanisms: what is drawn of a parameter, with which noise, and at what loss.

A new one is a class with the methods of `Mechanism`, in a file of its own, and a call of
`register`. Demos can use it at once. Real releases can, once it is among `PROVEN`, with its proof
in docs/privacy.md.
"""

from __future__ import annotations

from gridveil.privacy.mechanisms.additive import Additive
from gridveil.privacy.mechanisms.interface import (
    REGISTERED,
    Asked,
    Calibration,
    GroupLoss,
    Mechanism,
    Noise,
    Sampler,
    Takes,
    named,
    parts,
    register,
)
from gridveil.privacy.mechanisms.laplace import LAPLACE, ON_ITEMS, ON_SUMS
from gridveil.privacy.mechanisms.nothing import Nothing

PROVEN: tuple[Mechanism, ...] = (ON_ITEMS, ON_SUMS, Nothing(LAPLACE))
USUAL = LAPLACE
"""The noise that is meant where none is named."""

for _mechanism in PROVEN:
    register(_mechanism)


def for_demos_only(mechanism: Mechanism) -> bool:
    """Tell whether a mechanism serves demos alone: anything but the proven ones themselves does."""
    return not any(mechanism is one for one in PROVEN)


__all__ = [
    "PROVEN",
    "REGISTERED",
    "USUAL",
    "Additive",
    "Asked",
    "Calibration",
    "GroupLoss",
    "Mechanism",
    "Noise",
    "Sampler",
    "Takes",
    "for_demos_only",
    "named",
    "parts",
    "register",
]
