"""What a declared quantity is, of each device model: read from its constants, and put back.

A quantity such as an exciter's steady gain belongs to a whole role; each model of that role has its
own formula for it. The names of constants are those of the registry of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gridveil.dynamics.detailed.device import Base
from gridveil.grid.facts import Array

Columns = Mapping[str, Array]

# Field voltage at which an exciter's steady gain is taken [p.u.]: a public figure, not the
# operating point, which depends on other assets.
NOMINAL_FIELD = 2.0
# An exciter with K_E below 0 has no steady gain where it does not saturate: the least slope.
LEAST_SLOPE = 0.2
# Where a stabiliser's gain is taken [Hz]: between the modes of areas and of single machines.
STABILISED_HZ = 1.0


@dataclass(frozen=True)
class Quantity:
    """A quantity of one device model.

    constant : the one that gives way where the quantity changes.
    get : from the constants (n,) each, its values (n,); 0 where a device lacks it.
    put : from the constants, their bases, and values above 0 (n,), the constants that change.
    """

    constant: str
    get: Callable[[Columns], Array]
    put: Callable[[Columns, Mapping[str, Base], Array], dict[str, Array]]


def column(name: str) -> Quantity:
    """A constant itself, |c|; its sign stays."""
    return Quantity(
        name,
        lambda old: np.abs(old[name]),
        lambda old, _, new: {name: np.sign(old[name]) * new},
    )


def ratio(top: str, bottom: str) -> Quantity:
    """A gain over a time, c/T; the gain gives way."""
    return Quantity(
        top,
        lambda old: old[top] * _reciprocal(old[bottom]),
        lambda old, _, new: {top: old[bottom] * new},
    )


def size(constant: str, get: Callable[[Columns], Array]) -> Quantity:
    """A quantity in proportion to the unit's size: all powers, droops and impedances of the device,
    such as limits, go along.
    """

    def put(old: Columns, bases: Mapping[str, Base], new: Array) -> dict[str, Array]:
        factor = new / get(old)
        powers = {name: old[name] * factor for name in old if bases[name] == "power"}
        return powers | {
            name: old[name] / factor for name in old if bases[name] in ("droop", "impedance")
        }

    return Quantity(constant, get, put)


def _scaled_reactance(old: Columns, bases: Mapping[str, Base], new: Array) -> dict[str, Array]:
    """Every impedance of a machine goes with x'd."""
    factor = new / (old["xd1"] * old["M"])
    return {name: old[name] * factor for name in old if bases[name] == "impedance"}


def field_slope(columns: Columns) -> Array:
    """K_E + d(E S_E(E))/dE at the nominal field voltage, with E S_E(E) = B (E − A)² above A.

    It goes through S_E(E1) and S_E(E2); without both there is no saturation.
    """
    E1, E2 = columns["E1"], columns["E2"]
    first, second = columns["SE1"] * E1, columns["SE2"] * E2
    bent = (first > 0) & (second > 0) & (first != second)
    root = np.sqrt(np.divide(first, second, out=np.zeros_like(first), where=bent))
    A = (E1 - root * E2) / (1 - root)
    B = np.divide(second, (E2 - A) ** 2, out=np.zeros_like(first), where=bent)
    return np.maximum(columns["KE"] + 2 * B * np.maximum(NOMINAL_FIELD - A, 0.0), LEAST_SLOPE)


def _ieeest_gain(columns: Columns) -> Array:
    """|K_S (1 + s T1)/(1 + s T2) (1 + s T3)/(1 + s T4) s T5/(1 + s T6)| at s = j 2π · 1 Hz; without
    T5, 1/(1 + s T6) ends the chain.
    """
    s = 2j * np.pi * STABILISED_HZ
    gain = columns["KS"] / (1 + s * columns["T6"])
    gain = gain * np.where(columns["T5"] != 0, s * columns["T5"], 1.0)
    for lead, lag in (("T1", "T2"), ("T3", "T4")):
        gain = gain * np.where(
            columns[lag] != 0, (1 + s * columns[lead]) / (1 + s * columns[lag]), 1.0
        )
    return np.abs(gain)


