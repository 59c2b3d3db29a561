"""Seeded trials by the million: Laplace noise on every item, Kron, events and figures, in batches
on the CPU or on a GPU.

For research on public cases. Noise is NumPy's, by seed and block, so that every device and every
batch size sees the same; it is no privacy noise, and no release is made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gridveil.dynamics.engine.compute import CPU, Compute
from gridveil.dynamics.engine.lti import XArray, beside, namespace
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduce_each
from gridveil.dynamics.metrics import HORIZON_S, errors
from gridveil.dynamics.models import FullModel
from gridveil.dynamics.simulate import Clock
from gridveil.dynamics.swing import SWING
from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array
from gridveil.grid.parameters import Bounds
from gridveil.grid.tables import PublicTable
from gridveil.planning.answers import BatchAnswers, Reduced

DT_S = 0.05  # between samples only: the scheme is exact
# Draws that one seed makes together.
BLOCK = 1000


class SeededTrials:
    """Draws of a public case, each compared with the case itself after each of some events.

    events : of a single step each, taken from rest.
    """

    def __init__(
        self,
        surrogate: PublicTable,
        events: Sequence[Event],
        bounds: Bounds,
        *,
        dt_s: float = DT_S,
        compute: Compute = CPU,
    ) -> None:
        if not events or any(len(event.steps) != 1 for event in events):
            raise OptionError(
                "Seeded trials take events of a single step of load each.",
                outcome="Nothing was drawn.",
            )
        facts = surrogate.facts
        self.surrogate, self.bounds, self.compute = surrogate, bounds, compute
        steps = tuple(event.steps[0] for event in events)
        full = FullModel(facts, surrogate.values)
        self._felt = np.stack([*(step.loads(full) for step in steps), facts.load_damping])
        self._answer = BatchAnswers(
            facts, Event(steps), bounds, Clock(HORIZON_S, dt_s), compute=compute
        )
        values = {name: compute.put(surrogate.values[name][None]) for name in SWING}
        truth = self._reduced(values)
        self._omega = self._answer.each(truth)
        self._figures = self._answer.read_each(truth, self._omega)

    def run(self, scales: Mapping[str, float], draws: int, seed: int) -> Iterator[dict[str, Array]]:
        """Errors of each draw after each event (some draws, events), by the names of `Comparison`,
        a batch at a time.

        scales : of the noise on k, m and d, each in its unit.
        """
        for part in self._answer.chunks(draws):
            with one_blas_thread():
                yield self._errors(self._drawn(scales, part, seed))

    def _errors(self, values: Mapping[str, XArray]) -> dict[str, Array]:
        models = self._reduced(values)
        omega = self._answer.each(models)
        found = errors(self._answer.read_each(models, omega), self._figures)
        xp = namespace(omega)
        off = xp.reshape(omega - self._omega, (*omega.shape[:2], -1))
        found["L"] = self._answer.clock.dt_s * xp.vecdot(off, off)
        return {name: self.compute.get(own) for name, own in found.items()}

    def _drawn(self, scales: Mapping[str, float], part: slice, seed: int) -> dict[str, XArray]:
        """Noisy values, clipped to the public bounds."""
        first, last = part.start // BLOCK, -(-part.stop // BLOCK)
        sizes = [len(self.surrogate.values[name]) for name in SWING]
        blocks = [
            np.random.default_rng([seed, block]).laplace(size=(BLOCK, sum(sizes)))
            for block in range(first, last)
        ]
        begin = part.start - first * BLOCK
        noise = np.concatenate(blocks)[begin : begin + part.stop - part.start]
        ends, drawn = np.cumsum(sizes), {}
        for name, own in zip(SWING, np.split(noise, ends[:-1], axis=1), strict=True):
            public, z = self.bounds[name], self.compute.put(own)
            truth = beside(self.surrogate.values[name].copy(), z)
            moved = truth + scales[name] * z
            drawn[name] = namespace(z).clip(moved, public.least, public.upper)
        return drawn

    def _reduced(self, values: Mapping[str, XArray]) -> Reduced:
        k, m, d = (values[name] for name in SWING)
        weights, u = reduce_each(self.surrogate.facts, k, self._felt)
        return Reduced(weights, m, d + u[:, -1, :], u[:, :-1, :])


def summary(parts: Iterator[dict[str, Array]]) -> dict[str, tuple[float, float]]:
    """Mean size and 90 % quantile of the size of each error, over draws and events."""
    whole: dict[str, list[Array]] = {}
    for part in parts:
        for name, own in part.items():
            whole.setdefault(name, []).append(np.abs(own).ravel())
    joined = {name: np.concatenate(own) for name, own in whole.items()}
    return {name: (float(own.mean()), float(np.quantile(own, 0.9))) for name, own in joined.items()}
