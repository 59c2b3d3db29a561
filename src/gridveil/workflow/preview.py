"""What an ε would mean, shown before anything is charged: the error of a release in mHz, and what
its noise does to a table, both on a public surrogate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.parameters import Bounds, Range, assets
from gridveil.grid.tables import PublicTable
from gridveil.inference.fit import check_records
from gridveil.inference.fit.detailed import DetailedFitSettings
from gridveil.inference.posterior import middle
from gridveil.inference.records import Measured, read_all
from gridveil.planning.surrogate import from_prior, without_network
from gridveil.planning.trials import MOST_MACHINES, Trials
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation, MechanismName
from gridveil.privacy.mechanisms import parts
from gridveil.vault.perturb import losses_of
from gridveil.vault.sampler import DemoSampler
from gridveil.workflow.detailed import allocate, check_detailed_records
from gridveil.workflow.leakage import given_away
from gridveil.workflow.plan import EVENT
from gridveil.workflow.publish import share_out
from gridveil.workflow.settings import ReleaseSettings

DRAWS, QUANTILE, SHOWN = 60, 0.9, 3


@dataclass(frozen=True)
class NoisyGroup:
    """What the noise does to one group of a typical table.

    what : is drawn of it, in words.
    typical : its median entry, or their sum or mean, on the surrogate [unit].
    scale : of the noise, in words.
    drawn : what some seeded draws would release in its place [unit].
    """

    name: str
    title: str
    unit: str
    what: str
    typical: float
    scale: str
    drawn: tuple[float, ...]


@dataclass(frozen=True)
class Preview:
    """What an ε would mean on a public surrogate.

    nadir_mhz, rocof_mhz_s, settling_mhz : errors that nine of ten releases stay within, before any
    fit; None: not tried, of detailed models.
    reference_mhz : the surrogate's own nadir after 10 % more load.
    allocation : how ε is shared out, in words.
    """

    epsilon: Fraction
    nadir_mhz: float | None
    rocof_mhz_s: float | None
    settling_mhz: float | None
    reference_mhz: float | None
    allocation: str
    groups: tuple[NoisyGroup, ...]


def preview(
    facts: GridFacts | DetailedFacts,
    bounds: Bounds,
    adjacency: Adjacency,
    mechanism: MechanismName,
    epsilon: Fraction,
) -> Preview:
    """Try an ε on the declared network with a table drawn from the prior on the public bounds.

    Privacy
    -------
    Public facts, bounds and a public seed: the grid's own values have no part in it.
    """
    if isinstance(facts, DetailedFacts):
        table = {name: np.full(n, _centre(bounds[name])) for name, n in facts.sizes.items()}
        allocation = allocate(facts, adjacency)
        groups = _noisy(facts, table, bounds, adjacency, allocation, epsilon)
        return Preview(epsilon, None, None, None, None, allocation.in_words(), groups)
    known = without_network(facts) if mechanism == "topology" else facts
    table = {name: values[0] for name, values in from_prior(known, bounds, draws=1).items()}
    allocation = (
        ITEMS
        if mechanism == "items"
        else share_out(facts, adjacency, epsilon, bounds, mechanism=mechanism)
    )
    trials = Trials(
        PublicTable(known, table),
        Event.parse(EVENT, base_mva=facts.base_mva),
        bounds,
        draws=DRAWS,
        seed=0,
        lumped=len(known.machines) > MOST_MACHINES // 5,
    )
    off = trials.errors(adjacency, allocation, epsilon)
    nadir, rocof, settling = (
        float(np.quantile(np.abs(off[name]), QUANTILE, method="inverted_cdf"))
        for name in ("nadir_mhz", "rocof_mhz_s", "settling_mhz")
    )
    return Preview(
        epsilon,
        nadir,
        rocof,
        settling,
        1e3 * float(trials.reference.nadir_hz[0]),
        allocation.in_words(),
        _noisy(known, table, bounds, adjacency, allocation, epsilon),
    )


def _noisy(
    facts: GridFacts | DetailedFacts,
    table: Mapping[str, Array],
    bounds: Bounds,
    adjacency: Adjacency,
    allocation: Allocation,
    epsilon: Fraction,
) -> tuple[NoisyGroup, ...]:
    """Draw a public table a few times, as `perturb` draws a private one."""
    losses = losses_of(adjacency, epsilon, facts, allocation, bounds)
    drawn_by = {name: loss.mechanism for name, loss in losses.items()}
    ranges = {name: by.range(bounds[name], facts.sizes[name]) for name, by in drawn_by.items()}
    shown: dict[str, list[float]] = {name: [] for name in losses}
    where = {name: _middle_entry(table[name]) for name in losses}
    for seed in range(SHOWN):
        sampler: Any = DemoSampler(seed)
        for mechanism, names in parts(
            {name: loss.drawn for name, loss in losses.items()}, assets(facts.family)
        ):
            part = {name: losses[name] for name in names}
            ready = {n: mechanism.prepare(table[n], losses[n], ranges[n]) for n in names}
            at = {name: facts.positions(name) for name in names}
            for name, values in mechanism.draw(ready, part, sampler, at).items():
                released = mechanism.released(values, losses[name], ranges[name])
                shown[name].append(float(released[where[name] if len(released) > 1 else 0]))
    return tuple(
        NoisyGroup(
            name,
            facts.parameters[name].title,
            facts.parameters[name].unit,
            drawn_by[name].whole,
            _typical(table[name], drawn_by[name].takes, where[name]),
            loss.scale_in_words,
            tuple(shown[name]),
        )
        for name, loss in losses.items()
    )


def _centre(public: Range) -> float:
    """A typical value of public bounds: their geometric middle, or their mean if signed."""
    return (public.lower + public.upper) / 2 if public.signed else middle(public)


def _middle_entry(values: Array) -> int:
    """Position of the median entry."""
    return int(np.argsort(values)[len(values) // 2])


def _typical(values: Array, takes: str, entry: int) -> float:
    if takes == "sum":
        return float(values.sum())
    return float(values.mean() if takes == "mean" else values[entry])


def look_at_records(
    settings: ReleaseSettings,
    facts: GridFacts | DetailedFacts,
    bounds: Bounds,
    adjacency: Adjacency,
) -> tuple[list[Measured], str]:
    """Read and check the records that settings name, and say what they give away by themselves.

    Privacy
    -------
    Records are public, and what they tell is computed at a public table.
    """
    if isinstance(facts, DetailedFacts):
        dt_s = DetailedFitSettings().dt_s
        measured = read_all(settings.trajectory, facts, dt_s)
        observed = [record.observation for record in measured]
        check_detailed_records(observed, facts)
    else:
        fit = settings.preset.settings
        dt_s = fit.dt_s
        measured = read_all(settings.trajectory, facts, dt_s, bounds)
        observed = [record.observation for record in measured]
        check_records(observed, facts, fit, bounds)
    told = given_away(observed, facts, bounds, adjacency, dt_s=dt_s)
    return measured, told if isinstance(told, str) else told.leakage.verdict()
