"""ANDES: a case with devices as its JSON case file. ANDES itself is never imported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from gridveil.foundation.errors import GridveilError
from gridveil.grid.case import DetailedCase
from gridveil.publication.export.common import BASE_KV, NOT_WRITTEN
from gridveil.publication.export.detailed import Written

FILE = "network.json"
# Machines that ANDES has no model of, as the one that comes nearest.
WRITTEN_AS = {"GENSAL": "GENROU"}
NOT_IN_ANDES = {"REGFM_A1", "TWOAXIS"}
FOLLOWING, PLL_TABLE, PLL = "REGCP1", "PLL1", ("Kp", "Ki", "Tf", "Tp")
WIDE = {"pmax": 999.0, "pmin": -999.0, "qmax": 999.0, "qmin": -999.0}
Rows = dict[str, list[dict[str, Any]]]


def detailed_andes(case: DetailedCase) -> dict[str, bytes]:
    """Write network, loads, units and every device; contents by file name.

    One static generator stands at each bus; units of a bus share its power.
    """
    written = Written.of(case)
    for table in case.devices:
        if table.model in NOT_IN_ANDES:
            raise GridveilError(
                f"ANDES has no {table.model}, which a unit of this case is.",
                outcome=NOT_WRITTEN,
                remedy="Use another format.",
            )
    tables: Rows = {
        "_config": _settings(case),
        "Summary": [
            {"field": f"note {n}", "comment": text}
            for n, text in enumerate(
                (
                    "gridveil release: a synthetic case with devices. Buses have neutral names.",
                    f"All is in p.u. of {case.base_mva!r} MVA: ratings are not released.",
                    *andes_notes(case),
                    *written.notes,
                ),
                start=1,
            )
        ],
        "Bus": [
            {
                "idx": bus + 1,
                "name": name,
                "Vn": BASE_KV,
                "v0": float(written.voltage[bus]),
                "a0": float(np.angle(written.equilibrium.voltage[bus])),
            }
            for bus, name in enumerate(written.names)
        ],
        "PQ": _loads(written),
        "ZIP": _shares(case),
        **_generators(written),
        "Shunt": [
            {
                "idx": f"shunt_{bus + 1}",
                "bus": int(bus) + 1,
                "Sn": case.base_mva,
                "Vn": BASE_KV,
                "g": float(case.shunt[bus].real),
                "b": float(case.shunt[bus].imag),
            }
            for bus in np.flatnonzero(case.shunt)
        ],
        "Line": _lines(case),
        **_devices(written),
    }
    rows = {
        name: ",\n".join(f"  {json.dumps(row)}" for row in table)
        for name, table in tables.items()
        if table
    }
    text = ",\n".join(f'"{name}": [\n{listed}\n]' for name, listed in rows.items())
    return {FILE: f"{{\n{text}\n}}\n".encode("ascii")}


def andes_notes(case: DetailedCase) -> tuple[str, ...]:
    """Say what the file cannot carry."""
    return tuple(
        f"ANDES has no {table.model}: written as {WRITTEN_AS[table.model]} with x'q = xq, which "
        "saturates on both axes."
        for table in case.devices
        if table.model in WRITTEN_AS
    )


def _uniform(case: DetailedCase) -> tuple[float, ...] | None:
    """Shares of all loads, if they are the same: power, current and impedance of P, then of Q."""
    loads = case.loads
    shares = np.stack(
        [1 - loads.impedance - loads.current, loads.current, loads.impedance], axis=2
    ).reshape(-1, 6)
    if not len(shares):
        return (0.0, 0.0, 1.0) * 2
    return tuple(shares[0].tolist()) if np.all(shares == shares[0]) else None


def _settings(case: DetailedCase) -> list[dict[str, Any]]:
    """Base, frequency, and how loads depend on voltage, at any voltage."""
    settings: list[tuple[str, str, float]] = [
        ("System", "mva", case.base_mva),
        ("System", "freq", case.frequency_hz),
        ("PQ", "pq2z", 0),
    ]
    if (shares := _uniform(case)) is not None:
        names = ("p2p", "p2i", "p2z", "q2q", "q2i", "q2z")
        settings += [("PQ", name, share) for name, share in zip(names, shares, strict=True)]
    return [{"section": section, "key": key, "value": value} for section, key, value in settings]


def _loads(written: Written) -> list[dict[str, Any]]:
    loads = written.case.loads
    return [
        {
            "idx": f"load_{row + 1}",
            "name": f"load {written.names[bus]}",
            "bus": bus + 1,
            "Vn": BASE_KV,
            "p0": float(loads.power[row].real),
            "q0": float(loads.power[row].imag),
            "vmin": 0.1,
            "vmax": 2.0,
        }
        for row, bus in enumerate(loads.bus.tolist())
    ]


def _shares(case: DetailedCase) -> list[dict[str, Any]]:
    """Each load's own dependence on voltage [%], where they differ."""
    if _uniform(case) is not None:
        return []
    loads = case.loads
    rows: list[dict[str, Any]] = []
    for row in range(len(loads.bus)):
        shares: dict[str, float] = {}
        for side, letter in enumerate("pq"):
            z, i = float(loads.impedance[row, side]), float(loads.current[row, side])
            parts = {f"k{letter}p": 1 - z - i, f"k{letter}i": i, f"k{letter}z": z}
            shares |= {name: 100 * part for name, part in parts.items()}
        rows.append({"idx": f"zip_{row + 1}", "pq": f"load_{row + 1}", **shares})
    return rows


