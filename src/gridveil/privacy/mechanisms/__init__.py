"""Mechanisms: what is drawn of a parameter, with which noise, and at what loss.

A new one is an object with the methods of `Mechanism`, in a file of its own. Demos can use it
within `registered`; real releases, once it is among `PROVEN`, with its proof in docs/privacy.md.
"""

from __future__ import annotations

from gridveil.privacy.mechanisms.additive import Additive
from gridveil.privacy.mechanisms.box import Box
from gridveil.privacy.mechanisms.hexagon import HEXAGONS, Hexagon
from gridveil.privacy.mechanisms.interface import (
    NOISY,
    REGISTERED,
    Asked,
    Calibration,
    GroupLoss,
    Mechanism,
    Noise,
    Sampler,
    Takes,
    drawn_jointly,
    named,
    parts,
    registered,
)
from gridveil.privacy.mechanisms.joint import ON_ASSET_MEANS, ON_ASSETS, Joint
from gridveil.privacy.mechanisms.laplace import LAPLACE, ON_ITEMS, ON_MEANS, ON_SUMS
from gridveil.privacy.mechanisms.nothing import Nothing, Published

PROVEN: tuple[Mechanism, ...] = (
    ON_ITEMS,
    ON_SUMS,
    ON_MEANS,
    ON_ASSETS,
    ON_ASSET_MEANS,
    *HEXAGONS,
    Nothing(LAPLACE),
    Published(LAPLACE),
)
USUAL = LAPLACE
"""The noise that is meant where none is named."""

REGISTERED.update({mechanism.name: mechanism for mechanism in PROVEN})


def for_demos_only(mechanism: Mechanism) -> bool:
    """Tell whether a mechanism serves demos alone: anything but the proven ones themselves does."""
    return not any(mechanism is one for one in PROVEN)


__all__ = [
    "HEXAGONS",
    "NOISY",
    "PROVEN",
    "REGISTERED",
    "USUAL",
    "Additive",
    "Asked",
    "Box",
    "Calibration",
    "GroupLoss",
    "Hexagon",
    "Joint",
    "Mechanism",
    "Noise",
    "Sampler",
    "Takes",
    "drawn_jointly",
    "for_demos_only",
    "named",
    "parts",
    "registered",
]
