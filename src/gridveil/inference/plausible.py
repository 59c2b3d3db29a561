"""What a detailed release does not draw, as it might be: public values with a public spread.

A typical value is not exact. A constant of a device has a factor that all units share and one of
its own, both log-normal and equally wide, so that about nine in ten lie in the guide range; so has
r/x. Voltages and taps are spread in p.u. Zeros, signs, modes, limits and saturation stay as they
are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import log, sqrt

import numpy as np
from scipy.special import ndtr

from gridveil.dynamics.detailed.device import DeviceParameter
from gridveil.dynamics.detailed.quantities import behind_entries
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.grid.case import Branches, DetailedCase, DeviceTable
from gridveil.grid.facts import Array

# Deviation of a logarithm where a guide range begins at 0, and the most of any.
USUAL, MOST = 0.25, 0.4
LONG = 2 * 1.645 * sqrt(2)  # a guide range, in deviations of either factor
RESISTANCE = 0.2  # of the logarithm of r/x, in common and of each branch
# Usual set points are 1 to 1.05 p.u.: their shift from 1, and the deviation of set points and of
# transformers' taps, in common and of each [p.u.].
RAISED, VOLTAGE = 0.025, 0.01
LOWEST_VOLTAGE, HIGHEST_VOLTAGE = 0.95, 1.08
# Deviation of Φ⁻¹ of a load's share of constant impedance: many loads are taken for all Z or all P.
EXTREMES = 2.0
# Constants that go together: one factor keeps their order.
TOGETHER: tuple[tuple[str, ...], ...] = (("xd", "xq"), ("xd2", "xq2", "xl"))
# Shares of a turbine's stages, which count over their sum.
STAGES: Mapping[str, tuple[str, ...]] = {"IEEEG1": ("K1", "K3", "K5", "K7")}
NEARLY = 0.95  # of the next larger reactance


def plausible_case(
    public: DetailedCase, random: np.random.Generator, reach: float = 1.0
) -> DetailedCase:
    """Draw everything that no entry sets from its public prior.

    reach : how far, from 0 (the public case itself) to 1; it does not change what is drawn of
    random.
    """
    units = replace(public.units, set_point=_set_points(public.units.set_point, random, reach))
    return replace(
        public,
        branches=_branches(public.branches, random, reach),
        units=units,
        devices=tuple(_devices(table, random, reach) for table in public.devices),
    )


def plausible_loads(public: DetailedCase, random: np.random.Generator) -> DetailedCase:
    """Draw shares of constant impedance, the rest being constant power, alike for all loads."""
    shares = ndtr(EXTREMES * random.standard_normal(2))
    impedance = np.tile(shares, (len(public.loads.bus), 1))
    loads = replace(public.loads, impedance=impedance, current=np.zeros_like(impedance))
    return replace(public, loads=loads)


def spread_of(parameter: DeviceParameter) -> tuple[float, float]:
    """Shift from the typical value and deviation, of a constant's logarithm.

    The centre lies half way between the typical value and the guide range's middle.
    """
    if min(parameter.lower, parameter.typical) <= 0:
        return 0.0, USUAL
    low, high = log(parameter.lower), log(parameter.upper)
    return 0.5 * (0.5 * (low + high) - log(parameter.typical)), min((high - low) / LONG, MOST)


def _factors(random: np.random.Generator, size: int, spread: float, shift: float = 0.0) -> Array:
    """One factor for all and one for each: (size,)."""
    return np.exp(shift + spread * (random.standard_normal() + random.standard_normal(size)))


def _set_points(public: Array, random: np.random.Generator, reach: float) -> Array:
    moved = RAISED + VOLTAGE * (random.standard_normal() + random.standard_normal(len(public)))
    return np.clip(public + reach * moved, LOWEST_VOLTAGE, HIGHEST_VOLTAGE)


def _branches(public: Branches, random: np.random.Generator, reach: float) -> Branches:
    count = len(public.series)
    ratio = _factors(random, count, reach * RESISTANCE)
    taps = VOLTAGE * (random.standard_normal() + random.standard_normal(count))
    moved = 1 + reach * taps * (public.charging == 0)
    series = public.series.real * ratio + 1j * public.series.imag
    return replace(public, series=series, ratio=public.ratio * moved)


def _devices(table: DeviceTable, random: np.random.Generator, reach: float) -> DeviceTable:
    device, set_by_entries = DEVICES[table.model], behind_entries(table.model)
    values = dict(table.values)
    tied = {name: group[0] for group in TOGETHER for name in group}
    drawn: dict[str, Array] = {}
    for parameter in device.parameters:
        name = parameter.name
        free = parameter.unit == "s" or parameter.base == "impedance"
        if name in set_by_entries or not (free or name in STAGES.get(table.model, ())):
            continue
        first = tied.get(name, name)
        if first not in drawn:
            shift, spread = spread_of(parameter)
            drawn[first] = _factors(random, len(table.unit), reach * spread, reach * shift)
        values[name] = values[name] * drawn[first]
    if device.role == "machine":
        values |= _in_order(values)
    return replace(table, values=values)


def _in_order(values: Mapping[str, Array]) -> dict[str, Array]:
    """Keep x_d'' below x_d', and x_q' between x_d' and x_q, as every machine has them."""
    if "xd2" not in values:
        kept: dict[str, Array] = {}
    else:
        factor = np.minimum(1.0, NEARLY * values["xd1"] / values["xd2"])
        kept = {name: values[name] * factor for name in ("xd2", "xq2", "xl")}
    if "xq1" in values:
        kept["xq1"] = np.clip(values["xq1"], values["xd1"], NEARLY * values["xq"])
    return kept
