"""What public trajectories give away by themselves, before any ε is spent: rank, Cramér-Rao bounds, and each item's μ.

Computed at a public table: a surrogate, or what was made of a noisy release. ω is what the table would answer, sampled as the
records are, with white noise of standard deviation σ. Two attackers are looked at. One knows nothing but that there is a
reduced model, and estimates (k_r, m, d, u). The other knows the topology and where the load stepped, and estimates the items
(k, m, d) themselves; to him the public bounds are a prior (log-uniform). Either knows the total load Σℓ of the event, or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from gridveil.engine.objective import one_blas_thread
from gridveil.engine.schemes import SchemeName
from gridveil.errors import OptionError
from gridveil.fit.problem import Observation
from gridveil.fit.sensitivity import Sampling
from gridveil.fit.task import Task
from gridveil.fit.two_stage import MOST_MACHINES
from gridveil.fit.unknown import Unknown
from gridveil.grid import Array
from gridveil.groups import Bounds
from gridveil.noisy import PublicTable
from gridveil.posterior import FLOOR
from gridveil.privacy.adjacency import Adjacency
from gridveil.surrogate import AT_MIDDLE
from gridveil.trajectory import Trajectory

GROUPS = ("k", "m", "d")
IN_WORDS = {"k": "line weights", "m": "inertia", "d": "damping"}
ESTIMATED = "The event is to be estimated; these figures take it as it is guessed, as if an attacker knew it."
FREE_SCALE = "a common factor of k, m, d, u; only G ω fixes it"
# Singular values below this share of the largest are rounding.
ROUNDING = 1e-11
# A group is given away below this relative standard deviation; it stays hidden above that share of what the bounds leave.
GIVEN_AWAY, HIDDEN = 0.10, 0.90
LEAST_SIGMA = 1e-9


@dataclass(frozen=True, eq=False)
class Told:
    """What records tell about the entries of one group, as relative standard deviations (of the logarithm).

    bound : (n,) Cramér-Rao, inf where the records leave an entry open; with_bounds : (n,) the same with the public bounds as a
    prior; prior : by the bounds alone.
    """

    bound: Array
    with_bounds: Array
    prior: float

    @property
    def typical(self) -> float:
        """Median over the entries, with the public bounds."""
        return float(np.median(self.with_bounds)) if len(self.with_bounds) else self.prior


@dataclass(frozen=True, eq=False)
class Attacker:
    """What an attacker gets who knows the total load of the events, or does not.

    rank : directions of the size entries of (log k, log m, log d) that the records see at all; seen : those that they fix
    better than the public bounds do. items : by group, topology known. reduced : Cramér-Rao of (k_r, m, d) without topology,
    relative. scale : relative standard deviation of the common factor of k, m, d and u without topology (0: it is known).
    mu : (n,) by group, each item's largest ‖ω(θ) − ω(θ′)‖/σ; mu_neighbours : the largest by the rule of the adjacency.
    """

    total_known: bool
    rank: int
    size: int
    seen: int
    items: Mapping[str, Told]
    reduced: Mapping[str, Array]
    scale: float
    mu: Mapping[str, Array]
    mu_neighbours: float


@dataclass(frozen=True, eq=False)
class Leakage:
    """What records give away by themselves.

    known, unknown : with the total load of the events public, and not. origin : what ω was computed at, in words.
    samples : values that the records hold; sigma : of each [p.u. frequency]; locations : buses that were recorded.
    """

    known: Attacker
    unknown: Attacker
    sigma: float
    samples: int
    locations: tuple[str, ...]
    rule: str
    origin: str
    notes: tuple[str, ...] = field(default=())

    def verdict(self) -> str:
        """What that means, in plain words."""
        one = f"This trajectory, of bus {', '.join(self.locations)} only," if len(self.locations) == 1 else "This trajectory"
        told = self.known.items
        given = [f"{IN_WORDS[name]} to about {percent(told[name].typical)}" for name in GROUPS if _state(told[name]) == "given"]
        narrowed = [
            f"{IN_WORDS[name]} to about {percent(told[name].typical)} (the public bounds alone: {percent(told[name].prior)})"
            for name in GROUPS
            if _state(told[name]) == "narrowed"
        ]
        hidden = [IN_WORDS[name] for name in GROUPS if _state(told[name]) == "hidden"]
        said = []
        if given:
            said.append(
                f"{one} alone gives {_and(given)}: there no ε protects them any more, and a release can only add to it."
            )
        if narrowed:
            said.append(f"{'It' if said else one} narrows {_and(narrowed)}.")
        if hidden:
            subject = f"{one} leaves" if not said else "It leaves"
            said.append(f"{subject} single values of {_and(hidden)} about where the public bounds do.")
        well = int((told["k"].with_bounds <= GIVEN_AWAY).sum())
        if well and "line weights" in hidden:
            said.append(f"But {well} of {len(told['k'].with_bounds)} line weights it gives to {percent(GIVEN_AWAY)} or better.")
        free = self.unknown.scale
        said.append(
            f"Without the event's total load one scale stays free ({FREE_SCALE}, to {percent(free)}); ratios do not."
            if free > GIVEN_AWAY
            else f"Governors fix the scale of all values to {percent(free)}, even without the event's total load."
        )
        return " ".join(said)

    def joint_delta(self, epsilon_x: float) -> float:
        """δ at which trajectory and release together are (ε + ε_x, δ): see `joint_delta`. At this table's neighbours only."""
        return joint_delta(self.known.mu_neighbours, epsilon_x)

    def to_json(self) -> dict[str, Any]:
        """All of it in JSON's types; null for what is not bounded."""
        return {
            "computed_at": self.origin,
            "sigma_pu": self.sigma,
            "values": self.samples,
            "locations": list(self.locations),
            "adjacency": self.rule,
            "verdict": self.verdict(),
            "notes": list(self.notes),
            "total_load_public": _attacker_json(self.known),
            "total_load_unknown": {**_attacker_json(self.unknown), "scale": FREE_SCALE},
        }


