"""Turbines with their governors."""

from __future__ import annotations

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
from gridveil.dynamics.detailed.dual import Number, real


def tgov1(d: Diagram, p: Parameters, s: Signals) -> Number:
    """A steam turbine: droop, valve lag, lead-lag of the reheater, damping."""
    slip = s.omega - 1.0
    valve = d.lag("LAG", d.reference("pref", s.power) - slip / p.R, p.T1)
    valve = d.limited("VALVE", valve, p.VMIN, p.VMAX)
    return d.lead_lag("LL", valve, p.T2, p.T3) - p.Dt * slip


def ieeeg1(d: Diagram, p: Parameters, s: Signals) -> Number:
    """A steam turbine of up to four stages: lead-lag, valve servo, and the stages' shares.

    The shares K1 … K8 are taken over their sum; those of a second shaft are left out.
    """
    shaped = d.lead_lag("LL", (1.0 - s.omega) * p.K, p.T2, p.T1)
    valve = d.state("IAW", s.power)
    rate = (shaped + d.reference("pref", s.power) - valve) / p.T3
    d.rate("IAW", d.limited("RATE", rate, p.UC, p.UO))
    stage = d.limited("VALVE", valve, p.PMIN, p.PMAX)
    power: Number = 0.0
    for time, share in (("T4", "K1"), ("T5", "K3"), ("T6", "K5"), ("T7", "K7")):
        stage = d.lag(f"L{time[1]}", stage, getattr(p, time))
        power = power + stage * getattr(p, share)
    return power / (p.K1 + p.K2 + p.K3 + p.K4 + p.K5 + p.K6 + p.K7 + p.K8)


def hygov(d: Diagram, p: Parameters, s: Signals) -> Number:
    """A hydro turbine: temporary and permanent droop, gate servo, water column.

    The gate is in p.u. of its own stroke; At turns flow into power.
    """
    slip = s.omega - 1.0
    start = s.power / p.At + p.qNL
    error = d.state("LG", 0.0 * slip)
    position = d.state("gtpos", start)
    desired = d.limited("GATE", position + error / p.r, p.GMIN, p.GMAX)
    d.rate("LG", (d.reference("pref", p.R * start) - slip - p.R * desired - error) / p.Tf)
    d.rate("gtpos", error / (p.r * p.Tr))
    gate = d.lag("LAG", desired, p.Tg)
    flow = d.state("q", start)
    head = (flow / gate) ** 2
    d.rate("q", (1.0 - head) / p.Tw)
    return p.At * head * (flow - p.qNL) - p.Dt * slip * gate


def gast(d: Diagram, p: Parameters, s: Signals) -> Number:
    """A gas turbine: droop, fuel valve, combustion, and exhaust temperature, which acts through a
    low-value gate alone.
    """
    slip = s.omega - 1.0
    wanted = d.reference("pref", s.power) - slip / p.R
    valve = d.limited("VALVE", d.lag("LAG", wanted, p.T1), p.VMIN, p.VMAX)
    burnt = d.lag("LG2", valve, p.T2)
    exhaust = d.lag("LG3", burnt, p.T3)
    d.limited("TEMPERATURE", wanted, -np.inf, p.AT + p.KT * (p.AT - real(exhaust)))
    return burnt - p.Dt * slip


def ieesgo(d: Diagram, p: Parameters, s: Signals) -> Number:
    """A general turbine: droop with lag and lead-lag, then three lags with shares."""
    slip = d.lead_lag("F2", d.lag("F1", s.omega - 1.0, p.T1, p.K1), p.T2, p.T3)
    wanted = d.limited("POWER", d.reference("pref", s.power) - slip, p.PMIN, p.PMAX)
    first = d.lag("F3", wanted, p.T4)
    second = d.lag("F4", first, p.T5, p.K2)
    third = d.lag("F5", second, p.T6, p.K3)
    return (1 - p.K2) * first + (1 - p.K3) * second + third


