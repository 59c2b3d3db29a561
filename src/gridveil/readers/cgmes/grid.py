"""What pypowsybl reads of a CGMES model (V, Ω, S, MW, degrees), turned into p.u. of 100 MVA and
nominal voltages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.grid.facts import Array, IntArray
from gridveil.readers.cgmes.files import CimModel
from gridveil.readers.network import (
    CONTROLLED,
    LOAD,
    REFERENCE,
    BranchRecords,
    Buses,
    Complex,
    FileGrid,
    Machines,
    known_kv,
    unknown_dynamics,
)
from gridveil.readers.pi_models import PiModels, as_branches, joined, pi_models
from gridveil.readers.start import first_guess
from gridveil.readers.table import TYPED, Flags, Rows, Table, check_labels

BASE_MVA = 100.0
MACHINES = ("SynchronousMachine", "ExternalNetworkInjection")
LARGEST_MVA = 1e6  # exports write the largest double where they know no rating
BRANCHES = ("lines", "2_windings_transformers", "3_windings_transformers", "boundary_lines")
FUELS = ("HYDRO", "NUCLEAR", "WIND", "THERMAL", "SOLAR")
LEFT_OUT = {
    "static_var_compensators": "static var compensators",
    "hvdc_lines": "DC lines",
    "dc_lines": "detailed DC lines",
}


def as_tables(file: str, columns: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[str, Table]:
    """Give tables, column by column, the places to be named by in errors: identifiers."""
    return {
        name: Table(Rows(file, name, places=[(name, own) for own in table["id"]]), table, TYPED)
        for name, table in columns.items()
    }


def powers(table: Table, active: str, reactive: str) -> Complex:
    """P + jQ [MVA]."""
    return table.numbers(active) + 1j * table.numbers(reactive)


def names(table: Table, column: str) -> list[str]:
    """Texts; "" where there is none."""
    return [str(text) for text in table.columns.get(column, [""] * len(table))]


@dataclass(frozen=True, eq=False)
class _Places:
    """Where buses are.

    known : positions.
    nominal : kV of each voltage level.
    boundary : (h,) nodes of boundary lines.
    """

    known: dict[str, int]
    nominal: dict[str, float]
    star: IntArray
    boundary: IntArray

    def at(self, table: Table, column: str = "bus_id") -> tuple[IntArray, Flags]:
        """Positions, and whether the end is connected at all; one that is not is given position
        0.
        """
        buses = names(table, column)
        table.refuse(
            [bool(name) and name not in self.known for name in buses],
            f"the bus in {column} is unknown",
            expected="a bus of the model",
        )
        positions = [self.known.get(name, 0) for name in buses]
        return np.array(positions, dtype=np.int64), np.array(list(map(bool, buses)), dtype=bool)

    def kv(self, table: Table, column: str = "voltage_level_id") -> Array:
        """Nominal voltages, which are the base."""
        values = np.array(
            [self.nominal.get(name, np.nan) for name in names(table, column)], dtype=float
        )
        table.refuse(
            ~(values > 0), "the nominal voltage is missing or not above 0", expected="kV above 0"
        )
        return values


@np.errstate(all="ignore")  # what overflows is refused later, by its row
def grid_of(file: str, model: CimModel, tables: Mapping[str, Table]) -> FileGrid:
    """Turn the tables into a grid."""
    bus, star, half = tables["buses"], tables["3_windings_transformers"], tables["boundary_lines"]
    if not len(bus):
        raise InputError(
            "the model has no bus",
            file=file,
            expected="a topology (TP), or nodes and switches in EQ",
            remedy="Give the folder or the zip with all the profiles.",
        )
    # The two halves of a tie line meet in one node; those of other lines to the boundary have one
    # each.
    nodes = [
        f"boundary of {tie or own}"
        for tie, own in zip(names(half, "tie_line_id"), names(half, "id"), strict=True)
    ]
    labels = (
        *names(bus, "id"),
        *(f"star of {name}" for name in names(star, "id")),
        *dict.fromkeys(nodes),
    )
    where = Rows(file, "buses", places=[("buses", label) for label in labels])
    for row, label in enumerate(labels):
        if not label or not label.isprintable() or len(label) > 200:
            raise where.error(
                row, "the name of a bus is not usable", expected="up to 200 printable characters"
            )
    check_labels(where, labels)
    known = {label: position for position, label in enumerate(labels)}
    levels = tables["voltage_levels"]
    places = _Places(
        known,
        nominal=dict(zip(names(levels, "id"), levels.numbers("nominal_v").tolist(), strict=True)),
        star=np.arange(len(bus), len(bus) + len(star)),
        boundary=np.array([known[node] for node in nodes], dtype=np.int64),
    )
    notes: list[str] = []
    branches, shunt = _branches(tables, places, len(labels), notes)
    load = _loads(tables, places, shunt, notes)
    kv = places.kv(bus)
    machines, kind = _machines(tables["generators"], model, places, kv, load, notes)
    for name, meaning in LEFT_OUT.items():
        if len(tables[name]):
            notes.append(f"{len(tables[name])} {meaning} left out")
    if model.frequency_hz is None:
        notes.append("the model names no frequency: 60 Hz unless frequency_hz says otherwise")

    voltage, angle = np.full(len(labels), np.nan), np.full(len(labels), np.nan)
    voltage[: len(bus)], angle[: len(bus)] = (
        bus.numbers("v_mag", np.nan) / kv,
        bus.numbers("v_angle", np.nan),
    )
    told = voltage > 0
    silent = int((~told[: len(bus)]).sum())
    if silent:
        notes.append(f"{silent} buses without a voltage in the file (SV): guessed to begin with")
    angle = np.where(told, np.deg2rad(angle), np.nan)
    roots = np.flatnonzero(kind == REFERENCE)
    roots = roots if len(roots) else machines.bus[machines.in_service][:1]
    voltage, angle = first_guess(branches, roots, np.zeros(len(roots)), voltage, angle)
    machines = replace(
        machines,
        set_point=np.where(np.isnan(machines.set_point), voltage[machines.bus], machines.set_point),
    )
    return FileGrid(
        file=file,
        base_mva=BASE_MVA,
        frequency_hz=model.frequency_hz,
        buses=Buses(
            where,
            np.arange(len(labels)),
            labels=labels,
            kind=kind,
            load=load / BASE_MVA,
            shunt=shunt,
            voltage=voltage,
            angle=angle,
            nominal_kv=known_kv(np.append(kv, np.full(len(labels) - len(kv), np.nan))),
        ),
        branches=branches,
        machines=machines,
        notes=tuple(notes),
    )


def _branches(
    tables: Mapping[str, Table], places: _Places, count: int, notes: list[str]
) -> tuple[BranchRecords, Complex]:
    """Lines, transformers and lines to the boundary, and the admittance (n,) that they leave at
    buses.
    """
    parts = [tables[name] for name in BRANCHES]
    made = [
        _lines(parts[0], places),
        _transformers(parts[1], places),
        _stars(parts[2], places),
        _halves(parts[3], places),
    ]
    models = joined(made, np.cumsum([0, *(len(part) for part in parts[:-1])]).tolist())
    loops = (
        models.in_service & ~models.opened.any(axis=1) & (models.ends[:, 0] == models.ends[:, 1])
    )
    if loops.any():
        notes.append(f"{int(loops.sum())} branches with both ends on one bus left out")
        models = replace(models, in_service=models.in_service & ~loops)
    where = Rows.of(*((part.where, range(len(part))) for part in parts))
    return as_branches(where, models, np.ones(count, dtype=bool))


def _between(
    first: tuple[IntArray, Flags],
    second: tuple[IntArray, Flags],
    series: Complex,
    shunts: tuple[Complex, Complex],
    ratio: Complex,
) -> PiModels:
    """π models whose ends may be open."""
    opened = ~np.stack([first[1], second[1]], axis=1)
    made = pi_models((first[0], second[0]), series, shunts, ratio, first[1] | second[1])
    return replace(made, opened=opened)


def _lines(table: Table, places: _Places) -> PiModels:
    """Turn z into z S / U₂² and y into y U² / S; between unlike nominal voltages a line is a
    transformer of ratio U₂ / U₁.
    """
    u1, u2 = places.kv(table, "voltage_level1_id"), places.kv(table, "voltage_level2_id")
    series = (table.numbers("r") + 1j * table.numbers("x")) * BASE_MVA / u2**2
    # Behind the ratio the first shunt, too, is seen at the second voltage.
    shunts = [
        (table.numbers(f"g{end}") + 1j * table.numbers(f"b{end}")) * u2**2 / BASE_MVA
        for end in "12"
    ]
    ratio = (u2 / u1).astype(complex)
    return _between(
        places.at(table, "bus1_id"),
        places.at(table, "bus2_id"),
        series,
        (shunts[0], shunts[1]),
        ratio,
    )


def _tapped(table: Table, leg: str, u1: Array, u2: Array) -> tuple[Complex, Complex, Complex]:
    """Series impedance, admittance behind the tap and ratio of a winding; the tap multiplies V₁ by
    ρ e^{jα}.

    t = U₂ / (U₁ ρ) e^{−jα}, for a ratio here divides.
    """
    r, x, g, b = (table.numbers(f"{what}{leg}_at_current_tap") for what in "rxgb")
    rho, alpha = table.numbers(f"rho{leg}"), np.deg2rad(table.numbers(f"alpha{leg}"))
    table.refuse(~(rho > 0), "the tap ratio is not above 0", expected="a ratio above 0")
    size = u2 / (u1 * rho)
    return (
        (r + 1j * x) * BASE_MVA / u2**2,
        (g + 1j * b) * u2**2 / BASE_MVA,
        size * np.cos(alpha) - 1j * size * np.sin(alpha),
    )


def _transformers(table: Table, places: _Places) -> PiModels:
    """Impedance and admittance of a transformer with two windings are seen from its second."""
    u1, u2 = places.kv(table, "voltage_level1_id"), places.kv(table, "voltage_level2_id")
    series, shunt, ratio = _tapped(table, "", u1, u2)
    return _between(
        places.at(table, "bus1_id"),
        places.at(table, "bus2_id"),
        series,
        (shunt, np.zeros_like(shunt)),
        ratio,
    )


def _stars(table: Table, places: _Places) -> PiModels:
    """Three legs around a bus of its own, at the voltage rated_u0."""
    legs = []
    centre = places.star, np.ones(len(table), dtype=bool)
    u0 = table.numbers("rated_u0")
    for leg in "123":
        series, shunt, ratio = _tapped(table, leg, places.kv(table, f"voltage_level{leg}_id"), u0)
        legs.append(
            _between(
                places.at(table, f"bus{leg}_id"),
                centre,
                series,
                (shunt, np.zeros_like(shunt)),
                ratio,
            )
        )
    return joined(legs, (0, 0, 0))


def _halves(table: Table, places: _Places) -> PiModels:
    """Lines to the boundary, with all of their admittance at the bus."""
    u = places.kv(table)
    series = (table.numbers("r") + 1j * table.numbers("x")) * BASE_MVA / u**2
    shunt = (table.numbers("g") + 1j * table.numbers("b")) * u**2 / BASE_MVA
    node = places.boundary, np.ones(len(table), dtype=bool)
    return _between(
        places.at(table),
        node,
        series,
        (shunt, np.zeros_like(shunt)),
        np.ones(len(table), dtype=complex),
    )


def _loads(
    tables: Mapping[str, Table], places: _Places, shunt: Complex, notes: list[str]
) -> Complex:
    """P + jQ consumed at each bus (n,) [MVA]; shunt compensators are added to shunt [p.u.]."""
    load = np.zeros(len(shunt), dtype=complex)
    bus, half = tables["buses"], tables["boundary_lines"]
    load[: len(bus)] = powers(bus, "fictitious_p0", "fictitious_q0")
    for name, sign, columns in (
        ("loads", 1, ("p0", "q0")),
        ("batteries", -1, ("target_p", "target_q")),
    ):
        at, on = places.at(tables[name])
        np.add.at(load, at, np.where(on, sign * powers(tables[name], *columns), 0))
    if len(tables["batteries"]):
        notes.append(f"{len(tables['batteries'])} batteries taken as negative load")
    beyond = np.array([not tie for tie in names(half, "tie_line_id")], dtype=bool)
    np.add.at(load, places.boundary, np.where(beyond, powers(half, "p0", "q0"), 0))
    if beyond.any():
        notes.append(
            f"{int(beyond.sum())} lines to the boundary end in a bus with the power that flows "
            "over it"
        )
    table = tables["shunt_compensators"]
    at, on = places.at(table)
    admittance = (table.numbers("g") + 1j * table.numbers("b")) * places.kv(table) ** 2 / BASE_MVA
    np.add.at(shunt, at, np.where(on, admittance, 0))
    return load


def _machines(
    table: Table, model: CimModel, places: _Places, kv: Array, load: Complex, notes: list[str]
) -> tuple[Machines, IntArray]:
    """Generators, and the kinds (n,) of buses; equivalent injections do not swing and are added to
    load [MVA] instead.
    """
    power = powers(table, "target_p", "target_q")
    at, on = places.at(table)
    swinging = np.array(names(table, "CGMES.originalClass")) != "EquivalentInjection"
    if not swinging.all():
        np.add.at(load, at[~swinging], -np.where(on, power, 0)[~swinging])
        notes.append(f"{int((~swinging).sum())} equivalent injections taken as negative load")
    regulated, own = names(table, "regulated_bus_id"), names(table, "bus_id")
    regulating = np.array(names(table, "voltage_regulator_on")) == "True"
    regulating = regulating & swinging & on
    local = np.array([one == other for one, other in zip(regulated, own, strict=True)], dtype=bool)
    if elsewhere := int((regulating & ~local).sum()):
        notes.append(
            f"{elsewhere} machines regulate a bus elsewhere: they hold their own at the file's "
            "voltage"
        )
    target = np.where(
        local,
        table.numbers("target_v", np.nan),
        table.numbers("equivalent_local_target_v", np.nan),
    )
    target = np.where(regulating & (target > 0), target / kv[at] if len(kv) else target, np.nan)
    kind = np.full(len(load), LOAD)
    kind[at[regulating]] = CONTROLLED
    best = min(
        (
            model.priorities[name]
            for name in names(table, "id")
            if model.priorities.get(name, 0) > 0
        ),
        default=0.0,
    )
    nodes = names(table, "bus_breaker_bus_id")
    first = np.array(
        [
            (best > 0 and model.priorities.get(name) == best)
            or (best == 0 and node in model.reference_nodes)
            for name, node in zip(names(table, "id"), nodes, strict=True)
        ],
        dtype=bool,
    )
    kind[at[first & on & swinging]] = REFERENCE
    rated = table.numbers("rated_s", np.nan)
    kept = np.flatnonzero(swinging)
    machines = Machines(
        table.where,
        np.arange(len(table)),
        bus=at,
        power=power / BASE_MVA,
        set_point=target,
        in_service=on,
        rated_mva=np.where((rated > 0) & (rated < LARGEST_MVA), rated, np.nan),
        fuel=tuple(
            source.lower() if source in FUELS else "" for source in names(table, "energy_source")
        ),
        **unknown_dynamics(len(table)),
    )
    return machines.keep(kept), kind
