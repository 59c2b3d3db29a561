"""Estimate a reduced model from public trajectories alone, without any release: what no ε can protect.

Each row of the swing equation is linear in its own parameters. Integrated from rest to t, row i reads

    m_i ω_i + Σ_j k_ij ∫(δ_i − δ_j) + d_i ∫ω_i + Σ_s u_is (t − t_s)₊ = ∫p_i,

where δ and p follow from ω and the public ω_b, T and G: a linear regression. It starts the maximum-likelihood estimate, which
is Gauss-Newton on the simulated output error. If all of k, m, d and u grow by one factor, ω stays as it is but for ∫p on the
right: the total load Σℓ fixes that factor; without it only the governors do, whose gain is small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.signal import lfilter

from gridveil.engine.objective import one_blas_thread
from gridveil.engine.records import Records
from gridveil.engine.schemes import SchemeName
from gridveil.errors import OptionError
from gridveil.events import Event, Step
from gridveil.fit.least_squares import Gaussian, minimise
from gridveil.fit.problem import Observation, as_records
from gridveil.fit.sensitivity import Predictor, Sampling
from gridveil.fit.task import Task
from gridveil.fit.two_stage import TwoStage, check_size, two_stage
from gridveil.grid import Array, GridFacts, complete_edges
from gridveil.groups import Bounds
from gridveil.kron import reduce, reduced_model
from gridveil.models import ReducedModel
from gridveil.noisy import NoisyGrid
from gridveil.posterior import FLOOR, beliefs, no_release, posterior_mean
from gridveil.swing import DrivenSwingFamily

FREE_SCALE = "a common factor of k, m, d, u; only G ω fixes it"
NOT_ATTACKED = "Nothing was estimated."
# Steps of Gauss-Newton at most, and the change of every entry, against its size, at which it ends.
ROUNDS, CLOSE = 60, 1e-9
# Inertia that no machine is below [p.u. power s / p.u. frequency]: without any, the equations would break down.
LEAST_INERTIA = 1e-6
# Noise that a search in a network assumes at first [p.u.], before its own.
LEVELS = (1e-2, 1e-3, 3e-4)
# Rows of the regression, a machine; more would not make a better start.
ROWS = 3000


@dataclass(frozen=True, eq=False)
class Scale:
    """The common factor of k, m, d and u, where the total load is not known.

    per_load : 1/Σℓ of the first step [1 / p.u. power], as the records give it, and its standard deviation (Cramér-Rao).
    name : what the factor is, in words.
    """

    per_load: float
    deviation: float
    name: str = FREE_SCALE

    @property
    def free(self) -> bool:
        """Whether the records leave the factor open: 1/Σℓ = 0, an endless one, lies within two standard deviations."""
        return self.per_load < 2 * self.deviation


@dataclass(frozen=True, eq=False)
class Estimate:
    """A reduced model as records alone give it.

    k_r : (e,), m, d : (g,) with the loads' damping in d, u : (s, g) load of each step on each machine [units of the groups].
    Where the total load is not known, all of them are per p.u. of the first step's load, and scale says what is known of it.
    deviation : standard deviations by the Cramér-Rao bound at the estimate, by the names k_r, m, d and u.
    start : what the regression gave, as θ = (k_r, m, d, u); misfit : RMS of ω − ω̂ [p.u.]; rounds : of Gauss-Newton.
    """

    k_r: Array
    m: Array
    d: Array
    u: Array
    scale: Scale | None
    deviation: dict[str, Array]
    start: Array
    misfit: float
    rounds: int
    converged: bool


def estimate(
    facts: GridFacts,
    observed: Sequence[Observation],
    *,
    dt_s: float = 0.01,
    scheme: SchemeName = "exact",
    sigma: float,
    total_known: bool = True,
) -> Estimate:
    """Estimate (k_r, m, d, u) by maximum likelihood from records at every machine, under white noise of sigma [p.u.].

    Uses of facts only which buses have machines, T, G and ω_b, and of the events their times and, if total_known, their total
    loads. Neither the topology nor a release is used. sigma only scales the standard deviations.
    """
    check_size(facts)
    with one_blas_thread():
        return _estimate(facts, observed, dt_s, scheme, sigma, total_known)


def _estimate(
    facts: GridFacts, observed: Sequence[Observation], dt_s: float, scheme: SchemeName, sigma: float, total_known: bool
) -> Estimate:
    seen = [_at_machines(facts, one, total_known) for one in observed]
    totals = _totals(facts, seen)
    if np.abs(totals).max() < 1e-12:
        raise OptionError(
            f"The steps of load cancel, so that nothing fixes the scale: {FREE_SCALE}.",
            expected="an event with a total load",
            outcome=NOT_ATTACKED,
            remedy="Pass total_known=False.",
        )
    start = regress(facts, seen, totals if total_known else None, dt_s=dt_s, scheme=scheme)
    task = _OutputError(facts, seen, totals, dt_s, scheme, total_known)
    x, rounds, converged = _gauss_newton(task.residuals, task.slopes, task.coordinates(start), task.lower)
    J, r = task.slopes(x), task.residuals(x)
    theta, slopes = task.theta(x), task.theta_slopes()
    size = np.where(x == 0, 1.0, np.abs(x))
    R = np.linalg.qr(J * size, mode="r")
    spread = sigma * np.linalg.pinv(R, rcond=1e-15) * size[:, None]
    deviation = np.sqrt(np.sum((slopes @ spread) ** 2, axis=1))
    parts = _parts(facts, len(totals))
    scale = None if total_known else Scale(float(x[-1]), float(np.linalg.norm(spread[-1])))
    values = {name: theta[part] for name, part in parts.items()}
    return Estimate(
        k_r=values["k_r"],
        m=values["m"],
        d=values["d"],
        u=values["u"].reshape(len(totals), -1),
        scale=scale,
        deviation={name: deviation[part] for name, part in parts.items()},
        start=start,
        misfit=float(np.sqrt(np.mean(r**2))),
        rounds=rounds,
        converged=converged,
    )


def regress(
    facts: GridFacts, observed: Sequence[Observation], totals: Array | None, *, dt_s: float, scheme: SchemeName
) -> Array:
    """Solve the integrated swing equations for θ = (k_r, m, d, u) by least squares, with Σu of each step equal to totals (s,).

    With totals None the first step's total is taken as 1 p.u. and governors are left out: only ratios are found.
    Integrals are left sums for `euler`, which makes the regression exact for its data, and those of cubic splines else, which
    also fill gaps.
    """
    g, edges = len(facts.machines), complete_edges(len(facts.machines))
    e, s = len(edges), sum(len(one.event.steps) for one in observed)
    rows, right = [], []
    column = 0
    for one in observed:
        time, omega = one.trajectory.time_s, one.trajectory.omega
        first = int(np.argmin(np.abs(time - one.event.steps[0].at_s)))
        time, omega = time[first:], omega[first:]
        h = float(time[1] - time[0])
        if scheme == "euler" and abs(h - dt_s) < 1e-9 * dt_s and np.isfinite(omega).all():
            angle, power = _left_sums(omega, h), _left_sums(_euler_governors(facts, omega, h), h)
            swing = facts.omega_b * _left_sums(angle, h)
        else:
            omega, angle, swing = _integrals(time, omega, [step.at_s for step in one.event.steps])
            power, swing = _governors(facts, omega, angle, h), facts.omega_b * swing
        ramps = np.stack([np.maximum(time - step.at_s, 0.0) for step in one.event.steps], axis=1)
        taken = slice(1, None, max(1, len(time) // ROWS))
        for i in range(g):
            A = np.zeros((len(time), e + 2 * g + s * g))
            for place in np.flatnonzero((edges == i).any(axis=1)):
                j = edges[place].sum() - i
                A[:, place] = swing[:, i] - swing[:, j]
            A[:, e + i], A[:, e + g + i] = omega[:, i], angle[:, i]
            for number in range(len(one.event.steps)):
                A[:, e + 2 * g + (column + number) * g + i] = ramps[:, number]
            rows.append(A[taken])
            right.append((power[:, i] if totals is not None else np.zeros(len(time)))[taken])
        column += len(one.event.steps)
    A, b = np.concatenate(rows), np.concatenate(right)
    offset, basis = _with_totals(e + 2 * g, g, np.ones(1) if totals is None else totals, s)
    columns = A @ basis
    size = np.linalg.norm(columns, axis=0)
    size[size == 0] = 1.0
    found = np.linalg.lstsq(columns / size, b - A @ offset, rcond=None)[0] / size
    return offset + basis @ found


def from_records(
    facts: GridFacts, observed: Sequence[Observation], bounds: Bounds, *, dt_s: float, scheme: SchemeName, sigma: float
) -> TwoStage:
    """The most probable network given records, public bounds and public topology, without a release; any locations."""
    return two_stage(facts, observed, no_release(_sizes(facts), bounds), bounds, dt_s=dt_s, scheme=scheme, sigma=sigma)


def from_release(noisy: NoisyGrid) -> ReducedModel:
    """The reduced model of the posterior means: what a release alone gives."""
    return reduce(posterior_mean(noisy))


def from_both(noisy: NoisyGrid, observed: Sequence[Observation], *, dt_s: float, scheme: SchemeName, sigma: float) -> TwoStage:
    """The most probable network given a release and records together."""
    return two_stage(noisy.facts, observed, beliefs(noisy), noisy.bounds, dt_s=dt_s, scheme=scheme, sigma=sigma)


def sample_from_records(
    facts: GridFacts,
    observed: Sequence[Observation],
    bounds: Bounds,
    *,
    dt_s: float,
    scheme: SchemeName,
    sigma: float,
    draws: int,
    seed: int = 0,
) -> Array:
    """Draw (log k, log m, log d) from what records and public bounds leave open: (draws that fit, e + 2g).

    By randomised maximum likelihood: each draw fits records with fresh noise from a table drawn from the bounds (log-uniform),
    which it stays near. Exact if ω were linear; it follows bends that a Cramér-Rao bound does not see, and is wider than that.
    Draws whose misfit is larger than the best one's by more than twice the parameters are left out: searches that got stuck.
    """
    check_size(facts)
    random = np.random.default_rng(seed)
    ends = [(getattr(bounds, name), size) for name, size in _sizes(facts).items()]
    lower = np.concatenate([np.full(size, np.log(max(one.lower, FLOOR * one.upper))) for one, size in ends])
    upper = np.concatenate([np.full(size, np.log(one.upper)) for one, size in ends])
    precision = np.diag(12 / (upper - lower) ** 2)
    found, misfits = [], []
    with one_blas_thread():
        task = Task.of(facts, observed, bounds, dt_s=dt_s, scheme=scheme)
        sampling = task.predictor.sampling()
        for _ in range(draws):
            noise = sigma * random.normal(size=len(sampling.observed))
            start = y = lower + (upper - lower) * random.random(len(lower))
            for level in (*(one for one in LEVELS if one > sigma), sigma):
                last = level == sigma
                y = minimise(
                    _NetworkError(task, replace(sampling, observed=sampling.observed + noise), level),
                    Gaussian(start, precision, lower, upper),
                    y,
                    cap=1.0,
                    iterations=80 if last else 25,
                    tolerance=1e-3 if last else 0.1,
                ).x
            misfit = _NetworkError(task, sampling, sigma).at(y)
            found.append(y)
            misfits.append(misfit @ misfit)
    return np.array(found)[np.array(misfits) <= min(misfits) + 2 * len(lower)]


@dataclass(frozen=True, eq=False)
class _NetworkError:
    """(ω − ω̂)/σ as a function of y = (log k, log m, log d)."""

    task: Task
    sampling: Sampling
    sigma: float

    def at(self, x: Array) -> Array:
        return self.task.compare(self.task.coordinates.of_network_and_machines(x), self.sampling) / self.sigma

    def slopes(self, x: Array) -> Array:
        reduced, chain = self.task.coordinates.slopes(x)
        return self.task.slopes(reduced, self.sampling) @ (self.task.coordinates.model_slopes(reduced) @ chain) / self.sigma


class _OutputError:
    """ω(x) − ω̂ as a function of x = (k_r, m, d, v) with u = N v + Σℓ/g, and of 1/Σℓ where that is unknown.

    With an unknown total, θ is per p.u. of the first step's load, and the governors' gains are G/Σℓ.
    """

    def __init__(
        self,
        facts: GridFacts,
        observed: Sequence[Observation],
        totals: Array,
        dt_s: float,
        scheme: SchemeName,
        total_known: bool,
    ) -> None:
        g = len(facts.machines)
        buses, records = as_records(observed, dt_s)
        self.sense = np.zeros((len(buses), g))
        names = [facts.buses[i] for i in facts.machines]
        self.sense[np.arange(len(buses)), [names.index(bus) for bus in buses]] = 1.0
        self.facts, self.dt_s, self.total_known = facts, dt_s, total_known
        self.scheme: SchemeName = scheme
        self.inputs = len(totals)
        self.records = Records.of(records)
        self.sampling = Sampling.of(self.records)
        self.rest = g * (g - 1) // 2 + 2 * g
        known = totals if total_known else np.ones(1)
        self.offset, self.basis = _with_totals(self.rest, g, known, self.inputs)

    @property
    def lower(self) -> Array:
        """No weight, inertia, damping or 1/Σℓ is below 0; u is free."""
        g = len(self.facts.machines)
        lower = np.full(self.basis.shape[1] + (not self.total_known), -np.inf)
        lower[: self.rest] = 0.0
        if not self.total_known:
            lower[-1] = 0.0
        lower[self.rest - 2 * g : self.rest - g] = LEAST_INERTIA
        return lower

    def predictor(self, share: float) -> Predictor:
        """Predict with governors of a share of their gain."""
        g = len(self.facts.machines)
        family = DrivenSwingFamily(
            complete_edges(g),
            inputs=self.inputs,
            governor_rate=self.facts.governor_rate,
            droop_gain=share * self.facts.droop_gain,
            omega_b=self.facts.omega_b,
            sense=np.eye(g),
            bounds=Bounds(),
        )
        return Predictor(family, self.records, dt_s=self.dt_s, scheme=self.scheme)

    def coordinates(self, theta: Array) -> Array:
        """Turn θ with the known totals into x."""
        x: Array = self.basis.T @ (theta - self.offset)  # its columns are orthonormal
        return x if self.total_known else np.append(x, 0.0)

    def theta(self, x: Array) -> Array:
        """Turn x into θ."""
        return self.offset + self.basis @ (x if self.total_known else x[:-1])

    def theta_slopes(self) -> Array:
        """∂θ/∂x."""
        return self.basis if self.total_known else np.pad(self.basis, ((0, 0), (0, 1)))

    def residuals(self, x: Array) -> Array:
        """ω − ω̂ (rows,) [p.u.]."""
        share = 1.0 if self.total_known else x[-1]
        return self.predictor(share).values(self.theta(x), self.sense, self.sampling) - self.sampling.observed

    def slopes(self, x: Array) -> Array:
        """Slopes of ω by x (rows, ·)."""
        theta, share = self.theta(x), 1.0 if self.total_known else x[-1]
        moving, none = np.arange(len(theta)), np.empty(0, dtype=np.int64)
        found = self.predictor(share).slopes(theta, self.sense, self.sampling, moving, none) @ self.basis
        if self.total_known:
            return found
        step = 0.05  # ω is nearly linear in a gain this small
        up, down = (self.predictor(share + sign * step).values(theta, self.sense, self.sampling) for sign in (1, -1))
        return np.column_stack([found, (up - down) / (2 * step)])


def _gauss_newton(
    residuals: Callable[[Array], Array], slopes: Callable[[Array], Array], x: Array, lower: Array
) -> tuple[Array, int, bool]:
    """Minimise |r(x)|² over x ≥ lower by Levenberg-Marquardt, damped in units of each column.

    Entries on their bound that a step would push out stay there for that step. It ends where steps are within rounding.
    """
    x = np.maximum(x, lower)
    r = residuals(x)
    cost, damping, converged, rounds = _cost(r), 0.0, False, 0
    J = slopes(x)
    while rounds < ROUNDS and not converged:
        rounds += 1
        there = np.maximum(x + _step(J, r, damping, (x <= lower)), lower)
        step = there - x
        with np.errstate(all="ignore"):
            r_there = residuals(there)
        cost_there = _cost(r_there)
        if cost_there < cost:
            converged = cost - cost_there <= 1e-12 * cost
            x, r, cost, damping = there, r_there, cost_there, damping / 10 if damping > 1e-9 else 0.0
            J = slopes(x)
        else:
            converged = bool(np.all(np.abs(step) <= CLOSE * np.maximum(np.abs(x), 1e-3)))
            damping = max(10 * damping, 1e-8)
    return x, rounds, converged


def _step(J: Array, r: Array, damping: float, held: NDArray[np.bool_]) -> Array:
    """The step to the least |r + J step|², damped, over the entries that are not held or that leave their bound."""
    step, free = np.zeros(J.shape[1]), np.ones(J.shape[1], dtype=bool)
    while True:
        size = np.linalg.norm(J[:, free], axis=0)
        size[size == 0] = 1.0
        Q, R = np.linalg.qr(J[:, free] / size)
        n = len(size)
        stacked = np.concatenate([R, np.sqrt(damping) * np.eye(n)])
        step[:] = 0.0
        step[free] = -np.linalg.lstsq(stacked, np.concatenate([Q.T @ r, np.zeros(n)]), rcond=None)[0] / size
        out = free & held & (step < 0)
        if not out.any():
            return step
        free &= ~out


def _cost(r: Array) -> float:
    """|r|², endless where a step went too far."""
    with np.errstate(all="ignore"):
        cost = float(r @ r)
    return cost if np.isfinite(cost) else np.inf


def _at_machines(facts: GridFacts, one: Observation, total_known: bool) -> Observation:
    """Keep the machines' columns of a record; of an event whose size is not known, keep its times."""
    names = [facts.buses[i] for i in facts.machines]
    missing = [name for name in names if name not in one.trajectory.buses]
    if missing:
        raise OptionError(
            f"The records leave out {len(missing)} of {len(names)} machines' buses.",
            expected="the frequency at every machine",
            outcome=NOT_ATTACKED,
            remedy="Use from_records, which takes the public topology and bounds as well.",
        )
    places = [one.trajectory.buses.index(name) for name in names]
    trajectory = replace(one.trajectory, omega=one.trajectory.omega[:, places], buses=tuple(names))
    event = one.event
    if not total_known:
        event = Event(tuple(Step(step.at_s, change={names[0]: 1.0}) for step in event.steps))
    return replace(one, trajectory=trajectory, event=event)


