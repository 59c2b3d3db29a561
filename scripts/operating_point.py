"""Print how far a physical change of IEEE-30 moves the line weights k, since they hold the
operating point.

Usage: python scripts/operating_point.py

A line's reactance x is moved so that its own k moves by 1 p.u. power / rad, up or down; a load is
lost; a line is taken out. The power flow is solved again each time. Σ|Δk| counts all lines [p.u.
power / rad]; after an outage, all others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array
from gridveil.readers.assemble import assemble
from gridveil.readers.cases import HERE, declared_public, read_grid
from gridveil.readers.dynamics import read_dynamics
from gridveil.readers.network import FileGrid

CASE = HERE / "ieee30.m"
DYNAMICS = read_dynamics(CASE.with_suffix(".toml"))


def weights(grid: FileGrid) -> dict[tuple[int, int], float]:
    """Solve the power flow and return k of each line [p.u. power / rad], by its two buses."""
    table = declared_public(assemble(grid, DYNAMICS))
    return {
        (int(i), int(j)): k
        for (i, j), k in zip(table.facts.edges, table.values["k"].tolist(), strict=True)
    }


def with_x(grid: FileGrid, line: int, x: float) -> FileGrid:
    """Give a line another reactance [p.u.]."""
    series = grid.branches.series.copy()
    series[line] = series[line].real + 1j * x
    return replace(grid, branches=replace(grid.branches, series=series))


def moved_lines(grid: FileGrid, by: float) -> Iterator[float]:
    """Σ|Δk| when a line's x moves so that its own k moves by this much, for each line whose k
    can.
    """
    before = weights(grid)
    for line, ends in enumerate(np.sort(grid.branches.ends, axis=1).tolist()):
        own, x = (ends[0], ends[1]), float(grid.branches.series[line].imag)
        target = before[own] + by
        if target <= 0:
            continue
        after = before
        for _ in range(50):  # k is nearly proportional to 1/x
            x *= after[own] / target
            after = weights(with_x(grid, line, x))
            if abs(after[own] - target) < 1e-9:
                yield distance(before, after)
                break


def lost_loads(grid: FileGrid) -> Iterator[float]:
    """Σ|Δk| when the load of one bus is lost, for each bus that has one."""
    before = weights(grid)
    for bus in np.flatnonzero(grid.buses.load):
        load = grid.buses.load.copy()
        load[bus] = 0
        yield distance(before, weights(replace(grid, buses=replace(grid.buses, load=load))))


def outages(grid: FileGrid) -> Iterator[float]:
    """Σ|Δk| on all other lines when one is taken out, for each line without which the grid holds
    together.
    """
    before = weights(grid)
    for line in range(len(grid.branches.ends)):
        in_service = grid.branches.in_service.copy()
        in_service[line] = False
        try:
            yield distance(
                before,
                weights(replace(grid, branches=replace(grid.branches, in_service=in_service))),
            )
        except InputError:  # it falls apart
            continue


def distance(
    before: Mapping[tuple[int, int], float], after: Mapping[tuple[int, int], float]
) -> float:
    """Σ|Δk| over the lines that are in both [p.u. power / rad]."""
    return sum(abs(after[line] - before[line]) for line in before.keys() & after.keys())


def figures() -> dict[str, Array]:
    """Σ|Δk| of every change of IEEE-30, by kind of change."""
    grid = read_grid(CASE)
    return {
        "x of a line moved, its k up by 1": np.array([*moved_lines(grid, 1.0)]),
        "x of a line moved, its k down by 1": np.array([*moved_lines(grid, -1.0)]),
        "a load lost": np.array([*lost_loads(grid)]),
        "a line out, on the others": np.array([*outages(grid)]),
    }


def at_most(found: Array) -> str:
    """Write the largest with two digits, rounded up: it is told as a bound."""
    return f"{ceil(100 * found.max()) / 100:.2f}"


def main() -> None:
    """Print the figures."""
    for change, found in figures().items():
        sys.stdout.write(
            f"{change}: {len(found)} changes, median {np.median(found):.2f}, at most "
            f"{at_most(found)}\n"
        )


if __name__ == "__main__":
    main()
