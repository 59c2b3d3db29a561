"""Exciters: rotating (DC) and static ones, with their voltage regulators."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridveil.dynamics.detailed.blocks import Diagram
from gridveil.dynamics.detailed.device import (
    IEEE_421,
    KUNDUR,
    PSSE,
    Device,
    DeviceParameter,
    Parameters,
    Signals,
)
from gridveil.dynamics.detailed.dual import Number, magnitude, real, sqrt, where
from gridveil.dynamics.detailed.saturation import quadratic


def _dc(
    d: Diagram, p: Parameters, s: Signals, stabiliser: Number, lower: Any, upper: Any
) -> Number:
    """T_E ė = v_R − K_E e − e S(e), v_R by a lag with lead-lag, and a washout of e fed back."""
    e = d.state("vp", 1.5 + 0.0 * s.voltage)
    error = (
        d.reference("vref", 1.0 + 0.0 * s.voltage)
        + stabiliser
        - d.lag("LS", s.voltage, p.TR)
        - d.washout("W", e, p.KF1, p.TF1)
    )
    regulator = d.lag("LA", d.lead_lag("LL", error, p.TC, p.TB), p.TA, p.KA)
    regulator = d.limited("VR", regulator, lower, upper)
    d.rate("vp", (regulator - p.KE * e - quadratic(e, (p.E1, p.SE1), (p.E2, p.SE2))) / p.TE)
    return e


def exdc2(d: Diagram, p: Parameters, s: Signals, stabiliser: Number) -> Number:
    """A DC exciter on the machine's shaft: its voltage goes with speed."""
    return s.omega * _dc(d, p, s, stabiliser, p.VRMIN, p.VRMAX)


def ieeex1(d: Diagram, p: Parameters, s: Signals, stabiliser: Number) -> Number:
    """A DC exciter whose regulator's limits go with terminal voltage."""
    return _dc(d, p, s, stabiliser, p.VRMIN * s.voltage, p.VRMAX * s.voltage)


def esdc1a(d: Diagram, p: Parameters, s: Signals, stabiliser: Number) -> Number:
    """A DC exciter with fixed limits of its regulator."""
    return _dc(d, _renamed(p), s, stabiliser, p.VRMIN, p.VRMAX)


def esdc2a(d: Diagram, p: Parameters, s: Signals, stabiliser: Number) -> Number:
    """A DC exciter whose regulator is fed from the terminals."""
    return _dc(d, _renamed(p), s, stabiliser, p.VRMIN * s.voltage, p.VRMAX * s.voltage)


def ieeet1(d: Diagram, p: Parameters, s: Signals, stabiliser: Number) -> Number:
    """A DC exciter without lead-lag."""
    nothing = 0.0 * p.TA
    mapped = Parameters(**{**vars(p), "KF1": p.KF, "TF1": p.TF, "TB": nothing, "TC": nothing})
    return _dc(d, mapped, s, stabiliser, p.VRMIN, p.VRMAX)


def _renamed(p: Parameters) -> Parameters:
    return Parameters(**{**vars(p), "KF1": p.KF})


def esst3a(d: Diagram, p: Parameters, s: Signals, stabiliser: Number) -> Number:
    """A compound-source static exciter: an inner loop of field voltage times what the source gives.

    The source is |K_P V + j (K_I + K_P X_L) I|, less the drop of its rectifier.
    """
    (vr, vi), (ir, ii) = s.terminal, s.current
    turned = p.THETAP * (np.pi / 180)
    along, across = p.KP * np.cos(turned), p.KP * np.sin(turned)
    # j (K_I + K_P X_L) = −across X_L + j (K_I + along X_L)
    drop_r, drop_i = -across * p.XL, p.KI + along * p.XL
    source = magnitude(
        (
            along * vr - across * vi + drop_r * ir - drop_i * ii,
            along * vi + across * vr + drop_r * ii + drop_i * ir,
        )
    )
    supply = d.limited("VB", source * rectifier(p.KC * s.field / source), -np.inf, p.VBMAX)
    error = d.reference("vref", 1.0 + 0.0 * s.voltage) + stabiliser
    error = d.limited("VI", error - d.lag("LG", s.voltage, p.TR), p.VIMIN, p.VIMAX)
    regulator = d.lag("LAW1", d.lead_lag("LL", error, p.TC, p.TB), p.TA, p.KA)
    regulator = d.limited("VR", regulator, p.VRMIN, p.VRMAX)
    inner = d.state("LAW2", 1.5 / real(supply))
    output = supply * inner
    back = d.limited("VG", output * p.KG, -np.inf, p.VGMAX)
    d.rate("LAW2", (p.KM * (regulator - back) - inner) / p.TM)
    d.limited("VM", inner, p.VMMIN, p.VMMAX)
    return output


