"""What an ε would mean, shown before anything is charged: the error of a release in mHz, and what
its noise does to a table, both on a public surrogate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array, GridFacts
from gridveil.grid.parameters import Bounds, assets
from gridveil.grid.tables import PublicTable
from gridveil.inference.fit import check_records
from gridveil.inference.fit.detailed import DetailedFitSettings
from gridveil.inference.records import Measured, read_all
from gridveil.planning.surrogate import from_prior, without_network
from gridveil.planning.trials import TRIALS_UP_TO, Trials
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, MechanismName
from gridveil.privacy.mechanisms import GroupLoss, parts
from gridveil.vault.perturb import losses_of
from gridveil.vault.sampler import DemoSampler
from gridveil.workflow.detailed import allocate, check_detailed_records, estimated
from gridveil.workflow.leakage import given_away
from gridveil.workflow.plan import EVENT
from gridveil.workflow.plan_detailed import STEP
from gridveil.workflow.preview_detailed import detailed_errors, public_table
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
    fit; None: not tried, of detailed models, which take a while.
    reference_mhz : the surrogate's own nadir after the step, in words `step`.
    draws : seeded releases that were tried.
    allocation : how ε is shared out, in words.
    """

    epsilon: Fraction
    nadir_mhz: float | None
    rocof_mhz_s: float | None
    settling_mhz: float | None
    reference_mhz: float | None
    step: str
    draws: int
    allocation: str
    groups: tuple[NoisyGroup, ...]


def preview(
    facts: GridFacts | DetailedFacts,
    bounds: Bounds,
    adjacency: Adjacency,
    mechanism: MechanismName,
    epsilon: Fraction,
    goes_on: Callable[[], bool] = lambda: True,
) -> Preview:
    """Try an ε on the declared network with a table drawn from the prior on the public bounds; of a
    detailed model, on its structure with public values.

    goes_on : whether anyone still waits for the errors of a detailed model, which take seconds.

    Privacy
    -------
    Public facts, bounds and a public seed: the grid's own values have no part in it.
    """
    if isinstance(facts, DetailedFacts):
        return _detailed(facts, bounds, adjacency, epsilon, goes_on)
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
        lumped=len(known.machines) > TRIALS_UP_TO // 5,
    )
    off = trials.errors(adjacency, allocation, epsilon)
    return Preview(
        epsilon,
        _within(off["nadir_mhz"]),
        _within(off["rocof_mhz_s"]),
        _within(off["settling_mhz"]),
        1e3 * float(trials.reference.nadir_hz[0]),
        "10 % more load",
        DRAWS,
        allocation.in_words(),
        _noisy(known, table, losses_of(adjacency, epsilon, known, allocation, bounds), bounds),
    )


def _detailed(
    facts: DetailedFacts,
    bounds: Bounds,
    adjacency: Adjacency,
    epsilon: Fraction,
    goes_on: Callable[[], bool],
) -> Preview:
    table, allocation = public_table(facts), allocate(facts, adjacency)
    losses = losses_of(adjacency, epsilon, facts, allocation, bounds)
    published = {name: table[name] for name in allocation.published}
    draws = (
        estimated(_draw(facts, table, losses, bounds, seed) | published, losses, facts)
        for seed in count()
    )
    off = detailed_errors(facts, draws, goes_on)
    return Preview(
        epsilon,
        _within(off.nadir_mhz) if off else None,
        _within(off.rocof_mhz_s) if off else None,
        _within(off.settling_mhz) if off else None,
        off.reference_mhz if off else None,
        f"{100 * STEP:g} % of all load at one bus",
        len(off.nadir_mhz) if off else 0,
        allocation.in_words(),
        _noisy(facts, table, losses, bounds),
    )


def _within(errors: Array) -> float:
    """What nine of ten errors are nearer than."""
    return float(np.quantile(np.abs(errors), QUANTILE, method="inverted_cdf"))


def _noisy(
    facts: GridFacts | DetailedFacts,
    table: Mapping[str, Array],
    losses: Mapping[str, GroupLoss],
    bounds: Bounds,
) -> tuple[NoisyGroup, ...]:
    """Draw a public table a few times."""
    drawn_by = {name: loss.mechanism for name, loss in losses.items()}
    shown: dict[str, list[float]] = {name: [] for name in losses}
    where = {name: _middle_entry(table[name]) for name in losses}
    for seed in range(SHOWN):
        for name, released in _draw(facts, table, losses, bounds, seed).items():
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


def _draw(
    facts: GridFacts | DetailedFacts,
    table: Mapping[str, Array],
    losses: Mapping[str, GroupLoss],
    bounds: Bounds,
    seed: int,
) -> dict[str, Array]:
    """Draw a public table with a seed, as `perturb` draws a private one."""
    sampler: Any = DemoSampler(seed)
    drawn = dict[str, Array]()
    for mechanism, names in parts(
        {name: loss.drawn for name, loss in losses.items()}, assets(facts.family)
    ):
        part = {name: losses[name] for name in names}
        ranges = {n: part[n].mechanism.range(bounds[n], facts.sizes[n]) for n in names}
        ready = {n: mechanism.prepare(table[n], part[n], ranges[n]) for n in names}
        at = {name: facts.positions(name) for name in names}
        for name, values in mechanism.draw(ready, part, sampler, at).items():
            drawn[name] = part[name].mechanism.released(values, part[name], ranges[name])
    return drawn


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
