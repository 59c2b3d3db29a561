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
from gridveil.planning.places import even_places
from gridveil.planning.trials import Trials
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import (
    Allocation,
    MechanismName,
    Sharing,
    candidates,
    joint_candidates,
    machine_shares,
    plain,
    worthwhile,
)

AT_MIDDLE = (
    "the declared topology with every parameter at the geometric middle of its public bounds"
)
FROM_PRIOR = "the declared topology with tables drawn from the prior on the public bounds"
AROUND_ONE_BUS = "the machines around one bus with tables drawn from the prior on the public bounds"
# Rounds that a choice is made in, the same noise for every candidate: tables, draws of each, and up
# to how many times the least score a candidate goes on.
ROUNDS = ((4, 4, 1.25), (24, 2, 1.05), (60, 2, 1.0))
DT_S = 0.4  # between samples of answers
LOSSES = 3  # what a table loses counts so many times more than what another gains
# Steps of load on single buses that a choice is judged by, besides one on all of them [p.u. power].
PLACES, STEP = 8, 0.1
# With more machines than the first, these rounds; with more than the second, so few machines around
# one bus stand for all.
MANY_MACHINES, SHORT_ROUNDS = 20, ((2, 1, 1.25), (12, 1, 1.0))
WHOLE_UP_TO, STAND_INS = 60, 20


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
    facts: GridFacts, bounds: Bounds, sharing: Sharing = "equal", *, draws: int
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
    """Choose among the candidates the one whose releases of a surrogate are nearest to it.

    Nearest by ∫ |ω − ω_surrogate|² dt after steps of load on single buses and on all, its mean over
    the draws of a table, as a multiple of what the best plain choice has on the same table; which
    of these that is, the first round says for all tables. What counts is the mean of it over
    tables, with what it exceeds 1 by counted LOSSES times more: a gain on some tables should not be
    paid for by others. Whoever is far behind after a round is left out.
    surrogate : a public table; or facts alone, whose tables are then drawn from the public prior.
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
    if machines > WHOLE_UP_TO:
        facts, values = stand_in(facts, values)
    independent = candidates(adjacency, mechanism, sharing)
    usual = plain(independent)
    tried = worthwhile((*independent, *joint_candidates(adjacency, independent)))
    ratios, best = {place: np.empty(0) for place in range(len(tried))}, 0
    rounds = ROUNDS if len(facts.machines) <= MANY_MACHINES else SHORT_ROUNDS
    for number, (tables, draws, within) in enumerate(rounds):
        trials = Trials(
            at_middle(facts, bounds) if values is None else PublicTable(facts, values),
            trial_event(facts),
            bounds,
            draws=tables * draws,
            seed=number,
            dt_s=DT_S,
            tables=from_prior(facts, bounds, sharing, draws=tables) if values is None else None,
            stands_for=machines,
        )
        by_usual = [trials.by_table(adjacency, one, epsilon) for one in usual]
        control = min(by_usual, key=lambda errors: np.log(errors).sum())
        usual = [one for one, errors in zip(usual, by_usual, strict=True) if errors is control]
        for place, before in ratios.items():
            errors = trials.by_table(adjacency, tried[place], epsilon)
            ratios[place] = np.concatenate([before, errors / control])
        scores = {place: _score(ratio) for place, ratio in ratios.items()}
        best = min(scores, key=lambda place: scores[place])
        limit = within * scores[best]
        ratios = {place: ratio for place, ratio in ratios.items() if scores[place] <= limit}
    return replace(tried[best], origin=f"chosen on a public surrogate: {origin}")


def _score(ratios: Array) -> float:
    """Mean over tables, with what some of them lose counted more often than what others gain."""
    return float(np.mean(ratios + LOSSES * np.maximum(ratios - 1, 0)))


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
