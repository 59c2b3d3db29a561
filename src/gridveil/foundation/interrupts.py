"""Signals that ask a process to end: raised as exceptions, or held back for a moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

# Windows has no HUP
SIGNALS = [
    signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class Ended(BaseException):
    """A signal asked the process to end.

    No KeyboardInterrupt: typer would take that for its own.
    """

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(self.signal.name)


def signal_of(interrupt: KeyboardInterrupt | Ended) -> signal.Signals:
    """The signal behind an interrupt."""
    return interrupt.signal if isinstance(interrupt, Ended) else signal.SIGINT


@contextmanager
def raised() -> Iterator[None]:
    """Raise `Ended` on a signal, so that what is under way can say how it ended.

    An ignored signal stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = {number: signal.getsignal(number) for number in SIGNALS}
    usual = {
        number: handler
        for number, handler in usual.items()
        if handler in (signal.SIG_DFL, signal.default_int_handler)
    }
    for number in usual:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise Ended(number)


@contextmanager
def held() -> Iterator[None]:
    """Hold signals back for a moment, around code that must not break off in the middle."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread() or not handlers:
        yield
        return
    caught: list[tuple[int, FrameType | None]] = []
    for number in handlers:
        signal.signal(number, lambda number, frame: caught.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if caught:
            handlers[signal.Signals(caught[0][0])](*caught[0])
