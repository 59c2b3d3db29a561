"""What an audit proves: a lower bound on ε by right guesses (Clopper–Pearson), and whether noise
follows the law that was charged for, with p-values that hold for every sample.

The auditor knows the true value x behind an output y = clip(x + noise). So u = F((y − x)/b), with
u drawn at random from what a clip value stands for, is uniform on (0, 1) and independent of every
other one, if the noise is honest; and only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Protocol

import numpy as np

from gridveil.grid.facts import Array
from gridveil.grid.parameters import Range
from gridveil.privacy.mechanisms import Noise

SHOWN, DECIDING = 0.95, 0.9999


@dataclass(frozen=True)
class Counts:
    """How many canaries there were, for how many the auditor dared a guess, and how many guesses
    were right.
    """

    canaries: int = 0
    guesses: int = 0
    correct: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.canaries + other.canaries,
            self.guesses + other.guesses,
            self.correct + other.correct,
        )

    @classmethod
    def of(cls, score: Array, truth: Array, threshold: float = 0.0) -> Counts:
        """Guess the sign of score (n,) where |score| ≥ threshold and not 0; truth (n,) holds the
        secret signs ±1.
        """
        dared = (np.abs(score) >= threshold) & (score != 0)
        return cls(len(score), int(dared.sum()), int((np.sign(score) == truth)[dared].sum()))


@dataclass(frozen=True, eq=False)
class Tally:
    """What guesses came to, by what was guessed, and the largest charge of what they saw."""

    charged: Fraction
    counts: Mapping[str, Counts]

    def plain(self) -> dict[str, Any]:
        """The same in JSON's types."""
        return {
            "charged": str(self.charged),
            "counts": {name: astuple(own) for name, own in self.counts.items()},
        }

    @classmethod
    def joined(cls, tallies: Iterable[Mapping[str, Any]]) -> Tally:
        """Add tallies up, each as `plain` tells it."""
        charged, counts = Fraction(0), dict[str, Counts]()
        for one in tallies:
            charged = max(charged, Fraction(one["charged"]))
            for name, own in one["counts"].items():
                counts[name] = counts.get(name, Counts()) + Counts(*own)
        return cls(charged, counts)

    def whole(self) -> Counts:
        """All guesses."""
        return sum(self.counts.values(), Counts())


@dataclass(frozen=True)
class Finding:
    """One row of an audit: what was claimed, and what the guesses prove.

    subject : the adjacency that was audited, or "sampler".
    pattern : what the canaries moved, with signs.
    epsilon : the claim, which is what the ledger was charged for all the draws that the canaries
    saw.
    lower_95 : ε is above this, with 95 % confidence for this row alone.
    lower_9999 : ε is above this, with 99.99 % confidence for all rows of the subject at once; it
    decides.
    """

    subject: str
    pattern: str
    epsilon: Fraction
    counts: Counts
    lower_95: float
    lower_9999: float

    @property
    def passed(self) -> bool:
        """Whether the claim stands: it falls only if the 99.99 % bound exceeds it."""
        return Fraction(self.lower_9999) <= self.epsilon


def success_lower(correct: Any, guesses: Any, confidence: float) -> Any:
    """Bound a success probability from below: p_L = B⁻¹(1 − confidence; v, r − v + 1) for v of r
    (Clopper–Pearson).

    All of r right gives p_L = (1 − confidence)^(1/r).

    >>> round(float(success_lower(10, 10, 0.95)) ** 10, 12)
    0.05
    """
    # The light module: scipy.stats takes a second to import.
    from scipy.special import betaincinv

    v, r = np.broadcast_arrays(np.asarray(correct, dtype=float), np.asarray(guesses, dtype=float))
    lower = betaincinv(np.maximum(v, 1e-300), r - v + 1, 1 - confidence)
    return np.where(v > 0, lower, 0.0)[()]


