"""Coordinates of the two-stage fit: logarithms of what is positive, sums that are known taken out.

θ = (k_r, m, D, u) and the shares `sense` of recorded interior buses follow from x = (log k_r, log
m, log D, v, w, s, t), where u = N v + Σℓ/g and c = N w + 1/g with N (g, g − 1) an orthonormal basis
of what sums to 0: the columns of K_ac sum to 1. A step of unknown place has u = S (N v + 1/g), with
s = log |S| where its total is unknown; t are delays of events [s].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gridveil.dynamics.kron.kernels import KronMap, Reduction
from gridveil.dynamics.swing import SWING
from gridveil.grid.facts import Array, GridFacts, IntArray
from gridveil.grid.parameters import DAMPING, INERTIA, WEIGHT
from gridveil.inference.alike import Belief
from gridveil.inference.fit.least_squares import Gaussian
from gridveil.inference.fit.unknown import Unknowns, together

# Draws of the noisy release's posterior that are pushed through Kron for stage 1's prior.
PUSHED = 400
# A reduced weight below this share of the largest in every draw is no connection: another machine's
# bus lies between.
NO_WEIGHT = 1e-12


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Where x stands for what.

    drive : (n, s) load of each event step at every bus [p.u. power], in the order of facts.buses; h
    recorded outputs, of which
    sensed : (q, 2) rows of `output, interior bus` are at buses without a machine, and kept : (h −
    q, 2) `output, machine`.
    linked : positions of the reduced weights that are not zero by topology.
    unknown : what is unknown of the events; the steps that are free have no load in drive. Then y =
    (log k, log m, log d, z).
    """

    facts: GridFacts
    drive: Array
    sensed: IntArray
    kept: IntArray
    linked: IntArray
    unknown: Unknowns | None = None

    @cached_property
    def unknowns(self) -> Unknowns:
        """What is unknown of the events, if anything."""
        return self.unknown or Unknowns.none(len(self.facts.machines))

    @cached_property
    def of_events(self) -> IntArray:
        """Entries of x that are z: the shares of free steps, then s and t."""
        first, width = self.parts["v"].start, len(self.facts.machines) - 1
        shares = [
            np.arange(first + step * width, first + (step + 1) * width)
            for step in self.unknowns.free
        ]
        return np.concatenate([*shares, np.arange(self.parts["s"].start, self.size)]).astype(
            np.int64
        )

    @cached_property
    def felt_of_events(self) -> IntArray:
        """Entries of `values` that z moves: u of free steps, and delays."""
        g, first, count = (
            len(self.facts.machines),
            self.parts["damping"].stop,
            (self.drive.shape[1] + len(self.sensed)),
        )
        u = [np.arange(first + step * g, first + (step + 1) * g) for step in self.unknowns.free]
        delays = np.arange(first + count * g, first + count * g + len(self.unknowns.timed))
        return np.concatenate([*u, delays]).astype(np.int64)

    def delays(self, x: Array) -> dict[int, float]:
        """How late the event of some records came at x [s]."""
        return dict(zip(self.unknowns.timed.tolist(), x[self.parts["t"]].tolist(), strict=True))

    def totals(self, x: Array) -> tuple[Array, Array]:
        """Load that each step adds in all (s,), and the factor of its v (s,) [p.u. power]."""
        total, scale = self.drive.sum(axis=0), np.ones(self.drive.shape[1])
        total[self.unknowns.free] = scale[self.unknowns.free] = self.unknowns.totals_at(
            x[self.parts["s"]]
        )
        return total, scale

    @cached_property
    def network(self) -> KronMap:
        """Carries loads of steps, a unit at each recorded interior bus, and interior damping."""
        interior = self.facts.interior
        units = np.zeros((len(interior), len(self.sensed)))
        units[self.sensed[:, 1], np.arange(len(self.sensed))] = 1.0
        damping = self.facts.load_damping[interior, None]
        return KronMap(self.facts, np.concatenate([self.drive[interior], units, damping], axis=1))

    @cached_property
    def basis(self) -> Array:
        """N (g, g − 1), orthonormal, columns that sum to 0."""
        g = len(self.facts.machines)
        return np.linalg.qr(np.concatenate([np.ones((g, 1)), np.eye(g)[:, 1:]], axis=1))[0][:, 1:]

    @cached_property
    def parts(self) -> dict[str, slice]:
        """Places of log k_r, log m, log D, v, w, s and t in x."""
        g, s, q = len(self.facts.machines), self.drive.shape[1], len(self.sensed)
        sizes = {
            "weights": len(self.linked),
            "inertia": g,
            "damping": g,
            "v": s * (g - 1),
            "w": q * (g - 1),
        }
        sizes |= {"s": len(self.unknowns.sized), "t": len(self.unknowns.timed)}
        ends = np.cumsum([0, *sizes.values()])
        return {
            name: slice(int(start), int(end))
            for name, start, end in zip(sizes, ends[:-1], ends[1:], strict=True)
        }

    @cached_property
    def size(self) -> int:
        """Length of x."""
        return self.parts["t"].stop

    @property
    def locations(self) -> int:
        """Places whose frequency was recorded."""
        return len(self.kept) + len(self.sensed)

    @cached_property
    def of_machines(self) -> IntArray:
        """Entries of x that belong to m and D."""
        return np.arange(self.parts["inertia"].start, self.parts["damping"].stop)

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
        k_r[self.linked] = np.exp(x[self.parts["weights"]])
        total, scale = self.totals(x)
        u = (
            scale[:, None] * (x[self.parts["v"]].reshape(s, g - 1) @ self.basis.T)
            + total[:, None] / g
        )
        sense = np.zeros((len(self.kept) + q, g))
        sense[self.kept[:, 0], self.kept[:, 1]] = 1.0
        sense[self.sensed[:, 0]] = x[self.parts["w"]].reshape(q, g - 1) @ self.basis.T + 1 / g
        return np.concatenate([k_r, np.exp(x[self.of_machines]), u.ravel()]), sense

    def model_slopes(self, x: Array) -> Array:
        """∂(moving entries of θ, shares of recorded interior buses, delays)/∂x, (·, size)."""
        g, s, q = len(self.facts.machines), self.drive.shape[1], len(self.sensed)
        positive = self.parts["damping"].stop
        shared, timed = positive + (s + q) * g, len(self.unknowns.timed)
        out = np.zeros((shared + timed, self.size))
        out[np.arange(positive), np.arange(positive)] = np.exp(x[:positive])
        _, scale = self.totals(x)
        scales = np.concatenate([scale, np.ones(q)])
        out[positive:shared, positive : self.parts["w"].stop] = np.kron(np.diag(scales), self.basis)
        if self.unknowns.size:
            u = self.model(x)[0][-s * g :].reshape(s, g)
            for place, number in enumerate(self.unknowns.sized):  # ∂u/∂s = u
                step = self.unknowns.free[number]
                out[
                    positive + step * g : positive + (step + 1) * g, self.parts["s"].start + place
                ] = u[step]
            out[shared:, self.parts["t"]] = np.eye(timed)
        return out

    def values(self, x: Array) -> Array:
        """Moving entries of θ, shares of recorded interior buses, and delays, at x."""
        theta, sense = self.model(x)
        return np.concatenate(
            [theta[self.moving], sense[self.sensed[:, 0]].ravel(), x[self.parts["t"]]]
        )

    def of_values(self, reduction: Reduction, m: Array, d: Array, z: Array | None = None) -> Array:
        """Coordinates x (..., size) of reduced grids; m, d : (..., g); z : of events, else 0."""
        kept, s = self.facts.machines, self.drive.shape[1]
        carried = reduction.carried
        u = self.drive[kept] + carried[..., :s]
        damping = d + self.facts.load_damping[kept] + carried[..., -1]
        shares = (self.basis.T @ np.concatenate([u, carried[..., s:-1]], axis=-1)).mT
        known = [
            np.log(reduction.weights[..., self.linked]),
            np.log(m),
            np.log(damping),
            shares.reshape(*shares.shape[:-2], -1),
        ]
        x = np.concatenate(
            [*known, np.zeros((*m.shape[:-1], self.size - self.parts["w"].stop))], axis=-1
        )
        if z is not None:
            x[..., self.of_events] = z
        return x

    def of_network_and_machines(self, y: Array) -> Array:
        """X at y = (log k, log m, log d, z)."""
        e, g = len(self.facts.edges), len(self.facts.machines)
        m, d, z = y[e : e + g], y[e + g : e + 2 * g], y[e + 2 * g :]
        return self.of_values(self.network(np.exp(y[:e])), np.exp(m), np.exp(d), z)

    def slopes(self, y: Array) -> tuple[Array, Array]:
        """X at y = (log k, log m, log d, z), and ∂x/∂y (size, e + 2g + size of z)."""
        e, g, s = len(self.facts.edges), len(self.facts.machines), self.drive.shape[1]
        k, m, d = np.exp(y[:e]), np.exp(y[e : e + g]), np.exp(y[e + g : e + 2 * g])
        reduction, k_slopes, carried_slopes = self.network.slopes(k, self.linked)
        x = self.of_values(reduction, m, d, y[e + 2 * g :])
        damping = np.exp(x[self.parts["damping"]])
        out = np.zeros((self.size, len(y)))
        out[self.parts["weights"], :e] = k_slopes * k / reduction.weights[self.linked, None]
        out[self.parts["inertia"], e : e + g] = np.eye(g)
        out[self.parts["damping"], e + g : e + 2 * g] = np.diag(d / damping)
        out[self.parts["damping"], :e] = carried_slopes[:, -1] * k / damping[:, None]
        shared = np.einsum("gb,gfe->fbe", self.basis, carried_slopes[:, :-1] * k)
        out[self.parts["v"], :e] = shared[:s].reshape(-1, e)
        out[self.parts["w"], :e] = shared[s:].reshape(-1, e)
        out[self.of_events, e + 2 * g + np.arange(len(self.of_events))] = 1.0
        return x, out

    def values_of(self, y: Array) -> Array:
        """`values` of networks and machines, straight from y (b, e + 2g + size of z): (b, ·)."""
        k, m, d, z = self._split(y)
        reduction = self.network(k)
        kept, s = self.facts.machines, self.drive.shape[1]
        u = self.drive[kept] + reduction.carried[..., :s]
        damping = d + self.facts.load_damping[kept] + reduction.carried[..., -1]
        felt = np.concatenate([u, reduction.carried[..., s:-1]], axis=-1).mT
        delays = np.zeros((len(y), len(self.unknowns.timed)))
        parts = [reduction.weights[:, self.linked], m, damping, felt.reshape(len(y), -1), delays]
        found = np.concatenate(parts, axis=1)
        if self.unknowns.size:
            for row, events in zip(found, z, strict=True):
                row[self.felt_of_events] = self.values(self._with(events))[self.felt_of_events]
        return found

    def value_slopes(self, y: Array) -> Array:
        """Slopes of `values_of` by y (b, n): (b, ·, n)."""
        k, m, d, z = self._split(y)
        e, g, (b, n) = len(self.facts.edges), len(self.facts.machines), y.shape
        _, k_slopes, carried_slopes = self.network.slopes(k, self.linked)
        by_line, machine = k[:, None], np.arange(g)
        first, last = self.parts["inertia"].start, self.parts["damping"].stop
        felt = (carried_slopes[:, :, :-1] * by_line[:, None]).swapaxes(1, 2).reshape(b, -1, e)
        out = np.zeros((b, last + felt.shape[1] + len(self.unknowns.timed), n))
        out[:, :first, :e] = k_slopes * by_line
        out[:, first + machine, e + machine] = m
        out[:, first + g + machine, e + g + machine] = d
        out[:, first + g : last, :e] = carried_slopes[:, :, -1] * by_line
        out[:, last : last + felt.shape[1], :e] = felt
        if self.unknowns.size:
            moved = np.ix_(self.felt_of_events, self.of_events)
            for row, events in zip(out, z, strict=True):
                row[self.felt_of_events, e + 2 * g :] = self.model_slopes(self._with(events))[moved]
        return out

    def _split(self, y: Array) -> tuple[Array, Array, Array, Array]:
        """K, m, d and z at y (b, n)."""
        e, g = len(self.facts.edges), len(self.facts.machines)
        k, m, d, z = np.split(y, [e, e + g, e + 2 * g], axis=1)
        return np.exp(k), np.exp(m), np.exp(d), z

    def _with(self, z: Array) -> Array:
        """An x with these events, and nothing else that is so."""
        x = np.zeros(self.size)
        x[self.of_events] = z
        return x


