"""Section II-D of the paper: what a Kron-reduced network gives away about the one it came from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gridveil.adversary.attack.network import recover_star
from gridveil.dynamics.kron import edge_weights, kron_reduce, laplacian
from gridveil.grid.facts import Array, IntArray

STAR_WEIGHTS = np.array([4.0, 10.0, 16.0, 10.0])


def star_edges(leaves: int) -> IntArray:
    """Edges of a star whose centre is the last bus."""
    return np.array([[leaf, leaves] for leaf in range(leaves)])


@dataclass(frozen=True)
class Inverted:
    """An inversion of a Kron reduction with known topology.

    unknowns : edges of the original.
    equations : edges of the reduced network.
    rank : of the Jacobian ∂k'/∂k;
    error : largest relative error of the recovered weights, NaN where they are not determined.
    """

    name: str
    unknowns: int
    equations: int
    rank: int
    error: float


def cases() -> list[Inverted]:
    """Over-, well- and under-determined case: 5-bus star, Y-Δ, two interior buses in a row."""
    star = edge_weights(kron_reduce(laplacian(star_edges(4), STAR_WEIGHTS, 5), np.arange(4))[0])
    y_delta = np.array([2.0, 3.0, 5.0])
    delta = edge_weights(kron_reduce(laplacian(star_edges(3), y_delta, 4), np.arange(3))[0])
    row = np.array([[0, 2], [2, 3], [3, 1]])
    return [
        Inverted(
            "overdetermined: 5-bus star",
            4,
            6,
            _rank(star_edges(4), STAR_WEIGHTS, 5, 4),
            _error(recover_star(star, 4), STAR_WEIGHTS),
        ),
        Inverted(
            "well-determined: Y-Δ",
            3,
            3,
            _rank(star_edges(3), y_delta, 4, 3),
            _error(recover_star(delta, 3), y_delta),
        ),
        Inverted(
            "underdetermined: two buses in a row",
            3,
            1,
            _rank(row, np.array([2.0, 3.0, 6.0]), 4, 2),
            float("nan"),
        ),
    ]


def _rank(edges: IntArray, k: Array, buses: int, kept: int) -> int:
    """Rank of ∂k'/∂k by central differences."""
    columns = []
    for edge in range(len(k)):
        step = np.zeros_like(k)
        step[edge] = 1e-5 * k[edge]
        ends = [
            edge_weights(kron_reduce(laplacian(edges, k + sign * step, buses), np.arange(kept))[0])
            for sign in (1, -1)
        ]
        columns.append((ends[0] - ends[1]) / (2 * step[edge]))
    return int(np.linalg.matrix_rank(np.stack(columns, axis=1), tol=1e-6))


def _error(recovered: Array, truth: Array) -> float:
    return float(np.abs(recovered / truth - 1).max())
