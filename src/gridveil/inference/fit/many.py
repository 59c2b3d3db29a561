"""Many reduced models fitted at once, each from a start and with a load of its own: a batch of
Levenberg-Marquardt searches in step, on arrays of any library.

    min ½ Σ w/σ² |y(θ) − ŷ|² + ½ Σ λ (x − x₀)²  over the public box, x = log (k_r, m, d), u held.

For research: many seeded draws against one record. Slopes are forward sensitivities through the
same doublings that simulate, so that a batch is matrix products alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gridveil.dynamics.engine.compute import CPU, Compute
from gridveil.dynamics.engine.lti import Constants, XArray, eye, namespace, zeros
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.engine.propagate import (
    SCHEMES,
    Blocks,
    Chain,
    SchemeName,
    slopes_of_exact,
    unit_steps,
)
from gridveil.dynamics.engine.records import SampledRecord, SampledRecords
from gridveil.dynamics.swing import DrivenSwingFamily
from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array

# Longest step of an entry of x; damping, in units of the prior's precision, at its least and most.
CAP, LEAST_DAMPING, MOST_DAMPING = 1.0, 1e-3, 1e15


@dataclass(frozen=True, eq=False)
class Fits:
    """Where searches ended.

    theta : (models, p) = (k_r, m, d).
    cost : (models,); misfit : (models,) Σ w |y − ŷ|² [p.u.² s].
    converged : (models,).
    """

    theta: Array
    cost: Array
    misfit: Array
    converged: Array


class ManyFits:
    """Fits of many models to the same records, each record the answer to a single step of load.

    family : with u as parameters, (k_r, m, d, u); its groups' bounds are the box.
    sigma : standard deviation of a sample [p.u. frequency].
    """

    def __init__(
        self,
        family: DrivenSwingFamily,
        records: Sequence[SampledRecord],
        *,
        dt_s: float,
        sigma: float,
        scheme: SchemeName = "exact",
        compute: Compute = CPU,
    ) -> None:
        if scheme == "trapezoidal":
            raise OptionError(
                "Many fits at once take the scheme exact or euler.", outcome="Nothing was fitted."
            )
        self.family, self.dt_s, self.compute = family, dt_s, compute
        self.scheme: SchemeName = scheme
        self.records = SampledRecords.of(records)
        if not self.records.one_step_each:
            raise OptionError(
                "Many fits at once take records of a single step each.",
                outcome="Nothing was fitted.",
            )
        self._layout = self.records.layout()
        observed, weights, self._before = self.records.shifted_back()
        box = [(group.range.least, group.range.upper) for group in family.groups if group.range]
        sizes = [group.size for group in family.groups if group.range]
        lower, upper = (np.log(np.repeat(end, sizes)) for end in zip(*box, strict=True))
        self._p, self._sigma = sum(sizes), sigma
        self._constants = Constants(
            packed=self._layout.pack(observed),
            roots=np.sqrt(self._layout.pack(weights)) / sigma,
            lower=lower,
            upper=upper,
        )

    def __call__(
        self, theta: Array, u: Array, precision: Array, *, iterations: int = 15, close: float = 1e-6
    ) -> Fits:
        """Fit from θ (models, p), loads u (models, s · g) and prior precision (p,) of log θ.

        close : relative decrease of the cost at which a search ends. Memory is bounded: so many
        models at a time as fit.
        """
        size = self.compute.models(self._numbers_each())
        found = []
        with one_blas_thread():
            for start in range(0, len(theta), size):
                part = slice(start, start + size)
                put = self.compute.put
                ended = self._search(
                    put(theta[part]), put(u[part]), put(precision), iterations, close
                )
                found.append([self.compute.get(one) for one in ended])
        return Fits(*(np.concatenate(part) for part in zip(*found, strict=True)))

    def _numbers_each(self) -> int:
        """Numbers that slopes of one model take, with what they are made of."""
        rows, columns = self._constants.beside(np.empty(0)).packed.shape
        n = 3 * len(self.records.observed[0, 0]) + len(self.records.steps)
        return self._p * (4 * rows * columns + 6 * n * (rows + columns) + 30 * n * n)

    def _search(
        self, theta: XArray, u: XArray, precision: XArray, iterations: int, close: float
    ) -> tuple[XArray, ...]:
        """Step all models, each with a damping of its own, until none moves."""
        xp, own = namespace(theta), self._constants.beside(theta)
        mean = xp.log(theta)
        x = xp.clip(mean, own.lower, own.upper)
        damping, growth = zeros((x.shape[0],), x), 4.0 + zeros((x.shape[0],), x)
        cost, misfit, gradient, curvature = self._expand(x, u, mean, precision)
        done = cost < -1.0  # none
        for _ in range(iterations):
            step = self._step(x, gradient, curvature, damping, precision)
            longest = xp.max(xp.abs(step), axis=-1, keepdims=True)
            step = step * xp.where(longest > CAP, CAP / xp.where(longest > 0, longest, 1.0), 1.0)
            there = xp.where(done[:, None], x, xp.clip(x + step, own.lower, own.upper))
            trial = self._expand(there, u, mean, precision)
            moved = there - x
            promised = -(
                xp.vecdot(gradient, moved)
                + 0.5 * xp.vecdot(moved, (curvature @ moved[..., None])[..., 0])
            )
            gain = cost - trial[0]
            better = (gain > 0) & ~done
            # a promise within rounding of the cost cannot be kept, and need not be
            nothing = ~better & (promised <= 0.1 * close * cost)
            done = done | nothing | (better & (gain <= close * cost) & (damping <= 1.0))
            share = xp.clip(gain / xp.where(promised > 0, promised, 1.0), -1.0, 1.0)
            less = damping * xp.clip(1 - (2 * share - 1) ** 3, 0.1, 2.0)
            less = xp.where(damping > LEAST_DAMPING, less, 0.0 * less)
            more = xp.clip(damping * growth, 10 * LEAST_DAMPING, MOST_DAMPING)
            damping = xp.where(better, less, more)
            growth = xp.where(better, 4.0 + 0.0 * growth, xp.clip(2 * growth, 4.0, 1e6))
            x = xp.where(better[:, None], there, x)
            cost, misfit = (
                xp.where(better, new, old) for new, old in ((trial[0], cost), (trial[1], misfit))
            )
            gradient = xp.where(better[:, None], trial[2], gradient)
            curvature = xp.where(better[:, None, None], trial[3], curvature)
            if bool(xp.all(done)):
                break
        misfit = misfit * self._sigma**2 + self._before
        return xp.exp(x), cost, misfit, xp.astype(done, x.dtype) > 0

    def _step(
        self, x: XArray, gradient: XArray, curvature: XArray, damping: XArray, precision: XArray
    ) -> XArray:
        """Solve for the step; entries on the box that would be pushed out stay."""
        xp, own = namespace(x), self._constants.beside(x)
        unit = eye(x.shape[-1], x)
        fixed = zeros(x.shape, x) > 1.0  # none at first
        step = x
        for _ in range(2):  # a step may push further entries out
            free = xp.astype(~fixed, x.dtype)
            matrix = (curvature + damping[:, None, None] * precision * unit) * (
                free[:, :, None] * free[:, None, :]
            ) + unit * (1 - free)[:, None, :]
            scale = 1 / xp.sqrt(xp.sum(matrix * unit, axis=-1))
            scaled = matrix * scale[:, :, None] * scale[:, None, :]
            right = (scale * gradient * free)[..., None]
            step = -scale * xp.linalg.solve(scaled, right)[..., 0]
            out = ((x <= own.lower) & (step < 0)) | ((x >= own.upper) & (step > 0))
            fixed = fixed | out
        return xp.where(fixed, 0.0 * step, step)

    def _expand(
        self, x: XArray, u: XArray, mean: XArray, precision: XArray
    ) -> tuple[XArray, XArray, XArray, XArray]:
        """Cost, Σ r², gradient (models, p) and Gauss-Newton curvature (models, p, p) at x."""
        xp = namespace(x)
        theta = xp.exp(x)
        r, slopes = self._residuals(xp.concat([theta, u], axis=-1))
        slopes = slopes * theta[..., None]  # by log θ
        off = precision * (x - mean)
        squares = xp.vecdot(r, r)
        cost = 0.5 * squares + 0.5 * xp.vecdot(x - mean, off)
        cost = xp.where(xp.isfinite(cost), cost, np.inf + 0.0 * squares)
        gradient = (slopes @ r[..., None])[..., 0] + off
        curvature = slopes @ slopes.mT + precision * eye(self._p, x)
        return cost, squares, gradient, curvature

    def _residuals(self, theta: XArray) -> tuple[XArray, XArray]:
        """√w (y − ŷ)/σ (models, rows), and its slopes by (k_r, m, d): (models, p, rows)."""
        xp, own = namespace(theta), self._constants.beside(theta)
        lti, dF = self.family.lti(theta), self.family.slopes(theta)
        if self.scheme == "euler":
            E, dE = SCHEMES["euler"](lti.F, self.dt_s)[0], self.dt_s * dF
        else:
            E, dE = slopes_of_exact(lti.F, dF, self.dt_s)
        start = unit_steps(lti, self.records.inputs)
        blocks = Blocks.grow(E, lti.H, start, self._layout)
        dO, d_step = _pushed(blocks.observing, dE)
        dZt, _ = _pushed(blocks.starting, d_step.mT)
        Z = blocks.Zt.mT
        r = own.roots * (blocks.outputs() - own.packed)
        slopes = own.roots * (dO @ Z[:, None, ...] + blocks.O[:, None, ...] @ dZt.mT)
        flat = r.shape[-2] * r.shape[-1]
        return xp.reshape(r, (-1, flat)), xp.reshape(slopes, (r.shape[0], -1, flat))


def _pushed(chain: Chain, dP: XArray) -> tuple[XArray, XArray]:
    """Slopes of a chain's V and of P^count, by slopes of P (models, p, n, n); V₀ has none."""
    xp = namespace(dP)
    dV, rows = zeros((*dP.shape[:-2], chain.rows, dP.shape[-1]), dP), chain.rows
    blocks = 1
    for level, P in enumerate(chain.powers if chain.count > 1 else []):
        more = min(2**level, chain.count - blocks) * rows
        V = chain.V[:, None, :more, :]
        dV = xp.concat([dV, dV[..., :more, :] @ P[:, None, ...] + V @ dP], axis=-2)
        blocks += more // rows
        if 2 * 2**level <= chain.count:
            dP = dP @ P[:, None, ...] + P[:, None, ...] @ dP
    return dV, dP
