"""Members of an ensemble walk along what records leave open, so that they are draws of the
posterior where randomise-then-optimise is not exact.

Records fix some directions far better than the release does, and bend: what they leave open is a
thin curved surface. A step goes along the surface's tangent, as far as the release's own law and
what else the records say allow, and is brought back by Newton's method in the directions across it.
It is taken with the probability that makes the posterior on the surface stationary (Metropolis on a
manifold, after Zappa, Holmes-Cerfon and Goodman, 2018), so a walk can only come nearer to that law.
That Newton's method would lead a step back as well is taken for granted, and not looked at. Across
the surface records are as good as linear, and members are right as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import uniform_filter1d

from gridveil.dynamics.swing import SWING
from gridveil.grid.facts import Array
from gridveil.inference.alike import Belief
from gridveil.inference.fit.outcome import SearchEnd
from gridveil.inference.fit.search import SEARCHED, sampled
from gridveil.inference.normal import FURTHEST, Normal, given_common

# Directions across: those in which the records say so many times as much as the release.
ACROSS = 10.0
STEPS = 32  # of each member
# Share of the way to the middle that a step leaves at first and at most, and by what the rest
# changes after one that was taken or refused.
KEPT, SHORTEST, TAKEN, REFUSED = 0.6, 0.999, 1.2, 0.85
# Rounds of Newton's method, and how near it must come [deviations of what records fix].
ROUNDS, NEAR = 6, 1e-2


def walk(
    ended: SearchEnd, belief: Mapping[str, Belief], members: Array, random: np.random.Generator
) -> Array:
    """Move members y = (log k, log m, log d) (count, n) along what the records leave open."""
    walks, found = _Walks(ended, belief, random), []
    for y in members:
        try:
            found.append(walks.end(y))
        except np.linalg.LinAlgError:  # no surface to walk on: the member stays as it is
            found.append(y)
    return np.stack(found)


@dataclass(frozen=True, eq=False)
class _Records:
    """What the records say at a place.

    half_square : ½ |r|² of all samples [σ]. By y: slopes (q, n) of what they fix across, gradient
    (n,) and curvature (n, n) of ½ |r|².
    """

    half_square: float
    across: Array
    gradient: Array
    curvature: Array


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a member stands.

    u, y : (n,) as normal coordinates, and as logarithms.
    normal : (n, q) orthonormal basis of the directions across; along : (n, n − q) of the others, in
    which the posterior has these curvatures and slopes (n − q,).
    log_density : of the posterior on the surface, up to a constant.
    """

    u: Array
    y: Array
    records: _Records
    normal: Array
    along: Array
    curvature: Array
    slope: Array
    log_density: float


