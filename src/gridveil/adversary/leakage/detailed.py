"""What public records of a detailed grid give away before any ε, at a public case.

The attacker knows the structure, the event with its size, and every constant that is no entry of
the table; he estimates all entries, with the public bounds as a prior. That is cautious: who knows
less gets less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from gridveil.adversary.leakage import check_records
from gridveil.adversary.leakage.information import Information, prior_deviation
from gridveil.adversary.leakage.report import Attacker, Leakage, Uncertainty
from gridveil.dynamics.detailed.entries import entries_of, released_case
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.family import LeverTarget
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.numbers import Numbers, numbers_of
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.foundation.errors import OptionError
from gridveil.foundation.progress import stage
from gridveil.grid.case import DetailedCase
from gridveil.grid.facts import Array, IntArray
from gridveil.grid.parameters import DETAILED, Bounds, parameters_of
from gridveil.inference.fit.controls import record_ports
from gridveil.inference.fit.detailed_residuals import Prediction
from gridveil.inference.fit.factors import Factor
from gridveil.inference.fit.problem import Observation
from gridveil.privacy.adjacency import Adjacency

PUBLIC_VALUES = "public values: typical devices, lines and loads on the declared structure"
FIRST_ORDER = (
    "μ is of first order in α, and constants that are no entry count as known to an attacker."
)
ABSOLUTE = "{names}: an absolute deviation, not a relative one."
SLACK_OPEN = "The slack's dispatch follows from load and losses, so no record shows it apart."
DT_S = 0.02
H = 1e-6  # of the coordinates, where an entry is turned into numbers of a case
ROUNDING = 1e-8  # what that leaves of singular values that are 0
# Entries times states³: what is more takes minutes. ieee39 has 4e8.
MOST_WORK = 4e9


@dataclass(frozen=True, eq=False)
class EntryCoordinates:
    """Entries of a case on one line: logarithms, and values themselves where those may be negative.

    names, assets : of each, its parameter, and its asset's kind and number.
    """

    case: DetailedCase
    values: Mapping[str, Array]
    names: tuple[str, ...]
    assets: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, case: DetailedCase) -> EntryCoordinates:
        """Read a case's entries."""
        entries = {name: own for name, own in entries_of(case).items() if len(own[0])}
        declared = parameters_of(DETAILED)
        return cls(
            case,
            {name: values for name, (values, _) in entries.items()},
            tuple(name for name, (values, _) in entries.items() for _ in values),
            tuple(
                (declared[name].asset, int(position))
                for name, (_, positions) in entries.items()
                for position in positions
            ),
        )

    @property
    def places(self) -> dict[str, IntArray]:
        """Where each parameter stands on the line."""
        names = np.array(self.names)
        return {name: np.flatnonzero(names == name) for name in self.values}

    def moved(self, entry: int, by: float) -> DetailedCase:
        """The case with one coordinate moved, and all other entries as they were."""
        name = self.names[entry]
        values = self.values[name].copy()
        row = entry - self.names.index(name)
        absolute = parameters_of(DETAILED)[name].absolute
        values[row] = values[row] + by if absolute else values[row] * np.exp(by)
        return released_case(self.case, {**self.values, name: values})

    def factors(self) -> Iterator[Factor]:
        """Each coordinate as a shift of the case's numbers, to first order."""
        for entry, name in enumerate(self.names):
            up, down = (numbers_of(self.moved(entry, by)) for by in (H, -H))
            targets = tuple(_targets(up, down))
            yield Factor(f"{name} {entry}", name, "shift", 1.0, lambda _, own=targets: own)


def _targets(up: Numbers, down: Numbers) -> Iterator[LeverTarget]:
    """Numbers that differ between two cases, with their slopes."""
    for table, columns in up.items():
        for column, values in columns.items():
            slopes = (values - down[table][column]) / (2 * H)
            # rounding of numbers that do not move is far below this share of them
            for row in np.flatnonzero(np.abs(slopes) > 1e-8 * np.abs(values)).tolist():
                yield LeverTarget(table, column, np.array([row]), float(slopes[row]))


