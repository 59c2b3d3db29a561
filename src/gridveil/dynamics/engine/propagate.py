"""Step responses of linear models, and their exact derivatives: by blocks, or step by step.

A scheme turns z' = F z into z_{n+1} = E z_n:

=============  =======================================  ==================
scheme         E                                        stable for dt
=============  =======================================  ==================
exact          exp(dt F)                                any
trapezoidal    (I − dt/2 F)⁻¹ (I + dt/2 F)              any
euler          I + dt F                                 up to −2 Re λ/|λ|²
=============  =======================================  ==================

It takes F (..., n, n) and dt, and returns E with its pullback: the function that turns dJ/dE into
dJ/dF.

Small models take whole trajectories as matrix products. With z_{n+1} = E z_n and y_n = H z_n, build
O = [H; HE; …; HE^(b−1)] and Z = [z₀, E^b z₀, E^2b z₀, …] by doubling. Then O Z holds every output
at every sample: sample i + b j in block row i and block column j. No time loop; the derivative runs
back through the same products.

Large models, where powers of E cost more than the steps, take one product a step forwards (z_{n+1}
= E z_n) and one backwards (λ_n = Eᵀ λ_{n+1} + Hᵀ ȳ_n); all states are kept, so that dJ/dE = Σ
λ_{n+1} z_nᵀ is a single product at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Literal

import numpy as np

from gridveil.dynamics.engine.lti import LTI, XArray, namespace, product

SchemeName = Literal["exact", "trapezoidal", "euler"]
Pullback = Callable[[XArray], XArray]
Scheme = Callable[[XArray, float], tuple[XArray, Pullback]]

# Taylor's remainder at a norm of 1/2 is below 2e-17 from this degree on.
TAYLOR_DEGREE = 14


def euler(F: XArray, dt: float) -> tuple[XArray, Pullback]:
    """Explicit Euler, the paper's scheme."""
    return dt * F + _eye(F), lambda E_bar: dt * E_bar


def trapezoidal(F: XArray, dt: float) -> tuple[XArray, Pullback]:
    """Implicit trapezoidal rule: A-stable, second order."""
    xp, eye = namespace(F), _eye(F)
    S = eye - 0.5 * dt * F
    E = xp.linalg.solve(S, eye + 0.5 * dt * F)
    # E = S⁻¹ R gives dE = S⁻¹ (dR − dS E), with dR = −dS = dt/2 dF.
    return E, lambda E_bar: 0.5 * dt * product(xp.linalg.solve(S.mT, E_bar), (E + eye).mT)


def exact(F: XArray, dt: float) -> tuple[XArray, Pullback]:
    """Matrix exponential by scaling, Taylor and squaring: exact for piecewise constant inputs."""
    xp, eye = namespace(F), _eye(F)
    norm = float(xp.max(xp.sum(xp.abs(F), axis=-2))) * dt
    halvings = max(0, ceil(log2(2 * norm))) if norm > 0 else 0
    X = F * (dt / 2.0**halvings)
    horner = [eye + 0.0 * X]  # P_j = I + X P_{j+1} / j
    for j in range(TAYLOR_DEGREE, 0, -1):
        horner.append(eye + product(X, horner[-1]) / j)
    squares = [horner.pop()]
    for _ in range(halvings):
        squares.append(product(squares[-1], squares[-1]))

    def pullback(bar: XArray) -> XArray:
        for P in reversed(squares[:-1]):
            bar = product(bar, P.mT) + product(P.mT, bar)
        X_bar = 0.0 * X
        for j, P in enumerate(reversed(horner), start=1):
            bar = bar / j
            X_bar = X_bar + product(bar, P.mT)
            bar = product(X.mT, bar)
        return X_bar * (dt / 2.0**halvings)

    return squares[-1], pullback


SCHEMES: Mapping[SchemeName, Scheme] = {"exact": exact, "trapezoidal": trapezoidal, "euler": euler}


def _eye(F: XArray) -> XArray:
    return namespace(F).eye(F.shape[-1], dtype=F.dtype)