def _totals(facts: GridFacts, observed: Sequence[Observation]) -> Array:
    """Total load of each step of each event (s,) [p.u. power]."""
    g = len(facts.machines)
    ports = reduced_model(facts, np.ones(len(facts.edges)), np.ones(g), np.ones(g))  # it only says which port is which bus
    return np.array([step.loads(ports).sum() for one in observed for step in one.event.steps])


def _with_totals(rest: int, g: int, totals: Array, inputs: int) -> tuple[Array, Array]:
    """θ = offset + basis x, where the sums of u of the first steps are as given and the others are free."""
    sums_to_0 = np.linalg.qr(np.concatenate([np.ones((g, 1)), np.eye(g)[:, 1:]], axis=1))[0][:, 1:]
    offset = np.zeros(rest + inputs * g)
    blocks = [np.eye(rest)]
    for number in range(inputs):
        given = number < len(totals)
        blocks.append(sums_to_0 if given else np.eye(g))
        if given:
            offset[rest + number * g : rest + (number + 1) * g] = totals[number] / g
    basis = np.zeros((len(offset), sum(block.shape[1] for block in blocks)))
    row = column = 0
    for block in blocks:
        basis[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    return offset, basis


def _sizes(facts: GridFacts) -> dict[str, int]:
    return {"k": len(facts.edges), "m": len(facts.machines), "d": len(facts.machines)}


def _parts(facts: GridFacts, inputs: int) -> dict[str, slice]:
    g = len(facts.machines)
    ends = np.cumsum([0, g * (g - 1) // 2, g, g, inputs * g])
    return {name: slice(int(a), int(b)) for name, a, b in zip(("k_r", "m", "d", "u"), ends[:-1], ends[1:], strict=True)}


def _left_sums(values: Array, h: float) -> Array:
    """∫ from the first sample to each, as Euler's scheme has it."""
    return h * np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values[:-1], axis=0)])


