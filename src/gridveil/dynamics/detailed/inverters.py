"""Inverters: grid-forming by droop or as a virtual machine, and grid-following with a PLL.

In an inverter's frame the phasor is (d + jq) e^{jδ}: d lies along the angle δ of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gridveil.dynamics.detailed.blocks import Diagram
from gridveil.dynamics.detailed.device import Controls, Device, DeviceParameter, Parameters, Phasor
from gridveil.dynamics.detailed.dual import Number, angle, cos, magnitude, real, sin, where

REGFM = "WECC, model specification of droop-controlled grid-forming inverters (REGFM_A1), 2023"
EPRI = "EPRI, generic grid-forming positive-sequence models, 2021"
REGC = "WECC, generic renewable generator models (REGC_A), 2014"
VSM = "D'Arco and Suul, Virtual synchronous machines, PowerTech 2013"


def _turn(phasor: Phasor, delta: Number) -> Phasor:
    """Phasor · e^{jδ}."""
    re, im = phasor
    return re * cos(delta) - im * sin(delta), re * sin(delta) + im * cos(delta)


def _powers(v: Phasor, i: Phasor) -> tuple[Number, Number]:
    """P and Q of V conj(I)."""
    return v[0] * i[0] + v[1] * i[1], v[1] * i[0] - v[0] * i[1]


def _through(drop: Phasor, r: Any, x: Any) -> Phasor:
    """Current drop / (r + jx)."""
    scale = 1 / (r * r + x * x)
    return (drop[0] * r + drop[1] * x) * scale, (drop[1] * r - drop[0] * x) * scale


def _pi(d: Diagram, name: str, u: Number, kp: Any, ki: Any, guess: Number) -> Number:
    """U (k_p + k_i / s)."""
    x = d.state(name, guess)
    d.rate(name, u * ki)
    return u * kp + x


def _guess(d: Diagram, voltage: Phasor) -> tuple[Any, Any, Any]:
    """Angle of the terminals and current along it, (i_d, i_q), of the scheduled power."""
    v = magnitude((real(voltage[0]), real(voltage[1])))
    P, Q = (np.real(part) for part in d.power)
    return angle((real(voltage[0]), real(voltage[1]))), P / v, -Q / v


@dataclass(frozen=True, eq=False)
class _Loops:
    """Voltage control over current control, each by PI in d and q, to the voltage behind a filter.

    voltage_gains, current_gains : (k_p, k_i) of d, then of q.
    r, x : of the filter; time : of the bridge.
    """

    voltage_gains: tuple[Any, Any, Any, Any]
    current_gains: tuple[Any, Any, Any, Any]
    r: Any
    x: Any
    time: Any

    def internal(self, d: Diagram, v: Phasor, guess: tuple[Any, Any]) -> Phasor:
        """The voltage behind the filter, two states."""
        i_d, i_q = guess
        start_d = magnitude((real(v[0]), real(v[1]))) + self.r * i_d - self.x * i_q
        return (
            d.state("ud", np.real(start_d)),
            d.state("uq", np.real(self.r * i_q + self.x * i_d)),
        )

    def currents(
        self, d: Diagram, v: Phasor, i: Phasor, wanted: Number, guess: tuple[Any, Any]
    ) -> tuple[Phasor, Phasor]:
        """Wanted current, and what the current control adds to it; wanted : |V|."""
        a, b = self.voltage_gains, self.current_gains
        i_d = _pi(d, "PIvd", wanted - v[0], a[0], a[1], guess[0])
        i_q = _pi(d, "PIvq", -v[1], a[2], a[3], guess[1])
        u_d = _pi(d, "PIId", i_d - i[0], b[0], b[1], 0.0 * guess[0])
        u_q = _pi(d, "PIIq", i_q - i[1], b[2], b[3], 0.0 * guess[1])
        return (i_d, i_q), (u_d, u_q)

    def close(self, d: Diagram, internal: Phasor, v: Phasor, drop: Phasor, added: Phasor) -> None:
        """Lag of the bridge, to terminal voltage, drop over the filter, and the control's part."""
        d.rate("ud", (v[0] + drop[0] + added[0] - internal[0]) / self.time)
        d.rate("uq", (v[1] + drop[1] + added[1] - internal[1]) / self.time)


