"""Power system stabilisers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridveil.dynamics.detailed.blocks import Diagram
from gridveil.dynamics.detailed.device import (
    KUNDUR,
    PSSE,
    Device,
    DeviceParameter,
    Parameters,
    Signals,
)
from gridveil.dynamics.detailed.dual import Number
from gridveil.foundation.errors import InputError


def ieeest(d: Diagram, p: Parameters, s: Signals, mechanical: Number) -> Number:
    """Two second-order filters, two lead-lags, gain and washout of one signal.

    MODE 1: speed; 3: electrical power; 4: mechanical power; 5: voltage. A constant part
    goes into the exciter's reference.
    """
    signal = _signal("IEEEST", p.MODE, s, mechanical)
    filtered = d.second_order("F1", signal, (p.A1, p.A2), (0.0, 0.0))
    filtered = d.second_order("F2", filtered, (p.A3, p.A4), (p.A5, p.A6))
    shaped = d.lead_lag("LL1", filtered, p.T1, p.T2)
    shaped = d.lead_lag("LL2", shaped, p.T3, p.T4) * p.KS
    output = _washout_or_lag(d, shaped, p.T5, p.T6)
    return d.limited("VSS", output, p.LSMIN, p.LSMAX)


def st2cut(d: Diagram, p: Parameters, s: Signals, mechanical: Number) -> Number:
    """The sum of two signals, each with a gain and a lag; washout and three lead-lags."""
    summed: Number = 0.0
    for number, mode, gain, time in ((1, p.MODE, p.K1, p.T1), (2, p.MODE2, p.K2, p.T2)):
        if not np.all(mode == 0):
            signal = _signal("ST2CUT", mode, s, mechanical)
            summed = summed + d.lag(f"L{number}", signal, time, gain)
    shaped = _washout_or_lag(d, summed, p.T3, p.T4)
    for number, lead, lag in ((1, p.T5, p.T6), (2, p.T7, p.T8), (3, p.T9, p.T10)):
        shaped = d.lead_lag(f"LL{number}", shaped, lead, lag)
    return d.limited("VSS", shaped, p.LSMIN, p.LSMAX)


def _signal(model: str, modes: Any, s: Signals, mechanical: Number) -> Number:
    """The signal of a mode, which all devices of a call share; MODE 2 and 6 would need the
    derivative of a bus voltage.
    """
    mode = int(np.real(modes).flat[0])
    signals = {1: s.omega - 1.0, 3: s.power, 4: mechanical, 5: s.voltage}
    if mode not in signals:
        raise InputError(
            f"a stabiliser {model} has MODE {mode}", expected="1, 3, 4 or 5", table=model
        )
    return signals[mode]


def _washout_or_lag(d: Diagram, u: Number, K: Any, T: Any) -> Number:
    """S K u / (1 + s T), or a lag where K is zero."""
    if np.all(np.real(K) == 0):
        return d.lag("WO", u, T)
    return d.washout("WO", u, K, T)


def _time(name: str, title: str, default: float, typical: float) -> DeviceParameter:
    return DeviceParameter(name, title, "s", "none", default, 0.0, 15.0, typical, KUNDUR)


IEEEST = Device(
    "IEEEST",
    "stabiliser",
    "single-input stabiliser",
    (
        DeviceParameter("MODE", "input signal", "", "none", 1.0, 1.0, 5.0, 1.0, PSSE),
        _time("A1", "filter 1/(1 + A1 s + A2 s²)", 1.0, 0.0),
        DeviceParameter("A2", "the same", "s²", "none", 1.0, 0.0, 1.0, 0.0, PSSE),
        _time("A3", "filter (1 + A5 s + A6 s²)/(1 + A3 s + A4 s²)", 1.0, 0.0),
        DeviceParameter("A4", "the same", "s²", "none", 1.0, 0.0, 1.0, 0.0, PSSE),
        _time("A5", "the same", 1.0, 0.0),
        DeviceParameter("A6", "the same", "s²", "none", 1.0, 0.0, 1.0, 0.0, PSSE),
        _time("T1", "first lead", 1.0, 0.05),
        _time("T2", "first lag", 1.0, 0.02),
        _time("T3", "second lead", 1.0, 3.0),
        _time("T4", "second lag", 1.0, 5.4),
        _time("T5", "washout", 1.0, 10.0),
        _time("T6", "washout lag", 1.0, 10.0),
        DeviceParameter("KS", "gain", "p.u.", "none", 1.0, 0.5, 50.0, 20.0, KUNDUR),
        DeviceParameter("LSMAX", "upper limit", "p.u.", "none", 0.3, 0.05, 0.3, 0.1, KUNDUR),
        DeviceParameter("LSMIN", "lower limit", "p.u.", "none", -0.3, -0.3, -0.05, -0.1, KUNDUR),
    ),
    ieeest,
    ("A1", "A2", "A3", "A4", "T2", "T4", "T5", "T6"),
    ("MODE",),
    {"KS": "MODE"},
)
ST2CUT = Device(
    "ST2CUT",
    "stabiliser",
    "stabiliser of two signals",
    (
        DeviceParameter("MODE", "first signal", "", "none", 1.0, 0.0, 5.0, 1.0, PSSE),
        DeviceParameter("MODE2", "second signal", "", "none", 0.0, 0.0, 5.0, 0.0, PSSE),
        DeviceParameter("K1", "first gain", "p.u.", "none", 1.0, 0.5, 50.0, 20.0, KUNDUR),
        DeviceParameter("K2", "second gain", "p.u.", "none", 1.0, 0.0, 50.0, 0.0, KUNDUR),
        _time("T1", "lag of the first", 1.0, 0.02),
        _time("T2", "lag of the second", 1.0, 0.02),
        _time("T3", "washout", 1.0, 10.0),
        _time("T4", "washout lag", 0.2, 10.0),
        _time("T5", "first lead", 1.0, 0.05),
        _time("T6", "first lag", 0.5, 0.02),
        _time("T7", "second lead", 1.0, 3.0),
        _time("T8", "second lag", 1.0, 5.4),
        _time("T9", "third lead", 1.0, 0.0),
        _time("T10", "third lag", 0.2, 0.0),
        DeviceParameter("LSMAX", "upper limit", "p.u.", "none", 0.3, 0.05, 0.3, 0.1, KUNDUR),
        DeviceParameter("LSMIN", "lower limit", "p.u.", "none", -0.3, -0.3, -0.05, -0.1, KUNDUR),
    ),
    st2cut,
    ("T1", "T2", "T3", "T4", "T6", "T8", "T10"),
    ("MODE", "MODE2"),
    {"K1": "MODE", "K2": "MODE2"},
)
STABILISERS = (IEEEST, ST2CUT)
