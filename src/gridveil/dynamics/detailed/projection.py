"""Stability and feasibility by projection: a released case is moved toward a public one until its
model stands, by a rule that sees released and public values alone.

A draw is never repeated: conditioning on "stable" would double ε, and the number of tries would
tell of the grid. The way has six rungs: voltages go up; exciters, stabilisers and machines'
reactances go to public values; dispatch is evened out; governors' times go to public values; load
and dispatch go down together; lines, inertia and governor gain go to public values too. The end of
the last one holds nothing but public values, so that whether it stands is known before a draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gridveil.dynamics.detailed.entries import ENTRIES, released_case
from gridveil.dynamics.detailed.equilibrium import Equilibrium, NoOperatingPoint, solve
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.foundation.errors import NOTHING_SPENT, GridveilError
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array

LEAST_DAMPING = 0.02  # ζ of every mode
# What a case that had to be moved is moved to: at the edge it would swing for minutes, unlike any
# grid.
MOVED_DAMPING = 0.06
SLOWEST = 0.01  # −Re λ of every mode [1/s]
HALVINGS = 4  # of a rung: its share is known to 1/16
HIGHEST_VOLTAGE = 1.05  # of a usual set point [p.u.]
BALANCED = 1e-4  # what the slack may take beyond its share, as a part of all generation
LOSSES = 0.02  # of load: a first guess
ROUNDS = 20  # each leaves about a tenth of the difference

Standing = tuple[DetailedCase, Equilibrium]
Rung = Literal["set points", "voltage", "dispatch", "governors", "load", "rest"]

# What each rung moves to its public value, what hardly matters first; set points go up, dispatch is
# evened out, load and dispatch go to nothing.
RUNGS: dict[Rung, tuple[str, ...]] = {
    "set points": (),
    "voltage": ("x_machine", "avr_gain", "avr_feedback", "pss_gain"),
    "dispatch": (),
    "governors": ("gov_servo", "gov_lag", "gov_fast"),
    "load": (),
    "rest": ("x", "b_ratio", "M", "gov_gain"),
}


class NoPublicEnd(GridveilError):
    """A structure whose public case has no stable operating point, even without load."""

    def __init__(self) -> None:
        super().__init__(
            "The public case of this structure is not stable, even without load: a released model "
            "that is unstable could not be corrected",
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
    for _ in range(ROUNDS):
        factor = max(total - taken.sum(), 0.0) / giving.sum() if giving.any() else 1.0
        case = replace(case, units=replace(case.units, power=giving * factor + taken))
        equilibrium = solve(case)
        total, before = float(equilibrium.power.real.sum()), total
        if abs(total - before) <= BALANCED * (1 + abs(total)):
            return case, equilibrium
    raise NoOperatingPoint("Dispatch does not settle at load and losses")


def is_stable(model: DetailedModel, damping: float = LEAST_DAMPING) -> bool:
    """ζ ≥ 2 % and Re λ ≤ −0.01 1/s for every mode; the zero of the common angle is left out.

    damping : another least ζ.
    """
    modes = np.linalg.eigvals(model.whole.A)
    damped = -modes.real >= damping * np.abs(modes)
    return bool(np.all(damped & (modes.real <= -SLOWEST)))


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
    for rung in ("rest", "voltage", "governors"):
        part, names = shares[rung], values.keys() & set(RUNGS[rung])
        for name in names:
            goal = ENTRIES[name].read(sized)[0]
            between[name] = values[name] ** (1 - part) * goal**part
        if rung == "rest":
            sized = released_case(public, {name: between[name] for name in names})
    if "p_gen" in values:
        even = np.exp(np.mean(np.log(values["p_gen"])))
        between["p_gen"] = values["p_gen"] ** (1 - shares["dispatch"]) * even ** shares["dispatch"]
    case = lightened(released_case(public, between), 1 - shares["load"])
    return _raised(case, shares["set points"])


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
    if (end := standing(_raised(lightened(public, 0.0), 1.0))) is None:
        raise NoPublicEnd
    return end[0]


def project(public: DetailedCase, values: Mapping[str, Array]) -> Projected:
    """Move released values toward public ones, no further than their model needs to stand.

    Rungs are gone to their ends one after the other until the case stands; then each is gone back,
    the last one first, as far as it goes on standing.
    public : the structure with public values; values : released entries, as in `released_case`.
    """
    shares: dict[Rung, float] = dict.fromkeys(RUNGS, 0.0)
    case = standing(moved(public, values, shares), LEAST_DAMPING)
    gone: list[Rung] = []
    for rung in RUNGS:
        if case is None:
            shares[rung] = 1.0
            gone.append(rung)
            case = standing(moved(public, values, shares))
    if case is None:
        raise NoPublicEnd
    for rung in reversed(gone):

        def at(share: float, rung: Rung = rung) -> Standing | None:
            return standing(moved(public, values, {**shares, rung: share}))

        shares[rung], case = _least_share(at, case)
    return Projected(*case, shares)


def _least_share(at: Callable[[float], Standing | None], whole: Standing) -> tuple[float, Standing]:
    """Find the least share of a rung, to 1/16, at which the case stands; whole : it, at a share of
    1.
    """
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
