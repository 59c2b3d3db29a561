"""Members of an ensemble that records were fitted to: randomise, then optimise.

A draw of the release's own posterior stands for its mean, noise of the record's size is added to
the record, and what explains both best is a member. Where all is linear and Gaussian such members
are draws of the posterior exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.swing import SWING
from gridveil.foundation.progress import told_to
from gridveil.grid.facts import Array
from gridveil.inference.fit.direct import DirectResiduals, LinearResiduals
from gridveil.inference.fit.least_squares import Gaussian, minimise
from gridveil.inference.fit.network_fit import climbed
from gridveil.inference.fit.outcome import SearchEnd
from gridveil.inference.fit.search import follow, windows
from gridveil.inference.fit.task import NetworkResiduals, triangle
from gridveil.inference.fit.two_stage import _polish

# Rounds of a member's polish at most, and the decrease at which it ends, in nats; how far records
# may lie from linear where none is needed; how far above the other a search may end; steps and last
# decrease of a search with linear records.
ROUNDS, NEAR, LINEAR, WORSE, STEPS, CLOSE = 12, 0.1, 1.0, 100.0, 40, 1e-3


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

    def member(self, mean: Array, random: np.random.Generator) -> Array:
        """The y = (log k, log m, log d, z) that explains a prior around `mean` (n,) and the records
        with fresh noise best.

        It is looked for with records that are linear where the fit ended, and followed from there
        where they are not. Where that does not come to an end, records of few places have several
        explanations, and searches from there stay near it: the member is then looked for from its
        own mean, from the first period of the records to all of them. That one is taken, unless it
        ends far above.
        """
        prior, task, sigma = self.ended.prior, self.ended.task, self.ended.sigma
        near = Gaussian(mean, prior.precision, prior.lower, prior.upper)
        noise = random.standard_normal(len(self._noise))
        start, promised = self._linear(near, noise)
        if abs(self._cost(start, near, noise) - promised) <= LINEAR:
            return start
        perturbed = replace(
            self.ended.sampling, observed=self.ended.sampling.observed - self._noise * noise
        )
        polish = climbed if self.ended.direct else _polish
        with told_to(None):
            near_fit = polish(task, near, start, perturbed, sigma, ROUNDS, NEAR)[0]
            if near_fit.converged or not self.few_places:
                return near_fit.x
            own = np.clip(mean, prior.lower, prior.upper)
            own = follow(DirectResiduals, task, near, sigma, self._parts, own, rough=True).x
            found = polish(task, near, own, perturbed, sigma, ROUNDS, NEAR)[0]
        return found.x if found.cost <= near_fit.cost + WORSE else near_fit.x

    def _linear(self, near: Gaussian, noise: Array) -> tuple[Array, float]:
        """The best y with records linear in θ at where the fit ended, Kron exact; and its cost."""
        coordinates, y = self.ended.task.coordinates, self.ended.minimum.x
        if self.ended.direct:
            r = self.ended.minimum.residuals + noise
            linear = LinearResiduals(self.ended.minimum.slopes, r, y)
            found = minimise(linear, near, near.mean, iterations=STEPS, tolerance=CLOSE)
            return found.x, found.cost
        J, r, x = self._at_end
        R = triangle(np.concatenate([J, (r + noise)[:, None]], axis=1))
        bent = NetworkResiduals(
            coordinates,
            R[:, :-1],
            R[:, -1],
            coordinates.values(x),
            y,
            slice(0, len(y)),
            np.arange(J.shape[1]),
        )
        count = len(y) - len(coordinates.of_events)
        start = np.concatenate([near.mean[:count], y[count:]])
        found = minimise(bent, near, start, iterations=STEPS, tolerance=CLOSE)
        return found.x, found.cost

    def _cost(self, y: Array, near: Gaussian, noise: Array) -> float:
        with np.errstate(all="ignore"):
            r = self.ended.compare(y, self.ended.sampling) / self._noise + noise
            return 0.5 * float(r @ r) + near.cost(y)

    @cached_property
    def _noise(self) -> Array:
        """Deviation of each sample (rows,) [p.u.]."""
        return self.ended.task.sigma(self.ended.sampling, self.ended.sigma)

    @cached_property
    def _at_end(self) -> tuple[Array, Array, Array]:
        """Slopes and residuals [σ] where the fit ended, and x there."""
        task = self.ended.task
        x = task.coordinates.of_network_and_machines(self.ended.minimum.x)
        J = task.slopes(x, self.ended.sampling) / self._noise[:, None]
        return J, task.compare(x, self.ended.sampling) / self._noise, x

    @cached_property
    def _parts(self) -> list[int]:
        """Windows of the records to look at in turn."""
        facts = self.ended.task.coordinates.facts
        ends = np.cumsum([facts.sizes[name] for name in SWING])
        middle = np.split(np.exp(self.ended.prior.mean[: ends[-1]]), ends[:-1])
        return windows(self.ended.task, reduced_model(facts, dict(zip(SWING, middle, strict=True))))
