"""Draw the entries of a detailed table from what a release says of them.

Items of machines are often alike: log x_i ~ N(μ, τ²), μ uniform, τ half-normal. A mean says nothing
of how entries differ: they scatter around it, by a τ of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridveil.grid.facts import Array
from gridveil.inference.posterior import Posterior, beliefs
from gridveil.privacy.noisy import NoisyGrid

ALIKE = 0.7  # deviation of τ, of machines' items
# The same of entries whose mean alone was drawn (of a signed one in its unit): droops are set by
# grid codes, gains of exciters by whoever tuned them, reactances and charging by what was built.
APART, USUALLY_APART = {"avr_gain": 0.5, "pss_gain": 0.3, "x_machine": 0.3, "b_ratio": 0.3}, 0.15
TYPICAL = 0.4  # deviation of the logarithm of a typical value, in common
GRID = (np.arange(400) + 0.5) * 0.01  # of τ


def entry_draws(noisy: NoisyGrid[Any], random: np.random.Generator, count: int) -> dict[str, Array]:
    """Draw entries (count, n) of every parameter that was drawn; published ones are known."""
    found: dict[str, Array] = {}
    for name, belief in beliefs(noisy).items():
        if name in noisy.allocation.published:
            found[name] = np.tile(noisy.values[name], (count, 1))
        elif name in noisy.allocation.drawn:
            found[name] = _drawn(noisy, name, belief, random, count)
    return found


def _drawn(
    noisy: NoisyGrid[Any], name: str, belief: Posterior, random: np.random.Generator, count: int
) -> Array:
    """Draw entries (count, n) of one parameter behind its noise."""
    loss, size = noisy.guarantee.groups[name], noisy.facts.sizes[name]
    if loss.mechanism.takes == "mean":
        return _around(name, belief, random, count, size)
    of_machines = noisy.facts.parameters[name].asset == "machine"
    if not (of_machines and loss.relative and size >= 3):
        return belief.sample(random, count)
    logs = alike_draws(np.log(belief.y), loss.noise.deviation * loss.scale, random, count)
    return np.clip(np.exp(logs), belief.lower, belief.upper)


def _around(
    name: str, belief: Posterior, random: np.random.Generator, count: int, size: int
) -> Array:
    """Scatter entries (count, size) around a mean that was drawn, and leave their mean."""
    mean = belief.sample(random, count)
    apart = scatter(name, random, count, size)
    entries = mean + apart if belief.signed else mean * np.exp(apart)
    return np.clip(entries, belief.lower, belief.upper)


def scatter(name: str, random: np.random.Generator, count: int, size: int) -> Array:
    """Draw by how much entries differ from their mean: (count, size), of mean 0 each."""
    tau = APART.get(name, USUALLY_APART) * np.abs(random.standard_normal((count, 1)))
    apart = tau * random.standard_normal((count, size))
    return apart - apart.mean(axis=1, keepdims=True)


def alike_draws(logs: Array, deviation: float, random: np.random.Generator, count: int) -> Array:
    """Draw (count, n) from log x_i ~ N(μ, τ²), observed with noise: μ uniform, τ half-normal.

    logs : (n,) as released; deviation : σ of their noise, taken for Gaussian.
    With v = τ² + σ² and S = Σ (y − ȳ)², p(τ | y) ∝ p(τ) v^(−(n−1)/2) e^(−S / 2v), μ given τ is
    N(ȳ, v/n), and log x_i given both is N((τ² y_i + σ² μ)/v, τ² σ²/v).
    """
    n, noise = len(logs), deviation**2
    variance = GRID**2 + noise
    spread = float(np.sum((logs - logs.mean()) ** 2))
    density = -0.5 * ((GRID / ALIKE) ** 2 + (n - 1) * np.log(variance) + spread / variance)
    weight = np.exp(density - density.max())
    tau2 = GRID[random.choice(len(GRID), count, p=weight / weight.sum())][:, None] ** 2
    v = tau2 + noise
    mu = logs.mean() + np.sqrt(v / n) * random.standard_normal((count, 1))
    centre = (tau2 * logs + noise * mu) / v
    return centre + np.sqrt(tau2 * noise / v) * random.standard_normal((count, n))


def typical_factors(name: str, random: np.random.Generator, size: int) -> Array:
    """Draw by how much entries (size,) differ from a typical value, nothing of which was drawn."""
    apart = TYPICAL * random.standard_normal() + scatter(name, random, 1, size)[0]
    return np.exp(apart)
