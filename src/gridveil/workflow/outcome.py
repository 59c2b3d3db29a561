"""What a release left behind, however it ended: what was charged, which bundles stand, which of
them the ledger has noted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gridveil.foundation.archive import SUMS
from gridveil.foundation.errors import NOTHING_SPENT, GridveilError, Interrupted
from gridveil.foundation.interrupts import Ended, held, signal_of
from gridveil.publication.unpack import read_files

if TYPE_CHECKING:
    from gridveil.privacy.ledger import Entry, Ledger


class Note(Protocol):
    """Takes what stands, in a sentence; done : all that was asked for."""

    def __call__(self, words: str, *, done: bool = False) -> None:
        """Keep it."""
        ...


@contextmanager
def outcome_told(
    book: Ledger, lineage: str, places: Sequence[Path], epsilon: Fraction, note: Note
) -> Iterator[None]:
    """Say what stands at the end. A bundle that was moved to its place but not noted in the ledger
    is noted first.

    epsilon : of each bundle.
    """
    before = len(book.charged)
    note(
        f"What was charged to the lineage {lineage}, gridveil ledger show says."
    )  # until more is known
    try:
        yield
        note(_words(lineage, len(places) * epsilon, dict.fromkeys(places, True)), done=True)
    except BaseException as error:
        with held():  # a second Ctrl-C must not break off the answer to the first
            charged, words, done = _outcome(book, lineage, before, places)
            note(words, done=done)
        if done or not isinstance(error, GridveilError | Ended | KeyboardInterrupt):
            raise
        if isinstance(error, GridveilError):
            raise error.also(words) if charged else error from None
        remedy = (
            "See gridveil ledger show; another release may need gridveil ledger budget."
            if charged
            else ""
        )
        raise Interrupted(
            "Interrupted", outcome=words, remedy=remedy, signal=signal_of(error)
        ) from None


def _outcome(
    book: Ledger, lineage: str, before: int, places: Sequence[Path]
) -> tuple[bool, str, bool]:
    """Whether anything was charged, what became of it in a sentence, and whether all places hold
    bundles that are noted.
    """
    try:
        mine = {
            entry.number: entry
            for entry in book.entries(lineage)
            if entry.number in book.charged[before:]
        }
    except GridveilError as error:
        return (
            True,
            f"What was charged to the lineage {lineage} cannot be read: {error.problem}",
            False,
        )
    if not mine:
        return False, NOTHING_SPENT, False
    noted = {place: _note(book, place, mine) for place in places}
    charged = sum((entry.epsilon for entry in mine.values()), Fraction(0))
    return True, _words(lineage, charged, noted), all(noted.values())


def _words(lineage: str, charged: Fraction, noted: Mapping[Path, bool | None]) -> str:
    """What was charged, which bundles stand, and which of them the ledger could not note."""
    standing, missing, unnoted = (
        [str(place) for place, known in noted.items() if known in wanted]
        for wanted in ((True, False), (None,), (False,))
    )
    words = f"ε = {charged} was charged to the lineage {lineage} and stays spent; "
    if not standing:
        return f"{words}there is no bundle."
    stands = "these bundles stand" if len(standing) > 1 else "the bundle stands"
    words += f"{stands}: {', '.join(standing)}"
    if missing:
        words += f"; there is no {', '.join(missing)}"
    if unnoted:
        words += f"; the ledger could not note that {', '.join(unnoted)} was published"
        words += ", and lists its draw without a bundle"
    return f"{words}."


def _note(book: Ledger, place: Path, mine: dict[int, Entry]) -> bool | None:
    """Note the bundle at a place if the ledger has not: True if it is noted then, False if not,
    None: no bundle of this run.
    """
    try:
        files = read_files(place).files
        entry = mine[json.loads(files["certificate.json"])["ledger_entry"]]
    except (GridveilError, KeyError, ValueError, TypeError):
        return None
    if entry.state == "published":
        return True
    try:
        book.mark_published(entry.number, hashlib.sha256(files[SUMS]).hexdigest())
    except GridveilError:
        return False
    return True