def leakage(
    table: PublicTable,
    observed: Sequence[Observation],
    bounds: Bounds,
    adjacency: Adjacency,
    *,
    sigma: float,
    dt_s: float = 0.01,
    scheme: SchemeName = "exact",
    origin: str = AT_MIDDLE,
) -> Leakage:
    """Work out what records give away. table : where to, see the module; sigma : standard deviation of a sample [p.u.].

    Privacy
    -------
    Uses a public table, public facts and the records' places and times: nothing of the private grid, so it costs nothing.
    """
    _check_size(len(table.facts.machines))
    if not (math.isfinite(sigma) and sigma > 0):
        raise OptionError(f"sigma = {sigma:g}", expected="a standard deviation above 0", outcome="Nothing was computed.")
    with one_blas_thread():
        at = _At(table, _as_known(observed), bounds, dt_s, scheme)
        moved = _moves(at, adjacency, bounds)
        known, unknown = (_attacker(at, bounds, moved, adjacency, sigma, total_known=one) for one in (True, False))
    buses = tuple(dict.fromkeys(bus for one in observed for bus in one.trajectory.buses))
    notes = (ESTIMATED,) if any(one.unknown.anything for one in observed) else ()
    return Leakage(known, unknown, sigma, len(at.sampling.observed), buses, adjacency.rule, origin, notes)


def _as_known(observed: Sequence[Observation]) -> list[Observation]:
    """The same records with their events as they are guessed: an attacker may know what the owner would estimate."""
    return [replace(one, unknown=Unknown()) for one in observed]


def largest_mu(
    table: PublicTable,
    observed: Sequence[Observation],
    bounds: Bounds,
    adjacency: Adjacency,
    *,
    sigma: float,
    dt_s: float = 0.01,
    scheme: SchemeName = "exact",
) -> float:
    """The largest μ of neighbours at the eight corners of the public bounds and at a table: what a joint claim should use.

    A claim holds for all tables within the bounds, and an item weighs most where inertia, damping and weights are small; this
    looks at corners, and proves nothing about what lies between.
    """
    facts, found = table.facts, [table]
    ends = [(_least(getattr(bounds, name)), getattr(bounds, name).upper) for name in GROUPS]
    for k, m, d in product(*ends):
        g = len(facts.machines)
        found.append(PublicTable(facts, np.full(len(facts.edges), k), np.full(g, m), np.full(g, d)))
    with one_blas_thread():
        return max(
            _moves(_At(one, _as_known(observed), bounds, dt_s, scheme), adjacency, bounds).largest(adjacency, None, sigma)
            for one in found
        )


