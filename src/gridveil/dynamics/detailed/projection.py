"""Stability and feasibility by projection: a released case is moved toward a public one until its
model stands, by a rule that sees released and public values alone.

A draw is never repeated: conditioning on "stable" would double ε, and the number of tries would
tell of the grid. The way has rungs: classical machines get the damping that they lack; governor
gain goes to units by their dispatch; voltages go up; exciters, stabilisers and machines' reactances
go to public values; dispatch comes nearer to the loads; governors' times and lines' charging go to
public values; machines are damped more; load and dispatch go down together; lines, inertia and
governor gain go to public values too. The end of the last one holds nothing but public values, so
that whether it stands is known before a draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from gridveil.dynamics.detailed.entries import ENTRIES, released_case
from gridveil.dynamics.detailed.equilibrium import Equilibrium, NoOperatingPoint, solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.foundation.errors import NOTHING_SPENT, GridveilError
from gridveil.grid.case import DetailedCase, DeviceTable
from gridveil.grid.facts import Array

LEAST_DAMPING = 0.02  # ζ of every mode
# What a case that had to be moved is moved to: at the edge it would swing for minutes, unlike any
# grid.
MOVED_DAMPING = 0.06
SOON = 0.2  # −Re λ of a mode that is gone soon enough at the least ζ [1/s]
SLOWEST = 0.01  # −Re λ of every mode [1/s]
HALVINGS = 4  # of a rung: its share is known to 1/16
HIGHEST_VOLTAGE = 1.05  # of a usual set point [p.u.]
BALANCED = 1e-4  # what the slack may take beyond its share, as a part of all generation
LOSSES = 0.02  # of load: a first guess
LEAST_DISPATCH = 0.1  # of what a unit gives, where dispatch goes nearer to the loads
ROUNDS = 20  # each leaves about a tenth of the difference

# Damping over inertia [1/s]: of a classical machine, for the damper windings that it leaves out
# (25 p.u., Anderson and Fouad), and the most of another (4 p.u.), on a rating at which M is 8 s.
DAMPERS, DAMPING = 25.0 / 8.0, 4.0 / 8.0

Standing = tuple[DetailedCase, Equilibrium]
Rung = Literal[
    "classical",
    "droops",
    "set points",
    "voltage",
    "dispatch",
    "governors",
    "charging",
    "damping",
    "load",
    "rest",
]

# What each rung moves to its public value, what hardly matters first; damping and set points go up,
# governor gain goes by dispatch, dispatch goes nearer to the loads, load and dispatch go to none.
RUNGS: dict[Rung, tuple[str, ...]] = {
    "classical": (),
    "droops": (),
    "set points": (),
    "voltage": ("x_machine", "avr_gain", "avr_feedback", "pss_gain"),
    "dispatch": (),
    "governors": ("gov_servo", "gov_lag", "gov_fast"),
    "charging": ("b_ratio",),
    "damping": (),
    "load": (),
    "rest": ("x", "M", "gov_gain"),
}

# Rungs of a way, and the damping at which it ends. Load goes down only where nothing else helps.
_FIRST: tuple[Rung, ...] = tuple(rung for rung in RUNGS if rung not in ("load", "rest"))
WAYS: tuple[tuple[tuple[Rung, ...], float], ...] = (
    (_FIRST, MOVED_DAMPING),
    (_FIRST, LEAST_DAMPING),
    (tuple(RUNGS), MOVED_DAMPING),
)


class NoPublicEnd(GridveilError):
    """A structure whose public case has no stable operating point, even without load.

    why : what stands in the way, of public values.
    """

    def __init__(self, why: str = "it is not stable") -> None:
        super().__init__(
            "The public case of this structure does not stand, even without load: "
            f"{why}. A released model that is unstable could not be corrected",
            outcome=NOTHING_SPENT,
            remedy="Release a swing model of this grid: --model swing.",
        )


@dataclass(frozen=True, eq=False)
class Projected:
    """A released case that stands.

    case : balanced; equilibrium : its power flow.
    shares : how far each rung was gone, from 0 to 1.
    """

    case: DetailedCase
    equilibrium: Equilibrium
    shares: Mapping[Rung, float]

    @property
    def is_moved(self) -> bool:
        """Whether any rung was needed."""
        return any(self.shares.values())


def balanced(case: DetailedCase) -> tuple[DetailedCase, Equilibrium]:
    """Scale dispatch to load and losses, so that the slack takes its share and no more.

    Raises
    ------
    NoOperatingPoint : where the power flow has no solution.
    """
    scheduled = case.units.power
    giving = np.maximum(scheduled, 0.0)
    taken = np.minimum(scheduled, 0.0)
    total = (1 + LOSSES) * float(case.loads.power.real.sum())
    equilibrium = None
    for _ in range(ROUNDS):
        factor = max(total - taken.sum(), 0.0) / giving.sum() if giving.any() else 1.0
        case = replace(case, units=replace(case.units, power=giving * factor + taken))
        equilibrium = solve(case, near=equilibrium)
        total, before = float(equilibrium.power.real.sum()), total
        if abs(total - before) <= BALANCED * (1 + abs(total)):
            return case, equilibrium
    raise NoOperatingPoint("Dispatch does not settle at load and losses")


def is_stable(model: DetailedModel, damping: float = LEAST_DAMPING) -> bool:
    """ζ ≥ 2 % and Re λ ≤ −0.01 1/s for every mode; the zero of the common angle is left out.

    damping : another least ζ.
    """
    modes = np.linalg.eigvals(model.whole.A)
    ratio = np.where(modes.real <= -SOON, LEAST_DAMPING, damping)
    damped = -modes.real >= ratio * np.abs(modes)
    return bool(np.all(damped & (modes.real <= -SLOWEST)))


def least_damping(model: DetailedModel) -> float:
    """ζ of the mode that has least, the zero of the common angle left out."""
    modes = np.linalg.eigvals(model.whole.A)
    return float((-modes.real / np.abs(modes)).min())


def standing(case: DetailedCase, damping: float = MOVED_DAMPING) -> Standing | None:
    """The case, balanced, with its operating point, where it has one and is stable."""
    try:
        case, equilibrium = balanced(case)
        model = linearise(case, equilibrium, np.empty(0, dtype=np.int64))
        return (case, equilibrium) if is_stable(model, damping) else None
    except (NoOperatingPoint, np.linalg.LinAlgError):
        return None


def moved(
    public: DetailedCase, values: Mapping[str, Array], shares: Mapping[Rung, float]
) -> DetailedCase:
    """Go a share of each rung: in logarithms, but for load and dispatch, which are scaled."""
    between = dict(values)
    # sizes first: the typical controls of a machine are in proportion to it
    sized = public
    for rung in ("rest", "voltage", "governors", "charging"):
        part, names = shares[rung], values.keys() & set(RUNGS[rung])
        for name in names:
            goal = ENTRIES[name].read(sized)[0]
            between[name] = values[name] ** (1 - part) * goal**part
        if rung == "rest":
            sized = released_case(public, {name: between[name] for name in names})
    between |= _by_dispatch(public, between, values, shares["droops"])
    case = _relieved(released_case(public, between), shares["dispatch"])
    case = lightened(_damped(case, shares), 1 - shares["load"])
    return _raised(case, shares["set points"])


def _relieved(case: DetailedCase, share: float) -> DetailedCase:
    """Bring dispatch nearer to the loads: factors m on the units' powers P that make least of flows
    and of their own spread, mᵀ G m + μ |m − 1|², with G_ij = P_i P_j (e_i − d)ᵀ L⁺ (e_j − d), L
    the Laplacian of 1/|x| and d how load is spread; μ falls from ∞, at a share of 0, to the mean
    of G_ii, at 1.
    """
    P, bus, n = case.units.power, case.units.bus, len(case.buses)
    load = np.zeros(n)
    np.add.at(load, case.loads.bus, case.loads.power.real)
    giving = np.flatnonzero(P > 0)
    if not share or not len(giving) or load.sum() <= 0:
        return case
    (i, j), weight = case.branches.ends.T, 1 / np.abs(case.branches.series.imag)
    L = sparse.coo_array(
        (np.concatenate([weight, weight, -weight, -weight]),
         (np.concatenate([i, j, i, j]), np.concatenate([i, j, j, i]))), shape=(n, n)
    ).tocsc()  # fmt: skip
    apart = np.zeros((n, len(giving)))
    apart[bus[giving], np.arange(len(giving))] = 1.0
    apart = (apart - load[:, None] / load.sum()) * P[giving]
    G = apart[1:].T @ splu(L[1:, 1:]).solve(apart[1:])
    stiff = float(np.trace(G)) / len(giving) / share
    factors = np.linalg.solve(G + stiff * np.eye(len(giving)), np.full(len(giving), stiff))
    power = P.copy()
    power[giving] *= np.maximum(factors, LEAST_DISPATCH)
    return replace(case, units=replace(case.units, power=power))


def _by_dispatch(
    public: DetailedCase, between: Mapping[str, Array], values: Mapping[str, Array], share: float
) -> dict[str, Array]:
    """Share governor gain out by released dispatch, in logarithms, and leave the mean of its
    logarithms: a droop is usual on a unit's own rating, so a small unit has a small gain.
    """
    if not share or "p_gen" not in values or "gov_gain" not in between:
        return {}
    P = np.abs(ENTRIES["p_gen"].write(public, values["p_gen"]).units.power)
    size = np.log(np.where(P > 0, P, np.exp(np.mean(np.log(P[P > 0])))))
    factors: dict[str, Array] = {}
    for name in between.keys() & {"gov_gain", "gov_fast"}:
        own = size[ENTRIES[name].read(public)[1]]
        factors[name] = between[name] * np.exp(share * (own - own.mean()))
    return factors


def _damped(case: DetailedCase, shares: Mapping[Rung, float]) -> DetailedCase:
    """Bring machines a share of the way to the damping of the windings that a model leaves out."""

    def damped(table: DeviceTable) -> DeviceTable:
        share, end = (
            (shares["classical"], DAMPERS)
            if table.model == "GENCLS"
            else (shares["damping"], DAMPING)
        )
        D, M = table.values["D"], table.values["M"]
        return replace(
            table, values={**table.values, "D": np.maximum(D, D + share * (end * M - D))}
        )

    machines = (DEVICES[table.model].role == "machine" for table in case.devices)
    tables = (
        damped(table) if is_machine else table
        for table, is_machine in zip(case.devices, machines, strict=True)
    )
    return replace(case, devices=tuple(tables))


def lightened(case: DetailedCase, part: float) -> DetailedCase:
    """Scale load, dispatch and shunts down together."""
    return replace(
        case,
        loads=replace(case.loads, power=case.loads.power * part),
        units=replace(case.units, power=case.units.power * part),
        shunt=case.shunt * part,
    )


def _raised(case: DetailedCase, share: float) -> DetailedCase:
    """Bring voltages a share of the way up to the highest usual one."""
    low = np.minimum(case.units.set_point, HIGHEST_VOLTAGE)
    raised = case.units.set_point + share * (HIGHEST_VOLTAGE - low)
    return replace(case, units=replace(case.units, set_point=raised))


def check_public_end(public: DetailedCase) -> DetailedCase:
    """Make sure, before anything is drawn, that the last rung's end stands; give it back."""
    case = _raised(_damped(lightened(public, 0.0), dict.fromkeys(RUNGS, 1.0)), 1.0)
    if (end := standing(case)) is None:
        raise NoPublicEnd(_why_not(case))
    return end[0]


