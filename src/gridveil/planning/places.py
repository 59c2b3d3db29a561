"""Places in a law that cover it evenly: where the noise of trials lies, never privacy noise."""

from __future__ import annotations

import numpy as np

from gridveil.grid.facts import Array


def even_places(random: np.random.Generator, draws: int, size: int) -> Array:
    """Draw places in a law, −½ to ½ (draws, size), by a Latin hypercube: each column covers them
    evenly.

    Quantiles over the draws then vary much less than those of independent ones. For trials only,
    never as privacy noise.
    """
    strata = random.permuted(np.tile(np.arange(draws), (size, 1)), axis=1).T
    return (strata + random.random((draws, size))) / draws - 0.5


def joint_places(random: np.random.Generator, draws: int, size: int) -> Array:
    """Draw places in a law, −½ to ½ (draws, size), of which any few in a row cover all columns
    together evenly: a shifted lattice, each point with its mirror image in every other column.

    Of joint noise the second value depends on the first, so that even columns are not enough. For
    trials only, never as privacy noise.
    """
    root = 2.0
    for _ in range(64):  # root^(size + 1) = root + 1: the golden ratio, and its kin
        root = (1 + root) ** (1 / (size + 1))
    steps, half = root ** -np.arange(1.0, size + 1), np.arange((draws + 1) // 2)[:, None]
    points = (half * steps + random.random(size)) % 1.0 - 0.5
    mirror = points * (-1.0) ** np.arange(size)
    return np.stack([points, mirror], axis=1).reshape(-1, size)[:draws]
