"""Names of the stages that long work goes through, for whoever shows progress. Never a value, only what is being done."""

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

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


def stage(name: str) -> None:
    """Say that a stage begins."""
    listener = _listener.get()
    if listener is not None:
        listener(name)


@contextmanager
def told_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Have every stage that begins inside told to a listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