def rectifier(load: Number) -> Number:
    """F_EX of IEEE Std 421.5, annex D: what a loaded rectifier bridge passes on."""
    at = real(load)
    first, last = 1.0 - 0.577 * load, 1.732 * (1.0 - load)
    middle = sqrt(where((at > 0.433) & (at <= 0.75), 0.75 - load * load, 1.0 + 0.0 * load))
    passed = where(at <= 0.433, first, where(at <= 0.75, middle, last))
    return where(at <= 0, 1.0 + 0.0 * load, where(at > 1, 0.0 * load, passed))


def sexs(d: Diagram, p: Parameters, s: Signals, stabiliser: Number) -> Number:
    """A simplified exciter: lead-lag, then gain with a lag."""
    error = d.reference("vref", 1.0 + 0.0 * s.voltage) + stabiliser - s.voltage
    shaped = d.lead_lag("LL", error, p.TATB * p.TB, p.TB)
    return d.limited("EFD", d.lag("LAW", shaped, p.TE, p.K), p.EMIN, p.EMAX)


def exst1(d: Diagram, p: Parameters, s: Signals, stabiliser: Number) -> Number:
    """A static exciter: lead-lag, regulator, and a washout of its output fed back."""
    reference = d.reference("vref", 1.0 + 0.0 * s.voltage)
    sensed = d.lag("LG", s.voltage, p.TR)
    output = d.state("LR", 1.5 + 0.0 * s.voltage)
    error = reference + stabiliser - sensed - d.washout("WF", output, p.KF, p.TF)
    error = d.limited("VI", error, p.VIMIN, p.VIMAX)
    d.rate("LR", (p.KA * d.lead_lag("LL", error, p.TC, p.TB) - output) / p.TA)
    drop = p.KC * s.field
    return d.limited("EFD", output, p.VRMIN - drop, p.VRMAX - drop)


_TR = DeviceParameter("TR", "sensing time", "s", "none", 0.01, 0.0, 0.05, 0.01, IEEE_421)
_TA = DeviceParameter("TA", "regulator time", "s", "none", 0.04, 0.005, 0.2, 0.02, IEEE_421)
_TC = DeviceParameter("TC", "lead time", "s", "none", 1.0, 0.0, 10.0, 1.0, IEEE_421)
_TB = DeviceParameter("TB", "lag time", "s", "none", 1.0, 0.0, 20.0, 10.0, IEEE_421)

