"""What batches of reduced swing models answer to an event, and the figures read off it: arrays of
any library, on the CPU or on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np

from gridveil.dynamics.engine.compute import CPU, Compute
from gridveil.dynamics.engine.lti import XArray, namespace, zeros
from gridveil.dynamics.engine.propagate import step_responses
from gridveil.dynamics.events import Event
from gridveil.dynamics.metrics import Metrics, read_arrays
from gridveil.dynamics.simulate import Clock
from gridveil.dynamics.swing import DrivenSwingFamily
from gridveil.grid.facts import Array, GridFacts, complete_edges
from gridveil.grid.parameters import Bounds

# Copies of its answers that reading a batch holds, and matrices that an exponential keeps.
COPIES, MATRICES = 6, 20


@dataclass(frozen=True, eq=False)
class Reduced:
    """Reduced parameters of a batch, those of the swing equations.

    weights : k_r (draws, e).
    inertia, damping : m, d (draws, g).
    u : load of each step on each machine (draws, steps, g).
    """

    weights: XArray
    inertia: XArray
    damping: XArray
    u: XArray

    def lumped(self) -> Reduced:
        """All machines as one."""
        machines = (self.inertia, self.damping, self.u)
        return Reduced(
            self.weights[:, :0], *(part.sum(axis=-1, keepdims=True) for part in machines)
        )

    def some(self, part: slice, put: Callable[[Array], XArray] = np.asarray) -> Reduced:
        """Some of the draws, copied to a device."""
        return Reduced(*(put(getattr(self, field.name)[part]) for field in fields(self)))


class BatchAnswers:
    """Simulates an event, or each of its steps alone, from rest, without a step error.

    lumped : whether all machines are one, of the same ΣG.
    """

    def __init__(
        self,
        facts: GridFacts,
        event: Event,
        bounds: Bounds,
        clock: Clock,
        *,
        lumped: bool = False,
        compute: Compute = CPU,
    ) -> None:
        self.facts, self.event, self.clock, self.compute = facts, event, clock, compute
        rate, gain = facts.governor_rate, facts.droop_gain
        if lumped:
            mean = float(gain @ rate / gain.sum()) if gain.any() else 0.0
            rate, gain = np.array([mean]), np.array([gain[rate > 0].sum()])
        self._machines = len(rate)
        self._family = DrivenSwingFamily(
            complete_edges(len(rate)),
            inputs=len(event.steps),
            governor_rate=rate,
            droop_gain=gain,
            omega_b=facts.omega_b,
            sense=np.eye(len(rate)),
            bounds=bounds,
        )

    def chunks(self, draws: int) -> Iterator[slice]:
        """Cut a batch so that a part holds not too many numbers."""
        g = self._machines
        held = self.clock.steps * g * len(self.event.steps)
        # a GPU's memory is a hard limit: there all copies count
        copies = 1 if self.compute is CPU else COPIES
        size = self.compute.models(max(copies * held, MATRICES * (3 * g) ** 2))
        return (slice(start, min(start + size, draws)) for start in range(0, draws, size))

    def parameters(self, models: Reduced) -> XArray:
        """θ = (k_r, m, d, u) of models, (draws, p)."""
        xp, draws = namespace(models.u), models.u.shape[0]
        driven = xp.reshape(models.u, (draws, -1))
        return xp.concat([models.weights, models.inertia, models.damping, driven], axis=1)

    def A(self, models: Reduced) -> XArray:
        """State matrices (draws, n, n) [1/s]."""
        return self._family.lti(self.parameters(models)).A

    def each(self, models: Reduced) -> XArray:
        """ω of the machines after each step of the event alone, from its moment on (draws, steps, N
        + 1, g) [p.u.].
        """
        lti, count = self._family.lti(self.parameters(models)), len(self.event.steps)
        return step_responses(
            lti, range(count), self.clock.steps + 1, dt_s=self.clock.dt_s, scheme="exact"
        )

    def through(self, models: Reduced) -> XArray:
        """ω of the machines through the event (draws, N + 1, g) [p.u.]."""
        each = self.each(models)
        xp, samples = namespace(each), self.clock.steps + 1
        omega = zeros((each.shape[0], samples, each.shape[-1]), each)
        for column, step in enumerate(self.event.steps):
            shift = self.clock.sample(step.at_s)
            rest = zeros((each.shape[0], shift, each.shape[-1]), each)
            omega = omega + xp.concat([rest, each[:, column, : samples - shift, :]], axis=1)
        return omega

    def read(self, models: Reduced, omega: XArray) -> Metrics:
        """Figures of the whole event (draws,), off ω (draws, N + 1, g)."""
        slopes, settling = self._known(models)
        xp = namespace(slopes)
        largest = xp.argmax(xp.abs(slopes), axis=1)[:, None]
        first = xp.take_along_axis(slopes, largest, axis=1)[:, 0]
        return self._read(omega, models.inertia, first, xp.sum(settling, axis=1))

    def read_each(self, models: Reduced, omega: XArray) -> Metrics:
        """Figures of each step alone (draws, steps), off ω (draws, steps, N + 1, g)."""
        return self._read(omega, models.inertia[:, None, :], *self._known(models))

    def _known(self, models: Reduced) -> tuple[XArray, XArray]:
        """−Σu/Σm [p.u./s] and −Σu/Σ(D + G) [p.u.] of each step (draws, steps)."""
        xp, facts = namespace(models.u), self.facts
        gain = float(facts.droop_gain[facts.governor_rate > 0].sum())
        load = xp.sum(models.u, axis=2)
        inertia, damping = (
            xp.sum(part, axis=1, keepdims=True) for part in (models.inertia, models.damping)
        )
        return -load / inertia, -load / (damping + gain)

    def _read(self, omega: XArray, inertia: XArray, slope: XArray, settling: XArray) -> Metrics:
        frequency = self.facts.frequency_hz
        return read_arrays(self.clock.time_s, omega, inertia, slope, settling, frequency)
