"""Names of the stages that long work goes through, for whoever shows progress.

Never a value, only what is being done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

RELEASE = (
    "reading the grid",
    "finding the operating point",
    "sharing epsilon out",
    "drawing the noise",
    "reducing to the machines",
    "sharing the loads out",
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

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


def stage(name: str) -> None:
    """Say that a stage begins."""
    listener = _listener.get()
    if listener is not None:
        listener(name)


@contextmanager
def told_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Report each stage begun in this block to a listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
