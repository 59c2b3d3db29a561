"""Public facts of a grid: topology, governors, loads and units. Nothing here is protected."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gridveil.foundation.errors import InputError
from gridveil.grid.parameters import PARAMETERS, SWING, Bounds, Parameter

if TYPE_CHECKING:
    # Its default, which Python 3.11 does not know, lets a grid whose facts nobody names be a swing
    # model's.
    from typing_extensions import TypeVar

    from gridveil.grid.detailed import DetailedFacts

    Facts = TypeVar("Facts", bound="TableFacts", default="GridFacts")
else:
    from typing import TypeVar

    Facts = TypeVar("Facts")

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Where the angles and voltages inside k come from, by the name of the option.
OPERATING_POINTS = {
    "newton": "AC power flow (Newton's method, generators at their voltage set-points)",
    "file": "voltages and angles as the file has them",
    "flat": "flat: all voltages 1 p.u., all angles 0",
}


def frozen(values: Any, dtype: type = np.float64) -> NDArray[Any]:
    """Copy values into an array that cannot be written to; one that already cannot be is taken as
    it is.
    """
    if isinstance(values, np.ndarray) and values.dtype == dtype and _is_settled(values):
        return values
    out = np.array(values, dtype=dtype)
    out.setflags(write=False)
    return out


def _is_settled(values: NDArray[Any]) -> bool:
    """Whether nobody can write to an array, nor to what it is a view of."""
    owner: Any = values
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    return owner is None or isinstance(owner, bytes)


def complete_edges(g: int) -> IntArray:
    """List the g (g − 1) / 2 pairs of a complete graph: 12, 13, …, 23, ….

    >>> complete_edges(3).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    return np.stack(np.triu_indices(g, 1), axis=1).astype(np.int64)


# What a release needs to know of any table: the parameters that it has entries of, which asset each
# entry belongs to, and the network by which a ledger knows the grid. Public, all of it.
TableFacts: TypeAlias = "GridFacts | DetailedFacts"


@dataclass(frozen=True, eq=False)
class GridFacts:
    """What neighbours share: everything about a grid except its protected parameters.

    buses : labels of the n buses, the owner's own; they never enter a bundle.
    edges : (e, 2) bus positions, each pair once (parallel circuits are merged).
    machines : (g,) bus positions that carry machines: the boundary of the Kron reduction.
    governor_rate : (g,) T, inverse governor time constant [1/s].
    droop_gain : (g,) G, governor gain 1/R [p.u. power / p.u. frequency].
    loads : (n,) nominal load ℓ of each bus [p.u. power]; events refer to it.
    load_damping : (n,) damping of the loads [p.u. power / p.u. frequency], public.
    omega_b : rad/s of angle a p.u. frequency deviation makes in a second; 2π f for physics, 1 in
    the paper.
    loads_are_public : whether a bundle may carry the loads; if not, events are given bus by bus.
    operating_point : where the angles and voltages inside k come from.
    notes : what the reader did to the file's tables (merged, summed, left out), with counts.
    policy : the choices for awkward data that it did so by.
    rated_mva : (g,) rated power of the machines [MVA], NaN where unknown; used and shown only where
    its owner says so.
    summed : private groups with entries that are sums of parts (parallel circuits, machines of one
    bus), rounded once.
    voltages_kv : lowest and highest nominal voltage of lines, each that of its higher end [kV];
    None where one is unknown; used and shown only where its owner says so.
    own_bounds : public bounds that its owner declares beside its file.
    """

    name: str
    buses: tuple[str, ...]
    edges: IntArray
    machines: IntArray
    governor_rate: Array
    droop_gain: Array
    loads: Array
    load_damping: Array
    omega_b: float
    frequency_hz: float
    base_mva: float
    loads_are_public: bool
    operating_point: str
    notes: tuple[str, ...] = ()
    policy: Mapping[str, str] = field(default_factory=dict)
    rated_mva: Array | None = None
    summed: tuple[str, ...] = ()
    voltages_kv: tuple[float, float] | None = None
    own_bounds: Bounds | None = None

    def __post_init__(self) -> None:
        if self.rated_mva is not None:
            object.__setattr__(self, "rated_mva", frozen(self.rated_mva))
            if self.rated_mva.shape != self.machines.shape:
                raise InputError("rated_mva has another length than machines", file=self.name)
        for name, dtype in (
            ("edges", np.int64),
            ("machines", np.int64),
            ("governor_rate", np.float64),
            ("droop_gain", np.float64),
            ("loads", np.float64),
            ("load_damping", np.float64),
        ):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))
        self._check()

    @property
    def interior(self) -> IntArray:
        """Positions of the buses without a machine: β."""
        return np.setdiff1d(np.arange(len(self.buses)), self.machines)

    @property
    def family(self) -> str:
        """The swing family."""
        return SWING

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """Every parameter of the swing family: a live view of the registry."""
        return PARAMETERS

    @property
    def sizes(self) -> dict[str, int]:
        """How many values each protected parameter has."""
        count = {"line": len(self.edges), "machine": len(self.machines)}
        return {name: count[parameter.asset] for name, parameter in self.parameters.items()}

    @property
    def damping_of_load(self) -> float | None:
        """Damping per p.u. of load, as declared [p.u. power / p.u. frequency]: the mean over all
        load; None without load.
        """
        if not self.load_damping.any():
            return 0.0
        # Exact sums and twelve digits: what was declared, without a last bit that might tell how
        # many buses there are.
        load, damping = math.fsum(np.maximum(self.loads, 0.0)), math.fsum(self.load_damping)
        mean = float(f"{damping / load:.12g}") if load else math.inf
        return mean if math.isfinite(mean) else None

    def positions(self, name: str) -> IntArray:
        """(n,) every line, or every machine, in order."""
        return np.arange(self.sizes[name])

    def items(self, name: str) -> list[str]:
        """Name the asset of each entry of a parameter by the owner's buses."""
        if self.parameters[name].asset == "line":
            return [self.edge_name(position) for position in range(len(self.edges))]
        return [self.buses[position] for position in self.machines]

    def edge_name(self, position: int) -> str:
        """Name an edge by its two buses."""
        i, j = self.edges[position]
        return f"{self.buses[i]}-{self.buses[j]}"

    def _check(self) -> None:
        n, g = len(self.buses), len(self.machines)
        check_buses(self)
        sizes = {
            "governor_rate": (self.governor_rate, g),
            "droop_gain": (self.droop_gain, g),
            "loads": (self.loads, n),
            "load_damping": (self.load_damping, n),
        }
        for name, (values, size) in sizes.items():
            if values.shape != (size,):
                raise InputError(
                    f"{name} has shape {values.shape}", file=self.name, expected=f"({size},)"
                )
            if not np.isfinite(values).all():
                raise InputError(f"{name} holds a number that is not finite", file=self.name)
        for name in ("governor_rate", "droop_gain", "load_damping"):
            if (getattr(self, name) < 0).any():
                raise InputError(
                    f"{name} holds a negative number", file=self.name, expected="numbers >= 0"
                )
        if self.load_damping.any() and not self.loads_are_public:
            raise InputError(
                "load damping follows the loads, which are withheld: damping without noise would "
                "give them away",
                file=self.name,
                expected="published loads, or no load damping",
                remedy="Publish the loads (--publish-loads), or leave load damping out.",
            )
        sized = ("omega_b", "frequency_hz", "base_mva")
        check_sizes(self.name, **{name: getattr(self, name) for name in sized})
        if len(np.unique(self.machines)) < g:
            raise InputError(
                "a bus has two machines",
                file=self.name,
                expected="machines of one bus summed into one",
            )
        check_network(self)


