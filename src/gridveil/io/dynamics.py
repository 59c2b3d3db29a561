"""Machines' dynamics for static grid files: from a small TOML, from options, or both."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite, pi
from pathlib import Path
from typing import Any, Literal, get_args

from gridveil.errors import InputError, OptionError

OperatingPoint = Literal["newton", "file", "flat"]
PER_MACHINE = ("inertia", "damping", "governor_rate", "droop_gain")


@dataclass(frozen=True)
class Dynamics:
    """What a static file does not say.

    inertia : M = 2H on the system base, of each machine [p.u. power · s / p.u. frequency].
    damping : D of each machine [p.u. power / p.u. frequency]; governor_rate : T [1/s]; droop_gain : G = 1/R [p.u. / p.u.].
    load_damping : damping of load [p.u. power / p.u. frequency a p.u. of load], public.
    omega_b : [rad/s], 2π f unless told otherwise; frequency_hz : nominal [Hz].
    publish_loads : whether a bundle may carry the file's loads.
    machines : other values for single machines, by bus.
    """

    inertia: float | None = None
    damping: float | None = None
    governor_rate: float = 2.0
    droop_gain: float = 20.0
    load_damping: float = 0.0
    omega_b: float | None = None
    frequency_hz: float = 60.0
    operating_point: OperatingPoint = "newton"
    publish_loads: bool = False
    machines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def angular_base(self) -> float:
        """ω_b [rad/s]."""
        return self.omega_b if self.omega_b is not None else 2 * pi * self.frequency_hz

    def of(self, bus: str, what: str) -> float:
        """One value of one machine."""
        value = self.machines.get(bus, {}).get(what, getattr(self, what))
        if value is None:
            raise InputError(
                f"the machine at bus {bus} has no {what}",
                expected="a value for every machine: a grid file holds none",
                remedy=f"Give --{what.replace('_', '-')}, or write it in a TOML of the same name beside the file.",
            )
        return value

    def over(self, options: Mapping[str, Any]) -> Dynamics:
        """The same with other values where an option was given (not None)."""
        return _checked(replace(self, **{name: value for name, value in options.items() if value is not None}), "the options")


def read_dynamics(path: Path) -> Dynamics:
    """Read `[dynamics]` and `[machines.BUS]` of a TOML file."""
    name, data = path.name, read_toml(path)
    known = {f.name for f in fields(Dynamics)} - {"machines"}
    _only(data, {"dynamics", "machines"}, name)
    _only(data.get("dynamics", {}), known, f"{name} [dynamics]")
    machines = data.get("machines", {})
    _only(machines, set(machines) if isinstance(machines, dict) else set(), f"{name} [machines]")
    for bus, values in machines.items():
        _only(values, set(PER_MACHINE), f"{name} [machines.{bus}]")
    return _checked(Dynamics(**data.get("dynamics", {}), machines=machines), name)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, whose text may hold private values: no error carries any of it along."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=str(path), remedy="Check the path.") from None
    try:
        return tomllib.loads(data.decode("utf-8"))
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError
        found = re.search(r"line (\d+)", str(error)) if isinstance(error, tomllib.TOMLDecodeError) else None
    # Raised out here: inside the handler, the decoder's error would become its context, with the file's bytes in it.
    raise InputError(
        "this is no TOML", file=path.name, line=int(found[1]) if found else None, expected="key = value lines in UTF-8"
    )


def _only(table: Any, known: set[str], place: str) -> None:
    if not isinstance(table, dict):
        raise InputError("a table was expected here", file=place, expected="key = value lines")
    for key in table:
        if key not in known:
            raise InputError(f"the key {key!r} is unknown", file=place, expected=f"one of {', '.join(sorted(known))}")


def _checked(dynamics: Dynamics, place: str) -> Dynamics:
    if dynamics.operating_point not in get_args(OperatingPoint):
        raise OptionError(
            f"the operating point {dynamics.operating_point!r} is unknown",
            file=place,
            expected=f"one of {', '.join(get_args(OperatingPoint))}",
        )
    if not isinstance(dynamics.publish_loads, bool):  # "no" is true to Python
        raise OptionError("publish_loads is not usable", file=place, expected="true or false")
    positive = {"inertia", "frequency_hz", "omega_b", "governor_rate"}
    values = {
        f.name: getattr(dynamics, f.name)
        for f in fields(dynamics)
        if f.name not in ("machines", "operating_point", "publish_loads")
    }
    for bus, own in dynamics.machines.items():
        values |= {f"{what} of bus {bus}": value for what, value in own.items()}
    for what, value in values.items():
        if value is None:
            continue
        lowest = "above 0" if what.split(" ")[0] in positive else "of 0 or more"
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
        if not number or value < 0 or (value == 0 and what.split(" ")[0] in positive):
            raise OptionError(f"{what} is not usable", file=place, expected=f"a finite number {lowest}")
    return dynamics