def push(
    coordinates: Coordinates, belief: Mapping[str, Belief], random: np.random.Generator
) -> Gaussian:
    """Moments of x, stage 1's prior: draws of the release's posterior pushed through Kron.

    Covariances of few draws are shrunk towards their diagonal by (entries of x) / (entries +
    draws).
    """
    k, m, d = (belief[name].sample(random, PUSHED) for name in SWING)
    x = coordinates.of_values(coordinates.network(k), m, d)
    covariance = np.cov(x, rowvar=False)
    shrink = coordinates.size / (coordinates.size + PUSHED)
    covariance = (1 - shrink) * covariance + shrink * np.diag(covariance.diagonal())
    floor = 1e-12 * max(1.0, covariance.diagonal().max())  # what no draw moves, topology fixes
    covariance[np.diag_indices(coordinates.size)] += floor
    # which no release knows of
    events, unknown = (coordinates.of_events, coordinates.unknowns.prior())
    covariance[events], covariance[:, events] = 0.0, 0.0
    covariance[events, events] = 1 / unknown.precision.diagonal()
    free = np.full(coordinates.size, np.inf)
    lower, upper = -free, free.copy()
    felt = np.exp(x[:, coordinates.parts["damping"]]) - d
    lower[coordinates.parts["inertia"]], upper[coordinates.parts["inertia"]] = (
        np.log(belief[INERTIA.name].lower),
        np.log(belief[INERTIA.name].upper),
    )
    lower[coordinates.parts["damping"]] = np.log(belief[DAMPING.name].lower + felt.min(axis=0))
    upper[coordinates.parts["damping"]] = np.log(belief[DAMPING.name].upper + felt.max(axis=0))
    mean = x.mean(axis=0)
    mean[events], lower[events], upper[events] = unknown.mean, unknown.lower, unknown.upper
    precision = np.linalg.inv(covariance).astype(np.float64, copy=False)
    return Gaussian(mean, precision, lower, upper)


