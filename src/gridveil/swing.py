"""The swing model as a linear family: θ = (k_r, m, d), states x = (ω, δ, p)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gridveil.engine.lti import LTI, LinearFamily, XArray, namespace
from gridveil.grid import Array, IntArray
from gridveil.groups import UNITS, Bounds, Group


class SwingFamily(LinearFamily):
    """M ω̇ = −L δ + p − D ω − u;  δ̇ = ω_b ω;  ṗ = −T (p + G ω), with L = C diag(k_r) Cᵀ.

    edges : (e, 2) machine positions; governor_rate T, droop_gain G : (g,).
    drive : (g, s), the load on each machine that input s stands for, u = drive · input [p.u. power].
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
        xp: Any = np,
    ) -> None:
        g, e = len(governor_rate), len(edges)
        self.groups = (
            Group("k_r", e, UNITS["k_r"], bounds.k_r, asset="line"),
            Group("m", g, UNITS["m"], bounds.m, asset="machine"),
            Group("d", g, UNITS["d"], bounds.d, asset="machine"),
        )
        self._k, self._m, self._d = slice(0, e), slice(e, e + g), slice(e + g, e + 2 * g)
        incidence = np.zeros((e, g))
        incidence[np.arange(e), edges[:, 0]] = 1.0
        incidence[np.arange(e), edges[:, 1]] = -1.0
        eye, inputs = np.eye(g), drive.shape[1]
        # The rows of F that hold ω̇, times M, are linear in (k_r, d, 1): one product makes them.
        speed = np.zeros((e + g + 1, g, 3 * g + inputs))
        speed[:e, :, g : 2 * g] = -incidence[:, :, None] * incidence[:, None, :]
        speed[range(e, e + g), range(g), range(g)] = -1.0
        speed[e + g, :, 2 * g : 3 * g] = eye
        speed[e + g, :, 3 * g :] = -drive
        below = np.zeros((2 * g + inputs, 3 * g + inputs))
        below[:g, :g] = omega_b * eye
        below[g : 2 * g, :g] = -np.diag(governor_rate * droop_gain)
        below[g : 2 * g, 2 * g : 3 * g] = -np.diag(governor_rate)
        output = np.concatenate([sense, np.zeros((len(sense), 2 * g + inputs))], axis=1)
        self._g = g
        self._speed = xp.asarray(speed.reshape(e + g + 1, -1))
        self._below = xp.asarray(below)
        self._output = xp.asarray(output)

    def lti(self, theta: XArray) -> LTI:
        """Build F (..., 3g + s, 3g + s); H does not depend on θ."""
        xp = namespace(theta)
        rows = self._speed_rows(theta) / theta[..., self._m, None]
        below = xp.broadcast_to(self._below, (*theta.shape[:-1], *self._below.shape))
        output = xp.broadcast_to(self._output, (*theta.shape[:-1], *self._output.shape))
        return LTI(xp.concat([rows, below], axis=-2), output, 3 * self._g)

    def pull(self, theta: XArray, bar: LTI) -> XArray:
        """dJ/dθ by hand: the ω̇ rows are (linear in k_r and d) / m, the rest is constant."""
        xp = namespace(theta)
        m = theta[..., self._m]
        rows_bar = bar.F[..., : self._g, :] / m[..., None]
        flat = xp.reshape(rows_bar, (*theta.shape[:-1], self._speed.shape[-1]))
        linear = flat @ self._speed[:-1, ...].mT
        k_bar, d_bar = linear[..., self._k], linear[..., self._k.stop :]
        m_bar = -xp.sum(rows_bar * self._speed_rows(theta), axis=-1) / m
        return xp.concat([k_bar, m_bar, d_bar], axis=-1)

    def _speed_rows(self, theta: XArray) -> XArray:
        """M times the ω̇ rows of F: (..., g, 3g + s)."""
        xp = namespace(theta)
        coefficients = xp.concat([theta[..., self._k], theta[..., self._d]], axis=-1)
        basis = self._speed if theta.dtype == self._speed.dtype else xp.astype(self._speed, theta.dtype)
        rows = coefficients @ basis[:-1, ...] + basis[-1, ...]
        return xp.reshape(rows, (*theta.shape[:-1], self._g, -1))
