"""A grid as a file has it: what every reader returns, in p.u. of one base, before any policy is
applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.detailed.device import Base
from gridveil.foundation.errors import InputError
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import Array, IntArray
from gridveil.readers.table import Flags, Rows

PER_MACHINE = ("inertia", "damping", "governor_rate", "droop_gain")
Complex = NDArray[np.complex128]
# Kinds of bus, as PSS/E and MATPOWER number them.
LOAD, CONTROLLED, REFERENCE, ISOLATED = 1, 2, 3, 4


_Records = TypeVar("_Records", bound="Records")


@dataclass(frozen=True, eq=False)
class Records:
    """Columns of equal length, row by row from a file.

    rows : (n,) the row of the file each came from, from 0.
    """

    where: Rows
    rows: IntArray

    def keep(self: _Records, kept: Flags | IntArray) -> _Records:
        """The same with some rows only."""
        positions = np.flatnonzero(kept) if kept.dtype == bool else kept
        columns: dict[str, Any] = {}
        for f in fields(self):
            values = getattr(self, f.name)
            if isinstance(values, np.ndarray):
                columns[f.name] = values[positions]
            elif isinstance(values, tuple):
                columns[f.name] = tuple(values[i] for i in positions)
        return replace(self, **columns)

    def error(self, position: int, problem: str, *, expected: str, remedy: str = "") -> InputError:
        """Say what is wrong with a record, by the row that it came from."""
        return self.where.error(int(self.rows[position]), problem, expected=expected, remedy=remedy)

    def check_finite(self, optional: Sequence[str] = ()) -> None:
        """Refuse NaN and infinity; in optional columns NaN means that the file says nothing."""
        for f in fields(self):
            values = getattr(self, f.name)
            if isinstance(values, np.ndarray) and values.dtype.kind in "fc":
                bad = np.isinf(values) if f.name in optional else ~np.isfinite(values)
                if bad.any():
                    raise self.error(
                        int(np.flatnonzero(bad)[0]),
                        f"{f.name} is NaN or infinite",
                        expected="a finite number in every column",
                    )


@dataclass(frozen=True, eq=False)
class Buses(Records):
    """Buses. labels : the file's numbers or names; kind : LOAD, CONTROLLED, REFERENCE or ISOLATED.

    load : P + jQ consumed.
    shunt : admittance g + jb.
    voltage, angle : magnitude and angle [rad] as the file has them. All in p.u. of the system base.
    nominal_kv : [kV], NaN where the file does not say; None: it says nothing of any.
    """

    labels: tuple[str, ...]
    kind: IntArray
    load: Complex
    shunt: Complex
    voltage: Array
    angle: Array
    nominal_kv: Array | None = None


@dataclass(frozen=True, eq=False)
class BranchRecords(Records):
    """Lines and transformers as π models.

    ends : (l, 2) positions of buses; series : r + jx [p.u.]; charging : total b [p.u.];
    ratio : complex tap t e^{jφ} at the first end, 1 for a line; in_service : whether it is closed.
    """

    ends: IntArray
    series: Complex
    charging: Array
    ratio: Complex
    in_service: Flags

    @classmethod
    def joined(cls, *parts: BranchRecords) -> BranchRecords:
        """The branches of several tables of a file, one after the other."""
        where = Rows.of(*((part.where, part.rows) for part in parts))
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("ends", "series", "charging", "ratio", "in_service")
        }
        return cls(where, np.arange(len(columns["ends"])), **columns)


@dataclass(frozen=True, eq=False)
class Machines(Records):
    """Generating units, each on its own row; those of one bus are summed later.

    bus : (u,) positions; power : P + jQ scheduled [p.u.]; set_point : voltage that it holds [p.u.];
    rated_mva : its own base, NaN if unknown; fuel : "" if unknown.
    On the system base, NaN where the file says nothing: inertia M = 2H [p.u. power · s / p.u.
    frequency], damping D [p.u. power / p.u. frequency], governor_rate T [1/s], droop_gain G = 1/R
    [p.u. power / p.u. frequency]. A file that has dynamics and gives a unit no governor says so
    with a droop_gain of 0.
    """

    bus: IntArray
    power: Complex
    set_point: Array
    in_service: Flags
    rated_mva: Array
    fuel: tuple[str, ...]
    inertia: Array
    damping: Array
    governor_rate: Array
    droop_gain: Array


@dataclass(frozen=True, eq=False)
class LoadRecords(Records):
    """Loads in service, in three parts that depend on voltage V [p.u.] each in its own way.

    bus : (m,) positions; power, current, admittance : (m,) P + jQ consumed at 1 p.u. by the parts
    that are constant, that go with V, and that go with V² [p.u. of the system base].
    declared : (m,) whether the file says how the load depends on voltage.
    """

    bus: IntArray
    power: Complex
    current: Complex
    admittance: Complex
    declared: Flags


@dataclass(frozen=True, eq=False)
class DeviceRecord:
    """A machine, an inverter or one of their controls, as its file has it.

    model : the name that the file gives it, such as "GENROU".
    machine : its unit, as a row of the machines of the file; None if it belongs to none.
    constants : by name, per unit of base_mva; none of a model that is not known.
    base_mva : NaN where the file does not say.
    kv_ratio : own rated voltage / its bus's, where impedances are per unit of the former.
    bases : how constants go to the system's base, where the file means another way than the
    registry of devices.
    where, row : its place in the file, for errors.
    """

    model: str
    machine: int | None
    where: Rows
    row: int
    constants: Mapping[str, float] = field(default_factory=dict)
    base_mva: float = np.nan
    kv_ratio: float = 1.0
    bases: Mapping[str, Base] = field(default_factory=dict)

    def error(self, problem: str, *, expected: str, remedy: str = "") -> InputError:
        """Say what is wrong with the record, by its place in the file."""
        return self.where.error(self.row, problem, expected=expected, remedy=remedy)


@dataclass(frozen=True, eq=False)
class Details:
    """What a detailed model needs of a file beyond a swing model.

    devices : in service, in the order of the file.
    loads : None if the file has no more than each bus's sum.
    notes : what was left out, counted, in place of the grid's own notes, of which some speak of
    what a swing model leaves out; None: those hold for both.
    """

    devices: tuple[DeviceRecord, ...] = ()
    loads: LoadRecords | None = None
    notes: tuple[str, ...] | None = None


@dataclass(frozen=True, eq=False)
class FileGrid:
    """All of a grid file.

    frequency_hz : nominal, None if the file does not say.
    notes : what its reader left out, counted.
    read_details : reads devices and loads; only then are they checked, so that a file which serves
    a swing model need not be sound in what such a model leaves out.
    loads : one by one, once a detailed model has asked for them.
    """

    file: str
    base_mva: float
    frequency_hz: float | None
    buses: Buses
    branches: BranchRecords
    machines: Machines
    notes: tuple[str, ...] = ()
    read_details: Callable[[], Details] = Details
    loads: LoadRecords | None = None

    @cached_property
    def details(self) -> Details:
        """Devices and loads, read when they are first asked for."""
        return sealed(self.read_details)()

    @property
    def devices(self) -> tuple[DeviceRecord, ...]:
        """Machines, inverters and their controls, in the order of the file."""
        return self.details.devices


def unknown_dynamics(count: int) -> dict[str, Array]:
    """Columns of Machines about which a file says nothing."""
    return {what: np.full(count, np.nan) for what in PER_MACHINE}


def known_kv(values: Array) -> Array:
    """Nominal voltages [kV]; NaN where a file has none, or a placeholder such as 0 or 1."""
    return np.where(np.isfinite(values) & (values > 1), values, np.nan)
