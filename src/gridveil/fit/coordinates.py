"""Coordinates of the two-stage fit: logarithms of what is positive, sums that are known taken out.

θ = (k_r, m, D, u) and the shares `sense` of recorded interior buses follow from x = (log k_r, log m, log D, v, w), where
u = N v + Σℓ/g and c = N w + 1/g with N (g, g − 1) an orthonormal basis of what sums to 0: the columns of K_ac sum to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gridveil.fit.least_squares import Gaussian
from gridveil.fit.network import Network, Reduction
from gridveil.grid import Array, GridFacts, IntArray
from gridveil.posterior import Posterior

# Draws of the noisy release's posterior that are pushed through Kron for stage 1's prior.
PUSHED = 400
# A reduced weight below this share of the largest in every draw is no connection: another machine's bus lies between.
NO_WEIGHT = 1e-12


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Where x stands for what.

    drive : (n, s) load of each event step at every bus [p.u. power], in the order of facts.buses; h recorded outputs, of which
    sensed : (q, 2) rows of `output, interior bus` are at buses without a machine, and kept : (h − q, 2) `output, machine`.
    linked : positions of the reduced weights that are not zero by topology.
    """

    facts: GridFacts
    drive: Array
    sensed: IntArray
    kept: IntArray
    linked: IntArray

    @cached_property
    def network(self) -> Network:
        """Carries the loads of the steps, a unit at each recorded interior bus, and the interior loads' damping."""
        interior = self.facts.interior
        units = np.zeros((len(interior), len(self.sensed)))
        units[self.sensed[:, 1], np.arange(len(self.sensed))] = 1.0
        damping = self.facts.load_damping[interior, None]
        return Network(self.facts, np.concatenate([self.drive[interior], units, damping], axis=1))

    @cached_property
    def basis(self) -> Array:
        """N (g, g − 1), orthonormal, columns that sum to 0."""
        g = len(self.facts.machines)
        return np.linalg.qr(np.concatenate([np.ones((g, 1)), np.eye(g)[:, 1:]], axis=1))[0][:, 1:]

    @cached_property
    def parts(self) -> dict[str, slice]:
        """Places of log k_r, log m, log D, v and w in x."""
        g, s, q = len(self.facts.machines), self.drive.shape[1], len(self.sensed)
        sizes = {"k_r": len(self.linked), "m": g, "d": g, "v": s * (g - 1), "w": q * (g - 1)}
        ends = np.cumsum([0, *sizes.values()])
        return {name: slice(int(start), int(end)) for name, start, end in zip(sizes, ends[:-1], ends[1:], strict=True)}

    @cached_property
    def size(self) -> int:
        """Length of x."""
        return self.parts["w"].stop

    @property
    def locations(self) -> int:
        """Places whose frequency was recorded."""
        return len(self.kept) + len(self.sensed)

    @cached_property
    def of_machines(self) -> IntArray:
        """Entries of x that belong to m and D."""
        return np.arange(self.parts["m"].start, self.parts["d"].stop)

    @property
    def moving(self) -> IntArray:
        """Entries of θ = (k_r, m, D, u) that move."""
        g = len(self.facts.machines)
        e = g * (g - 1) // 2
        return np.concatenate([self.linked, np.arange(e, e + 2 * g + g * self.drive.shape[1])])

    def model(self, x: Array) -> tuple[Array, Array]:
        """θ = (k_r, m, D, u) and sense (h, g) at x."""
        g, s, q = len(self.facts.machines), self.drive.shape[1], len(self.sensed)
        k_r = np.zeros(g * (g - 1) // 2)
        k_r[self.linked] = np.exp(x[self.parts["k_r"]])
        u = x[self.parts["v"]].reshape(s, g - 1) @ self.basis.T + self.drive.sum(axis=0)[:, None] / g
        sense = np.zeros((len(self.kept) + q, g))
        sense[self.kept[:, 0], self.kept[:, 1]] = 1.0
        sense[self.sensed[:, 0]] = x[self.parts["w"]].reshape(q, g - 1) @ self.basis.T + 1 / g
        return np.concatenate([k_r, np.exp(x[self.of_machines]), u.ravel()]), sense

    def model_slopes(self, x: Array) -> Array:
        """∂(moving entries of θ, shares of recorded interior buses)/∂x, (·, size)."""
        g, s, q = len(self.facts.machines), self.drive.shape[1], len(self.sensed)
        positive = self.parts["d"].stop
        out = np.zeros((positive + (s + q) * g, self.size))
        out[np.arange(positive), np.arange(positive)] = np.exp(x[:positive])
        out[positive:, positive:] = np.kron(np.eye(s + q), self.basis)
        return out

    def values(self, x: Array) -> Array:
        """Moving entries of θ and shares of recorded interior buses at x, in one vector: records bend little in them."""
        theta, sense = self.model(x)
        return np.concatenate([theta[self.moving], sense[self.sensed[:, 0]].ravel()])

    def of_values(self, reduction: Reduction, m: Array, d: Array) -> Array:
        """Coordinates x (..., size) of reduced grids with the machines' own m and d (..., g)."""
        kept, s = self.facts.machines, self.drive.shape[1]
        carried = reduction.carried
        u = self.drive[kept] + carried[..., :s]
        damping = d + self.facts.load_damping[kept] + carried[..., -1]
        shares = (self.basis.T @ np.concatenate([u, carried[..., s:-1]], axis=-1)).mT
        return np.concatenate(
            [
                np.log(reduction.k_r[..., self.linked]),
                np.log(m),
                np.log(damping),
                shares.reshape(*shares.shape[:-2], -1),
            ],
            axis=-1,
        )

    def of_network_and_machines(self, y: Array) -> Array:
        """X at y = (log k, log m, log d)."""
        e, g = len(self.facts.edges), len(self.facts.machines)
        return self.of_values(self.network(np.exp(y[:e])), np.exp(y[e : e + g]), np.exp(y[e + g :]))

    def slopes(self, y: Array) -> tuple[Array, Array]:
        """X at y = (log k, log m, log d), and ∂x/∂y (size, e + 2g): the chain from the network to stage 1."""
        e, g, s = len(self.facts.edges), len(self.facts.machines), self.drive.shape[1]
        k, m, d = np.exp(y[:e]), np.exp(y[e : e + g]), np.exp(y[e + g :])
        reduction, k_slopes, carried_slopes = self.network.slopes(k)
        x = self.of_values(reduction, m, d)
        damping = np.exp(x[self.parts["d"]])
        out = np.zeros((self.size, len(y)))
        out[self.parts["k_r"], :e] = k_slopes[self.linked] * k / reduction.k_r[self.linked, None]
        out[self.parts["m"], e : e + g] = np.eye(g)
        out[self.parts["d"], e + g :] = np.diag(d / damping)
        out[self.parts["d"], :e] = carried_slopes[:, -1] * k / damping[:, None]
        shared = np.einsum("gb,gfe->fbe", self.basis, carried_slopes[:, :-1] * k)
        out[self.parts["v"], :e] = shared[:s].reshape(-1, e)
        out[self.parts["w"], :e] = shared[s:].reshape(-1, e)
        return x, out


def push(coordinates: Coordinates, belief: Mapping[str, Posterior], random: np.random.Generator) -> Gaussian:
    """Moments of x under the posterior of the noisy release, by draws pushed through Kron: stage 1's prior.

    Covariances of few draws are shrunk towards their diagonal by (entries of x) / (entries + draws).
    """
    k, m, d = (belief[name].sample(random, PUSHED) for name in ("k", "m", "d"))
    x = coordinates.of_values(coordinates.network(k), m, d)
    covariance = np.cov(x, rowvar=False)
    shrink = coordinates.size / (coordinates.size + PUSHED)
    covariance = (1 - shrink) * covariance + shrink * np.diag(covariance.diagonal())
    floor = 1e-12 * max(1.0, covariance.diagonal().max())  # what no draw moves, topology fixes
    covariance[np.diag_indices(coordinates.size)] += floor
    free = np.full(coordinates.size, np.inf)
    lower, upper = -free, free.copy()
    felt = np.exp(x[:, coordinates.parts["d"]]) - d
    lower[coordinates.parts["m"]], upper[coordinates.parts["m"]] = np.log(belief["m"].lower), np.log(belief["m"].upper)
    lower[coordinates.parts["d"]] = np.log(belief["d"].lower + felt.min(axis=0))
    upper[coordinates.parts["d"]] = np.log(belief["d"].upper + felt.max(axis=0))
    precision = np.linalg.inv(covariance).astype(np.float64, copy=False)
    return Gaussian(x.mean(axis=0), precision, lower, upper)


def linked(facts: GridFacts) -> IntArray:
    """Positions of the reduced weights that topology does not make zero: paths that pass no other machine's bus."""
    k_r = Network(facts, np.zeros((len(facts.interior), 0)))(np.ones(len(facts.edges))).k_r
    return np.flatnonzero(k_r > NO_WEIGHT * k_r.max(initial=0.0))


def independent(belief: Mapping[str, Posterior]) -> Gaussian:
    """The posterior of the release over y = (log k, log m, log d), as independent Gaussians of the same moments."""
    parts = [belief[name] for name in ("k", "m", "d")]
    return Gaussian(
        np.concatenate([part.log_mean for part in parts]),
        np.diag(np.concatenate([1 / part.log_variance for part in parts])),
        np.log(np.concatenate([part.lower for part in parts])),
        np.log(np.concatenate([part.upper for part in parts])),
    )
