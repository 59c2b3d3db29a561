"""Better guesses of items that were drawn with noise: units of one grid are often alike."""

from __future__ import annotations

import numpy as np

from gridveil.grid.facts import Array


def toward_mean(values: Array, deviation: float) -> Array:
    """Shrink logarithms toward their mean, by τ²/(τ² + σ²) with τ² = max(0, s² − σ²).

    An empirical-Bayes estimate (James and Stein 1961; Efron and Morris 1973): where the released
    values (n,) scatter no more than their noise, they are taken for equal; where they scatter much
    more, they stay as they are. It sees released values and σ alone, so it costs no ε.
    deviation : σ of the noise on the logarithms, public.
    """
    if len(values) < 3:
        return values
    logs = np.log(values)
    scatter = max(float(logs.var(ddof=1)) - deviation**2, 0.0)
    if scatter == 0:
        return np.full_like(values, np.exp(logs.mean()))
    return np.exp(logs.mean() + scatter / (scatter + deviation**2) * (logs - logs.mean()))
