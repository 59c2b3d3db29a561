"""The low-bit test: does the last digit of an output tell which input it came from? (Mironov
2012)
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from gridveil.assurance.audit.findings import Counts, Finding, finding
from gridveil.privacy.mechanisms import USUAL, Sampler
from gridveil.vault.sampler import SecureSampler

EPSILON = Fraction(1, 6)
SPACING = 2.0**-53  # of the floats from 1/2 to 1


BLOCK = 50_000  # draws: about a second of OpenDP


def audit_low_bits(
    sampler: Sampler | None = None,
    *,
    draws: int = 200_000,
    epsilon: Fraction = EPSILON,
    progress: Callable[[int], object] | None = None,
    parts: int = 1,
) -> Finding:
    """Bound a sampler's ε from below by outputs |y| < 1/2 that are no multiple of 2⁻⁵³.

    The inputs are 0 or 1 by secret fair coins, α = 1. Noise that turns 1 into some |y| < 1/2 lies
    between −3/2 and −1/2, where floats are multiples of 2⁻⁵³, and so is then the float sum 1 +
    noise. Noise on 0 is the output itself, and two thirds of the floats that land there have finer
    bits. So a float sampler's y with finer bits gives the input 0 away for certain; a sampler that
    is exact and rounds once, at the end, has fine bits for both. The auditor guesses 0 on each such
    y, and on no other.

    draws : values to draw [1]; some 2.7 % lead to a guess at ε = 1/6.
    progress : told how many were drawn.
    parts : as in `audit_adjacency`.

    Privacy
    -------
    Each entry is one item that differs by its α, so `epsilon_lower` applies to the guesses as it
    is.
    """
    sampler = sampler or SecureSampler()
    random = np.random.default_rng()
    counts = Counts()
    for start in range(0, draws, BLOCK):
        size = min(BLOCK, draws - start)
        secret = random.integers(2, size=size).astype(np.float64)
        output = sampler.draw(secret, USUAL.calibrate(Fraction(1), epsilon, size).scale, USUAL)
        fine = (np.abs(output) < 0.5) & (np.fmod(output, SPACING) != 0)
        counts += Counts(size, int(fine.sum()), int((secret[fine] == 0).sum()))
        if progress is not None:
            progress(size)
    return finding("sampler", "low bits", epsilon, counts, rows=parts)
