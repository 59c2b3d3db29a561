"""Which samples of the records a fit compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.engine.records import SampledRecords
from gridveil.grid.facts import Array, IntArray


@dataclass(frozen=True, eq=False)
class Sampling:
    """Which samples of the records are compared, and where each step response is read for them.

    stride : clock steps between two samples that a response is computed at.
    count : how many of them.
    at : for each record, (samples,) numbers of the samples that are used.
    seen : (samples, outputs) True where something was.
    observed : (rows,) all of that, record after record [p.u.].
    weights : (rows,) as in the records [s].
    """

    stride: int
    count: int
    at: tuple[IntArray, ...]
    seen: tuple[NDArray[np.bool_], ...]
    observed: Array
    weights: Array

    @classmethod
    def of(cls, records: SampledRecords, thin: int = 1, until: int | None = None) -> Sampling:
        """Use every observed sample, or every thin-th; several steps must lie a stride apart.

        until : the last clock step after a record's first step of load that is looked at; default:
        all.
        """
        counts = (records.weights > 0).sum(axis=2)
        shifts: list[list[int]] = [
            [shift for r, shift, _ in records.steps if r == record] for record in range(len(counts))
        ]
        used = [np.flatnonzero(row) for row in counts]
        stride = 0
        for numbers, own in zip(used, shifts, strict=True):
            first = own[0] if own else 0
            stride = gcd(
                stride,
                *(int(number) - first for number in np.unique(numbers)),
                *(step - first for step in own),
            )
        stride = max(stride, 1)
        wide = stride * thin
        if all((step - own[0]) % wide == 0 for own in shifts for step in own):
            stride = wide
        last = records.samples if until is None else until
        firsts = [min(own, default=0) for own in shifts]
        at = tuple(
            numbers[((numbers - (own[0] if own else 0)) % stride == 0) & (numbers - first <= last)]
            for numbers, own, first in zip(used, shifts, firsts, strict=True)
        )
        seen = tuple(records.weights[record, numbers] > 0 for record, numbers in enumerate(at))
        observed, weights = (
            np.concatenate(
                [series[record, numbers][seen[record]] for record, numbers in enumerate(at)]
            )
            for series in (records.observed, records.weights)
        )
        longest = max(
            (
                int(numbers[-1]) - first
                for numbers, first in zip(at, firsts, strict=True)
                if len(numbers)
            ),
            default=0,
        )
        return cls(stride, -(-longest // stride) + 1, at, seen, observed, weights)

    def after(
        self, steps: Sequence[tuple[int, int]]
    ) -> tuple[IntArray, list[tuple[NDArray[np.bool_], IntArray]]]:
        """How long after a step of load samples are looked at, in strides: each time once; and for
        each step (record, clock step), its record's samples after it and the places of their times.

        A clock has many more steps than a record has samples: 30 Hz on 10 ms is a sample in three.
        """
        late = [self.at[record] >= shift for record, shift in steps]
        since = [
            (self.at[record][own] - shift) // self.stride
            for (record, shift), own in zip(steps, late, strict=True)
        ]
        times = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *since]))
        return times, [
            (own, np.searchsorted(times, numbers)) for own, numbers in zip(late, since, strict=True)
        ]
