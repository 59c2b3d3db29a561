"""Rows of joint noise, brought to what is uniform and independent, clip values included.

A clip value hides the noise behind it, on which the law of the row's other values depends. So it is
first drawn again, from its law given all that is seen of the row: what comes out has the law of
honest noise if the noise is honest, and each value's distribution function given those before it is
then uniform.
"""

from __future__ import annotations

import numpy as np

from gridveil.grid.facts import Array
from gridveil.privacy.mechanisms import Box, Hexagon, Noise
from gridveil.privacy.mechanisms.interface import HALVINGS

TRIES = 2000  # of a rejection; honest noise needs as many as there are kinds of clipped rows


def row_uniforms(
    z: Array, low: Array, high: Array, noise: Noise, random: np.random.Generator | None = None
) -> Array:
    """Bring rows z (n, d) of noise, in scales, to what is uniform on (0, 1) and independent.

    low, high : (n, d) where the clip values lie: z ≤ low and z ≥ high stand for anything beyond.
    """
    random = random or np.random.default_rng()
    if isinstance(noise, Hexagon):
        return noise.independent(restored_pairs(z, low, high, noise, random))
    assert isinstance(noise, Box), "the law of a row"
    return noise.independent(restored(z, low, high, random))


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


def restored_pairs(
    z: Array, low: Array, high: Array, noise: Hexagon, random: np.random.Generator
) -> Array:
    """Draw what clip values hide of pairs: both values until they lie beyond their clip values, and
    one by its law given the other.
    """
    below, above = z <= low, z >= high
    hidden, out = below | above, z.copy()
    both = np.flatnonzero(hidden.all(axis=1))
    for _ in range(TRIES):
        if not both.size:
            break
        out[both] = noise.seeded(random, 1.0, (both.size, 2))
        beyond = np.where(above[both], out[both] >= high[both], out[both] <= low[both])
        both = both[~beyond.all(axis=1)]
    for column in (0, 1):
        some = np.flatnonzero(hidden[:, column] & ~hidden[:, 1 - column])
        out[some, column] = _beyond(
            noise,
            column,
            out[some, 1 - column],
            np.where(above[some, column], high[some, column], -low[some, column]),
            random,
        ) * np.where(above[some, column], 1.0, -1.0)
    return out


def _beyond(
    noise: Hexagon, column: int, seen: Array, clip: Array, random: np.random.Generator
) -> Array:
    """Draw one value of pairs (n,) beyond its clip value, given the other: exponential in pieces,
    which meet at ± |seen| and at 0.
    """
    c, size = float(noise.c), np.abs(seen)
    # slopes of the norm within ± |seen| and outside
    inner, outer = (0.0, c) if column == 0 else (1 - c, 1.0)

    def norm(t: Array) -> Array:
        return inner * np.minimum(t, size) + outer * np.maximum(t - size, 0.0)

    def tail(t: Array) -> Array:
        """∫ from t ≥ 0 on, of e^(−norm)."""
        far = np.exp(-norm(np.maximum(t, size))) / outer
        near = np.minimum(t, size)
        if inner == 0:
            return far + (size - near)
        return far + (np.exp(-inner * near) - np.exp(-inner * size)) / inner

    def above(t: Array) -> Array:
        """∫ from t on, of either sign."""
        return np.where(t >= 0, tail(np.abs(t)), 2 * tail(np.zeros(size.shape)) - tail(np.abs(t)))

    wanted = random.random(size.shape) * above(clip)
    low, high = clip.copy(), np.maximum(np.maximum(clip, size), 0.0) + noise.reach
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        under = above(middle) > wanted
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return (low + high) / 2
