"""Progress of long work: what is being done, how much of it is done and of how much; never a
private value.

Work reports to whoever listens, one bar say; it is handed no callback. Stages that are known
beforehand are counted by their list, other work counts itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

RELEASE = (
    "reading the grid",
    "finding the operating point",
    "sharing epsilon out",
    "drawing the noise",
    "reducing to the machines",
    "sharing the loads out",
    "drawing error bars",
    "simulating the reference",
    "writing the bundle",
)

# How often an attacker begins anew to win line weights back from a reduction.
STARTS = 3


def start_named(number: int, starts: int = STARTS) -> str:
    """Name the stage of one start of an inversion."""
    return f"winning lines back, start {number} of {starts}"


def corner_named(number: int, corners: int) -> str:
    """Name the stage of one table of a joint claim."""
    return f"table {number} of {corners}"


# Finding a table to compute at; of the starts, only a bundle needs any, and most bundles one.
BASIS = (
    "reading the grid",
    "finding the operating point",
    *(start_named(number + 1) for number in range(STARTS)),
)
LEAKAGE = (
    "simulating the table",
    "moving each line's k",
    "moving each machine's m",
    "moving each machine's d",
    "moving several at once",
    "bounding the errors",
)
# The corners of the public bounds of k, m and d, and the table itself.
CORNERS = tuple(corner_named(number + 1, 9) for number in range(9))


class Progress(Protocol):
    """Takes a stage, and how much of how much is done; None where that is not known."""

    def __call__(self, stage: str, done: int | None, total: int | None, /) -> object:
        """Show it."""
        ...


_listener: ContextVar[Progress | None] = ContextVar("listener", default=None)
_stages: ContextVar[Sequence[str]] = ContextVar("stages", default=())


def report(stage: str, done: int | None = None, total: int | None = None) -> None:
    """Say what is being done, and how much of it is done."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


def stage(name: str) -> None:
    """Say that a stage begins: one of the list of `staged`, or another, which moves no bar."""
    stages = _stages.get()
    known = name in stages
    report(name, stages.index(name) if known else None, len(stages) if known else None)


@contextmanager
def staged(stages: Sequence[str]) -> Iterator[None]:
    """Count the stages of this block by their list."""
    token = _stages.set(stages)
    try:
        yield
    finally:
        _stages.reset(token)


@contextmanager
def counted(words: str, total: int) -> Iterator[Callable[..., None]]:
    """Count the work of this block; whatever else is reported in it is not shown.

    What it yields takes how much more was done, 1 unless told, and what is at work if it has a
    name.
    """
    done, listener = 0, _listener.get()

    def more(number: int = 1, at_work: str = words) -> None:
        nonlocal done
        done += number
        if listener is not None:
            listener(at_work, done, total)

    more(0)
    with told_to(None):
        yield more


@contextmanager
def told_to(listener: Progress | None) -> Iterator[None]:
    """Report each stage begun in this block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