_DC = (
    _TR,
    _TA,
    DeviceParameter("TC", "lead time", "s", "none", 1.0, 0.0, 5.0, 0.0, IEEE_421),
    DeviceParameter("TB", "lag time", "s", "none", 1.0, 0.0, 5.0, 0.0, IEEE_421),
    DeviceParameter("TE", "exciter time", "s", "none", 0.8, 0.1, 2.0, 0.8, IEEE_421),
    DeviceParameter("TF1", "feedback time", "s", "none", 1.0, 0.3, 1.5, 1.0, IEEE_421),
    DeviceParameter("KF1", "feedback gain", "p.u.", "none", 0.03, 0.01, 0.1, 0.05, IEEE_421),
    DeviceParameter("KA", "regulator gain", "p.u.", "none", 40.0, 20.0, 400.0, 40.0, IEEE_421),
    DeviceParameter("KE", "exciter constant", "p.u.", "none", 1.0, -0.2, 1.0, 1.0, IEEE_421),
    DeviceParameter(
        "VRMAX", "upper limit of the regulator", "p.u.", "none", 7.3, 1.0, 10, 7.3, PSSE
    ),
    DeviceParameter("VRMIN", "lower limit", "p.u.", "none", -7.3, -10.0, 0.0, -7.3, PSSE),
    DeviceParameter(
        "E1", "first point of saturation", "p.u.", "none", 0.0, 1.5, 6.0, 3.1, IEEE_421
    ),
    DeviceParameter("SE1", "saturation there", "", "none", 0.0, 0.0, 0.5, 0.33, IEEE_421),
    DeviceParameter(
        "E2", "second point of saturation", "p.u.", "none", 1.0, 1.5, 6.0, 2.3, IEEE_421
    ),
    DeviceParameter("SE2", "saturation there", "", "none", 1.0, 0.0, 1.0, 0.1, IEEE_421),
)
_DC_SHAPE = ("TR", "TA", "TB", "TF1")

