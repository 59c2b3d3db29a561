"""Policies for awkward data, applied the same way to every format: what is out of service, several
islands, branches without a reactance.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import IntArray
from gridveil.readers.dynamics import ZERO_X, Policy
from gridveil.readers.network import ISOLATED, PER_MACHINE, Complex, FileGrid, LoadRecords
from gridveil.readers.start import spread
from gridveil.readers.table import Flags, quoted


def check(grid: FileGrid) -> None:
    """Refuse a grid without a base or a bus, and numbers that are not finite."""
    if not (np.isfinite(grid.base_mva) and grid.base_mva > 0):
        raise InputError(
            "the base power is missing or unusable",
            file=grid.file,
            expected="a finite number of MVA above 0",
        )
    if not len(grid.buses.labels):
        raise InputError("there is no bus", file=grid.file, expected="a table of buses")
    grid.buses.check_finite(optional=("nominal_kv",))
    grid.branches.check_finite()
    grid.machines.check_finite(optional=("set_point", "rated_mva", *PER_MACHINE))


def _on(grid: FileGrid, kept: Flags) -> FileGrid:
    """The same with some of its buses, and what lies on them."""
    position = np.cumsum(kept) - 1
    branches = grid.branches.keep(np.all(kept[grid.branches.ends], axis=1))
    machines = grid.machines.keep(kept[grid.machines.bus])
    return replace(
        grid,
        buses=grid.buses.keep(kept),
        branches=replace(branches, ends=position[branches.ends]),
        machines=replace(machines, bus=position[machines.bus]),
        loads=_at(grid.loads.keep(kept[grid.loads.bus]), position) if grid.loads else None,
    )


def _at(loads: LoadRecords, position: IntArray) -> LoadRecords:
    """The same loads at other positions of their buses."""
    return replace(loads, bus=position[loads.bus])


def in_service(grid: FileGrid, notes: list[str]) -> FileGrid:
    """Leave out isolated buses, and branches and machines out of service."""
    connected = grid.buses.kind != ISOLATED
    branches, machines = grid.branches, grid.machines
    closed = branches.in_service & connected[branches.ends].all(axis=1)
    running = machines.in_service & connected[machines.bus]
    for what, kept in (
        ("isolated buses (type 4)", connected),
        ("machines out of service", running),
        ("branches out of service", closed),
    ):
        if not kept.all():
            notes.append(f"{int((~kept).sum())} {what} left out")
    if not running.any():
        raise _no_machine(grid)
    loops = np.flatnonzero(closed & (branches.ends[:, 0] == branches.ends[:, 1]))
    if len(loops):
        raise branches.error(
            int(loops[0]), "the branch joins a bus to itself", expected="two different buses"
        )
    return _on(
        replace(grid, branches=branches.keep(closed), machines=machines.keep(running)), connected
    )


def _no_machine(grid: FileGrid) -> InputError:
    return InputError(
        "no machine is in service, so there is no frequency to model",
        file=grid.file,
        table=grid.machines.where.table,
        expected="at least one generator in service",
        remedy="Put a generator in service.",
    )


def merge_ties(
    grid: FileGrid, policy: Policy, notes: list[str], *, signed: bool = False
) -> FileGrid:
    """Apply the policies for x ≈ 0 and x < 0.

    signed : whether a branch may keep x < 0, as it may in a network with voltages.
    """
    x = grid.branches.series.imag
    zero = np.abs(x) < ZERO_X
    negative = (x < 0) & ~zero
    if zero.any() and policy.zero_x == "refuse":
        raise grid.branches.error(
            int(np.flatnonzero(zero)[0]),
            "the reactance x is zero, or next to it, so the line has no weight 1/x (such "
            f"branches: {zero.sum()})",
            expected=f"x of {ZERO_X:g} p.u. or more",
            remedy="Merge the two buses of each with --zero-x merge, or give the branch its real "
            "reactance.",
        )
    if negative.any() and policy.negative_x == "refuse" and not signed:
        raise grid.branches.error(
            int(np.flatnonzero(negative)[0]),
            "the reactance x is negative, so the line has no weight 1/x > 0 (such branches: "
            f"{negative.sum()})",
            expected="x above 0",
            remedy="Choose --negative-x abs (use |x|), or merge (join its two buses, which may "
            "spoil the power flow).",
        )
    if negative.any() and policy.negative_x == "abs" and not signed:
        notes.append(f"{negative.sum()} branches with x < 0: their absolute value is used in k")
    tie = zero | (negative if policy.negative_x == "merge" else False)
    if not tie.any():
        return grid
    n = len(grid.buses.labels)
    i, j = grid.branches.ends[tie].T
    count, group = connected_components(
        sparse.coo_array((np.ones(len(i)), (i, j)), shape=(n, n)), directed=False
    )
    # The bus that stands for a group: a reference bus before a controlled one before others, else
    # the first of the file.
    order = np.lexsort((np.arange(n), -grid.buses.kind, group))
    chosen = order[np.searchsorted(group[order], np.arange(count))]
    kept = np.sort(chosen)
    position = np.empty(count, dtype=np.int64)
    position[group[kept]] = np.arange(count)
    to = position[group]
    ends = to[grid.branches.ends]
    inside = ends[:, 0] == ends[:, 1]
    notes.append(
        f"{int(tie.sum())} branches with x ≈ 0 or x < 0: their {n - count} buses merged into their "
        "neighbours"
    )
    if inside.sum() > tie.sum():
        notes.append(f"{int(inside.sum() - tie.sum())} branches between merged buses left out")

    # A tie with a phase shift turns all that lies behind it: V_b = c_b V of the bus that stands for
    # it, |c_b| = 1.
    ties, alone = grid.branches.keep(tie), np.isin(np.arange(n), kept).astype(complex)
    turned = spread(ties, alone, ties.ratio / np.abs(ties.ratio))
    i, j = grid.branches.ends.T
    ratio = grid.branches.ratio * turned[j] / turned[i]
    if tapped := int((np.abs(np.abs(ties.ratio) - 1) > 1e-9).sum()):
        notes.append(
            f"{tapped} of the merged branches have a tap ratio other than 1, which is left out"
        )

    def total(values: Complex) -> Complex:
        return np.bincount(to, weights=values.real) + 1j * np.bincount(to, weights=values.imag)

    buses = replace(
        grid.buses.keep(kept), load=total(grid.buses.load), shunt=total(grid.buses.shunt)
    )
    return replace(
        grid,
        buses=buses,
        branches=replace(grid.branches.keep(~inside), ends=ends[~inside], ratio=ratio[~inside]),
        machines=replace(grid.machines, bus=to[grid.machines.bus]),
        loads=_at(grid.loads, to) if grid.loads else None,
    )


def one_island(grid: FileGrid, policy: Policy, notes: list[str]) -> FileGrid:
    """Keep the island that the policy names."""
    n = len(grid.buses.labels)
    i, j = grid.branches.ends.T
    count, island = connected_components(
        sparse.coo_array((np.ones(len(i)), (i, j)), shape=(n, n)), directed=False
    )
    if policy.island not in ("", "largest") and policy.island not in grid.buses.labels:
        raise InputError(
            f"the policy names an island by bus {quoted(policy.island)}, which the grid does not "
            "have (in service)",
            file=grid.file,
            expected="largest, or a bus of the grid",
        )
    if count == 1:
        return grid
    sizes, machines = np.bincount(island), np.bincount(island[grid.machines.bus], minlength=count)
    if not policy.island:
        largest = np.argsort(-sizes, kind="stable")[:5]
        shown = "; ".join(
            f"{sizes[one]} buses with {machines[one]} machines around bus "
            f"{grid.buses.labels[int(np.argmax(island == one))]}"
            for one in largest
        )
        raise InputError(
            f"the network is not connected: it falls into {count} islands "
            f"({shown}{'; …' if count > 5 else ''})",
            file=grid.file,
            expected="one island",
            remedy="Choose one with --island largest or --island BUS; release each on its own, or "
            "put the missing branch in.",
        )
    chosen = (
        int(np.argmax(sizes))
        if policy.island == "largest"
        else int(island[grid.buses.labels.index(policy.island)])
    )
    notes.append(
        f"{count - 1} other islands left out, with {int(n - sizes[chosen])} buses and "
        f"{int(machines.sum() - machines[chosen])} machines"
    )
    grid = _on(grid, island == chosen)
    if not len(grid.machines.bus):
        raise InputError(
            f"the island around bus {grid.buses.labels[0]} has no machine in service, so there is "
            "no frequency to model",
            file=grid.file,
            expected="an island with at least one generator in service",
            remedy="Choose another one with --island BUS.",
        )
    return grid
