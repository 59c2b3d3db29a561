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
from gridveil.grid.parameters import PARAMETERS, Bounds
from gridveil.grid.tables import PublicTable, Values
from gridveil.inference.posterior import middle
from gridveil.inference.prior import around_middle, log_uniform
from gridveil.planning.trials import Trials, even_places
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import (
    Allocation,
    MechanismName,
    Sharing,
    candidates,
    joint_candidates,
    machine_shares,
)

AT_MIDDLE = (
    "the declared topology with every parameter at the geometric middle of its public bounds"
)
FROM_PRIOR = "the declared topology with tables drawn from the prior on the public bounds"
AROUND_ONE_BUS = "the machines around one bus with tables drawn from the prior on the public bounds"
# Draws that a choice is based on, the same noise for every candidate, and the seconds between
# samples of its answers.
DRAWS, DT_S = 100, 0.2
# Steps of load on single buses that a choice is judged by, besides one on all of them [p.u. power].
PLACES, STEP = 8, 0.1
# With more machines than the first, so few draws; with more than the second, so few machines around
# one bus stand for all.
MANY_MACHINES, FEWER_DRAWS = 20, 24
MOST_MACHINES, STAND_INS = 60, 20


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


def from_prior(
    facts: GridFacts, bounds: Bounds, sharing: Sharing = "equal", draws: int = DRAWS
) -> dict[str, Array]:
    """Draw tables from the public prior: values by parameter (draws, n).

    Weights of lines are log-normal around the middle of their bounds. Parameters of machines are
    log-uniform: in every other table each entry for itself, in the others alike for all machines of
    one size. Sizes follow the droop gains, which are public, or the ratings where sums are shared
    by them. The seed is public too, so this is one fixed list.
    """
    random, tables = np.random.default_rng(draws), {}
    gain = facts.droop_gain if sharing == "equal" else machine_shares(facts, sharing)
    known = gain > 0
    size = np.where(known, gain, 1.0)
    size /= np.exp(np.log(size[known]).mean()) if known.any() else 1.0
    size[~known] = 1.0
    for name, entries in facts.sizes.items():
        public, share = bounds[name], 0.5 + even_places(random, draws, entries)
        if PARAMETERS[name].asset == "line":
            tables[name] = around_middle(share, public)
        else:
            tables[name] = log_uniform(share, public)
            alike = tables[name][::2, :1] * size
            tables[name][::2] = np.clip(alike, public.least, public.upper)
    return tables


def stand_in(facts: GridFacts, values: Values | None) -> tuple[GridFacts, Values | None]:
    """Some of the machines, evenly picked, around one bus, each by a line of the table."""
    g = len(facts.machines)
    picked, lines = (
        np.linspace(0, size - 1, STAND_INS).round().astype(np.int64)
        for size in (g, len(facts.edges))
    )
    of_machines = {
        name: getattr(facts, name)[picked] for name in ("machines", "governor_rate", "droop_gain")
    }
    if facts.rated_mva is not None:
        of_machines["rated_mva"] = facts.rated_mva[picked]
    fewer = without_network(replace(facts, **of_machines))
    fewer = replace(fewer, load_damping=fewer.load_damping * (STAND_INS / g))
    if values is None:
        return fewer, None
    at = {"line": lines, "machine": picked}
    return fewer, {name: own[at[PARAMETERS[name].asset]] for name, own in values.items()}


def choose(
    surrogate: PublicTable | GridFacts,
    adjacency: Adjacency,
    epsilon: Fraction,
    bounds: Bounds,
    *,
    mechanism: MechanismName = "aggregates",
    sharing: Sharing = "equal",
    origin: str = FROM_PRIOR,
) -> Allocation:
    """Choose among the candidates the one whose releases of a surrogate are, on average over draws,
    nearest to it.

    Nearest by ∫ |ω − ω_surrogate|² dt after steps of load on single buses and on all, divided by
    the root of ∫ |ω_surrogate|² dt, so that neither the weakest tables nor the strongest decide
    alone. For the same reason, machines alike and machines that differ count in equal parts, each
    as a multiple of the least that any candidate has there.
    surrogate : a public table; or facts alone, whose tables are then drawn from the public prior,
    another one with each draw of noise.
    origin : what the surrogate is, in words.

    Privacy
    -------
    A function of public facts, bounds and settings alone: it never sees the private grid, so it
    costs nothing.
    """
    facts, values = (
        (surrogate.facts, surrogate.values)
        if isinstance(surrogate, PublicTable)
        else (surrogate, None)
    )
    machines = len(facts.machines)
    if machines > MOST_MACHINES:
        facts, values = stand_in(facts, values)
    draws = DRAWS if len(facts.machines) <= MANY_MACHINES else FEWER_DRAWS
    trials = Trials(
        at_middle(facts, bounds) if values is None else PublicTable(facts, values),
        trial_event(facts),
        bounds,
        draws=draws,
        seed=0,
        dt_s=DT_S,
        tables=from_prior(facts, bounds, sharing, draws) if values is None else None,
        stands_for=machines,
    )
    tried = candidates(adjacency, mechanism, sharing)
    tried = (*tried, *joint_candidates(adjacency, tried))
    weight, kinds = 1 / np.sqrt(trials.sizes), 2 if values is None else 1
    errors = np.array(
        [
            (trials.distances(adjacency, allocation, epsilon) * weight)
            .reshape(-1, kinds)
            .mean(axis=0)
            for allocation in tried
        ]
    )
    best = int(np.argmin((errors / errors.min(axis=0)).mean(axis=1)))
    return replace(tried[best], origin=f"chosen on a public surrogate: {origin}")


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
