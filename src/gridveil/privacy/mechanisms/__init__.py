"""Mechanisms: what is drawn of a parameter, with which noise, and at what loss.

A new one is an object with the methods of `Mechanism`, in a file of its own. Demos can use it
within `registered`; real releases, once it is among `PROVEN`, with its proof in docs/privacy.md.
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
    registered,
)
from gridveil.privacy.mechanisms.laplace import LAPLACE, ON_ITEMS, ON_SUMS
from gridveil.privacy.mechanisms.nothing import Nothing

PROVEN: tuple[Mechanism, ...] = (ON_ITEMS, ON_SUMS, Nothing(LAPLACE))
USUAL = LAPLACE
"""The noise that is meant where none is named."""

REGISTERED.update({mechanism.name: mechanism for mechanism in PROVEN})


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
    "registered",
]
