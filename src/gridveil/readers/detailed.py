"""From a file's grid to a `DetailedCase`: network, loads, and units with their devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gridveil.dynamics.detailed.entries import entries_of
from gridveil.dynamics.detailed.typical import public_case
from gridveil.foundation.sealed import sealed
from gridveil.grid import case
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array
from gridveil.readers.devices import device_tables
from gridveil.readers.dynamics import DEFAULT_FREQUENCY_HZ, Detailed, Dynamics
from gridveil.readers.network import REFERENCE, Complex, FileGrid, LoadRecords
from gridveil.readers.policies import check, in_service, merge_ties, one_island
from gridveil.vault.source import SourceGrid


@sealed
def detailed_source(
    grid: FileGrid, dynamics: Dynamics, *, name: str | None = None
) -> SourceGrid[DetailedFacts]:
    """Lock a detailed case away: its entries are private, its structure with public values in place
    of its own is not. Nothing is solved.
    """
    private, notes = detailed_case(grid, dynamics, name=name)
    policy = {**dict(dynamics.policy), "unknown_devices": dynamics.detailed.unknown_devices}
    return locked(private, dynamics.detailed, notes=notes, policy=policy)


@sealed
def locked(
    private: case.DetailedCase,
    declared: Detailed,
    *,
    notes: tuple[str, ...] = (),
    policy: Mapping[str, str] | None = None,
) -> SourceGrid[DetailedFacts]:
    """Take the entries of an owner's case, and let nothing else of it out but its structure.

    declared : says how loads depend on voltage. Shares of a file are not used: they are quotients
    of private powers.
    """
    entries = entries_of(private)
    public, (impedance, current) = public_case(private), declared.shares
    count = len(public.loads.bus)
    facts = DetailedFacts(
        public=replace(
            public,
            loads=replace(
                public.loads,
                impedance=np.tile(np.array(impedance), (count, 1)),
                current=np.tile(np.array(current), (count, 1)),
            ),
        ),
        entries={name: positions for name, (_, positions) in entries.items()},
        zip_model=declared.in_words,
        notes=notes,
        policy=policy or {},
    )
    values = {name: entries[name][0] for name in facts.parameters}
    return SourceGrid[DetailedFacts].of(facts, **values)


@sealed
def detailed_case(
    grid: FileGrid, dynamics: Dynamics, *, name: str | None = None
) -> tuple[case.DetailedCase, tuple[str, ...]]:
    """Apply the policies and put every device on the system base; and notes about what was changed
    or left out.

    Nothing is solved, and voltages and angles of the file, which are results of a power flow, are
    not used. Units of one bus stay apart.
    """
    check(grid)
    details = grid.details
    notes = list(grid.notes if details.notes is None else details.notes)
    grid = replace(grid, loads=details.loads or _summed(grid))
    grid = in_service(grid, notes)
    grid = one_island(grid, dynamics.policy, notes)
    at = [grid.buses.labels[bus] for bus in grid.machines.bus]
    grid = merge_ties(grid, dynamics.policy, notes, signed=True)
    branches = grid.branches
    found = case.DetailedCase(
        name=name or grid.file,
        buses=grid.buses.labels,
        base_mva=grid.base_mva,
        frequency_hz=float(dynamics.frequency_hz or grid.frequency_hz or DEFAULT_FREQUENCY_HZ),
        branches=case.Branches(branches.ends, branches.series, branches.charging, branches.ratio),
        shunt=grid.buses.shunt,
        loads=_loads(grid, dynamics.detailed, notes),
        units=_units(grid, notes),
        devices=device_tables(grid, details.devices, at, dynamics.detailed, notes),
    )
    return found, tuple(notes)


def _summed(grid: FileGrid) -> LoadRecords:
    """One load for every bus that has any; the file does not say how it depends on voltage."""
    buses = grid.buses
    loaded = np.flatnonzero(buses.load != 0)
    none = np.zeros(len(loaded), dtype=complex)
    return LoadRecords(
        buses.where,
        buses.rows[loaded],
        bus=loaded,
        power=buses.load[loaded],
        current=none,
        admittance=none,
        declared=np.zeros(len(loaded), dtype=bool),
    )


def _loads(grid: FileGrid, detailed: Detailed, notes: list[str]) -> case.Loads:
    """Loads at 1 p.u. voltage, with the file's shares where it has them, else the declared ones."""
    loads = grid.loads
    assert loads is not None
    loads.check_finite()
    total = loads.power + loads.current + loads.admittance
    shares = []
    for part, declared in zip((loads.admittance, loads.current), detailed.shares, strict=True):
        filed = np.stack([_share(part.real, total.real), _share(part.imag, total.imag)], axis=1)
        shares.append(np.where(loads.declared[:, None], filed, declared))
    if count := int((~loads.declared).sum()):
        zip_ = detailed.zip if isinstance(detailed.zip, str) else " ".join(map(str, detailed.zip))
        notes.append(f"{count} loads do not say how they depend on voltage: zip = {zip_}")
    if count := int(loads.declared.sum()):
        notes.append(
            f"{count} loads have shares of their own in the file, which are private: a release "
            "takes the declared zip for all"
        )
    return case.Loads(loads.bus, total, impedance=shares[0], current=shares[1])


def _share(part: Array, total: Array) -> Array:
    return np.divide(part, total, out=np.zeros_like(part), where=total != 0)


def _units(grid: FileGrid, notes: list[str]) -> case.Units:
    """Units with their scheduled power and the voltage that they hold.

    The slack is the first unit at a reference bus of the file, else the first of all: a choice that
    private values do not enter.
    """
    machines = grid.machines
    unheld = np.isnan(machines.set_point)
    if unheld.any():
        notes.append(f"{int(unheld.sum())} units hold no voltage of their own bus: 1 p.u. is taken")
    reference = np.flatnonzero(grid.buses.kind[machines.bus] == REFERENCE)
    if not len(reference):
        notes.append(
            "no reference bus has a unit: the first, at bus "
            f"{grid.buses.labels[machines.bus[0]]}, is taken"
        )
    elif len(np.unique(machines.bus[reference])) > 1:
        notes.append("several reference buses: the first of them is taken")
    return case.Units(
        machines.bus,
        _real(machines.power),
        np.where(unheld, 1.0, machines.set_point),
        slack=int(reference[0]) if len(reference) else 0,
    )


def _real(power: Complex) -> Array:
    return np.ascontiguousarray(power.real)