EXDC2 = Device("EXDC2", "exciter", "DC exciter, type DC2", _DC, exdc2, _DC_SHAPE)
IEEEX1 = Device("IEEEX1", "exciter", "DC exciter, IEEE type 1", _DC, ieeex1, _DC_SHAPE)
SEXS = Device(
    "SEXS",
    "exciter",
    "simplified exciter",
    (
        DeviceParameter("TATB", "lead over lag time", "", "none", 0.4, 0.02, 1.0, 0.1, PSSE),
        DeviceParameter("TB", "lag time", "s", "none", 5.0, 0.0, 20.0, 10.0, PSSE),
        DeviceParameter("K", "gain", "p.u.", "none", 20.0, 20.0, 500.0, 100.0, PSSE),
        DeviceParameter("TE", "time", "s", "none", 1.0, 0.005, 0.5, 0.05, PSSE),
        DeviceParameter("EMIN", "lower limit", "p.u.", "none", -99.0, -5.0, 0.0, -4.0, PSSE),
        DeviceParameter("EMAX", "upper limit", "p.u.", "none", 99.0, 3.0, 6.0, 5.0, PSSE),
    ),
    sexs,
    ("TB", "TE"),
)
EXST1 = Device(
    "EXST1",
    "exciter",
    "static exciter, type ST1",
    (
        _TR,
        DeviceParameter(
            "VIMAX", "upper limit of the error", "p.u.", "none", 0.2, 0.1, 99, 0.2, PSSE
        ),
        DeviceParameter("VIMIN", "lower limit of it", "p.u.", "none", 0.0, -99.0, 0.0, -0.2, PSSE),
        _TC,
        _TB,
        DeviceParameter("KA", "gain", "p.u.", "none", 80.0, 25.0, 500.0, 200.0, KUNDUR),
        _TA,
        DeviceParameter("VRMAX", "upper limit", "p.u.", "none", 8.0, 3.0, 10.0, 7.0, IEEE_421),
        DeviceParameter("VRMIN", "lower limit", "p.u.", "none", -3.0, -10.0, 0.0, -6.4, IEEE_421),
        DeviceParameter(
            "KC", "drop by field current", "p.u.", "none", 0.2, 0.0, 0.3, 0.04, IEEE_421
        ),
        DeviceParameter("KF", "feedback gain", "p.u.", "none", 0.1, 0.0, 0.1, 0.0, IEEE_421),
        DeviceParameter("TF", "feedback time", "s", "none", 1.0, 0.3, 1.5, 1.0, IEEE_421),
    ),
    exst1,
    ("TR", "TB", "TF"),
)
_BY_NAME = {parameter.name: parameter for parameter in _DC}
_ES = (
    *(
        _BY_NAME[name]
        for name in ("TR", "TA", "TC", "TB", "TE", "TF1", "KA", "KE", "VRMAX", "VRMIN")
    ),
    DeviceParameter("KF", "feedback gain", "p.u.", "none", 0.1, 0.01, 0.1, 0.05, IEEE_421),
    *(_BY_NAME[name] for name in ("E1", "SE1", "E2", "SE2")),
)
ESDC1A = Device("ESDC1A", "exciter", "DC exciter, type DC1A", _ES, esdc1a, _DC_SHAPE)
ESDC2A = Device("ESDC2A", "exciter", "DC exciter, type DC2A", _ES, esdc2a, _DC_SHAPE)
IEEET1 = Device(
    "IEEET1",
    "exciter",
    "DC exciter, IEEE type 1 of 1968",
    (
        *(parameter for parameter in _ES if parameter.name not in ("TC", "TB", "TF1")),
        DeviceParameter("TF", "feedback time", "s", "none", 1.0, 0.3, 1.5, 1.0, IEEE_421),
    ),
    ieeet1,
    ("TR", "TA", "TF"),
)
ESST3A = Device(
    "ESST3A",
    "exciter",
    "compound-source static exciter",
    (
        _TR,
        DeviceParameter(
            "VIMAX", "upper limit of the error", "p.u.", "none", 0.8, 0.1, 99, 0.2, PSSE
        ),
        DeviceParameter("VIMIN", "lower limit of it", "p.u.", "none", -0.1, -99, 0.0, -0.2, PSSE),
        DeviceParameter("KM", "inner gain", "p.u.", "none", 500.0, 1.0, 500.0, 7.9, IEEE_421),
        DeviceParameter("TC", "lead time", "s", "none", 3.0, 0.0, 10.0, 1.0, IEEE_421),
        DeviceParameter("TB", "lag time", "s", "none", 15.0, 0.0, 20.0, 10.0, IEEE_421),
        DeviceParameter("KA", "gain", "p.u.", "none", 50.0, 25.0, 500.0, 200.0, IEEE_421),
        DeviceParameter("TA", "regulator time", "s", "none", 0.1, 0.0, 0.2, 0.0, IEEE_421),
        DeviceParameter("VRMAX", "upper limit", "p.u.", "none", 8.0, 1.0, 99.0, 10.0, IEEE_421),
        DeviceParameter("VRMIN", "lower limit", "p.u.", "none", 0.0, -99.0, 0.0, -10.0, IEEE_421),
        DeviceParameter("KG", "feedback gain", "p.u.", "none", 1.0, 0.0, 1.1, 1.0, IEEE_421),
        DeviceParameter("KP", "source by voltage", "p.u.", "none", 4.0, 1.0, 10.0, 6.15, IEEE_421),
        DeviceParameter("KI", "source by current", "p.u.", "impedance", 0.1, 0, 5, 0, IEEE_421),
        DeviceParameter("VBMAX", "upper limit of it", "p.u.", "none", 18, 3, 20, 6.9, IEEE_421),
        DeviceParameter("KC", "rectifier drop", "p.u.", "none", 0.1, 0.0, 1.5, 0.2, IEEE_421),
        DeviceParameter(
            "XL", "source reactance", "p.u.", "impedance", 0.01, 0, 0.5, 0.08, IEEE_421
        ),
        DeviceParameter("VGMAX", "limit of the feedback", "p.u.", "none", 4, 2, 99, 5.8, IEEE_421),
        DeviceParameter("THETAP", "source angle", "deg", "none", 0.0, -90, 90, 0.0, IEEE_421),
        DeviceParameter("TM", "inner time", "s", "none", 0.1, 0.01, 0.5, 0.4, IEEE_421),
        DeviceParameter("VMMAX", "upper limit of it", "p.u.", "none", 1.0, 0.5, 99, 1.0, IEEE_421),
        DeviceParameter("VMMIN", "lower limit of it", "p.u.", "none", 0.1, -99, 0.1, 0.0, IEEE_421),
    ),
    esst3a,
    ("TR", "TB", "TA"),
)
EXCITERS = (EXDC2, IEEEX1, SEXS, EXST1, ESDC1A, ESDC2A, IEEET1, ESST3A)
