"""From a file's grid to a `SourceGrid`: policies applied in one place, whatever the format."""

from __future__ import annotations

from dataclasses import replace
from math import fsum, nan, pi

import numpy as np

from gridveil.dynamics.powerflow import Network, newton
from gridveil.foundation.errors import InputError
from gridveil.foundation.progress import stage
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import OPERATING_POINTS, Array, GridFacts, IntArray
from gridveil.readers.dynamics import DEFAULT_FREQUENCY_HZ, Dynamics
from gridveil.readers.network import (
    CONTROLLED,
    PER_MACHINE,
    REFERENCE,
    FileGrid,
    Machines,
)
from gridveil.readers.policies import check, in_service, merge_ties, one_island
from gridveil.readers.table import quoted
from gridveil.vault.source import SourceGrid


@sealed
def assemble(grid: FileGrid, dynamics: Dynamics, *, name: str | None = None) -> SourceGrid:
    """Apply the policies and lock the private values away: k at the operating point, m and d of
    every machine's bus.

    k_ij = v_i v_j cos(δ_i − δ_j − φ) / (t x_ij), parallel circuits summed into one line and
    machines of one bus into one machine before any noise, exactly and rounded once, so that each is
    one item. What was changed or left out is counted in the facts' notes.
    """
    check(grid)
    policy, notes = dynamics.policy, list(grid.notes)
    grid = in_service(grid, notes)
    grid = one_island(grid, policy, notes)
    at = [
        grid.buses.labels[bus] for bus in grid.machines.bus
    ]  # before merging: an owner knows a machine by its own bus
    grid = merge_ties(grid, policy, notes)
    in_flow = (
        grid  # machines that are dropped for want of inertia still have power and hold a voltage
    )
    grid, values = _with_dynamics(grid, at, dynamics, notes)

    pairs = np.sort(grid.branches.ends, axis=1)
    edges, line = np.unique(pairs, axis=0, return_inverse=True)
    if len(edges) < len(pairs):
        notes.append(f"{len(pairs) - len(edges)} parallel branches merged with their twins")
    machines, unit = np.unique(grid.machines.bus, return_inverse=True)
    if len(machines) < len(unit):
        notes.append(f"{len(unit) - len(machines)} machines summed with others on their bus")
    summed = {
        "k": len(edges) < len(pairs),
        "m": len(machines) < len(unit),
        "d": len(machines) < len(unit),
    }
    reference = (
        _reference(in_flow, notes)
        if dynamics.operating_point == "newton"
        else np.array([], dtype=np.int64)
    )
    loads = grid.buses.load.real
    frequency_hz = dynamics.frequency_hz or grid.frequency_hz or DEFAULT_FREQUENCY_HZ
    facts = GridFacts(
        name=name or grid.file,
        buses=grid.buses.labels,
        edges=edges.reshape(-1, 2),
        machines=machines,
        governor_rate=_common_rate(unit, values, notes),
        droop_gain=np.bincount(unit, weights=values["droop_gain"]).astype(float),
        loads=loads,
        load_damping=dynamics.load_damping * np.maximum(loads, 0.0),
        omega_b=float(dynamics.omega_b or 2 * pi * frequency_hz),  # a TOML may say 50 for 50.0
        frequency_hz=float(frequency_hz),
        base_mva=grid.base_mva,
        loads_are_public=dynamics.publish_loads,
        operating_point=OPERATING_POINTS[dynamics.operating_point],
        notes=tuple(notes),
        policy=dict(policy),
        rated_mva=np.bincount(unit, weights=grid.machines.rated_mva).astype(
            float
        ),  # NaN if one on the bus is not known
        summed=tuple(name for name, found in summed.items() if found),
        voltages_kv=_voltages_kv(grid),
        own_bounds=dynamics.bounds,
    )
    stage("finding the operating point")
    # After the facts, which check that the grid is connected: no power flow converges on one that
    # is not.
    k = _sums(line.ravel(), _weights(in_flow, dynamics, reference))
    return SourceGrid.of(
        facts, k=k, m=_sums(unit, values["inertia"]), d=_sums(unit, values["damping"])
    )


def _voltages_kv(grid: FileGrid) -> tuple[float, float] | None:
    """Lowest and highest nominal voltage of branches, each that of its higher end [kV]."""
    kv = grid.buses.nominal_kv
    if kv is None or not len(grid.branches.ends):
        return None
    ends = kv[grid.branches.ends]
    known = ~np.isnan(ends).all(axis=1)  # a star point has none: its other end tells
    if not known.all():
        return None
    higher = np.nanmax(ends, axis=1)
    return float(higher.min()), float(higher.max())


