"""Machines of an ANDES case: static generators, the synchronous machines that stand for them, and
those machines' governors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, nan

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.readers.andes.tables import buses_of
from gridveil.readers.governors import GOVERNORS
from gridveil.readers.network import Machines
from gridveil.readers.table import Flags, Rows, Table, quoted

GENERATORS = ("GENCLS", "GENROU")
BASE_MVA, FREQUENCY_HZ = 100.0, 60.0  # ANDES's own, where a file says nothing
_TGOV1 = {"R": 0.05, "T1": 0.1, "T2": 0.2, "T3": 10.0, "Dt": 0.0}
_HYGOV = {"R": 0.05, "r": 1.0, "Tr": 1.0, "Tf": 0.05, "Tg": 0.05, "Tw": 1.0, "At": 1.0}
# A governor's parameters, and what ANDES takes where a row leaves one empty.
PARAMETERS: Mapping[str, Mapping[str, float]] = {
    **dict.fromkeys(("TGOV1", "TGOV1N", "TGOV1DB", "TGOV1NDB"), _TGOV1),
    "GAST": {"R": 0.05, "T1": 0.1, "T2": 0.2, "Dt": 0.0},
    "TG2": {"R": 0.05, "T1": 0.2, "T2": 10.0},
    "IEEEG1": {
        "K": 20.0,
        "T1": 1.0,
        "T2": 1.0,
        "T3": 0.1,
        "T4": 0.4,
        "T5": 8.0,
        "T6": 0.5,
        "T7": 0.05,
    },
    "IEESGO": {
        "K1": 0.02,
        "K2": 1.0,
        "K3": 1.0,
        "T1": 0.02,
        "T2": 1.0,
        "T3": 1.0,
        "T4": 0.5,
        "T5": 10.0,
        "T6": 0.5,
    },
    **dict.fromkeys(("HYGOV", "HYGOVDB"), _HYGOV),
    "HYGOV4": {
        "Rperm": 0.5,
        "Rtemp": 1.0,
        "Tr": 0.05,
        "Tp": 0.05,
        "Tg": 0.05,
        "Tw": 1.0,
        "At": 1.0,
        "Hdam": 1.0,
    },
}
SIGNED = {"K3"}  # the only parameter that may be negative
FRACTIONS = {"K1": 0.5, "K2": 0.0, "K3": 0.5, "K4": 0.0, "K5": 0.0, "K6": 0.0, "K7": 0.0, "K8": 0.0}
ON_SYSTEM_BASE = (
    "IEESGO"  # ANDES does not convert its K1, so that an ANDES file means p.u. of the system base
)


@dataclass
class Unit:
    """A generating unit while it is put together; powers and dynamics in p.u. of the system
    base.
    """

    place: tuple[Table, int]
    bus: int
    power: complex
    set_point: float
    in_service: bool
    rated_mva: float
    share: float = 1.0
    inertia: float = nan
    damping: float = nan
    rate: float = nan
    gain: float = nan
    synchronous: list[Unit] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Owners:
    """Rows of the units, by index of the synchronous machine or the static generator that they come
    from; None: it is no unit of its own.
    """

    synchronous: Mapping[str, int | None]
    static: Mapping[str, int | None]


def machines(
    file: str,
    tables: Mapping[str, Table],
    known: Mapping[str, int],
    base_mva: float,
    notes: list[str],
) -> tuple[Machines, float | None, Owners]:
    """List the generating units, the frequency that their swing equations are written for [Hz]
    (None without any), and which of the units devices belong to.

    A static generator is as many units as it has synchronous machines in service (they share its
    power by gammap), or one without dynamics if it has none.
    """
    static = _static(tables, known)
    if not static:
        raise InputError(
            "there is no generator",
            file=file,
            table="PV",
            expected="rows in table PV or Slack",
            remedy="Put one in.",
        )
    synchronous, frequency_hz = _synchronous(tables, known, static, base_mva)
    _govern(tables, synchronous, base_mva, notes)
    units: list[Unit] = []
    scaled = 0
    for one in static.values():
        total = sum(unit.share for unit in one.synchronous)
        scaled += bool(one.synchronous) and abs(total - 1) > 1e-6
        for unit in one.synchronous:
            share = unit.share / total if total > 0 else 1 / len(one.synchronous)
            unit.power, unit.set_point, unit.in_service = (
                one.power * share,
                one.set_point,
                one.in_service,
            )
        units += one.synchronous or [one]
    if scaled:
        notes.append(
            f"{scaled} static generators whose machines' gammap do not add up to 1: scaled"
        )
    where = Rows.of(*((table.where, [row]) for table, row in (unit.place for unit in units)))
    listed = Machines(
        where,
        np.arange(len(units)),
        bus=np.array([unit.bus for unit in units], dtype=np.int64),
        power=np.array([unit.power for unit in units], dtype=complex),
        set_point=np.array([unit.set_point for unit in units]),
        in_service=np.array([unit.in_service for unit in units], dtype=bool),
        rated_mva=np.array([unit.rated_mva for unit in units]),
        fuel=("",) * len(units),
        inertia=np.array([unit.inertia for unit in units]),
        damping=np.array([unit.damping for unit in units]),
        governor_rate=np.array([unit.rate for unit in units]),
        droop_gain=np.array([unit.gain for unit in units]),
    )
    row = {id(unit): position for position, unit in enumerate(units)}
    owners = Owners(
        *({index: row.get(id(unit)) for index, unit in of.items()} for of in (synchronous, static))
    )
    return listed, frequency_hz, owners


def _static(tables: Mapping[str, Table], known: Mapping[str, int]) -> dict[str, Unit]:
    """Static generators by index."""
    generators: dict[str, Unit] = {}
    for name in ("PV", "Slack"):
        if not (table := tables.get(name)):
            continue
        at, on = buses_of(table, "bus", known), table.flags("u", True)
        power = table.numbers("p0", None if name == "PV" else 0.0) + 1j * table.numbers("q0", 0.0)
        voltage, rated = (
            table.numbers("v0", above=0),
            table.numbers("Sn", BASE_MVA, above=0),
        )
        for row, index in enumerate(table.labels("idx")):
            if index in generators:
                raise table.error(
                    row,
                    f"static generator {quoted(index)} occurs twice",
                    expected="each generator once",
                )
            generators[index] = Unit(
                (table, row), int(at[row]), power[row], voltage[row], bool(on[row]), rated[row]
            )
    return generators


def _synchronous(
    tables: Mapping[str, Table],
    known: Mapping[str, int],
    static: Mapping[str, Unit],
    base_mva: float,
) -> tuple[dict[str, Unit], float | None]:
    """Synchronous machines by index, tied to their static generators; those out of service are
    there, but tied to none.
    """
    by_index: dict[str, Unit] = {}
    frequency_hz: float | None = None
    for name in GENERATORS:
        if not (table := tables.get(name)):
            continue
        at, on = buses_of(table, "bus", known), table.flags("u", True)
        rated, rated_hz = (
            table.numbers("Sn", BASE_MVA, above=0, needed=True),
            table.numbers("fn", FREQUENCY_HZ, above=0),
        )
        inertia, damping = (
            table.numbers("M", lowest=0),
            table.numbers("D", 0.0, lowest=0, needed=True),
        )
        share = table.numbers("gammap", 1.0, lowest=0)
        of_static = table.labels("gen")
        for row, index in enumerate(table.labels("idx")):
            if index in by_index:
                raise table.error(
                    row,
                    f"synchronous machine {quoted(index)} occurs twice",
                    expected="each machine once",
                )
            mine = static.get(of_static[row])
            if mine is None:
                raise table.error(
                    row,
                    "column gen names no static generator",
                    expected="an index of table PV or Slack",
                )
            if mine.bus != at[row]:
                raise table.error(
                    row,
                    "the machine and its static generator are on different buses",
                    expected="one bus",
                )
            scale = rated[row] / base_mva
            unit = Unit((table, row), mine.bus, 0j, nan, bool(on[row]), rated[row], share[row])
            unit.inertia, unit.damping, unit.gain = inertia[row] * scale, damping[row] * scale, 0.0
            by_index[index] = unit
            if on[row]:
                mine.synchronous.append(unit)
                frequency_hz = frequency_hz or float(rated_hz[row])
                if rated_hz[row] != frequency_hz:
                    raise table.error(
                        row,
                        "the machine has another rated frequency fn than those before",
                        expected="one frequency for all",
                    )
    return by_index, frequency_hz


def _govern(
    tables: Mapping[str, Table], synchronous: Mapping[str, Unit], base_mva: float, notes: list[str]
) -> None:
    """Give machines the rate and gain of their governors, and the damping of their turbines, on the
    system base.
    """
    governed: set[str] = set()
    dead_bands = 0
    for name, model in GOVERNORS.items():
        if not (table := tables.get(name)):
            continue
        on, own_mva = (
            table.flags("u", True),
            table.numbers("Tn", 0.0, lowest=0, nan_is_empty=True),
        )
        columns = {
            what: table.numbers(
                what,
                usual,
                above=0 if what == model.droop else -inf,
                lowest=-inf if what in SIGNED else 0,
                needed=True,
            )
            for what, usual in PARAMETERS[name].items()
        }
        fractions = (
            [table.numbers(what, usual, lowest=0) for what, usual in FRACTIONS.items()]
            if name == "IEEEG1"
            else []
        )
        first, second = table.labels("syn"), table.optional_labels("syn2")
        for row in map(int, np.flatnonzero(on)):
            units: list[Unit] = []
            for index in (first[row], second[row]):
                if index is None:
                    continue
                if index not in synchronous:
                    raise table.error(
                        row,
                        "the governor's machine is unknown",
                        expected="an index of GENCLS or GENROU",
                    )
                if index in governed:
                    raise table.error(
                        row,
                        f"machine {quoted(index)} has two governors",
                        expected="one in service a machine",
                    )
                governed.add(index)
                units.append(synchronous[index])
            values = {what: float(column[row]) for what, column in columns.items()}
            if name == "IEEEG1":
                parts = [float(column[row]) for column in fractions]
                if not sum(parts) > 0:
                    raise table.error(
                        row,
                        "columns K1 to K8 are all 0",
                        expected="fractions of the turbine's power",
                    )
                parts = [part / sum(parts) for part in parts]  # ANDES scales them so
                responses = [
                    model.respond(**values, shares=tuple(parts[start::2])) for start in (0, 1)
                ]
            else:
                responses = [model.respond(**values)]
            rated = own_mva[row] or sum(unit.rated_mva for unit in units)
            scale = 1.0 if name == ON_SYSTEM_BASE else rated / base_mva
            for unit, response in zip(units, responses, strict=False):
                if response.gain > 0 and not response.rate > 0:
                    raise table.error(
                        row, "the governor never acts", expected="time constants of seconds"
                    )
                unit.rate, unit.gain = (
                    response.rate if response.gain > 0 else nan,
                    scale * response.gain,
                )
                unit.damping += scale * response.damping
        dead_bands += _used(table, on, ("dbL", "dbU"))
    if dead_bands:
        notes.append(f"{dead_bands} governors' dead bands left out")


def _used(table: Table, on: Flags, columns: tuple[str, ...]) -> int:
    """Count the rows in service with anything but 0 in some columns."""
    values = [table.numbers(column, 0.0) for column in columns if column in table.columns]
    return int((on & np.any(values, axis=0)).sum()) if values else 0
