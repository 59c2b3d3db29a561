"""The detailed model of a case, every parameter at its true value: what a release is without noise
and without any treatment.

Made from ANDES's own tables after its power flow, not from the project's readers, so that it
depends on the equations alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gridveil.dynamics.detailed.equilibrium import Equilibrium, solve
from gridveil.dynamics.detailed.linearise import Layout, linearise, model_of
from gridveil.dynamics.detailed.linearise import rest as at_rest
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.numbers import numbers_of
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.dynamics.engine.propagate import step_responses
from gridveil.grid.case import Branches, DetailedCase, DeviceTable, Loads, Units
from gridveil.grid.facts import Array, IntArray
from truth_cases import DT_S, LoadKind
from truth_runs import Runs, Truth

SMALL_Z = 1e-8  # what ANDES adds to r and x of every branch
ON_POWER = 3  # MODE of a stabiliser that senses electrical power
Table = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Detailed:
    """A detailed case at its operating point."""

    case: DetailedCase
    rest: Equilibrium

    @classmethod
    def of(cls, case: DetailedCase) -> Detailed:
        """Solve a case."""
        return cls(case, solve(case))

    @classmethod
    def true(cls, runs: Runs, case: str, kind: LoadKind) -> Detailed:
        """A case as ANDES has it."""
        return cls.of(detailed_case(case, runs.andes_dump(case, kind)))

    @property
    def model(self) -> DetailedModel:
        """Linear, with every load's bus a port."""
        return linearise(self.case, self.rest, np.unique(self.case.loads.bus))

    def answer_trip(self, truth: Truth) -> Array:
        """Answer a trip with the machine gone: its current, conj(S / V), leaves the network."""
        unit = [self.case.buses[bus] for bus in self.case.units.bus].index(truth.tripped)
        model = self.without(unit)
        drive = np.zeros((len(model.ports), 1), dtype=complex)
        drive[unit] = self.rest.power[unit]
        lti = model.lti(drive, np.flatnonzero(truth.staying))
        omega = np.zeros_like(truth.omega)
        omega[:, truth.staying] = step_responses(
            lti, range(1), len(truth.time_s), dt_s=DT_S, scheme="exact"
        )[0]
        return omega

    def without(self, unit: int) -> DetailedModel:
        """The linear model without a unit's equations, its port kept, at the point that it was part
        of.
        """
        layout = Layout.of(self.case, np.unique(self.case.loads.bus))
        voltage = self.rest.voltage
        at = at_rest(layout, numbers_of(self.case), np.concatenate([voltage.real, voltage.imag]))
        groups, settled = [], []
        for group, own in zip(layout.groups, at.settled, strict=True):
            keep = group.units != unit
            if keep.any():
                rows = {role: places[keep] for role, places in group.rows.items()}
                groups.append(replace(group, units=group.units[keep], rows=rows))
                settled.append(replace(own, z=own.z[keep], slopes=own.slopes[keep]))
        return model_of(
            self.case,
            replace(layout, groups=tuple(groups)),
            replace(at, settled=tuple(settled)),
        )


def detailed_case(name: str, dump: Mapping[str, Any]) -> DetailedCase:
    """Turn ANDES's tables into a detailed case."""
    tables: Mapping[str, Table] = dump["tables"]
    buses = tables["Bus"]["idx"]
    position = {bus: number for number, bus in enumerate(buses)}

    def at(table: Table, column: str = "bus") -> IntArray:
        return np.array([position[bus] for bus in table[column]], dtype=np.int64)

    def column(table: Table, name: str) -> Array:
        return np.array(table[name])

    line, load = tables["Line"], tables["PQ"]
    assert not any(np.any(column(line, side)) for side in ("g", "b1", "g1", "b2", "g2"))
    shunt = np.zeros(len(buses), dtype=complex)
    if fixed := tables.get("Shunt"):
        np.add.at(shunt, at(fixed), column(fixed, "g") + 1j * column(fixed, "b"))
    (_, p_current, p_impedance), (_, q_current, q_impedance) = dump["shares"]
    m = len(load["bus"])
    generators = [tables["PV"], tables["Slack"]]
    static = [one for table in generators for one in table["idx"]]
    devices, unit_of = _devices(tables, static, dump["base_mva"])
    gathered = {
        key: np.concatenate([column(table, key) for table in generators]) for key in ("p", "v0")
    }
    return DetailedCase(
        name,
        tuple(buses),
        dump["base_mva"],
        dump["frequency_hz"],
        Branches(
            np.stack([at(line, "bus1"), at(line, "bus2")], axis=1),
            column(line, "r") + SMALL_Z + 1j * (column(line, "x") + SMALL_Z),
            column(line, "b"),
            (column(line, "tap") * np.exp(1j * column(line, "phi"))).astype(np.complex128),
        ),
        shunt,
        Loads(
            at(load),
            column(load, "p0") + 1j * column(load, "q0"),
            np.tile([p_impedance, q_impedance], (m, 1)),
            np.tile([p_current, q_current], (m, 1)),
        ),
        Units(
            np.concatenate([at(table) for table in generators])[unit_of],
            gathered["p"][unit_of],
            gathered["v0"][unit_of],
            int(np.flatnonzero(unit_of == len(static) - 1)[0]),
        ),
        devices,
    )


def _devices(
    tables: Mapping[str, Table], static: list[str], base_mva: float
) -> tuple[tuple[DeviceTable, ...], IntArray]:
    """List devices, and the static generator of each unit (u,); units in the machines' order."""
    owner: dict[str, int] = {}
    unit_of: list[int] = []
    rated: list[float] = []
    found: list[DeviceTable] = []
    ranked = {"machine": 0, "governor": 1, "exciter": 1, "stabiliser": 2}
    known = sorted(
        (name for name in tables if name in DEVICES), key=lambda name: ranked[DEVICES[name].role]
    )
    for name in known:
        table, device = tables[name], DEVICES[name]
        if device.role == "machine":
            unit = [len(unit_of) + number for number in range(len(table["idx"]))]
            unit_of += [static.index(one) for one in table["gen"]]
            rated += table["Sn"]
        else:
            unit = [owner[one] for one in table["avr" if device.role == "stabiliser" else "syn"]]
        owner |= dict(zip((f"{one}" for one in table["idx"]), unit, strict=True))
        values = {
            parameter.name: np.array(table[parameter.name])
            for parameter in device.parameters
            if parameter.name in table
        }
        if name == "IEEEST":  # a power that it senses is on the machine's own base
            share = np.array(rated)[unit] / base_mva
            values["KS"] = np.where(values["MODE"] == ON_POWER, values["KS"] / share, values["KS"])
        found.append(DeviceTable(name, np.array(unit), values))
    return tuple(found), np.array(unit_of)
