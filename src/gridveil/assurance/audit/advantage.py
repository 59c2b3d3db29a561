"""The all-but-one adversary against `perturb` itself: its measured advantage beside the exact
one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridveil.adversary.attack.all_but_one import bound
from gridveil.assurance.audit.draws import Draw, perturbed
from gridveil.assurance.audit.findings import success_lower
from gridveil.assurance.audit.run import LARGEST_BLOCK, play
from gridveil.grid.parameters import PARAMETERS
from gridveil.privacy.adjacency import Adjacency

CONFIDENCE = 0.999


@dataclass(frozen=True)
class Advantage:
    """How well the best test tells two neighbours apart: TPR − FPR = 2 P(right) − 1.

    moved : what differs between the two, in whichever directions.
    draws : guesses made.
    low, high : 99.9 % interval of the measured value (Clopper–Pearson).
    exact : against noise of the law and the scales that the guarantee states.
    bound : against anything ε-DP.
    """

    rule: str
    moved: str
    epsilon: Fraction
    draws: int
    measured: float
    low: float
    high: float
    exact: float
    bound: float

    @property
    def passed(self) -> bool:
        """Whether the exact value lies in the measured interval."""
        return self.low <= self.exact <= self.high


def measure_advantage(
    adjacency: Adjacency,
    epsilon: Fraction,
    draws: int,
    *,
    draw: Draw | None = None,
    workers: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> tuple[Advantage, ...]:
    """Guess secrets by the sign of the likelihood ratio, at least `draws` times for each step of
    the adjacency.

    draw : what releases are made by; default: `perturb`, with ε each.
    progress : told how many values a block drew.
    """
    draw = draw or perturbed(adjacency, epsilon)
    right: dict[str, float] = {}
    made: dict[str, int] = {}
    exact: dict[str, float] = {}
    pool = ThreadPoolExecutor(workers or os.cpu_count() or 1)
    try:
        blocks = math.ceil(draws / LARGEST_BLOCK)
        size = math.ceil(draws / blocks)
        jobs = [pool.submit(play, adjacency, epsilon, size, 1, draw) for _ in range(blocks)]
        for job in as_completed(jobs):
            played = job.result()
            for pattern, secret, ratio in zip(
                played.block.patterns,
                played.block.secrets,
                played.block.ratios(played.z, played.losses, played.noise),
                strict=True,
            ):
                # ℓ = 0 tells nothing: half of those are right.
                hits = (np.sign(ratio) == secret).sum() + 0.5 * (ratio == 0).sum()
                moved = ", ".join(group for _, group in pattern.signs)
                right[moved] = right.get(moved, 0.0) + float(hits)
                made[moved] = made.get(moved, 0) + len(secret)
                # The signs of a pattern do not matter to it: the noise is symmetric.
                exact[moved] = played.noise.advantage(
                    [played.losses[group] for _, group in pattern.signs]
                )
            if progress is not None:
                progress(len(PARAMETERS) * size)
    finally:
        pool.shutdown(cancel_futures=True)
    out = []
    for name, count in made.items():
        low, high = _interval(right[name], count)
        out.append(
            Advantage(
                rule=adjacency.rule,
                moved=name,
                epsilon=epsilon,
                draws=count,
                measured=2 * right[name] / count - 1,
                low=2 * low - 1,
                high=2 * high - 1,
                exact=exact[name],
                bound=bound(float(epsilon)),
            )
        )
    return tuple(out)


def values_for_advantage(draws: int) -> int:
    """Count the values that are drawn, for a progress bar: three a position, one position for each
    guess of a step.
    """
    blocks = math.ceil(draws / LARGEST_BLOCK)
    return len(PARAMETERS) * blocks * math.ceil(draws / blocks)


def _interval(right: float, count: int) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    return float(success_lower(right, count, 1 - tail)), 1 - float(
        success_lower(count - right, count, 1 - tail)
    )
