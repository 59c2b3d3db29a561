"""A release with detailed devices: what is drawn, and what post-processing makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from gridveil.dynamics.detailed.entries import ENTRIES, ITEM_SHARE, Treatment
from gridveil.dynamics.detailed.equilibrium import solve
from gridveil.dynamics.detailed.estimate import toward_mean
from gridveil.dynamics.detailed.linearise import linearise
from gridveil.dynamics.detailed.projection import Projected, check_public_end, project
from gridveil.dynamics.detailed.reduction import reduce_case
from gridveil.dynamics.ensemble import Ensemble
from gridveil.foundation import crash_points
from gridveil.foundation.errors import NOTHING_SPENT, GridveilError, OptionError
from gridveil.foundation.progress import stage
from gridveil.foundation.sealed import sealed
from gridveil.grid.case import DetailedCase
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array
from gridveil.grid.parameters import Asset, Bounds
from gridveil.inference.detailed_ensemble import counted_words, detailed_members, offsets
from gridveil.inference.fit.controls import FitControls, answers_of, controls_of, record_ports
from gridveil.inference.fit.detailed import DetailedFit, DetailedFitSettings, fit_detailed
from gridveil.inference.fit.detailed_members import MemberFits
from gridveil.inference.fit.guard_detailed import DetailedGuard, response_deviation
from gridveil.inference.fit.misfit import PlaceMisfit
from gridveil.inference.fit.problem import Observation
from gridveil.inference.fit.unknown import KNOWN
from gridveil.inference.posterior import seed_of
from gridveil.inference.records import WRONG_SIZE
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import GroupLoss, Sampler
from gridveil.privacy.noisy import NoisyGrid
from gridveil.publication.detailed import Form, Shown, moved_words, neutral_case, neutral_model
from gridveil.publication.export.detailed_andes import detailed_andes
from gridveil.publication.export.detailed_psse import detailed_raw_dyr
from gridveil.publication.release import Release, detailed_release
from gridveil.publication.replay import Replay, detailed_replays
from gridveil.publication.schema import MOST_BUSES, MOST_STATES
from gridveil.vault.perturb import PlannedDraw, perturb_planned
from gridveil.vault.sampler import SecureSampler
from gridveil.vault.source import SourceGrid
from gridveil.workflow.publish import FitRecords

# Formats that hold the case with its devices.
CASE_WRITERS = {"andes": detailed_andes, "psse": detailed_raw_dyr}
STATES_OF_A_UNIT = 30  # more than any known combination of devices has
TREATMENTS: Mapping[Treatment, str] = {
    "protect": "protect, noise on every entry",
    "mean": "mean, noise on the mean over all entries",
    "typical": "typical, a public value and no noise",
    "publish": "publish, the true values as they are",
}


def treatments(facts: DetailedFacts) -> dict[str, str]:
    """What is done with each parameter unless its owner says otherwise, in words."""
    return {name: TREATMENTS[ENTRIES[name].treatment] for name in facts.parameters}


def allocate(
    facts: DetailedFacts,
    adjacency: Adjacency,
    treatments: Mapping[str, Treatment] | None = None,
    item_shares: Mapping[Asset, Fraction] | None = None,
) -> Allocation:
    """What is drawn of each parameter, and with which share of ε.

    Where a whole asset may move, its items are drawn jointly, and so are the means; elsewhere each
    has noise of its own, and the whole ε. What neighbours share by the adjacency is published.
    treatments : those that are not the usual ones.
    item_shares : what items have of an asset's ε, where it is not ITEM_SHARE; its means have the
    rest.
    """
    said: dict[str, Treatment] = dict(treatments or {})
    parts: dict[Asset, Fraction] = dict(item_shares or {})
    for name in said.keys() - facts.parameters.keys():
        raise OptionError(
            f"--treatments {name} names what no device of this grid has.",
            expected=f"some of {', '.join(facts.parameters)}",
            outcome=NOTHING_SPENT,
        )
    jointly = adjacency.counts == "one-asset"
    if parts and not (jointly and all(0 < part < 1 for part in parts.values())):
        raise OptionError(
            "--split of a detailed model shares an asset's ε between its items and its means.",
            expected="a share between 0 and 1, under one-asset-relative",
            outcome=NOTHING_SPENT,
        )
    ways: Mapping[Treatment, str] = {
        "protect": "box" if jointly else "items",
        "mean": "box-means" if jointly else "mean",
        "typical": "nothing",
        "publish": "published",
    }
    usual: dict[str, Treatment] = {name: ENTRIES[name].treatment for name in facts.parameters}
    shared: dict[str, Treatment] = dict.fromkeys(adjacency.published, "publish")
    chosen: dict[str, Treatment] = {name: (usual | shared | said)[name] for name in usual}
    changed = chosen != usual or any(ITEM_SHARE[asset] != part for asset, part in parts.items())
    origin = "treatments set by its owner" if changed else "gridveil's usual treatments"
    draws = {name: ways[treatment] for name, treatment in chosen.items()}
    if not jointly:
        return Allocation(draws, origin=origin)
    of: dict[str, Asset] = {name: parameter.asset for name, parameter in facts.parameters.items()}
    shares: dict[str, Fraction] = {}
    for name, treatment in chosen.items():
        if treatment not in ("protect", "mean"):
            continue
        both = {"protect", "mean"} <= {chosen[n] for n in chosen if of[n] == of[name]}
        part = (ITEM_SHARE | parts)[of[name]] if both else Fraction(1)
        shares[name] = 1 - part if both and treatment == "mean" else part
    return Allocation(draws, shares, origin=origin)


@sealed
def publish_detailed(
    source: SourceGrid[DetailedFacts],
    observed: Sequence[Observation] = (),
    *,
    epsilon: Fraction,
    adjacency: Adjacency | None = None,
    bounds: Bounds | None = None,
    ledger: Ledger | None,
    sampler: Sampler | None = None,
    lineage: str | None = None,
    treatments: Mapping[str, Treatment] | None = None,
    allocation: Allocation | None = None,
    form: Form = "reduced",
    settings: DetailedFitSettings | None = None,
    error_bars: bool = True,
) -> Release:
    """Release a private grid with its devices: draw, solve the released power flow, move what is
    not stable toward public values, linearise, and fit to public records, if there are any.

    treatments : what is done with parameters, where it is not the usual; or a whole allocation.
    settings : of the fit; it estimates how loads depend on voltage unless told otherwise.
    error_bars : whether to make an ensemble, which takes longer than all the rest.

    Without arguments of their own, adjacency, bounds and allocation are the usual ones of detailed
    tables: one-asset-relative, α = 5 %.

    Privacy
    -------
    The private case is never solved: all after `perturb` sees released and public values alone. No
    draw is repeated: an unstable one is moved by a public rule, whose end is known to be stable
    before anything is charged.
    """
    facts = source.facts
    adjacency = adjacency or Adjacency("one-asset-relative", family=facts.family)
    bounds = bounds or Bounds(family=facts.family)
    allocation = allocation or allocate(facts, adjacency, treatments)
    adjacency = replace(adjacency, published=(*adjacency.published, *allocation.published))
    check_writable((), check_public_end(facts.public))
    plan = PlannedDraw(source, epsilon, adjacency, bounds, allocation)
    records = FitRecords(observed, sampler or SecureSampler())
    check_detailed_records(records.observed, facts)
    controls = fit_controls(facts, records, settings or DetailedFitSettings())
    return detailed_algorithm(
        plan,
        records,
        ledger=ledger,
        lineage=lineage,
        form=form,
        controls=controls,
        error_bars=error_bars,
    )


def fit_controls(
    facts: DetailedFacts, records: FitRecords, settings: DetailedFitSettings
) -> FitControls | None:
    """Fit what a fitted release is compared with, before anything is charged; None: no records."""
    if not records.observed:
        return None
    check_answers(facts.public, records.observed, settings.dt_s)
    stage("fitting the controls")
    return controls_of(facts.public, records.observed, settings)


def check_detailed_records(observed: Sequence[Observation], facts: DetailedFacts) -> None:
    """Refuse events that a detailed fit cannot place, before anything is charged."""
    for record in observed:
        gone = record.event.tripped
        places = {bus for step in record.event.steps for bus in step.change}
        misplaced = [bus for bus in gone if bus not in facts.units]
        misplaced += sorted(places - {*facts.buses, *facts.units})
        if misplaced or len(set(gone)) < len(gone) or len(gone) == len(facts.units):
            raise OptionError(
                "A record's event names a machine or bus that is not there, a machine twice, or "
                "all machines.",
                expected="load at buses of the grid, and trips of some of its machines",
                outcome=NOTHING_SPENT,
            )
        whole = any(step.uniform or step.lost or step.over_s for step in record.event.steps)
        if whole or record.unknown != KNOWN:
            raise OptionError(
                "A detailed model is fitted to steps of known places and sizes.",
                expected="an event such as load:BUS=+200MW or trip:BUS",
                outcome=NOTHING_SPENT,
                remedy="Give it bus by bus in MW, or release a swing model (--model swing).",
            )


def check_answers(public: DetailedCase, observed: Sequence[Observation], dt_s: float) -> None:
    """Refuse a record that is far larger or smaller than what public values answer to its event: a
    wrong unit, or event.
    """
    case = project(public, {}).case
    model = linearise(case, solve(case), record_ports(case, observed))
    for record, answer in zip(observed, answers_of(model, observed, dt_s), strict=True):
        seen = record.trajectory.omega
        peak, own = float(np.nanmax(np.abs(seen))), float(np.abs(answer).max())
        if own > 0 and not 1 / WRONG_SIZE <= peak / own <= WRONG_SIZE:
            mhz = 1000 * record.trajectory.frequency_hz
            raise OptionError(
                f"The largest deviation of a record is {mhz * peak:.3g} mHz, where a grid of this "
                f"structure with public values answers its event by {mhz * own:.3g} mHz.",
                expected=f"no more than {WRONG_SIZE:g} times less or more",
                outcome=NOTHING_SPENT,
                remedy="Check the record's unit and the size of its event.",
            )


def check_writable(formats: Sequence[str], end: DetailedCase) -> None:
    """Refuse a case that is too large for a bundle, and formats that cannot hold its devices, by
    writing a public one, before anything is charged.

    end : of `check_public_end`.
    """
    units = len(end.units.bus)
    if len(end.buses) > MOST_BUSES or units * STATES_OF_A_UNIT > MOST_STATES:
        raise OptionError(
            f"A detailed release of {len(end.buses)} buses and {units} units is too large.",
            expected=f"up to {MOST_BUSES} buses and {MOST_STATES // STATES_OF_A_UNIT} units",
            outcome=NOTHING_SPENT,
            remedy="Release a swing model (--model swing).",
        )
    for name in CASE_WRITERS.keys() & set(formats):
        try:
            CASE_WRITERS[name](end)
        except GridveilError as error:
            raise GridveilError(error.problem, outcome=NOTHING_SPENT, remedy=error.remedy) from None


@sealed
def detailed_algorithm(
    plan: PlannedDraw[DetailedFacts],
    records: FitRecords,
    *,
    ledger: Ledger | None,
    lineage: str | None = None,
    form: Form = "reduced",
    controls: FitControls | None = None,
    error_bars: bool = True,
) -> Release:
    """Draw what was planned, and make a model of it. `check_public_end` and
    `check_detailed_records` come before.

    controls : of `fit_controls`, for the same records.
    """
    noisy = perturb_planned(  # spends ε
        plan, ledger=ledger, sampler=records.sampler, lineage=lineage
    )
    stage("finding the operating point")
    projected = project(noisy.facts.public, estimates(noisy))
    crash_points.step("reduced")
    case, equilibrium, fitted = projected.case, projected.equilibrium, None
    misfit: tuple[PlaceMisfit, ...] = ()
    if controls is not None:
        stage("fitting")
        ports = record_ports(case, controls.observed)
        fitted = fit_detailed(case, ports, controls.observed, controls.settings)
        misfit = controls.beside(case, fitted)
        deviation = response_deviation(noisy)
        verdict = DetailedGuard(case, fitted, misfit, controls, deviation).verdict()
        fitted = replace(fitted, verdict=verdict)
        if verdict.discarded:
            misfit = tuple(place.unfitted() for place in misfit)
        else:
            case, equilibrium = fitted.case, fitted.equilibrium
    model = linearise(case, equilibrium, case.loads.bus)
    public = neutral_model(model)
    replays: tuple[Replay, ...] = ()
    if fitted is not None:
        before = linearise(projected.case, projected.equilibrium, projected.case.loads.bus)
        names = dict(zip(model.ports, public.ports, strict=True))
        replays = detailed_replays(neutral_model(before), public, records.observed, names)
    shown = case if form == "network" else reduce_case(case, equilibrium).case
    release = detailed_release(
        noisy,
        public,
        Shown(
            neutral_case(shown),
            form,
            max(projected.shares.values(), default=0.0),
            moved_words(projected.shares),
        ),
        ledger,
        fitted,
        records.observed,
        misfit,
        replays,
    )
    if not error_bars:
        return release
    return replace(release, ensemble=_ensemble(noisy, projected, controls, fitted))


def _ensemble(
    noisy: NoisyGrid[DetailedFacts],
    released: Projected,
    controls: FitControls | None,
    fitted: DetailedFit | None,
) -> Ensemble:
    """Models that a release leaves possible; post-processing, with a public seed.

    released : before its fit.
    """
    case = released.case
    fits, unknown_loads = None, False
    if controls is not None and fitted is not None:
        observed, settings = controls.observed, controls.settings
        if fitted.verdict is not None and fitted.verdict.discarded:
            unknown_loads = settings.exponents
        else:
            ports = record_ports(case, observed)
            fits = MemberFits.of(case, ports, observed, settings, fitted)
    members = detailed_members(
        noisy, (case, released.equilibrium), fits, unknown_loads=unknown_loads
    )
    models = [neutral_model(member) for member in members]
    return Ensemble.of(
        models,
        counts=counted_words(fits is not None),
        offset=offsets(len(models), len(models[0].ports), seed_of(noisy)),
    )


def estimates(noisy: NoisyGrid[DetailedFacts]) -> dict[str, Array]:
    """Guess the entries behind what was drawn: items of machines, which are often alike, are drawn
    toward their mean as far as their noise explains that they differ.
    """
    known = {*noisy.allocation.drawn, *noisy.allocation.published}
    values = {name: values for name, values in noisy.values.items() if name in known}
    return estimated(values, noisy.guarantee.groups, noisy.facts)


def estimated(
    drawn: Mapping[str, Array], losses: Mapping[str, GroupLoss], facts: DetailedFacts
) -> dict[str, Array]:
    """The same of values that were drawn at these losses."""
    values = dict(drawn)
    for name, loss in losses.items():
        of_machines = facts.parameters[name].asset == "machine"
        if of_machines and loss.relative and loss.mechanism.takes == "items":
            values[name] = toward_mean(values[name], loss.noise.deviation * loss.scale)
    return values
