"""Synchronous machines: classical and round-rotor.

Quantities in the rotor's frame: d lags q by 90°, v_d = |V| sin(δ − θ), v_q = |V| cos(δ − θ).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gridveil.dynamics.detailed.blocks import Diagram
from gridveil.dynamics.detailed.device import (
    ANDERSON,
    KUNDUR,
    PSSE,
    Controls,
    Device,
    DeviceParameter,
    Parameters,
    Phasor,
    Signals,
)
from gridveil.dynamics.detailed.dual import Number, cos, magnitude, real, sin
from gridveil.dynamics.detailed.saturation import quadratic


def _to_rotor(phasor: Phasor, delta: Number) -> Phasor:
    """(d, q) of a phasor: (re sin δ − im cos δ, re cos δ + im sin δ)."""
    re, im = phasor
    return re * sin(delta) - im * cos(delta), re * cos(delta) + im * sin(delta)


def _to_network(d: Number, q: Number, delta: Number) -> Phasor:
    """(re, im) of d and q: (d sin δ + q cos δ, q sin δ − d cos δ)."""
    return d * sin(delta) + q * cos(delta), q * sin(delta) - d * cos(delta)


def _current(diagram: Diagram, voltage: Phasor) -> tuple[Any, Any]:
    """The current of the scheduled power, for a guess: conj((P + jQ) / V)."""
    vr, vi = real(voltage[0]), real(voltage[1])
    P, Q = (np.real(part) for part in diagram.power)
    square = vr * vr + vi * vi
    return (P * vr + Q * vi) / square, (P * vi - Q * vr) / square


def _behind(voltage: Phasor, current: tuple[Any, Any], r: Any, x: Any) -> tuple[Any, Any]:
    """V + (r + jx) I, for a guess."""
    (vr, vi), (ir, ii) = voltage, current
    r, x = np.real(r), np.real(x)
    return real(vr) + r * ir - x * ii, real(vi) + r * ii + x * ir


def _swing(d: Diagram, guess: Any) -> tuple[Number, Number]:
    """δ and ω of a shaft: δ̇ = ω_b (ω − 1)."""
    delta, omega = d.state("delta", guess, angle=True), d.state("omega", np.ones_like(guess))
    d.rate("delta", d.omega_b * (omega - 1.0))
    return delta, omega


def _accelerate(d: Diagram, p: Parameters, omega: Number, mechanical: Number, air: Number) -> None:
    """M ω̇ = P_m − P_e − D (ω − 1)."""
    d.rate("omega", (mechanical - air - p.D * (omega - 1.0)) / p.M)


def _stator(
    p: Parameters, voltage: Phasor, emf: Phasor, xd: Any, xq: Any
) -> tuple[Number, Number, Number]:
    """Solve v_d + r_a i_d = e_d + x_q i_q and v_q + r_a i_q = e_q − x_d i_d; i_d, i_q and P_e."""
    vd, vq = voltage
    over_d, over_q = emf[0] - vd, emf[1] - vq
    scale = 1 / (p.ra * p.ra + xd * xq)
    i_d = (over_d * p.ra + over_q * xq) * scale
    i_q = (over_q * p.ra - over_d * xd) * scale
    return i_d, i_q, (vd + p.ra * i_d) * i_d + (vq + p.ra * i_q) * i_q


def gencls(d: Diagram, p: Parameters, voltage: Phasor, controls: Controls) -> Phasor:
    """A constant voltage E' = v_f behind r_a + jx'_d."""
    er, ei = _behind(voltage, _current(d, voltage), p.ra, p.xd1)
    delta, omega = _swing(d, np.arctan2(ei, er))
    field = d.reference("vf", np.hypot(er, ei))
    i_d, i_q, air = _stator(p, _to_rotor(voltage, delta), (0.0, field), p.xd1, p.xd1)
    current = _to_network(i_d, i_q, delta)
    signals = Signals(omega, magnitude(voltage), air, field, voltage, current)
    _accelerate(d, p, omega, controls.mechanical(signals), air)
    return current


def genrou(d: Diagram, p: Parameters, voltage: Phasor, controls: Controls) -> Phasor:
    """Field and one damper winding on d, two damper windings on q; saturation by air-gap flux."""
    er, ei = _behind(voltage, _current(d, voltage), p.ra, p.xq)
    guess = np.arctan2(ei, er)
    delta, omega = _swing(d, guess)
    v_dq = _to_rotor(voltage, delta)

    # guesses without saturation
    i_d0, i_q0 = _to_rotor(_current(d, voltage), guess)
    vd0, vq0 = _to_rotor((real(voltage[0]), real(voltage[1])), guess)
    e_q = d.state("e1q", np.real(vq0 + p.ra * i_q0 + p.xd1 * i_d0))
    e_d = d.state("e1d", np.real(vd0 + p.ra * i_d0 - p.xq1 * i_q0))
    psi_d = d.state("e2d", np.real(vq0 + p.ra * i_q0 + p.xl * i_d0))
    psi_q = d.state("e2q", np.real(vd0 + p.ra * i_d0 - p.xl * i_q0))

    d1, q1 = (p.xd2 - p.xl) / (p.xd1 - p.xl), (p.xq2 - p.xl) / (p.xq1 - p.xl)
    d2 = (p.xd1 - p.xd2) / (p.xd1 - p.xl) ** 2
    q2 = (p.xq1 - p.xq2) / (p.xq1 - p.xl) ** 2
    air_d = e_q * d1 + psi_d * (1 - d1)
    air_q = e_d * q1 + psi_q * (1 - q1)
    i_d, i_q, air = _stator(p, v_dq, (air_q, air_d), p.xd2, p.xq2)

    flux = magnitude((air_d, air_q))
    saturation = quadratic(flux, (1.0, p.S10), (1.2, p.S12)) / flux
    field = e_q + (p.xd - p.xd1) * (d1 * i_d + d2 * (e_q - psi_d)) + saturation * air_d
    damper = (
        e_d
        + (p.xq - p.xq1) * (q2 * (e_d - psi_q) - q1 * i_q)
        + saturation * air_q * ((p.xq - p.xl) / (p.xd - p.xl))
    )
    current = _to_network(i_d, i_q, delta)
    signals = Signals(omega, magnitude(voltage), air, field, voltage, current)
    mechanical = controls.mechanical(signals)
    d.rate("e1q", (controls.field(signals, mechanical) - field) / p.Td10)
    d.rate("e1d", -damper / p.Tq10)
    d.rate("e2d", (e_q - psi_d - (p.xd1 - p.xl) * i_d) / p.Td20)
    d.rate("e2q", (e_d - psi_q + (p.xq1 - p.xl) * i_q) / p.Tq20)
    _accelerate(d, p, omega, mechanical, air)
    return current


def gensal(d: Diagram, p: Parameters, voltage: Phasor, controls: Controls) -> Phasor:
    """A salient-pole machine: field and a damper winding on d, one on q; saturation by e'_q."""
    er, ei = _behind(voltage, _current(d, voltage), p.ra, p.xq)
    guess = np.arctan2(ei, er)
    delta, omega = _swing(d, guess)
    i_d0, i_q0 = _to_rotor(_current(d, voltage), guess)
    vq0 = _to_rotor((real(voltage[0]), real(voltage[1])), guess)[1]
    e_q = d.state("e1q", np.real(vq0 + p.ra * i_q0 + p.xd1 * i_d0))
    psi_d = d.state("e2d", np.real(vq0 + p.ra * i_q0 + p.xl * i_d0))
    air_q = d.state("e2q", np.real((p.xq - p.xq2) * i_q0))

    d1 = (p.xd2 - p.xl) / (p.xd1 - p.xl)
    d2 = (p.xd1 - p.xd2) / (p.xd1 - p.xl) ** 2
    air_d = e_q * d1 + psi_d * (1 - d1)
    i_d, i_q, air = _stator(p, _to_rotor(voltage, delta), (air_q, air_d), p.xd2, p.xq2)
    field = (
        e_q
        + (p.xd - p.xd1) * (d1 * i_d + d2 * (e_q - psi_d))
        + quadratic(e_q, (1.0, p.S10), (1.2, p.S12))
    )
    current = _to_network(i_d, i_q, delta)
    signals = Signals(omega, magnitude(voltage), air, field, voltage, current)
    mechanical = controls.mechanical(signals)
    d.rate("e1q", (controls.field(signals, mechanical) - field) / p.Td10)
    d.rate("e2d", (e_q - psi_d - (p.xd1 - p.xl) * i_d) / p.Td20)
    d.rate("e2q", ((p.xq - p.xq2) * i_q - air_q) / p.Tq20)
    _accelerate(d, p, omega, mechanical, air)
    return current


