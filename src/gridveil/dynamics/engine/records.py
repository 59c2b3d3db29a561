"""What was observed, and how step responses add up to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gridveil.dynamics.engine.lti import XArray, namespace, zeros
from gridveil.dynamics.engine.propagate import BlockLayout
from gridveil.grid.facts import Array


@dataclass(frozen=True, eq=False)
class SampledRecord:
    """One event and what was observed of it, on the samples 0 … N−1 of the model's own clock.

    steps : (sample from which it acts, input that it raises by one unit), in any order.
    observed : (N, h) in the unit of the outputs; NaN where nothing was seen.
    weights : (N, h) quadrature weight and confidence [s]; 0 where a value is not to count.
    """

    steps: tuple[tuple[int, int], ...]
    observed: Array
    weights: Array


@dataclass(frozen=True, eq=False)
class SampledRecords:
    """All records on one clock, and the step responses ("columns") that make them up.

    observed, weights : (r, N, h).
    steps : (record, shift in samples, input) of each column.
    """

    observed: Array
    weights: Array
    steps: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, records: Sequence[SampledRecord]) -> SampledRecords:
        """Pad the records to one length; what was not seen gets weight 0."""
        samples = max(len(record.observed) for record in records)
        outputs = records[0].observed.shape[1]
        observed = np.zeros((len(records), samples, outputs))
        weights = np.zeros_like(observed)
        steps: list[tuple[int, int, int]] = []
        for r, record in enumerate(records):
            seen = np.isfinite(record.observed)
            observed[r, : len(seen)] = np.where(seen, record.observed, 0.0)
            weights[r, : len(seen)] = np.where(seen, record.weights, 0.0)
            steps += [(r, shift, column) for shift, column in record.steps]
        return cls(observed, weights, tuple(steps))

    @property
    def samples(self) -> int:
        """Samples on the common clock."""
        return self.observed.shape[1]

    @property
    def inputs(self) -> tuple[int, ...]:
        """Input that each column steps."""
        return tuple(column for _, _, column in self.steps)

    def predict(self, responses: XArray) -> XArray:
        """Add shifted step responses (..., c, N, h) up to records (..., r, N, h)."""
        xp, lead, h = namespace(responses), responses.shape[:-3], responses.shape[-1]
        records: list[XArray] = [zeros((*lead, self.samples, h), responses)] * len(self.observed)
        for c, (r, shift, _) in enumerate(self.steps):
            own = responses[..., c, : self.samples - shift, :]
            records[r] = records[r] + _later(own, shift)
        return xp.stack(records, axis=-3)

    def distribute(self, records_bar: XArray) -> XArray:
        """Turn dJ/d(records) into dJ/d(responses): `predict`, transposed."""
        xp = namespace(records_bar)
        own = [_earlier(records_bar[..., r, shift:, :], shift) for r, shift, _ in self.steps]
        return xp.stack(own, axis=-3) if own else records_bar[..., :0, :, :]

    @property
    def one_step_each(self) -> bool:
        """Whether every record is a single step, so that no responses need adding up."""
        return len({r for r, _, _ in self.steps}) == len(self.steps)

    def shifted_back(self) -> tuple[Array, Array, float]:
        """For single steps: observations and weights from each step on, and what lies before it
        (constant in θ).

        Returns observed and weights of shape (c, N, h), and Σ w ŷ² of the samples before the steps
        and of records without one.
        """
        shape = (len(self.steps), *self.observed.shape[1:])
        observed, weights = np.zeros(shape), np.zeros(shape)
        before = self.weights * self.observed**2
        for c, (r, shift, _) in enumerate(self.steps):
            observed[c, : self.samples - shift] = self.observed[r, shift:]
            weights[c, : self.samples - shift] = self.weights[r, shift:]
            before[r, shift:] = 0.0
        return observed, weights, float(before.sum())

    def layout(self) -> BlockLayout:
        """Choose the block layout for these records."""
        return BlockLayout.of(self.samples, self.observed.shape[2], len(self.steps))


def _later(series: XArray, shift: int) -> XArray:
    """A series (..., N, h) after so many zeros."""
    before = zeros((*series.shape[:-2], shift, series.shape[-1]), series)
    return namespace(series).concat([before, series], axis=-2) if shift else series


def _earlier(series: XArray, shift: int) -> XArray:
    """A series (..., N, h) before so many zeros."""
    after = zeros((*series.shape[:-2], shift, series.shape[-1]), series)
    return namespace(series).concat([series, after], axis=-2) if shift else series
