"""Result of the two-stage fit: a network, how far records fix it, and the unknown events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.swing import SWING
from gridveil.grid.facts import Array
from gridveil.grid.tables import Values
from gridveil.inference.fit.direct import Direct
from gridveil.inference.fit.least_squares import Gaussian, Minimum
from gridveil.inference.fit.noise import Residue, noise_of
from gridveil.inference.fit.problem import Observation
from gridveil.inference.fit.sampling import Sampling
from gridveil.inference.fit.task import Task
from gridveil.inference.fit.unknown import EstimatedEvent


@dataclass(frozen=True, eq=False)
class Identifiability:
    """Which directions of y = (log k, log m, log d, z) the records fix, and which the release.

    information : (n,) eigenvalues of the records' Fisher information in units of the prior's
    precision, largest first: a direction with a value above 1 is fixed more by data than by the
    prior.
    directions : (n, n) in columns, in y; of many machines, those alone that the records see.
    rank : directions that the records see at all (to rounding).
    """

    information: Array
    directions: Array
    rank: int

    @property
    def by_data(self) -> int:
        """Directions that the records fix."""
        return int((self.information > 1).sum())

    @property
    def by_prior(self) -> int:
        """Directions that the release, or its bounds, fix."""
        return len(self.information) - self.by_data


@dataclass(frozen=True, eq=False)
class SearchEnd:
    """Where a two-stage fit ended: what error bars start from.

    minimum : over y, of the records at the samples looked at. sigma : as for `two_stage`.
    direct : whether the network itself was looked for, see `gridveil.inference.fit.network_fit`.
    others : y (n,) of other explanations of the records, nearly as good.
    """

    task: Task
    prior: Gaussian
    minimum: Minimum
    sampling: Sampling
    sigma: float | Array
    direct: bool = False
    others: tuple[Array, ...] = ()

    def compare(self, y: Array, sampling: Sampling) -> Array:
        """ω − ω̂ at y (rows,) [p.u.]."""
        if self.direct:
            return Direct(self.task).compare(y, sampling)
        return self.task.compare(self.task.coordinates.of_network_and_machines(y), sampling)


@dataclass(frozen=True, eq=False)
class TwoStage:
    """What the two-stage fit found.

    model : L_red(k) and K_ac(k) of one network.
    values : (e,) of k, (g,) of m and d, of that network [units of the parameters].
    cost : ½ Σ (ω − ω̂)²/σ² + ½ |y − prior|² at the end.
    costs_of_starts : of each start after stage 2, the least was taken.
    history : Σ_events ∫ |ω − ω̂|² dt after stage 2 and after each round of the polish [p.u.² s].
    covariance : (e_r + 2g,)² posterior covariance of (k_r, m, d) of the model; None: too large.
    events : what was found of events that were not wholly known.
    mismatch : J of other values after these events [p.u.² s].
    y : (n,) = (log k, log m, log d, z), the maximum; prior : of y.
    recorded : ω̂ (r, samples, h) [p.u.], 0 where nothing was seen.
    left : ω − ω̂ (r, samples, h) at another y [p.u.], 0 where nothing was seen, and where that was.
    noise : of what is left of the records at y.
    ended : for error bars.
    """

    model: ReducedModel
    values: Values
    cost: float
    costs_of_starts: tuple[float, ...]
    history: Array
    converged: bool
    identifiability: Identifiability
    covariance: Array | None
    events: tuple[EstimatedEvent, ...]
    mismatch: Callable[[Values], float]
    y: Array
    prior: Gaussian
    recorded: Array
    left: Callable[[Array], tuple[Array, NDArray[np.bool_]]]
    noise: Residue
    ended: SearchEnd


def covariance(prior: Gaussian, minimum: Minimum) -> Array:
    """Posterior covariance of y."""
    return np.linalg.inv(minimum.slopes.T @ minimum.slopes + prior.precision).astype(
        np.float64, copy=False
    )


def outcome(
    ended: SearchEnd, observed: Sequence[Observation], costs: tuple[float, ...], history: Array
) -> TwoStage:
    """Turn the posterior's maximum into a network, its reduced model, its errors and the events."""
    task, prior, minimum = ended.task, ended.prior, ended.minimum
    facts = task.coordinates.facts
    e, g = len(facts.edges), len(facts.machines)
    parts = np.split(np.exp(minimum.x[: e + 2 * g]), [e, e + g])
    values: Values = dict(zip(SWING, parts, strict=True))
    scale = 1 / np.sqrt(prior.precision.diagonal())
    _, singular, rows = np.linalg.svd(minimum.slopes * scale, full_matrices=False)
    information = np.zeros(len(minimum.x))
    information[: len(singular)] = singular**2
    # Posterior covariance of y in the eigenvectors of the data's information: 1 / (1 + λ) of the
    # prior's.
    directions, released, events = rows.T, None, ()
    if len(task.coordinates.linked):
        if len(rows) < len(minimum.x):
            directions = np.linalg.qr(rows.T, mode="complete")[0]
        spread = scale[:, None] * directions / np.sqrt(1 + information)
        x, chain = task.coordinates.slopes(minimum.x)
        out = np.zeros((g * (g - 1) // 2 + 2 * g, len(minimum.x)))
        positive = task.coordinates.parts["damping"].stop
        out[task.coordinates.moving[:positive]] = np.exp(x[:positive])[:, None] * chain[:positive]
        released = out @ spread
        events = _events(task, observed, x, chain @ spread)

    def mismatch(values: Values) -> float:
        sampling, z = task.predictor.sampling(), minimum.x[e + 2 * g :]
        y = np.concatenate([*(np.log(values[name]) for name in SWING), z])
        with np.errstate(all="ignore"):
            return float(sampling.weights @ ended.compare(y, sampling) ** 2)

    def left(y: Array) -> tuple[Array, NDArray[np.bool_]]:
        sampling = task.predictor.sampling()
        return task.spread(ended.compare(y, sampling), sampling)

    return TwoStage(
        model=reduced_model(facts, values),
        values=values,
        cost=minimum.cost,
        costs_of_starts=costs,
        history=history,
        converged=minimum.converged,
        identifiability=Identifiability(
            information, scale[:, None] * directions, int((singular > 1e-12 * singular[0]).sum())
        ),
        covariance=released @ released.T if released is not None else None,
        events=events,
        mismatch=mismatch,
        y=minimum.x,
        prior=prior,
        recorded=task.predictor.records.observed,
        left=left,
        noise=noise_of(*left(minimum.x), task.predictor.dt_s),
        ended=ended,
    )


def _events(
    task: Task, observed: Sequence[Observation], x: Array, spread: Array
) -> tuple[EstimatedEvent, ...]:
    """Say what was found of the events.

    spread : (size of x, ·), whose product with itself is the covariance of x.
    """
    coordinates, g = task.coordinates, len(task.coordinates.facts.machines)
    values, moved = coordinates.values(x), coordinates.model_slopes(x) @ spread
    delays = coordinates.delays(x)
    late_sd = dict(
        zip(delays, np.linalg.norm(spread[coordinates.parts["t"]], axis=1).tolist(), strict=True)
    )
    first, step, events = coordinates.parts["damping"].stop, 0, []
    for record, observation in enumerate(observed):
        u = slice(first + step * g, first + (step + 1) * g)
        free = observation.unknown.split
        if observation.unknown.anything:
            events.append(
                EstimatedEvent(
                    record,
                    total=float(values[u].sum()) if free else None,
                    total_sd=float(np.linalg.norm(moved[u].sum(axis=0))) if free else None,
                    split=values[u] if free else None,
                    split_sd=np.linalg.norm(moved[u], axis=1) if free else None,
                    time_s=observation.event.steps[0].at_s + delays.get(record, 0.0),
                    time_sd=late_sd.get(record, 0.0),
                )
            )
        step += len(observation.event.steps)
    return tuple(events)