def linked(facts: GridFacts) -> IntArray:
    """Positions of reduced weights that topology allows: paths that pass no other machine's bus."""
    k_r = KronMap(facts, np.zeros((len(facts.interior), 0)))(np.ones(len(facts.edges))).weights
    return np.flatnonzero(k_r > NO_WEIGHT * k_r.max(initial=0.0))


def independent(belief: Mapping[str, Belief], unknown: Unknowns | None = None) -> Gaussian:
    """The posterior of the release over y = (log k, log m, log d), as independent Gaussians.

    That of log k has the posterior's own moments. Records of few places see sums of m and of d, and
    a sum of exp(E log m) falls short of Σm: those of log m and log d lie at log E m and log E d,
    with the spread of a log-normal of the same variation. Where the size of an event is unknown
    too, records see ratios only, and all have moments of logarithms.
    unknown : what is unknown of the events, whose own prior then stands behind it.
    """
    parts = {name: belief[name] for name in SWING}
    ratios_only = bool(unknown and len(unknown.sized))
    moments = [
        (part.log_mean, part.log_variance)
        if ratios_only or name == WEIGHT.name
        else _as_log_normal(part)
        for name, part in parts.items()
    ]
    released = Gaussian(
        np.concatenate([mean for mean, _ in moments]),
        np.diag(1 / np.concatenate([variance for _, variance in moments])),
        np.log(np.concatenate([part.lower for part in parts.values()])),
        np.log(np.concatenate([part.upper for part in parts.values()])),
    )
    return together(released, unknown.prior()) if unknown else released


def _as_log_normal(belief: Belief) -> tuple[Array, Array]:
    """Log E[x], and the variance of log x of a log-normal with the mean and variance of x."""
    return np.log(belief.mean), np.log1p(belief.variance / belief.mean**2)