def two_axis(d: Diagram, p: Parameters, voltage: Phasor, controls: Controls) -> Phasor:
    """A field winding on d and a damper winding on q, behind x'_d and x'_q."""
    er, ei = _behind(voltage, _current(d, voltage), p.ra, p.xq)
    guess = np.arctan2(ei, er)
    delta, omega = _swing(d, guess)
    i_d0, i_q0 = _to_rotor(_current(d, voltage), guess)
    vd0, vq0 = _to_rotor((real(voltage[0]), real(voltage[1])), guess)
    e_q = d.state("e1q", np.real(vq0 + p.ra * i_q0 + p.xd1 * i_d0))
    e_d = d.state("e1d", np.real(vd0 + p.ra * i_d0 - p.xq1 * i_q0))
    i_d, i_q, air = _stator(p, _to_rotor(voltage, delta), (e_d, e_q), p.xd1, p.xq1)
    field = e_q + (p.xd - p.xd1) * i_d
    current = _to_network(i_d, i_q, delta)
    signals = Signals(omega, magnitude(voltage), air, field, voltage, current)
    mechanical = controls.mechanical(signals)
    d.rate("e1q", (controls.field(signals, mechanical) - field) / p.Td10)
    d.rate("e1d", ((p.xq - p.xq1) * i_q - e_d) / p.Tq10)
    _accelerate(d, p, omega, mechanical, air)
    return current