_DROOP = DeviceParameter(
    "R", "droop", "p.u. speed / p.u. power", "droop", 0.05, 0.02, 0.12, 0.05, KUNDUR
)
_TGOV1 = (
    _DROOP,
    DeviceParameter("VMAX", "upper limit of the valve", "p.u.", "power", 1.2, 0.8, 1.2, 1.0, PSSE),
    DeviceParameter("VMIN", "lower limit of the valve", "p.u.", "power", 0.0, 0.0, 0.3, 0.0, PSSE),
    DeviceParameter("T1", "valve time", "s", "none", 0.1, 0.05, 0.5, 0.2, KUNDUR),
    DeviceParameter("T2", "lead time", "s", "none", 0.2, 0.0, 4.0, 2.1, KUNDUR),
    DeviceParameter("T3", "reheater time", "s", "none", 10.0, 0.2, 15.0, 7.0, KUNDUR),
    DeviceParameter(
        "Dt", "turbine damping", "p.u. power / p.u. speed", "power", 0.0, 0.0, 0.5, 0.0, PSSE
    ),
)
TGOV1 = Device("TGOV1", "governor", "steam turbine", _TGOV1, tgov1, ("T1", "T3"))
TGOV1N = Device(
    "TGOV1N", "governor", "steam turbine, reference after the droop", _TGOV1, tgov1, ("T1", "T3")
)
_GAIN = "p.u. power / p.u. speed"
IEEEG1 = Device(
    "IEEEG1",
    "governor",
    "steam turbine with stages",
    (
        DeviceParameter("K", "gain 1/R", _GAIN, "power", 20.0, 8.0, 50.0, 20.0, PSSE),
        DeviceParameter("T1", "lag time", "s", "none", 1.0, 0.0, 1.0, 0.0, PSSE),
        DeviceParameter("T2", "lead time", "s", "none", 1.0, 0.0, 1.0, 0.0, PSSE),
        DeviceParameter("T3", "servo time", "s", "none", 0.1, 0.04, 1.0, 0.1, PSSE),
        DeviceParameter("UO", "opening rate", "p.u./s", "power", 0.1, 0.01, 0.3, 0.1, PSSE),
        DeviceParameter("UC", "closing rate", "p.u./s", "power", -0.1, -0.3, -0.01, -0.1, PSSE),
        DeviceParameter("PMAX", "upper limit of the valve", "p.u.", "power", 5, 0.5, 2, 1, PSSE),
        DeviceParameter("PMIN", "lower limit of the valve", "p.u.", "power", 0, 0, 0.5, 0, PSSE),
        DeviceParameter("T4", "steam chest", "s", "none", 0.4, 0.0, 1.0, 0.3, KUNDUR),
        DeviceParameter("K1", "share after it", "", "none", 0.5, 0.0, 1.0, 0.3, KUNDUR),
        DeviceParameter("K2", "share of a second shaft", "", "none", 0.0, 0.0, 0.5, 0.0, KUNDUR),
        DeviceParameter("T5", "reheater", "s", "none", 8.0, 0.0, 12.0, 7.0, KUNDUR),
        DeviceParameter("K3", "share after it", "", "none", 0.5, 0.0, 1.0, 0.4, KUNDUR),
        DeviceParameter("K4", "share of a second shaft", "", "none", 0.0, 0.0, 0.5, 0.0, KUNDUR),
        DeviceParameter("T6", "crossover", "s", "none", 0.5, 0.0, 2.0, 0.4, KUNDUR),
        DeviceParameter("K5", "share after it", "", "none", 0.0, 0.0, 1.0, 0.3, KUNDUR),
        DeviceParameter("K6", "share of a second shaft", "", "none", 0.0, 0.0, 0.5, 0.0, KUNDUR),
        DeviceParameter("T7", "last stage", "s", "none", 0.05, 0.0, 10.0, 0.0, KUNDUR),
        DeviceParameter("K7", "share after it", "", "none", 0.0, 0.0, 1.0, 0.0, KUNDUR),
        DeviceParameter("K8", "share of a second shaft", "", "none", 0.0, 0.0, 0.5, 0.0, KUNDUR),
    ),
    ieeeg1,
    ("T1", "T4", "T5", "T6", "T7"),
)
HYGOV = Device(
    "HYGOV",
    "governor",
    "hydro turbine",
    (
        DeviceParameter("R", "droop", "p.u. speed / gate", "none", 0.05, 0.02, 0.12, 0.05, KUNDUR),
        DeviceParameter(
            "r", "temporary droop", "p.u. speed / gate", "none", 1, 0.2, 1, 0.4, KUNDUR
        ),
        DeviceParameter("Tr", "reset time", "s", "none", 1.0, 2.5, 25.0, 5.0, KUNDUR),
        DeviceParameter("Tf", "filter time", "s", "none", 0.05, 0.02, 0.1, 0.05, PSSE),
        DeviceParameter("Tg", "servo time", "s", "none", 0.05, 0.1, 0.6, 0.2, KUNDUR),
        DeviceParameter("VELM", "gate rate", "1/s", "none", 0.3, 0.05, 0.3, 0.16, KUNDUR),
        DeviceParameter("GMAX", "upper limit of the gate", "", "none", 1.0, 0.8, 1.0, 1.0, PSSE),
        DeviceParameter("GMIN", "lower limit of the gate", "", "none", 0.0, 0.0, 0.2, 0.0, PSSE),
        DeviceParameter("Tw", "water time", "s", "none", 1.0, 0.5, 4.0, 1.0, KUNDUR),
        DeviceParameter("At", "turbine gain", "p.u. power / flow", "power", 1, 0.9, 1.3, 1.1, PSSE),
        DeviceParameter("Dt", "turbine damping", _GAIN, "power", 0.0, 0.0, 0.5, 0.5, PSSE),
        DeviceParameter("qNL", "no-load flow", "", "none", 0.1, 0.0, 0.15, 0.08, PSSE),
    ),
    hygov,
    ("Tg",),
)
GAST = Device(
    "GAST",
    "governor",
    "gas turbine",
    (
        _DROOP,
        DeviceParameter(
            "VMAX", "upper limit of the valve", "p.u.", "power", 1.2, 0.8, 1.2, 1, PSSE
        ),
        DeviceParameter("VMIN", "lower limit of the valve", "p.u.", "power", 0, -0.1, 0.3, 0, PSSE),
        DeviceParameter("KT", "gain of the temperature", "", "none", 5.0, 1.0, 5.0, 2.0, PSSE),
        DeviceParameter("AT", "ambient limit", "p.u.", "power", 1.0, 0.8, 1.0, 1.0, PSSE),
        DeviceParameter("T1", "valve time", "s", "none", 0.1, 0.04, 0.5, 0.4, PSSE),
        DeviceParameter("T2", "combustion time", "s", "none", 0.2, 0.04, 0.5, 0.1, PSSE),
        DeviceParameter("T3", "exhaust time", "s", "none", 10.0, 1.0, 10.0, 3.0, PSSE),
        DeviceParameter("Dt", "turbine damping", _GAIN, "power", 0.0, 0.0, 0.5, 0.0, PSSE),
    ),
    gast,
    ("T1", "T2", "T3"),
)
IEESGO = Device(
    "IEESGO",
    "governor",
    "general turbine",
    (
        DeviceParameter("T1", "sensing time", "s", "none", 0.02, 0.0, 0.5, 0.02, PSSE),
        DeviceParameter("T2", "lead time", "s", "none", 1.0, 0.0, 5.0, 0.0, PSSE),
        DeviceParameter("T3", "lag time", "s", "none", 1.0, 0.0, 5.0, 0.1, PSSE),
        DeviceParameter("T4", "first lag", "s", "none", 0.5, 0.0, 1.0, 0.3, PSSE),
        DeviceParameter("T5", "second lag", "s", "none", 10.0, 0.0, 12.0, 7.0, PSSE),
        DeviceParameter("T6", "third lag", "s", "none", 0.5, 0.0, 1.0, 0.4, PSSE),
        DeviceParameter("K1", "gain 1/R", _GAIN, "power", 0.02, 8.0, 50.0, 20.0, PSSE),
        DeviceParameter("K2", "share of the second lag", "", "none", 1.0, 0.0, 1.0, 0.7, PSSE),
        DeviceParameter("K3", "share of the third lag", "", "none", 1.0, 0.0, 1.0, 0.4, PSSE),
        DeviceParameter("PMAX", "upper limit", "p.u.", "power", 5.0, 0.5, 2.0, 1.0, PSSE),
        DeviceParameter("PMIN", "lower limit", "p.u.", "power", 0.0, 0.0, 0.5, 0.0, PSSE),
    ),
    ieesgo,
    ("T1", "T3", "T4", "T5", "T6"),
)
GOVERNORS = (TGOV1, TGOV1N, IEEEG1, HYGOV, GAST, IEESGO)
