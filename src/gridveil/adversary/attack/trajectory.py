"""Estimate a reduced model from public trajectories alone, what no ε can protect; and the most
probable network given records, or records and a release, with public topology and bounds.

A linear regression (regression.py) starts the maximum-likelihood estimate, which is Gauss-Newton on
the simulated output error. If all of k, m, d and u grow by one factor, ω stays as it is but for
what the governors give: the total load Σℓ fixes that factor; without it only the governors do,
whose gain is small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.adversary.attack.regression import regress, with_totals
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.engine.propagate import SchemeName
from gridveil.dynamics.engine.records import SampledRecords
from gridveil.dynamics.events import Event, Step
from gridveil.dynamics.models import GridPorts
from gridveil.dynamics.swing import REDUCED_SWING, DrivenSwingFamily
from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array, GridFacts, complete_edges
from gridveil.grid.parameters import Bounds
from gridveil.grid.tables import Values
from gridveil.inference.fit.outcome import TwoStage
from gridveil.inference.fit.problem import Observation, as_records
from gridveil.inference.fit.sampling import Sampling
from gridveil.inference.fit.scale import FREE_SCALE
from gridveil.inference.fit.sensitivity import Predictor
from gridveil.inference.fit.two_stage import check_size, two_stage
from gridveil.inference.posterior import beliefs, no_release
from gridveil.privacy.noisy import NoisyGrid

NOT_ATTACKED = "Nothing was estimated."
# Steps of Gauss-Newton at most, and the change of every entry, against its size, at which it ends.
ROUNDS, CLOSE = 60, 1e-9
# What no weight, inertia or damping is below [units of the groups]: at 0 the equations would break
# down.
LEAST = 1e-6
# A search that gets lost over all samples starts again over these first seconds, in turn [s].
HORIZONS_S = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


@dataclass(frozen=True, eq=False)
class Scale:
    """The common factor of k, m, d and u, where the total load is not known.

    per_load : 1/Σℓ of the first step [1 / p.u. power], as the records give it, and its standard
    deviation (Cramér-Rao).
    name : what the factor is, in words.
    """

    per_load: float
    deviation: float
    name: str = FREE_SCALE

    @property
    def free(self) -> bool:
        """Whether records leave the factor open: 1/Σℓ = 0 lies within two standard deviations."""
        return self.per_load < 2 * self.deviation


@dataclass(frozen=True, eq=False)
class Estimate:
    """A reduced model as records alone give it.

    values : k_r (e,), m and d (g,), with the loads' damping in d [units of the parameters].
    u : (s, g) load of each step on each machine [p.u. power]. Where the total load is not known,
    all of them are per p.u. of the first step's load, and scale says what is known of it.
    deviation : standard deviations by the Cramér-Rao bound at the estimate, by the names k_r, m, d
    and u.
    start : what the regression gave, as θ = (k_r, m, d, u).
    misfit : RMS of ω − ω̂ [p.u.].
    rounds : of Gauss-Newton.
    """

    values: Values
    u: Array
    scale: Scale | None
    deviation: dict[str, Array]
    start: Array
    misfit: float
    rounds: int
    converged: bool


@one_blas_thread()
def estimate(
    facts: GridFacts,
    observed: Sequence[Observation],
    *,
    dt_s: float = 0.01,
    scheme: SchemeName = "exact",
    sigma: float,
    total_known: bool = True,
) -> Estimate:
    """Estimate (k_r, m, d, u) by maximum likelihood, under white noise of sigma [p.u.].

    Uses of facts only which buses have machines, T, G and ω_b, and of the events their times and,
    if total_known, their total loads. Neither the topology nor a release is used. sigma only scales
    the standard deviations.
    """
    check_size(facts)
    seen = [_at_machines(facts, observation, total_known) for observation in observed]
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
    x, rounds, converged = _search(task, task.coordinates(start))
    J, r = task.slopes(x), task.residuals(x)
    theta, slopes = task.theta(x), task.theta_slopes()
    size = np.where(x == 0, 1.0, np.abs(x))
    R = np.linalg.qr(J * size, mode="r")
    spread = sigma * np.linalg.pinv(R, rcond=1e-15) * size[:, None]
    deviation = np.sqrt(np.sum((slopes @ spread) ** 2, axis=1))
    parts = _parts(facts, len(totals))
    scale = None if total_known else Scale(float(x[-1]), float(np.linalg.norm(spread[-1])))
    return Estimate(
        values={name: theta[parts[name]] for name in REDUCED_SWING},
        u=theta[parts["u"]].reshape(len(totals), -1),
        scale=scale,
        deviation={name: deviation[part] for name, part in parts.items()},
        start=start,
        misfit=float(np.sqrt(np.mean(r**2))),
        rounds=rounds,
        converged=converged,
    )


class _OutputError:
    """ω(x) − ω̂ of x = (k_r, m, d, v), u = N v + Σℓ/g, and of 1/Σℓ where that is unknown.

    With an unknown total, θ is per p.u. of the first step's load, and the governors' gains are
    G/Σℓ.
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
        self.records = SampledRecords.of(records)
        self.sampling = Sampling.of(self.records)
        self.rest = g * (g - 1) // 2 + 2 * g
        known = totals if total_known else np.ones(1)
        self.offset, self.basis = with_totals(self.rest, g, known, self.inputs)

    @property
    def lower(self) -> Array:
        """Weights, inertia and damping are above 0, and 1/Σℓ is not below; u is free."""
        lower = np.full(self.basis.shape[1] + (not self.total_known), -np.inf)
        lower[: self.rest] = LEAST
        if not self.total_known:
            lower[-1] = 0.0
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
        return (
            self.predictor(share).values(self.theta(x), self.sense, self.sampling)
            - self.sampling.observed
        )

    def slopes(self, x: Array) -> Array:
        """Slopes of ω by x (rows, ·)."""
        theta, share = self.theta(x), 1.0 if self.total_known else x[-1]
        moving, none = np.arange(len(theta)), np.empty(0, dtype=np.int64)
        slopes = (
            self.predictor(share).slopes(theta, self.sense, self.sampling, moving, none)
            @ self.basis
        )
        if self.total_known:
            return slopes
        step = 1e-3 * max(share, 1e-2)
        up, down = (
            self.predictor(share + sign * step).values(theta, self.sense, self.sampling)
            for sign in (1, -1)
        )
        return np.column_stack([slopes, (up - down) / (2 * step)])


