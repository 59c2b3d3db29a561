"""Marks of a network: how a ledger recognises a grid, or a part of it, in any file."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from gridveil.grid.facts import TableFacts

# Two grids are versions of one lineage if more than this part of all marks of one kind is common to
# them. Over 61 public grids, strangers share up to 0.42 by names and 0.17 around, but for two
# feeders of 17 buses, with 0.22 around; a copy with one line out keeps 0.89 by names, and seasons
# of one grid under other names share 0.24 and more around.
ALIKE = {"names": 1 / 2, "around": 1 / 5}
# A grid is part of another if more than this share of its lines, and at least this many, are found
# there by names. Of few lines a larger share is asked: where buses are numbered along their lines,
# strangers share up to 13 of 15, 20 of 39 and 36 of 75 of grids that gridveil reads; of feeders
# more (scripts/lineages.py). In a sample, a third of the lines that buses split may seem to be
# missing.
PART = ((0.6, 24), (0.7, 16), (0.9, 8))
# This many of a kind stand for all: the smallest, the same sample for two grids that are alike.
SAMPLE = 512


@lru_cache(maxsize=4)
def line_marks(facts: TableFacts) -> dict[str, list[bytes]]:
    """Describe each line by its ends' names and by the network around it; number equal ones.

    By names, a copy or a part is known whatever lines and machines were added or dropped; by what
    is around (numbers of lines of the ends and of their neighbours, and whether machines are
    there), whatever its buses are called. The kind "through" names pairs that no line joins, but a
    bus with two lines and no machine: the line that was there before that bus split it. Parallel
    circuits count as one line, as a swing model has them: whatever a file is read as, its marks are
    the same. All are public facts.
    """
    n = len(facts.buses)
    lines = list({(min(i, j), max(i, j)): (i, j) for i, j in facts.edges.tolist()}.values())
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for i, j in lines:
        neighbours[i].append(j)
        neighbours[j].append(i)
    machines = set(facts.machines.tolist())
    degree = [f"{len(neighbours[bus])} {bus in machines}" for bus in range(n)]
    around = [
        _short(degree[bus], *sorted(degree[other] for other in neighbours[bus])) for bus in range(n)
    ]
    middles = [
        (a, b)
        for bus, (a, *more) in enumerate(neighbours)
        if len(more) == 1 and bus not in machines
        for b in more
    ]
    names = _pairs(facts.buses, lines)
    split = dict.fromkeys(_pairs(facts.buses, middles)).keys() - set(names)
    return {
        "names": _numbered(names),
        "around": _numbered(_pairs(around, lines)),
        "through": _numbered(sorted(split)),
    }


class Sought:
    """A grid's keyed marks, kind:name, taken apart once to be compared with many others.

    telling : all that a grid alike can share with this one; one that has none of them is a
    stranger.
    """

    def __init__(self, marks: Iterable[str]) -> None:
        self._kinds = by_kind(marks)
        named = self._kinds["names"] | self._kinds["through"]
        self._around = {f"around:{name}" for name in self._kinds["around"]}
        self.telling = self._around | {
            f"{kind}:{name}" for kind in ("names", "through") for name in named
        }

    def is_like(self, marks: Iterable[str]) -> bool:
        """Whether another grid is a version of this one, or one of them is part of the other."""
        marks = tuple(marks)
        shared = self.telling.intersection(marks)
        around = len(shared & self._around)
        fewest = {
            kind: share * min(SAMPLE, len(self._kinds[kind])) for kind, share in ALIKE.items()
        }
        if around <= fewest["around"] and len(shared) - around < min(
            fewest["names"], *(lines for _, lines in PART)
        ):
            return False  # a stranger, as most are, known without taking its marks apart
        other = by_kind(marks)
        return (
            any(_share(self._kinds[kind], other[kind]) > share for kind, share in ALIKE.items())
            or _is_part(self._kinds, other)
            or _is_part(other, self._kinds)
        )


def are_alike(first: Iterable[str], other: Iterable[str]) -> bool:
    """Compare the keyed marks of two grids, written kind:name."""
    return Sought(first).is_like(other)


def facts_alike(first: TableFacts, other: TableFacts) -> bool:
    """Whether two grids look like versions of one, or one like part of the other."""
    return are_alike(
        *(
            [
                f"{kind}:{mark.decode()}"
                for kind, marks in line_marks(facts).items()
                for mark in marks
            ]
            for facts in (first, other)
        )
    )


def found_in(part: dict[str, set[str]], whole: dict[str, set[str]]) -> tuple[int, int]:
    """Count a grid's lines that another has by name, and all; a line split by a bus counts once.

    Of samples only what both would hold is compared: below the last mark of either.
    """
    sampled = [
        max(marks)
        for grid in (part, whole)
        for marks in (grid["names"], grid["through"])
        if len(marks) == SAMPLE
    ]
    lines, split, their_lines, their_split = (
        {mark for mark in marks if mark <= min(sampled)} if sampled else marks
        for grid in (part, whole)
        for marks in (grid["names"], grid["through"])
    )
    count = len(lines & (their_lines | their_split))
    # A bus that splits a line has two lines which the other grid does not know: no more are taken
    # for such than those allow.
    joined = min(len(split & their_lines), (len(lines) - count) // 2)
    return count + joined, len(lines) - joined


def _share(mine: set[str], theirs: set[str]) -> float:
    """Estimate the part of all marks that is common to two grids, from the smallest of them."""
    sample = sorted(mine | theirs)[:SAMPLE]
    return sum(mark in mine and mark in theirs for mark in sample) / max(len(sample), 1)


def _is_part(part: dict[str, set[str]], whole: dict[str, set[str]]) -> bool:
    shared, size = found_in(part, whole)
    return any(shared >= lines and shared > share * size for share, lines in PART)


def by_kind(marks: Iterable[str]) -> dict[str, set[str]]:
    """Sort marks that are written kind:name by their kinds."""
    kinds: dict[str, set[str]] = {"names": set(), "around": set(), "through": set()}
    for mark in marks:
        kind, _, name = mark.partition(":")
        kinds.setdefault(kind, set()).add(name)
    return kinds


def _pairs(colour: Iterable[str], pairs: Iterable[tuple[int, int]]) -> list[str]:
    colours = list(colour)
    return [_short(*sorted((colours[i], colours[j]))) for i, j in pairs]


def _numbered(marks: Iterable[str]) -> list[bytes]:
    seen: Counter[str] = Counter()
    numbered = []
    for mark in marks:
        numbered.append(f"{mark} {seen[mark]}".encode())
        seen[mark] += 1
    return numbered


def _short(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:20]