def joint_delta(mu: float, epsilon_x: float) -> float:
    """δ = Φ(−ε_x/μ + μ/2) − e^(ε_x) Φ(−ε_x/μ − μ/2): what a trajectory with white noise adds to a release's ε.

    Trajectory and release together are then (ε + ε_x, δ)-DP, where μ is the largest ‖ω(θ) − ω(θ′)‖/σ over neighbours.

    >>> round(joint_delta(1.0, 1.0), 4)
    0.1269
    """
    from scipy.special import log_ndtr, ndtr

    if mu <= 0:
        return 0.0
    if not math.isfinite(mu):
        return 1.0
    lost = math.exp(min(epsilon_x + float(log_ndtr(-epsilon_x / mu - mu / 2)), 0.0))
    return max(float(ndtr(-epsilon_x / mu + mu / 2)) - lost, 0.0)


def joint_epsilon(mu: float, delta: float) -> float:
    """The ε_x at which `joint_delta` is delta.

    >>> round(joint_delta(2.0, joint_epsilon(2.0, 1e-5)) / 1e-5, 6)
    1.0
    """
    from scipy.optimize import brentq

    if joint_delta(mu, 0.0) <= delta:
        return 0.0
    top = mu * (mu / 2 + 40)  # δ is far below rounding there
    return float(brentq(lambda epsilon: joint_delta(mu, epsilon) - delta, 0.0, top, xtol=1e-12, rtol=1e-12))  # pyright: ignore[reportArgumentType]


def own_sigma(trajectory: Trajectory, event_s: float) -> tuple[float, str]:
    """Noise of a record by its own scatter [p.u.], and how it was found: the smaller, hence the more cautious, of two ways.

    One is the standard deviation before the event, the other the scatter of second differences, which slow swings hardly move.
    """
    found: list[tuple[float, str]] = []
    early = trajectory.omega[trajectory.time_s < event_s - 1e-9]
    if (np.isfinite(early).sum(axis=0) >= 10).all():
        found.append((float(np.nanmedian(np.nanstd(early, axis=0, ddof=1))), "its scatter before the event"))
    second = trajectory.omega[2:] - 2 * trajectory.omega[1:-1] + trajectory.omega[:-2]
    if np.isfinite(second).sum() >= 30:
        spread = float(np.nanmedian(np.abs(second))) / 0.67449 / math.sqrt(6)
        found.append((spread, "its scatter from sample to sample"))
    if not found:
        raise OptionError(
            "The record is too short to show its own noise.",
            expected="--sigma, such as 1e-4 (p.u.) or 5mHz",
            outcome="Nothing was computed.",
        )
    sigma, origin = min(found)
    return max(sigma, LEAST_SIGMA), origin


def _check_size(machines: int) -> None:
    if machines > MOST_MACHINES:
        raise OptionError(
            f"What a trajectory gives away cannot be computed for {machines} machines.",
            expected=f"at most {MOST_MACHINES}",
            outcome="Nothing was computed.",
            remedy="Name a smaller public case with --surrogate.",
        )


def percent(share: float) -> str:
    """A relative standard deviation in words: two digits, and no more than makes sense."""
    if not share < 10:
        return "more than 1000 %"
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


