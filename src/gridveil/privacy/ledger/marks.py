"""Marks of a network: how a ledger knows a grid again, whatever its buses are called and its file looks like."""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import lru_cache

from gridveil.grid import GridFacts

ROUNDS = 3


@lru_cache(maxsize=4)
def line_marks(facts: GridFacts) -> tuple[bytes, ...]:
    """Describe each line by the network around it: the colours of its ends after three rounds of neighbourhood refinement.

    Colours start from a bus's number of lines and whether it has machines: public facts, no labels and no values. A line that
    is added or dropped changes the marks near it only. Lines that look the same are numbered.
    """
    n = len(facts.buses)
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for i, j in facts.edges.tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    machines = set(facts.machines.tolist())
    colour = [f"{len(neighbours[bus])} {bus in machines}" for bus in range(n)]
    for _ in range(ROUNDS):
        colour = [_short(colour[bus], *sorted(colour[other] for other in neighbours[bus])) for bus in range(n)]
    seen: Counter[str] = Counter()
    marks = []
    for i, j in facts.edges.tolist():
        mark = _short(*sorted((colour[i], colour[j])))
        marks.append(f"{mark} {seen[mark]}".encode())
        seen[mark] += 1
    return tuple(marks)


def _short(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:20]