class _Walks:
    """Walks of members, one after the other; steps have the length that the last ones taught.

    Slopes are those of a few hundred samples of each place, which stand for all: `_every` samples
    each.
    """

    def __init__(
        self, ended: SearchEnd, belief: Mapping[str, Belief], random: np.random.Generator
    ) -> None:
        task, self._ended, self._random, self._kept = ended.task, ended, random, KEPT
        self._belief = {name: belief[name] for name in SWING}
        sizes = task.coordinates.facts.sizes
        self._ends = np.cumsum([sizes[name] for name in SWING])[:-1]
        self._noise = task.sigma(ended.sampling, ended.sigma)
        self._few = sampled(task, SEARCHED)
        numbers, _ = task.spread(np.arange(len(self._noise), dtype=float), ended.sampling)
        self._picked = np.concatenate(
            [
                own[at][seen]
                for own, at, seen in zip(numbers, self._few.at, self._few.seen, strict=True)
            ]
        ).astype(np.int64)
        self._every = len(self._noise) / len(self._picked)

    def end(self, first: Array) -> Array:
        """Where a member ends that begins there (n,)."""
        law = self._law(first)
        u = law.coordinates(first)
        y, stretch = law.logs(u)
        J = self._slopes(y)
        strength, V = np.linalg.eigh((J * stretch).T @ (J * stretch))
        strong = strength > ACROSS
        if strong.all():
            return first
        self._across = J @ (stretch[:, None] * V[:, strong]) / np.sqrt(strength[strong])
        self._held = self._across.T @ self._seen(self._residuals(first))
        back = self._back(law, u, self._across.T @ J, V[:, strong])
        if back is None:
            return first
        here = self._place(law, *back)
        for number in range(STEPS):
            if number:
                law = self._law(here.y)
                here = _place(law, law.coordinates(here.y), here.y, here.records)
            there = self._step(law, here)
            rest = (1 - self._kept) * (REFUSED if there is None else TAKEN)
            self._kept = float(np.clip(1 - rest, 0.0, SHORTEST))
            here = here if there is None else there
        return here.y

    def _law(self, y: Array) -> Normal:
        """What the release says of each item, given what those of a member have in common."""
        return given_common(self._belief, np.split(y, self._ends), self._random)

    def _step(self, law: Normal, here: _Place) -> _Place | None:
        """A step, if it is taken."""
        kept = self._kept
        v = (kept - 1) * here.slope / here.curvature
        v += np.sqrt((1 - kept**2) / here.curvature) * self._random.standard_normal(len(v))
        back = self._back(law, here.u + here.along @ v, here.records.across, here.normal)
        if back is None:
            return None
        there = self._place(law, *back)
        returning = there.along.T @ (here.u - there.u)
        odds = there.log_density - here.log_density
        odds += _log_chance(there, returning, kept) - _log_chance(here, v, kept)
        return there if np.log(self._random.random()) < odds else None

    def _back(
        self, law: Normal, u: Array, slopes: Array, normal: Array
    ) -> tuple[Array, Array, Array] | None:
        """Bring u back to the surface across it: u, y and r there; None where it cannot be."""
        before = np.inf
        for _ in range(ROUNDS):
            y, stretch = law.logs(u)
            with np.errstate(all="ignore"):
                r = self._residuals(y)
                missed = self._across.T @ self._seen(r) - self._held
            furthest = np.abs(missed).max(initial=0.0)
            if furthest < NEAR:
                return u, y, r
            if not furthest < before:
                return None
            before = furthest
            u = u - normal @ np.linalg.solve(slopes @ (stretch[:, None] * normal), missed)
            if np.abs(u).max() > FURTHEST:
                return None
        return None

    def _place(self, law: Normal, u: Array, y: Array, r: Array) -> _Place:
        J = self._slopes(y)
        records = _Records(0.5 * float(r @ r), self._across.T @ J, J.T @ self._averaged(r), J.T @ J)
        return _place(law, u, y, records)

    def _residuals(self, y: Array) -> Array:
        """Of all samples (rows,) [σ]."""
        return self._ended.compare(y, self._ended.sampling) / self._noise

    def _seen(self, r: Array) -> Array:
        """Those of the few samples, each counted for all that it stands for."""
        return np.sqrt(self._every) * r[self._picked]

    def _averaged(self, r: Array) -> Array:
        """The same, each with its neighbours, so that noise is not counted for more than it is."""
        whole, there = self._ended.task.spread(r, self._ended.sampling)
        stride = max(1, self._few.stride // self._ended.sampling.stride)
        sums, counts = (
            uniform_filter1d(part.astype(float), stride, axis=1) for part in (whole, there)
        )
        mean = sums / np.maximum(counts, 1 / (2 * stride))
        taken = zip(mean, self._few.at, self._few.seen, strict=True)
        return np.sqrt(self._every) * np.concatenate([own[at][seen] for own, at, seen in taken])

    def _slopes(self, y: Array) -> Array:
        """By y, of the few samples (·, n) [σ]."""
        task, coordinates = self._ended.task, self._ended.task.coordinates
        by_values = task.slopes(coordinates.of_network_and_machines(y), self._few)
        by_values *= (np.sqrt(self._every) / self._noise[self._picked])[:, None]
        return by_values @ coordinates.value_slopes(y[None])[0]


def _place(law: Normal, u: Array, y: Array, records: _Records) -> _Place:
    """See where u is."""
    stretch, q = law.logs(u)[1], len(records.across)
    basis, R = np.linalg.qr((records.across * stretch).T, mode="complete")
    normal, along = basis[:, :q], basis[:, q:]
    felt = stretch[:, None] * along
    curvature, turn = np.linalg.eigh(felt.T @ records.curvature @ felt)
    along = along @ turn
    slope = along.T @ (u + stretch * records.gradient)
    log_density = -0.5 * (u @ u) - records.half_square - np.log(np.abs(R.diagonal())).sum()
    own = 1 + np.maximum(curvature, 0.0)
    return _Place(u, y, records, normal, along, own, slope, float(log_density))


def _log_chance(place: _Place, v: Array, kept: float) -> float:
    """Logarithm of how likely a step v (n − q,) is from a place, up to a constant."""
    variance = (1 - kept**2) / place.curvature
    off = v - (kept - 1) * place.slope / place.curvature
    return float(-0.5 * np.sum(off**2 / variance + np.log(variance)))
