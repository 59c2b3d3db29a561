"""What the fidelity benchmarks share: draws spread over the cores, and summaries."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import TypeVar

import numpy as np

from gridveil.grid.facts import Array

One = TypeVar("One")
Found = TypeVar("Found")


def over_draws(work: Callable[[One], Found], draws: Sequence[One], name: str) -> list[Found]:
    """Do the work on every draw, a process a core, in order; say on stderr how far it is."""
    if len(draws) == 1 or _cores() == 1:
        return [work(one) for one in draws]
    found: list[Found] = []
    for one in _pool().map(work, draws):
        found.append(one)
        print(
            f"\r\033[K{name}: {len(found)} of {len(draws)} draws",
            end="",
            file=sys.stderr,
            flush=True,
        )
    print("\r\033[K", end="", file=sys.stderr, flush=True)
    return found


def quantiles(L: Array) -> dict[str, float]:
    """Mean, median and 80 % interval."""
    low, high = np.quantile(L, [0.1, 0.9])
    return {
        "mean": float(L.mean()),
        "median": float(np.median(L)),
        "low80": float(low),
        "high80": float(high),
    }


def _cores() -> int:
    return os.cpu_count() or 1


@cache
def _pool() -> ProcessPoolExecutor:
    os.environ["OMP_NUM_THREADS"] = "1"  # the cores are used over the draws
    return ProcessPoolExecutor(_cores(), mp_context=get_context("spawn"))
