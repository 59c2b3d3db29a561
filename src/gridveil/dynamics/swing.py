"""The swing model as a linear family: θ = (k_r, m, d), states x = (ω, δ, p), angles counted from
the last machine's.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gridveil.dynamics.engine.lti import (
    LTI,
    Constants,
    LinearFamily,
    XArray,
    namespace,
    zeros,
)
from gridveil.grid.facts import Array, IntArray
from gridveil.grid.parameters import Bounds, Group, slices

# The protected parameters that the swing equations have; others are those of devices.
SWING: tuple[str, ...] = ("k", "m", "d")
REDUCED_SWING: tuple[str, ...] = ("k_r", "m", "d")


class SwingFamily(LinearFamily):
    """M ω̇ = −L δ + p − D ω − u;  δ̇ = ω_b ω;  ṗ = −T (p + G ω), with L = C diag(k_r) Cᵀ.

    Only differences of angles act, so the last machine's angle is the reference and 3g − 1 states
    remain.

    edges : (e, 2) machine positions; governor_rate T, droop_gain G : (g,).
    drive : (g, s), the load on each machine that input s stands for, u = drive · input [p.u.
    power].
    sense : (h, g), outputs y = sense · ω [p.u. frequency].
    """

    def __init__(
        self,
        edges: IntArray,
        *,
        governor_rate: Array,
        droop_gain: Array,
        omega_b: float,
        drive: Array,
        sense: Array,
        bounds: Bounds,
    ) -> None:
        g, e = len(governor_rate), len(edges)
        self.groups: tuple[Group, ...] = (
            Group("k_r", e, bounds["k_r"]),
            Group("m", g, bounds["m"]),
            Group("d", g, bounds["d"]),
        )
        self._k, self._m, self._d = slices(self.groups).values()
        i, j = edges.T.astype(np.int64)
        # the edge between two machines; where there is none, a weight of 0 behind the last
        pair = np.full((g, g), e)
        pair[i, j] = pair[j, i] = np.arange(e)
        states, inputs, eye = 3 * g - 1, drive.shape[1], np.eye(g)
        self._omega, self._delta, power = slice(0, g), slice(g, 2 * g - 1), slice(2 * g - 1, states)
        constant = np.zeros((states + inputs, states + inputs))  # with the rows of ω̇ times M
        constant[self._omega, power] = eye
        constant[self._omega, states:] = -drive
        constant[self._delta, self._omega] = omega_b * (eye[:-1] - eye[-1])
        constant[power, self._omega] = -np.diag(governor_rate * droop_gain)
        constant[power, power] = -np.diag(governor_rate)
        self._states, self._g, self._edges, self._width = states, g, (i, j), states + inputs
        self._constants = Constants(
            eye=eye,
            pair=pair.ravel(),
            stencil=np.concatenate([i * g + i, j * g + j, i * g + j, j * g + i]),
            diagonal=np.arange(g) * (g + 1),
            fixed=constant[:g, power.start :],  # of p and of inputs
            below=constant[g:],
            output=np.concatenate([sense, np.zeros((len(sense), states - g + inputs))], axis=1),
        )

    def lti(self, theta: XArray) -> LTI:
        """Build F (..., 3g − 1 + s, 3g − 1 + s); H does not depend on θ."""
        xp, own = namespace(theta), self._constants.beside(theta)
        lead = theta.shape[:-1]
        below = xp.broadcast_to(own.below, (*lead, *own.below.shape))
        F = xp.concat([self._rows(theta), below], axis=-2)
        return LTI(F, xp.broadcast_to(own.output, (*lead, *own.output.shape)), self._states)

    @cached_property
    def _moved(self) -> Constants:
        """∂(m times the rows of ω̇)/∂(k_r, m, d), (e + 2g, g, 3g − 1 + s): constant, and 0 by m.

        Of the size of `slopes`, so it is made for them alone.
        """
        (i, j), g = self._edges, self._g
        lines, machines = np.arange(len(i)), np.arange(g)
        moved = np.zeros((self._d.stop, g, self._width))
        for own, other in ((i, j), (j, i)):
            for end, sign in ((own, -1.0), (other, 1.0)):
                kept = end < g - 1  # the last machine's angle is the reference
                moved[lines[kept], own[kept], g + end[kept]] += sign
        moved[self._d.start + machines, machines, machines] = -1.0
        return Constants(moved=moved)

    def slopes(self, theta: XArray) -> XArray:
        """∂F/∂(k_r, m, d), (..., e + 2g, 3g − 1 + s, 3g − 1 + s)."""
        xp, own, lead = namespace(theta), self._constants.beside(theta), theta.shape[:-1]
        rows, m = self._rows(theta), theta[..., self._m]
        by_m = zeros((self._g, self._d.stop), own.eye)
        by_m = xp.concat([by_m[:, : self._m.start], own.eye, by_m[:, self._m.stop :]], axis=1).mT
        upper = self._moved.beside(theta).moved - by_m[:, :, None] * rows[..., None, :, :]
        upper = upper / m[..., None, :, None]
        below = zeros((*lead, self._d.stop, *own.below.shape), upper)
        return xp.concat([upper, below], axis=-2)

    def _rows(self, theta: XArray) -> XArray:
        """The rows of ω̇, (..., g, 3g − 1 + s): (−diag(d), −L, I, −drive) / m."""
        xp, own, lead = namespace(theta), self._constants.beside(theta), theta.shape[:-1]
        k = xp.concat([theta[..., self._k], zeros((*lead, 1), theta)], axis=-1)
        weights = xp.reshape(xp.take(k, own.pair, axis=-1), (*lead, self._g, self._g))
        L = xp.sum(weights, axis=-1)[..., None] * own.eye - weights
        damping = theta[..., self._d, None] * own.eye
        fixed = self._driven(theta, own.fixed)
        rows = xp.concat([-damping, -L[..., :-1], fixed], axis=-1)
        return rows / theta[..., self._m, None]

    def _driven(self, theta: XArray, fixed: XArray) -> XArray:
        """What of the rows of ω̇ times m belongs to p and to inputs, (..., g, g + s)."""
        return namespace(theta).broadcast_to(fixed, (*theta.shape[:-1], *fixed.shape))

    def pull(self, theta: XArray, bar: LTI) -> XArray:
        """dJ/dθ by hand: the rows of ω̇ are (linear in k_r and d) / m, the rest is constant."""
        xp, own = namespace(theta), self._constants.beside(theta)
        lead, g = theta.shape[:-1], self._g
        m, rows_bar = theta[..., self._m], bar.F[..., self._omega, :]
        m_bar = -xp.sum(self._rows(theta) * rows_bar, axis=-1) / m
        scaled = rows_bar / m[..., None]
        d_bar = -xp.take(
            xp.reshape(scaled[..., self._omega], (*lead, g * g)), own.diagonal, axis=-1
        )
        # dJ/dL, with a zero column for the reference angle; an edge adds to L_ii and L_jj and takes
        # from L_ij and L_ji.
        last = zeros((*lead, g, 1), scaled)
        L_bar = xp.reshape(xp.concat([-scaled[..., self._delta], last], axis=-1), (*lead, g * g))
        corners = xp.reshape(xp.take(L_bar, own.stencil, axis=-1), (*lead, 4, -1))
        k_bar = corners[..., 0, :] + corners[..., 1, :] - corners[..., 2, :] - corners[..., 3, :]
        return xp.concat([k_bar, m_bar, d_bar], axis=-1)


class DrivenSwingFamily(SwingFamily):
    """The same with the load of each input on each machine as parameters of their own: θ = (k_r, m,
    d, u).

    For batches whose members have each their own K_ac, and for fits that estimate u.
    u : (s · g,), input after input.
    """

    def __init__(
        self, edges: IntArray, *, inputs: int, governor_rate: Array, **constants: Any
    ) -> None:
        g = len(governor_rate)
        super().__init__(
            edges, governor_rate=governor_rate, drive=np.zeros((g, inputs)), **constants
        )
        self._u = slice(self.size, self.size + inputs * g)
        self.groups += (Group("u", inputs * g, None),)

    def _driven(self, theta: XArray, fixed: XArray) -> XArray:
        """The same, with −u in the input columns."""
        xp, lead, g = namespace(theta), theta.shape[:-1], self._g
        u = xp.reshape(theta[..., self._u], (*lead, -1, g)).mT
        return xp.concat([xp.broadcast_to(fixed[:, :g], (*lead, g, g)), -u], axis=-1)

    def pull(self, theta: XArray, bar: LTI) -> XArray:
        """dJ/dθ by hand."""
        xp = namespace(theta)
        u_bar = -bar.F[..., self._omega, self._states :] / theta[..., self._m, None]
        return xp.concat(
            [super().pull(theta, bar), xp.reshape(u_bar.mT, (*theta.shape[:-1], -1))], axis=-1
        )

    def directions(self, theta: Array, moving: IntArray) -> tuple[Array, Array]:
        """∂F/∂θ_p = [left_p; 0] right_pᵀ for the entries `moving` of θ (p,): left (moving, g) and
        right (moving, 3g − 1 + s).

        Every parameter stands in rows of ω̇ alone and acts through one signal: an angle, ω̇ itself,
        ω, or an input.
        """
        g, m, rows = self._g, theta[self._m], self._rows(theta)
        n = rows.shape[-1]
        left, right = np.zeros((self.size, g)), np.zeros((self.size, n))
        lines, machines = np.arange(self._k.stop), np.arange(g)
        i, j = self._edges
        left[lines, i], left[lines, j] = -1 / m[i], 1 / m[j]
        for ends, sign in ((i, 1.0), (j, -1.0)):
            own = ends < g - 1  # the last machine's angle is the reference
            right[lines[own], self._delta.start + ends[own]] = sign
        left[self._m.start + machines, machines], right[self._m] = -1 / m, rows
        left[self._d.start + machines, machines], right[self._d, self._omega] = -1 / m, np.eye(g)
        for number in range(n - self._states):
            place = self._u.start + number * g + machines
            left[place, machines], right[place, self._states + number] = -1 / m, 1.0
        return left[moving], right[moving]
