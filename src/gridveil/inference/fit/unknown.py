"""Events that are not wholly known: what of them is estimated, with what prior, and what was found.

A load of unknown place acts on the machines as u = S (N v + 1/g) with its total S = Σu and shares
that sum to 1, whatever the network; its prior is as wide as any on shares of one sign can be. A
total known to bounds only is log-uniform on them, a time uniform in its window; both enter as the
Gaussian of the same moments, cut off at the bounds, like everything else in the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array, IntArray
from gridveil.inference.fit.least_squares import Gaussian

if TYPE_CHECKING:
    from gridveil.inference.fit.problem import Observation

NOT_FITTED = "Nothing was fitted."
# A deviation of this share of the largest marks where an event may have begun.
ONSET = 0.03


@dataclass(frozen=True)
class Unknown:
    """What the fit is to find out about an event itself.

    split : the load's place is unknown, so that any split of the event's total over the machines is
    possible.
    size : public bounds lower, upper of |total| where that is unknown too [p.u. power]; its sign is
    the event's.
    window_s : the event came within ± window_s of the time it names [s]; 0 where its time is known.

    >>> Unknown(split=True, size=(0.05, 2.0), window_s=2.0).in_words()
    'the size, the place and the time of the event were estimated from it'
    """

    split: bool = False
    size: tuple[float, float] | None = None
    window_s: float = 0.0

    def __post_init__(self) -> None:
        if not (isfinite(self.window_s) and self.window_s >= 0):
            raise _unusable(
                f"A window of {self.window_s:g} s for an event's time",
                "a finite time of 0 s or more",
            )
        if self.size and not (0 < self.size[0] < self.size[1] < np.inf):
            raise _unusable(
                f"Bounds {self.size[0]:g}:{self.size[1]:g} of an event's size", "0 < lower < upper"
            )
        if self.size and not self.split:
            raise _unusable("An unknown size at a known place", "split=True wherever size is given")

    @property
    def anything(self) -> bool:
        """Whether there is anything to find out."""
        return self.split or self.window_s > 0

    def in_words(self) -> str:
        """Say for the certificate what was estimated; nothing where all is known."""
        parts = (
            ["the size"] * (self.size is not None)
            + ["the place"] * self.split
            + ["the time"] * (self.window_s > 0)
        )
        if not parts:
            return ""
        listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        return f"{listed} of the event {'was' if len(parts) == 1 else 'were'} estimated from it"


KNOWN = Unknown()


@dataclass(frozen=True, eq=False)
class EstimatedEvent:
    """What the fit found out about an event; each value with its standard deviation.

    observation : number of the observation.
    total, total_sd : Σu [p.u. power].
    split, split_sd : (g,) load on each machine, in the order of the model [p.u. power]; all four
    None where the loads were known.
    time_s, time_sd : when the first step came, on the trajectory's clock [s]; the deviation is 0
    where the time was known.
    """

    observation: int
    total: float | None
    total_sd: float | None
    split: Array | None
    split_sd: Array | None
    time_s: float
    time_sd: float


@dataclass(frozen=True, eq=False)
class Unknowns:
    """Unknowns of the events: z = (v of each free step, log |S| of some, delays of some).

    machines : g.
    free : (f,) numbers of the steps whose place is unknown, over all records.
    totals : (f,) what they add [p.u. power].
    sized : positions in free whose total is known to the bounds sizes (·, 2) only.
    timed : records whose event may have come up to windows_s earlier or later.
    """

    machines: int
    free: IntArray
    totals: Array
    sized: IntArray
    sizes: Array
    timed: IntArray
    windows_s: Array

    @classmethod
    def none(cls, machines: int) -> Unknowns:
        """All events are known."""
        number, value = np.zeros(0, dtype=np.int64), np.zeros(0)
        return cls(machines, number, value, number, np.zeros((0, 2)), number, value)

    @classmethod
    def of(cls, observed: Sequence[Observation], machines: int, totals: Array) -> Unknowns:
        """Number what is unknown.

        totals : (s,) load that each step of each event adds in all [p.u. power].
        """
        free: list[int] = []
        sized: list[int] = []
        sizes: list[tuple[float, float]] = []
        timed: list[int] = []
        step = 0
        for record, observation in enumerate(observed):
            unknown = observation.unknown
            if unknown.split:
                if len(observation.event.steps) != 1 or not totals[step]:
                    raise _unusable(
                        "An event of unknown place", "one step, with a total other than 0"
                    )
                if unknown.size:
                    sized.append(len(free))
                    sizes.append(unknown.size)
                free.append(step)
            if unknown.window_s:
                if (
                    observation.event.steps[0].at_s - unknown.window_s
                    < observation.trajectory.time_s[0] - 1e-9
                ):
                    raise _unusable(
                        "The event may have come before its record begins",
                        f"a record from {unknown.window_s:g} s before it on",
                    )
                if (
                    observation.event.steps[-1].at_s + unknown.window_s
                    >= observation.trajectory.time_s[-1]
                ):
                    raise _unusable(
                        "The event may have come after its record ends",
                        f"a record to more than {unknown.window_s:g} s after it",
                    )
                timed.append(record)
            step += len(observation.event.steps)
        return cls(
            machines,
            np.array(free, dtype=np.int64),
            totals[free],
            np.array(sized, dtype=np.int64),
            np.array(sizes, dtype=np.float64).reshape(-1, 2),
            np.array(timed, dtype=np.int64),
            np.array([observed[record].unknown.window_s for record in timed], dtype=np.float64),
        )

    @property
    def size(self) -> int:
        """Length of z."""
        return len(self.free) * (self.machines - 1) + len(self.sized) + len(self.timed)

    def totals_at(self, log_sizes: Array) -> Array:
        """S of the free steps (f,), with log |S| (·,) of those that are sized [p.u. power]."""
        totals = self.totals.copy()
        totals[self.sized] = np.sign(totals[self.sized]) * np.exp(log_sizes)
        return totals

    def prior(self) -> Gaussian:
        """Prior of z: shares of variance 1/g, log-uniform totals, uniform delays [s]."""
        shares = len(self.free) * (self.machines - 1)
        logs = np.log(self.sizes)
        mean = np.concatenate([np.zeros(shares), logs.mean(axis=1), np.zeros(len(self.timed))])
        spread = np.concatenate(
            [
                np.full(shares, 1 / self.machines),
                np.ptp(logs, axis=1) ** 2 / 12,
                self.windows_s**2 / 3,
            ]
        )
        lower = np.concatenate([np.full(shares, -np.inf), logs[:, 0], -self.windows_s])
        upper = np.concatenate([np.full(shares, np.inf), logs[:, 1], self.windows_s])
        return Gaussian(mean, np.diag(1 / spread), lower, upper)


def together(first: Gaussian, second: Gaussian) -> Gaussian:
    """Two Gaussians that know nothing of each other, as one."""
    n, m = len(first.mean), len(second.mean)
    precision = np.zeros((n + m, n + m))
    precision[:n, :n], precision[n:, n:] = first.precision, second.precision
    joined = (
        np.concatenate([getattr(unknowns, name) for unknowns in (first, second)])
        for name in ("mean", "lower", "upper")
    )
    mean, lower, upper = joined
    return Gaussian(mean, precision, lower, upper)


def onset_s(observation: Observation) -> float:
    """Guess how late an event came [s], within its window: where the deviation leaves the noise."""
    time, omega = observation.trajectory.time_s, observation.trajectory.omega
    at, window = observation.event.steps[0].at_s, observation.unknown.window_s
    seen = np.isfinite(omega).any(axis=1)
    time, size = time[seen], np.nanmax(np.abs(omega[seen]), axis=1)
    before = size[time < at - window]
    level = max(ONSET * float(size.max()), 1.5 * float(before.max(initial=0.0)))
    later = np.flatnonzero((time >= at - window) & (size > level))
    first = float(time[max(later[0] - 1, 0)]) if len(later) else at
    return float(np.clip(first - at, -window, window))


def check_known(observed: Sequence[Observation], method: str) -> None:
    """Refuse unknown events where the method cannot estimate them."""
    if method != "two-stage" and any(observation.unknown.anything for observation in observed):
        raise OptionError(
            f"The method {method} needs events of known size, place and time.",
            outcome=NOT_FITTED,
            remedy="Fit with the method two-stage, or declare the event.",
        )


def _unusable(problem: str, expected: str) -> OptionError:
    return OptionError(f"{problem}: it cannot be estimated.", expected=expected, outcome=NOT_FITTED)
