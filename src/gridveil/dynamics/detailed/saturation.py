"""Quadratic saturation as in PSS/E: S(E) = B (E − A)² / E through two points."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridveil.dynamics.detailed.dual import Number, real, where


def quadratic(E: Number, first: tuple[Any, Any], second: tuple[Any, Any]) -> Number:
    """E S(E) = B (E − A)² above A and nothing below; each point is (E, S(E)).

    Where a point has no saturation there is none at all: files say "none" with zeros in either.
    """
    (E1, S1), (E2, S2) = first, second
    bent = (np.real(E1 * S1) != 0) & (np.real(E2 * S2) != 0) & (np.real(E1 - E2) != 0)
    root = np.sqrt(np.where(bent, E1 * S1, 0.25) / np.where(bent, E2 * S2, 1.0))
    apart = np.where(bent, E1 - E2, 1.0)
    start = E2 - apart / (root - 1)
    gain = np.where(bent, E2 * S2 * ((root - 1) / apart) ** 2, 0.0)
    above = E - start
    return where(real(above) > 0, gain * above * above, 0.0 * above)
