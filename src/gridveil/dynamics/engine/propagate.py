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
from functools import cache
from math import ceil, log2
from typing import Any, Literal

import numpy as np

from gridveil.dynamics.engine.lti import (
    LTI,
    XArray,
    beside,
    eye,
    namespace,
    zeros,
)
from gridveil.dynamics.engine.products import (
    Stack,
    plus_product,
    product,
    sum_of_products,
    transposed,
)
from gridveil.dynamics.engine.single import SingleBlocks

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
    xp, unit = namespace(F), _eye(F)
    S = unit - 0.5 * dt * F
    E = xp.linalg.solve(S, unit + 0.5 * dt * F)
    # E = S⁻¹ R gives dE = S⁻¹ (dR − dS E), with dR = −dS = dt/2 dF.
    return E, lambda E_bar: 0.5 * dt * product(xp.linalg.solve(S.mT, E_bar), (E + unit).mT)


def exact(F: XArray, dt: float) -> tuple[XArray, Pullback]:
    """Matrix exponential by scaling, Taylor and squaring: exact for piecewise constant inputs."""
    unit = _eye(F)
    halvings = _halvings(F, dt)
    X = F * (dt / 2.0**halvings)
    horner = [unit + 0.0 * X]  # P_j = I + X P_{j+1} / j
    for j in range(TAYLOR_DEGREE, 0, -1):
        horner.append(unit + product(X, horner[-1]) / j)
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


def _halvings(F: XArray, dt: float) -> int:
    """How often dt F is halved until its norm is at most 1/2."""
    xp = namespace(F)
    norm = float(xp.max(xp.sum(xp.abs(F), axis=-2))) * dt
    return max(0, ceil(log2(2 * norm))) if norm > 0 else 0


def slopes_of_exact(F: XArray, dF: XArray, dt: float) -> tuple[XArray, XArray]:
    """exp(dt F) (..., n, n), and its slopes along dF (..., p, n, n): `exact`, pushed forwards."""
    unit = _eye(F)
    halvings = _halvings(F, dt)
    X, dX = F * (dt / 2.0**halvings), dF * (dt / 2.0**halvings)
    P, dP, X_each = unit + 0.0 * X, 0.0 * dX, X[..., None, :, :]
    for j in range(TAYLOR_DEGREE, 0, -1):
        dP = (dX @ P[..., None, :, :] + X_each @ dP) / j
        P = unit + product(X, P) / j
    for _ in range(halvings):
        each = P[..., None, :, :]
        dP = dP @ each + each @ dP
        P = product(P, P)
    return P, dP


SCHEMES: Mapping[SchemeName, Scheme] = {"exact": exact, "trapezoidal": trapezoidal, "euler": euler}


def _eye(F: XArray) -> XArray:
    if isinstance(F, np.ndarray) and F.dtype == np.float64:
        return _plain_eye(F.shape[-1])
    return eye(F.shape[-1], F)


@cache
def _plain_eye(n: int) -> XArray:
    unit = np.eye(n)
    unit.flags.writeable = False
    return unit


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
        missing = self.block_count * self.block_length - samples
        behind = zeros((*lead, c, missing, h), series)
        padded = xp.concat([series, behind], axis=-2)
        axes = len(lead)
        split = xp.reshape(padded, (*lead, c, self.block_count, self.block_length, h))
        moved = xp.permute_dims(split, (*range(axes), axes + 2, axes + 3, axes + 1, axes))
        return xp.reshape(moved, (*lead, self.block_length * h, self.block_count * c))

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
class Chain:
    """V = [V₀; V₀ P; V₀ P²; …], grown by doubling.

    V : (..., count · rows, n), with V₀ of so many rows; powers : P, P², P⁴, … as far as V needs
    them, and P itself always.
    """

    V: XArray
    powers: list[XArray]
    rows: int
    count: int

    @classmethod
    def grow(cls, P: XArray, V: XArray, count: int) -> Chain:
        """Double V to [V; V P] and square P, again and again; the last doubling may be in part."""
        rows = V.shape[-2]
        stack, powers, blocks = Stack(V, P, count * rows), [P], 1
        while blocks < count:
            if blocks > 1:
                powers.append(product(powers[-1], powers[-1]))
            more = min(blocks, count - blocks)
            stack.add(more * rows, powers[-1])
            blocks += more
        return cls(stack.V, powers, rows, count)

    def beyond(self) -> XArray:
        """P^count, where count is a power of 2."""
        return product(self.powers[-1], self.powers[-1]) if self.count > 1 else self.powers[-1]

    def shrink(self, V_bar: XArray, beyond_bar: XArray | None = None) -> tuple[XArray, XArray]:
        """Turn the derivatives by V and by P^count into those by V₀ and by P; neither is needed
        afterwards.
        """
        P_bar, blocks = beyond_bar, self.count
        for level in reversed(range(len(self.powers) if self.count > 1 else 0)):
            P, most = self.powers[level], 2**level
            more = min(most, blocks - most) * self.rows
            first, last = V_bar[..., : most * self.rows, :], V_bar[..., most * self.rows :, :]
            back, pairs = transposed(P), [(self.V[..., :more, :].mT, last)]
            if P_bar is not None:  # of P²
                pairs += [(back, P_bar), (P_bar, back)]
            P_bar = sum_of_products(*pairs)
            V_bar = plus_product(first, last, back)
            blocks = most
        if P_bar is None:  # a single block, which does not depend on P
            P_bar = 0.0 * self.powers[0]
        return V_bar, P_bar


