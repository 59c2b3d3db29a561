"""Edges from a release whose topology the attacker does not know: equal columns of K_ac, then a
sparse Laplacian fit.

With X the shares [I, K_ac]ᵀ of the ports, the Laplacian L of the network between them obeys L X =
[L_red; 0]: at a machine the net pull is L_red's row, and at a loaded bus there is none, so that its
column is a mean of its neighbours'. That is linear in the weights; non-negative least squares, with
a weak pull to ordinary degrees, gives few large ones: the guessed edges.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from gridveil.dynamics.kron import laplacian
from gridveil.dynamics.models import ReducedModel
from gridveil.grid.facts import Array, IntArray, complete_edges
from gridveil.grid.parameters import REDUCED_WEIGHT, Range
from gridveil.inference.posterior import middle
from gridveil.publication.ports import equal_groups

# Transmission grids have 1.2 to 1.5 lines a bus: public knowledge, of which the attacker takes the
# lower end.
EDGES_A_PORT = 1.2
# Up to so many ports every pair is tried; above, those that are likely by distance, by k_r and by
# K_ac.
ALL_PAIRS_UP_TO, NEAREST, BY_WEIGHT, BY_SHARE = 40, 5, 6, 5
# How little ordinary degrees count against the equations.
DEGREE_WEIGHT = 0.05
# Entries of the dense equations that fit in memory: 1 GB.
LARGEST_DESIGN = 125_000_000

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class EdgeGuess:
    """Edges between ports, guessed: the `count` pairs of highest score; what ties for the last
    places is drawn by lot.

    ports : so many buses they are between.
    pairs : (p, 2) port positions, the lower first.
    score : (p,).
    """

    ports: int
    pairs: IntArray
    score: Array
    count: int

    def hits(self, truth: Set[Pair]) -> float:
        """Expected number of guessed pairs that are true."""
        true = np.array([(int(i), int(j)) in truth for i, j in self.pairs], dtype=np.float64)
        # Scores that rounding alone tells apart are a tie.
        score = np.round(self.score / max(float(np.abs(self.score).max(initial=0.0)), 1e-300), 9)
        last = np.sort(score)[-self.count] if self.count else np.inf
        above, tied = score > last, score == last
        lots = (self.count - above.sum()) / max(tied.sum(), 1)
        return float(true[above].sum() + lots * true[tied].sum())

    def f1(self, truth: Set[Pair], edges: int | None = None) -> float:
        """Expected F1: 2 hits / (guessed + edges), where edges may count true ones that no pair of
        ports can show.
        """
        return f1(self.hits(truth), self.count, len(truth) if edges is None else edges)

    def blind_f1(self, truth: Set[Pair], edges: int | None = None) -> float:
        """Expected F1 of as many pairs drawn by lot, out of all pairs of ports."""
        by_lot = self.count * len(truth) / max(self.ports * (self.ports - 1) // 2, 1)
        return f1(by_lot, self.count, len(truth) if edges is None else edges)


def f1(hits: float, guessed: int, edges: int) -> float:
    """Harmonic mean of precision and recall: 2 hits / (guessed + edges).

    >>> f1(3, 4, 6)
    0.6
    """
    return 2 * hits / max(guessed + edges, 1)


def equal_columns(K_ac: Array) -> tuple[IntArray, ...]:
    """Groups of two or more columns that are equal: buses behind one cut vertex, which no machine
    can tell apart.

    >>> [group.tolist() for group in equal_columns(np.array([[0.2, 0.5, 0.2], [0.8, 0.5, 0.8]]))]
    [[0, 2]]
    """
    return tuple(group for group in equal_groups(K_ac) if len(group) > 1)


def can_guess(model: ReducedModel) -> bool:
    """Whether the equations of a model fit in memory: up to some 250 ports."""
    ports = len(model.ports)
    pairs = min(ports * (ports - 1) // 2, (NEAREST + BY_WEIGHT + BY_SHARE) * ports)
    return ports * len(model.machines) * pairs <= LARGEST_DESIGN


def guess_edges(model: ReducedModel, bounds: Range, *, ports: int | None = None) -> EdgeGuess:
    """Guess which ports are joined by a line. bounds : public ones of k, for an ordinary weight.

    ports : so many of the model's ports are buses (topology mode: the machines alone); default:
    all.
    """
    g = len(model.machines)
    share = np.concatenate([np.eye(g), model.K_ac.T])[:ports]
    count = round(EDGES_A_PORT * len(share))
    if len(share) == g:  # no loaded bus among them: L_red itself is the only answer
        return EdgeGuess(
            g, model.edges, model.values[REDUCED_WEIGHT.name], min(count, len(model.edges))
        )
    pairs = _likely(model, share)
    i, j = pairs.T
    pull = np.zeros((len(share), g))
    pull[:g] = laplacian(model.edges, model.values[REDUCED_WEIGHT.name], g)
    unit = float(np.abs(pull).max())
    apart = share[i] - share[j]
    # Rows (port, machine): Σ_w k_vw (X_v − X_w) = [L_red; 0]; then degrees of the loaded buses.
    design = np.zeros((len(share), g, len(pairs)))
    every = np.arange(len(pairs))
    design[i, :, every], design[j, :, every] = apart, -apart
    degree = np.zeros((len(share), len(pairs)))
    degree[i, every] = degree[j, every] = DEGREE_WEIGHT
    rows = np.concatenate([design.reshape(-1, len(pairs)), degree[g:]])
    wanted = np.concatenate(
        [pull.ravel() / unit, np.full(len(share) - g, DEGREE_WEIGHT * 2 * middle(bounds) / unit)]
    )
    return EdgeGuess(len(share), pairs, _nonnegative(rows, wanted), min(count, len(pairs)))


def _nonnegative(rows: Array, wanted: Array) -> Array:
    """Solve least squares with no entry below 0, on the triangle of a QR factorisation where there
    are many rows.
    """
    from scipy.optimize import nnls

    if rows.shape[0] > rows.shape[1]:
        Q, rows = np.linalg.qr(rows)
        wanted = Q.T @ wanted
    return np.asarray(nnls(rows, wanted, maxiter=30 * rows.shape[1])[0])


def _likely(model: ReducedModel, share: Array) -> IntArray:
    """Pairs that may be edges, (p, 2)."""
    ports, g = len(share), len(model.machines)
    if ports <= ALL_PAIRS_UP_TO:
        return complete_edges(ports)
    from scipy.spatial.distance import cdist

    apart = cdist(share, share)
    np.fill_diagonal(apart, np.inf)
    likely = np.zeros((ports, ports), dtype=bool)
    for port, nearest in enumerate(np.argsort(apart, axis=1)[:, :NEAREST]):
        likely[port, nearest] = True
    weight = np.zeros((g, g))
    weight[tuple(model.edges.T)] = model.values[REDUCED_WEIGHT.name]
    for machine, largest in enumerate(np.argsort(-(weight + weight.T), axis=1)[:, :BY_WEIGHT]):
        likely[machine, largest] = True
    for port in range(g, ports):
        likely[port, np.argsort(-share[port])[:BY_SHARE]] = True
    np.fill_diagonal(likely, False)
    return np.argwhere(np.triu(likely | likely.T)).astype(np.int64)
