"""From released values to the noisy ones behind them, and to the best guess of the true ones: of
one release, of several, or knowing all parameters but one asset's.
"""

from __future__ import annotations

import math

import numpy as np

from gridveil.grid.facts import Array
from gridveil.grid.parameters import Range
from gridveil.inference.posterior import Posterior
from gridveil.inference.prior import LOG_UNIFORM, Prior
from gridveil.privacy.guarantee import GroupLoss

TABLE, TURNS = 129, 16


def noisy_values(
    released: Array, loss: GroupLoss, bounds: Range, prior: Prior = LOG_UNIFORM
) -> Array:
    """Undo an estimate: the clipped noisy y whose estimate is what was released; (n,).

    A table brackets each y, then false position and halving take turns.
    """

    def mean(y: Array) -> Array:
        return Posterior.behind(y, loss, bounds, prior).estimate

    table = np.geomspace(bounds.least, bounds.upper, TABLE)
    at_table = mean(table)
    above = np.clip(np.searchsorted(at_table, released), 1, TABLE - 1)
    low, high, at_low, at_high = (
        table[above - 1],
        table[above],
        at_table[above - 1],
        at_table[above],
    )
    for turn in range(TURNS):
        halfway = 0.5 * (low + high)
        rise = np.where(at_high > at_low, at_high - at_low, 1.0)
        tried = (
            halfway
            if turn % 2
            else low + (high - low) * np.clip((released - at_low) / rise, 0.0, 1.0)
        )
        means = mean(tried)
        over = means > released
        low, at_low = np.where(over, low, tried), np.where(over, at_low, means)
        high, at_high = np.where(over, tried, high), np.where(over, means, at_high)
    rise = np.where(at_high > at_low, at_high - at_low, 1.0)
    return low + (high - low) * np.clip((released - at_low) / rise, 0.0, 1.0)


def distance(loss: GroupLoss) -> float:
    """α, where the noise is added: log(1 + α) of ratios."""
    return float(np.log1p(float(loss.alpha))) if loss.relative else float(loss.alpha)


def within(guess: Array, truth: Array, loss: GroupLoss) -> np.ndarray:
    """Whether guesses lie within α of the truth, (n,)."""
    apart = np.log(guess) - np.log(truth) if loss.relative else guess - truth
    return np.abs(apart) <= distance(loss) * (1 + 1e-12)


def best_guesses(y: Array, loss: GroupLoss, bounds: Range, *, points: int = 512) -> Array:
    """Guess x so that P(|x − guess| ≤ α | y) is largest, with a log-uniform prior; (n,).

    No other guess lands within α of the truth more often, if the prior holds.
    """
    reach = distance(loss)
    share = np.linspace(0, 1, points)
    belief = Posterior.behind(y, loss, bounds)
    at = belief.quantile(np.broadcast_to(share[:, None], (points, len(y))))  # (points, n), growing
    centre = at * np.exp(reach) if loss.relative else at + reach  # windows that start at a quantile
    ends = centre * np.exp(reach) if loss.relative else centre + reach
    out = np.empty(len(y))
    for item in range(len(y)):
        mass = np.interp(ends[:, item], at[:, item], share, right=1.0) - share
        out[item] = centre[int(np.argmax(mass)), item]
    return np.clip(out, bounds.lower, bounds.upper)


POINTS, PASSES, DEPTH = 2000, 3, 40.0


def combined(y: Array, loss: GroupLoss, bounds: Range) -> Array:
    """Mean of p(x | y_1 … y_R) ∝ Π p(y_r | x) / x on the bounds, for R noisy values each.

    Noise averages out as fast as the total ε allows.

    y : (R, n) clipped noisy values, in the group's unit.
    loss : of one release. Returns (n,).
    """
    items = y.shape[1]
    low = np.full(items, np.log(bounds.least))
    high = np.full(items, np.log(bounds.upper))
    seen = np.log(y) if loss.relative else y
    mean = np.exp(0.5 * (low + high))
    for _ in range(PASSES):  # each on a finer grid, where the mass is
        s = low + (high - low) * np.linspace(0, 1, POINTS)[:, None]
        at = s if loss.relative else np.exp(s)
        depth = loss.noise.depth(at, seen, loss.scale)
        depth -= depth.max(axis=0)
        step = (high - low) / (POINTS - 1)
        inside = depth > -DEPTH
        first, last = inside.argmax(axis=0), POINTS - 1 - inside[::-1].argmax(axis=0)
        density = np.exp(depth)
        mean = (np.exp(s) * density).sum(axis=0) / density.sum(axis=0)
        low, high = (
            np.maximum(low, low + (first - 1) * step),
            np.minimum(high, low + (last + 1) * step),
        )
    return mean


def bound(epsilon: float) -> float:
    """The advantage that no test against anything ε-DP exceeds: (e^ε − 1)/(e^ε + 1) = tanh(ε/2).

    The all-but-one adversary knows all parameters but one asset's, and its two possible values.
    Guessing by the sign of the log-likelihood ratio Σ ℓ_c has the largest advantage, TPR − FPR =
    2 P(right) − 1; the mechanism's noise knows ℓ_c and that advantage (`Noise.advantage`).
    """
    return math.tanh(epsilon / 2)
