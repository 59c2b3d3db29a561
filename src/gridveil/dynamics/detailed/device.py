"""What a device is: its parameters, declared once, and its equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal, Protocol

import numpy as np

from gridveil.dynamics.detailed.dual import Number

Role = Literal["machine", "inverter", "exciter", "governor", "stabiliser"]

# How a value on a unit's own base goes to the system's: times 1, Sn/Sb, Sb/Sn, Sb/Sn.
Base = Literal["none", "power", "impedance", "droop"]

# (re, im) of a phasor in the network's frame.
Phasor = tuple[Number, Number]

# The parameters of one device, (n,) each, as attributes.
Parameters = SimpleNamespace

KUNDUR = "Kundur, Power System Stability and Control, 1994"
IEEE_421 = "IEEE Std 421.5-2016"
PSSE = "PSS/E model library"
ANDERSON = "Anderson and Fouad, Power System Control and Stability, 2003"


@dataclass(frozen=True)
class DeviceParameter:
    """A parameter of a device.

    default : value where a file leaves it out.
    lower, upper, typical : guide values on the unit's own base.
    source : the public text they are from.
    """

    name: str
    title: str
    unit: str
    base: Base
    default: float
    lower: float
    upper: float
    typical: float
    source: str

    def to_system(self, value: Any, share: Any) -> Any:
        """Take a value from the unit's own base to the system's; share : Sn/Sb."""
        if self.base == "none":
            return value
        return value * share if self.base == "power" else value / share


@dataclass(frozen=True)
class Signals:
    """What a machine shows its controls.

    omega : speed [p.u.].
    voltage : |V| at its bus [p.u.].
    power : air-gap power [p.u. of the system's base].
    field : field current x_ad i_fd [p.u.].
    terminal, current : phasors at its bus [p.u. of the system's base].
    """

    omega: Number
    voltage: Number
    power: Number
    field: Number
    terminal: Phasor
    current: Phasor


class Controls(Protocol):
    """The controls of one machine; each is asked for once."""

    def mechanical(self, signals: Signals) -> Number:
        """Mechanical power of the turbine [p.u.]."""
        ...

    def field(self, signals: Signals, mechanical: Number) -> Number:
        """Field voltage of the exciter, with its stabiliser [p.u.]."""
        ...


@dataclass(frozen=True, eq=False)
class Device:
    """A model of a device.

    equations : a function of the diagram and the parameters, and then of
    a machine or inverter: voltage and controls, to the current into the network;
    an exciter: signals and the stabiliser's output, to the field voltage;
    a governor: signals, to the mechanical power;
    a stabiliser: signals and mechanical power, to its output.
    shaping : parameters whose being zero changes the equations; for those in `modes`, their value.
    gains : of signals, with the mode that says which: mode 3 is power on the unit's own base.
    """

    model: str
    role: Role
    title: str
    parameters: tuple[DeviceParameter, ...]
    equations: Callable[..., Any]
    shaping: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    gains: Mapping[str, str] = field(default_factory=dict)

    def parameter(self, name: str) -> DeviceParameter:
        """Find a parameter by its name."""
        return next(parameter for parameter in self.parameters if parameter.name == name)

    def to_system(self, values: Mapping[str, Any], share: Any) -> dict[str, Any]:
        """Take a record from the unit's own base to the system's; share : Sn/Sb."""
        result = {
            name: self.parameter(name).to_system(value, share) for name, value in values.items()
        }
        for gain, mode in self.gains.items():
            own = np.asarray(values.get(mode, self.parameter(mode).default)) == 3
            if gain in result:
                result[gain] = np.where(own, result[gain] / share, result[gain])
        return result

    def filled(self, values: Mapping[str, Any], size: int) -> Mapping[str, Any]:
        """Add the defaults of what is missing, which have no base."""
        return {
            parameter.name: values.get(parameter.name, np.full(size, parameter.default))
            for parameter in self.parameters
        }
