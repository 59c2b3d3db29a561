"""What a grid file does not say: machines' dynamics and policies, from a small TOML, from options,
or both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from gridveil.foundation.errors import InputError, OptionError
from gridveil.foundation.sealed import sealed
from gridveil.foundation.toml import read_toml
from gridveil.readers.network import quoted
from gridveil.readers.policy import POLICIES, Policy, unusable

OperatingPoint = Literal["newton", "file", "flat"]
Base = Literal["system", "rated"]
PER_MACHINE = ("inertia", "damping", "governor_rate", "droop_gain")
CHOICES = {"operating_point": get_args(OperatingPoint), "base": get_args(Base)}
DEFAULT_FREQUENCY_HZ = 60.0


@dataclass(frozen=True)
class Dynamics:
    """What a file does not say.

    inertia : M = 2H of each machine [p.u. power · s / p.u. frequency].
    damping : D of each machine [p.u. power / p.u. frequency].
    governor_rate : T [1/s].
    droop_gain : G = 1/R [p.u. / p.u.].
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

    inertia: float | None = None
    damping: float | None = None
    governor_rate: float = 2.0
    droop_gain: float = 20.0
    base: Base = "system"
    load_damping: float = 0.0
    omega_b: float | None = None
    frequency_hz: float | None = None
    operating_point: OperatingPoint = "newton"
    publish_loads: bool = False
    fuels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    machines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)

    def default(self, what: str, fuel: str) -> float | None:
        """The value for a machine that neither its file nor `machines` knows."""
        return self.fuels.get(fuel.lower(), {}).get(what, getattr(self, what))

    def over(self, options: Mapping[str, Any]) -> Dynamics:
        """The same with other values where an option was given (not None)."""
        given = {name: value for name, value in options.items() if value is not None}
        _only(given, {f.name for f in fields(Dynamics)} - {"policy"} | set(POLICIES), "the options")
        policy = _policy(
            self.policy,
            {name: given.pop(name) for name in POLICIES if name in given},
            "the options",
        )
        return _checked(replace(self, **given, policy=policy), "the options")


@sealed
def read_dynamics(path: Path) -> Dynamics:
    """Read `[dynamics]`, `[fuel.NAME]`, `[machines.BUS]` and `[policy]` of a TOML file."""
    name, data = path.name, read_toml(path)
    known = {f.name for f in fields(Dynamics)} - {"fuels", "machines", "policy"}
    _only(data, {"dynamics", "fuel", "machines", "policy"}, name)
    _only(data.get("dynamics", {}), known, f"{name} [dynamics]")
    _only(data.get("policy", {}), set(POLICIES), f"{name} [policy]")
    for table in ("fuel", "machines"):
        entries = data.get(table, {})
        _only(entries, set(entries) if isinstance(entries, dict) else set(), f"{name} [{table}]")
        for key, values in entries.items():
            _only(values, set(PER_MACHINE), f"{name} [{table}.{quoted(key)}]")
    fuels = {fuel.lower(): values for fuel, values in data.get("fuel", {}).items()}
    policy = _policy(Policy(), data.get("policy", {}), f"{name} [policy]")
    return _checked(
        Dynamics(
            **data.get("dynamics", {}),
            fuels=fuels,
            machines=data.get("machines", {}),
            policy=policy,
        ),
        name,
    )


def _policy(policy: Policy, given: Mapping[str, Any], place: str) -> Policy:
    for name, value in given.items():
        if problem := unusable(name, value):
            raise OptionError(
                f"the policy {name} = {quoted(value)} is unknown", file=place, expected=problem
            )
    return replace(policy, **given)


def _only(table: Any, known: set[str], place: str) -> None:
    if not isinstance(table, dict):
        raise InputError("a table was expected here", file=place, expected="key = value lines")
    for key in table:
        if key not in known:
            raise InputError(
                f"the key {quoted(repr(key))} is unknown",
                file=place,
                expected=f"one of {', '.join(sorted(known))}",
            )


def _checked(dynamics: Dynamics, place: str) -> Dynamics:
    for name, choices in CHOICES.items():
        if getattr(dynamics, name) not in choices:
            raise OptionError(
                f"{name} = {quoted(repr(getattr(dynamics, name)))} is unknown",
                file=place,
                expected=f"one of {', '.join(choices)}",
            )
    if not isinstance(dynamics.publish_loads, bool):  # "no" is true to Python
        raise OptionError("publish_loads is not usable", file=place, expected="true or false")
    positive = {"inertia", "frequency_hz", "omega_b", "governor_rate"}
    values = {
        name: getattr(dynamics, name)
        for name in (*PER_MACHINE, "load_damping", "omega_b", "frequency_hz")
    }
    for kind, entries in (("fuel", dynamics.fuels), ("bus", dynamics.machines)):
        for key, own in entries.items():
            values |= {f"{what} of {kind} {quoted(key)}": value for what, value in own.items()}
    for what, value in values.items():
        if value is None:
            continue
        lowest = "above 0" if what.split(" ")[0] in positive else "of 0 or more"
        number = (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and -1e300 < value < 1e300
        )
        if not number or value < 0 or (value == 0 and what.split(" ")[0] in positive):
            raise OptionError(
                f"{what} is not usable", file=place, expected=f"a finite number {lowest}"
            )
    return dynamics
