"""Linear frequency models: the reduced one that is released, and the full one that it is checked
against.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from gridveil.dynamics.compact import Compaction, SparseShares
from gridveil.dynamics.devices import DeviceFamily, joined, settling_gain
from gridveil.dynamics.engine.lti import LTI, LinearFamily
from gridveil.dynamics.swing import SwingFamily
from gridveil.foundation.errors import EventError, InputError
from gridveil.foundation.looks import looks
from gridveil.grid.facts import Array, GridFacts, IntArray, complete_edges, frozen
from gridveil.grid.parameters import Bounds, released
from gridveil.grid.tables import Values

if TYPE_CHECKING:
    from gridveil.dynamics.detailed.model import DetailedModel


class Places(Protocol):
    """What an event needs: places where load changes and frequency is read."""

    @property
    def ports(self) -> tuple[str, ...]:
        """Labels of the places."""
        ...

    @property
    def loads(self) -> Array:
        """(ports,) nominal loads [p.u. power], NaN where not published."""
        ...


# What `simulate` takes: places, and the linear model between them. Each gives `lti`, from inputs
# that are patterns of load (ports, s) [p.u. power] to ω at some ports [p.u.], and `settling`, the ω
# that every bus settles at under a lasting load (ports,) [p.u.]: −Σ load / Σ (D + G).
Model: TypeAlias = "ReducedModel | FullModel | DetailedModel"


@dataclass(frozen=True, eq=False)
class GridPorts:
    """The places of a grid's reduced model, without the model: machines' buses first.

    order : (ports,) bus positions.
    """

    ports: tuple[str, ...]
    loads: Array
    order: IntArray

    @classmethod
    def of(cls, facts: GridFacts, interior: IntArray | None = None) -> GridPorts:
        """List a grid's places; interior : those besides the machines' buses, default all."""
        order = np.concatenate([facts.machines, facts.interior if interior is None else interior])
        loads = facts.loads[order] if facts.loads_are_public else np.full(len(order), np.nan)
        return cls(tuple(facts.buses[i] for i in order), loads, order)


@looks(
    lambda own: (
        f"{len(own.machines)} machines, {len(own.ports)} ports, {own.frequency_hz:g} Hz, "
        f"{own.base_mva:g} MVA"
    )
)
@dataclass(frozen=True, eq=False)
class ReducedModel:
    """M_γ ω̇ = −L_red δ + p − D_γ ω − u;  δ̇ = ω_b ω;  ṗ = −T (p + G ω);  u = ℓ_γ + K_ac ℓ_β;  ω_β
    = K_acᵀ ω_γ.

    ports : machines' buses γ first, then the other buses β that K_ac has columns for.
    k_r : (g (g − 1) / 2,) weights of the complete graph, order 12, 13, …, 23, … [p.u. power / rad].
    m, d : (g,) inertia [p.u. power · s / p.u. frequency] and damping [p.u. power / p.u. frequency].
    governor_rate : (g,) T [1/s].
    droop_gain : (g,) G [p.u. power / p.u. frequency].
    K_ac : (g, b); in a compact model `SparseShares`, which answer as an array does.
    loads : (g + b,) nominal loads [p.u. power], NaN where not published; omega_b [rad/s].
    device : (g,) each, values of the parameters of devices at the machines, by name.
    compact : what was left out of a large one, see `gridveil.dynamics.compact`.
    """

    ports: tuple[str, ...]
    k_r: Array
    m: Array
    d: Array
    governor_rate: Array
    droop_gain: Array
    K_ac: Array
    loads: Array
    omega_b: float
    frequency_hz: float
    base_mva: float
    device: Values = field(default_factory=dict)
    compact: Compaction | None = None

    def __post_init__(self) -> None:
        for name in ("k_r", "m", "d", "governor_rate", "droop_gain", "K_ac", "loads"):
            if not isinstance(getattr(self, name), SparseShares):
                object.__setattr__(self, name, frozen(getattr(self, name)))
        object.__setattr__(
            self, "device", {name: frozen(values) for name, values in self.device.items()}
        )
        g = len(self.m)
        shapes = {
            "k_r": (g * (g - 1) // 2,),
            "d": (g,),
            "governor_rate": (g,),
            "droop_gain": (g,),
            "K_ac": (g, len(self.ports) - g),
            "loads": (len(self.ports),),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise InputError(
                    f"{name} has shape {getattr(self, name).shape}", expected=str(shape)
                )
        if any(values.shape != (g,) for values in self.device.values()):
            raise InputError("a device's parameter has another length than m", expected=f"({g},)")

    @property
    def values(self) -> dict[str, Array]:
        """The released values by parameter: k_r, m, d and those of devices."""
        return {"k_r": self.k_r, **self.of_machines}

    @property
    def of_machines(self) -> dict[str, Array]:
        """The same without the network's: (g,) each."""
        return {"m": self.m, "d": self.d, **self.device}

    @property
    def arrays(self) -> dict[str, Array]:
        """All arrays by name, in the order of files."""
        rest = ("governor_rate", "droop_gain", "K_ac", "loads")
        return self.values | {name: getattr(self, name) for name in rest}

    @classmethod
    def of_arrays(cls, arrays: Values, **rest: Any) -> ReducedModel:
        """Put a model together from its arrays."""
        own = {name: values for name, values in arrays.items() if name in cls.__dataclass_fields__}
        device = {name: values for name, values in arrays.items() if name not in own}
        return cls(**own, **rest, device=device)

    @staticmethod
    def shapes(machines: int, loaded: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays of a model with every parameter of the registry."""
        own = dict.fromkeys((*released(), "governor_rate", "droop_gain"), (machines,))
        pairs = machines * (machines - 1) // 2
        return own | {"k_r": (pairs,), "K_ac": (machines, loaded), "loads": (machines + loaded,)}

    @property
    def machines(self) -> tuple[str, ...]:
        """Labels of the machines' buses."""
        return self.ports[: len(self.m)]

    @cached_property
    def edges(self) -> IntArray:
        """(e, 2) pairs of machines that k_r belongs to."""
        return complete_edges(len(self.m))

    def to_machines(self, load: Array) -> Array:
        """Load (ports, …) as the machines feel it, u = ℓ_γ + K_ac ℓ_β: (g, …) [p.u. power]."""
        g = len(self.m)
        return load[:g] + self.K_ac @ load[g:]

    @cached_property
    def port_map(self) -> Array:
        """[I, K_ac] (g, ports): load at the ports to load on the machines; transposed, ω of the
        machines to the ports'.
        """
        return self.shares(np.arange(len(self.ports))).T

    def shares(self, ports: IntArray) -> Array:
        """Each machine's share in ω at some ports: rows of [I, K_ac]ᵀ, (h, g)."""
        g = len(self.m)
        rows = np.zeros((len(ports), g))
        at_machine = ports < g
        rows[at_machine, ports[at_machine]] = 1.0
        rows[~at_machine] = self.K_ac[:, ports[~at_machine] - g].T
        return rows

    @property
    def inertia(self) -> Array:
        """(g,) by which the machines' frequencies are weighed for the system's."""
        return self.m

    @property
    def theta(self) -> Array:
        """Stacked parameters (k_r, m, d, those of devices)."""
        return np.concatenate(list(self.values.values()))

    def with_theta(self, theta: Array) -> ReducedModel:
        """The same model with other parameters."""
        ends = np.cumsum([len(values) for values in self.values.values()])[:-1]
        k_r, m, d, *device = np.split(theta, ends)
        return replace(self, k_r=k_r, m=m, d=d, device=dict(zip(self.device, device, strict=True)))

    def family(
        self, drive: Array, sense: IntArray | Sequence[int], bounds: Bounds | None = None
    ) -> LinearFamily:
        """The linear family that this model is a member of, with K_ac held fixed."""
        bounds = bounds or Bounds()
        swing = SwingFamily(
            self.edges,
            governor_rate=self.governor_rate,
            droop_gain=self.droop_gain,
            omega_b=self.omega_b,
            drive=self.to_machines(drive),
            sense=self.shares(np.asarray(sense)),
            bounds=bounds,
        )
        if not self.device:
            return swing
        return DeviceFamily(swing, "m", len(self.m), tuple(self.device), bounds)

    def lti(self, drive: Array, sense: IntArray) -> LTI:
        """Linear model from load patterns to frequencies; see `Model`."""
        return self.family(drive, sense).lti(self.theta)

    def settling(self, load: Array) -> float:
        """Settling value; see `Model`."""
        damping = np.sum(self.d) - settling_gain(self.device)
        return _settling(load, damping, self.droop_gain, self.governor_rate)


@looks(lambda own: f"{own.facts.name}: {len(own.ports)} buses, {len(own.machines)} machines")
@dataclass(frozen=True, eq=False)
class FullModel:
    """M ω̇ = −L δ + p − ℓ − D ω;  δ̇ = ω_b ω;  ṗ = −T (p + G ω) on every bus: the oracle of the
    reduced model.

    Buses without inertia are a constraint: their δ is solved for at every instant (or, with
    damping, follows a fast equation of its own), and their ω = δ̇ / ω_b is an output.
    values : of each parameter, as in the source grid.
    """

    facts: GridFacts
    values: Values

    @property
    def k(self) -> Array:
        """(e,) Line weights [p.u. power / rad]."""
        return self.values["k"]

    @property
    def m(self) -> Array:
        """(g,) Inertia [p.u. power · s / p.u. frequency]."""
        return self.values["m"]

    @property
    def inertia(self) -> Array:
        """(g,) by which the machines' frequencies are weighed for the system's."""
        return self.m

    @property
    def d(self) -> Array:
        """(g,) Damping [p.u. power / p.u. frequency]."""
        return self.values["d"]

    @property
    def ports(self) -> tuple[str, ...]:
        """Labels of all buses."""
        return self.facts.buses

    @property
    def loads(self) -> Array:
        """(n,) nominal loads [p.u. power]."""
        return self.facts.loads

    @property
    def machines(self) -> tuple[str, ...]:
        """Labels of the machines' buses."""
        return tuple(self.facts.buses[i] for i in self.facts.machines)

    @property
    def frequency_hz(self) -> float:
        """Nominal frequency [Hz]."""
        return self.facts.frequency_hz

    @property
    def base_mva(self) -> float:
        """Base power [MVA]."""
        return self.facts.base_mva

    def lti(self, drive: Array, sense: IntArray) -> LTI:
        """Eliminate the algebraic angles of the descriptor model, numerically and without K_ac; see
        `Model`.
        """
        facts = self.facts
        n, machine = len(facts.buses), facts.machines
        g, s = len(machine), drive.shape[1]
        L = np.zeros((n, n))
        for (i, j), weight in zip(facts.edges, self.k, strict=True):
            L[[i, j], [i, j]] += weight
            L[[i, j], [j, i]] -= weight
        damped = np.array([b for b in facts.interior if facts.load_damping[b] > 0], dtype=int)
        still = np.array([b for b in facts.interior if facts.load_damping[b] == 0], dtype=int)
        moving = np.concatenate([machine, damped])
        # Angles of buses with neither inertia nor damping: 0 = −L δ − ℓ there.
        to_still = np.linalg.solve(L[np.ix_(still, still)], L[np.ix_(still, moving)])
        load_still = np.linalg.solve(L[np.ix_(still, still)], drive[still])
        pull_angle = L[np.ix_(moving, moving)] - L[np.ix_(moving, still)] @ to_still
        pull_load = drive[moving] - L[np.ix_(moving, still)] @ load_still

        # States: ω of machines, δ of machines and damped buses, p of machines.
        states = 2 * g + len(moving)
        omega, delta, power = slice(0, g), slice(g, g + len(moving)), slice(g + len(moving), states)
        A, B = np.zeros((states, states)), np.zeros((states, s))
        damping = self.d + facts.load_damping[machine]
        A[omega, omega] = -np.diag(damping / self.m)
        A[omega, delta] = -pull_angle[:g] / self.m[:, None]
        A[omega, power] = np.diag(1 / self.m)
        B[omega] = -pull_load[:g] / self.m[:, None]
        speed = np.zeros((n, states))  # ω of every bus as a combination of states …
        through = np.zeros((n, s))  # … and inputs
        speed[machine, range(g)] = 1.0
        speed[damped, delta] = -pull_angle[g:] / facts.load_damping[damped, None]
        through[damped] = -pull_load[g:] / facts.load_damping[damped, None]
        speed[still] = -to_still @ speed[moving]
        through[still] = -to_still @ through[moving]
        A[delta] = facts.omega_b * speed[moving]
        B[delta] = facts.omega_b * through[moving]
        A[power, omega] = -np.diag(facts.governor_rate * facts.droop_gain)
        A[power, power] = -np.diag(facts.governor_rate)
        return joined(LTI.of(A, B, speed[sense], through[sense]), self.m, self.values)

    def settling(self, load: Array) -> float:
        """Settling value; see `Model`."""
        damping = np.sum(self.d) + np.sum(self.facts.load_damping) - settling_gain(self.values)
        return _settling(load, damping, self.facts.droop_gain, self.facts.governor_rate)


def _settling(load: Array, damping: float, gain: Array, rate: Array) -> float:
    """−Σ load / (Σ D + Σ G), where a governor that never moves (T = 0) does not count; −inf if
    nothing stops the fall.
    """
    total = damping + np.sum(gain[rate > 0])
    return -float(np.sum(load)) / float(total) if total > 0 else -np.inf


def port_positions(model: Places, labels: Iterable[str]) -> IntArray:
    """Find ports by their labels."""
    position = {label: place for place, label in enumerate(model.ports)}
    try:
        return np.array([position[label] for label in labels], dtype=np.int64)
    except KeyError as error:
        shown = ", ".join(model.ports[:8]) + (", …" if len(model.ports) > 8 else "")
        raise EventError(
            f"bus {error.args[0]!r} is not a bus of this model",
            expected=f"one of {shown}",
            outcome="Nothing was simulated.",
            remedy="Name a bus that the model has.",
        ) from None