def epsilon_lower(correct: Any, guesses: Any, confidence: float) -> Any:
    """Bound ε from below by right guesses: ε_L = max(0, log(p_L / (1 − p_L))).

    Privacy
    -------
    If the audited mechanism is ε-DP for a flip of one canary's secret sign, then for any guesses,
    adaptive ones and abstentions included, the number of right ones is dominated by Binomial(r, e^ε
    / (1 + e^ε)) given that r were made (Steinke, Nasr and Jagielski 2023, pure DP). So P[ε_L > ε] ≤
    1 − confidence.

    >>> [round(float(epsilon_lower(right, 10_000, 0.95)), 2) for right in (5_000, 7_500, 10_000)]
    [0.0, 1.06, 8.11]
    """
    p = success_lower(correct, guesses, confidence)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(p) - np.log1p(-p), 0.0)[()]


class RowLaw(Protocol):
    """What is asked of a law of rows here: `Noise` has it."""

    def seeded(self, random: np.random.Generator, scale: float, size: tuple[int, int]) -> Array:
        """Draw rows."""
        ...

    def ratio_of_rows(self, z: Array, losses: Array) -> Array:
        """Log-likelihood ratio of rows."""
        ...


def best_threshold(losses: tuple[float, ...], canaries: int, noise: RowLaw) -> float:
    """The threshold of a canary in one draw: of coordinates that are independent, or joint."""
    return threshold_of(((noise, losses),), canaries)


@cache
def threshold_of(draws: tuple[tuple[RowLaw, tuple[float, ...]], ...], canaries: int) -> float:
    """Find the t for which guessing where |ℓ| ≥ t has the largest expected 95 % bound on ε.

    draws : the law of each draw that shows a canary, and α_c / b_c of each coordinate c in it. The
    log-likelihood ratio ℓ of its two secrets saturates (under independent noise, whose ratios add
    up, at ±Σ losses), where a guess is right with the full e^ε / (1 + e^ε); the more coordinates,
    the rarer that is.

    Privacy
    -------
    t comes from a simulation of the *claimed* mechanism, in which P[right | ℓ] = 1 / (1 + e^(−|ℓ|))
    exactly, and never from the outputs that are audited.
    """
    random, ratio = np.random.default_rng(0), np.zeros(2**16)
    for noise, losses in draws:
        loss = np.array(losses)
        drawn = noise.seeded(random, 1.0, (len(ratio), len(losses)))
        ratio += noise.ratio_of_rows(loss / 2 + drawn, loss)
    size = np.sort(np.abs(ratio))[::-1]
    # saturation is hit but for rounding
    tried = size[np.unique(np.geomspace(1, len(size), 512).astype(int)) - 1] * (1 - 1e-9)
    rank = np.searchsorted(-size, -tried, side="right")
    guesses = canaries * rank / len(size)
    correct = guesses * (np.cumsum(1 / (1 + np.exp(-size)))[rank - 1] / rank)
    return float(tried[np.argmax(epsilon_lower(correct, guesses, SHOWN))])


def finding(
    subject: str, pattern: str, epsilon: Fraction, counts: Counts, *, rows: int, choices: int = 1
) -> Finding:
    """State what counts prove; choices: how many such counts this one is the largest of.

    Privacy
    -------
    The largest of several bounds holds at confidence c if each was taken at 1 − (1 − c)/choices;
    that all rows hold at once likewise takes 1 − (1 − c)/rows (Bonferroni).
    """
    shown, deciding = ((1 - level) / choices for level in (SHOWN, DECIDING))
    return Finding(
        subject,
        pattern,
        epsilon,
        counts,
        float(epsilon_lower(counts.correct, counts.guesses, 1 - shown)),
        float(epsilon_lower(counts.correct, counts.guesses, 1 - deciding / rows)),
    )


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
    random: np.random.Generator | None = None,
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
    chance = (random or np.random.default_rng()).random(u.shape)
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