def _sums(item: IntArray, parts: Array) -> Array:
    """Sum the parts of each item (0, 1, …) exactly, rounded once: a float sum of three is rounded
    twice.
    """
    sums = np.empty(item.max(initial=-1) + 1)
    sums[item] = parts
    order = np.argsort(item, kind="stable")
    starts = np.searchsorted(item[order], np.arange(len(sums) + 1))
    for one in np.flatnonzero(np.diff(starts) > 1):
        try:
            sums[one] = fsum(parts[order[starts[one] : starts[one + 1]]])
        except (OverflowError, ValueError):  # beyond all doubles: refused by the item's name
            sums[one] = nan
    return sums


def _with_dynamics(
    grid: FileGrid, at: list[str], dynamics: Dynamics, notes: list[str]
) -> tuple[FileGrid, dict[str, Array]]:
    """Give every machine its values on the system base: of its bus, else its file's, else its
    fuel's, else the constants.

    at : (u,) label of each machine's own bus, which may have been merged into another.
    """
    machines, known = grid.machines, set(at)
    for bus in dynamics.machines:
        if bus not in known:
            raise InputError(
                f"the dynamics name a machine at bus {quoted(bus)}, where the grid has none",
                file=grid.file,
                expected=f"one of {', '.join(sorted(known)[:8])}",
            )
    fuels = {fuel.lower() for fuel in machines.fuel if fuel}
    unmatched = [fuel for fuel in dynamics.fuels if fuel not in fuels]
    if unmatched:
        has = f"it has {', '.join(sorted(fuels)[:8])}" if fuels else "it names none"
        notes.append(
            f"{len(unmatched)} fuels of the settings ({', '.join(unmatched[:5])}) occur in no "
            f"machine of the file: {has}"
        )
    filled = {what: _filled(what, grid, dynamics, at, notes) for what in PER_MACHINE}
    missing = np.isnan(filled["inertia"])
    if missing.any() and dynamics.policy.without_dynamics == "drop" and not missing.all():
        notes.append(f"{int(missing.sum())} machines without dynamics left out; their buses stay")
        kept = np.flatnonzero(~missing)
        grid = replace(grid, machines=machines.keep(kept))
        filled, at = {what: values[kept] for what, values in filled.items()}, [at[i] for i in kept]
    for what, values in filled.items():
        lacking = np.flatnonzero(np.isnan(values))
        if len(lacking):
            others = f" (and {len(lacking) - 1} others)" if len(lacking) > 1 else ""
            drop = dynamics.policy.without_dynamics == "drop"
            raise InputError(
                f"the machine at bus {at[lacking[0]]}{others} has no {what}",
                file=grid.file,
                expected="a value for every machine, and the file holds none"
                + (": without those, no machine is left" if drop else ""),
                remedy=f"Give --{what} (and what else a static file lacks), or --dynamics FILE: a "
                "TOML, or the DYR of a RAW."
                + (
                    " --without-dynamics drop leaves such machines out."
                    if what == "inertia" and not drop
                    else ""
                ),
            )
    return grid, filled


