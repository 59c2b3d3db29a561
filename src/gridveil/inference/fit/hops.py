"""Hops between explanations of records: to a mode that they show and a model lacks.

A search from few places may end with every strong mode where it belongs and a weak one elsewhere,
and no small step leads to its place: records tell frequencies to one over their length, and a mode
that is further off looks like no mode at all. What is left of the records then rings at the
frequency that is missing. A hop looks for a network near the release that has a mode there, beside
those that records show strongly; then the records, with a wide σ, say how much of each is seen
while modes are held in place; and the polish does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import chdtri

from gridveil.foundation.progress import told_to
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
# Missing modes that are looked for from one end; for each, networks that records are shown to, and
# that are polished; then ends that are polished on all samples.
MISSING, SHOWN, TRIED, FOLLOWED = 3, 6, 3, 2
# Hops at most; ends whose cost differs by less are one, and what a hop must gain for another one
# from there [nats].
HOPS, SAME, WORTH = 10, 0.5, 3.0
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
    """Ends of searches and of hops from those that lack a mode which the records show: each
    explanation once, the best first.

    ends : of searches that looked at a few samples, the best first. drawn : networks y (n,) that
    the release allows. sampling, few : all samples, and some.
    """
    hops, tried = _Hops(task, prior, drawn, sampling, few, sigma), 0
    begun = _each_once(hops.polished([end.x for end in ends[:POLISHED]]))
    known = list(begun)
    for end in begun:
        here = end
        while found := hops.tried(here) if tried < HOPS else []:
            tried += 1
            known += found
            gained = here.cost - min(one.cost for one in found)
            here = min(here, *found, key=_cost)
            if gained < WORTH:
                break
        else:
            break  # nothing is missing, or enough was tried
    return _each_once(known)


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
class _Hops:
    """Hops with some records; as for `hopped`."""

    task: Task
    prior: Gaussian
    drawn: Sequence[Array]
    sampling: Sampling
    few: Sampling
    sigma: float | Array

    def tried(self, end: Minimum) -> list[Minimum]:
        """Where hops from an end lead, if it lacks a mode."""
        try:
            missing = self.missing(end)
            return self.ends(end, missing) if missing else []
        except np.linalg.LinAlgError:  # no modes to speak of: what follows a charge must not fail
            return []

    def missing(self, end: Minimum) -> list[Missing]:
        """Modes that the records show and an end lacks; none of records that it is far from, since
        modes do not explain the errors of a model.
        """
        if end.cost > NEARLY * len(self.sampling.observed):
            return []
        (values,) = eigenvalues(self.task, end.x[None])
        if not len(values):
            return []
        left = Left.of(self.task, self.prior, end.x, self.sampling, self.sigma)
        return left.modes(ABOVE * float(np.abs(values).max()))

    def ends(self, end: Minimum, missing: Sequence[Missing]) -> list[Minimum]:
        """Where hops from an end lead, polished on all samples."""
        poles, found, kinds = self._goals(end, missing)
        numbers = np.flatnonzero(np.isfinite(poles.at(found, np.arange(len(kinds)))).all(axis=1))
        found, costs = found[numbers], np.zeros(len(numbers))  # of models with modes enough
        for softer in SOFTER:
            found, costs = self._searched(poles.of(numbers, softer=softer), found)
        best = _least_of_each(costs, kinds[numbers], SHOWN)
        numbers, found = numbers[best], found[best]
        for wider in WIDER:
            noise = wider * self.task.sigma(self.few, self.sigma)
            records = WholeResiduals(self.task, self.few, noise)
            shown = RecordsAndPoles(records, poles.of(numbers))
            found, costs = self._searched(shown, found)
            best = _least_of_each(costs, kinds[numbers], TRIED)
            numbers, found = numbers[best], found[best]
        with told_to(None):
            priors, task, sigma = [self.prior] * len(found), self.task, self.sigma
            tried = polish_all(task, priors, list(found), self.few, sigma, ROUNDS, CLOSE, far=FAR)
        ends = sorted((one for one, _ in tried), key=_cost)[:FOLLOWED]
        return self.polished([one.x for one in ends])

    def polished(self, starts: Sequence[Array]) -> list[Minimum]:
        """Explanations near starts (n,), by all samples."""
        with told_to(None):
            priors = [self.prior] * len(starts)
            found = polish_all(self.task, priors, starts, self.sampling, self.sigma)
        return [one for one, _ in found]

    def _goals(self, end: Minimum, missing: Sequence[Missing]) -> tuple[Poles, Array, IntArray]:
        """Where modes are to lie, where searches for that begin (b, n), and of which kind each is.

        From the end, each of its modes goes to each that is missing. From draws of the release,
        modes go to the strong ones, and to the first or all that are missing.
        """
        values, slopes = (part[0] for part in eigenvalue_slopes(self.task, end.x[None]))
        length = self.task.predictor.dt_s * self.sampling.stride * self.sampling.count
        lasts = np.minimum(length, 1 / np.maximum(-values.real, 1 / length))
        explains = 2 / (lasts * spread(slopes, end.slopes, self.prior)) ** 2
        strong, modes = explains > STRONG, len(values)
        goals, number = [], np.arange(modes)
        for kind, one in enumerate(missing):
            for moved in number[:, None] == number:
                targets = np.where(moved, one.value, values)
                widths = np.where(moved, one.width, np.where(strong, FIRM, LOOSE))
                goals.append((targets, widths, end.x, kind))
        for kind, count in enumerate(sorted({1, len(missing)})):
            shown = [(value, FIRM) for value in values[strong]]
            shown += [(one.value, one.width) for one in missing[:count]]
            if len(shown) <= modes:
                shown += [(0j, np.inf)] * (modes - len(shown))
                targets, widths = (np.array(part) for part in zip(*shown, strict=True))
                goals += [(targets, widths, one, len(missing) + kind) for one in self.drawn]
        targets, widths, starts, kinds = (np.stack(part) for part in zip(*goals, strict=True))
        return Poles(self.task, targets, widths), starts, kinds

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


def _each_once(ends: Sequence[Minimum]) -> list[Minimum]:
    """Ends whose costs differ, the best first."""
    found: list[Minimum] = []
    for end in sorted(ends, key=_cost):
        if not found or end.cost - found[-1].cost > SAME:
            found.append(end)
    return found


def _cost(minimum: Minimum) -> float:
    return minimum.cost
