"""Reduced models of thousands of machines without what hardly counts: small shares of K_ac, and
small weights between machines.

A load bus is felt by the machines near it: of thousands of shares in its column of K_ac a few
hundred hold all but a thousandth. What is left out is stated: exactly where it can be, and as the
largest error of step responses that were computed both ways.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, IntArray

if TYPE_CHECKING:
    from gridveil.dynamics.kron.kernels import Elimination
    from gridveil.dynamics.models import ReducedModel

# Bytes of dense k_r and K_ac above which a model is made compact.
COMPACT_ABOVE = 2**26
# Shares below this are left out, and weights below this share of what both machines have in all.
LEAST_SHARE, LEAST_WEIGHT = 1e-5, 1e-6
# At least one weight in so many is kept: a file can then not grow far beyond its own size.
FEWEST_WEIGHTS = 100
# Steps of load that the error is measured on: buses, horizon and time step [s].
PROBES, HORIZON_S, DT_S = 6, 20.0, 0.05


class SparseShares:
    """K_ac (g, b) with most entries 0: what a model asks of an array, and no more.

    matrix : (g, b), by columns, entries positive.
    """

    def __init__(self, matrix: sparse.csc_array) -> None:
        self.matrix = matrix
        for part in (matrix.data, matrix.indices, matrix.indptr):
            part.setflags(write=False)

    @classmethod
    def none(cls, machines: int, loaded: int) -> SparseShares:
        """No shares at all yet."""
        return cls(sparse.csc_array((machines, loaded)))

    @property
    def shape(self) -> tuple[int, int]:
        """(g, b)."""
        rows, columns = self.matrix.shape  # pyright: ignore[reportGeneralTypeIssues]
        return rows, columns

    @property
    def size(self) -> int:
        """How many entries there are, zeros counted."""
        return self.shape[0] * self.shape[1]

    def __matmul__(self, load: Array) -> Array:
        """Load (b, …) as the machines feel it, (g, …)."""
        return np.asarray(self.matrix @ load)

    def __getitem__(self, key: tuple[slice, Any]) -> Array:
        """Some columns, densely: [:, buses]."""
        rows, columns = key
        if rows != slice(None):
            raise InputError("rows of sparse shares cannot be taken alone", expected="[:, buses]")
        return self.matrix[:, np.atleast_1d(columns)].toarray()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The whole, densely."""
        del copy
        return self.matrix.toarray().astype(dtype or np.float64, copy=False)

    def sum(self, axis: int) -> Array:
        """Sums along an axis."""
        return np.asarray(self.matrix.sum(axis=axis))

    def min(self) -> float:
        """The least entry; NaN if one is."""
        data = self.matrix.data
        return float(np.minimum(0.0, data.min())) if data.size else 0.0

    def max(self) -> float:
        """The largest entry; NaN if one is."""
        data = self.matrix.data
        return float(np.maximum(0.0, data.max())) if data.size else 0.0

    def merged(self, shares: Array) -> SparseShares:
        """K_ac of ports that some buses make up; shares (b, ports)."""
        found = sparse.csc_array(self.matrix @ sparse.csc_array(shares))
        found.sort_indices()
        return SparseShares(found)


@dataclass(frozen=True)
class Compaction:
    """What a compact model left out.

    share_moved : largest share of a bus's load that other machines feel than in the whole model.
    weight_left_out : largest share of a machine's weights that is left out.
    response_error : largest difference of frequency, at any machine or loaded bus, over the
    response's largest, in steps of load at a few buses computed both ways.
    """

    share_moved: float
    weight_left_out: float
    response_error: float

    def in_words(self) -> str:
        """Say what was left out, in one sentence."""
        return (
            f"small shares and weights are left out: up to {100 * self.share_moved:.2g} % of a "
            f"bus's load is felt by other machines, up to {100 * self.weight_left_out:.2g} % of a "
            "machine's weights is missing, and step responses that were computed both ways differ "
            f"by up to {100 * self.response_error:.2g} % of their peak"
        )


