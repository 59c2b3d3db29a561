"""How a command ends: its exit code, and what is said where a stream can no longer be written to.

A reader that went away (`| head -1`) is no error and changes no exit code. Where stdout is closed
or full, what a command left behind is said on stderr; one that left nothing but its text ends with
74.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from gridveil.foundation.shown import shown

TEXT_LOST = 74  # EX_IOERR of sysexits.h


class Outlet:
    """A stream that falls silent, and remembers why, where writing fails: what a command did stands
    all the same.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = Path(os.devnull).open("w", encoding="utf-8") if stream is None else stream  # noqa: SIM115
        self._closed = stream is None
        self.lost: str | None = None
        self.left = False

    def write(self, text: str) -> int:
        """Write, or drop what nobody can read."""
        if not isinstance(text, str):
            raise TypeError("text only")  # which is how typer finds out
        if text and self._closed:
            self.lost = "it is closed"
        elif self.lost is None:
            self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write what is still held back."""
        if self.lost is None:
            self._try(self._stream.flush)

    def _try(self, write: Any) -> None:
        try:
            write()
        except (OSError, ValueError) as error:  # ValueError: somebody closed it
            self.left = isinstance(error, OSError) and error.errno == errno.EPIPE
            self.lost = (isinstance(error, OSError) and error.strerror) or "it is closed"
            # Python would try again on its way out, and complain.
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Result:
    """What the command at work has left behind, in a sentence; done : all that it was asked for."""

    words = ""
    done = False
    told = False


_result = _Result()


def note_outcome(words: str, *, done: bool = False) -> None:
    """Note what stands, however the command may end from here on.

    done : nothing is missing but its text.
    """
    _result.words, _result.done, _result.told = words, done, False


def outcome_words() -> str:
    """What stands, to be said now: a blank and a sentence, or nothing."""
    _result.told = True
    return f" {shown(_result.words)}" if _result.words else ""


@contextmanager
def own_streams() -> Iterator[Outlet]:
    """Let a command write to streams that never fail; gives stdout."""
    for number in range(3):
        try:
            os.fstat(number)
        except (
            OSError
        ):  # closed: the next file that is opened, a ledger perhaps, would be taken for stdout
            os.open(os.devnull, os.O_RDWR)
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        if isinstance(
            stream, TextIOWrapper
        ):  # a screen without ε must not break off a release that was drawn
            stream.reconfigure(errors="replace")
    out: Any = Outlet(sys.stdout)
    err: Any = Outlet(sys.stderr)
    note_outcome("")
    sys.stdin = sys.stdin or Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    sys.stdout, sys.stderr = out, err
    try:
        yield out
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def exit_code(code: int, out: Outlet) -> int:
    """Flush, say what stands if the command did not get to say it, and return the exit code that
    follows from it.
    """
    sys.stdout.flush()
    lost = f"stdout could not be written ({out.lost})" if out.lost and not out.left else ""
    if _result.done and not _result.told and (code or out.lost):
        sys.stderr.write(f"gridveil:{f' {lost}.' if lost else ''}{outcome_words()}\n")
    elif lost and not code:
        sys.stderr.write(f"gridveil: {lost}: what this command printed is lost.\n")
    sys.stderr.flush()
    if _result.done:
        return 0
    return TEXT_LOST if lost and not code else code