def _search(task: _OutputError, start: Array) -> tuple[Array, int, bool]:
    """Minimise |ω − ω̂|² from a start; if it fails, over growing parts: x, rounds, ended.

    From a poor start fast swings soon fall out of step, and the search ends in a valley beside.
    """
    x, rounds, converged = _gauss_newton(task.residuals, task.slopes, start, task.lower)
    if converged:
        return x, rounds, True
    other, whole = start, task.sampling
    for horizon_s in (*HORIZONS_S, None):
        task.sampling = (
            whole
            if horizon_s is None
            else Sampling.of(task.records, until=round(horizon_s / task.dt_s))
        )
        other, more, converged = _gauss_newton(task.residuals, task.slopes, other, task.lower)
        rounds += more
    searches = [(x, rounds, False), (other, rounds, converged)]
    return min(searches, key=lambda search: _cost(task.residuals(search[0])))


def _gauss_newton(
    residuals: Callable[[Array], Array], slopes: Callable[[Array], Array], x: Array, lower: Array
) -> tuple[Array, int, bool]:
    """Minimise |r(x)|² over x ≥ lower by Levenberg-Marquardt, damped in units of each column.

    Entries on their bound that a step would push out stay there for that step. It ends where steps
    are within rounding.
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
            x, r, cost, damping = (
                there,
                r_there,
                cost_there,
                damping / 10 if damping > 1e-9 else 0.0,
            )
            J = slopes(x)
        else:
            converged = bool(np.all(np.abs(step) <= CLOSE * np.maximum(np.abs(x), 1e-3)))
            damping = max(10 * damping, 1e-8)
    return x, rounds, converged


def _step(J: Array, r: Array, damping: float, held: NDArray[np.bool_]) -> Array:
    """The damped step to the least |r + J step|², over entries free to move."""
    step, free = np.zeros(J.shape[1]), np.ones(J.shape[1], dtype=bool)
    while True:
        size = np.linalg.norm(J[:, free], axis=0)
        size[size == 0] = 1.0
        Q, R = np.linalg.qr(J[:, free] / size)
        n = len(size)
        stacked = np.concatenate([R, np.sqrt(damping) * np.eye(n)])
        step[:] = 0.0
        step[free] = (
            -np.linalg.lstsq(stacked, np.concatenate([Q.T @ r, np.zeros(n)]), rcond=None)[0] / size
        )
        out = free & held & (step < 0)
        if not out.any():
            return step
        free &= ~out


def _cost(r: Array) -> float:
    """|r|², endless where a step went too far."""
    with np.errstate(all="ignore"):
        cost = float(r @ r)
    return cost if np.isfinite(cost) else np.inf


def _at_machines(facts: GridFacts, observation: Observation, total_known: bool) -> Observation:
    """Keep the machines' columns of a record; of an event of unknown size, its times."""
    names = [facts.buses[i] for i in facts.machines]
    missing = [name for name in names if name not in observation.trajectory.buses]
    if missing:
        raise OptionError(
            f"The records lack {len(missing)} of {len(names)} machines' buses.",
            expected="the frequency at every machine",
            outcome=NOT_ATTACKED,
            remedy="Use from_records, which takes the public topology and bounds as well.",
        )
    places = [observation.trajectory.buses.index(name) for name in names]
    trajectory = replace(
        observation.trajectory, omega=observation.trajectory.omega[:, places], buses=tuple(names)
    )
    event = observation.event
    if not total_known:
        event = Event(tuple(Step(step.at_s, change={names[0]: 1.0}) for step in event.steps))
    return replace(observation, trajectory=trajectory, event=event)


def _totals(facts: GridFacts, observed: Sequence[Observation]) -> Array:
    """Total load of each step of each event (s,) [p.u. power]."""
    ports = GridPorts.of(facts)
    return np.array([step.loads(ports).sum() for one in observed for step in one.event.steps])


def _parts(facts: GridFacts, inputs: int) -> dict[str, slice]:
    g = len(facts.machines)
    ends = np.cumsum([0, g * (g - 1) // 2, g, g, inputs * g])
    return {
        name: slice(int(a), int(b))
        for name, a, b in zip((*REDUCED_SWING, "u"), ends[:-1], ends[1:], strict=True)
    }


def from_records(
    facts: GridFacts,
    observed: Sequence[Observation],
    bounds: Bounds,
    *,
    dt_s: float,
    scheme: SchemeName,
    sigma: float,
) -> TwoStage:
    """The most probable network given records at any locations, without a release."""
    return two_stage(
        facts,
        observed,
        no_release(facts.sizes, bounds),
        bounds,
        dt_s=dt_s,
        scheme=scheme,
        sigma=sigma,
    )


def from_both(
    noisy: NoisyGrid,
    observed: Sequence[Observation],
    *,
    dt_s: float,
    scheme: SchemeName,
    sigma: float,
) -> TwoStage:
    """The most probable network given a release and records together."""
    return two_stage(
        noisy.facts, observed, beliefs(noisy), noisy.bounds, dt_s=dt_s, scheme=scheme, sigma=sigma
    )