class _At:
    """ω at a table, sampled as the records are: y = (log k, log m, log d)."""

    def __init__(
        self, table: PublicTable, observed: Sequence[Observation], bounds: Bounds, dt_s: float, scheme: SchemeName
    ) -> None:
        self.facts = table.facts
        # Logarithms are taken of all of them; a damping of 0 is taken for the least that the bounds allow.
        self.values: dict[str, Array] = {
            name: np.where(getattr(table, name) > 0, getattr(table, name), _least(getattr(bounds, name))) for name in GROUPS
        }
        self.task = Task.of(table.facts, observed, bounds, dt_s=dt_s, scheme=scheme)
        self.sampling: Sampling = self.task.predictor.sampling()
        self.omega = self.predict(self.values)

    def predict(self, values: Mapping[str, Array]) -> Array:
        """ω (rows,) [p.u.] of a table."""
        y = np.log(np.concatenate([values[name] for name in GROUPS]))
        coordinates = self.task.coordinates
        return self.task.predictor.values(*coordinates.model(coordinates.of_network_and_machines(y)), self.sampling)

    def by_step(self) -> Array:
        """What each step of load adds to ω (rows, s): ω is linear in loads, so these are its slopes by their logarithms."""
        coordinates = self.task.coordinates
        y = np.log(np.concatenate([self.values[name] for name in GROUPS]))
        theta, sense = coordinates.model(coordinates.of_network_and_machines(y))
        g, s = len(self.facts.machines), coordinates.drive.shape[1]
        if s == 1:
            return self.omega[:, None]
        columns = []
        for step in range(s):
            alone = theta.copy()
            u = alone[-s * g :].reshape(s, g)
            u[np.arange(s) != step] = 0.0
            columns.append(self.task.predictor.values(alone, sense, self.sampling))
        return np.stack(columns, axis=1)

    def slopes(self) -> tuple[Array, Array, Array]:
        """∂ω/∂ of (log k_r, log m, log D, v, w), of (log k, log m, log d), and of the total of each step without topology."""
        coordinates = self.task.coordinates
        y = np.log(np.concatenate([self.values[name] for name in GROUPS]))
        x, chain = coordinates.slopes(y)
        raw = self.task.slopes(x, self.sampling)
        reduced = raw @ coordinates.model_slopes(x)
        g, s = len(self.facts.machines), coordinates.drive.shape[1]
        first = coordinates.parts["d"].stop
        totals = raw[:, first : first + s * g].reshape(len(raw), s, g).mean(axis=2) * coordinates.drive.sum(axis=0)
        return reduced, reduced @ chain, totals


@dataclass(frozen=True, eq=False)
class _Moves:
    """ω(θ′) − ω(θ) of neighbours. items : by group, a list of the moves of each item; more : of other sets of items."""

    items: Mapping[str, Sequence[Sequence[Array]]]
    more: Sequence[Array]

    def mu(self, name: str, project: Array | None, sigma: float) -> Array:
        """Largest |ω(θ′) − ω(θ)|/σ of each item of a group; project : (rows, ·) what is first taken out."""
        return np.array([max((_size(move, project) for move in moves), default=0.0) / sigma for moves in self.items[name]])

    def largest(self, adjacency: Adjacency, project: Array | None, sigma: float) -> float:
        """The largest over neighbours by the rule of the adjacency."""
        together = max((_size(move, project) / sigma for move in self.more), default=0.0)
        if adjacency.counts == "one-per-group" and self.more:
            return together
        return max(together, *(float(self.mu(name, project, sigma).max(initial=0.0)) for name in GROUPS))


def _moves(at: _At, adjacency: Adjacency, bounds: Bounds) -> _Moves:
    """All neighbours that differ by α in one item, up and down, and the sets of items that the rule lets move together."""
    ends = {name: [_ends(float(v), name, adjacency, bounds) for v in at.values[name]] for name in GROUPS}
    items: dict[str, list[list[Array]]] = {
        name: [[_difference(at, [(name, i, to)]) for to in ends[name][i]] for i in range(len(ends[name]))] for name in GROUPS
    }
    more: list[Array] = []
    if adjacency.counts == "one-asset":
        for i in range(len(ends["m"])):
            more += [_difference(at, [("m", i, m), ("d", i, d)]) for m, d in product(ends["m"][i], ends["d"][i])]
    elif adjacency.counts == "one-per-group" and all(ends.values()):
        worst = {
            name: int(np.argmax([max((_size(move, None) for move in one), default=0.0) for one in items[name]]))
            for name in GROUPS
        }
        for to in product(*(ends[name][worst[name]] for name in GROUPS)):
            more.append(_difference(at, [(name, worst[name], end) for name, end in zip(GROUPS, to, strict=True)]))
    return _Moves(items, more)


def _ends(value: float, name: str, adjacency: Adjacency, bounds: Bounds) -> list[float]:
    """Values of an item at α from its own, up and down, within its public bounds."""
    alpha, public = float(adjacency.alpha[name]), getattr(bounds, name)
    up, down = (value * (1 + alpha), value / (1 + alpha)) if adjacency.relative else (value + alpha, value - alpha)
    up, down = min(up, max(public.upper, value)), max(down, min(_least(public), value))
    return [end for end in (up, down) if end != value]


