"""The two large matrices of a compact model, as its file has them: sparse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from gridveil.dynamics.compact import FEWEST_WEIGHTS, SparseShares
from gridveil.dynamics.models import ReducedModel
from gridveil.grid.parameters import REDUCED_WEIGHT
from gridveil.publication.matfile import LARGEST

WEIGHTS, SHARES = REDUCED_WEIGHT.name, "K_ac"
SPARSE = (WEIGHTS, SHARES)


def sparse_arrays(model: ReducedModel) -> dict[str, sparse.csc_array]:
    """The weights (g (g − 1) / 2, 1) and shares (g, b) of a compact model."""
    assert isinstance(model.K_ac, SparseShares), "a compact model has sparse shares"
    return {WEIGHTS: sparse.csc_array(model.k_r[:, None]), SHARES: model.K_ac.matrix}


def from_sparse_arrays(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Read them back. ValueError: entries that no compact model has; sizes that would cost far more
    memory than their file takes.
    """
    weights, shares = arrays[WEIGHTS], arrays[SHARES]
    pairs = weights.shape[0]
    if 8 * pairs > LARGEST or weights.nnz * FEWEST_WEIGHTS < pairs:
        raise ValueError("not what gridveil writes")
    for values in (weights.data, shares.data):
        if values.size and not (values.min() > 0 and np.isfinite(values.max())):
            raise ValueError("not what gridveil writes")
    if (np.diff(shares.indptr) == 0).any():
        raise ValueError("not what gridveil writes")
    return {WEIGHTS: weights.toarray().ravel(), SHARES: SparseShares(shares)}
