"""All devices by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gridveil.dynamics.detailed.device import Device, DeviceParameter
from gridveil.dynamics.detailed.exciters import EXCITERS
from gridveil.dynamics.detailed.governors import GOVERNORS
from gridveil.dynamics.detailed.inverters import INVERTERS
from gridveil.dynamics.detailed.machines import MACHINES
from gridveil.dynamics.detailed.stabilisers import STABILISERS

__all__ = ["DEVICES", "Device", "DeviceParameter"]

_ALL = (*MACHINES, *INVERTERS, *EXCITERS, *GOVERNORS, *STABILISERS)

DEVICES: Mapping[str, Device] = MappingProxyType({device.model: device for device in _ALL})
