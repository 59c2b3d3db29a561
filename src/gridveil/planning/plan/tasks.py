"""The tasks of a plan, which any executor does: seeded trials of a public case, in plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from gridveil.dynamics.engine.compute import CPU, Compute
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.events import Event
from gridveil.foundation.executors import Crew, check_worker
from gridveil.foundation.shards import Kept, check_made, gather, name_of
from gridveil.foundation.version import __version__
from gridveil.grid.parameters import Bounds
from gridveil.grid.tables import PublicTable
from gridveil.planning.plan.search import Choice, Curve, Search, splits
from gridveil.planning.plan.targets import NO_PLAN, Target
from gridveil.planning.trials import Trials
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation, MechanismName, Sharing

SEARCH_SEED, CHECK_SEED = 0, 1
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class SearchSettings:
    """What a plan is asked, all of it public; compute : a GPU's stays in this process."""

    surrogate: PublicTable
    event: Event
    bounds: Bounds
    targets: tuple[Target, ...]
    sharing: Sharing
    draws: int
    quantile: float
    compute: Compute = CPU
    version: str = __version__

    @cached_property
    def name(self) -> str:
        """Names all of it."""
        return name_of(
            self.surrogate,
            self.event,
            self.bounds,
            self.targets,
            self.sharing,
            self.draws,
            self.quantile,
            self.compute.name,
        )

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SearchSettings) and self.name == other.name


@dataclass(frozen=True, eq=False)
class SearchTask:
    """What is found at a time: the least ε of a mechanism under a rule, or its curve.

    choice : of the curve.
    middle : ε around which it lies.
    """

    asked: SearchSettings
    adjacency: Adjacency
    mechanism: MechanismName
    choice: Choice | None = None
    middle: float = math.nan

    @property
    def name(self) -> str:
        """The name of its file."""
        of = (self.choice.allocation, self.choice.epsilon, self.middle) if self.choice else ()
        return f"{name_of(self.asked.name, self.adjacency, self.mechanism, *of)}.json"

    @property
    def words(self) -> str:
        """Name it in a line."""
        return f"{self.adjacency.rule}, {self.mechanism}"

    @property
    def splits(self) -> list[Allocation]:
        """The splits of ε that are tried."""
        return splits(self.adjacency, self.mechanism, self.asked.sharing)


def run_task(task: SearchTask) -> Any:
    """Search, in plain data: this is what workers run. Draws are seeded, of a public case."""
    check_worker(task.asked.version)
    with one_blas_thread():
        search = searching(task.asked)
        if task.choice is not None:
            curve = search.curve(task.choice, task.middle)
            errors = {name: values.tolist() for name, values in curve.errors.items()}
            return {"epsilon": curve.epsilon.tolist(), "errors": errors}
        found = search.choose(task.adjacency, task.mechanism, task.splits)
    return {
        "split": task.splits.index(found.allocation),
        "epsilon": str(found.epsilon) if found.epsilon is not None else None,
        "figures": [found.share, found.share_low, found.errors, found.L],
    }


@lru_cache(maxsize=1)
def searching(asked: SearchSettings) -> Search:
    """The search on a surrogate: its draws are made once in a process."""
    common: dict[str, Any] = {"draws": asked.draws, "compute": asked.compute}
    public = (asked.surrogate, asked.event, asked.bounds)
    trials = Trials(*public, seed=SEARCH_SEED, lumped=True, **common)
    fresh = Trials(*public, seed=CHECK_SEED, **common)
    return Search(trials, fresh, asked.targets, asked.quantile)


def choice_of(task: SearchTask, found: Any) -> Choice:
    """What a search found."""
    epsilon = found["epsilon"] and Fraction(found["epsilon"])
    allocation = task.splits[found["split"]]
    return Choice(task.adjacency, task.mechanism, allocation, epsilon, *found["figures"])


def curve_of(task: SearchTask, found: Any) -> Curve:
    """What lies around it."""
    assert task.choice is not None
    errors = {name: np.array(values) for name, values in found["errors"].items()}
    return Curve(task.choice, np.array(found["epsilon"]), errors)


def gathered(
    tasks: Sequence[SearchTask],
    read: Callable[[SearchTask, Any], Found],
    crew: Crew,
    kept: Kept[Any] | None,
    more: Callable[..., object] = lambda *_: None,
) -> list[Found]:
    """What was found of each task, in their order."""
    named = {task.name: task for task in tasks}
    words = {name: task.words for name, task in named.items()}
    found, failed = gather(named, run_task, crew, kept=kept, more=lambda name: more(1, words[name]))
    check_made(failed, words, NO_PLAN)
    return [read(task, found[task.name]) for task in tasks]
