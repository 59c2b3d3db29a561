"""Several releases of one grid: noise averages out as fast as the total ε allows."""

from __future__ import annotations

import numpy as np

from gridveil.grid.facts import Array
from gridveil.grid.parameters import Range
from gridveil.privacy.guarantee import GroupLoss

POINTS, PASSES, DEPTH = 2000, 3, 40.0


def combined(y: Array, loss: GroupLoss, bounds: Range) -> Array:
    """Mean of p(x | y_1 … y_R) ∝ Π exp(−|x − y_r|/b) / x on the bounds, for R noisy values each.

    y : (R, n) clipped noisy values, in the group's unit.
    loss : of one release, with its scale b. Returns (n,).
    """
    y = np.sort(y, axis=0)
    count, items = y.shape
    low = np.full(items, np.log(bounds.least))
    high = np.full(items, np.log(bounds.upper))
    seen = np.log(y) if loss.relative else y
    before = np.concatenate([np.zeros((1, items)), np.cumsum(seen, axis=0)])
    mean = np.exp(0.5 * (low + high))
    for _ in range(PASSES):  # each on a finer grid, where the mass is
        s = low + (high - low) * np.linspace(0, 1, POINTS)[:, None]
        at = s if loss.relative else np.exp(s)
        below = np.stack(
            [np.searchsorted(seen[:, item], at[:, item]) for item in range(items)], axis=1
        )
        under = np.take_along_axis(before, below, axis=0)
        # Σ_r |x − y_r| from the sums of those below and above x.
        apart = (below * at - under) + (before[-1] - under - (count - below) * at)
        depth = -apart / loss.scale
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
