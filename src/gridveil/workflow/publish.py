"""Algorithm 1, as one function that reads like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, get_args

from gridveil.dynamics.compact import is_compact
from gridveil.dynamics.ensemble import Ensemble
from gridveil.dynamics.kron import networkless_model, reduce
from gridveil.foundation import crash_points
from gridveil.foundation.arguments import of_type, one_of, several, takes
from gridveil.foundation.errors import NOTHING_SPENT, OptionError
from gridveil.foundation.progress import stage
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import GridFacts, IntArray
from gridveil.grid.parameters import WEIGHT, Bounds
from gridveil.grid.tables import PublicTable
from gridveil.inference.ensemble import counted, fitted_members, members_for, possible
from gridveil.inference.fit import FitResult, FitSettings, Observation, check_records, fit
from gridveil.inference.posterior import Start, middle, posterior_mean
from gridveil.planning.surrogate import (
    AROUND_ONE_BUS,
    FROM_PRIOR,
    choose,
    without_network,
)
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation, MechanismName, Sharing, machine_shares
from gridveil.privacy.epsilon import Exact, exact
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import Sampler
from gridveil.privacy.noisy import NoisyGrid
from gridveil.publication.bundle_files import check_fits
from gridveil.publication.ports import merge_loads
from gridveil.publication.release import Release, loaded_buses
from gridveil.vault.perturb import DRAWING, PlannedDraw, perturb_planned
from gridveil.vault.sampler import SecureSampler, makes_demo
from gridveil.vault.source import SourceGrid


@sealed
@takes(
    outcome=NOTHING_SPENT,
    **DRAWING,
    observed=several(of_type(Observation, ""), "Observations, such as measured.observation"),
    settings=of_type(FitSettings, "FitSettings"),
    start=one_of(get_args(Start)),
)
def publish(
    source: SourceGrid,
    observed: Sequence[Observation] = (),
    *,
    epsilon: Exact,
    adjacency: Adjacency | str,
    bounds: Bounds | Mapping[str, Any],
    ledger: Ledger | None,
    settings: FitSettings | None = None,
    sampler: Sampler | None = None,
    lineage: str | None = None,
    allocation: Allocation | None = None,
    start: Start = "posterior",
    ports: Sequence[IntArray] | None = None,
    error_bars: bool = True,
) -> Release:
    """Release a private grid's frequency dynamics (Algorithm 1).

    Without a trajectory it stops after step 2, and the guarantee is unconditional.
    lineage : the account that is charged.
    allocation : what is drawn of each group; a fit needs items. None: items where there is a
    trajectory, else aggregates, their shares chosen on a surrogate, as `gridveil release` does.
    start : what step 2 takes, posterior means, or the noisy values as they were clipped (the
    paper's way).
    ports : groups of loaded buses that are shown as one port each; default: each alone.
    error_bars : whether to make an ensemble; without one, many demos are made faster.
    """
    family, epsilon = source.facts.family, exact(epsilon)
    adjacency, bounds = Adjacency.of(adjacency, family), Bounds.of(bounds, family)
    settings = settings or FitSettings()
    records = FitRecords(observed, sampler or SecureSampler())
    check_records(observed, source.facts, settings, bounds)
    allocation = allocation or (
        ITEMS if observed else share_out(source.facts, adjacency, epsilon, bounds)
    )
    check_allocation(source.facts, bounds, allocation, fits=bool(observed))
    plan = PlannedDraw(source, epsilon, adjacency, bounds, allocation)
    return algorithm_1(
        plan,
        records,
        ledger=ledger,
        settings=settings,
        start=start,
        lineage=lineage,
        ports=ports,
        error_bars=error_bars,
    )


@dataclass(frozen=True, eq=False)
class FitRecords:
    """Records that what this sampler draws may be fitted to: one simulated from the source, which
    would carry private values past the noise, is refused unless a demo is made.
    """

    observed: Sequence[Observation] = ()
    sampler: Sampler = field(default_factory=SecureSampler)

    def __post_init__(self) -> None:
        origins = {observation.provenance.origin for observation in self.observed}
        if origins - {"measured"} and not makes_demo(self.sampler):
            raise OptionError(
                "A trajectory simulated from the source grid is not public.",
                outcome=NOTHING_SPENT,
                remedy="Use a measured, published trajectory, or none; simulated ones are for "
                "demos.",
            )


@sealed
def algorithm_1(
    plan: PlannedDraw,
    records: FitRecords,
    *,
    ledger: Ledger | None,
    settings: FitSettings,
    start: Start,
    lineage: str | None = None,
    ports: Sequence[IntArray] | None = None,
    error_bars: bool = True,
) -> Release:
    """Draw, reduce and fit what `check_records` and `check_allocation` have let pass."""
    observed, facts, allocation = records.observed, plan.source.facts, plan.allocation
    if ports is not None:
        check_mergeable(allocation)
    # Step 1: spends ε.
    noisy = perturb_planned(plan, ledger=ledger, sampler=records.sampler, lineage=lineage)
    # Step 2 and what follows: post-processing.
    table = (
        noisy if start == "clipped" and allocation.mechanism == "items" else posterior_mean(noisy)
    )
    if allocation.hides_network:
        assert isinstance(table, PublicTable), "sums have no clipped items"
        reduced = networkless_model(table, middle(plan.bounds[WEIGHT.name]) / len(facts.machines))
    else:
        # Trajectories and their events may lie on any bus; without one, only loaded buses are
        # needed.
        loaded = loaded_buses(facts)
        compact = not observed and is_compact(len(facts.machines), len(loaded))
        reduced = reduce(table, None if observed else loaded, compact=compact)
    crash_points.step("reduced")
    # Step 3: post-processing.
    if observed:
        stage("fitting")
    fitted = fit(reduced, observed, settings, plan.bounds, noisy) if observed else None
    release = replace(Release.of(noisy, reduced, fitted, observed), ledger=ledger)
    if error_bars:
        release = replace(release, ensemble=_ensemble(noisy, release, fitted))
    return release if ports is None else merge_loads(release, facts, ports)


def _ensemble(noisy: NoisyGrid, release: Release, fitted: FitResult | None) -> Ensemble | None:
    """Models that a release leaves possible: post-processing, with a public seed."""
    loaded = loaded_buses(noisy.facts)
    ports = release.model.ports
    count = members_for(len(noisy.facts.machines), len(ports) - len(noisy.facts.machines))
    discarded = fitted is not None and fitted.verdict is not None and fitted.verdict.discarded
    ended = fitted.ended if fitted is not None else None
    if not count or (fitted is not None and ended is None and not discarded):
        return None  # other fits than the two-stage one tell nothing of what they leave possible
    stage("drawing error bars")
    members = (
        possible(noisy, loaded, count)
        if ended is None
        else fitted_members(ended, noisy, loaded, count)
    )
    return Ensemble.of(
        [replace(member, ports=ports) for member in members],
        counts=counted(noisy.guarantee, fitted=ended is not None),
    )


def check_mergeable(allocation: Allocation) -> None:
    """Refuse to merge loads where one port stands for all of them."""
    if allocation.hides_network:
        raise OptionError(
            "Topology mode has one port for all load: there is nothing to merge.",
            outcome=NOTHING_SPENT,
            remedy="Leave --merge-loads out.",
        )


def share_out(
    facts: GridFacts,
    adjacency: Adjacency,
    epsilon: Fraction,
    bounds: Bounds,
    *,
    mechanism: MechanismName = "aggregates",
    sharing: Sharing = "equal",
    surrogate: tuple[PublicTable, str] | None = None,
) -> Allocation:
    """Share ε by what a public surrogate shows; the grid itself has no part in it, in topology mode
    not even its network.

    surrogate : a table and its name; None: the declared topology with tables drawn from the prior.
    """
    if surrogate is not None:
        public, origin = surrogate
    elif mechanism == "topology":
        public, origin = without_network(facts), AROUND_ONE_BUS
    else:
        public, origin = facts, FROM_PRIOR
    stage("sharing epsilon out")
    return choose(
        public, adjacency, epsilon, bounds, mechanism=mechanism, sharing=sharing, origin=origin
    )


def check_allocation(
    facts: GridFacts, bounds: Bounds, allocation: Allocation, *, fits: bool
) -> None:
    """Refuse what this grid, a fit or a bundle cannot use, before anything is drawn."""
    machine_shares(facts, allocation.sharing)
    if fits and allocation.mechanism != "items":
        raise OptionError(
            f"A trajectory cannot be used with the mechanism {allocation.mechanism}: the fit needs "
            "noisy items.",
            outcome=NOTHING_SPENT,
            remedy="Choose the mechanism items, or leave the trajectory out.",
        )
    check_fits(facts, bounds, 1 if allocation.hides_network else len(loaded_buses(facts)))
