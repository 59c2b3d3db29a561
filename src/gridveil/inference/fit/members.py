"""Members of an ensemble that records were fitted to: randomise, then optimise.

A draw of the release's own posterior stands for its mean, noise of the record's size is added to
the record, and what explains both best is a member. Where all is linear and Gaussian such members
are draws of the posterior exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.swing import SWING
from gridveil.grid.facts import Array
from gridveil.inference.fit.direct import DirectResiduals, LinearResiduals
from gridveil.inference.fit.least_squares import (
    Gaussian,
    Minimum,
    in_step,
    minimise,
    minimise_all,
)
from gridveil.inference.fit.network_fit import climbed
from gridveil.inference.fit.outcome import SearchEnd
from gridveil.inference.fit.polish import FAR, linearised, polish_all
from gridveil.inference.fit.search import MANY_MACHINES, explore, follow, windows
from gridveil.inference.fit.task import WholeResiduals, triangle

# Rounds of a member's polish at most, and the decrease at which it ends, in nats; how far records
# may lie from linear where none is needed; how far above the other a search may end; steps and last
# decrease of a search with linear records.
ROUNDS, NEAR, LINEAR, WORSE, STEPS, CLOSE = 40, 0.1, 1.0, 100.0, 40, 1e-3
# Explanations that a member is followed from, of several.
LIKELIEST = 2


@dataclass(frozen=True, eq=False)
class Members:
    """Makes members around where a fit ended."""

    ended: SearchEnd

    @property
    def few_places(self) -> bool:
        """Whether fewer places than machines were recorded, so that several models explain them."""
        coordinates = self.ended.task.coordinates
        few = coordinates.locations < len(coordinates.facts.machines)
        return few and not coordinates.unknowns.size

    def members(self, means: Array, random: np.random.Generator) -> Array:
        """The y = (log k, log m, log d, z) that explain priors around `means` (count, n) and the
        records with fresh noise best: (count, n).

        They are looked for with records that are linear where the fit ended, and followed from
        there where they are not. Records of few places may have several explanations, and searches
        from there stay near one: each member is then looked for from its own mean as well, from
        the first period of the records to all of them, and from other explanations that the fit
        found, and the best of all is taken.
        """
        groups = in_step(*means.shape)
        return np.concatenate([self._in_step(means[group], random) for group in groups])

    def _in_step(self, means: Array, random: np.random.Generator) -> Array:
        near = [replace(self.ended.prior, mean=mean) for mean in means]
        noise = random.standard_normal((len(means), len(self._noise)))
        many = self.ended.direct or len(self.ended.task.coordinates.facts.machines) > MANY_MACHINES
        if self.few_places and not many:
            return self._among_several(near, noise)
        linear, fitted = self._linear(near, noise), self.ended.minimum.x
        found = np.stack([one.x for one in linear])
        bent = []
        for number, (one, prior, fresh) in enumerate(zip(linear, near, noise, strict=True)):
            cost = self._cost(one.x, prior, fresh)
            if abs(cost - one.cost) > LINEAR:
                bent.append(number)
                found[number] = one.x if cost < self._cost(fitted, prior, fresh) else fitted
        followed = self._polished(near, noise, bent, list(found[bent]))
        for number, one in zip(bent, followed, strict=True):
            found[number] = one.x
        return (
            self._from_own_means(near, noise, found, bent, followed) if self.few_places else found
        )

    def _among_several(self, near: Sequence[Gaussian], noise: Array) -> Array:
        """Where several models explain the records: each member is looked for near those that, with
        records linear there, explain its own draw and noise best, and from its own draw on.
        """
        ended, task = self.ended, self.ended.task
        known = [ended.minimum.x, *ended.others]
        linear = [self._linear(near, noise, y) for y in known]
        promised = np.array([[one.cost for one in ends] for ends in linear])
        pairs, starts = [], []
        for number, (prior, fresh) in enumerate(zip(near, noise, strict=True)):
            for one in np.argsort(promised[:, number], kind="stable")[:LIKELIEST]:
                both = linear[one][number].x, known[one]
                costs = [self._cost(y, prior, fresh) for y in both]
                pairs.append(number)
                starts.append(both[int(np.argmin(costs))])
        lower, upper = ended.prior.lower, ended.prior.upper
        means = [np.clip(prior.mean, lower, upper) for prior in near]
        starts += explore(task, near, means, ended.sigma, self._parts)
        pairs += range(len(near))
        ends = self._polished(near, noise, pairs, starts, FAR)
        best: dict[int, Minimum] = {}
        for number, end in zip(pairs, ends, strict=True):
            if number not in best or end.cost < best[number].cost:
                best[number] = end
        return np.stack([best[number].x for number in range(len(near))])

    def _from_own_means(
        self,
        near: Sequence[Gaussian],
        noise: Array,
        found: Array,
        bent: Sequence[int],
        followed: Sequence[Minimum],
    ) -> Array:
        """Of many machines, where a search takes seconds: look from their own means for members
        whose search did not come to an end. What it finds is taken, unless it ends far above.
        """
        prior, task, sigma = self.ended.prior, self.ended.task, self.ended.sigma
        lost = [
            (number, one.cost)
            for number, one in zip(bent, followed, strict=True)
            if not one.converged
        ]
        own = [
            follow(
                DirectResiduals if self.ended.direct else WholeResiduals,
                task,
                near[number],
                sigma,
                self._parts,
                np.clip(near[number].mean, prior.lower, prior.upper),
                rough=True,
            ).x
            for number, _ in lost
        ]
        others = self._polished(near, noise, [number for number, _ in lost], own)
        for (number, cost), one in zip(lost, others, strict=True):
            if one.cost <= cost + WORSE:
                found[number] = one.x
        return found

    def _polished(
        self,
        near: Sequence[Gaussian],
        noise: Array,
        numbers: Sequence[int],
        starts: Sequence[Array],
        far: float = np.inf,
    ) -> list[Minimum]:
        """Follow some members from starts; far : as for `polish_all`."""
        ended, priors = self.ended, [near[number] for number in numbers]
        if not numbers:
            return []
        if not ended.direct:
            fresh = [noise[number] for number in numbers]
            sampling, sigma = ended.sampling, ended.sigma
            found = polish_all(
                ended.task, priors, starts, sampling, sigma, ROUNDS, NEAR, fresh, far
            )
            return [one for one, _ in found]
        minima = []
        for number, start in zip(numbers, starts, strict=True):
            observed = ended.sampling.observed - self._noise * noise[number]
            perturbed = replace(ended.sampling, observed=observed)
            found, _ = climbed(
                ended.task, near[number], start, perturbed, ended.sigma, ROUNDS, NEAR
            )
            minima.append(found)
        return minima

    def _linear(
        self, near: Sequence[Gaussian], noise: Array, y: Array | None = None
    ) -> list[Minimum]:
        """The best y with records linear in θ at a y, or where the fit ended; Kron exact."""
        if self.ended.direct:
            minimum = self.ended.minimum
            return [
                minimise(
                    LinearResiduals(minimum.slopes, minimum.residuals + own, minimum.x),
                    prior,
                    prior.mean,
                    iterations=STEPS,
                    tolerance=CLOSE,
                )
                for prior, own in zip(near, noise, strict=True)
            ]
        y = self.ended.minimum.x if y is None else y
        J, r = self._slopes_at(y)
        # one triangle for all: what J does not reach counts by its length
        both = triangle(np.concatenate([J, (r + noise).T], axis=1))
        n = J.shape[1]
        R = np.zeros((len(noise), min(n, len(J)) + 1, n + 1))
        R[:, :-1, :-1], R[:, :-1, -1] = both[:n, :n], both[:n, n:].T
        R[:, -1, -1] = np.linalg.norm(both[n:, n:], axis=0)
        count = len(y) - len(self.ended.task.coordinates.of_events)
        starts = np.stack([np.concatenate([prior.mean[:count], y[count:]]) for prior in near])
        bent = linearised(self.ended.task, list(R), [y] * len(near))
        return minimise_all(bent, near, starts, iterations=STEPS, tolerance=CLOSE)

    def _cost(self, y: Array, near: Gaussian, noise: Array) -> float:
        with np.errstate(all="ignore"):
            r = self.ended.compare(y, self.ended.sampling) / self._noise + noise
            return 0.5 * float(r @ r) + near.cost(y)

    @cached_property
    def _noise(self) -> Array:
        """Deviation of each sample (rows,) [p.u.]."""
        return self.ended.task.sigma(self.ended.sampling, self.ended.sigma)

    def _slopes_at(self, y: Array) -> tuple[Array, Array]:
        """Slopes and residuals [σ] at a y."""
        task = self.ended.task
        x = task.coordinates.of_network_and_machines(y)
        J = task.slopes(x, self.ended.sampling) / self._noise[:, None]
        return J, task.compare(x, self.ended.sampling) / self._noise

    @cached_property
    def _parts(self) -> list[int]:
        """Windows of the records to look at in turn."""
        facts = self.ended.task.coordinates.facts
        ends = np.cumsum([facts.sizes[name] for name in SWING])
        middle = np.split(np.exp(self.ended.prior.mean[: ends[-1]]), ends[:-1])
        return windows(self.ended.task, reduced_model(facts, dict(zip(SWING, middle, strict=True))))