def detailed_leakage(
    case: DetailedCase,
    observed: Sequence[Observation],
    bounds: Bounds,
    adjacency: Adjacency,
    *,
    sigma: float,
    dt_s: float = DT_S,
    origin: str = PUBLIC_VALUES,
) -> Leakage:
    """Work out what records give away of a detailed grid, at a case that stands.

    sigma : standard deviation of a sample [p.u. frequency].
    Raises OptionError where that would take minutes.

    Privacy
    -------
    Uses a public case and the records' places, times and events: nothing of the private grid.
    """
    check_records(observed, sigma)
    stage("simulating the table")
    with one_blas_thread():
        coordinates, J = slopes_of(case, observed, dt_s)
        stage("bounding the errors")
        known = _attacker(coordinates, J, bounds, adjacency, sigma)
    declared = parameters_of(DETAILED)
    notes = [FIRST_ORDER, SLACK_OPEN]
    if absolute := [name for name in coordinates.values if declared[name].absolute]:
        notes.append(ABSOLUTE.format(names=", ".join(absolute)))
    return Leakage(
        known,
        None,
        sigma,
        len(J),
        tuple(dict.fromkeys(bus for record in observed for bus in record.trajectory.buses)),
        adjacency.rule,
        origin,
        tuple(notes),
        len(observed),
        DETAILED,
    )


def slopes_of(
    case: DetailedCase, observed: Sequence[Observation], dt_s: float = DT_S
) -> tuple[EntryCoordinates, Array]:
    """∂ω/∂(coordinates) of all samples that were recorded: (rows, n) [p.u. frequency].

    By a complex step through power flow and linear model; where a machine trips, by central
    differences.
    """
    coordinates, ports = EntryCoordinates.of(case), record_ports(case, observed)
    model = linearise(case, solve(case), ports)
    if len(coordinates.names) * float(len(model.states)) ** 3 > MOST_WORK:
        raise OptionError(
            f"What records give away is not computed for {len(coordinates.names)} entries and "
            f"{len(model.states)} states: it would take minutes.",
            outcome="Nothing was computed.",
            remedy="Name a smaller public case with --surrogate.",
        )
    factors = tuple(coordinates.factors())
    prediction = Prediction.of(case, model, ports, factors, observed, dt_s=dt_s, scheme="exact")
    slopes = replace(prediction, reactive=True).slopes(np.zeros(len(factors)))
    return coordinates, slopes[prediction.records.weights > 0]


def _attacker(
    coordinates: EntryCoordinates, J: Array, bounds: Bounds, adjacency: Adjacency, sigma: float
) -> Attacker:
    places = coordinates.places
    prior = np.array([prior_deviation(bounds[name]) for name in coordinates.names])
    information = Information.of(J, prior, sigma, ROUNDING)
    distances = {name: float(adjacency.distance(name)) for name in places}
    moves = J * np.array([distances[name] for name in coordinates.names]) / sigma
    alone = np.linalg.norm(moves, axis=0)
    return Attacker(
        total_known=True,
        rank=information.rank,
        size=len(coordinates.names),
        seen=information.seen,
        items={
            name: Uncertainty(
                information.bound[place],
                information.with_prior[place],
                prior_deviation(bounds[name]),
                information.of_mean(place),
            )
            for name, place in places.items()
        },
        reduced={},
        scale=0.0,
        mu={name: alone[place] for name, place in places.items()},
        mu_neighbours=_largest(coordinates, moves, adjacency),
    )


def _largest(coordinates: EntryCoordinates, moves: Array, adjacency: Adjacency) -> float:
    """The largest |Σ ± moves| over what neighbours may move together: a length is convex, so that
    it is largest at a corner, of the box of one asset's entries, or of its octahedron, which is one
    entry alone.
    """
    largest = float(np.linalg.norm(moves, axis=0).max(initial=0.0))
    if adjacency.counts != "one-asset":
        return largest
    for asset in set(coordinates.assets):
        own = moves[:, [at == asset for at in coordinates.assets]]
        corners = np.array([(1, *signs) for signs in product((1, -1), repeat=own.shape[1] - 1)])
        squares = np.einsum("ci,ij,cj->c", corners, own.T @ own, corners)
        largest = max(largest, float(np.sqrt(squares.max())))
    return largest
