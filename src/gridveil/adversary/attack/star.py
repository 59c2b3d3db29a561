"""Star / Y-Δ inversion: a star whose centre was eliminated, back from its reduced weights."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array, GridFacts


def recover_star(reduced: Array, leaves: int) -> Array:
    """Recover a star's weights from k_r alone: k'_ij = y_i y_j, solved for log y; k_i = y_i Σ y.

    All pairs count alike, so that rounding or noise in one does not decide. Two leaves are in
    series, and two weights cannot be told from one.
    reduced : weights of the complete graph on the leaves, order of `complete_edges` [p.u. power /
    rad].

    >>> recover_star(np.array([1, 1.6, 1, 4, 2.5, 4]), leaves=4).round(9)
    array([ 4., 10., 16., 10.])
    """
    if leaves < 3:
        raise OptionError(
            f"A star of {leaves} leaves cannot be recovered from its reduced weight alone.",
            expected="3 leaves or more, or the column of K_ac of its centre",
            outcome="Nothing was recovered.",
        )
    pairs = np.array(list(combinations(range(leaves), 2)))
    design = np.zeros((len(pairs), leaves))
    design[np.arange(len(pairs)), pairs[:, 0]] = design[np.arange(len(pairs)), pairs[:, 1]] = 1.0
    y = np.exp(np.linalg.lstsq(design, np.log(reduced), rcond=None)[0])
    return y * y.sum()


def recover_star_by_share(reduced: Array, share: Array) -> Array:
    """Recover a star's weights from k_r and K_ac of its centre: k'_ij = S K_i K_j, k_i = S K_i.

    reduced : as in `recover_star`; share : (leaves,) the column, k_i / Σ k. Two leaves are enough.

    >>> recover_star_by_share(np.array([1.2]), np.array([0.4, 0.6])).round(9)
    array([2., 3.])
    """
    i, j = np.array(list(combinations(range(len(share)), 2))).T
    total = np.exp(np.mean(np.log(reduced) - np.log(share[i]) - np.log(share[j])))
    return total * share


def is_star(facts: GridFacts) -> bool:
    """Whether a grid is a star: machines at its leaves, one bus without a machine in the middle."""
    if len(facts.interior) != 1 or len(facts.edges) != len(facts.machines):
        return False
    return bool((facts.edges == facts.interior[0]).any(axis=1).all())
