"""Common factors of a detailed case: what one record can tell of a whole grid.

A factor multiplies one quantity of all devices, or of the whole network, alike. Its logarithm has a
public prior N(0, s²): a released value is about right, and a typical one of its class is not far
off. The loads' exponents and the machines' damping are not released: they have priors of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from gridveil.dynamics.detailed.family import Lever, LeverTarget
from gridveil.dynamics.detailed.quantities import FAST_SHARES
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array

Kind = Literal["factor", "share", "damping", "shift"]
Targets = Callable[[DetailedCase], Iterable[LeverTarget]]

# Gains of governors and exciters, by the name of the constant.
GOVERNOR_GAINS = {"R": -1.0, "K": 1.0, "K1": 1.0}
EXCITER_GAINS = {"KA": 1.0, "K": 1.0}
ITEM_INERTIA, ITEM_GAIN = 0.15, 0.25  # s of single units beside the common factor
FURTHEST = log(20.0)  # of a factor's logarithm
MOST_DAMPING = 1.0  # D/M [1/s]


@dataclass(frozen=True)
class Factor:
    """A quantity that is moved in common; x is its coordinate in the fit, 0 where nothing moved.

    kind : "factor", times e^x; "share", a part Φ(x) in 0 to 1, so that x ~ N(0, 1) is a uniform
    share; "damping", D = x M with x ≥ 0 [1/s]; "shift", plus x times the weight of a target.
    spread : s of the prior N(0, s²) of x.
    targets : the columns of a case that it moves; none where the case has no such device.
    """

    name: str
    title: str
    kind: Kind
    spread: float
    targets: Targets

    def value(self, x: Any) -> Any:
        """θ of its lever at x: e^x, Φ(x) or x; a complex step passes through."""
        if self.kind == "factor":
            return np.exp(x)
        if self.kind == "share":
            density = np.exp(-0.5 * np.real(x) ** 2) / np.sqrt(2 * np.pi)
            return ndtr(np.real(x)) + (1j * density * np.imag(x) if np.iscomplexobj(x) else 0.0)
        return x

    @property
    def range(self) -> tuple[float, float]:
        """Where x may lie."""
        if self.kind == "factor":
            return -FURTHEST, FURTHEST
        ends = {"share": (-5.0, 5.0), "damping": (0.0, MOST_DAMPING), "shift": (-inf, inf)}
        return ends[self.kind]


def _network(_: DetailedCase) -> Iterable[LeverTarget]:
    return (LeverTarget("branch", "x"), LeverTarget("branch", "r"))


def _of_role(role: str, weight: Callable[[Any], float]) -> Targets:
    """Columns of devices of one role, each with its weight; those of weight 0 stay."""

    def targets(case: DetailedCase) -> Iterable[LeverTarget]:
        for table in case.devices:
            device = DEVICES[table.model]
            if device.role == role:
                for parameter in device.parameters:
                    if power := weight(parameter):
                        yield LeverTarget(table.model, parameter.name, weight=power)

    return targets


def _fast_share(case: DetailedCase) -> Iterable[LeverTarget]:
    for table in case.devices:
        if share := FAST_SHARES.get(table.model):
            yield LeverTarget(table.model, share.constant)


def _damping(case: DetailedCase) -> Iterable[LeverTarget]:
    for table in case.devices:
        if DEVICES[table.model].role == "machine":
            for row, inertia in enumerate(table.values["M"].tolist()):
                yield LeverTarget(table.model, "D", np.array([row]), inertia)


COMMON: tuple[Factor, ...] = (
    Factor("network", "reactance of the network", "factor", 0.3, _network),
    Factor(
        "inertia",
        "inertia of the machines",
        "factor",
        0.2,
        _of_role("machine", lambda p: float(p.name == "M")),
    ),
    Factor(
        "machine_reactance",
        "reactances of the machines",
        "factor",
        0.3,
        _of_role("machine", lambda p: float(p.base == "impedance")),
    ),
    Factor(
        "governor_gain",
        "gain of the governors",
        "factor",
        0.3,
        _of_role("governor", lambda p: GOVERNOR_GAINS.get(p.name, 0.0)),
    ),
    Factor(
        "governor_time",
        "times of the governors",
        "factor",
        0.3,
        _of_role("governor", lambda p: float(p.unit == "s")),
    ),
    # drawn with noise of its own: a common time leaves T2/T3 as it is
    Factor("governor_fast", "fast share of the governors", "factor", 0.3, _fast_share),
    Factor(
        "avr_gain",
        "gain of the exciters",
        "factor",
        0.5,
        _of_role("exciter", lambda p: EXCITER_GAINS.get(p.name, 0.0)),
    ),
    Factor(
        "pss_gain",
        "gain of the stabilisers",
        "factor",
        0.5,
        _of_role("stabiliser", lambda p: float(p.name == "KS")),
    ),
    Factor(
        "machine_time",
        "times of the machines' windings",
        "factor",
        0.5,
        _of_role("machine", lambda p: float(p.unit == "s" and p.name != "M")),
    ),
    Factor(
        "exciter_time",
        "times of the exciters",
        "factor",
        0.5,
        _of_role("exciter", lambda p: float(p.unit == "s")),
    ),
    Factor("damping", "damping of the machines", "damping", 0.05, _damping),
)

# A record tells the slope of a load by voltage, 2 z + i, and not z and i apart: the rest of a share
# z of constant impedance is constant power.
EXPONENTS: tuple[Factor, ...] = (
    Factor(
        "p_impedance",
        "share of constant impedance in P",
        "share",
        1.0,
        lambda _: (LeverTarget("load", "zp"),),
    ),
    Factor(
        "q_impedance",
        "share of constant impedance in Q",
        "share",
        1.0,
        lambda _: (LeverTarget("load", "zq"),),
    ),
)


def factors_of(case: DetailedCase, *, exponents: bool, items: bool = False) -> tuple[Factor, ...]:
    """The factors that a case has.

    exponents : whether those of the loads are to be estimated; items : whether single units have
    factors of their own.
    """
    single = item_factors(case) if items else ()
    wanted = (*COMMON, *(EXPONENTS if exponents else ()), *single)
    return tuple(factor for factor in wanted if any(True for _ in factor.targets(case)))


def lever_of(factor: Factor, case: DetailedCase) -> Lever:
    """The lever that moves a case by a factor."""
    kind = "scale" if factor.kind == "factor" else "shift"
    return Lever(factor.name, tuple(factor.targets(case)), kind)


def without_exponents(case: DetailedCase) -> DetailedCase:
    """The same loads as constant power: where shares are counted from."""
    nothing = np.zeros_like(case.loads.impedance)
    return replace(case, loads=replace(case.loads, impedance=nothing, current=nothing))


def theta_of(factors: Sequence[Factor], x: Array) -> Any:
    """θ of all levers at x (n,)."""
    return np.stack([factor.value(part) for factor, part in zip(factors, x, strict=True)])


def item_factors(case: DetailedCase) -> tuple[Factor, ...]:
    """A factor of its own for the inertia and for the governor's gain of each unit."""
    items = []
    for common, spread in (("inertia", ITEM_INERTIA), ("governor_gain", ITEM_GAIN)):
        whole = next(factor for factor in COMMON if factor.name == common)
        for target in whole.targets(case):
            table = next(table for table in case.devices if table.model == target.table)
            for row, unit in enumerate(table.unit.tolist()):
                own = replace(target, rows=np.array([row]))
                items.append(
                    Factor(
                        f"{common} {unit + 1}",
                        f"{whole.title}, unit {unit + 1} beside the others",
                        "factor",
                        spread,
                        lambda _, own=own: (own,),
                    )
                )
    return tuple(items)