def regcv1(d: Diagram, p: Parameters, voltage: Phasor, _: Controls) -> Phasor:
    """A virtual machine over voltage and current control: M ẇ = P_ref − P − (k_w + D) w.

    Gains are filed for an error "measured less wanted", in both loops.
    """
    start, *current = _guess(d, voltage)
    delta = d.state("delta", start, angle=True)
    slip = d.state("omega", 0.0 * start)
    v = _turn(voltage, -delta)
    loops = _Loops(
        (-p.Kpvd, -p.Kivd, -p.Kpvq, -p.Kivq), (-p.KpId, -p.KiId, -p.KpIq, -p.KiIq),
        p.ra, p.xs, p.Tc,
    )  # fmt: skip
    internal = loops.internal(d, v, (current[0], current[1]))
    i = _through((internal[0] - v[0], internal[1] - v[1]), p.ra, p.xs)
    active, reactive = _powers(v, i)
    d.rate("delta", d.omega_b * slip)
    d.rate("omega", (d.reference("pref", d.power[0]) - (p.kw + p.D) * slip - active) / p.M)
    wanted = d.reference("vref", 1.0 + 0.0 * start) - p.kv * reactive
    (i_d, i_q), added = loops.currents(d, v, i, wanted, (current[0], current[1]))
    loops.close(d, internal, v, (-i_q * p.xs, i_d * p.xs), added)
    return _turn(i, delta)


def regf1(d: Diagram, p: Parameters, voltage: Phasor, _: Controls) -> Phasor:
    """Droop of frequency by P and of voltage by Q, with limiting PIs, over double control.

    A limiting PI integrates P_lim − P, where T ṗ_lim = P − P_lim; so its integral is −k_i T P_lim
    and a constant, which is the reference.
    """
    start, *current = _guess(d, voltage)
    delta = d.state("delta", start, angle=True)
    v = _turn(voltage, -delta)
    loops = _Loops((p.KPv, p.KIv, p.KPv, p.KIv), (p.KPi, p.KIi, p.KPi, p.KIi), p.rf, p.xf, p.Te)
    internal = loops.internal(d, v, (current[0], current[1]))
    i = _through((internal[0] - v[0], internal[1] - v[1]), p.rf, p.xf)
    active, reactive = _powers(v, i)
    P, Q = d.lag("Psen", active, p.Tr), d.lag("Qsen", reactive, p.Tr)
    P_lim = d.limited("P", d.lag("Psig", P, p.Tpm), p.Pmin, p.Pmax)
    Q_lim = d.limited("Q", d.lag("Qsig", Q, p.Tpm), p.Qmin, p.Qmax)
    P_set = d.reference("pref", d.power[0]) - p.KIplim * p.Tpm * P_lim + p.KPplim * (P_lim - P)
    Q_set = p.KPqlim * (Q_lim - Q) - p.KIqlim * p.Tpm * Q_lim
    d.rate("delta", d.omega_b * p.wdrp * (P_set - P))
    wanted = d.reference("vref", 1.0 + 0.0 * start) + p.Qdrp * (Q_set - Q)
    added = loops.currents(d, v, i, wanted, (current[0], current[1]))[1]
    drop = (i[0] * p.rf - i[1] * p.xf, i[1] * p.rf + i[0] * p.xf)
    loops.close(d, internal, v, drop, added)
    return _turn(i, delta)


