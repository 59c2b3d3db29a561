"""A guard on every fit: may what it found be published, and with what words beside it?

A record of another grid, in a wrong unit or of another event can be fitted too. It then shows in
one of these, all of them public: what is left of the record, a part of it that a second fit did
not see, values on public bounds, and a fit that leaves what the release itself says.

A *good* fit is published as it is, a *doubtful* one with its reasons; of a *discarded* one the
unfitted release is published. That choice depends on the record, so the guarantee is conditional on
it either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import modes
from gridveil.dynamics.swing import SWING
from gridveil.grid.facts import Array, GridFacts
from gridveil.inference.alike import Belief
from gridveil.inference.fit.noise import noise_of
from gridveil.inference.fit.outcome import TwoStage
from gridveil.inference.fit.problem import Observation, first_part

Grade = Literal["good", "doubtful", "discarded"]
GRADES: tuple[Grade, ...] = get_args(Grade)

# What a fit may leave of a record, as a share of its root mean square; more is doubtful, useless.
DOUBTFUL_SHARE, USELESS_SHARE = 0.1, 0.3
# A record whose largest deviation is not so many times what is left says next to nothing.
LEAST_PEAK = 5.0
# Share of a group's values on its public bounds from which a fit is doubtful.
ON_BOUNDS = 1 / 3
# Draws of the release's posterior that a fit is compared with; how far beyond 99 % of them it may
# lie, and how many deviations its common factors.
DRAWS, FARTHEST, MOST_DEVIATIONS = 2000, 1.0, 7.0
# A common factor that the records do not see deviates by at least this share of its own deviation.
LEAST_SEEN = 0.2
# Held out, a fit may leave so many times what it leaves of the rest.
HELD_OUT_EXCESS = 3.0
# How much faster or slower the fastest mode may become.
MODE_FACTOR = 4.0
# An event's load on one machine, in units of its total.
MOST_OF_TOTAL = 3.0
CLOSE = 1e-6  # to a bound, in logarithms


@dataclass(frozen=True)
class Verdict:
    """What a recipient may make of a fit.

    reasons : in words, worst first; none of a good fit.
    """

    grade: Grade
    reasons: tuple[str, ...] = ()

    @classmethod
    def of(cls, findings: Sequence[Doubt]) -> Verdict:
        """The worst of what was found, or good."""
        worst = sorted(findings, key=lambda one: -GRADES.index(one.grade))
        grade = worst[0].grade if worst else "good"
        return cls(grade, tuple(one.words for one in worst))

    @property
    def discarded(self) -> bool:
        """Whether the unfitted release is published."""
        return self.grade == "discarded"

    def in_words(self) -> str:
        """Say what is published, in one sentence.

        >>> Verdict("good").in_words()
        'good: the fit passed every check on public data'
        """
        if self.grade == "good":
            return "good: the fit passed every check on public data"
        published = "the fit was discarded, and the unfitted model is published"
        if self.grade == "doubtful":
            published = "the fitted model is published, with doubts"
        return f"{self.grade}: {published}"


@dataclass(frozen=True)
class Doubt:
    """Something that is wrong with a fit: how bad, and in words."""

    grade: Grade
    words: str


# --- any model ------------------------------------------------------------------------------------


def share_beyond(left: Array, noise: Array, size: Array) -> float:
    """Largest share of a record that a fit leaves beyond the sensor's noise; (places,) each."""
    beyond = np.sqrt(np.maximum(left**2 - noise**2, 0.0))
    return float((beyond / np.maximum(size, np.finfo(float).tiny)).max())


def residual_findings(
    left: Array, size: Array, peak: Array, hz: float, noise: Array | None = None
) -> Iterator[Doubt]:
    """What is left of records, against their size.

    left, size : (places,) root mean squares of residual and record; peak : (places,) largest
    deviations; noise : (places,) of the sensors, which no model explains [p.u.]; hz : nominal
    frequency.
    """
    share = share_beyond(left, np.zeros_like(left) if noise is None else noise, size)
    if share > DOUBTFUL_SHARE:
        yield Doubt(
            "discarded" if share > USELESS_SHARE else "doubtful",
            f"it leaves {100 * share:.0f} % of a record unexplained "
            f"({1000 * hz * float(left.max()):.3g} mHz)",
        )
    if (times := float((peak / np.maximum(left, np.finfo(float).tiny)).max())) < LEAST_PEAK:
        yield Doubt(
            "doubtful",
            f"the largest deviation of the records is only {times:.1f} times their noise: they say "
            "next to nothing",
        )


