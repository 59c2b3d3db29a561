"""J(θ) = Σ_records Σ_n w_n |y_n(θ) − ŷ_n|² for batches of models, with its exact gradient.

Models are linear and start at rest, so an event with several steps is a sum of shifted step
responses, one a column.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

import numpy as np

from gridveil.dynamics.engine.batch import BatchBlocks
from gridveil.dynamics.engine.lti import (
    LTI,
    Constants,
    LinearFamily,
    XArray,
    namespace,
)
from gridveil.dynamics.engine.products import plus_product, product, sum_of_products
from gridveil.dynamics.engine.propagate import (
    SCHEMES,
    Blocks,
    Path,
    SchemeName,
    grow_blocks,
    pull_steps,
    respond_by_steps,
    step_responses,
    takes_steps,
    unit_steps,
)
from gridveil.dynamics.engine.records import SampledRecord, SampledRecords
from gridveil.dynamics.engine.single import SingleBlocks
from gridveil.grid.facts import Array

# Models that a thread works on at once: with fewer, threads wait for one another between NumPy's
# calls (100 models on two cores: 4.8 ms in halves, 6.4 in quarters); with more, for memory. Up to
# ALONE are left to one thread.
CHUNK, ALONE = 50, 25
# J comes from products of small matrices where it is more than this share of the records' own size;
# below it their rounding would show (2e-11 of J here), and J comes from the residuals.
PLAIN = 1e-4
# NumPy models of up to so many states and inputs are computed in `BatchBlocks`, which are kept for
# the next call up to so many bytes for each core.
MOST_PLACED, KEPT_BYTES = 64, 2**26
# Singular values below this share of the largest are rounding; records of more numbers than this
# are taken as they are.
ROUNDING, MOST_FACTORED = 1e-16, 2**20


class Objective:
    """J and dJ/dθ of a linear family against records; θ may carry a leading batch axis, and be of
    any array library: what is computed stays there.

    family : its inputs are what the records' steps name, its outputs are what the records hold.
    same_bits : one model's sums in an order that is kept from version to version, to the last bit.
    """

    def __init__(
        self,
        family: LinearFamily,
        records: Sequence[SampledRecord],
        *,
        dt_s: float,
        scheme: SchemeName = "exact",
        path: Path = "auto",
        same_bits: bool = False,
    ) -> None:
        self.family = family
        self.dt_s = dt_s
        self.scheme: SchemeName = scheme
        self.records = SampledRecords.of(records)
        self.path: Path = path
        self.same_bits = same_bits
        self._layout = self.records.layout()
        self._unit_steps: dict[Any, XArray] = {}
        self._spare: dict[int, list[BatchBlocks]] = {}
        self._even_weight, self._last_rows, constants = None, 0, {}
        if self.records.one_step_each:
            observed, weights, self._before = self.records.shifted_back()
            if (weights == weights[0, 0, 0]).all():
                self._even_weight = float(weights[0, 0, 0])
            packed, inside = (self._layout.pack(part) for part in (observed, np.ones_like(weights)))
            # rows of O that the last block column has samples of
            self._last_rows = int(inside[:, -1].sum())
            weights = inside if self._even_weight is not None else self._layout.pack(weights)
            constants = {"packed": np.ascontiguousarray(packed), "weights": weights}
        self._constants = Constants(
            observed=self.records.observed, double_weights=2.0 * self.records.weights, **constants
        )

    @cached_property
    def _factors(self) -> Constants:
        """Y as a product, which is thin where records are smooth, and |Y|²."""
        Y = self._constants.beside(np.empty(0)).packed
        left, right = np.eye(len(Y)), Y
        if Y.size <= MOST_FACTORED:
            U, s, _ = np.linalg.svd(Y, full_matrices=False)
            U = U[:, s > ROUNDING * s[0]]
            if U.shape[1] * sum(Y.shape) < Y.size:
                left, right = U, U.T @ Y
        return Constants(left=left, right=right, size=np.sum(Y**2))

    @cached_property
    def _thin(self) -> bool:
        """Whether Y is a thin product, of samples that count alike."""
        if self._even_weight is None:
            return False
        left = self._factors.beside(np.empty(0)).left
        return left.shape[1] < len(left)

    def __call__(self, theta: XArray) -> tuple[XArray, XArray]:
        """Return J (...,) and dJ/dθ (..., p) at θ (p,) or (batch, p)."""
        if not isinstance(theta, np.ndarray):  # a GPU takes the whole batch at once
            return self._evaluate(theta)
        _keep_freed_memory()
        if theta.ndim == 1 or len(theta) <= ALONE:
            with one_blas_thread():
                return self._evaluate(theta)
        rounds = -(-len(theta) // (CHUNK * _cores()))
        pieces = np.array_split(theta, min(len(theta), rounds * _cores()))
        with one_blas_thread():
            results = _on_all_cores(self._evaluate, pieces)
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
        return J, self.family.pull_at(lti, theta, LTI(pullback(E_bar), H_bar, lti.states))

    def _by_blocks(self, E: XArray, H: XArray, start: XArray) -> tuple[XArray, XArray, XArray]:
        if not _is_placed(E, H) or (E.ndim == 2 and self.same_bits):
            return self._by_these(grow_blocks(E, H, start, self._layout), E)
        if E.ndim == 2:  # a batch of one takes less time
            J, E_bar, H_bar = self._by_blocks(E[None], H[None], start)
            return J[0], E_bar[0], H_bar[0]
        blocks = self._placed(E, H, start)
        found = self._by_these(blocks, E)
        self._keep(blocks)
        return found

    def _by_these(
        self, blocks: Blocks | SingleBlocks | BatchBlocks, E: XArray
    ) -> tuple[XArray, XArray, XArray]:
        """J, dJ/dE and dJ/dH by outputs in blocks; nothing refers to the blocks afterwards."""
        if not self.records.one_step_each:
            series = self._layout.unpack(blocks.outputs(), len(self.records.steps))
            J, series_bar = self._mismatch(series)
            E_bar, H_bar = blocks.pull_outputs(self._layout.pack(series_bar))
            return J, E_bar, H_bar
        weight = 1.0 if self._even_weight is None else self._even_weight
        if isinstance(blocks, BatchBlocks) and self._thin:
            size = self._factors.beside(E).size
            J = self._exactly(blocks.against_record(size), size, blocks.O, blocks.Zt)
            E_bar, H_bar = blocks.pull()
        elif E.ndim > 2 and isinstance(blocks, Blocks) and self._even_weight is not None:
            J, O_bar, Zt_bar = self._by_products(blocks.O, blocks.Zt)
            E_bar, H_bar = blocks.pull(O_bar, Zt_bar)
        else:
            residual = bar = self._residual(blocks.outputs())
            if self._even_weight is None:
                bar = self._constants.beside(residual).weights * residual
            J = _dot(bar, residual, axes=2)
            E_bar, H_bar = blocks.pull_outputs(bar)
        double = 2.0 * weight
        return weight * J + self._before, double * E_bar, double * H_bar

    def _placed(self, E: Array, H: Array, start: Array) -> BatchBlocks:
        """Outputs of a NumPy batch, in blocks that one of its size left, or in new ones."""
        models = len(E)
        try:
            blocks = self._spare[models].pop()
        except (KeyError, IndexError):
            record = self._factors.beside(E) if self._thin else None
            blocks = BatchBlocks(models, H.shape[-2], start, self._layout, record, self._last_rows)
        blocks.grow(E, H)
        return blocks

    def _keep(self, blocks: BatchBlocks) -> None:
        """Leave blocks that nothing refers to any more to another batch, whichever thread's."""
        self._spare.setdefault(len(blocks.O), []).append(blocks)
        while self._spare and self._kept_bytes() > KEPT_BYTES * _cores():
            self._spare.pop(next(iter(tuple(self._spare)), 0), None)  # the size that came first

    def _kept_bytes(self) -> int:
        return sum(own.nbytes for some in tuple(self._spare.values()) for own in tuple(some))

    def _residual(self, outputs: XArray) -> XArray:
        """R = O Z − Y, and 0 behind the last sample where nothing else weighs it so."""
        own = self._constants.beside(outputs)
        if not isinstance(outputs, np.ndarray):
            residual = outputs - own.packed
            return residual if self._even_weight is None else own.weights * residual
        outputs -= own.packed
        if self._even_weight is not None:
            outputs[..., self._last_rows :, -len(self.records.steps) :] = 0.0
        return outputs

    def _by_products(self, O: XArray, Zt: XArray) -> tuple[XArray, ...]:  # noqa: E741
        """Σ R², R Zᵀ and Rᵀ O of a batch with an even weight, without R = O Z − Y, which is most of
        what has to be moved: R Zᵀ = O (Z Zᵀ) − Y Zᵀ and Rᵀ O = Zᵀ (Oᵀ O) − Yᵀ O, where Y is the
        same for all models and often of low rank.

        The last block column may be cut short: what the last rows of O see of it is taken out.
        """
        own = self._factors.beside(O)
        OO, ZZ = product(O.mT, O), product(Zt.mT, Zt)
        of_O, of_Z = product(own.left.mT, O), product(own.right, Zt)
        O_bar = sum_of_products((O, ZZ), (own.left, -of_Z))
        Zt_bar = sum_of_products((Zt, OO), (own.right.mT, -of_O))
        J = _dot(OO, ZZ, axes=2) - 2.0 * _dot(of_O, of_Z, axes=2) + own.size
        rows, column = self._last_rows, Zt.shape[-2] - len(self.records.steps)
        if rows < O.shape[-2]:
            tail, last = O[..., rows:, :], Zt[..., column:, :]
            outside = product(tail, last.mT)
            O_bar = plus_product(O_bar, -outside, last, rows)
            Zt_bar = plus_product(Zt_bar, -outside.mT, tail, column)
            J = J - _dot(outside, outside, axes=2)
        return self._exactly(J, own.size, O, Zt), O_bar, Zt_bar

    def _exactly(self, J: XArray, size: XArray, O: XArray, Zt: XArray) -> XArray:  # noqa: E741
        """Σ R² of a batch (models,), by residuals where it is a small part of |Y|².

        A few at a time: of NumPy's so many that none leaves the cache.
        """
        xp, chosen = namespace(O), PLAIN * size > J
        if not bool(xp.any(chosen)):
            return J
        (places,) = xp.nonzero(chosen)
        few, found = (4 if isinstance(O, np.ndarray) else 4096), []
        count = places.shape[0]
        for start in range(0, count, few):
            own = places[start : min(start + few, count)]
            outputs = product(xp.take(O, own, axis=0), xp.take(Zt, own, axis=0).mT)
            residual = self._residual(outputs)
            found.append(_dot(residual, residual, axes=2))
        counted = xp.cumulative_sum(xp.astype(chosen, places.dtype)) - 1
        exact = xp.take(xp.concat(found), xp.clip(counted, 0, count - 1), axis=0)
        return xp.where(chosen, exact, J)

    def _by_stepping(self, E: XArray, H: XArray, start: XArray) -> tuple[XArray, XArray, XArray]:
        states, series = respond_by_steps(E, H, start, self.records.samples)
        J, series_bar = self._mismatch(series)
        return J, *pull_steps(E, H, states, series_bar)

    def _mismatch(self, responses: XArray) -> tuple[XArray, XArray]:
        """J of step responses (..., c, N, h), and its derivative by them."""
        own = self._constants.beside(responses)
        residual = self.records.predict(responses) - own.observed
        bar = own.double_weights * residual
        return 0.5 * _dot(bar, residual, axes=3), self.records.distribute(bar)

    def _start(self, lti: LTI) -> XArray:
        key = namespace(lti.F)
        if key not in self._unit_steps:
            self._unit_steps[key] = unit_steps(lti, self.records.inputs)
        return self._unit_steps[key]


