"""Noise of processes of their own: a generator that starts where another one did would repeat
it.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from gridveil.assurance.audit.fits import Fit, pairs_p, repeats_p, uniforms
from gridveil.grid.facts import Array
from gridveil.grid.parameters import Range
from gridveil.privacy.mechanisms import USUAL
from gridveil.vault.sampler import SecureSampler

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
    found = {"pairs": pairs_p(u.T), "repeats": repeats_p(u)}
    oddest = min(found, key=lambda name: found[name])
    return Fit(
        "sampler, in three processes", oddest, u.size, min(1.0, len(found) * found[oddest]), level
    )


def noise(values: int = VALUES) -> Array:
    """Draw the secure noise of scale 1 on a known value, so many times."""
    return SecureSampler().draw(np.full(values, AWAY), 1.0, USUAL)
