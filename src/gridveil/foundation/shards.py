"""Shards: long work in pieces that are made by any executor, and kept in a file each.

A piece is named by all that it depends on, so a file that is lost or damaged is made again, and no
piece is made twice.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar
from zipfile import BadZipFile

from gridveil.foundation.errors import GridveilError
from gridveil.foundation.executors import Crew
from gridveil.foundation.files import replace_whole
from gridveil.foundation.reading import read_regular

Name = TypeVar("Name")
Piece = TypeVar("Piece")
Result = TypeVar("Result")

MOST_TRIES = 3  # of a piece whose worker died, or met an error that is not the user's
MOST_LOSSES = 3  # of all workers at once, with nothing done in between


@dataclass(frozen=True)
class Kept(Generic[Result]):
    """Finished pieces, in a file each.

    encode, decode : a result to bytes and back; decode raises ValueError, KeyError or OSError where
    the bytes are not whole.
    """

    folder: Path
    encode: Callable[[Result], bytes]
    decode: Callable[[bytes], Result]

    def read(self, name: str) -> Result | None:
        """Read a result back; None: it is not there, or not whole, and is to be made again."""
        try:
            return self.decode(read_regular(self.folder / name))
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None

    def write(self, name: str, result: Result) -> None:
        """Write a result, whole or not at all."""
        replace_whole(self.folder / name, self.encode(result), mode=0o644)


@dataclass(frozen=True)
class Failure(Generic[Name]):
    """A piece that was not made: how often it was tried, and why the last try failed."""

    name: Name
    tries: int
    why: str


@dataclass(frozen=True)
class _Tried(Generic[Result]):
    """What a worker answers: a result, or why there is none; final : another try would fail too."""

    result: Result | None = None
    why: str = ""
    final: bool = False


def finish(
    pieces: Mapping[Name, Piece],
    work: Callable[[Piece], Result],
    keep: Callable[[Name, Result], object],
    crew: Crew,
    *,
    more: Callable[[], object] = lambda: None,
) -> list[Failure[Name]]:
    """Do the work on every piece, wherever the crew works, and hand each result to `keep`.

    A piece that fails is tried again, at most MOST_TRIES times in all; one that its user has to
    correct (GridveilError) is not. Where all workers are lost at once, others are called, and what
    was in their hands is tried alone first: one of these pieces may be the reason.
    work : a function of a module, as workers import it; keep : called here, one at a time.
    more : called for each piece that is made, or given up.
    """
    state = _State(dict(pieces), work, keep, more)
    losses = 0
    while state.left:
        before = len(state.left)
        if state.run(crew):
            break
        losses = losses + 1 if len(state.left) == before else 1
        crew.drop()
        if losses >= MOST_LOSSES:
            raise GridveilError(
                f"The workers were lost {losses} times in a row.",
                outcome="What was finished is kept.",
                remedy="Look at their logs and memory, then run it again: it goes on from there.",
            )
    return state.failed


class _State(Generic[Name, Piece, Result]):
    """Pieces that are left, and how they fared."""

    def __init__(
        self,
        left: dict[Name, Piece],
        work: Callable[[Piece], Result],
        keep: Callable[[Name, Result], object],
        more: Callable[[], object],
    ) -> None:
        self.left, self.failed = left, list[Failure[Name]]()
        self._work, self._keep, self._more = work, keep, more
        self._tries, self._suspects = Counter[Name](), set[Name]()

    def run(self, crew: Crew) -> bool:
        """Work until nothing is left; False: the crew was lost."""
        queue = deque(sorted(self.left, key=lambda name: name not in self._suspects))
        flying: dict[Future[Any], Name] = {}
        while queue or flying:
            try:
                while queue and len(flying) < (1 if self._suspects else crew.width()):
                    name = queue.popleft()
                    flying[crew.executor.submit(_try, self._work, self.left[name])] = name
            except GridveilError:
                raise
            except Exception:
                # Executors have no common error for workers that are gone.
                return self._lost(flying)
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                try:
                    tried = future.result()
                except (BrokenExecutor, CancelledError):
                    return self._lost(flying)
                except Exception as error:
                    tried = _Tried(why=_words(error))
                name = flying.pop(future)
                if not self._done(name, tried):
                    queue.append(name)
        return True

    def _done(self, name: Name, tried: _Tried[Result]) -> bool:
        """Note what became of a piece; False: it is to be tried again."""
        self._tries[name] += 1
        self._suspects.discard(name)
        if tried.why and not tried.final and self._tries[name] < MOST_TRIES:
            return False
        if tried.why:
            self.failed.append(Failure(name, self._tries[name], tried.why))
        else:
            self._keep(name, tried.result)  # pyright: ignore[reportArgumentType]  # whatever work returns
        del self.left[name]
        self._more()
        return True

    def _lost(self, flying: Mapping[Future[Any], Name]) -> bool:
        self._suspects |= set(flying.values())
        for name in flying.values():
            self._tries[name] += 1
            if self._tries[name] >= MOST_TRIES:
                self._tries[name] -= 1
                self._done(name, _Tried(why="its worker died", final=True))
        return False


def _try(work: Callable[[Piece], Result], piece: Piece) -> _Tried[Result]:
    """Work on a worker: errors go back as words, since not all of them can be sent."""
    try:
        return _Tried(work(piece))
    except GridveilError as error:
        return _Tried(why=str(error), final=True)
    except Exception as error:
        return _Tried(why=_words(error))


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
