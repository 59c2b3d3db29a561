"""What public trajectories give away before any ε: rank, Cramér-Rao bounds, each item's μ.

Computed at a public table: a surrogate, or what was made of a noisy release. ω is what the table
would answer, sampled as the records are, with white noise of standard deviation σ. Two attackers
are looked at. One knows nothing but that there is a reduced model, and estimates (k_r, m, d, u).
The other knows the topology and where the load stepped, and estimates the items (k, m, d)
themselves; to him the public bounds are a prior (log-uniform). Either knows the total load Σℓ of
the event, or not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from gridveil.adversary.leakage.information import Information, cramer_rao, prior_deviation
from gridveil.adversary.leakage.neighbours import At, Moves, moves_of
from gridveil.adversary.leakage.noise import joint_delta, joint_epsilon, own_sigma, sigma_of
from gridveil.adversary.leakage.report import Attacker, Leakage, Uncertainty, percent
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.engine.propagate import SchemeName
from gridveil.dynamics.swing import REDUCED_SWING
from gridveil.foundation.errors import OptionError
from gridveil.foundation.progress import corner_named, stage
from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import PARAMETERS, Bounds
from gridveil.grid.tables import PublicTable
from gridveil.inference.fit.problem import Observation
from gridveil.inference.fit.two_stage import TWO_STAGE_UP_TO
from gridveil.inference.fit.unknown import Unknown
from gridveil.planning.surrogate import AT_MIDDLE
from gridveil.privacy.adjacency import Adjacency

__all__ = [
    "Attacker",
    "Leakage",
    "Uncertainty",
    "check_claim",
    "check_machines",
    "joint_delta",
    "joint_epsilon",
    "largest_mu",
    "leakage",
    "own_sigma",
    "percent",
    "sigma_of",
]

ESTIMATED = (
    "The event is to be estimated; these figures take it as it is guessed, as if an "
    "attacker knew it."
)


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
    """Work out what records give away at a table. sigma : standard deviation of a sample [p.u.].

    Privacy
    -------
    Uses a public table, public facts and the records' places and times: nothing of the private
    grid, so it costs nothing.
    """
    check_machines(len(table.facts.machines))
    check_records(observed, sigma)
    stage("simulating the table")
    with one_blas_thread():
        at = At(table, _as_known(observed), bounds, dt_s, scheme)
        moved = moves_of(at, adjacency, bounds)
        stage("bounding the errors")
        known, unknown = (
            _attacker(at, bounds, moved, sigma, total_known=known_total)
            for known_total in (True, False)
        )
    buses = tuple(
        dict.fromkeys(bus for observation in observed for bus in observation.trajectory.buses)
    )
    notes = (ESTIMATED,) if any(observation.unknown.anything for observation in observed) else ()
    return Leakage(
        known,
        unknown,
        sigma,
        len(at.sampling.observed),
        buses,
        adjacency.rule,
        origin,
        notes,
        len(observed),
    )


def check_records(observed: Sequence[Observation], sigma: float) -> None:
    """Refuse to look at no record, or at one without noise."""
    if not observed:
        raise OptionError(
            "No record was given.",
            expected="one or more",
            outcome="Nothing was computed.",
        )
    if not (math.isfinite(sigma) and sigma > 0):
        raise OptionError(
            f"sigma = {sigma:g}",
            expected="a standard deviation above 0",
            outcome="Nothing was computed.",
        )


def _as_known(observed: Sequence[Observation]) -> list[Observation]:
    """The same records with their events as guessed: an attacker may know the owner's estimate."""
    return [replace(observation, unknown=Unknown()) for observation in observed]


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
    """The largest μ of neighbours at the bounds' eight corners and at a table, for a joint claim.

    A claim holds for all tables within the bounds, and an item weighs most where inertia, damping
    and weights are small; this looks at corners, and proves nothing about what lies between.
    table : on the topology that the claim is about. Raises OptionError where `check_claim` does.
    """
    check_claim(table.facts, observed)
    check_records(observed, sigma)
    facts, tables = table.facts, [table]
    ends = [(bounds[name].least, bounds[name].upper) for name in PARAMETERS]
    for corner in product(*ends):
        values = zip(facts.sizes.items(), corner, strict=True)
        tables.append(PublicTable(facts, {name: np.full(size, at) for (name, size), at in values}))
    sizes = []
    with one_blas_thread():
        for number, corner in enumerate(tables, start=1):
            stage(corner_named(number, len(tables)))
            sizes.append(
                moves_of(At(corner, observed, bounds, dt_s, scheme), adjacency, bounds).largest(
                    None, sigma
                )
            )
    # which passes on a size that could not be computed, as max does not
    return float(np.max(sizes))


def check_claim(facts: GridFacts, observed: Sequence[Observation]) -> None:
    """Refuse records and a grid that no joint claim can be worked out for."""
    for number, observation in enumerate(observed, start=1):
        if observation.unknown.anything:
            raise OptionError(
                f"The event of {'the record' if len(observed) == 1 else f'record {number}'} is to "
                "be estimated, and a joint claim at what is guessed of it is no bound: another "
                "size, place or time may tell neighbours further apart.",
                expected="events of known size, place and time",
                outcome="Nothing was computed.",
                remedy="Declare the event in the trajectory's TOML, without event_time_window, or "
                "leave --delta out.",
            )
    check_machines(
        len(facts.machines),
        remedy="Leave --delta out: a joint claim is about the grid's own topology, and no "
        "surrogate's.",
    )


def check_machines(
    machines: int, *, remedy: str = "Name a smaller public case with --surrogate."
) -> None:
    """Refuse a grid of more machines than this can be worked out for."""
    if machines > TWO_STAGE_UP_TO:
        raise OptionError(
            f"What a trajectory gives away cannot be computed for {machines} machines.",
            expected=f"at most {TWO_STAGE_UP_TO}",
            outcome="Nothing was computed.",
            remedy=remedy,
        )


def _attacker(at: At, bounds: Bounds, moves: Moves, sigma: float, *, total_known: bool) -> Attacker:
    reduced, items, totals = at.slopes
    project = None
    if not total_known:
        project = at.explained_by_loads
        reduced = np.concatenate([reduced, totals], axis=1)
    size = items.shape[1]
    prior = np.concatenate(
        [np.full(len(at.values[name]), prior_deviation(bounds[name])) for name in PARAMETERS]
    )
    free = items if project is None else items - project @ (project.T @ items)
    information = Information.of(free, prior, sigma)
    _, bound_reduced = cramer_rao(reduced, sigma)
    places = dict(
        zip(
            PARAMETERS,
            np.split(
                np.arange(size), np.cumsum([len(at.values[name]) for name in PARAMETERS])[:-1]
            ),
            strict=True,
        )
    )
    parts = at.task.coordinates.parts
    return Attacker(
        total_known=total_known,
        rank=information.rank,
        size=size,
        seen=information.seen,
        items={
            name: Uncertainty(
                information.bound[place],
                information.with_prior[place],
                prior_deviation(bounds[name]),
            )
            for name, place in places.items()
        },
        reduced={
            name: bound_reduced[parts[part]]
            for name, part in zip(REDUCED_SWING, ("weights", "inertia", "damping"), strict=True)
        },
        scale=0.0 if total_known else float(bound_reduced[-totals.shape[1] :].min()),
        mu={name: moves.mu(name, project, sigma) for name in PARAMETERS},
        mu_neighbours=moves.largest(project, sigma),
    )
