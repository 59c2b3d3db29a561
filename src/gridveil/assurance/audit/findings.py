"""From right guesses to a lower bound on ε: Clopper–Pearson, and when a guess is worth making."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from gridveil.grid.facts import Array
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


@cache
def best_threshold(losses: tuple[float, ...], canaries: int, noise: Noise) -> float:
    """Find the t for which guessing where |ℓ| ≥ t has the largest expected 95 % bound on ε.

    losses : α_c / b_c of each coordinate c that a canary moves. The log-likelihood ratio ℓ of its
    two secrets is the sum of the coordinates'. It saturates at ±Σ losses, where a guess is right
    with the full e^ε / (1 + e^ε); the more coordinates, the rarer that is for all at once.

    Privacy
    -------
    t comes from a simulation of the *claimed* mechanism, in which P[right | ℓ] = 1 / (1 + e^(−|ℓ|))
    exactly, and never from the outputs that are audited.
    """
    loss = np.array(losses)
    drawn = noise.seeded(np.random.default_rng(0), 1.0, (2**16, len(losses)))
    size = np.sort(np.abs(noise.ratio(loss / 2 + drawn, loss).sum(axis=1)))[::-1]
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