def is_compact(machines: int, loaded: int) -> bool:
    """Whether a model of this size is made compact: public sizes decide."""
    return 8 * (machines * (machines - 1) // 2 + machines * loaded) > COMPACT_ABOVE


def sparse_shares(network: Elimination, buses: IntArray) -> tuple[SparseShares, Array]:
    """K_ac (g, b) without small shares, columns scaled to sum to 1 again; and what each bus's load
    lost (b,), as a share.
    """
    blocks = (np.where(block >= LEAST_SHARE, block, 0.0) for block in network.share_blocks(buses))
    found = sparse.csr_array(sparse.hstack([sparse.csr_array(block) for block in blocks]))
    kept = np.asarray(found.sum(axis=1)).ravel()
    found.data /= np.repeat(kept, np.diff(found.indptr))
    indices, indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    shape = (len(network.keep), len(buses))
    matrix = sparse.csc_array((found.data, indices, indptr), shape=shape)
    return SparseShares(matrix), np.maximum(1 - kept, 0.0)


def large_weights(k_r: Array, machines: int) -> tuple[Array, float]:
    """k_r without small weights, and the largest share of a machine's weights that they were.

    >>> large_weights(np.array([1.0, 1e-9, 1.0]), 3)
    (array([1., 0., 1.]), 9.99999999e-10)
    """
    total, left = np.zeros(machines), np.zeros(machines)
    rows = [slice(start, start + machines - 1 - i) for i, start in _rows(machines)]
    for i, own in enumerate(rows):
        total[i] += k_r[own].sum()
        total[i + 1 :] += k_r[own]
    kept = np.empty(len(k_r), dtype=bool)
    for i, own in enumerate(rows):
        kept[own] = k_r[own] > LEAST_WEIGHT * np.minimum(total[i], total[i + 1 :])
    fewest = -(-len(k_r) // FEWEST_WEIGHTS)
    if kept.sum() < fewest:
        kept[np.argpartition(-k_r, fewest - 1)[:fewest]] = True
    found = np.where(kept, k_r, 0.0)
    for i, own in enumerate(rows):
        lost = k_r[own] - found[own]
        left[i] += lost.sum()
        left[i + 1 :] += lost
    share = left / np.maximum(total, np.finfo(float).tiny)
    return found, max(0.0, float(share.max(initial=0.0)))


def _rows(machines: int) -> list[tuple[int, int]]:
    """Each machine, and where its weights to later ones begin in k_r."""
    return [(i, i * (machines - 1) - i * (i - 1) // 2) for i in range(machines - 1)]


def compacted(whole: ReducedModel, network: Elimination, buses: IntArray) -> ReducedModel:
    """A compact model of a network's reduction.

    whole : the model with no columns of K_ac; buses : (b,) the places that are to be its ports
    beside the machines, named in `whole.ports` behind them.
    """
    g = len(whole.m)
    shares, moved = sparse_shares(network, buses)
    k_r, left_out = large_weights(whole.k_r, g)
    small = replace(whole, k_r=k_r, K_ac=cast(Array, shares))
    error = _response_error(whole, small, network, buses, moved)
    stated = Compaction(float(moved.max(initial=0.0)), left_out, error)
    return replace(small, compact=stated)


def _response_error(
    whole: ReducedModel, small: ReducedModel, network: Elimination, buses: IntArray, moved: Array
) -> float:
    """Largest difference of responses to unit steps at a few buses, over each one's peak: half of
    them those that lost most, the others evenly among all.
    """
    from gridveil.dynamics.simulate_large import swing_responses

    if not len(buses):
        return 0.0
    g = len(whole.m)
    order = np.argsort(-moved, kind="stable")
    half = PROBES // 2
    even = np.linspace(0, len(buses) - 1, PROBES - half).astype(int)
    probes = np.unique(np.concatenate([order[:half], order[even]]))
    names = tuple(whole.ports[g + probe] for probe in probes)
    found = []
    for model, K_ac in (
        (whole, network.K_ac(buses[probes])),
        (small, small.K_ac[:, probes]),
    ):
        probed = replace(
            model,
            ports=(*model.machines, *names),
            K_ac=K_ac,
            loads=np.zeros(g + len(probes)),
            compact=None,
        )
        drive = np.zeros((g + len(probes), len(probes)))
        drive[g + np.arange(len(probes)), np.arange(len(probes))] = 1.0
        samples = round(HORIZON_S / DT_S) + 1
        found.append(swing_responses(probed, drive, np.arange(g + len(probes)), samples, DT_S))
    one, two = found
    return float((np.abs(one - two).max(axis=(1, 2)) / np.abs(one).max(axis=(1, 2))).max())
