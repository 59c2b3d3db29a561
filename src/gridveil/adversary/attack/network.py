"""Inversion of a Kron reduction whose topology the attacker knows: a star in closed form, any other
network by Gauss–Newton.

Unknowns are x = log k of every line, equations the entries of L_red and, where the release carries
it, of K_ac. With c_e the e-th column of C_γ + K_ac C_β, ∂L_red/∂k_e = c_e c_eᵀ and ∂K_ac/∂k_e =
−c_e (C_β,e)ᵀ L_ββ⁻¹ (`gridveil.dynamics.kron.kernels`). Levenberg–Marquardt from several starts;
the rank of the Jacobian at the answer says how much of k the release fixes, its null space which
lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.kron.kernels import KronMap, Reduction
from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.errors import OptionError
from gridveil.foundation.progress import STARTS, stage, start_named
from gridveil.grid.facts import Array, GridFacts, IntArray
from gridveil.grid.parameters import REDUCED_WEIGHT, Range
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

    weights : (e,) guessed line weights [p.u. power / rad]; those that nothing fixes stay near the
    start.
    rank : of the Jacobian: the number of directions of log k that are fixed.
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
    """Find line weights whose Kron reduction is the model's: from L_red, or L_red and K_ac.

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
    network = KronMap(facts, np.zeros((len(facts.interior), 0)) if patterns is None else patterns)
    carried = model.K_ac if patterns is not None else np.zeros((len(model.machines), 0))
    reduced = model.values[REDUCED_WEIGHT.name]
    problem = _Problem(network, np.concatenate([reduced, carried.ravel()]), len(reduced))
    solutions: list[tuple[Array, float]] = []
    for number, start in enumerate(_starts(len(facts.edges), bounds, starts), start=1):
        stage(start_named(number, starts))
        solutions.append(_descend(problem, start))
        if stop_if_exact and solutions[-1][1] <= EXACT:
            break
    misfits = np.array([misfit for _, misfit in solutions])
    solved = misfits <= 2 * misfits.min() + EXACT
    # the first: from the middle of the bounds, if that will do
    x = solutions[int(np.argmax(solved))][0]
    rank, fixed = _identified(problem.both(x)[1])
    return Inversion(
        np.exp(x), rank, fixed, float(misfits[np.argmax(solved)]), int(solved.sum()), len(solutions)
    )


@dataclass(frozen=True, eq=False)
class _Problem:
    """Residuals as a function of log k, each relative to the entry that it is of.

    weights : how many entries are of k_r.
    """

    network: KronMap
    target: Array
    weights: int

    @cached_property
    def size(self) -> Array:
        """Scale of a residual: its entry, and a little of the largest entry of its kind."""
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
        reduction, of_weights, of_shares = self.network.slopes(k)
        slope = np.concatenate([of_weights, of_shares.reshape(-1, len(k))])
        return self._compared(reduction), slope * k / self.size[:, None]

    def _compared(self, reduction: Reduction) -> Array:
        reduced = np.concatenate([reduction.weights, reduction.carried.ravel()])
        return (reduced - self.target) / self.size


def _starts(lines: int, bounds: Range, count: int) -> Iterator[Array]:
    """Starts: the middle of the public bounds, where free entries stay, then random ones."""
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


def recover_star(reduced: Array, leaves: int) -> Array:
    """Recover a star's weights from k_r alone: k'_ij = y_i y_j, solved for log y; k_i = y_i Σ y.

    All pairs count alike, so that rounding or noise in one does not decide. Two leaves are in
    series, and two weights cannot be told from one.
    reduced : weights of the complete graph on the leaves, order of `complete_edges` [p.u. power /
    rad].

    >>> recover_star(np.array([1, 1.6, 1, 4, 2.5, 4]), leaves=4).round(9)
    array([ 4., 10., 16., 10.])
    """
    if leaves < 3:
        raise OptionError(
            f"A star of {leaves} leaves cannot be recovered from its reduced weight alone.",
            expected="3 leaves or more, or the column of K_ac of its centre",
            outcome="Nothing was recovered.",
        )
    pairs = np.array(list(combinations(range(leaves), 2)))
    design = np.zeros((len(pairs), leaves))
    design[np.arange(len(pairs)), pairs[:, 0]] = design[np.arange(len(pairs)), pairs[:, 1]] = 1.0
    y = np.exp(np.linalg.lstsq(design, np.log(reduced), rcond=None)[0])
    return y * y.sum()


def recover_star_by_share(reduced: Array, share: Array) -> Array:
    """Recover a star's weights from k_r and K_ac of its centre: k'_ij = S K_i K_j, k_i = S K_i.

    reduced : as in `recover_star`; share : (leaves,) the column, k_i / Σ k. Two leaves are enough.

    >>> recover_star_by_share(np.array([1.2]), np.array([0.4, 0.6])).round(9)
    array([2., 3.])
    """
    i, j = np.array(list(combinations(range(len(share)), 2))).T
    total = np.exp(np.mean(np.log(reduced) - np.log(share[i]) - np.log(share[j])))
    return total * share


def is_star(facts: GridFacts) -> bool:
    """Whether a grid is a star: machines at its leaves, one bus without a machine in the middle."""
    if len(facts.interior) != 1 or len(facts.edges) != len(facts.machines):
        return False
    return bool((facts.edges == facts.interior[0]).any(axis=1).all())
