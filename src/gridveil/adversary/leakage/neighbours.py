"""ω at a table and at its neighbours, sampled as records are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product

import numpy as np

from gridveil.dynamics.engine.propagate import SchemeName
from gridveil.foundation.progress import LEAKAGE, stage
from gridveil.grid.facts import Array
from gridveil.grid.parameters import PARAMETERS, Bounds, of_asset
from gridveil.grid.tables import PublicTable
from gridveil.inference.fit.problem import Observation
from gridveil.inference.fit.sampling import Sampling
from gridveil.inference.fit.task import Task
from gridveil.privacy.adjacency import Adjacency

# One item of a group that is to be another value: group, place, value.
Change = tuple[str, int, float]
# Where entries of several groups move together: moves of each group to combine, sets to compute.
LONGEST, COMPUTED = 24, 32


class At:
    """ω at a table, sampled as the records are: y = (log k, log m, log d)."""

    def __init__(
        self,
        table: PublicTable,
        observed: Sequence[Observation],
        bounds: Bounds,
        dt_s: float,
        scheme: SchemeName,
    ) -> None:
        self.facts = table.facts
        # Logarithms are taken of all of them; a damping of 0 is taken for the least that the bounds
        # allow.
        self.values: dict[str, Array] = {
            name: np.where(table.values[name] > 0, table.values[name], bounds[name].least)
            for name in PARAMETERS
        }
        self.task = Task.of(table.facts, observed, bounds, dt_s=dt_s, scheme=scheme)
        self.sampling: Sampling = self.task.predictor.sampling()
        self.omega = self.predict(self.values)

    def predict(self, values: Mapping[str, Array]) -> Array:
        """ω (rows,) [p.u.] of a table."""
        y = np.log(np.concatenate([values[name] for name in PARAMETERS]))
        coordinates = self.task.coordinates
        return self.task.predictor.values(
            *coordinates.model(coordinates.of_network_and_machines(y)), self.sampling
        )

    @cached_property
    def explained_by_loads(self) -> Array:
        """Orthonormal basis (rows, s) of what other sizes of the steps would change in ω."""
        return np.linalg.qr(self.by_step())[0]

    def by_step(self) -> Array:
        """What each step of load adds to ω (rows, s): ω is linear in loads, so slopes too."""
        coordinates = self.task.coordinates
        y = np.log(np.concatenate([self.values[name] for name in PARAMETERS]))
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

    @cached_property
    def slopes(self) -> tuple[Array, Array, Array]:
        """∂ω/∂(log k_r, log m, log D, v, w), ∂ω/∂(log k, log m, log d), and by totals of steps."""
        coordinates = self.task.coordinates
        y = np.log(np.concatenate([self.values[name] for name in PARAMETERS]))
        x, chain = coordinates.slopes(y)
        raw = self.task.slopes(x, self.sampling)
        reduced = raw @ coordinates.model_slopes(x)
        g, s = len(self.facts.machines), coordinates.drive.shape[1]
        first = coordinates.parts["damping"].stop
        totals = raw[:, first : first + s * g].reshape(len(raw), s, g).mean(
            axis=2
        ) * coordinates.drive.sum(axis=0)
        return reduced, reduced @ chain, totals


@dataclass(frozen=True, eq=False)
class Moves:
    """ω(θ′) − ω(θ) of neighbours.

    items : by group, a list of the moves of each item.
    more : of other sets of items.
    """

    items: Mapping[str, Sequence[Sequence[Array]]]
    more: Sequence[Array]

    def mu(self, name: str, project: Array | None, sigma: float) -> Array:
        """Largest |ω(θ′) − ω(θ)|/σ of each item of a group; project : (rows, ·) taken out first."""
        return np.array(
            [
                np.max([0.0, *(_size(move, project) for move in moves)]) / sigma
                for moves in self.items[name]
            ]
        )

    def largest(self, project: Array | None, sigma: float) -> float:
        """The largest over neighbours, in one item or in several."""
        together = [_size(move, project) / sigma for move in self.more]
        return float(
            np.max(
                [
                    0.0,
                    *together,
                    *(self.mu(name, project, sigma).max(initial=0.0) for name in PARAMETERS),
                ]
            )
        )


def moves_of(at: At, adjacency: Adjacency, bounds: Bounds) -> Moves:
    """All neighbours by α in one item, up and down, and the sets that may move together.

    Entries differ by at most α, so whoever may move several may move one alone: ends of bounds make
    moves cancel, and a single one may then be the longest.
    """
    ends = {
        name: [_ends(float(v), name, adjacency, bounds) for v in at.values[name]]
        for name in PARAMETERS
    }
    items: dict[str, list[list[Array]]] = {}
    for name, moving in zip(PARAMETERS, LEAKAGE[1:4], strict=True):
        stage(moving)
        items[name] = [
            [_difference(at, [(name, i, to)]) for to in tos] for i, tos in enumerate(ends[name])
        ]
    stage("moving several at once")
    sets: list[tuple[Change, ...]] = []
    if adjacency.counts != "one-item":
        together = of_asset("machine")
        for i in range(len(at.facts.machines)):
            for tos in product(*(ends[name][i] for name in together)):
                sets.append(tuple((name, i, to) for name, to in zip(together, tos, strict=True)))
    if adjacency.counts == "one-per-group":
        for project in (None, at.explained_by_loads):
            sets += [
                changes for changes in _likely_sets(at, ends, items, project) if changes not in sets
            ]
    return Moves(items, [_difference(at, changes) for changes in sets])


def _likely_sets(
    at: At,
    ends: Mapping[str, Sequence[Sequence[float]]],
    items: Mapping[str, Sequence[Sequence[Array]]],
    project: Array | None,
) -> list[tuple[Change, ...]]:
    """Sets of two or three changes in different groups that move ω most, by their sum."""
    changes: list[list[Change | None]] = []
    moves: list[Array] = []
    for name in PARAMETERS:
        places = [(name, i, to) for i, tos in enumerate(ends[name]) for to in tos]
        alone = [_left(move, project) for pair in items[name] for move in pair]
        longest = np.argsort([-np.linalg.norm(move) for move in alone], kind="stable")[
            :LONGEST
        ].tolist()
        changes.append([None, *(places[move] for move in longest)])
        moves.append(np.stack([np.zeros_like(at.omega), *(alone[move] for move in longest)]))
    k, m, d = moves
    squared = [(signal**2).sum(axis=1) for signal in moves]
    length = squared[0][:, None, None] + squared[1][:, None] + squared[2]
    length = length + 2 * ((k @ m.T)[:, :, None] + (k @ d.T)[:, None, :] + m @ d.T)
    order = np.argsort(-length, axis=None, kind="stable")
    sets = (
        tuple(
            change
            for change in (group[index] for group, index in zip(changes, place, strict=True))
            if change
        )
        for place in zip(
            *(indices.tolist() for indices in np.unravel_index(order, length.shape)), strict=True
        )
    )
    return list(islice((chosen for chosen in sets if len(chosen) > 1), COMPUTED))


def _ends(value: float, name: str, adjacency: Adjacency, bounds: Bounds) -> list[float]:
    """Values of an item at α from its own, up and down, within its public bounds."""
    alpha, public = float(adjacency.alpha[name]), bounds[name]
    up, down = (
        (value * (1 + alpha), value / (1 + alpha))
        if adjacency.relative
        else (value + alpha, value - alpha)
    )
    up, down = min(up, max(public.upper, value)), max(down, min(public.least, value))
    return [end for end in (up, down) if end != value]


def _difference(at: At, changes: Sequence[Change]) -> Array:
    values = {name: array.copy() for name, array in at.values.items()}
    for name, place, value in changes:
        values[name][place] = value
    return at.predict(values) - at.omega


def _size(move: Array, project: Array | None) -> float:
    """Length of a difference, without what `project`, a basis of load changes, explains."""
    return float(np.linalg.norm(_left(move, project)))


def _left(move: Array, project: Array | None) -> Array:
    return move if project is None else move - project @ (project.T @ move)
