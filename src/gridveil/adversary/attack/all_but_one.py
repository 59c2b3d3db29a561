"""The all-but-one adversary: knows all parameters but one asset's, and its two possible values.

Of each coordinate c that differs by α_c between the two, noise of scale b_c leaves the
log-likelihood ratio ℓ_c, which the mechanism's noise knows; ℓ = Σ ℓ_c is the best test there is,
and guessing by its sign has the largest advantage, TPR − FPR = 2 P(right) − 1: the total variation
distance. The noise gives that too (`Noise.advantage`).
"""

from __future__ import annotations

import math


def bound(epsilon: float) -> float:
    """The advantage that no test against anything ε-DP exceeds: (e^ε − 1)/(e^ε + 1) = tanh(ε/2)."""
    return math.tanh(epsilon / 2)
