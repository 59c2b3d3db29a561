"""Devices of an ANDES case: machines, inverters and their controls, each row with its constants by
name on its own base; and loads with their dependence on voltage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import nan
from typing import Any

import numpy as np

from gridveil.dynamics.detailed.device import Base
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.grid.facts import Array
from gridveil.readers.andes.machines import BASE_MVA, Owners
from gridveil.readers.andes.tables import buses_of
from gridveil.readers.network import DeviceRecord, LoadRecords, Machines
from gridveil.readers.roles import role_of
from gridveil.readers.table import Rows, Table

VOLTAGE_KV = 110.0  # ANDES's own, where a file says nothing
# Columns that name what a device belongs to, and what that is.
OWNED_BY = {"gen": "static", "syn": "machine", "avr": "exciter", "reg": "inverter"}
WORDS = {
    "static": " static generator",
    "machine": " synchronous machine",
    "exciter": "n exciter",
    "inverter": "n inverter",
}
SECOND = "syn2"
_ESDC = {"KA": 80.0, "E2": 0.0, "SE2": 0.0}
# ANDES's own, where they differ from those of the registry; None: it has none.
DEFAULTS: Mapping[str, Mapping[str, float | None]] = {
    "GENROU": {"S12": 1.0},
    "EXST1": {"TA": 0.05},
    "ESDC1A": _ESDC,
    "ESDC2A": _ESDC,
    "IEEET1": {"TR": 0.02, "KA": 5.0},
    "IEEEST": {"MODE": None},
    "ST2CUT": {"MODE": None, "MODE2": None},
}
# How ANDES takes constants to the system's base, where it does so in another way than the registry:
# what it does not convert is per unit of the system's base in its files.
BASES: Mapping[str, Mapping[str, Base]] = {
    "REGCV1": {
        "kw": "droop",
        "kv": "power",
        "KpId": "power",
        "KiId": "power",
        "KpIq": "power",
        "KiIq": "power",
    },
    "REGF1": {
        "wdrp": "none",
        "Qdrp": "none",
        "KPi": "none",
        "KIi": "none",
        "KPv": "none",
        "KIv": "none",
    },
    "REGCA1": {"Khv": "none"},
    "REGCP1": {"Khv": "none"},
    "ESST3A": {"KI": "none", "XL": "none"},
    "IEEEG1": {"UO": "none", "UC": "none"},
    "HYGOV": {
        "R": "droop",
        "r": "droop",
        "At": "none",
        "VELM": "power",
        "GMAX": "power",
        "GMIN": "power",
        "qNL": "power",
    },
    "IEESGO": {"K1": "none"},
}
# A grid-following inverter has its phase-locked loop in a table of its own.
FOLLOWING, PLL_TABLE, PLL = "REGCP1", "PLL1", ("Kp", "Ki", "Tf", "Tp")
SHARES = ("p2p", "p2i", "p2z", "q2q", "q2i", "q2z")
ZIP = ("kpp", "kpi", "kpz", "kqp", "kqi", "kqz")


def device_records(
    table_of: Callable[[str], Table],
    names: Iterable[str],
    owners: Owners,
    machines: Machines,
    nominal_kv: Array,
) -> tuple[DeviceRecord, ...]:
    """List the devices in service of the units, those of models that are not known by name alone.

    names : of the tables. nominal_kv : (n,) of the buses.
    """
    found: list[DeviceRecord] = []
    of: dict[str, dict[str, int | None]] = {
        "static": dict(owners.static),
        "machine": dict(owners.synchronous),
        "exciter": {},
        "inverter": {},
    }
    order = {"machine": 0, "inverter": 1, "exciter": 2}  # owners before what belongs to them
    names = sorted(names, key=lambda name: order.get(_role(name) or "", 3))
    for name in names:
        if name == PLL_TABLE:
            continue
        table, role = table_of(name), _role(name)
        on, indices = table.flags("u", True), table.optional_labels("idx")
        units, said = _units(table, name, role, of)
        columns = _columns(table, name)
        if name == FOLLOWING and columns:
            columns |= _loops(table, table_of(PLL_TABLE) if PLL_TABLE in names else None)
        base, ratio = _bases(table, role, units, machines, nominal_kv)
        for row in range(len(table)):
            unit = units[row] if on[row] else None
            if role in of and (index := indices[row]) is not None:
                of[role].setdefault(index, unit)
            if not on[row] or (unit is None and said[row]):
                continue  # it is out of service, or its unit is
            constants = {what: float(column[row]) for what, column in columns.items()}
            found.append(
                DeviceRecord(
                    name,
                    unit,
                    table.where,
                    row,
                    constants,
                    float(base[row]),
                    float(ratio[row]),
                    BASES.get(name, {}),
                )
            )
    return tuple(found)


def _units(
    table: Table, name: str, role: str | None, of: Mapping[str, Mapping[str, int | None]]
) -> tuple[list[int | None], list[bool]]:
    """The unit that each row belongs to (None if that is out of service), and whether the file
    says which.
    """
    column = next((column for column in OWNED_BY if column in table.columns), None)
    if role == "machine" and name in DEVICES:
        known, labels = of["machine"], table.optional_labels("idx")
    elif column is not None:
        known, labels = of[OWNED_BY[column]], table.optional_labels(column)
    else:
        return [None] * len(table), [False] * len(table)
    table.refuse(
        [name in DEVICES and label not in known for label in labels],
        f"column {column} names nothing that the device can belong to",
        expected=f"the idx of a{WORDS[OWNED_BY[column or 'syn']]} of the file",
    )
    if SECOND in table.columns and name in DEVICES:
        table.refuse(
            [label is not None for label in table.optional_labels(SECOND)],
            "the governor drives a second machine",
            expected="a governor of one machine",
            remedy="Give each machine a governor of its own.",
        )
    return [known.get(label or "") for label in labels], [label in known for label in labels]


def _role(name: str) -> str | None:
    return DEVICES[name].role if name in DEVICES else role_of(name)


def _loops(table: Table, loops: Table | None) -> dict[str, Array]:
    """Constants of the phase-locked loop of each inverter."""
    named = {} if loops is None else dict(zip(loops.labels("idx"), range(len(loops)), strict=True))
    wanted = table.optional_labels("pll")
    table.refuse(
        [index not in named for index in wanted],
        f"column pll names no row of table {PLL_TABLE}",
        expected=f"the idx of a {PLL_TABLE}",
    )
    if loops is None:
        return {}
    rows = [named[index or ""] for index in wanted]
    usual = {own.name: own.default for own in DEVICES[FOLLOWING].parameters}
    return {name: loops.numbers(name, usual[name])[rows] for name in PLL}


def _columns(table: Table, name: str) -> dict[str, Array]:
    """Constants of a model that is known, ANDES's defaults where the file leaves one out."""
    if name not in DEVICES:
        return {}
    usual = DEFAULTS.get(name, {})
    return {
        own.name: table.numbers(own.name, usual.get(own.name, own.default))
        for own in DEVICES[name].parameters
        if own.name not in PLL or name != FOLLOWING
    }


