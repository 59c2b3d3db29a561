"""Public facts of a grid with detailed devices: its structure, and which entries its table has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import (
    IntArray,
    check_buses,
    check_network,
    check_positions,
    check_sizes,
    frozen,
)
from gridveil.grid.parameters import DETAILED, Asset, Parameter, parameters_of

SOLVED_ON_THE_RELEASE = (
    "none inside an entry: power flow is solved on the released network with released injections"
)


@dataclass(frozen=True, eq=False)
class DetailedFacts:
    """What neighbours share: everything about a grid with detailed devices except its entries.

    public : the grid's structure with public values in place of its own: labels of buses, which
    never enter a bundle, ends of branches, places of units, loads and shunts, kinds of devices,
    zeros and signs.
    entries : by parameter, (n,) positions among the assets of its kind that have an entry of it.
    zip_model : how loads depend on voltage, as declared, in words.
    notes : what the reader did to the file's tables, with counts.
    policy : the choices for awkward data that it did so by.
    """

    public: DetailedCase
    entries: Mapping[str, IntArray]
    zip_model: str
    notes: tuple[str, ...] = ()
    policy: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = {name: frozen(at, np.int64) for name, at in self.entries.items() if len(at)}
        object.__setattr__(self, "entries", given)
        self._check()

    @property
    def name(self) -> str:
        """Of the grid, the owner's own."""
        return self.public.name

    @property
    def family(self) -> str:
        """The detailed family."""
        return DETAILED

    @property
    def buses(self) -> tuple[str, ...]:
        """Labels of the n buses, the owner's own; they never enter a bundle."""
        return self.public.buses

    @property
    def edges(self) -> IntArray:
        """(l, 2) bus positions of the ends of each branch; parallel circuits are items of their
        own.
        """
        return self.public.branches.ends

    @property
    def machines(self) -> IntArray:
        """(u,) bus positions of the units, machines and inverters; several may share a bus."""
        return self.public.units.bus

    @property
    def units(self) -> tuple[str, ...]:
        """Labels of the units: their buses', and BUS#2 for the second unit of a bus."""
        return _numbered(self.buses[bus] for bus in self.machines)

    @property
    def loads(self) -> IntArray:
        """(m,) bus positions of the loads."""
        return self.public.loads.bus

    @property
    def shunts(self) -> IntArray:
        """(s,) bus positions of the shunts."""
        return np.flatnonzero(self.public.shunt.imag).astype(np.int64)

    @property
    def frequency_hz(self) -> float:
        """Nominal frequency [Hz]."""
        return self.public.frequency_hz

    @property
    def base_mva(self) -> float:
        """Base power [MVA]."""
        return self.public.base_mva

    @property
    def operating_point(self) -> str:
        """The private case is never solved."""
        return SOLVED_ON_THE_RELEASE

    @property
    def summed(self) -> tuple[str, ...]:
        """Nothing: each branch, unit, load and shunt is an item of its own."""
        return ()

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters of the family that any asset has an entry of."""
        declared = parameters_of(self.family)
        return {name: declared[name] for name in declared if name in self.entries}

    @property
    def sizes(self) -> dict[str, int]:
        """How many entries each parameter has."""
        return {name: len(self.entries[name]) for name in self.parameters}

    def positions(self, name: str) -> IntArray:
        """(n,) which asset of its kind each entry of a parameter belongs to."""
        return self.entries[name]

    def items(self, name: str) -> list[str]:
        """Name the asset of each entry of a parameter by the owner's buses."""
        labels = self._labels(self.parameters[name].asset)
        return [labels[position] for position in self.entries[name]]

    def _labels(self, asset: Asset) -> tuple[str, ...]:
        if asset == "machine":
            return self.units
        if asset == "line":
            return _numbered(f"{self.buses[i]}-{self.buses[j]}" for i, j in self.edges)
        return _numbered(
            self.buses[bus] for bus in (self.loads if asset == "load" else self.shunts)
        )

    def _check(self) -> None:
        check_buses(self)
        check_sizes(self.name, frequency_hz=self.frequency_hz, base_mva=self.base_mva)
        check_network(self)
        check_positions(self.name, len(self.buses), loads=self.loads)
        self._check_units()
        count = {
            "line": len(self.edges),
            "machine": len(self.machines),
            "load": len(self.loads),
            "shunt": len(self.shunts),
        }
        declared = parameters_of(self.family)
        if unknown := self.entries.keys() - declared.keys():
            raise InputError(
                f"entries are given of {min(unknown)}, which no detailed table has",
                file=self.name,
                expected=f"entries of {', '.join(declared)}",
            )
        for name, positions in self.entries.items():
            most = count[declared[name].asset]
            inside = positions.min() >= 0 and positions.max() < most
            if positions.ndim != 1 or not inside or len(np.unique(positions)) < len(positions):
                raise InputError(
                    f"the entries of {name} do not belong to different assets that are there",
                    file=self.name,
                    expected=f"positions 0 to {most - 1}, each once",
                )

    def _check_units(self) -> None:
        """Refuse a slack, or a device, of a unit that is not there."""
        of = {"the slack": np.array([self.public.units.slack])}
        of |= {f"a device {table.model}": table.unit for table in self.public.devices}
        for what, units in of.items():
            if units.size and not (units.min() >= 0 and units.max() < len(self.machines)):
                raise InputError(
                    f"{what} belongs to a unit that is not there",
                    file=self.name,
                    expected=f"positions 0 to {len(self.machines) - 1}",
                )


def _numbered(labels: Iterable[str]) -> tuple[str, ...]:
    """Tell equal labels apart: a, a#2, a#3."""
    seen: Counter[str] = Counter()
    apart = []
    for label in labels:
        seen[label] += 1
        apart.append(label if seen[label] == 1 else f"{label}#{seen[label]}")
    return tuple(apart)
