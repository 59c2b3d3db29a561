"""Errors leave the vault and the readers without their frames, which hold private values.

Python keeps the local variables of every frame in a traceback, and some tools show them:
`capture_locals`, rich, `pytest -l`, crash reporters. A sealed function lets an error out with the
places it came through as a note, and no frame but its own.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class _PlacesNote(str):
    """The note that lists places, one per line; a class, to be told from other notes."""

    __slots__ = ()


def sealed(function: Callable[P, R]) -> Callable[P, R]:
    r"""Let no error of a function carry a frame, or another error, out of it.

    >>> @sealed
    ... def invert(secret):
    ...     return 1 / secret
    >>> try:
    ...     invert(0)
    ... except ZeroDivisionError as error:
    ...     print("\n".join(error.__notes__))  # doctest: +ELLIPSIS
    It came through (frames are left out, since they hold private values):
      ... invert
    """

    @wraps(function)
    def entry(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            del args, kwargs  # this frame is seen
            _strip(error)
            raise

    return entry


def places_of(error: BaseException) -> list[str]:
    """Places an error came through, outermost first, sealed ones too: "file:line function"."""
    frames = [
        f"{Path(frame.f_code.co_filename).name}:{line} {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename != __file__
    ]
    return frames + [line.strip() for note in _notes(error) for line in note.splitlines()[1:]]


def _notes(error: BaseException) -> list[_PlacesNote]:
    return [note for note in getattr(error, "__notes__", ()) if isinstance(note, _PlacesNote)]


def _strip(error: BaseException) -> None:
    places, earlier = places_of(error), _notes(error)
    error.__notes__ = [note for note in getattr(error, "__notes__", ()) if note not in earlier]
    error.add_note(
        _PlacesNote(
            "\n  ".join(
                ["It came through (frames are left out, since they hold private values):", *places]
            )
        )
    )
    error.__traceback__ = error.__cause__ = error.__context__ = None
    for name in ("obj", "object", "doc"):
        # what an AttributeError, a UnicodeDecodeError or a JSONDecodeError was about
        if hasattr(error, name):
            with suppress(AttributeError, TypeError):
                setattr(error, name, b"" if name == "object" else None)
    for inner in getattr(error, "exceptions", ()):
        _strip(inner)
