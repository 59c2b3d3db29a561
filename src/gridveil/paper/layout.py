"""Where to draw the buses of a network: distances on paper follow distances along lines."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from gridveil.grid.facts import Array, IntArray


def place(edges: IntArray, n: int, rounds: int = 300) -> Array:
    """Place n buses (n, 2) by stress majorisation from their spectral embedding; deterministic."""
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    distance = shortest_path(graph, directed=False, unweighted=True)
    centred = -0.5 * (np.eye(n) - 1 / n) @ distance**2 @ (np.eye(n) - 1 / n)
    values, vectors = np.linalg.eigh(centred)
    spot = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-9))
    spot += 1e-3 * np.random.default_rng(0).normal(size=spot.shape)
    weight = np.where(distance > 0, 1 / np.maximum(distance, 1) ** 2, 0.0)
    V = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.pinv(V)
    for _ in range(rounds):
        apart = np.linalg.norm(spot[:, None] - spot[None], axis=2)
        ratio = np.where(apart > 1e-12, weight * distance / np.maximum(apart, 1e-12), 0.0)
        spot = inverse @ ((np.diag(ratio.sum(axis=1)) - ratio) @ spot)
    return spot
