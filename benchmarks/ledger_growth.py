"""What a charge costs as its ledger grows: 100 rows beside 20 000, of one lineage and of thousands,
in one run.

python benchmarks/ledger_growth.py
"""

from __future__ import annotations

import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.ledger import Charge, Ledger, Version

MARKS = 82  # of a grid of 41 lines, two kinds each
ADJACENCY = Adjacency("one-item")
SPENT = dict.fromkeys("kmd", 0.125)
ROUNDS = 15


def growth() -> dict:
    """Time a charge of a known grid, of a new grid, and `verify`.

    Rounds of all ledgers are interleaved.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        books = {
            "100 rows": _filled(folder / "small", rows=100, lineages=1),
            "20 000 rows, one lineage": _filled(folder / "long", rows=20_000, lineages=1),
            "20 000 rows, 4 000 lineages": _filled(folder / "wide", rows=20_000, lineages=4000),
        }
        known: dict[str, list[float]] = {name: [] for name in books}
        new: dict[str, list[float]] = {name: [] for name in books}
        verify: dict[str, list[float]] = {name: [] for name in books}
        for number in range(-1, ROUNDS):  # the first one warms up
            for name, book in books.items():
                known[name].append(_clock(lambda book=book: book.charge(_charge("grid 0", 0))))
                new[name].append(
                    _clock(
                        lambda book=book, number=number: book.charge(
                            _charge(f"new {number}", -2 - number)
                        )
                    )
                )
        for name, book in books.items():
            verify[name].append(_clock(lambda book=book: book.verify()))
    base = float(np.median(known["100 rows"][1:]))
    return {
        name: {
            "known_ms": [1e3 * value for value in known[name][1:]],
            "new_ms": [1e3 * value for value in new[name][1:]],
            "verify_ms": [1e3 * value for value in verify[name]],
            "ratio": float(np.median(known[name][1:])) / base,
            "required_ratio": 1.5,
        }
        for name in books
    }


def _filled(folder: Path, *, rows: int, lineages: int) -> Ledger:
    """A ledger of so many rows, written in one transaction."""
    book = Ledger(folder / "ledger.sqlite", safe=folder, witness=folder / "witness.sqlite")
    with book._writing() as writer:
        for number in range(lineages):
            writer.append("registered", {"lineage": f"grid {number}"})
            writer._keep_marks(f"{number:032x}", f"grid {number}", _version(number).marks)
            writer.set_budget(f"grid {number}", ADJACENCY, Fraction(10**9))
        while writer.count < rows:
            number = writer.count % lineages
            writer.reserve(_charge(f"grid {number}", number))
    return book


def _version(number: int) -> Version:
    return Version(tuple(f"names:{number} {line}" for line in range(MARKS)))


def _charge(lineage: str, number: int) -> Charge:
    return Charge(
        lineage, _version(number), "one-item", Fraction(1, 8), ADJACENCY.alpha, SPENT, SPENT
    )


def _clock(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def lines(found: dict) -> list[str]:
    """What was found, in words."""
    return [
        f"  {name}: {np.median(row['known_ms']):.0f} ms, {row['ratio']:.2f} times that at 100 rows "
        f"(must be {row['required_ratio']}); of a new grid {np.median(row['new_ms']):.0f} ms; "
        f"verify {row['verify_ms'][0]:.0f} ms"
        for name, row in found.items()
    ]


if __name__ == "__main__":
    print("A charge of a known grid:", *lines(growth()), sep="\n")
