"""The polish: from networks near the records to maxima of the posterior, many in step.

Records are linearised in θ, in which they bend little; Kron, which bends much, is followed exactly
in between. A round costs one linearisation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gridveil.grid.facts import Array
from gridveil.inference.fit.least_squares import Gaussian, Minimum, in_step, minimise_all
from gridveil.inference.fit.problem import report_step
from gridveil.inference.fit.sampling import Sampling
from gridveil.inference.fit.task import NetworkResiduals, Task

# Rounds at most, and the change of the cost at which a polish ends.
ROUNDS, CLOSE = 40, 1e-5
# Steps of a round at most; the round after which a try gives up whose cost is so many times the
# least.
STEPS, GIVE_UP_FROM, FAR = 40, 3, 10.0


def polish(
    task: Task,
    prior: Gaussian,
    start: Array,
    sampling: Sampling,
    sigma: float | Array,
    rounds: int = ROUNDS,
    close: float = CLOSE,
) -> tuple[Minimum, Array]:
    """Go from a start y to the maximum of the posterior: it, and J at first and after each round
    [p.u.² s].
    """
    return polish_all(task, [prior], [start], sampling, sigma, rounds, close)[0]


def polish_all(
    task: Task,
    priors: Sequence[Gaussian],
    starts: Sequence[Array],
    sampling: Sampling,
    sigma: float | Array,
    rounds: int = ROUNDS,
    close: float = CLOSE,
    noise: Sequence[Array | float] | None = None,
    far: float = np.inf,
) -> list[tuple[Minimum, Array]]:
    """Polish from each start, with a prior of its own.

    noise : (rows,) of each, that is taken from the records [σ].
    close : change of the cost at which one ends.
    far : after a few rounds, those give up whose cost is so many times the least.
    Rows of the minima's residuals and slopes are turned, so that they are few: lengths and products
    are those of the records' own.
    """
    deviation = task.sigma(sampling, sigma)
    added = [0.0] * len(starts) if noise is None else noise
    found = []
    each = list(zip(priors, starts, added, strict=True))
    for group in in_step(len(starts), len(starts[0])):
        climbs = [_Climb(task, sampling, deviation, *own) for own in each[group]]
        going = climbs
        while going:
            bent = linearised(task, [one.R for one in going], [one.y for one in going])
            near = [one.near for one in going]
            ends = minimise_all(bent, near, bent.y, iterations=STEPS, tolerance=0.1 * close)
            for one, there in zip(going, ends, strict=True):
                one.move(there, close)
                report_step(one.round, rounds, one.history[-1])
            least = min(one.cost for one in climbs)
            going = [
                one
                for one in going
                if not (one.converged or one.round == rounds)
                and not (one.round >= GIVE_UP_FROM and one.cost > far * least)
            ]
        found += [(one.ended, np.array(one.history)) for one in climbs]
    return found


def linearised(task: Task, R: Sequence[Array], y: Sequence[Array]) -> NetworkResiduals:
    """Records linear in θ at each y (n,), as triangles [R, r]."""
    both, at = np.stack(R), np.stack(y)
    origin = task.coordinates.values_of(at)
    return NetworkResiduals(
        task.coordinates, both[..., :-1], both[..., -1], origin, at, at.shape[1], slice(None)
    )


class _Climb:
    """A polish on its way.

    hold : how firmly y stays near where the records were linearised, in units of the prior.
    R : triangle of slopes and residuals there.
    """

    def __init__(
        self,
        task: Task,
        sampling: Sampling,
        sigma: Array,
        prior: Gaussian,
        start: Array,
        noise: Array | float,
    ) -> None:
        self._task, self._sampling, self._sigma = task, sampling, sigma
        self._prior, self._noise = prior, noise
        self.round, self.hold, self.converged = 0, 0.0, False
        self.history: list[float] = []
        self._take(start, *self._at(start))

    def _at(self, y: Array) -> tuple[float, Array, Array]:
        """Cost, x and residuals [σ] at y."""
        x = self._task.coordinates.of_network_and_machines(y)
        with np.errstate(all="ignore"):
            r = self._task.compare(x, self._sampling) / self._sigma + self._noise
            cost = 0.5 * float(r @ r) + self._prior.cost(y)
        return (cost if np.isfinite(cost) else np.inf), x, r

    def _take(self, y: Array, cost: float, x: Array, r: Array) -> None:
        """Go there, linearise, and note J."""
        self.y, self.cost = y, cost
        self.R = self._task.linearised(x, r, self._sampling, self._sigma)
        self.history.append(float(self._sampling.weights @ (self._sigma * r) ** 2))

    @property
    def near(self) -> Gaussian:
        """The prior, and what holds y."""
        prior, hold = self._prior, self.hold
        mean = (prior.mean + hold * self.y) / (1 + hold)
        return Gaussian(mean, (1 + hold) * prior.precision, prior.lower, prior.upper)

    def move(self, there: Minimum, close: float) -> None:
        """Take or refuse what the round found."""
        self.round += 1
        r = there.residuals
        promised = self.cost - 0.5 * float(r @ r) - self._prior.cost(there.x)
        cost, *rest = self._at(there.x)
        if cost < self.cost:
            fell = self.cost - cost
            gain = fell / max(promised, 1e-300)
            self.converged = fell <= close and self.hold <= 1
            self._take(there.x, cost, *rest)
            if gain > 0.7:
                self.hold = self.hold / 5 if self.hold > 0.05 else 0.0
            elif gain < 0.3:
                self.hold = max(0.1, 2 * self.hold)
        else:
            self.converged = cost - self.cost <= close and self.hold == 0
            self.hold = max(0.1, 4 * self.hold)
            self.history.append(self.history[-1])

    @property
    def ended(self) -> Minimum:
        """Where it stands."""
        slopes = self.R[:, :-1] @ self._task.coordinates.value_slopes(self.y[None])[0]
        return Minimum(self.y, self.cost, self.R[:, -1], slopes, self.round, self.converged)
