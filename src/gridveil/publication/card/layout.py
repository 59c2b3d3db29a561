"""Where the buses of a drawing stand: near where lines are strong, never on one another.

Every machine must draw a bundle's card alike, to the byte. So coordinates come from additions,
products, quotients and square roots alone, in one order, which IEEE 754 fixes; no LAPACK, no sums
whose order depends on the processor.
"""

from __future__ import annotations

from math import cos, pi, sin

import numpy as np

from gridveil.grid.facts import Array, IntArray

LONGEST = 6.0  # a weak line, in lengths of the strongest
# Rounds of either kind, of few buses and of more than MANY, where each takes longer.
MANY, ROUNDS, ROUNDS_OF_MANY = 100, 120, 30


def lengths(count: int, edges: IntArray, weights: Array) -> Array:
    """Distances to draw, (n, n): a line of weight k is √(k_max / k) long, others the shortest way.

    edges : (e, 2); weights : (e,), of any unit, those of 0 are no lines.
    """
    d = np.full((count, count), np.inf)
    d[range(count), range(count)] = 0.0
    real = weights > 0
    own = np.minimum(np.sqrt(weights[real].max(initial=0.0) / weights[real]), LONGEST)
    i, j = edges[real].T
    for a, b in ((i, j), (j, i)):  # the shorter of parallel lines
        np.minimum.at(d, (a, b), own)
    for via in range(count):
        d = np.minimum(d, d[:, via : via + 1] + d[via : via + 1])
    return np.where(np.isfinite(d), d, LONGEST)


def places(d: Array, box: tuple[int, int], apart: int) -> IntArray:
    """Coordinates (n, 2) inside a box whose distances are near d, by majorisation of their stress
    Σ (|x_i − x_j| − d_ij)² / d_ij², from a circle.

    apart : least distance of two, as far as there is room.
    """
    n = len(d)
    x = np.array([[_known(cos, i, n), _known(sin, i, n)] for i in range(n)]) * d.max(initial=1.0)
    safe = np.where(d > 0, d, 1.0)
    weight = np.where(d > 0, 1 / (safe * safe), 0.0)
    total = np.maximum(_summed(weight), 1e-12)[:, None]
    for _ in range(_rounds(n)):
        gap = x[:, None] - x[None]
        far = np.maximum(np.sqrt(gap[..., 0] * gap[..., 0] + gap[..., 1] * gap[..., 1]), 1e-9)
        pull = (weight * (d / far))[..., None] * gap
        x = (_summed(weight[..., None] * x[:, None]) - _summed(pull)) / total
    return _apart(_into(x, box), box, apart)


def _rounds(count: int) -> int:
    return ROUNDS if count <= MANY else ROUNDS_OF_MANY


def _known(turn: object, i: int, n: int) -> float:
    """A point of the circle, to six digits: libraries differ in the last of sixteen."""
    return round(turn(2 * pi * i / n), 6)  # pyright: ignore[reportCallIssue]


def _summed(values: Array) -> Array:
    """Sum over the first axis, one after the other."""
    total = np.zeros(values.shape[1:])
    for row in values:
        total = total + row
    return total


def _into(x: Array, box: tuple[int, int]) -> Array:
    """Stretch coordinates to a box, one side at most twice as much as the other."""
    low, high = x.min(axis=0), x.max(axis=0)
    size = np.maximum(high - low, 1e-9)
    factor = np.array(box) / size
    factor = np.minimum(factor, 2 * factor.min())
    return np.array(box) / 2 + (x - (low + high) / 2) * factor


def _apart(x: Array, box: tuple[int, int], least: int) -> IntArray:
    """Push those that are too near to one another, and keep all inside the box."""
    for _ in range(_rounds(len(x))):
        gap = x[:, None] - x[None]
        # Of two in one place, the later goes to the right.
        order = np.sign(np.arange(len(x))[:, None] - np.arange(len(x))[None]) * 1e-3
        gap = gap + order[..., None]
        far = np.sqrt(gap[..., 0] * gap[..., 0] + gap[..., 1] * gap[..., 1])
        far[range(len(x)), range(len(x))] = least
        push = np.maximum(least - far, 0.0) / (2 * far)
        if not push.any():
            break
        x = x - _summed(push[..., None] * gap)
        x = np.minimum(np.maximum(x, 0.0), np.array(box, dtype=float))
    return np.floor(x + 0.5).astype(np.int64)
