"""Shards: long work in pieces that are made by any executor, and kept in a file each.

A piece is named by all that it depends on, so a file that is lost or damaged is made again, and no
piece is made twice.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar
from zipfile import BadZipFile

import numpy as np

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

    @classmethod
    def plain(cls, folder: Path) -> Kept[Any]:
        """Results that are plain data: numbers, texts, lists and tables."""
        return Kept[Any](folder, lambda result: json.dumps(result).encode(), json.loads)

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


def gather(
    pieces: Mapping[str, Piece],
    work: Callable[[Piece], Result],
    crew: Crew,
    *,
    kept: Kept[Result] | None = None,
    more: Callable[[str], object] = lambda _: None,
) -> tuple[dict[str, Result], list[Failure[str]]]:
    """Results of all pieces, in their order: read back where they are kept, else made, and kept.

    Ctrl-C, or a machine that stops, costs what was not yet finished.
    more : called with the name of each piece that is there.
    """
    found: dict[str, Result] = {}

    def take(name: str, result: Result) -> None:
        if kept is not None:
            kept.write(name, result)
        found[name] = result
        more(name)

    try:
        if kept is not None:
            kept.folder.mkdir(parents=True, exist_ok=True)
            for name in pieces:
                if (result := kept.read(name)) is not None:
                    found[name] = result
                    more(name)
        left = {name: piece for name, piece in pieces.items() if name not in found}
        failed = finish(left, work, take, crew)
    except OSError as error:
        where = kept.folder if kept is not None else "a temporary folder"
        raise GridveilError(
            f"Cannot write to {where} ({error.strerror}).",
            outcome="What was finished is kept.",
            remedy="Make room or name another folder, then run it again.",
        ) from None
    return {name: found[name] for name in pieces if name in found}, failed


def check_made(failed: Sequence[Failure[str]], words: Mapping[str, str], outcome: str) -> None:
    """Refuse to go on without all pieces, with a table of what failed; words : name each piece."""
    if failed:
        raise GridveilError(
            f"{len(failed)} of {len(words)} batches could not be made: "
            + "; ".join(f"{words[one.name]} ({one.tries} tries): {one.why}" for one in failed),
            outcome=outcome,
        )


def cut(count: int, size: int) -> list[range]:
    """Cut 0 … count − 1 into spans.

    >>> cut(5, 2)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


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


def name_of(*settings: Any) -> str:
    """Name a piece by all that it depends on: its settings, and gridveil's own source."""
    return digest_of([_source(), *settings])[:32]


@cache
def _source() -> str:
    """SHA-256 of the package's modules: results of other code are not this code's."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def digest_of(value: Any) -> str:
    """SHA-256 of plain data, in hex."""
    return hashlib.sha256(json.dumps(value, default=_plain, sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, Fraction | Path):
        return str(value)
    if isinstance(value, range):
        return [value.start, value.stop]
    if hasattr(value, "model_dump"):  # pydantic's
        return value.model_dump()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    raise TypeError(f"{type(value).__name__} has no plain form")  # its repr might change
