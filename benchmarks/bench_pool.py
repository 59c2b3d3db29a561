"""What the fidelity benchmarks share: draws spread over the cores, and summaries."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

import numpy as np

from gridveil.foundation.executors import Crew, here, local
from gridveil.foundation.shards import finish
from gridveil.grid.facts import Array

One = TypeVar("One")
Found = TypeVar("Found")


def over_draws(work: Callable[[One], Found], draws: Sequence[One], name: str) -> list[Found]:
    """Do the work on every draw, a process a core, in order; say on stderr how far it is."""
    found: dict[int, Found] = {}

    def more() -> None:
        print(f"\r\033[K{name}: {len(found)} of {len(draws)} draws", end="", file=sys.stderr)

    crew = here() if len(draws) == 1 else _crew()
    failed = finish(dict(enumerate(draws)), work, found.__setitem__, crew, more=more)
    print("\r\033[K", end="", file=sys.stderr, flush=True)
    if failed:
        raise RuntimeError(f"{name}, draw {failed[0].name}: {failed[0].why}")
    return [found[number] for number in range(len(draws))]


def quantiles(L: Array) -> dict[str, float]:
    """Mean, median and 80 % interval."""
    low, high = np.quantile(L, [0.1, 0.9])
    return {
        "mean": float(L.mean()),
        "median": float(np.median(L)),
        "low80": float(low),
        "high80": float(high),
    }


@cache
def _crew() -> Crew:
    os.environ["OMP_NUM_THREADS"] = "1"  # the cores are used over the draws
    crew = local()
    atexit.register(crew.drop)
    return crew
