"""Does noise follow the law that was charged for? Values, pairs and repeats, each with a p-value
that holds for every sample.

The auditor knows the true value x behind an output y = clip(x + noise). So u = F((y − x)/b), with
u drawn at random from what a clip value stands for, is uniform on (0, 1) and independent of every
other one, if the noise is honest; and only then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gridveil.grid.facts import Array
from gridveil.grid.parameters import Range
from gridveil.privacy.mechanisms import Noise


@dataclass(frozen=True)
class Fit:
    """One row of an audit of noise.

    subject : what was released, and how.
    pattern : what was compared.
    values : how many outputs that took.
    p_value : honest noise looks as odd as this, or more so, with this probability at most.
    level : the row falls below this; the levels of all rows of an audit add up to 1e-4 with those
    of its bounds.
    """

    subject: str
    pattern: str
    values: int
    p_value: float
    level: float

    @property
    def passed(self) -> bool:
        """Whether the noise may be what it is said to be."""
        return self.p_value >= self.level


def uniforms(
    output: Array,
    truth: Array,
    scale: Array | float,
    public: Range,
    *,
    noise: Noise,
    relative: bool = False,
) -> Array:
    """Bring outputs to what is uniform on (0, 1) under clip(truth + noise, public); all of one
    shape.

    relative : whether the noise was added to logarithms.
    """
    felt = np.log if relative else np.asarray
    middle = felt(truth)
    u, below, above = (
        noise.cdf((felt(y) - middle) / scale) for y in (output, public.lower, public.upper)
    )
    chance = np.random.default_rng().random(u.shape)
    u = np.where(output <= public.lower, chance * below, u)
    return np.where(output >= public.upper, above + chance * (1 - above), u)


def values_p(u: Array) -> float:
    """Compare (n,) values with the uniform law: by the scale, by the sign and by the whole shape of
    the noise.

    Σ −log(1 − |2u − 1|) has the law Gamma(n), whatever the noise; the number of positive
    ones is Binomial(n, ½); and the Kolmogorov–Smirnov distance D has P[D > t] ≤ 2 exp(−2 n t²)
    (Massart 1990).
    """
    from scipy.special import gammainc, gammaincc

    n = len(u)
    size = -np.log1p(-np.minimum(np.abs(2 * u - 1), 1 - 2**-53)).sum()
    ranked = np.sort(u)
    distance = max((np.arange(1, n + 1) / n - ranked).max(), (ranked - np.arange(n) / n).max())
    each = (
        2 * min(gammainc(n, size), gammaincc(n, size)),
        _fair(int((u > 0.5).sum()), n),
        2 * np.exp(-2 * n * distance**2),
    )
    return min(1.0, len(each) * float(min(each)))


def pairs_p(u: Array) -> float:
    """Compare the signs of every two of c coordinates, within a release and with the next one; u
    (releases, c).

    Products of two independent fair signs are fair and independent, also along a chain of releases:
    Binomial(releases, ½).
    """
    sign = np.where(u > 0.5, 1.0, -1.0)
    n, c = sign.shape
    within = (sign.T @ sign)[np.triu_indices(c, 1)]
    across = (sign[:-1].T @ sign[1:]).ravel()
    each = np.concatenate([_fair((n + within) / 2, n), _fair((n - 1 + across) / 2, n - 1)])
    return min(1.0, len(each) * float(each.min()))


def repeats_p(u: Array) -> float:
    """Look for two values of equal size, in a release or in the next one, wherever they stand; u
    (releases, c).

    v = |2u − 1| is uniform, so two of N come within t of each other with probability N² t at most.
    """
    together = np.concatenate([u[:-1], u[1:]], axis=1)
    gap = np.diff(np.sort(np.abs(2 * together - 1), axis=1), axis=1).min()
    return float(min(1.0, together.shape[1] ** 2 * len(together) * gap))


def _fair(positive: Any, n: int) -> Any:
    """Two-sided p-value of so many heads in n tosses of a fair coin."""
    from scipy.special import bdtr, bdtrc

    return np.minimum(
        1.0, 2 * np.minimum(bdtr(positive, n, 0.5), bdtrc(np.asarray(positive) - 1, n, 0.5))
    )