def _reciprocal(values: Array) -> Array:
    """1/c, and 0 where c is 0: a block that is not there."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values != 0)


def _of_models(models: str, quantity: Quantity) -> dict[str, Quantity]:
    return dict.fromkeys(models.split(), quantity)


def fast(gain: Quantity, share: Quantity) -> Quantity:
    """A governor's gain times the fast share of its turbine; the share gives way."""
    return Quantity(
        share.constant,
        lambda old: gain.get(old) * share.get(old),
        lambda old, bases, new: share.put(old, bases, new / gain.get(old)),
    )


_MACHINES = "GENCLS GENROU GENSAL TWOAXIS"
_STEAM = "TGOV1 TGOV1N"
_ROTATING = "EXDC2 IEEEX1 ESDC1A ESDC2A IEEET1"

# Quantities by entry, then by device model.
QUANTITIES: dict[str, dict[str, Quantity]] = {
    "M": _of_models(f"{_MACHINES} REGCV1", size("M", lambda old: old["M"])),
    "x_machine": _of_models(
        _MACHINES, Quantity("xd1", lambda old: old["xd1"] * old["M"], _scaled_reactance)
    ),
    "gov_gain": {
        **_of_models(f"{_STEAM} GAST", size("R", lambda old: _reciprocal(old["R"]))),
        "HYGOV": size("At", lambda old: old["At"] * _reciprocal(old["R"])),
        "IEEEG1": size("K", lambda old: old["K"]),
        "IEESGO": size("K1", lambda old: old["K1"]),
        "REGF1": size("wdrp", lambda old: _reciprocal(old["wdrp"])),
        "REGFM_A1": size("mp", lambda old: _reciprocal(old["mp"])),
    },
    "gov_servo": {
        **_of_models(f"{_STEAM} GAST", column("T1")),
        "HYGOV": column("Tg"),
        **_of_models("IEEEG1 IEESGO", column("T3")),
    },
    "gov_lag": {
        **_of_models(_STEAM, column("T3")),
        "GAST": column("T2"),
        "HYGOV": column("Tw"),
        **_of_models("IEEEG1 IEESGO", column("T5")),
    },
    "avr_gain": {
        **_of_models(
            _ROTATING,
            Quantity(
                "KA",
                lambda old: old["KA"] / field_slope(old),
                lambda old, _, new: {"KA": new * field_slope(old)},
            ),
        ),
        "SEXS": column("K"),
        **_of_models("EXST1 ESST3A", column("KA")),
    },
    "avr_feedback": {
        **_of_models("EXDC2 IEEEX1", ratio("KF1", "TF1")),
        **_of_models("ESDC1A ESDC2A", ratio("KF", "TF1")),
        "IEEET1": ratio("KF", "TF"),
    },
    "pss_gain": {
        "IEEEST": Quantity(
            "KS",
            _ieeest_gain,
            lambda old, _, new: {"KS": old["KS"] * new / _ieeest_gain(old)},
        ),
        "ST2CUT": column("K1"),
    },
}
# The fast share of each turbine, by which its answer begins.
FAST_SHARES = {
    **_of_models(_STEAM, ratio("T2", "T3")),
    "HYGOV": column("Tr"),
    **_of_models("IEEEG1 IEESGO", column("T4")),
}
QUANTITIES["gov_fast"] = {
    model: fast(QUANTITIES["gov_gain"][model], share) for model, share in FAST_SHARES.items()
}


def behind_entries(model: str) -> set[str]:
    """The constants of a device model that its entries set."""
    return {own[model].constant for own in QUANTITIES.values() if model in own}


def proportion(model: str, base: Base, columns: Columns) -> Array | float:
    """What constants of a base are in proportion to, in a device model: its size by M, x'd or gain;
    1 where nothing tells its size.
    """
    if base == "none":
        return 1.0
    if base == "impedance" and model in QUANTITIES["x_machine"]:
        return columns["xd1"]
    for entry in ("M", "gov_gain"):
        if model in QUANTITIES[entry]:
            own = QUANTITIES[entry][model].get(columns)
            return own if base == "power" else 1 / own
    return 1.0
