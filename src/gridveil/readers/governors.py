"""Turbine governors as the model's first-order one: power follows −G ω at the rate T.

A governor with its turbine is a transfer function g(s); the model has the lag G / (1 + s/T). G =
g(0) is the steady gain, and T is such that both agree at s = 1/s, where the lowest frequency after
a step is decided: 1/T = G/g(1) − 1. For a single lag that is its own time constant. A column of
water, (1 − Tw s) / (1 + Tw s/2), counts as a lag of 1.5 Tw, its first moment. Limits and dead bands
are left out. The names are ANDES's; PSS/E's DYR has the same constants in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

SHORTEST_LAG_S = 1e-3  # a lag of 0 would be an infinite rate


@dataclass(frozen=True)
class Response:
    """What a governor does, in p.u. power of its own base / p.u. frequency.

    gain : G.
    at_1 : g at s = 1/s.
    damping : what its turbine adds to D.
    """

    gain: float
    at_1: float
    damping: float = 0.0

    @property
    def rate(self) -> float:
        """T [1/s]; 0 if the governor never acts."""
        lag = self.gain / self.at_1 - 1 if self.at_1 > 0 else inf
        return 1 / max(lag, SHORTEST_LAG_S)


def tgov1(R: float, T1: float, T2: float, T3: float, Dt: float) -> Response:
    """Read TGOV1: valve T1, then (1 + s T2) / (1 + s T3); Dt acts on speed at once, as D does.

    >>> round(tgov1(R=0.05, T1=0.5, T2=6.0, T3=6.0, Dt=0.0).rate, 9)
    2.0
    """
    return Response(1 / R, (1 + T2) * _lags(T1, T3) / R, Dt)


def gast(R: float, T1: float, T2: float, Dt: float) -> Response:
    """Read GAST: valve T1, fuel T2; its temperature limit is left out."""
    return Response(1 / R, _lags(T1, T2) / R, Dt)


def tg2(R: float, T1: float, T2: float) -> Response:
    """Read TG2: (1 + s T1) / (1 + s T2) / R."""
    return Response(1 / R, (1 + T1) * _lags(T2) / R)


def ieeeg1(
    K: float,
    T1: float,
    T2: float,
    T3: float,
    T4: float,
    T5: float,
    T6: float,
    T7: float,
    shares: tuple[float, ...],
) -> Response:
    """Read one machine of an IEEEG1: K (1 + s T2) / (1 + s T1), servo T3, then shares of the steam
    after T4, T5, T6 and T7.
    """
    stages = [K * (1 + T2) * _lags(T1, T3, T4)]
    for lag in (T5, T6, T7):
        stages.append(stages[-1] * _lags(lag))
    return Response(
        K * sum(shares), sum(share * stage for share, stage in zip(shares, stages, strict=True))
    )


def ieesgo(
    K1: float,
    K2: float,
    K3: float,
    T1: float,
    T2: float,
    T3: float,
    T4: float,
    T5: float,
    T6: float,
) -> Response:
    """Read IEESGO: K1 (1 + s T2) / ((1 + s T1) (1 + s T3)), then steam after T4, T5 and T6 in
    shares by K2 and K3.
    """
    steam = 1 - K2 + K2 * (1 - K3) * _lags(T5) + K2 * K3 * _lags(T5, T6)
    return Response(K1, K1 * (1 + T2) * _lags(T1, T3, T4) * steam)


def hygov(R: float, r: float, Tr: float, Tf: float, Tg: float, Tw: float, At: float) -> Response:
    """Read HYGOV: droop R with temporary droop r by a dashpot Tr and filter Tf, servo Tg, water Tw,
    turbine At.
    """
    return Response(At / R, At / (R + r * Tr * (1 + Tf) / (1 + Tr)) * _lags(Tg, 1.5 * Tw))


def hygov4(
    Rperm: float, Rtemp: float, Tr: float, Tp: float, Tg: float, Tw: float, At: float, Hdam: float
) -> Response:
    """Read HYGOV4: as HYGOV, with pilot Tp and servo Tg inside the droop's loop and a head Hdam."""
    turbine = At * Hdam**1.5
    return Response(
        turbine / Rperm, turbine / (Rperm + Rtemp * Tr / (1 + Tr) + Tg * (1 + Tp)) * _lags(1.5 * Tw)
    )


def ieeeg2(K: float, T1: float, T2: float, T3: float, T4: float) -> Response:
    """Read IEEEG2: K (1 + s T2) / ((1 + s T1) (1 + s T3)), then water T4."""
    return Response(K, K * (1 + T2) * _lags(T1, T3, 1.5 * T4))


def ieeeg3(
    TG: float,
    TP: float,
    sigma: float,
    delta: float,
    TR: float,
    TW: float,
    a13: float,
    a21: float,
    a23: float,
) -> Response:
    """Read IEEEG3: pilot TP and servo TG in a loop of droop σ and temporary droop δ, then water TW
    by the turbine's a.
    """
    gate = TG * (1 + TP) + sigma + delta * TR / (1 + TR)
    return Response(a23 / sigma, a23 / gate * _lags(a13 * a21 * TW / a23 if a23 else 0.0))


def ggov1(
    R: float, on_electric_power: bool, Tpelec: float, Kpgov: float, Kigov: float, Kdgov: float,
    Tdgov: float, Tact: float, Kturb: float, Tb: float, Tc: float, Teng: float,
) -> Response:  # fmt: skip
    """Read GGOV1: a PID with droop R on electric power (around the turbine) or on its own output,
    then the turbine.
    """
    control = Kpgov + Kigov + Kdgov * _lags(Tdgov)
    turbine = Kturb * (1 + Tc) * _lags(Tact, Tb, Teng)
    if on_electric_power:
        steady = 1 / R if Kigov > 0 else Kpgov * Kturb / (1 + R * Kpgov * Kturb)
        return Response(steady, control * turbine / (1 + R * control * turbine * _lags(Tpelec)))
    steady = Kturb / R if Kigov > 0 else Kturb * Kpgov / (1 + R * Kpgov)
    return Response(steady, turbine * control / (1 + R * control))


@dataclass(frozen=True)
class Governor:
    """A governor's model.

    droop : the parameter that must lie above 0, if any.
    respond : takes all others by name too.
    """

    respond: Callable[..., Response]
    droop: str | None = None


# The models of ANDES; PSS/E has three more, IEEEG2, IEEEG3 and GGOV1.
GOVERNORS: Mapping[str, Governor] = {
    **dict.fromkeys(("TGOV1", "TGOV1N", "TGOV1DB", "TGOV1NDB"), Governor(tgov1, "R")),
    "GAST": Governor(gast, "R"),
    "TG2": Governor(tg2, "R"),
    "IEEEG1": Governor(ieeeg1),
    "IEESGO": Governor(ieesgo),
    **dict.fromkeys(("HYGOV", "HYGOVDB"), Governor(hygov, "R")),
    "HYGOV4": Governor(hygov4, "Rperm"),
}


def _lags(*seconds: float) -> float:
    """1 / ∏ (1 + s T) at s = 1/s."""
    value = 1.0
    for one in seconds:
        value /= 1 + one
    return value
