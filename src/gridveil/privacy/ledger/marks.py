"""Marks of a network: how a ledger knows a grid again, whatever its buses are called and its file looks like."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from gridveil.grid import GridFacts

# Two grids are versions of one lineage if more than this part of all marks of one kind is common to them. Over 24 public
# grids, strangers share up to 0.42 by names and 0.12 around; a copy with one line out keeps 0.89 by names, and seasons of
# one grid under other names share 0.24 and more around.
ALIKE = {"names": 1 / 2, "around": 1 / 5}
# So many stand for all: the smallest, which are the same sample of two grids that are alike.
SAMPLE = 512


@lru_cache(maxsize=4)
def line_marks(facts: GridFacts) -> dict[str, list[bytes]]:
    """Describe each line by the names of its ends, and by the network around it. Lines that look the same are numbered.

    By names, a copy is known whatever lines and machines were added or dropped; by what is around (numbers of lines of the
    ends and of their neighbours, and whether machines are there), whatever its buses are called. All are public facts.
    """
    n = len(facts.buses)
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for i, j in facts.edges.tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    machines = set(facts.machines.tolist())
    degree = [f"{len(neighbours[bus])} {bus in machines}" for bus in range(n)]
    around = [_short(degree[bus], *sorted(degree[other] for other in neighbours[bus])) for bus in range(n)]
    return {
        kind: _numbered(_short(*sorted((colour[i], colour[j]))) for i, j in facts.edges.tolist())
        for kind, colour in (("names", facts.buses), ("around", around))
    }


def are_alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Compare the keyed marks of two grids, written kind:name."""
    for kind, least in ALIKE.items():
        mine, theirs = ({mark for mark in marks if mark.startswith(f"{kind}:")} for marks in (one, other))
        sample = sorted(mine | theirs)[:SAMPLE]
        if sum(mark in mine and mark in theirs for mark in sample) > least * len(sample):
            return True
    return False


def facts_alike(one: GridFacts, other: GridFacts) -> bool:
    """Whether two grids look like versions of one, by their public facts alone."""
    return are_alike(
        *([f"{kind}:{mark.decode()}" for kind, marks in line_marks(facts).items() for mark in marks] for facts in (one, other))
    )


def _numbered(marks: Iterable[str]) -> list[bytes]:
    seen: Counter[str] = Counter()
    numbered = []
    for mark in marks:
        numbered.append(f"{mark} {seen[mark]}".encode())
        seen[mark] += 1
    return numbered


def _short(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:20]