def _euler_governors(facts: GridFacts, omega: Array, h: float) -> Array:
    """P of ṗ = −T (p + G ω) from rest, by Euler's scheme."""
    power = np.zeros_like(omega)
    for i, (rate, gain) in enumerate(zip(facts.governor_rate, facts.droop_gain, strict=True)):
        power[1:, i] = lfilter([-h * rate * gain], [1.0, h * rate - 1.0], omega[:-1, i])
    return power


def _integrals(time: Array, omega: Array, steps: Sequence[float]) -> tuple[Array, Array, Array]:
    """ω without gaps, ∫ω and ∫∫ω from the first sample on, by cubic splines between the steps, where ω bends."""
    filled, once, twice = (np.zeros_like(omega) for _ in range(3))
    kinks = [0, *(int(np.searchsorted(time, at - 1e-9)) for at in steps[1:]), len(time) - 1]
    for start, stop in pairwise(dict.fromkeys(kinks)):
        part = slice(start, stop + 1)
        for column in range(omega.shape[1]):
            seen = np.flatnonzero(np.isfinite(omega[part, column]))
            spline = CubicSpline(time[part][seen], omega[part][seen, column])
            first, second = spline.antiderivative(), spline.antiderivative(2)
            t = time[part]
            area, moment, begin = once[start, column], twice[start, column], time[start]
            filled[part, column] = spline(t)
            once[part, column] = area + first(t) - first(begin)
            twice[part, column] = moment + (area - first(begin)) * (t - begin) + second(t) - second(begin)
    return filled, once, twice


def _governors(facts: GridFacts, omega: Array, angle: Array, h: float) -> Array:
    """∫p of ṗ = −T (p + G ω) from rest, which is −p/T − G ∫ω; p is exact for ω that is linear between samples."""
    out = np.zeros_like(omega)
    for i, (rate, gain) in enumerate(zip(facts.governor_rate, facts.droop_gain, strict=True)):
        if rate == 0:
            continue
        decay = np.exp(-rate * h)
        ramp = (1 - decay) / (rate * h)
        held = (1 - ramp) * omega[1:, i] + (ramp - decay) * omega[:-1, i]
        power: Array = np.asarray(lfilter([-gain], [1.0, -decay], held))
        out[1:, i] = -power / rate - gain * angle[1:, i]
    return out