def _generators(written: Written) -> Rows:
    """One static generator at each bus with units."""
    case = written.case
    found: Rows = {"PV": [], "Slack": []}
    for bus in np.unique(case.units.bus).tolist():
        power = written.equilibrium.power[case.units.bus == bus].sum()
        row: dict[str, Any] = {
            "idx": bus + 1,
            "bus": bus + 1,
            "Sn": case.base_mva,
            "Vn": BASE_KV,
            "p0": float(power.real),
            "q0": float(power.imag),
            "v0": float(written.voltage[bus]),
            "ra": 0.0,
            "xs": 0.2,
            **WIDE,
        }
        if bus == written.reference:
            angle = float(np.angle(written.equilibrium.voltage[bus]))
            found["Slack"].append({**row, "a0": angle})
        else:
            found["PV"].append(row)
    return found


def _lines(case: DetailedCase) -> list[dict[str, Any]]:
    branches = case.branches
    return [
        {
            "idx": f"line_{row + 1}",
            "bus1": int(i) + 1,
            "bus2": int(j) + 1,
            "Sn": case.base_mva,
            "Vn1": BASE_KV,
            "Vn2": BASE_KV,
            "r": float(branches.series[row].real),
            "x": float(branches.series[row].imag),
            "b": float(branches.charging[row]),
            "trans": int(branches.ratio[row] != 1),
            "tap": float(np.abs(branches.ratio[row])),
            "phi": float(np.angle(branches.ratio[row])),
        }
        for row, (i, j) in enumerate(branches.ends)
    ]


def _devices(written: Written) -> Rows:
    """Devices by model, each on its own machine, exciter or static generator."""
    case, tables = written.case, {}
    for unit, bus in enumerate(case.units.bus.tolist()):
        for role, (model, values) in written.devices[unit].items():
            row: dict[str, Any] = {"idx": f"{role}_{unit + 1}"}
            if role in ("machine", "inverter"):
                row |= {
                    "name": f"{written.names[bus]}_{written.number[unit]}",
                    "bus": bus + 1,
                    "gen": bus + 1,
                    "Sn": case.base_mva,
                    "fn": case.frequency_hz,
                    **_share(written, unit, bus),
                }
                row |= {"Vn": BASE_KV} if role == "machine" else {}
            elif role == "stabiliser":
                row["avr"] = f"exciter_{unit + 1}"
            else:
                row["syn"] = f"machine_{unit + 1}"
            if model == FOLLOWING:
                loop = {"idx": f"pll_{unit + 1}", "bus": bus + 1, "fn": case.frequency_hz}
                tables.setdefault(PLL_TABLE, []).append(loop | {name: values[name] for name in PLL})
                row["pll"] = loop["idx"]
            tables.setdefault(WRITTEN_AS.get(model, model), []).append(row | _named(model, values))
    return tables


def _share(written: Written, unit: int, bus: int) -> dict[str, float]:
    """A unit's part of its bus's power: gammap of P, and an equal part of Q."""
    here = written.case.units.bus == bus
    power = written.equilibrium.power.real
    total, count = float(power[here].sum()), int(here.sum())
    if count == 1:
        return {"gammap": 1.0, "gammaq": 1.0}
    return {
        "gammap": float(power[unit]) / total if total else 1.0 / count,
        "gammaq": 1.0 / count,
    }


def _named(model: str, values: Mapping[str, float]) -> dict[str, float]:
    """A device's parameters by ANDES's names."""
    if model == "GENSAL":
        return {**values, "xq1": values["xq"], "Tq10": 1.0}
    return {name: value for name, value in values.items() if name not in PLL or model != FOLLOWING}
