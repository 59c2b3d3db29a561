"""Hops between explanations of records, which no small step connects.

A search from few places may end with every strong mode where it belongs and a weak one elsewhere:
records tell frequencies to one over their length, and a mode that is further off looks like no mode
at all. Two kinds of hops lead on from there. Where what is left of the records rings, a mode is
sent to the frequency that is missing. And since different networks may show the same modes, each
explanation is shaken: moved as the release allows, while strong modes are brought back to their
places and weak ones lie where they may. Both look for networks that have certain modes; then the
records, with a wide σ, say how much of each mode is seen while modes are held in place; and the
polish does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import chdtri

from gridveil.foundation.progress import counted
from gridveil.grid.facts import Array, IntArray
from gridveil.inference.fit.least_squares import Gaussian, ManyResiduals, Minimum, minimise_all
from gridveil.inference.fit.poles import (
    Poles,
    RecordsAndPoles,
    eigenvalue_slopes,
    eigenvalues,
    spread,
)
from gridveil.inference.fit.polish import FAR, ROUNDS, polish_all
from gridveil.inference.fit.sampling import Sampling
from gridveil.inference.fit.sensitivity import Complex
from gridveil.inference.fit.task import Task, WholeResiduals

TRYING = "trying other explanations of the records"
# How rarely noise alone rings as strongly at one frequency: some hundreds are looked at.
RARE = 4e-4
# Records are nearly explained where the cost of a sample is at most this (½ is expected) [nats].
NEARLY = 2.5
# Damping ratios that are looked at; steps of frequency in one over a record's length; how far above
# the fastest mode of the model.
RATIOS, FINE, ABOVE = (0.002, 0.005, 0.01, 0.02, 0.04, 0.08), 2, 1.5
# What of a record is looked at after its first step [s], and numbers that are worked on at a time.
AFTER_S, CHUNK = 60.0, 2_000_000
# Ends of searches that are polished on all samples, since a few samples may rank them otherwise.
POLISHED = 10
# Missing modes that are looked for from one end.
MISSING = 3
# Explanations that hops are tried from at most; ends less far apart are one [deviations of the
# release].
TRIES, APART = 8, 0.5
# How far behind the best others are as good, and how many are enough; how far behind hops are tried
# while modes may be missing, what a hop must gain [nats], and how many may gain less before a mode
# is taken for noise.
AS_GOOD, OTHERS, NOT_YET, WORTH, IN_VAIN = 8.0, 8, 100.0, 3.0, 2
# What a mode must explain to be held where it is [nats]; how firmly, and how the others are [1/s].
STRONG, FIRM, LOOSE = 30.0, 0.02, 3.0
# How much softer modes are held at first, and σ over its value while records are shown.
SOFTER, WIDER = (10.0, 3.0, 1.0), (30.0, 5.0)
# Steps of each search, the longest of an entry, and the decrease of the cost at which one ends.
STEPS, LONGEST, CLOSE = 15, 0.5, 1e-2


def hopped(
    task: Task,
    prior: Gaussian,
    ends: Sequence[Minimum],
    drawn: Sequence[Array],
    sampling: Sampling,
    few: Sampling,
    sigma: float | Array,
) -> list[Minimum]:
    """Ends of searches, and of hops from them: each explanation once, the best first.

    ends : of searches that looked at a few samples, the best first. drawn : networks y (n,) that
    the release allows. sampling, few : all samples, and some.
    """
    hops, nearly = _Hops(task, prior, drawn, sampling, few, sigma), NEARLY * len(sampling.observed)
    begun = [end.x for end in ends[:POLISHED] if end.cost < ends[0].cost + NOT_YET]
    with counted(TRYING, TRIES) as more:
        known, tried, in_vain = hops.each_once(hops.polished(begun)), list[Minimum](), 0
        while len(tried) < TRIES:
            best, looks = known[0], in_vain < IN_VAIN
            most = min(best.cost + (NOT_YET if looks else AS_GOOD), nearly)
            left = [one for one in known if one.cost < most and hops.is_apart(one, tried)]
            if not left or sum(one.cost < best.cost + AS_GOOD for one in known) > OTHERS:
                break
            here = left[0]
            tried.append(here)
            found = hops.shaken(here)
            if looks and (missing := hops.missing(here)):
                found += hops.to_missing(here, missing)
                gained = best.cost - min((one.cost for one in found), default=best.cost)
                in_vain = 0 if gained > WORTH else in_vain + 1
            elif here is best:
                in_vain = IN_VAIN  # nothing is missing
            known = hops.each_once([*known, *found])
            more()
    return known


@dataclass(frozen=True)
class Width:
    """How many networks of each kind a hop shows the records to, and polishes; and how many of all
    are polished on all samples.
    """

    shown: int
    tried: int
    followed: int


TO_MISSING, SHAKEN = Width(6, 3, 2), Width(12, 8, 4)
# Of what draws of the release differ from its middle by, the share that an end is moved by.
SHARE = 0.6


@dataclass(frozen=True)
class Missing:
    """A mode that records show and a model lacks: λ, how well it is known [1/s], and what it would
    explain [nats].
    """

    value: complex
    width: float
    gain: float


@dataclass(frozen=True, eq=False)
class Left:
    """What is left of records near a y, after the best small change of it [σ].

    r : (rows,). known : (rows, ·), whose product with itself is what small changes of y explain.
    time_s : (rows,) since the first step of the row's record, up to a minute.
    place : (rows,) which place of which record it is of.
    """

    r: Array
    known: Array
    time_s: Array
    place: IntArray

    @classmethod
    def of(
        cls, task: Task, prior: Gaussian, y: Array, sampling: Sampling, sigma: float | Array
    ) -> Left:
        """At a y (n,)."""
        residuals = WholeResiduals(task, sampling, task.sigma(sampling, sigma))
        scale = np.sqrt(prior.precision.diagonal())
        U, S, rows = np.linalg.svd(residuals.slopes(y) / scale, full_matrices=False)
        # a search need not have come to its very end: what its last small step would explain
        r, off = residuals.at(y), rows @ (scale * (y - prior.mean))
        r = r - U @ (S / (1 + S**2) * (S * (U.T @ r) + off))
        firsts = {record: shift for record, shift, _ in reversed(task.predictor.records.steps)}
        times, places, h = [], [], task.coordinates.locations
        for record, (at, seen) in enumerate(zip(sampling.at, sampling.seen, strict=True)):
            late = task.predictor.dt_s * (at - firsts.get(record, 0))
            times.append(np.broadcast_to(late[:, None], seen.shape)[seen])
            places.append(np.broadcast_to(record * h + np.arange(h), seen.shape)[seen])
        time_s, place = np.concatenate(times), np.concatenate(places)
        known, after = U * (S / np.sqrt(1 + S**2)), (time_s >= 0) & (time_s <= AFTER_S)
        place = np.unique(place[after], return_inverse=True)[1]
        return cls(r[after], known[after], time_s[after], place)

    @property
    def places(self) -> int:
        """Places of records."""
        return int(self.place.max(initial=0)) + 1

    def modes(self, fastest: float) -> list[Missing]:
        """Modes that it shows beyond noise, up to some frequency [rad/s], the strongest first."""
        step = self._step
        angular = np.arange(step, max(fastest, 4 * step), step)
        parts = np.array_split(angular, -(-len(angular) * len(self.r) // CHUNK))
        gains = np.stack(
            [np.concatenate([self.gains(_mode(one, ratio)) for one in parts]) for ratio in RATIOS]
        )
        best, ratio = gains.max(axis=0), np.array(RATIOS)[gains.argmax(axis=0)]
        peaks = 1 + np.flatnonzero((best[1:-1] >= best[:-2]) & (best[1:-1] >= best[2:]))
        peaks = peaks[best[peaks] > chdtri(2 * self.places, RARE) / 2]
        strongest = peaks[np.argsort(-best[peaks], kind="stable")][:MISSING]
        return [self._sharpened(float(angular[peak]), float(ratio[peak])) for peak in strongest]

    def gains(self, values: Complex) -> Array:
        """What each mode λ (c,) alone would explain, with a phase and size of its own at every
        place, beyond small changes of y [nats].
        """
        waves: Complex = np.exp(self.time_s[:, None] * values).astype(np.complex128, copy=False)
        c, h = len(values), self.places
        own = np.zeros((c, h, 2, h, 2))
        felt, explained = np.zeros((c, h, 2)), np.zeros((c, h, 2, self.known.shape[1]))
        for number in range(h):
            rows = self.place == number
            both = np.stack([waves[rows].real, waves[rows].imag])  # (2, rows, c)
            own[:, number, :, number] = np.einsum("arc,brc->cab", both, both)
            felt[:, number] = np.einsum("arc,r->ca", both, self.r[rows])
            explained[:, number] = np.moveaxis(both.mT @ self.known[rows], 1, 0)
        felt, explained = felt.reshape(c, 2 * h), explained.reshape(c, 2 * h, -1)
        matrix = own.reshape(c, 2 * h, 2 * h) - explained @ explained.mT
        matrix += 1e-9 * np.trace(matrix, axis1=1, axis2=2)[:, None, None] * np.eye(2 * h)
        return 0.5 * np.einsum("cs,cs->c", felt, np.linalg.solve(matrix, felt[..., None])[..., 0])

    @property
    def _step(self) -> float:
        """Between frequencies [rad/s]."""
        return 2 * np.pi / (FINE * float(self.time_s.max()))

    def _sharpened(self, angular: float, ratio: float) -> Missing:
        """The mode near a peak that explains most."""

        def mode(x: Array) -> Complex:
            near = np.clip(x, -1.0, 1.0)
            return _mode(angular + self._step * near[:1], ratio * float(np.exp(near[1])))

        def unexplained(x: Array) -> float:
            return -float(self.gains(mode(x))[0])

        found = minimize(unexplained, np.zeros(2), method="Nelder-Mead", options={"maxfev": 40})
        value, gain = complex(mode(found.x)[0]), -float(found.fun)
        lasts = min(float(self.time_s.max()), 1 / abs(value.real))
        return Missing(value, max(FIRM, np.sqrt(2 / gain) / lasts), gain)


@dataclass(frozen=True, eq=False)
class _Goal:
    """Where modes are to lie, and how firmly (modes,) [1/s]; where a search for that begins (n,);
    of which kind it is.
    """

    targets: Complex
    widths: Array
    start: Array
    kind: int = 0

    @classmethod
    def moved(
        cls,
        end: Minimum,
        values: Complex,
        strong: NDArray[np.bool_],
        mode: int,
        there: complex,
        width: float,
        kind: int,
    ) -> _Goal:
        """One mode of an end goes there; of the others, those that are strong stay."""
        own = np.arange(len(values)) == mode
        widths = np.where(own, width, np.where(strong, FIRM, LOOSE))
        return cls(np.where(own, there, values), widths, end.x, kind)


@dataclass(frozen=True, eq=False)
class _Hops:
    """Hops with some records; as for `hopped`."""

    task: Task
    prior: Gaussian
    drawn: Sequence[Array]
    sampling: Sampling
    few: Sampling
    sigma: float | Array

    def to_missing(self, end: Minimum, missing: Sequence[Missing]) -> list[Minimum]:
        """Where hops from an end lead that send a mode to one that is missing."""
        try:
            return self.ends(self._to_missing(end, missing), TO_MISSING)
        except np.linalg.LinAlgError:  # no modes to speak of: what follows a charge must not fail
            return []

    def shaken(self, end: Minimum) -> list[Minimum]:
        """Where hops from an end lead that move its network as the release allows, and hold the
        modes that records show strongly.
        """
        try:
            return self.ends(self._shaken(end), SHAKEN)
        except np.linalg.LinAlgError:
            return []

    def missing(self, end: Minimum) -> list[Missing]:
        """Modes that the records show and an end lacks."""
        try:
            (values,) = eigenvalues(self.task, end.x[None])
            if not len(values):
                return []
            left = Left.of(self.task, self.prior, end.x, self.sampling, self.sigma)
            return left.modes(ABOVE * float(np.abs(values).max()))
        except np.linalg.LinAlgError:
            return []

    def is_apart(self, end: Minimum, others: Sequence[Minimum]) -> bool:
        """Whether an end is none of the others."""
        scale = np.sqrt(self.prior.precision.diagonal())
        return all(np.linalg.norm(scale * (end.x - one.x)) > APART for one in others)

    def each_once(self, ends: Sequence[Minimum]) -> list[Minimum]:
        """Ends that lie apart, the best first."""
        found: list[Minimum] = []
        for end in sorted(ends, key=_cost):
            if self.is_apart(end, found):
                found.append(end)
        return found

    def ends(self, goals: Sequence[_Goal], width: Width) -> list[Minimum]:
        """Where hops with some goals lead, polished on all samples."""
        if not goals:
            return []
        targets, widths, found, kinds = (
            np.stack([getattr(goal, part) for goal in goals])
            for part in ("targets", "widths", "start", "kind")
        )
        poles = Poles(self.task, targets, widths)
        numbers = np.flatnonzero(np.isfinite(poles.at(found, np.arange(len(kinds)))).all(axis=1))
        if not len(numbers):
            return []
        found, costs = found[numbers], np.zeros(len(numbers))  # of models with modes enough
        for softer in SOFTER:
            found, costs = self._searched(poles.of(numbers, softer=softer), found)
        best = _least_of_each(costs, kinds[numbers], width.shown)
        numbers, found = numbers[best], found[best]
        for wider in WIDER:
            noise = wider * self.task.sigma(self.few, self.sigma)
            records = WholeResiduals(self.task, self.few, noise)
            shown = RecordsAndPoles(records, poles.of(numbers))
            found, costs = self._searched(shown, found)
            best = _least_of_each(costs, kinds[numbers], width.tried)
            numbers, found = numbers[best], found[best]
        priors, task, sigma = [self.prior] * len(found), self.task, self.sigma
        tried = polish_all(task, priors, list(found), self.few, sigma, ROUNDS, CLOSE, far=FAR)
        ends = self.each_once([one for one, _ in tried])[: width.followed]
        return self.polished([one.x for one in ends])

    def polished(self, starts: Sequence[Array]) -> list[Minimum]:
        """Explanations near starts (n,), by all samples."""
        priors, task, sigma = [self.prior] * len(starts), self.task, self.sigma
        found = polish_all(task, priors, starts, self.sampling, sigma, close=CLOSE, far=FAR)
        return [one for one, _ in found]

    def _to_missing(self, end: Minimum, missing: Sequence[Missing]) -> list[_Goal]:
        """From the end, each of its modes goes to each that is missing. From draws of the release,
        modes go to the strong ones, and to the first or all that are missing.
        """
        values, explains = self._modes(end)
        strong, modes, goals = explains > STRONG, len(values), list[_Goal]()
        for kind, one in enumerate(missing):
            goals += [
                _Goal.moved(end, values, strong, mode, one.value, one.width, kind)
                for mode in range(modes)
            ]
        for kind, count in enumerate(sorted({1, len(missing)})):
            shown = [(value, FIRM) for value in values[strong]]
            shown += [(one.value, one.width) for one in missing[:count]]
            if len(shown) <= modes:
                shown += [(0j, np.inf)] * (modes - len(shown))
                targets, widths = (np.array(part) for part in zip(*shown, strict=True))
                goals += [_Goal(targets, widths, one, len(missing) + kind) for one in self.drawn]
        return goals

    def _shaken(self, end: Minimum) -> list[_Goal]:
        values, explains = self._modes(end)
        widths = np.where(explains > STRONG, FIRM, np.inf)
        lower, upper, mean = self.prior.lower, self.prior.upper, self.prior.mean
        return [
            _Goal(values, widths, np.clip(end.x + SHARE * (one - mean), lower, upper))
            for one in self.drawn
        ]

    def _modes(self, end: Minimum) -> tuple[Complex, Array]:
        """Eigenvalues at an end (modes,) [1/s], and what the records show of each [nats]."""
        values, slopes = (part[0] for part in eigenvalue_slopes(self.task, end.x[None]))
        length = self.task.predictor.dt_s * self.sampling.stride * self.sampling.count
        lasts = np.minimum(length, 1 / np.maximum(-values.real, 1 / length))
        return values, 2 / (lasts * spread(slopes, end.slopes, self.prior)) ** 2

    def _searched(self, residuals: ManyResiduals, starts: Array) -> tuple[Array, Array]:
        """Where searches from starts (b, n) end, and what that costs (b,)."""
        priors = [self.prior] * len(starts)
        ends = minimise_all(
            residuals, priors, starts, cap=LONGEST, iterations=STEPS, tolerance=CLOSE
        )
        return np.stack([one.x for one in ends]), np.array([one.cost for one in ends])


def _mode(angular: Array, ratio: float) -> Complex:
    """Eigenvalues of these frequencies [rad/s], and of a damping ratio."""
    return (angular * (1j - ratio)).astype(np.complex128, copy=False)


def _least_of_each(costs: Array, kinds: IntArray, count: int) -> IntArray:
    """Numbers of the least few of each kind."""
    order = np.argsort(costs, kind="stable")
    return np.concatenate([order[kinds[order] == kind][:count] for kind in np.unique(kinds)])


def _cost(minimum: Minimum) -> float:
    return minimum.cost
