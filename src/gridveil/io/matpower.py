"""MATPOWER case files (.m) as source grids."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gridveil.errors import InputError
from gridveil.grid import Array, GridFacts, IntArray, frozen
from gridveil.io.dynamics import Dynamics
from gridveil.io.tables import Table, read_tables
from gridveil.powerflow import Network, newton
from gridveil.vault.source import SourceGrid

ISOLATED, SLACK = 4, 3
OPERATING_POINTS = {
    "newton": "AC power flow (Newton's method, generators at their voltage set-points)",
    "file": "voltages and angles as the file has them",
    "flat": "flat: all voltages 1 p.u., all angles 0",
}


@dataclass(frozen=True, eq=False)
class _Case:
    """The tables of a case that are in service, with bus numbers turned into positions."""

    bus: Table
    gen: Table
    branch: Table
    base_mva: float
    position: dict[float, int]
    machine_bus: IntArray
    ends: IntArray

    @property
    def labels(self) -> tuple[str, ...]:
        """Bus numbers as text."""
        return tuple(f"{number:.0f}" for number in self.bus.values[:, 0])


def read_matpower(path: Path, dynamics: Dynamics, *, name: str | None = None) -> SourceGrid:
    """Read a MATPOWER `.m` file: k_ij = v_i v_j cos(δ_i − δ_j) / x_ij at the operating point, m and d from `dynamics`.

    Parallel circuits are merged into one line and machines on one bus into one machine before any noise, so that each is one
    item; tap ratios enter the power flow, not k. What was merged or left out is counted in the facts' notes.
    """
    case, notes = _read_case(path)
    pairs = np.sort(case.ends, axis=1)
    edges, which = np.unique(pairs, axis=0, return_inverse=True)
    if len(edges) < len(pairs):
        notes.append(f"{len(pairs) - len(edges)} parallel branches merged with their twins")

    machines, unit = np.unique(case.machine_bus, return_inverse=True)
    if len(machines) < len(unit):
        notes.append(f"{len(unit) - len(machines)} machines summed with others on their bus")
    labels = case.labels
    per_bus = {what: _machine_values(case, dynamics, what) for what in ("inertia", "damping", "droop_gain")}
    summed = {what: frozen(np.bincount(unit, weights=values)) for what, values in per_bus.items()}
    _check_named_machines(path, dynamics, {labels[b] for b in machines})
    loads = case.bus.column(3, "Pd") / case.base_mva
    facts = GridFacts(
        name=name or path.name,
        buses=labels,
        edges=edges,
        machines=machines,
        governor_rate=np.array([dynamics.of(labels[b], "governor_rate") for b in machines]),
        droop_gain=summed["droop_gain"],
        loads=loads,
        load_damping=dynamics.load_damping * np.maximum(loads, 0.0),
        omega_b=dynamics.angular_base,
        frequency_hz=dynamics.frequency_hz,
        base_mva=case.base_mva,
        loads_are_public=dynamics.publish_loads,
        operating_point=OPERATING_POINTS[dynamics.operating_point],
        notes=tuple(notes),
    )
    # After the facts, which check that the grid is connected: no power flow converges on one that is not.
    k = np.bincount(which.ravel(), weights=_weights(case, dynamics), minlength=len(edges))
    return SourceGrid.of(facts, k=k, m=summed["inertia"], d=summed["damping"])


def _weights(case: _Case, dynamics: Dynamics) -> Array:
    """v_i v_j cos(δ_i − δ_j) / x_ij of every branch [p.u. power / rad]."""
    voltage, angle = _operating_point(case, dynamics)
    i, j = case.ends.T
    with np.errstate(over="ignore"):  # infinite where x is next to nothing; SourceGrid refuses that by the line's name
        return voltage[i] * voltage[j] * np.cos(angle[i] - angle[j]) / case.branch.column(4, "x")


def _machine_values(case: _Case, dynamics: Dynamics, what: str) -> Array:
    return np.array([dynamics.of(case.labels[bus], what) for bus in case.machine_bus])


def _check_named_machines(path: Path, dynamics: Dynamics, buses: set[str]) -> None:
    for bus in dynamics.machines:
        if bus not in buses:
            raise InputError(
                f"the dynamics name a machine at bus {bus}, where the grid has none",
                file=path.name,
                expected=f"one of {', '.join(sorted(buses)[:8])}",
            )


def _read_case(path: Path) -> tuple[_Case, list[str]]:
    tables, numbers = read_tables(path)
    widths = {"bus": 13, "gen": 10, "branch": 11}
    for name, width in widths.items():
        if name not in tables:
            raise InputError(
                f"there is no table mpc.{name}",
                file=path.name,
                expected="a MATPOWER case of version 2 with mpc.bus, mpc.gen and mpc.branch",
                remedy="Check that this is a case file, and that it was copied whole.",
            )
        table = tables[name]
        if not len(table.values):
            what = "no machine" if name == "gen" else f"no {name}"
            raise InputError(f"{what}: table mpc.{name} is empty", file=path.name, expected="at least one row")
        if table.values.shape[1] < width:
            raise table.error(0, f"the table has {table.values.shape[1]} columns", expected=f"at least {width}")
    base = numbers.get("baseMVA", float("nan"))
    if not (np.isfinite(base) and base > 0):
        raise InputError("mpc.baseMVA is missing or unusable", file=path.name, expected="a finite number above 0")
    return _in_service(tables["bus"], tables["gen"], tables["branch"], base)


def _in_service(bus: Table, gen: Table, branch: Table, base: float) -> tuple[_Case, list[str]]:
    notes: list[str] = []
    numbers = bus.column(1, "bus number")
    for row, number in enumerate(numbers):
        if not (number.is_integer() and 0 < number < 1e15):
            raise bus.error(row, "column 1 is no bus number", expected="a whole number above 0")
    for number, times in Counter(numbers.tolist()).items():
        if times > 1:
            raise bus.error(
                int(np.flatnonzero(numbers == number)[1]), f"bus {number:.0f} occurs twice", expected="each bus once"
            )
    known = set(numbers.tolist())
    for table, columns in ((gen, (1,)), (branch, (1, 2))):
        for column in columns:
            for row, number in enumerate(table.column(column, "bus number").tolist()):
                if number not in known:
                    # Only a whole number is quoted: in a shifted row a private reactance may stand here.
                    what = f"bus {number:.0f}" if number.is_integer() else f"the bus in column {column}"
                    raise table.error(row, f"{what} is unknown", expected="a bus of table mpc.bus")

    isolated = set(numbers[bus.column(2, "type") == ISOLATED].tolist())
    bus = _keep(bus, [number not in isolated for number in numbers.tolist()], "isolated buses (type 4)", notes)
    on = gen.column(8, "status") > 0
    gen = _keep(
        gen, [up and b not in isolated for up, b in zip(on, gen.values[:, 0], strict=True)], "machines out of service", notes
    )
    if not len(gen.values):
        raise InputError(
            "no machine is in service, so there is no frequency to model",
            file=gen.file,
            table=gen.name,
            expected="at least one generator with status 1",
            remedy="Put a generator in service.",
        )
    on = branch.column(11, "status") > 0
    branch = _keep(
        branch,
        [up and f not in isolated and t not in isolated for up, (f, t) in zip(on, branch.values[:, :2], strict=True)],
        "branches out of service",
        notes,
    )
    for row, x in enumerate(branch.column(4, "x")):
        if x <= 0:
            raise branch.error(
                row,
                "the reactance x is zero or negative, so the line has no weight 1/x > 0",
                expected="x above 0",
                remedy="Merge the two buses, or give the branch its real reactance.",
            )
        if branch.values[row, 0] == branch.values[row, 1]:
            raise branch.error(row, "the branch joins a bus to itself", expected="two different buses")
    position = {number: index for index, number in enumerate(bus.values[:, 0].tolist())}
    machine_bus = np.array([position[number] for number in gen.values[:, 0].tolist()], dtype=np.int64)
    ends = np.array([[position[f], position[t]] for f, t in branch.values[:, :2].tolist()], dtype=np.int64).reshape(-1, 2)
    return _Case(bus, gen, branch, base, position, machine_bus, ends), notes


def _keep(table: Table, rows: list[bool], what: str, notes: list[str]) -> Table:
    dropped = len(rows) - sum(rows)
    if dropped:
        notes.append(f"{dropped} {what} left out")
    kept = np.flatnonzero(rows)
    return Table(table.file, table.name, table.values[kept], tuple(table.lines[i] for i in kept))


def _operating_point(case: _Case, dynamics: Dynamics) -> tuple[Array, Array]:
    """Voltage magnitudes [p.u.] and angles [rad] of every bus."""
    n = len(case.bus.values)
    if dynamics.operating_point == "flat":
        return np.ones(n), np.zeros(n)
    voltage, angle = case.bus.column(8, "Vm").copy(), np.deg2rad(case.bus.column(9, "Va"))
    if dynamics.operating_point == "file":
        return voltage, angle
    kind = case.bus.column(2, "type")
    with_machine = np.isin(np.arange(n), case.machine_bus)
    slack = np.flatnonzero((kind == SLACK) & with_machine)
    if len(slack) != 1:
        raise InputError(
            f"{len(slack)} buses of type 3 carry a machine",
            file=case.bus.file,
            table=case.bus.name,
            expected="exactly one reference bus for the power flow",
            remedy="Mark one bus as type 3, or use --operating-point file.",
        )
    controlled = np.flatnonzero(((kind == 2) | (kind == SLACK)) & with_machine)
    set_point = case.gen.column(6, "Vg")
    for bus, value in zip(case.machine_bus, set_point, strict=True):
        if bus in controlled:
            voltage[bus] = value
    load = case.bus.column(3, "Pd") + 1j * case.bus.column(4, "Qd")
    generation = np.zeros(n, dtype=complex)
    np.add.at(generation, case.machine_bus, case.gen.column(2, "Pg") + 1j * case.gen.column(3, "Qg"))
    ratio = case.branch.column(9, "ratio")
    shift = np.deg2rad(case.branch.column(10, "angle"))
    network = Network(
        ends=case.ends,
        series=case.branch.column(3, "r") + 1j * case.branch.column(4, "x"),
        charging=case.branch.column(5, "b"),
        ratio=np.where(ratio == 0, 1.0, ratio) * np.exp(1j * shift),
        shunt=(case.bus.column(5, "Gs") + 1j * case.bus.column(6, "Bs")) / case.base_mva,
        injection=(generation - load) / case.base_mva,
        slack=int(slack[0]),
        controlled=controlled,
    )
    return newton(network, voltage, angle, file=case.bus.file)
