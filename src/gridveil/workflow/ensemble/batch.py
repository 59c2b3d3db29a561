"""A batch: the rows of some seeds of one cell. This is what workers run.

A demo for ever: noise has a seed, and the truth is known. Nothing here can draw a real release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gridveil.dynamics.engine import LTI
from gridveil.dynamics.engine.objective import one_blas_thread
from gridveil.dynamics.events import Event, Step
from gridveil.dynamics.kron import reduce, reduced_model
from gridveil.dynamics.metrics import DT_S, HORIZON_S, compare, errors, measure, read_arrays
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import Clock, simulate
from gridveil.dynamics.superpose import added, parts_of, unit_responses
from gridveil.foundation.executors import check_worker
from gridveil.foundation.version import __version__
from gridveil.grid.facts import Array
from gridveil.inference.fit import FitSettings, Observation, fit
from gridveil.inference.fit.controls import FrequencyResponse, fitted_response
from gridveil.inference.fit.two_stage import is_too_large, two_stage
from gridveil.inference.posterior import no_release
from gridveil.planning.profiles import PROFILES
from gridveil.planning.surrogate import at_middle
from gridveil.privacy.allocation import ITEMS, Allocation
from gridveil.privacy.provenance import Provenance
from gridveil.publication.release import loaded_buses, neutral
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.workflow.ensemble.cells import NO_RELEASE, ONE_MACHINE, Cell, JudgedCase
from gridveil.workflow.ensemble.spec import NO_FIT
from gridveil.workflow.publish import publish, share_out

RECORD_S, RECORD_DT_S = 20.0, 0.05
ORIGIN = Provenance("simulated", "the case's own answer, with seeded noise")
# Figures of a row: the largest error over the events, and the root mean square over machines,
# time and events.
FIGURES: tuple[str, ...] = ("rms_mhz", "nadir_mhz", "rocof_mhz_s", "settling_mhz")
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Batch:
    """Seeds first … last of a cell; allocation : None where nothing is shared out."""

    cell: Cell
    first: int
    last: int
    allocation: Allocation | None = None
    version: str = __version__

    @property
    def name(self) -> str:
        """The name of its file: the settings' hash and the seeds."""
        return f"{self.cell.hash}-{self.first}-{self.last}.parquet"

    @property
    def seeds(self) -> range:
        """All of them."""
        return range(self.first, self.last + 1)


def shares_out(cell: Cell) -> bool:
    """Whether ε of a cell is shared out on a public surrogate before its draws."""
    return cell.epsilon is not None and cell.fit == NO_FIT


def share(cell: Cell) -> Allocation:
    """Share ε of a cell out as a release does, on public facts alone."""
    assert cell.epsilon is not None
    mechanism: Any = cell.mechanism
    facts, bounds = cell.case.table.facts, cell.case.bounds
    with one_blas_thread():
        return share_out(facts, cell.case.adjacency, cell.epsilon, bounds, mechanism=mechanism)


def run_batch(batch: Batch) -> list[Row]:
    """The rows of a batch, one for each seed, in their order."""
    check_worker(batch.version)
    cell = batch.cell
    with one_blas_thread():
        if cell.mechanism == ONE_MACHINE:
            found = _one_machine(cell.case, batch.seeds)
        else:
            made = [_model(batch, seed) for seed in batch.seeds]
            found = _judged(cell.case, [model for model, _ in made])
            found["discarded"] = [discarded for _, discarded in made]
    return [
        {"hash": cell.hash, **cell.settings, "seed": seed}
        | {name: values[number] for name, values in found.items()}
        for number, seed in enumerate(batch.seeds)
    ]


def _model(batch: Batch, seed: int) -> tuple[ReducedModel, bool]:
    """A release's model on the case's own buses, and whether the guard discarded its fit."""
    cell, case = batch.cell, batch.cell.case
    observed = [] if cell.fit == NO_FIT else [recorded(case, seed)]
    settings, start = settings_of(cell)
    if cell.mechanism == NO_RELEASE:
        return _without_release(case, observed, settings), False
    assert cell.epsilon is not None
    release = publish(
        SourceGrid.of(case.table.facts, **case.table.values),
        observed,
        epsilon=cell.epsilon,
        adjacency=case.adjacency,
        bounds=case.bounds,
        ledger=None,
        settings=settings,
        sampler=DemoSampler(seed),
        allocation=batch.allocation or ITEMS,
        start=start,
        error_bars=False,
    )
    model, truth = release.model, case.truth
    assert isinstance(model, ReducedModel), "cases are read as swing models"
    verdict = release.fitted.verdict if release.fitted else None
    return _on_own_buses(model, truth), bool(verdict and verdict.discarded)


def _on_own_buses(model: ReducedModel, truth: ReducedModel) -> ReducedModel:
    """A model under the case's own names; a port that stands for all load elsewhere stands for
    each of its buses.
    """
    K_ac = model.K_ac
    if len(model.ports) < len(truth.ports):  # of topology mode
        K_ac = np.repeat(K_ac, truth.K_ac.shape[1], axis=1)
    return replace(model, ports=truth.ports, loads=truth.loads, K_ac=K_ac)


