"""What the fidelity benchmarks share: draws spread over the cores, kept if asked for, and
summaries.
"""

from __future__ import annotations

import argparse
import atexit
import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import cache
from inspect import getfile, unwrap
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gridveil.foundation.executors import Crew, here, local
from gridveil.foundation.shards import Kept, gather, name_of
from gridveil.grid.facts import Array

One = TypeVar("One")
Found = TypeVar("Found")


class _Resume(argparse.Action):
    """Notes where finished draws are kept."""

    folder: Path | None = None

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:  # noqa: ARG002
        type(self).folder = values


def resumable(parser: argparse.ArgumentParser) -> None:
    """Add --resume, by which `over_draws` goes on from a run that was stopped."""
    words = "keep finished draws there, and go on from those that are there: of the same code alone"
    parser.add_argument("--resume", metavar="FOLDER", type=Path, action=_Resume, help=words)


def over_draws(
    work: Callable[[One], Found],
    draws: Sequence[One],
    name: str,
    *,
    crew: Crew | None = None,
    folder: Path | None = None,
) -> list[Found]:
    """Do the work on every draw, a process a core, in order; say on stderr how far it is.

    folder : keeps finished draws, each in a file that its settings name; None: as --resume says.
    Read files of your own alone: they are pickles.
    """
    folder, done = folder or _Resume.folder, list[str]()
    names = [_name(work, draw) if folder else str(number) for number, draw in enumerate(draws)]

    def more(one: str) -> None:
        done.append(one)
        print(f"\r\033[K{name}: {len(done)} of {len(draws)} draws", end="", file=sys.stderr)

    crew = crew or (here() if len(draws) == 1 else _crew())
    kept = Kept(folder, pickle.dumps, _unpickled) if folder else None
    found, failed = gather(dict(zip(names, draws, strict=True)), work, crew, kept=kept, more=more)
    print("\r\033[K", end="", file=sys.stderr, flush=True)
    for one in failed:
        what = draws[names.index(one.name)]
        print(f"{name}, failed ({one.tries} tries): {what}: {one.why}", file=sys.stderr)
    if failed:
        raise RuntimeError(f"{name}: {len(failed)} of {len(draws)} draws failed: {failed[0].why}")
    return [found[own] for own in names]


def _name(work: Callable[[One], Found], draw: One) -> str:
    what = (Path(getfile(unwrap(work))).name, work.__qualname__, draw)
    return f"{name_of(_benchmarks(), *what)}.pickle"


@cache
def _benchmarks() -> str:
    """SHA-256 of the benchmarks' own code, beside that of gridveil."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _unpickled(data: bytes) -> Any:
    try:
        return pickle.loads(data)
    except (pickle.UnpicklingError, AttributeError, ImportError, IndexError) as error:
        raise ValueError("This is no whole pickle.") from error


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