def _bases(
    table: Table, role: str | None, units: list[int | None], machines: Machines, nominal_kv: Array
) -> tuple[Array, Array]:
    """Base [MVA] of each row, and its rated voltage over its bus's."""
    rated = np.array([nan if unit is None else machines.rated_mva[unit] for unit in units])
    ratio = np.ones(len(units))
    if role == "governor":
        own = table.numbers("Tn", 0.0, lowest=0, nan_is_empty=True)
        return np.where(own > 0, own, rated), ratio
    if role in ("machine", "inverter"):
        kv = np.array([nan if unit is None else nominal_kv[machines.bus[unit]] for unit in units])
        own_kv = table.numbers("Vn", VOLTAGE_KV, above=0) if "Vn" in table.columns else kv
        return table.numbers("Sn", BASE_MVA, above=0), own_kv / kv
    return rated, ratio


def load_records(
    tables: Mapping[str, Table], zips: Table | None, known: Mapping[str, int]
) -> LoadRecords | None:
    """Loads in service, with the shares that the file declares in table ZIP or in its settings."""
    if not (table := tables.get("PQ")):
        return None
    at, on = buses_of(table, "bus", known), table.flags("u", True)
    total = table.numbers("p0") + 1j * table.numbers("q0")
    shares = np.tile(np.nan, (len(table), 6))
    if (settings := _settings(tables.get("_config"))) is not None:
        shares[:] = settings
    if zips is not None:
        row_of = {index: row for row, index in enumerate(table.labels("idx"))}
        own, used = zips.optional_labels("pq"), zips.flags("u", True)
        columns = np.stack([zips.numbers(name, lowest=0) for name in ZIP], axis=1)
        zips.refuse(
            [index not in row_of for index in own],
            "column pq names no load",
            expected="the idx of a row of table PQ",
        )
        halves = columns.reshape(-1, 2, 3)
        zips.refuse(
            (halves.sum(axis=2) <= 0).any(axis=1),
            "the shares of P or of Q are all 0",
            expected="shares of constant power, current and impedance",
        )
        whole = (halves / halves.sum(axis=2, keepdims=True)).reshape(-1, 6)
        for row in np.flatnonzero(used):
            shares[row_of[own[row] or ""]] = whole[row]
    declared = ~np.isnan(shares[:, 0])
    shares = np.where(declared[:, None], shares, [1.0, 0.0, 0.0] * 2)
    parts = [
        total.real * shares[:, part] + 1j * total.imag * shares[:, 3 + part] for part in range(3)
    ]
    return LoadRecords(
        table.where,
        np.arange(len(table)),
        bus=at,
        power=parts[0],
        current=parts[1],
        admittance=parts[2],
        declared=declared,
    ).keep(on)


def _settings(config: Table | None) -> Array | None:
    """Shares of all loads, (6,): constant power, current and impedance of P and of Q."""
    if config is None:
        return None
    named: dict[str, Any] = {
        key: row
        for row, (section, key) in enumerate(
            zip(config.texts("section"), config.texts("key"), strict=True)
        )
        if section == "PQ" and key in SHARES
    }
    if len(named) < len(SHARES):
        return None
    rows = [named[key] for key in SHARES]
    cells = {"value": [config.columns["value"][row] for row in rows]}
    shares = Table(Rows.of((config.where, rows)), cells, config.dialect)
    values = shares.numbers("value", lowest=0)
    shares.refuse(
        np.repeat(np.abs(values.reshape(2, 3).sum(axis=1) - 1) > 1e-9, 3),
        "the shares of P or of Q do not add up to 1",
        expected="p2p + p2i + p2z = 1, and q2q + q2i + q2z = 1",
    )
    return values