def _filled(
    what: str, grid: FileGrid, dynamics: Dynamics, at: list[str], notes: list[str]
) -> Array:
    machines: Machines = grid.machines
    values = getattr(machines, what).astype(float)
    given = ~np.isnan(values)
    for row in np.flatnonzero(
        values < 0
    ):  # here, machine by machine: in a sum over a bus another one could hide it
        raise machines.error(
            int(row),
            f"{what} of the machine at bus {at[row]} is negative",
            expected="a number of 0 or more",
        )
    if what in ("inertia", "damping"):
        given &= (
            values != 0
        )  # no machine without inertia swings, and D = 0 in a file means that nobody filled it in
    own = np.array(
        [_or_nan(getattr(dynamics.machines.get(bus), what, None)) for bus in at], dtype=float
    )
    named = ~np.isnan(own)
    given &= ~named
    defaults = np.array(
        [_or_nan(dynamics.default(what, fuel)) for fuel in machines.fuel], dtype=float
    )
    defaults = np.where(named, own, defaults)
    if dynamics.base == "rated" and what != "governor_rate":
        scale = machines.rated_mva / grid.base_mva
        unusable = np.flatnonzero(~given & ~np.isnan(defaults) & ~(scale > 0))
        if len(unusable):
            raise machines.error(
                int(unusable[0]),
                f"the machine at bus {at[unusable[0]]} has no rated MVA, which base = rated needs",
                expected="a rated power above 0",
            )
        defaults = defaults * scale
    replaced = ~given & ~named & ~np.isnan(defaults)
    if given.any() and replaced.any() and what in ("inertia", "damping"):
        notes.append(
            f"{int(replaced.sum())} machines have no {what} in the file, and got the settings' "
            "value"
        )
    if what == "damping":
        defaults = np.where(
            np.isnan(defaults), values, defaults
        )  # nothing better than the file's 0
        zero = int(((defaults == 0) & ~given & ~named).sum())
        if zero:
            notes.append(f"{zero} machines have D = 0: give --damping if that is not meant")
    return np.where(given, values, defaults)


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _common_rate(unit: IntArray, values: dict[str, Array], notes: list[str]) -> Array:
    """T of the machines of one bus taken together: weighted by gain, which keeps the first rise of
    power, Σ T G ω.
    """
    rate, gain = values["governor_rate"], values["droop_gain"]
    count = np.bincount(unit)
    weight = np.where(np.bincount(unit, weights=gain)[unit] > 0, gain, 1.0)
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # what overflows is not finite, and refused with the facts
        mean = np.bincount(unit, weights=weight * rate) / np.bincount(unit, weights=weight)
    different = np.bincount(unit, weights=np.abs(rate - mean[unit]) > 1e-12 * mean[unit]) > 0
    if (different & (count > 1)).any():
        notes.append(
            f"{int((different & (count > 1)).sum())} buses with unlike governors: T weighted by "
            "gain"
        )
    return np.where(different, mean, rate[np.unique(unit, return_index=True)[1]])


def _reference(grid: FileGrid, notes: list[str]) -> IntArray:
    """Buses whose angle the power flow holds: the file's reference buses that have a machine."""
    machines, n = grid.machines, len(grid.buses.labels)
    with_machine = np.isin(np.arange(n), machines.bus)
    reference = np.flatnonzero((grid.buses.kind == REFERENCE) & with_machine)
    if len(reference) > 1:
        notes.append(
            f"{len(reference)} reference buses: the power flow holds the angles of all of them"
        )
    if len(reference):
        return reference
    scheduled = np.bincount(machines.bus, weights=machines.power.real, minlength=n)
    chosen = int(np.argmax(np.where(with_machine, scheduled, -np.inf)))
    notes.append(
        f"no reference bus has a machine: bus {grid.buses.labels[chosen]}, with most generation, "
        "is taken"
    )
    return np.array([chosen])


def _weights(grid: FileGrid, dynamics: Dynamics, reference: IntArray) -> Array:
    """Find k of every branch [p.u. power / rad]."""
    voltage, angle = _operating_point(grid, dynamics, reference)
    i, j = grid.branches.ends.T
    x, ratio = np.abs(grid.branches.series.imag), grid.branches.ratio
    if dynamics.policy.taps == "include":
        x = x * np.abs(ratio)
    # Angles behind a phase shifter contain its shift, which drives no power; flat ones do not.
    across = angle[i] - angle[j] - (np.angle(ratio) if dynamics.operating_point != "flat" else 0.0)
    with np.errstate(
        over="ignore", divide="ignore"
    ):  # an infinite weight is refused by the line's name
        return voltage[i] * voltage[j] * np.cos(across) / x


def _operating_point(
    grid: FileGrid, dynamics: Dynamics, reference: IntArray
) -> tuple[Array, Array]:
    """Voltage magnitudes [p.u.] and angles [rad] of every bus."""
    buses, branches, machines = grid.buses, grid.branches, grid.machines
    n = len(buses.labels)
    if dynamics.operating_point == "flat":
        return np.ones(n), np.zeros(n)
    voltage, angle = buses.voltage.copy(), buses.angle
    if dynamics.operating_point == "file":
        return voltage, angle
    with_machine = np.isin(np.arange(n), machines.bus)
    controlled = np.flatnonzero(
        ((buses.kind == CONTROLLED) | (buses.kind == REFERENCE)) & with_machine
    )
    holding = np.isin(machines.bus, controlled) & ~np.isnan(machines.set_point)
    voltage[machines.bus[holding]] = machines.set_point[holding]
    generation = np.zeros(n, dtype=complex)
    np.add.at(generation, machines.bus, machines.power)
    network = Network(
        ends=branches.ends,
        series=branches.series,
        charging=branches.charging,
        ratio=branches.ratio,
        shunt=buses.shunt,
        injection=generation - buses.load,
        slack=reference,
        controlled=controlled,
    )
    return newton(network, voltage, angle, file=grid.file)
