"""Devices at the machines: linear equations beside the swing model's, with parameters of their own.

A device declares its parameters and says how its power answers the machine's frequency; noise,
files, words, audit and attacks follow from the declaration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gridveil.dynamics.engine.lti import LTI, LinearFamily, XArray, namespace
from gridveil.foundation.errors import OptionError
from gridveil.grid.parameters import Bounds, Group, Parameter, registered, slices


@dataclass(frozen=True, eq=False)
class DeviceResponse:
    """x' = A x + B ω, p = C x + D ω of the device at each of g machines; leading axes are a batch.

    A : (..., g, n, n) [1/s].
    B, C : (..., g, n).
    D : (..., g) [p.u. power / p.u. frequency].
    """

    A: XArray
    B: XArray
    C: XArray
    D: XArray

    def gain(self) -> XArray:
        """Power that the device settles at for a lasting ω: D − C A⁻¹ B (..., g)."""
        return self.D - np.vecdot(self.C, np.linalg.solve(self.A, self.B[..., None])[..., 0])


class MachineDevice(Protocol):
    """A kind of device that every machine's bus has one of."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its protected parameters, of the asset "machine"."""
        ...

    @property
    def equations(self) -> tuple[str, ...]:
        """Its equations, as a bundle says them."""
        ...

    def response(self, values: Mapping[str, XArray]) -> DeviceResponse:
        """Its answer to frequency, analytic in its values (..., g), each in its unit."""
        ...


# The registry of devices; a model has those whose values it has.
DEVICES: list[MachineDevice] = []


@contextmanager
def registered_device(device: MachineDevice) -> Iterator[None]:
    """Declare a device and its parameters within a block."""
    if any(parameter.asset != "machine" for parameter in device.parameters):
        raise OptionError("A device stands at a machine.", expected="parameters of machines")
    with ExitStack() as stack:
        stack.enter_context(registered(*device.parameters))
        DEVICES.append(device)
        stack.callback(DEVICES.remove, device)
        yield


def devices_of(values: Mapping[str, XArray]) -> list[MachineDevice]:
    """The devices whose parameters are all among some values."""
    return [device for device in DEVICES if all(p.name in values for p in device.parameters)]


def joined(lti: LTI, m: XArray, values: Mapping[str, XArray]) -> LTI:
    """Add the devices' equations to a swing model whose first g states are ω of the machines.

    m : (..., g) inertia; values : of the devices' parameters, (..., g) each.
    """
    for device in devices_of(values):
        lti = _join(lti, m, device.response(values))
    return lti


def _join(lti: LTI, m: XArray, device: DeviceResponse) -> LTI:
    xp = namespace(m)
    g, each, old, inputs = m.shape[-1], device.B.shape[-1], lti.states, lti.inputs
    states = old + g * each
    dtype = (device.A[..., 0, 0, 0] * lti.F[..., 0, 0]).dtype
    F = xp.zeros((*lti.F.shape[:-2], states + inputs, states + inputs), dtype=dtype)
    F[..., :old, :old], F[..., :old, states:] = lti.A, lti.B
    machine = np.arange(g)
    own = old + machine[:, None] * each + np.arange(each)  # (g, each): states of each device
    F[..., machine, machine] += device.D / m
    F[..., machine[:, None], own] = device.C / m[..., None]
    F[..., own, machine[:, None]] = device.B
    F[..., own[:, :, None], own[:, None, :]] = device.A
    H = xp.zeros((*lti.H.shape[:-1], states + inputs), dtype=dtype)
    H[..., :old], H[..., states:] = lti.C, lti.D
    return LTI(F, H, states)


def settling_gain(values: Mapping[str, XArray]) -> float:
    """Power that all devices add for a lasting ω [p.u. power / p.u. frequency]."""
    return sum(float(device.response(values).gain().sum()) for device in devices_of(values))


class DeviceFamily(LinearFamily):
    """A swing family with devices: θ = (θ of the swing family, the devices' parameters).

    Slopes come from a complex step through the equations.
    """

    def __init__(
        self,
        swing: LinearFamily,
        inertia: str,
        machines: int,
        names: tuple[str, ...],
        bounds: Bounds,
    ) -> None:
        self._swing, self._inertia = swing, inertia
        self.groups = (*swing.groups, *(Group(name, machines, bounds[name]) for name in names))
        self._places, self._names = slices(self.groups), names

    def lti(self, theta: XArray) -> LTI:
        """The swing model at θ, with the devices joined to it."""
        values = {name: theta[..., self._places[name]] for name in self._names}
        swing = self._swing.lti(theta[..., : self._swing.size])
        return joined(swing, theta[..., self._places[self._inertia]], values)
