"""What a grid file does not say: machines' dynamics and policies, from a small TOML, from options,
or both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from gridveil.foundation.errors import OptionError
from gridveil.foundation.sealed import sealed
from gridveil.foundation.toml import ABOVE_0, FROM_0, Declared, read_toml
from gridveil.readers.table import quoted

DEFAULT_FREQUENCY_HZ = 60.0
# p.u.; below it a branch is a bus tie: its weight would lie far above any public bound.
ZERO_X = 1e-6


class Policy(Declared):
    """What to do with awkward data: each choice declared, applied in one place, counted in
    `inspect`.

    negative_x : a branch with x < 0 (series capacitor, winding of an equivalent star): refuse the
    file, use |x| in k, or merge its two buses. The power flow keeps the sign.
    zero_x : a branch with |x| below 1e-6 p.u.: refuse the file, or merge its two buses.
    island : "" refuses a grid in several islands; "largest" keeps the one with most buses; a bus
    keeps the one it lies in.
    taps : whether k = v_i v_j cos(δ_i − δ_j − φ) / (t x) includes the tap ratio t of transformers.
    without_dynamics : a machine for which neither file nor settings give inertia: refuse, or drop
    it (its bus stays).

    Which buses are merged and which island is kept is topology, hence public: a release does not
    protect it.
    """

    negative_x: Literal["refuse", "abs", "merge"] = "refuse"
    zero_x: Literal["refuse", "merge"] = "refuse"
    island: Annotated[str, Field(description="text: largest, or a bus")] = ""
    taps: Literal["include", "ignore"] = "include"
    without_dynamics: Literal["refuse", "drop"] = "refuse"


class MachineValues(Declared):
    """Values for some machines.

    inertia : M = 2H [p.u. power · s / p.u. frequency].
    damping : D [p.u. power / p.u. frequency].
    governor_rate : T [1/s].
    droop_gain : G = 1/R [p.u. / p.u.].
    """

    inertia: Annotated[float | None, ABOVE_0] = None
    damping: Annotated[float | None, FROM_0] = None
    governor_rate: Annotated[float | None, ABOVE_0] = None
    droop_gain: Annotated[float | None, FROM_0] = None


class Dynamics(MachineValues):
    """What a file does not say: values for all machines, and more.

    base : whether these are p.u. of the system's base, or of each machine's rated MVA.
    load_damping : damping of load [p.u. power / p.u. frequency per p.u. of load], public.
    omega_b : [rad/s], 2π f unless told otherwise.
    frequency_hz : nominal [Hz], else the file's, else 60.
    publish_loads : whether a bundle may carry the file's loads.
    fuels, machines : other values for the machines of a fuel, and for those of single buses.
    policy : what to do with awkward data.

    Where a file has dynamics of its own they come before all of these but `machines`; D = 0 in a
    file counts as not given.
    """

    governor_rate: Annotated[float | None, ABOVE_0] = 2.0
    droop_gain: Annotated[float | None, FROM_0] = 20.0
    base: Literal["system", "rated"] = "system"
    load_damping: Annotated[float, FROM_0] = 0.0
    omega_b: Annotated[float | None, ABOVE_0] = None
    frequency_hz: Annotated[float | None, ABOVE_0] = None
    operating_point: Literal["newton", "file", "flat"] = "newton"
    publish_loads: Annotated[bool, Field(strict=True, description="true or false")] = False
    fuels: Mapping[str, MachineValues] = Field(default_factory=dict)
    machines: Mapping[str, MachineValues] = Field(default_factory=dict)
    policy: Policy = Policy()

    def default(self, what: str, fuel: str) -> float | None:
        """The value for a machine that neither its file nor `machines` knows."""
        own = getattr(self.fuels.get(fuel.lower()), what, None)
        return getattr(self, what) if own is None else own

    def over(self, options: Mapping[str, Any]) -> Dynamics:
        """The same with other values where an option was given (not None)."""
        given = {name: value for name, value in options.items() if value is not None}
        policies = {name: given.pop(name) for name in Policy.model_fields if name in given}
        policy = Policy.read("the options", {**dict(self.policy), **policies})
        return Dynamics.read("the options", {**dict(self), **given, "policy": policy})


def _table(name: str) -> Any:
    return Field(default_factory=dict, description=f"a table [{name}] of key = value lines")


class _File(Declared):
    """Tables of a TOML file."""

    dynamics: dict[str, Any] = _table("dynamics")
    fuel: dict[str, Any] = _table("fuel")
    machines: dict[str, Any] = _table("machines")
    policy: dict[str, Any] = _table("policy")


@sealed
def read_dynamics(path: Path) -> Dynamics:
    """Read `[dynamics]`, `[fuel.NAME]`, `[machines.BUS]` and `[policy]` of a TOML file."""
    name = path.name
    file = _File.read(name, read_toml(path))
    for key in {"fuels", "machines", "policy"} & set(file.dynamics):
        problem, expected = f"the key {key!r} is unknown", f"[{key}] as a table of its own"
        raise OptionError(problem, file=f"{name} [dynamics]", expected=expected)
    fuels, machines = (
        {key: MachineValues.read(f"{name} [{table}.{quoted(key)}]", own) for key, own in of.items()}
        for table, of in (("fuel", file.fuel), ("machines", file.machines))
    )
    more = {
        "fuels": {fuel.lower(): values for fuel, values in fuels.items()},
        "machines": machines,
        "policy": Policy.read(f"{name} [policy]", file.policy),
    }
    return Dynamics.read(f"{name} [dynamics]", file.dynamics | more)