def held_out_findings(
    fitted: float,
    expected: float,
    unfitted: float,
    control: float,
    hz: float,
    simple: str,
    grade: Grade,
) -> Iterator[Doubt]:
    """What second fits, to the first parts of records, leave of the rest.

    fitted : root mean square there [p.u.]; expected : that of the whole fit; unfitted : of the
    unfitted release; control : of a simple model, in words; grade : where that one is better.
    """
    if fitted <= HELD_OUT_EXCESS * expected:
        return
    told = f"fitted to the first part of the records, it misses the rest by {_mhz(fitted, hz)}"
    if fitted > unfitted:
        yield Doubt("discarded", f"{told}, the unfitted release by {_mhz(unfitted, hz)}")
    elif fitted > control:
        yield Doubt(grade, f"{told}, {simple} by {_mhz(control, hz)}")


def posterior_findings(
    moved: Array, drawn: Array, groups: Sequence[tuple[str, NDArray[np.bool_]]], weights: Array
) -> Iterator[Doubt]:
    """How far a fit lies from the release, against what the release's own posterior allows.

    moved : (n,) of the fit, in deviations of its prior; drawn : (draws, n) the same of a truth
    drawn from the posterior, as far as the records would show it; groups : entries whose common
    factor is looked at, by name; weights : (n,) of entries in it.
    """
    usual = np.quantile(np.sum(drawn**2, axis=1), 0.99)
    far = float(np.sum(moved**2) / max(usual, np.finfo(float).tiny))
    if far > FARTHEST:
        yield Doubt(
            "discarded",
            "it contradicts the release: values lie "
            f"{np.sqrt(far):.1f} times as far from what was released as the noise explains",
        )
    apart: dict[str, tuple[float, float]] = {}
    for name, entries in groups:
        own = weights * entries
        found, usually = float(moved @ own), drawn @ own
        spread = max(float(usually.std()), LEAST_SEEN * float(np.linalg.norm(own)))
        factor = float(np.exp(found / np.sum(own * weights)))
        apart[name] = abs(found - float(usually.mean())) / spread, factor
    name = max(apart, key=lambda name: apart[name])
    if apart[name][0] > MOST_DEVIATIONS:
        deviations, factor = apart[name]
        yield Doubt(
            "discarded",
            f"it contradicts the release: {name} at {factor:.2g} times what was released, "
            f"{deviations:.0f} deviations of the noise away",
        )