def regfm_a1(d: Diagram, p: Parameters, voltage: Phasor, _: Controls) -> Phasor:
    """A voltage behind r + jX_L: frequency by droop of P, |E| by a PI of V_ref − V − m_q Q."""
    start, i_d, i_q = _guess(d, voltage)
    v0 = magnitude((real(voltage[0]), real(voltage[1])))
    along, across = v0 + np.real(p.Re * i_d - p.XL * i_q), np.real(p.XL * i_d + p.Re * i_q)
    delta = d.state("delta", start + np.arctan2(across, along), angle=True)
    v = _turn(voltage, -delta)
    integral = d.state("E", np.hypot(along, across))
    sensed = d.lag("V", magnitude(voltage), p.TVf)
    # P and Q follow from the current, the current from E: where Q has no lag, E is in a loop
    Q = d.state("Q", np.real(d.power[1]))
    error = d.reference("vref", 1.0 + 0.0 * start) - sensed - p.mq * Q
    d.rate("E", error * p.kiv)
    E = d.limited("EMF", integral + error * p.kpv, p.Emin, p.Emax)
    i = _through((E - v[0], -v[1]), p.Re, p.XL)
    active, reactive = _powers(v, i)
    d.rate("Q", (reactive - Q) / p.TQf)
    P = d.limited("P", d.lag("P", active, p.TPf), p.Pmin, p.Pmax)
    d.rate("delta", d.omega_b * p.mp * (d.reference("pref", d.power[0]) - P))
    return _turn(i, delta)


def regca1(d: Diagram, p: Parameters, voltage: Phasor, _: Controls) -> Phasor:
    """Active and reactive current in the frame of the terminal voltage itself."""
    v = magnitude(voltage)
    along, across = _following(d, p, v)
    vr, vi = voltage
    return (along * vr + across * vi) / v, (along * vi - across * vr) / v


def regcp1(d: Diagram, p: Parameters, voltage: Phasor, _: Controls) -> Phasor:
    """The same in the frame of a PLL: a PI of the angle's error, between two lags."""
    start = _guess(d, voltage)[0]
    sensed = d.state("af", start, angle=True)
    estimate = d.state("ae", start, angle=True)
    locked = d.state("am", start, angle=True)
    d.rate("af", (angle(voltage) - sensed) / p.Tf)
    d.rate("ae", d.omega_b * _pi(d, "PI", sensed - locked, p.Kp, p.Ki, 0.0 * start))
    d.rate("am", (estimate - locked) / p.Tp)
    along, across = _following(d, p, magnitude(voltage))
    return _turn((along, -across), locked)


def _following(d: Diagram, p: Parameters, v: Number) -> tuple[Number, Number]:
    """Active and reactive current behind a lag, managed at low and at high voltage."""
    P, Q = (np.real(part) for part in d.power)
    v0 = real(v)
    active = d.lag("S0", d.reference("Ipcmd", P / v0), p.Tg)
    reactive = d.lag("S1", d.reference("Iqcmd", Q / v0), p.Tg)
    ramp = (v - p.Lvpnt0) / (p.Lvpnt1 - p.Lvpnt0)
    share = where(v0 >= p.Lvpnt1, 1.0, where(v0 <= p.Lvpnt0, 0.0, ramp))
    over = where(v0 > p.Volim, (v - p.Volim) * p.Khv, 0.0)
    return active * share, d.limited("IQ", reactive - over, p.Iolim, np.inf)


