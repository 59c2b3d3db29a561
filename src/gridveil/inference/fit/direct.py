"""Records and their slopes as functions of the network itself, y = (log k, log m, log d).

A line changes the reduced model by one direction alone: with c_e the e-th column of C_γ + K_ac C_β,
∂L_red/∂k_e = c_e c_eᵀ, ∂K_ac/∂k_e = −c_e (C_β,e)ᵀ L_ββ⁻¹. So the slopes of records are those of
e + 2g directions, not of g (g − 1) / 2 reduced weights, and nothing is larger than (g, g), (lines,
g) or (samples, entries of y).

Up to some machines the slopes come from the model's eigenvectors, in any scheme. Above, the model
is integrated to fourth order, and slopes are convolutions in time: what a torque at any machine
does at a recorded place is, by symmetry, what a load at that place does at the machine. Integrals
go by the trapezoidal rule with Gregory's weights at their ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.fft import irfft, next_fast_len, rfft
from scipy.sparse.linalg import splu

from gridveil.dynamics.kron import edge_weights, elimination
from gridveil.dynamics.simulate_large import machine_responses
from gridveil.grid.facts import Array, GridFacts, IntArray
from gridveil.inference.fit.sampling import Sampling
from gridveil.inference.fit.sensitivity import Modes
from gridveil.inference.fit.task import Task

# Machines above which a model's eigenvectors cost more than a convolution.
MODAL = 120
# Numbers of a block of convolutions.
BLOCK = 8_000_000
# Longest step of the integration [s], and Gregory's weights at an end.
LONGEST_S, ENDS = 0.02, np.array([3 / 8, 7 / 6, 23 / 24])


@dataclass(frozen=True, eq=False)
class NetworkAt:
    """A reduced network at y, with what its slopes are made of.

    k : (e,); m, d, damping : (g,), damping with what loads add; L_red : (g, g).
    u : (g, s) load of each step on each machine; sense : (h, g) of the recorded places.
    felt : (e, g) rows c_e.
    drop_u, drop_sense, drop_damping : (e, s), (e, h), (e,) what each line sees of L_ββ⁻¹ times
    loads, recorded places, and damping of loads.
    """

    k: Array
    m: Array
    d: Array
    damping: Array
    L_red: Array
    u: Array
    sense: Array
    felt: Array
    drop_u: Array
    drop_sense: Array
    drop_damping: Array


@dataclass(frozen=True, eq=False)
class Direct:
    """Records compared with the model of a network y."""

    task: Task

    @property
    def facts(self) -> GridFacts:
        """Public facts of the grid."""
        return self.task.coordinates.facts

    @property
    def size(self) -> int:
        """Entries of y."""
        return len(self.facts.edges) + 2 * len(self.facts.machines)

    @cached_property
    def _places(self) -> IntArray:
        """Bus of each recorded output."""
        coordinates = self.task.coordinates
        places = np.empty(coordinates.locations, dtype=np.int64)
        places[coordinates.kept[:, 0]] = self.facts.machines[coordinates.kept[:, 1]]
        places[coordinates.sensed[:, 0]] = self.facts.interior[coordinates.sensed[:, 1]]
        return places

    @cached_property
    def _last(self) -> dict[bytes, NetworkAt]:
        """The last y, and its network: a search asks for slopes where it has just compared."""
        return {}

    def at(self, y: Array) -> NetworkAt:
        """Reduce the network at y."""
        key = y.tobytes()
        if key not in self._last:
            self._last.clear()
            self._last[key] = self._reduced(y)
        return self._last[key]

    def _reduced(self, y: Array) -> NetworkAt:
        facts, drive = self.facts, self.task.coordinates.drive
        e, g, (i, j) = len(facts.edges), len(facts.machines), facts.edges.T
        k, m, d = np.split(np.exp(y), [e, e + g])
        network = elimination(facts, k)
        shares = network.to_buses(np.eye(g))  # (n, g)
        units = np.zeros((len(facts.buses), len(self._places)))
        units[self._places, np.arange(len(self._places))] = 1.0
        patterns = np.concatenate([drive, units, facts.load_damping[:, None]], axis=1)
        solved = np.zeros(patterns.shape)
        if len(facts.interior):
            solved[facts.interior] = _solved(facts, k, patterns[facts.interior])
        drop, s = solved[i] - solved[j], drive.shape[1]
        return NetworkAt(
            k,
            m,
            d,
            d + shares.T @ facts.load_damping,
            network.L_red,
            shares.T @ drive,
            shares[self._places],
            shares[i] - shares[j],
            drop[:, :s],
            drop[:, s:-1],
            drop[:, -1],
        )

    def compare(self, y: Array, sampling: Sampling) -> Array:
        """ω − ω̂ at y (rows,) [p.u.]."""
        found = self.at(y)
        if len(found.m) <= MODAL:
            theta, predictor = _theta(found), self.task.predictor
            return predictor.values(theta, found.sense, sampling) - sampling.observed
        records = self.task.predictor.records
        omega, every = self._responses(found, found.u, sampling)[0], self._every(sampling)
        values = [
            np.zeros((len(at), found.sense.shape[0])) for at in sampling.at
        ]  # of each record, at the samples that are looked at
        for record, shift, column in records.steps:
            late = sampling.at[record] >= shift
            values[record][late] += (
                omega[(sampling.at[record][late] - shift) // every, :, column] @ found.sense.T
            )
        taken = zip(values, sampling.seen, strict=True)
        return np.concatenate([value[seen] for value, seen in taken]) - sampling.observed

    def slopes(self, y: Array, sampling: Sampling) -> Array:
        """Slopes of ω − ω̂ by y, (rows, size)."""
        found = self.at(y)
        e, g = found.felt.shape
        by_values = self._modal if g <= MODAL else self._convolved
        slopes = [np.zeros((len(at), len(self._places), self.size)) for at in sampling.at]
        for record, late, slope, omega in by_values(found, sampling):
            slopes[record][late] += slope
            for number in np.flatnonzero(found.drop_sense.any(axis=0)):
                slopes[record][late, number, :e] -= (omega @ found.felt.T) * found.drop_sense[
                    :, number
                ]
        for slope in slopes:
            if found.drop_damping.any():
                slope[..., :e] -= slope[..., e + g :] @ (found.felt.T * found.drop_damping)
            slope *= np.concatenate([found.k, found.m, found.d])
        taken = zip(slopes, sampling.seen, strict=True)
        return np.concatenate([slope[seen] for slope, seen in taken])

    def _modal(
        self, found: NetworkAt, sampling: Sampling
    ) -> Iterator[tuple[int, NDArray[np.bool_], Array, Array]]:
        """For each step of a record: the samples after it, slopes of ω by (k, m, D) there (·, h,
        size), and ω of the machines (·, g).
        """
        predictor = self.task.predictor
        (e, g), s = found.felt.shape, found.u.shape[1]
        lti = predictor.family.lti(_theta(found))
        modes = Modes.of(lti, predictor.scheme, predictor.dt_s)
        eye = np.eye(g)
        left = -np.concatenate([found.felt, eye, eye]) / found.m
        right = np.zeros((self.size, lti.F.shape[1]))
        right[:e, g : 2 * g - 1] = found.felt[:, :-1]  # the last machine's angle is the reference
        right[:e, -s:] = -found.drop_u
        right[e : e + g], right[e + g :, :g] = lti.F[:g], eye
        times, looked_at = sampling.after(
            [(record, shift) for record, shift, _ in predictor.records.steps]
        )
        clock = modes.clock(times, sampling.stride)
        known: dict[int, tuple[Array, Array]] = {}
        for (record, _, column), (late, place) in zip(
            predictor.records.steps, looked_at, strict=True
        ):
            if column not in known:
                known[column] = (
                    modes.slopes(clock, found.sense, left, right, column),
                    modes.omega(clock, g, column),
                )
            yield record, late, known[column][0][place], known[column][1][place]

    def _every(self, sampling: Sampling) -> int:
        """Clock steps of one step of the integration: a divisor of the samples' stride."""
        most = max(1, int(LONGEST_S / self.task.predictor.dt_s * (1 + 1e-9)))
        return max(step for step in range(1, most + 1) if sampling.stride % step == 0)

    def _responses(
        self, found: NetworkAt, patterns: Array, sampling: Sampling
    ) -> tuple[Array, Array, Array]:
        """ω, ω̇ and δ (samples, g, ·) of the machines after steps of load (g, ·)."""
        facts, every = self.facts, self._every(sampling)
        return machine_responses(
            found.L_red,
            found.m,
            found.damping,
            facts.governor_rate,
            facts.droop_gain,
            omega_b=facts.omega_b,
            u=patterns,
            samples=sampling.stride * (sampling.count - 1) // every + 1,
            dt_s=every * self.task.predictor.dt_s,
        )

    def _convolved(
        self, found: NetworkAt, sampling: Sampling
    ) -> Iterator[tuple[int, NDArray[np.bool_], Array, Array]]:
        """The same as `_modal`, by convolutions."""
        steps, every = self.task.predictor.records.steps, self._every(sampling)
        columns = sorted({column for _, _, column in steps})
        patterns = np.concatenate([found.u[:, columns], found.sense.T], axis=1)
        omega, rise, angle = self._responses(found, patterns, sampling)
        # of torque, not of load; (h, g, n)
        pulse = -rise[:, :, len(columns) :].transpose(2, 1, 0)
        since = [(sampling.at[record] - shift) // every for record, shift, _ in steps]
        wanted = np.unique(np.concatenate([times[times >= 0] for times in since]))
        dt_s = every * self.task.predictor.dt_s
        known = {
            column: self._column(
                found,
                pulse,
                (rise[:, :, number].T, omega[:, :, number].T, angle[:, :, number].T),
                found.drop_u[:, column],
                wanted,
                dt_s,
            )
            for number, column in enumerate(columns)
        }
        for times, (record, _, column) in zip(since, steps, strict=True):
            late = times >= 0
            after = omega[times[late], :, columns.index(column)]
            yield record, late, known[column][np.searchsorted(wanted, times[late])], after

    def _column(
        self,
        found: NetworkAt,
        pulse: Array,
        signals: tuple[Array, Array, Array],
        drop: Array,
        wanted: IntArray,
        dt_s: float,
    ) -> Array:
        """Slopes (wanted, h, size) by (k, m, D) after a step of one input.

        A torque f moves ω at a place by ∫ a(t − τ) f(τ) dτ, where a is the pulse response of the
        place to each machine. For a line f = c_e (drop_e − c_eᵀ δ), for an inertia −ω̇, for a
        damping −ω.

        pulse : a (h, g, n); signals : ω̇, ω and δ (g, n) after the event; drop : (e,).
        """
        (e, g), h = found.felt.shape, len(pulse)
        rise, omega, angle = signals
        out = np.empty((len(wanted), h, self.size))
        size = max(1, BLOCK // (2 * pulse.shape[2] * (h + 2)))
        for some in _blocks(g, size):
            for first, felt in ((e, rise), (e + g, omega)):
                place = slice(first + some.start, first + some.stop)
                out[:, :, place] = -_convolved(pulse[:, some], felt[some], wanted, dt_s)
        for some in _blocks(e, size):
            felt = found.felt[some]
            torque = drop[some, None] - felt @ angle
            out[:, :, some] = _convolved(felt @ pulse, torque, wanted, dt_s)
        return out


def _convolved(answers: Array, torque: Array, wanted: IntArray, dt_s: float) -> Array:
    """∫ a(t − τ) f(τ) dτ (wanted, h, ·), of a (h, ·, n) and f (·, n), at some samples."""
    n = torque.shape[-1]
    length = next_fast_len(2 * n, real=True)
    weights = np.ones(n)
    weights[: len(ENDS)] = ENDS[:n]
    seen = np.asarray(rfft(weights * answers, length)) * np.asarray(rfft(weights * torque, length))
    whole = dt_s * np.asarray(irfft(seen, length))[..., wanted]
    for place, sample in enumerate(wanted):
        if sample >= 2 * len(ENDS):
            break
        # too short for both ends: the trapezoidal rule
        products = answers[..., sample::-1] * torque[..., : sample + 1]
        ends = 0.5 * (products[..., 0] + products[..., -1])
        whole[..., place] = dt_s * (products.sum(axis=-1) - ends)
    return whole.transpose(2, 0, 1)


@dataclass(frozen=True, eq=False)
class DirectResiduals:
    """(ω − ω̂)/σ as a function of the network, y = (log k, log m, log d), with σ per row."""

    task: Task
    sampling: Sampling
    sigma: Array

    @cached_property
    def _direct(self) -> Direct:
        return Direct(self.task)

    def at(self, x: Array) -> Array:
        """Residuals (rows,)."""
        return self._direct.compare(x, self.sampling) / self.sigma

    def slopes(self, x: Array) -> Array:
        """Slopes (rows, size of y)."""
        return self._direct.slopes(x, self.sampling) / self.sigma[:, None]


@dataclass(frozen=True, eq=False)
class LinearResiduals:
    """J (y − ŷ) + r: records that are linear in the network."""

    J: Array
    r: Array
    y: Array

    def at(self, x: Array) -> Array:
        """Residuals (rows,)."""
        return self.J @ (x - self.y) + self.r

    def slopes(self, x: Array) -> Array:  # noqa: ARG002
        """Slopes (rows, size of y)."""
        return self.J


def _blocks(count: int, size: int) -> Iterator[slice]:
    """Cut a range into blocks."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _theta(found: NetworkAt) -> Array:
    """(k_r, m, D, u) of a network."""
    return np.concatenate([edge_weights(found.L_red), found.m, found.damping, found.u.T.ravel()])


def _solved(facts: GridFacts, k: Array, patterns: Array) -> Array:
    """L_ββ⁻¹ B for patterns B (b, f) on the interior buses."""
    n, (i, j) = len(facts.buses), facts.edges.T
    rows, columns = np.concatenate([i, j, i, j]), np.concatenate([j, i, i, j])
    entries = np.concatenate([-k, -k, k, k])
    L = sparse.csr_array((entries, (rows, columns)), shape=(n, n))[facts.interior]
    factor = splu(
        sparse.csc_array(L[:, facts.interior]),
        permc_spec="MMD_AT_PLUS_A",
        options={"SymmetricMode": True},
        diag_pivot_thresh=0,
    )
    return np.asarray(factor.solve(patterns))