@dataclass(frozen=True)
class BlockLayout:
    """How samples lie in a block matrix: 2^row_doublings rows of blocks, block_count columns."""

    samples: int
    row_doublings: int
    column_doublings: int
    block_count: int

    @classmethod
    def of(cls, samples: int, outputs: int, columns: int) -> BlockLayout:
        """Choose the block length so that O and Z have about as many entries each."""
        rows = 0
        while 4**rows * outputs < samples * columns:
            rows += 1
        count = -(-samples // 2**rows)
        return cls(samples, rows, (count - 1).bit_length(), count)

    @property
    def block_length(self) -> int:
        """Samples in a block."""
        return 2**self.row_doublings

    def pack(self, series: XArray) -> XArray:
        """Lay a series (..., c, samples, h) out as (..., block_length · h, block_count · c)."""
        xp = namespace(series)
        *lead, c, samples, h = series.shape
        padded = xp.zeros((*lead, c, self.block_count * self.block_length, h), dtype=series.dtype)
        padded[..., :samples, :] = series
        axes = len(lead)
        split = xp.reshape(padded, (*lead, c, self.block_count, self.block_length, h))
        moved = xp.permute_dims(split, (*range(axes), axes + 2, axes + 3, axes + 1, axes))
        return xp.reshape(moved, (*lead, self.block_length * h, self.block_count * c))

    def clear_padding(self, blocks: XArray, columns: int) -> None:
        """Set the places behind the last sample to zero."""
        h = blocks.shape[-2] // self.block_length
        last = self.samples - (self.block_count - 1) * self.block_length
        blocks[..., last * h :, (self.block_count - 1) * columns :] = 0.0

    def unpack(self, blocks: XArray, columns: int) -> XArray:
        """Turn a block matrix back into series (..., c, samples, h)."""
        xp = namespace(blocks)
        *lead, rows, _ = blocks.shape
        h = rows // self.block_length
        axes = len(lead)
        split = xp.reshape(blocks, (*lead, self.block_length, h, self.block_count, columns))
        moved = xp.permute_dims(split, (*range(axes), axes + 3, axes + 2, axes, axes + 1))
        series = xp.reshape(moved, (*lead, columns, self.block_count * self.block_length, h))
        return series[..., : self.samples, :]


@dataclass(frozen=True, eq=False)
class Responses:
    """Outputs of every starting column at every sample, with what the way back needs.

    outputs = O Z : (..., block_length · h, block_count · c).
    """

    outputs: XArray
    O_tape: list[XArray]
    Z_tape: list[XArray]
    O: XArray  # noqa: E741 - the observability matrix
    Z: XArray


def respond_by_blocks(E: XArray, H: XArray, start: XArray, layout: BlockLayout) -> Responses:
    """Compute y_n = H Eⁿ z for every column z of start (..., n, c), laid out in blocks."""
    n = E.shape[-1]
    width = layout.block_count * start.shape[-1]
    O_tape = _grow(E.mT, H.mT, layout.row_doublings)
    last = O_tape[-1]
    Z_tape = _grow(last[..., :n].mT, start, layout.column_doublings)
    O, Z = last[..., n:].mT, Z_tape[-1][..., n : n + width]  # noqa: E741
    return Responses(product(O, Z), O_tape, Z_tape, O, Z)


def pull_blocks(responses: Responses, outputs_bar: XArray) -> tuple[XArray, XArray]:
    """Turn dJ/d(outputs) into dJ/dE and dJ/dH: `respond_by_blocks`, backwards."""
    xp = namespace(outputs_bar)
    n, width = responses.Z.shape[-2:]
    Z_bar = xp.zeros(responses.Z_tape[-1].shape, dtype=outputs_bar.dtype)
    Z_bar[..., n : n + width] = product(responses.O.mT, outputs_bar)
    power_bar = _shrink(responses.Z_tape, Z_bar)[..., :n]
    O_bar = xp.concat([power_bar.mT, product(responses.Z, outputs_bar.mT)], axis=-1)
    first = _shrink(responses.O_tape, O_bar)
    return first[..., :n].mT, first[..., n:].mT


def _grow(P: XArray, V: XArray, doublings: int) -> list[XArray]:
    """Double [P, V] to [P², V, P V] again and again; the last one is [P^N, V, P V, …, P^(N−1) V], N
    = 2^doublings.
    """
    xp = namespace(P)
    n = P.shape[-1]
    if V.ndim < P.ndim:
        V = xp.broadcast_to(V, (*P.shape[:-2], *V.shape))
    tape = [xp.concat([P, V], axis=-1)]
    for _ in range(doublings):
        S = tape[-1]
        R = product(S[..., :n], S)
        tape.append(xp.concat([R[..., :n], S[..., n:], R[..., n:]], axis=-1))
    return tape


def _shrink(tape: list[XArray], S_bar: XArray) -> XArray:
    """Turn the derivative by the last [P, V] of a tape into the derivative by the first."""
    xp = namespace(S_bar)
    n = S_bar.shape[-2]
    for S in reversed(tape[:-1]):
        width = S.shape[-1]
        R_bar = xp.concat([S_bar[..., :n], S_bar[..., width:]], axis=-1)
        before = product(S[..., :n].mT, R_bar)
        before[..., :n] += product(R_bar, S.mT)
        before[..., n:] += S_bar[..., n:width]
        S_bar = before
    return S_bar


def respond_by_steps(E: XArray, H: XArray, start: XArray, samples: int) -> tuple[XArray, XArray]:
    """Compute states (samples, ..., n, c) and outputs (..., c, samples, h) from each column."""
    xp = namespace(E)
    states = xp.empty((samples, *E.shape[:-1], start.shape[-1]), dtype=E.dtype)
    states[0, ...] = start
    for n in range(samples - 1):
        states[n + 1, ...] = E @ states[n, ...]
    outputs = xp.moveaxis(H @ states, (0, -1), (-2, -3))
    return states, outputs


def pull_steps(E: XArray, H: XArray, states: XArray, outputs_bar: XArray) -> tuple[XArray, XArray]:
    """Turn dJ/d(outputs) (..., c, samples, h) into dJ/dE and dJ/dH."""
    xp = namespace(E)
    samples = states.shape[0]
    y_bar = xp.moveaxis(outputs_bar, (-2, -3), (0, -1))
    source = H.mT @ y_bar
    adjoints = xp.empty(states.shape, dtype=E.dtype)
    adjoints[samples - 1, ...] = source[samples - 1, ...]
    for n in range(samples - 2, -1, -1):
        adjoints[n, ...] = E.mT @ adjoints[n + 1, ...] + source[n, ...]
    E_bar = _sum_of_products(adjoints[1:, ...], states[:-1, ...])
    return E_bar, _sum_of_products(y_bar, states)


def _sum_of_products(left: XArray, right: XArray) -> XArray:
    """Σ over samples and columns of left · rightᵀ: (samples, ..., a, c) and (samples, ..., b, c) to
    (..., a, b).
    """
    return _rows(left) @ _rows(right).mT


def _rows(series: XArray) -> XArray:
    xp = namespace(series)
    moved = xp.moveaxis(series, 0, -1)
    return xp.reshape(moved, (*moved.shape[:-2], moved.shape[-2] * moved.shape[-1]))


Path = Literal["auto", "block", "stepping"]

# Above this many states and inputs (about 150 machines), a step costs less than its share of the
# matrix powers.
STEPPING_FROM = 450


def takes_steps(lti: LTI, path: Path) -> bool:
    """Decide whether a model goes the stepping path."""
    return path == "stepping" or (path == "auto" and lti.F.shape[-1] > STEPPING_FROM)


def unit_steps(lti: LTI, inputs: Sequence[int]) -> XArray:
    """Columns z₀ = [0; e_input] that start a unit step of each named input: (n + s, c)."""
    start = np.zeros((lti.F.shape[-1], len(inputs)))
    start[[lti.states + i for i in inputs], range(len(inputs))] = 1.0
    return namespace(lti.F).asarray(start)


def step_responses(
    lti: LTI,
    inputs: Sequence[int],
    samples: int,
    *,
    dt_s: float,
    scheme: SchemeName,
    path: Path = "auto",
    start: XArray | None = None,
) -> XArray:
    """Simulate a unit step of each input, or columns `start` (n + s, c): (..., c, samples, h)."""
    E, _ = SCHEMES[scheme](lti.F, dt_s)
    start = unit_steps(lti, inputs) if start is None else start
    if takes_steps(lti, path):
        return respond_by_steps(E, lti.H, start, samples)[1]
    layout = BlockLayout.of(samples, lti.H.shape[-2], len(inputs))
    return layout.unpack(respond_by_blocks(E, lti.H, start, layout).outputs, len(inputs))
