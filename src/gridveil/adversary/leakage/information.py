"""What slopes of records by a table's entries tell: rank and least standard deviations."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gridveil.grid.facts import Array, IntArray
from gridveil.grid.parameters import Range

# Singular values below this share of the largest are rounding.
ROUNDING = 1e-11


@dataclass(frozen=True, eq=False)
class Information:
    """What records tell of n entries.

    rank : directions that they see at all; seen : those that they fix better than the prior.
    bound : (n,) Cramér-Rao, inf where an entry stays open.
    left : (n, n) S, where S Sᵀ is the covariance that records and prior leave.
    """

    rank: int
    seen: int
    bound: Array
    left: Array

    @property
    def with_prior(self) -> Array:
        """(n,) standard deviations that records and prior leave."""
        return np.linalg.norm(self.left, axis=1)

    def of_mean(self, entries: IntArray) -> float:
        """The same of the mean over some entries."""
        return float(np.linalg.norm(self.left[entries].mean(axis=0)))

    @classmethod
    def of(cls, J: Array, prior: Array, sigma: float, rounding: float = ROUNDING) -> Information:
        """J : (rows, n) slopes [p.u. frequency]; prior : (n,) deviations; sigma : of a row.

        rounding : share of the largest singular value below which there is none.
        """
        scaled = J * prior / sigma
        singular, bound = cramer_rao(J, sigma, rounding)
        information = np.linalg.svd(scaled, compute_uv=False) ** 2
        R = np.linalg.qr(np.concatenate([scaled, np.eye(J.shape[1])]), mode="r")
        return cls(
            int((singular > rounding * singular[0]).sum()),
            int((information > 1).sum()),
            bound,
            prior[:, None] * np.linalg.inv(R),
        )


def cramer_rao(J: Array, sigma: float, rounding: float = ROUNDING) -> tuple[Array, Array]:
    """Singular values of J, and least standard deviations (n,); inf where J leaves one open."""
    R = np.linalg.qr(J, mode="r")
    _, singular, rows = np.linalg.svd(R)
    kept = singular > rounding * singular[0]
    seen = rows[: len(singular)][kept]
    open_part = 1 - np.sum(seen**2, axis=0)
    deviation = sigma * np.sqrt(np.sum((seen / singular[kept, None]) ** 2, axis=0))
    return singular, np.where(open_part > 1e-6, np.inf, deviation)


def prior_deviation(public: Range) -> float:
    """Standard deviation of the logarithm under a log-uniform prior; of a value that may be
    negative, its own under a uniform one.
    """
    if public.signed:
        return (public.upper - public.lower) / math.sqrt(12)
    return math.log(public.upper / public.least) / math.sqrt(12)
