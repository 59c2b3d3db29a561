"""Several releases of one grid: noise averages out as fast as the total ε allows."""

from __future__ import annotations

import numpy as np

from gridveil.grid.facts import Array
from gridveil.grid.parameters import Range
from gridveil.privacy.guarantee import GroupLoss

POINTS, PASSES, DEPTH = 2000, 3, 40.0


def combined(y: Array, loss: GroupLoss, bounds: Range) -> Array:
    """Mean of p(x | y_1 … y_R) ∝ Π p(y_r | x) / x on the bounds, for R noisy values each.

    y : (R, n) clipped noisy values, in the group's unit.
    loss : of one release. Returns (n,).
    """
    items = y.shape[1]
    low = np.full(items, np.log(bounds.least))
    high = np.full(items, np.log(bounds.upper))
    seen = np.log(y) if loss.relative else y
    mean = np.exp(0.5 * (low + high))
    for _ in range(PASSES):  # each on a finer grid, where the mass is
        s = low + (high - low) * np.linspace(0, 1, POINTS)[:, None]
        at = s if loss.relative else np.exp(s)
        depth = loss.mechanism.noise.depth(at, seen, loss.scale)
        depth -= depth.max(axis=0)
        step = (high - low) / (POINTS - 1)
        inside = depth > -DEPTH
        first, last = inside.argmax(axis=0), POINTS - 1 - inside[::-1].argmax(axis=0)
        density = np.exp(depth)
        mean = (np.exp(s) * density).sum(axis=0) / density.sum(axis=0)
        low, high = (
            np.maximum(low, low + (first - 1) * step),
            np.minimum(high, low + (last + 1) * step),
        )
    return mean