def _why_not(case: DetailedCase) -> str:
    """What keeps a case of public values from standing."""
    try:
        case, equilibrium = balanced(case)
        model = linearise(case, equilibrium, np.empty(0, dtype=np.int64))
        modes = np.linalg.eigvals(model.whole.A)
    except (NoOperatingPoint, np.linalg.LinAlgError):
        return "its power flow has no solution"
    worst = modes[np.argmin(-modes.real / np.abs(modes))]
    slowest = -modes.real.max()
    return (
        f"its mode of {abs(worst.imag) / (2 * np.pi):.2g} Hz has a damping ratio of "
        f"{100 * -worst.real / abs(worst):.2g} % (at least {100 * LEAST_DAMPING:g} %), and its "
        f"slowest mode falls at {slowest:.2g} 1/s (at least {SLOWEST:g} 1/s)"
    )


def project(public: DetailedCase, values: Mapping[str, Array]) -> Projected:
    """Move released values toward public ones, no further than their model needs to stand.

    Rungs are gone to their ends one after the other until the case stands; then each is gone back,
    the last one first, as far as it goes on standing.
    public : the structure with public values; values : released entries, as in `released_case`.
    """
    shares: dict[Rung, float] = dict.fromkeys(RUNGS, 0.0)
    if (case := standing(moved(public, values, shares), LEAST_DAMPING)) is not None:
        return Projected(*case, shares)
    for rungs, damping in WAYS:
        shares = dict.fromkeys(RUNGS, 0.0)
        for number, rung in enumerate(rungs):
            shares[rung] = 1.0
            if (case := standing(moved(public, values, shares), damping)) is not None:
                return _gone_back(public, values, shares, rungs[: number + 1], case, damping)
    raise NoPublicEnd


def _gone_back(
    public: DetailedCase,
    values: Mapping[str, Array],
    shares: dict[Rung, float],
    gone: tuple[Rung, ...],
    case: Standing,
    damping: float,
) -> Projected:
    """Go each rung back, the last one first, as far as the case goes on standing."""
    for rung in reversed(gone):

        def at(share: float, rung: Rung = rung) -> Standing | None:
            return standing(moved(public, values, {**shares, rung: share}), damping)

        shares[rung], case = _least_share(at, case)
    return Projected(*case, shares)


def _least_share(at: Callable[[float], Standing | None], whole: Standing) -> tuple[float, Standing]:
    """Find the least share of a rung at which the case stands; whole : it, at a share of 1."""
    if (case := at(0.0)) is not None:
        return 0.0, case
    stands, falls, case = 1.0, 0.0, whole
    for _ in range(HALVINGS):
        half = (stands + falls) / 2
        if (nearer := at(half)) is None:
            falls = half
        else:
            stands, case = half, nearer
    return stands, case
