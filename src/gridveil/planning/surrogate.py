"""A public surrogate: where settings are tried out, so that nothing of the private grid goes into
choosing them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.parameters import Bounds
from gridveil.grid.tables import PublicTable
from gridveil.inference.posterior import middle
from gridveil.planning.trials import Trials
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation, MechanismName, Sharing, candidates

AT_MIDDLE = (
    "the declared topology with every parameter at the geometric middle of its public bounds"
)
AROUND_ONE_BUS = (
    "the machines around one bus, with every parameter at the geometric middle of its public bounds"
)
# Draws that a choice is based on, the same noise for every candidate, and the seconds between
# samples of its answers.
DRAWS, DT_S = 100, 0.2
# Steps of load on single buses that a choice is judged by, besides one on all of them [p.u. power].
PLACES, STEP = 8, 0.1
# With more machines than this, candidates are judged by the frequency of all of them together: one
# lumped machine.
MOST_MACHINES = 20


def at_middle(facts: GridFacts, bounds: Bounds) -> PublicTable:
    """The surrogate that needs no other case: declared facts, and every parameter at the geometric
    middle of its bounds.
    """
    return PublicTable(
        facts,
        {name: np.full(size, middle(bounds[name])) for name, size in facts.sizes.items()},
    )


def without_network(facts: GridFacts) -> GridFacts:
    """The same machines around one bus for all load elsewhere: what topology mode may know of a
    grid.
    """
    g = len(facts.machines)

    def gathered(values: Array) -> Array:
        return np.append(values[facts.machines], math.fsum(values[facts.interior]))

    return replace(
        facts,
        buses=(*(f"G{number + 1}" for number in range(g)), "L1"),
        edges=np.stack([np.arange(g), np.full(g, g)], axis=1),
        machines=np.arange(g),
        loads=gathered(facts.loads) if facts.loads_are_public else np.zeros(g + 1),
        load_damping=gathered(facts.load_damping),
    )


def choose(
    surrogate: PublicTable,
    adjacency: Adjacency,
    epsilon: Fraction,
    bounds: Bounds,
    *,
    mechanism: MechanismName = "aggregates",
    sharing: Sharing = "equal",
    origin: str = AT_MIDDLE,
) -> Allocation:
    """Choose among the candidates the one whose releases of a surrogate are, on average over draws,
    nearest to it.

    Nearest by ∫ |ω − ω_surrogate|² dt after steps of load on single buses and on all.
    origin : what the surrogate is, in words.

    Privacy
    -------
    A function of public facts, bounds and settings alone: it never sees the private grid, so it
    costs nothing.
    """
    tried = candidates(adjacency, mechanism, sharing)
    lumped = len(surrogate.facts.machines) > MOST_MACHINES
    # a lumped machine has no lines and no items: it speaks for how to share ε between sums, and for
    # nothing else
    if lumped:
        tried = [
            allocation
            for allocation in tried
            if allocation.mechanism != "items" or mechanism == "items"
        ]
        if adjacency.counts == "one-per-group" and mechanism == "aggregates":
            tried = [allocation for allocation in tried if "nothing" in allocation.takes]
    settings = {"draws": DRAWS, "seed": 0, "lumped": lumped, "dt_s": DT_S}
    trials = Trials(surrogate, trial_event(surrogate.facts), bounds, **settings)
    errors = [trials.distances(adjacency, allocation, epsilon).mean() for allocation in tried]
    return replace(tried[int(np.argmin(errors))], origin=f"chosen on a public surrogate: {origin}")


def trial_event(facts: GridFacts) -> Event:
    """Steps of load that a choice is judged by, one by one: on all buses alike, and on one bus
    each.
    """
    n = len(facts.buses)
    places = np.unique(np.linspace(0, n - 1, min(PLACES, n)).round().astype(np.int64))
    patterns = [
        dict.fromkeys(facts.buses, STEP / n),
        *({facts.buses[place]: STEP} for place in places),
    ]
    return Event(tuple(Event.load(pattern).steps[0] for pattern in patterns))
