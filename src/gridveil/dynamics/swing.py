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
            minus_eye=-eye,
            nothing=np.zeros(1),
            pair=pair,
            entries=self._entries(i, j),
            fixed=constant[:g, power.start :],  # of p and of inputs
            below=constant[g:],
            output=np.concatenate([sense, np.zeros((len(sense), states - g + inputs))], axis=1),
        )

    def _entries(self, i: IntArray, j: IntArray) -> IntArray:
        """Where L_ii, L_jj, L_ij and L_ji of every edge and then the damping of every machine are
        in the rows of ω̇, and a place behind them for the reference angle's.
        """
        g, width = self._g, self._width
        rows, columns = np.concatenate([i, j, i, j]), np.concatenate([i, j, j, i])
        lines = np.where(columns < g - 1, rows * width + g + columns, g * width)
        return np.concatenate([lines, np.arange(g) * (width + 1)])

    def lti(self, theta: XArray) -> LTI:
        """Build F (..., 3g − 1 + s, 3g − 1 + s); H does not depend on θ."""
        xp, each = namespace(theta), self._constants.of_each(theta)
        F = xp.concat([self._rows(theta), each.below], axis=-2)
        return LTI(F, each.output, self._states)

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
        xp, own = namespace(theta), self._constants.beside(theta)
        each = self._constants.of_each(theta)
        k = xp.concat([theta[..., self._k], each.nothing], axis=-1)
        weights = _at(k, own.pair)
        minus_L = _total(weights)[..., None] * own.minus_eye + weights
        damping = theta[..., self._d, None] * own.minus_eye
        fixed = self._driven(theta, each.fixed)
        rows = xp.concat([damping, minus_L[..., :-1], fixed], axis=-1)
        return rows / theta[..., self._m, None]

    def _driven(self, theta: XArray, fixed: XArray) -> XArray:
        """What of the rows of ω̇ times m belongs to p and to inputs, (..., g, g + s)."""
        del theta
        return fixed

    def pull(self, theta: XArray, bar: LTI) -> XArray:
        """dJ/dθ by hand: the rows of ω̇ are (linear in k_r and d) / m, the rest is constant."""
        return self._pull(self._rows(theta), theta, bar)

    def pull_at(self, lti: LTI, theta: XArray, bar: LTI) -> XArray:
        """The same, with the rows of ω̇ from the model itself."""
        return self._pull(lti.F[..., self._omega, :], theta, bar)

    def _pull(self, rows: XArray, theta: XArray, bar: LTI) -> XArray:
        xp, own, lead = namespace(theta), self._constants.beside(theta), theta.shape[:-1]
        m, rows_bar = theta[..., self._m], bar.F[..., self._omega, :]
        by_m = _total(rows * rows_bar) / m
        scaled = xp.reshape(rows_bar / m[..., None], (*lead, -1))
        nothing = self._constants.of_each(theta).nothing
        entries = _at(xp.concat([scaled, nothing], axis=-1), own.entries)
        # an edge adds to L_ii and L_jj and takes from L_ij and L_ji
        e = self._k.stop
        ii, jj, ij, ji = (entries[..., n * e : (n + 1) * e] for n in range(4))
        return -xp.concat([ii + jj - ij - ji, by_m, entries[..., 4 * e :]], axis=-1)


def _at(array: XArray, places: XArray) -> XArray:
    """Entries along the last axis, in the shape of their places."""
    if isinstance(array, np.ndarray):
        return array.take(places, axis=-1)
    xp = namespace(array)
    found = xp.take(array, xp.reshape(places, (-1,)), axis=-1)
    return xp.reshape(found, (*array.shape[:-1], *places.shape))


def _total(array: XArray) -> XArray:
    """Sum over the last axis; NumPy's own `sum` takes a microsecond more."""
    if isinstance(array, np.ndarray):
        return np.add.reduce(array, -1)
    return namespace(array).sum(array, axis=-1)


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
        return xp.concat([fixed[..., :g], -u], axis=-1)

    def _pull(self, rows: XArray, theta: XArray, bar: LTI) -> XArray:
        xp = namespace(theta)
        u_bar = -bar.F[..., self._omega, self._states :] / theta[..., self._m, None]
        u_bar = xp.reshape(u_bar.mT, (*theta.shape[:-1], -1))
        return xp.concat([super()._pull(rows, theta, bar), u_bar], axis=-1)

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