def _difference(at: _At, changes: Sequence[tuple[str, int, float]]) -> Array:
    values = {name: array.copy() for name, array in at.values.items()}
    for name, place, value in changes:
        values[name][place] = value
    return at.predict(values) - at.omega


def _size(move: Array, project: Array | None) -> float:
    """Length of a difference, of what a change of loads cannot explain if project holds an orthonormal basis of those."""
    return float(np.linalg.norm(move if project is None else move - project @ (project.T @ move)))


def _attacker(at: _At, bounds: Bounds, moves: _Moves, adjacency: Adjacency, sigma: float, *, total_known: bool) -> Attacker:
    reduced, items, totals = at.slopes()
    project = None
    if not total_known:
        project = np.linalg.qr(at.by_step())[0]
        reduced = np.concatenate([reduced, totals], axis=1)
    size = items.shape[1]
    prior = np.concatenate([np.full(len(at.values[name]), _prior(getattr(bounds, name))) for name in GROUPS])
    free = items if project is None else items - project @ (project.T @ items)
    singular, bound = _cramer_rao(free, sigma)
    _, bound_reduced = _cramer_rao(reduced, sigma)
    information = np.linalg.svd(free * prior / sigma, compute_uv=False) ** 2
    R = np.linalg.qr(np.concatenate([free * prior / sigma, np.eye(size)]), mode="r")
    with_bounds = prior * np.linalg.norm(np.linalg.inv(R), axis=1)
    places = dict(
        zip(GROUPS, np.split(np.arange(size), np.cumsum([len(at.values[name]) for name in GROUPS])[:-1]), strict=True)
    )
    parts = at.task.coordinates.parts
    return Attacker(
        total_known=total_known,
        rank=int((singular > ROUNDING * singular[0]).sum()),
        size=size,
        seen=int((information > 1).sum()),
        items={name: Told(bound[place], with_bounds[place], _prior(getattr(bounds, name))) for name, place in places.items()},
        reduced={name: bound_reduced[parts[name]] for name in ("k_r", "m", "d")},
        scale=0.0 if total_known else float(bound_reduced[-totals.shape[1] :].min()),
        mu={name: moves.mu(name, project, sigma) for name in GROUPS},
        mu_neighbours=moves.largest(adjacency, project, sigma),
    )


def _cramer_rao(J: Array, sigma: float) -> tuple[Array, Array]:
    """Singular values of J, and standard deviations (n,) that no unbiased estimate is below; inf where J leaves one open."""
    R = np.linalg.qr(J, mode="r")
    _, singular, rows = np.linalg.svd(R)
    kept = singular > ROUNDING * singular[0]
    seen = rows[: len(singular)][kept]
    open_part = 1 - np.sum(seen**2, axis=0)
    deviation = sigma * np.sqrt(np.sum((seen / singular[kept, None]) ** 2, axis=0))
    return singular, np.where(open_part > 1e-6, np.inf, deviation)


def _least(public: Any) -> float:
    """Lower end of public bounds, above 0."""
    return max(public.lower, FLOOR * public.upper)


def _prior(public: Any) -> float:
    """Standard deviation of the logarithm under a log-uniform prior."""
    return math.log(public.upper / _least(public)) / math.sqrt(12)


def _state(told: Told) -> str:
    if told.typical <= GIVEN_AWAY:
        return "given"
    return "hidden" if told.typical >= HIDDEN * told.prior else "narrowed"


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _attacker_json(one: Attacker) -> dict[str, Any]:
    return {
        "rank": one.rank,
        "directions": one.size,
        "fixed_by_records": one.seen,
        "relative_deviation": {
            name: {
                "cramer_rao": _spread(told.bound),
                "with_public_bounds": _spread(told.with_bounds),
                "public_bounds_alone": told.prior,
            }
            for name, told in one.items.items()
        },
        "relative_deviation_without_topology": {name: _spread(values) for name, values in one.reduced.items()},
        "relative_deviation_of_scale": _finite(one.scale),
        "mu": {name: [float(value) for value in values] for name, values in one.mu.items()},
        "mu_of_neighbours": one.mu_neighbours,
    }


def _spread(values: Array) -> dict[str, float | None] | None:
    if not len(values):
        return None
    return {"least": _finite(values.min()), "median": _finite(np.median(values)), "most": _finite(values.max())}


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