_POWER = "p.u. power / p.u. frequency"
REGCV1 = Device(
    "REGCV1",
    "inverter",
    "virtual synchronous machine",
    (
        DeviceParameter("Tc", "bridge time", "s", "none", 0.01, 0.001, 0.05, 0.01, VSM),
        DeviceParameter("kw", "droop gain", _POWER, "power", 0.0, 0.0, 50.0, 20.0, VSM),
        DeviceParameter("kv", "droop of voltage", "p.u.", "droop", 0.0, 0.0, 0.1, 0.02, VSM),
        DeviceParameter("M", "virtual inertia", "s", "power", 10.0, 0.5, 20.0, 4.0, VSM),
        DeviceParameter("D", "virtual damping", _POWER, "power", 0.0, 0.0, 100.0, 20.0, VSM),
        DeviceParameter("ra", "filter resistance", "p.u.", "impedance", 0.0, 0, 0.02, 0.003, VSM),
        DeviceParameter("xs", "filter reactance", "p.u.", "impedance", 0.2, 0.04, 0.4, 0.15, VSM),
        DeviceParameter("Kpvd", "voltage gain, d", "p.u.", "power", 0.5, -5, 5, 0.5, VSM),
        DeviceParameter("Kivd", "its integral", "1/s", "power", 0.02, -100, 100, 0.02, VSM),
        DeviceParameter("Kpvq", "voltage gain, q", "p.u.", "power", 0.5, -5, 5, 0.5, VSM),
        DeviceParameter("Kivq", "its integral", "1/s", "power", 0.02, -100, 100, 0.02, VSM),
        DeviceParameter("KpId", "current gain, d", "p.u.", "impedance", 0.2, -5, 5, 0.2, VSM),
        DeviceParameter("KiId", "its integral", "1/s", "impedance", 0.01, -100, 100, 0.01, VSM),
        DeviceParameter("KpIq", "current gain, q", "p.u.", "impedance", 0.2, -5, 5, 0.2, VSM),
        DeviceParameter("KiIq", "its integral", "1/s", "impedance", 0.01, -100, 100, 0.01, VSM),
    ),
    regcv1,
)
REGF1 = Device(
    "REGF1",
    "inverter",
    "grid-forming inverter with droop, double control",
    (
        DeviceParameter("rf", "filter resistance", "p.u.", "impedance", 0.0, 0, 0.02, 0.003, EPRI),
        DeviceParameter("xf", "filter reactance", "p.u.", "impedance", 0.2, 0.04, 0.4, 0.15, EPRI),
        DeviceParameter("wdrp", "droop", "p.u.", "droop", 0.033, 0.01, 0.05, 0.033, EPRI),
        DeviceParameter("Qdrp", "droop of voltage", "p.u.", "droop", 0.045, 0, 0.1, 0.045, EPRI),
        DeviceParameter("Tr", "sensing time", "s", "none", 0.005, 0.002, 0.05, 0.005, EPRI),
        DeviceParameter("Te", "bridge time", "s", "none", 0.005, 0.001, 0.02, 0.005, EPRI),
        DeviceParameter("KPi", "current gain", "p.u.", "impedance", 0.5, 0.1, 2.0, 0.5, EPRI),
        DeviceParameter("KIi", "its integral", "1/s", "impedance", 20.0, 1.0, 100.0, 20.0, EPRI),
        DeviceParameter("KPv", "voltage gain", "p.u.", "power", 3.0, 0.1, 5.0, 3.0, EPRI),
        DeviceParameter("KIv", "its integral", "1/s", "power", 10.0, 1.0, 100.0, 10.0, EPRI),
        DeviceParameter("Pmax", "upper limit of P", "p.u.", "power", 1.0, 0.8, 1.2, 1.0, EPRI),
        DeviceParameter("Pmin", "lower limit of P", "p.u.", "power", -1.0, -1.2, 0.0, -1.0, EPRI),
        DeviceParameter("KPplim", "gain of its limiter", "", "none", 5.0, 0.01, 10, 5.0, EPRI),
        DeviceParameter("KIplim", "its integral", "1/s", "none", 30.0, 1.0, 60.0, 30.0, EPRI),
        DeviceParameter("Qmax", "upper limit of Q", "p.u.", "power", 1.0, 0.3, 1.2, 1.0, EPRI),
        DeviceParameter("Qmin", "lower limit of Q", "p.u.", "power", -1.0, -1.2, 0, -1.0, EPRI),
        DeviceParameter("KPqlim", "gain of its limiter", "", "none", 0.1, 0.01, 5.0, 0.1, EPRI),
        DeviceParameter("KIqlim", "its integral", "1/s", "none", 1.5, 0.1, 50.0, 1.5, EPRI),
        DeviceParameter("Tpm", "limiter time", "s", "none", 0.025, 0.005, 0.1, 0.025, EPRI),
    ),
    regf1,
    ("Tr", "Tpm"),
)
REGFM_A1 = Device(
    "REGFM_A1",
    "inverter",
    "grid-forming inverter with droop",
    (
        DeviceParameter(
            "XL", "coupling reactance", "p.u.", "impedance", 0.15, 0.04, 0.4, 0.15, REGFM
        ),
        DeviceParameter("Re", "coupling resistance", "p.u.", "impedance", 0, 0, 0.05, 0.0, REGFM),
        DeviceParameter("mp", "droop", "p.u.", "droop", 0.01, 0.005, 0.05, 0.01, REGFM),
        DeviceParameter("mq", "droop of voltage", "p.u.", "droop", 0.05, 0.0, 0.2, 0.05, REGFM),
        DeviceParameter("kpv", "voltage gain", "p.u.", "none", 0.0, 0.0, 5.0, 0.0, REGFM),
        DeviceParameter("kiv", "its integral", "1/s", "none", 5.86, 0.5, 20.0, 5.86, REGFM),
        DeviceParameter("TPf", "time of P", "s", "none", 0.01, 0.005, 0.1, 0.01, REGFM),
        DeviceParameter("TQf", "time of Q", "s", "none", 0.01, 0.005, 0.1, 0.01, REGFM),
        DeviceParameter("TVf", "time of V", "s", "none", 0.01, 0.0, 0.1, 0.01, REGFM),
        DeviceParameter("Emax", "upper limit of E", "p.u.", "none", 2.0, 1.1, 2.0, 1.15, REGFM),
        DeviceParameter("Emin", "lower limit of E", "p.u.", "none", 0.0, 0.0, 0.5, 0.0, REGFM),
        DeviceParameter("Pmax", "upper limit of P", "p.u.", "power", 1.0, 0.8, 1.2, 1.0, REGFM),
        DeviceParameter("Pmin", "lower limit of P", "p.u.", "power", 0.0, -1.0, 0.0, 0.0, REGFM),
    ),
    regfm_a1,
    ("TPf", "TVf"),
)
_REGC = (
    DeviceParameter("Tg", "current time", "s", "none", 0.1, 0.01, 0.1, 0.02, REGC),
    DeviceParameter(
        "Lvpnt1", "full active current from", "p.u.", "none", 0.8, 0.5, 0.95, 0.8, REGC
    ),
    DeviceParameter("Lvpnt0", "no active current to", "p.u.", "none", 0.4, 0.0, 0.5, 0.4, REGC),
    DeviceParameter("Volim", "high voltage", "p.u.", "none", 1.2, 1.1, 1.3, 1.2, REGC),
    DeviceParameter("Khv", "gain above it", "p.u.", "power", 0.7, 0.0, 2.0, 0.7, REGC),
    DeviceParameter("Iolim", "lower limit of reactive", "p.u.", "power", -1.5, -2, -1, -1.3, REGC),
)
_PLL = (
    DeviceParameter("Kp", "gain of the PLL", "1", "none", 0.1, 0.01, 1.0, 0.1, REGC),
    DeviceParameter("Ki", "its integral", "1/s", "none", 0.1, 0.01, 10.0, 0.1, REGC),
    DeviceParameter("Tf", "time before it", "s", "none", 0.05, 0.005, 0.1, 0.02, REGC),
    DeviceParameter("Tp", "time after it", "s", "none", 0.05, 0.005, 0.1, 0.02, REGC),
)
REGCA1 = Device("REGCA1", "inverter", "grid-following inverter", _REGC, regca1, ("Tg",))
REGCP1 = Device(
    "REGCP1", "inverter", "grid-following inverter with a PLL", (*_REGC, *_PLL), regcp1, ("Tg",)
)
INVERTERS = (REGCV1, REGF1, REGFM_A1, REGCA1, REGCP1)
