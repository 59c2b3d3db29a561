"""Rows of joint noise, brought to what is uniform and independent, clip values included.

A clip value hides the noise behind it, on which the law of the row's other values depends. So it is
first drawn again, from its law given all that is seen of the row: what comes out has the law of
honest noise if the noise is honest, and each value's distribution function given those before it is
then uniform.
"""

from __future__ import annotations

import numpy as np

from gridveil.grid.facts import Array
from gridveil.privacy.mechanisms import Box

TRIES = 2000  # of a rejection; honest noise needs as many as there are kinds of clipped rows


def row_uniforms(
    z: Array, low: Array, high: Array, noise: Box, random: np.random.Generator | None = None
) -> Array:
    """Bring rows z (n, d) of noise, in scales, to what is uniform on (0, 1) and independent.

    low, high : (n, d) where the clip values lie: z ≤ low and z ≥ high stand for anything beyond.
    """
    return noise.independent(restored(z, low, high, random or np.random.default_rng()))


def restored(z: Array, low: Array, high: Array, random: np.random.Generator) -> Array:
    """Draw what clip values hide, given the rest of their row.

    A row is uniform on ±R in each of its d values, R ~ Gamma(d + 1). Given k values, the largest of
    which is M, R has the density ∝ R^(d − k) e^(−R) beyond M; that the others lie beyond their clip
    values has the probability Π (R − clip)/(2R), by which R is kept.
    """
    from scipy.special import gammaincc, gammainccinv

    below, above = z <= low, z >= high
    hidden = below | above
    # mirrored, every hidden value lies above its clip value
    clip = np.where(above, high, -low)
    least = np.where(hidden, np.maximum(clip, 0.0), np.abs(z)).max(axis=1)
    shape = 1.0 + hidden.sum(axis=1)
    radius, left = least.copy(), np.flatnonzero(hidden.any(axis=1))
    for _ in range(TRIES):
        if not left.size:
            break
        beyond = random.random(left.size) * gammaincc(shape[left], least[left])
        tried = gammainccinv(shape[left], beyond)
        tried = np.where(
            np.isfinite(tried), tried, least[left] + random.exponential(size=left.size)
        )
        share = np.where(
            hidden[left], np.clip((tried[:, None] - clip[left]) / (2 * tried[:, None]), 0, 1), 1.0
        )
        radius[left] = tried
        left = left[random.random(left.size) >= share.prod(axis=1)]
    start = np.maximum(clip, -radius[:, None])
    drawn = start + random.random(z.shape) * (radius[:, None] - start)
    return np.where(hidden, np.where(above, drawn, -drawn), z)