_T42 = f"{KUNDUR}, table 4.2"
_SHAFT = (
    DeviceParameter("M", "inertia 2H", "s", "power", 6.0, 4.0, 20.0, 8.0, f"{KUNDUR}, table 3.2"),
    DeviceParameter("D", "damping", "p.u. power / p.u. speed", "power", 0.0, 0.0, 4.0, 0.0, PSSE),
    DeviceParameter("ra", "armature resistance", "p.u.", "impedance", 0.0, 0.0, 0.02, 0.003, _T42),
)
_TRANSIENT = DeviceParameter(
    "xd1", "transient reactance x'd", "p.u.", "impedance", 0.302, 0.12, 0.5, 0.3, _T42
)
_SATURATION = (
    DeviceParameter("S10", "saturation at 1.0", "", "none", 0.0, 0.0, 0.3, 0.1, ANDERSON),
    DeviceParameter("S12", "saturation at 1.2", "", "none", 0.0, 0.0, 1.0, 0.4, ANDERSON),
)

# A machine without damper windings is damped by D alone, where it has any.
_DAMPED = DeviceParameter(
    "D", "damping", "p.u. power / p.u. speed", "power", 0.0, 0.0, 25.0, 2.0, ANDERSON
)

GENCLS = Device(
    "GENCLS",
    "machine",
    "classical machine",
    (*(_DAMPED if own.name == "D" else own for own in _SHAFT), _TRANSIENT),
    gencls,
)
GENROU = Device(
    "GENROU",
    "machine",
    "round-rotor machine",
    (
        *_SHAFT,
        _TRANSIENT,
        DeviceParameter("xl", "leakage reactance", "p.u.", "impedance", 0.0, 0.05, 0.2, 0.15, _T42),
        DeviceParameter(
            "xd", "synchronous reactance xd", "p.u.", "impedance", 1.9, 1.0, 2.3, 1.8, _T42
        ),
        DeviceParameter(
            "xq", "synchronous reactance xq", "p.u.", "impedance", 1.7, 1.0, 2.3, 1.7, _T42
        ),
        DeviceParameter(
            "xq1", "transient reactance x'q", "p.u.", "impedance", 0.5, 0.3, 1.0, 0.55, _T42
        ),
        DeviceParameter(
            "xd2", "subtransient reactance x''d", "p.u.", "impedance", 0.3, 0.1, 0.35, 0.25, _T42
        ),
        DeviceParameter(
            "xq2", "subtransient reactance x''q", "p.u.", "impedance", 0.3, 0.1, 0.35, 0.25, _T42
        ),
        DeviceParameter("Td10", "T'd0", "s", "none", 8.0, 3.0, 10.0, 8.0, _T42),
        DeviceParameter("Tq10", "T'q0", "s", "none", 0.8, 0.3, 2.0, 0.4, _T42),
        DeviceParameter("Td20", "T''d0", "s", "none", 0.04, 0.02, 0.05, 0.03, _T42),
        DeviceParameter("Tq20", "T''q0", "s", "none", 0.02, 0.02, 0.07, 0.05, _T42),
        *_SATURATION,
    ),
    genrou,
)
_ROUND = {parameter.name: parameter for parameter in GENROU.parameters}
GENSAL = Device(
    "GENSAL",
    "machine",
    "salient-pole machine",
    tuple(_ROUND[name] for name in _ROUND if name not in ("xq1", "Tq10")),
    gensal,
)
TWOAXIS = Device(
    "TWOAXIS",
    "machine",
    "two-axis machine",
    tuple(_ROUND[name] for name in ("M", "D", "ra", "xd1", "xd", "xq", "xq1", "Td10", "Tq10")),
    two_axis,
)
MACHINES = (GENCLS, GENROU, GENSAL, TWOAXIS)
