"""J(θ) = Σ_records Σ_n w_n |y_n(θ) − ŷ_n|² for batches of models, with its exact gradient.

Models are linear and start at rest, so an event with several steps is a sum of shifted step
responses, one a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from os import cpu_count, register_at_fork
from typing import Any

import numpy as np

from gridveil.dynamics.engine.lti import LTI, LinearFamily, XArray, namespace
from gridveil.dynamics.engine.propagate import (
    SCHEMES,
    Path,
    SchemeName,
    pull_blocks,
    pull_steps,
    respond_by_blocks,
    respond_by_steps,
    step_responses,
    takes_steps,
    unit_steps,
)
from gridveil.dynamics.engine.records import SampledRecord, SampledRecords

# Models worked on at once: enough to hide Python's share, few enough for the cache.
CHUNK = 16


class Objective:
    """J and dJ/dθ of a linear family against records; θ may carry a leading batch axis.

    family : its inputs are what the records' steps name, its outputs are what the records hold.
    """

    def __init__(
        self,
        family: LinearFamily,
        records: Sequence[SampledRecord],
        *,
        dt_s: float,
        scheme: SchemeName = "exact",
        path: Path = "auto",
        xp: Any = np,
    ) -> None:
        self.family = family
        self.dt_s = dt_s
        self.scheme: SchemeName = scheme
        self.records = SampledRecords.of(records)
        self.path: Path = path
        self._xp = xp
        self._layout = self.records.layout()
        self._observed = xp.asarray(self.records.observed)
        self._double_weights = xp.asarray(2.0 * self.records.weights)
        self._unit_steps: XArray | None = None
        self._single = self.records.one_step_each
        if self._single:
            observed, weights, self._before = self.records.shifted_back()
            self._packed_observed = self._layout.pack(xp.asarray(observed))
            self._packed_double_weights = self._layout.pack(xp.asarray(2.0 * weights))
            self._even_weight = (
                float(weights[0, 0, 0]) if (weights == weights[0, 0, 0]).all() else None
            )

    def __call__(self, theta: XArray) -> tuple[XArray, XArray]:
        """Return J (...,) and dJ/dθ (..., p) at θ (p,) or (batch, p)."""
        _keep_freed_memory()
        if theta.ndim == 1 or self._xp is not np or len(theta) <= CHUNK:
            # a GPU takes the whole batch at once
            with one_blas_thread():
                return self._evaluate(theta)
        rounds = -(-len(theta) // (CHUNK * _cores()))
        pieces = np.array_split(theta, min(len(theta), rounds * _cores()))
        with one_blas_thread():
            results = list(_pool().map(self._evaluate, pieces))
        return np.concatenate([J for J, _ in results]), np.concatenate([g for _, g in results])

    def predict(self, theta: XArray) -> XArray:
        """Simulate the records at θ: (..., r, N, h)."""
        lti = self.family.lti(theta)
        responses = step_responses(
            lti,
            self.records.inputs,
            self.records.samples,
            dt_s=self.dt_s,
            scheme=self.scheme,
            path=self.path,
        )
        return self.records.predict(responses)

    def _evaluate(self, theta: XArray) -> tuple[XArray, XArray]:
        lti = self.family.lti(theta)
        E, pullback = SCHEMES[self.scheme](lti.F, self.dt_s)
        start = self._start(lti)
        mismatch = self._by_stepping if takes_steps(lti, self.path) else self._by_blocks
        J, E_bar, H_bar = mismatch(E, lti.H, start)
        bar = LTI(pullback(E_bar), H_bar, lti.states)
        return J, self.family.pull(theta, bar)

    def _by_blocks(self, E: XArray, H: XArray, start: XArray) -> tuple[XArray, XArray, XArray]:
        responses = respond_by_blocks(E, H, start, self._layout)
        if self._single:
            residual = responses.outputs
            residual -= self._packed_observed
            if self._even_weight is not None:
                # the usual case: no weights to read and no second array to write
                self._layout.clear_padding(residual, len(self.records.steps))
                double = 2.0 * self._even_weight
                E_bar, H_bar = pull_blocks(responses, residual)
                return (
                    double * _half_dot(residual, residual, axes=2) + self._before,
                    double * E_bar,
                    double * H_bar,
                )
            bar = self._packed_double_weights * residual
            J = _half_dot(bar, residual, axes=2) + self._before
        else:
            J, series_bar = self._mismatch(
                self._layout.unpack(responses.outputs, len(self.records.steps))
            )
            bar = self._layout.pack(series_bar)
        return J, *pull_blocks(responses, bar)

    def _by_stepping(self, E: XArray, H: XArray, start: XArray) -> tuple[XArray, XArray, XArray]:
        states, series = respond_by_steps(E, H, start, self.records.samples)
        J, series_bar = self._mismatch(series)
        return J, *pull_steps(E, H, states, series_bar)

    def _mismatch(self, responses: XArray) -> tuple[XArray, XArray]:
        """J of step responses (..., c, N, h), and its derivative by them."""
        residual = self.records.predict(responses) - self._observed
        bar = self._double_weights * residual
        return _half_dot(bar, residual, axes=3), self.records.distribute(bar)

    def _start(self, lti: LTI) -> XArray:
        if self._unit_steps is None:
            self._unit_steps = unit_steps(lti, self.records.inputs)
        return self._unit_steps


def _half_dot(a: XArray, b: XArray, axes: int) -> XArray:
    """½ Σ a b over records or blocks: all axes of a record (3) or of a block matrix (2), never the
    batch.
    """
    xp = namespace(a)
    flat = (*a.shape[:-axes], -1)
    return 0.5 * xp.vecdot(xp.reshape(a, flat), xp.reshape(b, flat))


@cache
def _keep_freed_memory() -> None:
    """Let the C library keep the memory that an evaluation frees, for the next one.

    glibc hands blocks of more than 128 KiB back to the system and faults them in again at each
    evaluation, which takes as long as the arithmetic; it stops doing so below the size of the
    largest block that it has seen freed. Never touched, so free.
    """
    np.empty(31 * 2**20, dtype=np.uint8)


@cache
def _controller() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:  # a bare machine: OPENBLAS_NUM_THREADS says it there
        return None
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Small products are slower on several BLAS threads; the cores are used over the batch instead.

    Also a decorator.
    """
    controller = _controller()
    with controller.limit(limits=1, user_api="blas") if controller else nullcontext():
        yield


def _cores() -> int:
    return cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_cores(), thread_name_prefix="gridveil")


# A forked child inherits the pool but not its threads, and would wait for them for ever.
register_at_fork(after_in_child=_pool.cache_clear)
