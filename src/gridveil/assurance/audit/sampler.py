"""Tests of the sampler itself: does the last digit of an output tell which input it came from
(Mironov 2012), and does a process repeat what another one drew?
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridveil.assurance.audit.findings import (
    Counts,
    Finding,
    Fit,
    Tally,
    finding,
    pairs_p,
    repeats_p,
    uniforms,
)
from gridveil.assurance.audit.pieces import Plain, in_order
from gridveil.foundation.shards import cut
from gridveil.grid.facts import Array
from gridveil.grid.parameters import Range
from gridveil.privacy.mechanisms import USUAL, Noise, Sampler
from gridveil.vault.sampler import SecureSampler

EPSILON = Fraction(1, 6)
SPACING = 2.0**-53  # of the floats from 1/2 to 1


BLOCK = 50_000  # draws: about a second of OpenDP


@dataclass(frozen=True)
class LowBits:
    """Outputs of a sampler for inputs 0 and 1; all as in `audit_low_bits`."""

    draws: int
    epsilon: Fraction = EPSILON
    noise: Noise = USUAL
    width: int = 1

    @property
    def subject(self) -> str:
        """What is audited."""
        return "sampler"

    @property
    def spans(self) -> list[range]:
        """Some draws each."""
        return cut(self.draws, BLOCK)

    def values(self, span: range) -> int:
        """One a draw."""
        return len(span)

    def tally(
        self, span: range, sampler: Sampler | None, random: np.random.Generator | None
    ) -> Plain:
        """Draw, and guess 0 where an output has fine bits."""
        sampler, random = sampler or SecureSampler(), random or np.random.default_rng()
        size, noise = len(span), self.noise
        secret = random.integers(2, size=size).astype(np.float64)
        scale = noise.calibrate(Fraction(1), self.epsilon, size).scale
        if noise.joint:
            rows = np.zeros((size, self.width))
            rows[:, 0] = secret
            output = sampler.draw(rows, np.full(self.width, scale), noise)[:, 0]
        else:
            output = sampler.draw(secret, scale, noise)
        fine = (np.abs(output) < 0.5) & (np.fmod(output, SPACING) != 0)
        counts = Counts(size, int(fine.sum()), int((secret[fine] == 0).sum()))
        return Tally(self.epsilon, {"low bits": counts}).plain()

    def rows(self, tallies: Sequence[Plain], parts: int) -> tuple[Finding]:
        """State one row."""
        words, noise = "low bits", self.noise
        if noise.joint:
            words = f"low bits, {'joint noise' if self.width == 1 else noise.name}"
        counts = Tally.joined(tallies).whole()
        return (finding(self.subject, words, self.epsilon, counts, rows=parts),)


def audit_low_bits(
    sampler: Sampler | None = None,
    *,
    draws: int = 200_000,
    epsilon: Fraction = EPSILON,
    noise: Noise = USUAL,
    width: int = 1,
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
    noise : of one value; joint noise: in rows.
    width : values of a row of joint noise; the first is the one that is audited.
    progress : told how many were drawn.
    parts : as in `audit_adjacency`.

    Privacy
    -------
    Each entry is one item that differs by its α, so `epsilon_lower` applies to the guesses as it
    is.
    """
    part = LowBits(draws, epsilon, noise, width)
    return part.rows(in_order(part, sampler, progress), parts)[0]


VALUES = 500
ANYWHERE = Range(0, 1e300)
AWAY = 64.0  # the value that noise is put on: a power of two, many scales above 0


def audit_processes(level: float) -> Fit:
    """Draw in this process and in two new ones; compare their noise place by place, and each value
    with each other.
    """
    with ProcessPoolExecutor(
        2, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        return compare_runs(np.array([noise(), *pool.map(noise, [VALUES] * 2)]), level)


def compare_runs(outputs: Array, level: float) -> Fit:
    """Compare (runs, values) outputs of noise of scale 1 on the same value."""
    u = uniforms(outputs, np.full(outputs.shape, AWAY), 1.0, ANYWHERE, noise=USUAL)
    p_values = {"pairs": pairs_p(u.T), "repeats": repeats_p(u)}
    oddest = min(p_values, key=lambda name: p_values[name])
    return Fit(
        "sampler, in three processes",
        oddest,
        u.size,
        min(1.0, len(p_values) * p_values[oddest]),
        level,
    )


def noise(values: int = VALUES) -> Array:
    """Draw the secure noise of scale 1 on a known value, so many times."""
    return SecureSampler().draw(np.full(values, AWAY), 1.0, USUAL)