def _is_placed(E: XArray, H: XArray) -> bool:
    """Whether models are computed in `BatchBlocks`."""
    plain = isinstance(E, np.ndarray) and E.dtype == H.dtype == np.float64
    return plain and E.ndim <= 3 and E.shape[-1] <= MOST_PLACED


def _on_all_cores(
    work: Callable[[Array], tuple[Array, Array]], pieces: Sequence[Array]
) -> list[tuple[Array, Array]]:
    """Do the work on every piece, in this thread too: it need not be woken."""
    found: list[Any] = [None] * len(pieces)
    left = iter(range(len(pieces)))  # each piece is taken by one thread

    def some() -> None:
        try:
            for number in left:
                found[number] = work(pieces[number])
        except BaseException:  # Ctrl-C, too: nobody begins another piece
            deque(left, maxlen=0)
            raise

    others = [_pool().submit(some) for _ in range(min(_cores(), len(pieces)) - 1)]
    try:
        some()
    finally:  # one that has not begun would find nothing left
        begun = [other for other in others if not other.cancel()]
        wait(begun)
    for other in begun:
        other.result()
    return found


def _dot(a: XArray, b: XArray, axes: int) -> XArray:
    """Σ a b over records or blocks: all axes of a record (3) or of a block matrix (2), never the
    batch.
    """
    xp, flat = namespace(a), (*a.shape[:-axes], -1)
    if xp is np:
        return np.vecdot(a.reshape(flat), b.reshape(flat))
    return xp.vecdot(xp.reshape(a, flat), xp.reshape(b, flat))


@cache
def _keep_freed_memory() -> None:
    """Let the C library keep the memory that an evaluation frees, for the next one.

    glibc hands blocks of more than 128 KiB back to the system and faults them in again at each
    evaluation, which takes as long as the arithmetic; it stops doing so below the size of the
    largest block that it has seen freed. Never touched, so free.
    """
    np.empty(31 * 2**20, dtype=np.uint8)


@cache
def _blas_libraries() -> tuple[Any, ...]:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:  # a bare machine: OPENBLAS_NUM_THREADS says it there
        return ()
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Small products are slower on several BLAS threads; the cores are used over the batch instead.

    Also a decorator. Libraries are limited one by one, in half the time that `limit` takes.
    """
    several = [(own, n) for own in _blas_libraries() if (n := own.get_num_threads() or 1) != 1]
    for own, _ in several:
        own.set_num_threads(1)
    try:
        yield
    finally:
        for own, n in several:
            own.set_num_threads(n)
            if hasattr(own, "clear_controlling_thread"):  # others may limit it again
                own.clear_controlling_thread()


@cache
def _cores() -> int:
    return os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_cores(), thread_name_prefix="gridveil")


# A forked child inherits the pool but not its threads, and would wait for them for ever. Windows
# does not fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