# --- a swing model --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SwingFit:
    """What the guard of a swing fit looks at.

    found : by the two-stage fit; belief : of the release; unfitted : (e + 2g,) logarithms of what
    would be published without the records, and its model; early : y of the second fit, to the
    first parts of the records; None: these are too short.
    """

    facts: GridFacts
    observed: Sequence[Observation]
    found: TwoStage
    belief: Mapping[str, Belief]
    unfitted: Array
    unfitted_model: ReducedModel
    early: Array | None
    dt_s: float

    def verdict(self) -> Verdict:
        """Judge the fit, on public data alone."""
        findings = [
            *self._residual(),
            *self._held_out(),
            *self._posterior(),
            *self._bounds(),
            *self._events(),
            *self._modes(),
        ]
        return Verdict.of(findings)

    @property
    def _hz(self) -> float:
        return self.facts.frequency_hz

    def _residual(self) -> Iterator[Doubt]:
        found = self.found
        left, seen = found.left(found.y)
        observed = found.recorded
        there = seen.any(axis=1)
        size, peak = noise_of(observed, seen, self.dt_s).rms, np.abs(observed).max(axis=1)
        rms = noise_of(left, seen, self.dt_s).rms
        yield from residual_findings(rms[there], size[there], peak[there], self._hz)

    def _held_out(self) -> Iterator[Doubt]:
        """A second fit, to the first parts of the records, against their last parts."""
        if self.early is None:
            return
        found = self.found
        events = found.y[len(self.unfitted) :]
        after = np.zeros(found.recorded.shape[:2], dtype=bool)
        unmoved = np.zeros(found.recorded.shape)
        for record, own in enumerate(self.observed):
            part = first_part(own)
            assert part is not None, "a second fit was made"
            first = round(float(part.trajectory.time_s[-1]) / self.dt_s) + 1
            after[record, first:] = True
            unmoved[record] = found.recorded[record, first - 1] - found.recorded[record]
        tails = []
        for y in (self.early, found.y, np.concatenate([self.unfitted, events])):
            left, seen = found.left(y)
            tails.append(_rms(left[seen & after[..., None]]))
        seen = found.left(found.y)[1] & after[..., None]
        second, whole, unfitted = tails
        still = _rms(unmoved[seen]), self._hz, "a frequency that stays still"
        yield from held_out_findings(second, whole, unfitted, *still, "discarded")

    def _posterior(self) -> Iterator[Doubt]:
        found, known = self.found, found_by_records(self.found)
        spread = found.prior.precision.diagonal() ** -0.5
        n = len(self.unfitted)
        random = np.random.default_rng(0)
        logs = [np.log(self.belief[name].sample(random, DRAWS)) for name in SWING]
        drawn = (np.concatenate(logs, axis=1) - found.prior.mean[:n]) / spread[:n]
        moved = ((found.y - found.prior.mean) / spread)[:n]
        sizes = [len(self.belief[name].y) for name in SWING]
        of = np.repeat(np.arange(len(sizes)), sizes)
        groups = [(name, of == number) for number, name in enumerate(SWING)]
        groups.append(("k, m and d together", of >= 0))
        yield from posterior_findings(moved, drawn @ known[:n, :n].T, groups, 1 / spread[:n])

    def _bounds(self) -> Iterator[Doubt]:
        found, first = self.found, 0
        outside = (found.y <= found.prior.lower + CLOSE) | (found.y >= found.prior.upper - CLOSE)
        for name in SWING:
            own = outside[first : first + len(self.belief[name].y)]
            first += len(own)
            if own.mean() > ON_BOUNDS:
                words = f"{own.sum()} of {len(own)} values of {name} lie on their public bounds"
                yield Doubt("doubtful", words)

    def _events(self) -> Iterator[Doubt]:
        """Sizes on their bounds, and splits that no event has."""
        loads = float(np.abs(self.facts.loads).sum()) if self.facts.loads_are_public else np.inf
        for event in self.found.events:
            if event.total is None or event.split is None:
                continue
            total, largest = abs(event.total), float(np.abs(event.split).max())
            size = self.observed[event.observation].unknown.size
            if size and np.abs(np.log(total / np.array(size))).min() < CLOSE:
                yield Doubt(
                    "discarded",
                    f"the size found for an event, {total:.3g} p.u., is the end of what was "
                    "declared possible: its unit or the record's may be wrong",
                )
            if max(total, largest) > loads or largest > MOST_OF_TOTAL * total:
                yield Doubt(
                    "discarded",
                    f"an event was found to put {largest:.3g} p.u. on one machine, of "
                    f"{total:.3g} p.u. in all"
                    + (f", on a grid with {loads:.3g} p.u. of load" if np.isfinite(loads) else ""),
                )

    def _modes(self) -> Iterator[Doubt]:
        before, after = (modes(model) for model in (self.unfitted_model, self.found.model))
        if not before or not after:
            return
        old, new = before[-1].frequency_hz, after[-1].frequency_hz
        if not 1 / MODE_FACTOR <= new / old <= MODE_FACTOR:
            words = f"its fastest mode is at {new:.3g} Hz, that of the release at {old:.3g} Hz"
            yield Doubt("doubtful", words)


def found_by_records(found: TwoStage) -> Array:
    """H (n, n), in deviations of the prior: a truth at δ from the prior's mean is found at H δ."""
    known = found.identifiability
    spread = found.prior.precision.diagonal() ** -0.5
    directions = known.directions / spread[:, None]
    seen = known.information[: directions.shape[1]]
    return (directions * (seen / (1 + seen))) @ directions.T


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0


def _mhz(value: float, hz: float) -> str:
    return f"{1000 * hz * value:.3g} mHz"
