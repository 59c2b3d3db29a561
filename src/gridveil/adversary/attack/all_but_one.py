"""The all-but-one adversary: knows all parameters but one asset's, and its two possible values.

Of each coordinate c that differs by α_c between the two, noise of scale b_c leaves the
log-likelihood ratio ℓ_c = clip(2 z_c, ±ε_c), with ε_c = α_c/b_c and z_c the output's distance from
the middle in scales; ℓ = Σ ℓ_c is the best test there is, and guessing by its sign has the largest
advantage, TPR − FPR = 2 P(right) − 1: the total variation distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from gridveil.grid.facts import Array

NODES = 16


def exact_advantage(losses: Sequence[float]) -> float:
    """Advantage of the best test against Laplace noise, E[(1 − e^(−ℓ))⁺] under one hypothesis.

    losses : ε_c of the coordinates that differ. One alone gives 1 − e^(−ε/2); more are integrated
    one by one.

    >>> [round(exact_advantage([eps]), 3) for eps in (0.5, 1, 2)]
    [0.221, 0.393, 0.632]
    >>> [round(exact_advantage([eps / 2] * 2), 3) for eps in (0.5, 1, 2)]
    [0.124, 0.242, 0.448]
    >>> [round(exact_advantage([eps / 3] * 3), 3) for eps in (0.5, 1, 2)]
    [0.12, 0.229, 0.418]
    """
    return float(_expected(tuple(float(loss) for loss in losses), np.array(0.0)))


def bound(epsilon: float) -> float:
    """The advantage that no test against anything ε-DP exceeds: (e^ε − 1)/(e^ε + 1) = tanh(ε/2)."""
    return math.tanh(epsilon / 2)


def _expected(losses: tuple[float, ...], start: Array) -> Array:
    """E[(1 − e^(−(start + Σ ℓ_c)))⁺] for starts of any shape.

    ℓ_c is ε_c with probability ½, −ε_c with ½ e^(−ε_c), and in between has the density ¼ e^(−(ε_c −
    t)/2).
    """
    if not losses:
        return np.maximum(0.0, -np.expm1(-start))
    loss, rest = losses[-1], losses[:-1]
    ends = 0.5 * _expected(rest, start + loss) + 0.5 * math.exp(-loss) * _expected(
        rest, start - loss
    )
    # The inner expectation has kinks where start + t is a sum of ±ε of the rest; Gauss-Legendre
    # works from one to the next.
    kinks = np.array(sorted({sum(signs) for signs in product(*((-part, part) for part in rest))}))
    cuts = np.clip(np.concatenate([[-np.inf], kinks, [np.inf]]) - start[..., None], -loss, loss)
    low, width = cuts[..., :-1, None], np.diff(cuts)[..., None]
    node, weight = np.polynomial.legendre.leggauss(NODES)
    t = low + 0.5 * width * (node + 1)
    inner = np.exp(-(loss - t) / 2) * _expected(rest, start[..., None, None] + t)
    return ends + 0.125 * (width * weight * inner).sum(axis=(-2, -1))