@dataclass(frozen=True, eq=False)
class Blocks:
    """What the outputs of every starting column at every sample are made of: they are O Z.

    observing : O = [H; HE; …; HE^(b−1)], (..., b · h, n);
    starting : Zᵀ = [z₀ᵀ; z₀ᵀ (E^b)ᵀ; …], (..., block_count · c, n).
    """

    observing: Chain
    starting: Chain

    @classmethod
    def grow(cls, E: XArray, H: XArray, start: XArray, layout: BlockLayout) -> Blocks:
        """Lay y_n = H Eⁿ z out in blocks, for every column z of start (..., n, c)."""
        observing = Chain.grow(E, H, layout.block_length)
        return cls(observing, Chain.grow(observing.beyond().mT, start.mT, layout.block_count))

    @property
    def O(self) -> XArray:  # noqa: E743 - the observability matrix
        """(..., block_length · h, n)."""
        return self.observing.V

    @property
    def Zt(self) -> XArray:
        """(..., block_count · c, n)."""
        return self.starting.V

    def outputs(self) -> XArray:
        """O Z : (..., block_length · h, block_count · c)."""
        return product(self.O, self.Zt.mT)

    def pull(self, O_bar: XArray, Zt_bar: XArray) -> tuple[XArray, XArray]:
        """Turn dJ/dO and dJ/dZᵀ into dJ/dE and dJ/dH: `grow`, backwards."""
        step_bar = self.starting.shrink(Zt_bar)[1]
        H_bar, E_bar = self.observing.shrink(O_bar, step_bar.mT)
        return E_bar, H_bar

    def pull_outputs(self, bar: XArray) -> tuple[XArray, XArray]:
        """Turn dJ/d(O Z) into dJ/dE and dJ/dH."""
        return self.pull(product(bar, self.Zt), product(bar.mT, self.O))


def grow_blocks(E: XArray, H: XArray, start: XArray, layout: BlockLayout) -> Blocks | SingleBlocks:
    """Lay outputs out in blocks, of one model or of a batch."""
    single = isinstance(E, np.ndarray) and E.ndim == 2 and E.dtype == H.dtype == np.float64
    return (SingleBlocks if single else Blocks).grow(E, H, start, layout)


def respond_by_steps(E: XArray, H: XArray, start: XArray, samples: int) -> tuple[XArray, XArray]:
    """Compute states (samples, ..., n, c) and outputs (..., c, samples, h) from each column."""
    xp = namespace(E)
    state = xp.broadcast_to(start, (*E.shape[:-1], start.shape[-1]))
    states = _stacked(xp, samples, lambda n, before: state if n == 0 else E @ before)
    outputs = xp.moveaxis(H @ states, (0, -1), (-2, -3))
    return states, outputs


def pull_steps(E: XArray, H: XArray, states: XArray, outputs_bar: XArray) -> tuple[XArray, XArray]:
    """Turn dJ/d(outputs) (..., c, samples, h) into dJ/dE and dJ/dH."""
    xp = namespace(E)
    samples = states.shape[0]
    y_bar = xp.moveaxis(outputs_bar, (-2, -3), (0, -1))
    source, back = H.mT @ y_bar, E.mT

    def step(n: int, later: XArray | None) -> XArray:
        own = source[samples - 1 - n, ...]
        return own if later is None else back @ later + own

    adjoints = xp.flip(_stacked(xp, samples, step), axis=0)
    E_bar = _sum_of_products(adjoints[1:, ...], states[:-1, ...])
    return E_bar, _sum_of_products(y_bar, states)


def _stacked(xp: Any, count: int, step: Callable[[int, Any], XArray]) -> XArray:
    """Stack the results of steps, each made of the one before."""
    if xp is np:  # no second copy of what may be large
        first = step(0, None)
        out = np.empty((count, *first.shape), dtype=first.dtype)
        out[0] = first
        for n in range(1, count):
            out[n] = step(n, out[n - 1])
        return out
    found = [step(0, None)]
    for n in range(1, count):
        found.append(step(n, found[-1]))
    return xp.stack(found)


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
    return beside(start, lti.F)


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
    return layout.unpack(grow_blocks(E, lti.H, start, layout).outputs(), len(inputs))