def _without_release(
    case: JudgedCase, observed: Sequence[Observation], settings: FitSettings
) -> ReducedModel:
    """Public facts alone, at the middle of their bounds; with a record, fitted to it."""
    facts = case.table.facts
    middle = at_middle(facts, case.bounds)
    if not observed:
        model = reduce(middle, loaded_buses(facts))
    elif settings.method == "two-stage" and not is_too_large(facts):
        model = two_stage(
            facts,
            observed,
            no_release(facts.sizes, case.bounds),
            case.bounds,
            dt_s=settings.dt_s,
            scheme=settings.scheme,
            sigma=case.record.sigma,
        ).model
    else:
        other = "l-bfgs-b" if settings.method == "two-stage" else settings.method
        model = fit(reduce(middle), observed, replace(settings, method=other), case.bounds).model
    return _on_own_buses(neutral(model, facts), case.truth)


def settings_of(cell: Cell) -> tuple[FitSettings, Any]:
    """How a cell is fitted, and what from; the projected gradient is the paper's."""
    if cell.fit == "projected-gradient":
        return PROFILES["paper"].settings, PROFILES["paper"].start
    method: Any = "two-stage" if cell.fit == NO_FIT else cell.fit
    return FitSettings(method=method, dt_s=RECORD_DT_S), "posterior"


def recorded(case: JudgedCase, seed: int) -> Observation:
    """The public record of a seed: the case's own answer with white noise."""
    facts, record = case.table.facts, case.record
    event = Event.parse(record.event, base_mva=facts.base_mva)
    truth = reduced_model(facts, case.table.values)
    count = min(record.machines or len(truth.machines), len(truth.machines))
    at = np.linspace(0, len(truth.machines) - 1, count).round().astype(int)
    buses = tuple(truth.machines[place] for place in at)
    clean = simulate(truth, event, horizon_s=RECORD_S, dt_s=RECORD_DT_S, buses=buses)
    noise = np.random.default_rng([seed, 1]).normal(0.0, record.sigma, clean.omega.shape)
    seen = replace(clean, omega=clean.omega + noise)
    return Observation(event, seen, ORIGIN, sigma=record.sigma)


def _judged(case: JudgedCase, models: Sequence[ReducedModel]) -> dict[str, Any]:
    """L and the largest errors of each model over the events (models,)."""
    found = compare(models, case.truth, case.events)
    return _figures(case, {name: getattr(found, name) for name in ("L", *FIGURES[1:])})


def _figures(case: JudgedCase, off: dict[str, Array]) -> dict[str, Any]:
    """One figure a model: L, its mean over the events, as mHz too; else the largest size."""
    L = off["L"].mean(axis=1)
    rms = 1e3 * case.truth.frequency_hz * np.sqrt(L / (HORIZON_S * len(case.truth.machines)))
    largest = {name: np.abs(off[name]).max(axis=1).tolist() for name in FIGURES[1:]}
    return {"L": L.tolist(), "rms_mhz": rms.tolist(), **largest}


def _one_machine(case: JudgedCase, seeds: Sequence[int]) -> dict[str, Any]:
    """Figures of the simplest model: one machine, fitted to the public record of each seed."""
    clock, truth = Clock(HORIZON_S, DT_S), case.truth
    base = measure(truth, case.events)
    runs = [simulate(truth, event, horizon_s=HORIZON_S, dt_s=DT_S) for event in case.events]
    exact = np.stack([run.omega for run in runs])
    parts: dict[str, list[Array]] = {name: [] for name in ("L", *FIGURES[1:])}
    for seed in seeds:
        response = fitted_response([_by_sums(recorded(case, seed), case)], RECORD_DT_S)
        answers = [_answer(response, case, event, clock) for event in case.events]
        omega = np.stack([answer for answer, _ in answers])
        at_once, settled = np.array([totals for _, totals in answers]).T
        figures = read_arrays(
            clock.time_s,
            omega,
            np.ones(len(truth.machines)),
            -at_once / response.inertia,
            -settled / (response.damping + response.gain),
            truth.frequency_hz,
        )
        off = errors(figures, base)
        off["L"] = DT_S * np.einsum("ens,ens->e", omega - exact, omega - exact)
        for name, values in parts.items():
            values.append(off[name])
    judged = _figures(case, {name: np.stack(values) for name, values in parts.items()})
    return judged | {"discarded": [False] * len(seeds)}


def _by_sums(observed: Observation, case: JudgedCase) -> Observation:
    """The same record, its event told by the sum of each step alone."""
    whole = reduced_model(case.table.facts, case.table.values)
    steps = [
        Step(step.at_s, {whole.ports[0]: float(step.loads(whole).sum())})
        for step in observed.event.steps
    ]
    return replace(observed, event=Event(tuple(steps)))


def _answer(
    response: FrequencyResponse, case: JudgedCase, event: Event, clock: Clock
) -> tuple[Array, tuple[float, float]]:
    """ω of one machine for all (samples, g), its largest step at once, and the sum of all."""
    totals = np.array([step.whole(case.truth).sum() for step in event.steps])
    ramps = [step.over_s > 0 for step in event.steps]
    one = response.lti
    lti = LTI.of(one.A, one.B * totals, one.C, np.zeros((1, len(totals))))
    unit = unit_responses(lti, ramps, clock.steps + 1, dt_s=clock.dt_s, scheme="exact")
    omega = np.zeros((clock.steps + 1, 1))
    added(omega, unit, parts_of(event, clock))
    at_once = totals * ~np.array(ramps)
    largest = float(at_once[np.argmax(np.abs(at_once))])
    return np.repeat(omega, len(case.truth.machines), axis=1), (largest, float(totals.sum()))
