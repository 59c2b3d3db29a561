"""What a grid file does not say: machines' dynamics and policies, from a small TOML, from options,
or both.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, InstanceOf

from gridveil.foundation.errors import OptionError
from gridveil.foundation.sealed import sealed
from gridveil.foundation.toml import ABOVE_0, FROM_0, Declared, read_toml
from gridveil.grid.parameters import Bounds, Range
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


Share = Annotated[float, Field(ge=0, le=1)]


class Detailed(Declared):
    """What a detailed model needs and a file may not say; all of it public.

    unknown_devices : a device whose model is not known: refuse the file, or put the typical device
    of its role in its place; one that acts on limits alone is left out then.
    without_machine : a unit that has no machine or inverter model: refuse the file, or give it a
    typical machine.
    zip : how loads depend on voltage where the file does not say: Z (constant impedance), I
    (constant current), P (constant power), or shares of the three, of P and then of Q.
    """

    unknown_devices: Literal["refuse", "typical"] = "refuse"
    without_machine: Literal["refuse", "typical"] = "refuse"
    zip: Annotated[
        Literal["Z", "I", "P"] | tuple[Share, Share, Share, Share, Share, Share],
        Field(description="Z, I, P, or six shares: Z, I and P of P, then of Q, each adding to 1"),
    ] = "Z"

    @property
    def in_words(self) -> str:
        """How loads depend on voltage, as it is declared."""
        kinds = {"Z": "constant impedance", "I": "constant current", "P": "constant power"}
        if isinstance(self.zip, str):
            return f"{kinds[self.zip]}, declared"
        parts = ", ".join(f"{share:g}" for share in self.zip)
        return f"shares of Z, I and P, of P and then of Q, declared: {parts}"

    @property
    def shares(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Shares of P and of Q that go with V², and those that go with V."""
        if isinstance(self.zip, str):
            impedance, current = float(self.zip == "Z"), float(self.zip == "I")
            return (impedance, impedance), (current, current)
        return (self.zip[0], self.zip[3]), (self.zip[1], self.zip[4])

    @classmethod
    def read(cls, place: str, data: Any) -> Self:
        """Check a part of a TOML file."""
        found = super().read(place, data)
        if not isinstance(found.zip, str) and any(
            abs(sum(found.zip[first : first + 3]) - 1) > 1e-9 for first in (0, 3)
        ):
            raise OptionError("zip is not usable", file=place, expected=cls.expected("zip"))
        return found


Ends = Annotated[
    tuple[float, float] | None, Field(description="[lower, upper], with 0 <= lower < upper")
]


class OwnBounds(Declared):
    """Public bounds of a swing model that an owner declares with the grid; units as in
    `grid.parameters`.

    origin : where they come from: a public source, in words.
    """

    k: Ends = None
    k_r: Ends = None
    m: Ends = None
    d: Ends = None
    origin: Annotated[str, Field(description="text")] = "declared public by the owner"

    def bounds(self, place: str) -> Bounds:
        """As bounds; errors do not show them."""
        given = {name: ends for name, ends in self if name != "origin" and ends is not None}
        found = None
        with suppress(OptionError):
            found = Bounds({n: Range(*ends) for n, ends in given.items()}, origin=self.origin)
        if found is None:
            raise OptionError("bounds are not usable", file=place, expected=self.expected("k"))
        return found


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
    detailed : the same for a detailed model.
    bounds : public bounds of a swing model.

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
    detailed: Detailed = Detailed()
    bounds: InstanceOf[Bounds] | None = None

    def default(self, what: str, fuel: str) -> float | None:
        """The value for a machine that neither its file nor `machines` knows."""
        own = getattr(self.fuels.get(fuel.lower()), what, None)
        return getattr(self, what) if own is None else own

    def over(self, options: Mapping[str, Any]) -> Dynamics:
        """The same with other values where an option was given (not None)."""
        given = {name: value for name, value in options.items() if value is not None}
        tables: dict[str, Any] = {}
        for name, kind, own in (
            ("policy", Policy, self.policy),
            ("detailed", Detailed, self.detailed),
        ):
            values = {key: given.pop(key) for key in kind.model_fields if key in given}
            tables[name] = kind.read("the options", {**dict(own), **values})
        return Dynamics.read("the options", {**dict(self), **given, **tables})


def _table(name: str) -> Any:
    return Field(default_factory=dict, description=f"a table [{name}] of key = value lines")


class _File(Declared):
    """Tables of a TOML file."""

    dynamics: dict[str, Any] = _table("dynamics")
    fuel: dict[str, Any] = _table("fuel")
    machines: dict[str, Any] = _table("machines")
    policy: dict[str, Any] = _table("policy")
    detailed: dict[str, Any] = _table("detailed")
    bounds: dict[str, Any] | None = Field(None, description=_table("bounds").description)


@sealed
def read_dynamics(path: Path) -> Dynamics:
    """Read `[dynamics]`, `[fuel.NAME]`, `[machines.BUS]`, `[policy]`, `[detailed]` and `[bounds]`
    of a TOML file.
    """
    name = path.name
    file = _File.read(name, read_toml(path))
    for key in {"fuels", "machines", "policy", "detailed", "bounds"} & set(file.dynamics):
        problem, expected = f"the key {key!r} is unknown", f"[{key}] as a table of its own"
        raise OptionError(problem, file=f"{name} [dynamics]", expected=expected)
    fuels, machines = (
        {key: MachineValues.read(f"{name} [{table}.{quoted(key)}]", own) for key, own in of.items()}
        for table, of in (("fuel", file.fuel), ("machines", file.machines))
    )
    more: dict[str, Any] = {
        "fuels": {fuel.lower(): values for fuel, values in fuels.items()},
        "machines": machines,
        "policy": Policy.read(f"{name} [policy]", file.policy),
        "detailed": Detailed.read(f"{name} [detailed]", file.detailed),
    }
    if file.bounds is not None:
        place = f"{name} [bounds]"
        more["bounds"] = OwnBounds.read(place, file.bounds).bounds(place)
    return Dynamics.read(f"{name} [dynamics]", file.dynamics | more)
