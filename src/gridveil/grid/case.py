"""A case with devices: the network, its injections, and every device's parameters, as plain arrays.

It holds no opinion about privacy: an owner's case stands behind the vault's wall, a released one is
made of what was drawn and of public values. Everything is in p.u. of the system's base: what a file
has on a machine's own base is converted by its reader, so that ratings are needed nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gridveil.grid.facts import Array, IntArray, frozen

Complex = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class Branches:
    """Lines and transformers as π models.

    ends : (l, 2) positions of buses.
    series : (l,) r + jx [p.u.].
    charging : (l,) total b [p.u.].
    ratio : (l,) complex tap t e^{jφ} at the first end; 1 for a line.
    """

    ends: IntArray
    series: Complex
    charging: Array
    ratio: Complex


@dataclass(frozen=True, eq=False)
class Loads:
    """Loads, each with a share of constant impedance, of constant current and of constant power.

    bus : (m,) positions of buses.
    power : (m,) P + jQ consumed at the operating point [p.u.].
    impedance, current : (m, 2) shares of P and of Q that go with V² and with V; the rest of each is
    constant power.
    """

    bus: IntArray
    power: Complex
    impedance: Array
    current: Array


@dataclass(frozen=True, eq=False)
class Units:
    """Generating units: what the power flow needs of each machine or inverter.

    bus : (u,) positions of buses; several units may share one.
    power : (u,) scheduled active power [p.u.].
    set_point : (u,) voltage that its bus is held at [p.u.].
    slack : position, among the units, of the one whose bus holds the angle and takes the remainder.
    """

    bus: IntArray
    power: Array
    set_point: Array
    slack: int


@dataclass(frozen=True, eq=False)
class DeviceTable:
    """All devices of one model, as columns.

    model : its name in the registry of devices, such as "GENROU".
    unit : (n,) positions, among the units, of those that have one.
    values : each parameter (n,), on the system's base.
    """

    model: str
    unit: IntArray
    values: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", frozen(self.unit, np.int64))
        object.__setattr__(
            self, "values", {name: frozen(column) for name, column in self.values.items()}
        )


@dataclass(frozen=True, eq=False)
class DetailedCase:
    """A whole case.

    buses : labels.
    shunt : (n,) admittance g + jb of each bus [p.u.].
    devices : machines, inverters and their controls, a table a model.
    """

    name: str
    buses: tuple[str, ...]
    base_mva: float
    frequency_hz: float
    branches: Branches
    shunt: Complex
    loads: Loads
    units: Units
    devices: tuple[DeviceTable, ...]
