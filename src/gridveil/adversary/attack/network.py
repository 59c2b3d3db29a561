"""Gauss–Newton inversion of a Kron reduction whose topology the attacker knows.

Unknowns are x = log k of every line, equations the entries of L_red and, where the release carries
it, of K_ac. With c_e the e-th column of C_γ + K_ac C_β, ∂L_red/∂k_e = c_e c_eᵀ and ∂K_ac/∂k_e =
−c_e (C_β,e)ᵀ L_ββ⁻¹ (`gridveil.inference.fit.network`). Levenberg–Marquardt from several starts;
the rank of the Jacobian at the answer says how much of k the release fixes, its null space which
lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.errors import OptionError
from gridveil.foundation.progress import STARTS, stage, start_named
from gridveil.grid.facts import Array, GridFacts, IntArray
from gridveil.grid.parameters import REDUCED_WEIGHT, Range
from gridveil.inference.fit.network import Network, Reduction
from gridveil.inference.posterior import middle

# An entry counts by its relative error, down to this share of the largest of its kind.
FLOOR = 1e-3
# A singular value below this share of the largest is rounding: on IEEE-30 the least true one is
# 1e-4, the largest false 1e-15.
RANK_TOLERANCE = 1e-9
# A line is fixed where it has no more than this part in any direction that the equations leave
# free.
FREE = 1e-5
SOLVED, ITERATIONS, LARGEST_STEP, LARGEST_DAMPING = 1e-13, 200, 2.0, 1e8
LARGEST = 1000  # lines: the Jacobian is dense
EXACT = 1e-9  # a misfit that no other start is preferred to


@dataclass(frozen=True, eq=False)
class Inversion:
    """What the attacker makes of a reduced network.

    weights : (e,) guessed line weights [p.u. power / rad]; lines that nothing fixes stay near the
    start.
    rank : of the Jacobian, so many directions of log k are fixed.
    fixed : (e,) lines that are, each for itself.
    misfit : root mean square of the relative residuals; near 0 where the release is a Kron
    reduction.
    solved : starts that reached the least misfit, of all `starts`.
    """

    weights: Array
    rank: int
    fixed: NDArray[np.bool_]
    misfit: float
    solved: int
    starts: int


def port_patterns(facts: GridFacts, buses: IntArray) -> Array:
    """Ports that are one interior bus each, as patterns (b, f) of load on the interior buses."""
    return (facts.interior[:, None] == buses[None, :]).astype(np.float64)


def invert(
    model: ReducedModel,
    facts: GridFacts,
    bounds: Range,
    patterns: Array | None = None,
    *,
    starts: int = STARTS,
    stop_if_exact: bool = False,
) -> Inversion:
    """Find line weights whose Kron reduction is the model's: from L_red alone, or from L_red and
    K_ac.

    facts : the topology that the attacker knows; bounds : public ones of k, where starts lie.
    patterns : (b, f) what each of the model's columns of K_ac is the answer to; None: K_ac is not
    used.
    stop_if_exact : no further start after one that is exact, whose answer none would be preferred
    to; how many agree then stays open.
    """
    if len(facts.edges) > LARGEST:
        raise OptionError(
            f"The grid has {len(facts.edges)} lines, and this attack works on up to {LARGEST}.",
            outcome="Nothing was attacked.",
        )
    network = Network(facts, np.zeros((len(facts.interior), 0)) if patterns is None else patterns)
    carried = model.K_ac if patterns is not None else np.zeros((len(model.machines), 0))
    problem = _Problem(
        network,
        np.concatenate([model.values[REDUCED_WEIGHT.name], carried.ravel()]),
        len(model.values[REDUCED_WEIGHT.name]),
    )
    found: list[tuple[Array, float]] = []
    for number, start in enumerate(_starts(len(facts.edges), bounds, starts), start=1):
        stage(start_named(number, starts))
        found.append(_descend(problem, start))
        if stop_if_exact and found[-1][1] <= EXACT:
            break
    misfits = np.array([misfit for _, misfit in found])
    solved = misfits <= 2 * misfits.min() + EXACT
    x = found[int(np.argmax(solved))][
        0
    ]  # the first: from the middle of the bounds, if that will do
    rank, fixed = _identified(problem.both(x)[1])
    return Inversion(
        np.exp(x), rank, fixed, float(misfits[np.argmax(solved)]), int(solved.sum()), len(found)
    )


@dataclass(frozen=True, eq=False)
class _Problem:
    """Residuals as a function of log k, each relative to the entry that it is of.

    weights : so many entries are of k_r.
    """

    network: Network
    target: Array
    weights: int

    @cached_property
    def size(self) -> Array:
        """What a residual is relative to: the entry, and a little of the largest one of its
        kind.
        """
        size = np.abs(self.target)
        for kind in (slice(0, self.weights), slice(self.weights, None)):
            size[kind] += FLOOR * size[kind].max(initial=0.0)
        return size

    def residual(self, x: Array) -> Array:
        """Residuals at log k = x."""
        return self._compared(self.network(np.exp(x)))

    def both(self, x: Array) -> tuple[Array, Array]:
        """Residuals at log k = x, and their Jacobian."""
        k = np.exp(x)
        found, of_weights, of_shares = self.network.slopes(k)
        slope = np.concatenate([of_weights, of_shares.reshape(-1, len(k))])
        return self._compared(found), slope * k / self.size[:, None]

    def _compared(self, found: Reduction) -> Array:
        return (np.concatenate([found.weights, found.carried.ravel()]) - self.target) / self.size


def _starts(lines: int, bounds: Range, count: int) -> Iterator[Array]:
    """The middle of the public bounds first, so that what nothing fixes stays at the blind guess;
    then random ones.
    """
    yield np.full(lines, np.log(middle(bounds)))
    random = np.random.default_rng(lines)
    low, high = np.log(bounds.least), np.log(bounds.upper)
    for _ in range(count - 1):
        yield random.uniform(low, high, lines)


def _descend(problem: _Problem, x: Array) -> tuple[Array, float]:
    """Levenberg–Marquardt; the answer and its misfit."""
    damping = 1e-2
    residual, slope = problem.both(x)
    cost = float(residual @ residual)
    for _ in range(ITERATIONS):
        normal, pull = slope.T @ slope, slope.T @ residual
        scale = float(np.trace(normal)) / len(x)
        step, tried_cost = np.zeros_like(x), np.inf
        while not tried_cost < cost and damping < LARGEST_DAMPING:
            damping *= 8
            step = -np.linalg.solve(normal + damping * scale * np.eye(len(x)), pull)
            step *= min(1.0, LARGEST_STEP / max(float(np.abs(step).max()), 1e-300))
            with np.errstate(all="ignore"):
                tried = problem.residual(x + step)
                tried_cost = float(tried @ tried)
        if not tried_cost < cost:
            break
        gain = cost - tried_cost
        x, damping = x + step, max(damping / 64, 1e-13)
        residual, slope = problem.both(x)
        cost = float(residual @ residual)
        if cost <= SOLVED**2 * len(residual) or gain <= 1e-10 * cost or np.abs(step).max() < 1e-13:
            break
    return x, float(np.sqrt(cost / len(residual)))


def _identified(slope: Array) -> tuple[int, NDArray[np.bool_]]:
    """Rank of the Jacobian, and which unknowns have no part in its null space."""
    # Of the triangle alone: it has the same singular values and right vectors, and is small.
    _, singular, right = np.linalg.svd(np.linalg.qr(slope, mode="r"), full_matrices=True)
    rank = int((singular > RANK_TOLERANCE * singular[0]).sum())
    return rank, np.linalg.norm(right[rank:], axis=0) < FREE