def check_buses(facts: TableFacts) -> None:
    """Refuse a grid without machines, and a bus that is there twice."""
    if len(facts.machines) == 0:
        raise InputError(
            "no machine is in service, so there is no frequency to model",
            file=facts.name,
            expected="at least one generator in service",
            remedy="Put a generator in service, or check the table's status column.",
        )
    repeated = [bus for bus, times in Counter(facts.buses).items() if times > 1]
    if repeated:
        raise InputError(
            f"bus {repeated[0]} occurs twice", file=facts.name, expected="each bus once"
        )


def check_sizes(file: str, **values: float) -> None:
    """Refuse a public size that is not a finite number above 0."""
    for name, value in values.items():
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"{name} is {value:g}", file=file, expected="a finite number above 0")


def check_positions(file: str, buses: int, **positions: IntArray) -> None:
    """Refuse positions beyond the buses."""
    for name, given in positions.items():
        if given.size and not (given.min() >= 0 and given.max() < buses):
            raise InputError(
                f"{name} points to a bus that is not there",
                file=file,
                expected=f"positions 0 to {buses - 1}",
            )


def check_network(facts: TableFacts) -> None:
    """Refuse lines that join no two buses, and a network of several islands."""
    edges = facts.edges
    check_positions(facts.name, len(facts.buses), machines=facts.machines, edges=edges)
    if edges.ndim != 2 or edges.shape[1] != 2 or (edges[:, 0] == edges[:, 1]).any():
        raise InputError(
            "an edge joins a bus to itself",
            file=facts.name,
            expected="two different buses an edge",
        )
    _check_connected(facts)


def _check_connected(facts: TableFacts) -> None:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(facts.buses)
    graph = coo_array(
        (np.ones(len(facts.edges)), (facts.edges[:, 0], facts.edges[:, 1])), shape=(n, n)
    )
    count, label = connected_components(graph, directed=False)
    if count == 1:
        return
    sizes = np.bincount(label)
    smallest = int(np.argmin(sizes))
    members = [facts.buses[i] for i in np.flatnonzero(label == smallest)[:5]]
    raise InputError(
        f"the network is not connected: it falls into {count} islands, the smallest with "
        f"{sizes[smallest]} bus(es), among them {', '.join(members)}",
        file=facts.name,
        expected="one island",
        remedy="Release each island as a grid of its own (--island), or put the missing branch "
        "in service.",
    )
