"""Algorithm 1, as one function that reads like it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from gridveil.dynamics.kron import networkless_model, reduce, reduced_model
from gridveil.dynamics.simulate import check_euler
from gridveil.foundation import crash_points
from gridveil.foundation.errors import NOTHING_SPENT, OptionError
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import GridFacts, IntArray
from gridveil.grid.parameters import WEIGHT, Bounds
from gridveil.grid.tables import PublicTable
from gridveil.inference.fit import FitSettings, Observation, check_events, fit, problem
from gridveil.inference.fit.methods import Progress
from gridveil.inference.posterior import Start, middle, posterior_mean
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation, machine_shares
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import Sampler
from gridveil.publication.bundle import check_fits
from gridveil.publication.ports import merge_loads
from gridveil.publication.release import Release, loaded_buses
from gridveil.vault.perturb import perturb
from gridveil.vault.sampler import SecureSampler, makes_demo
from gridveil.vault.source import SourceGrid


@sealed
def publish(
    source: SourceGrid,
    observed: Sequence[Observation] = (),
    *,
    epsilon: Fraction,
    adjacency: Adjacency,
    bounds: Bounds,
    ledger: Ledger | None,
    settings: FitSettings | None = None,
    sampler: Sampler | None = None,
    progress: Progress | None = None,
    lineage: str | None = None,
    allocation: Allocation = ITEMS,
    start: Start = "posterior",
    ports: Sequence[IntArray] | None = None,
) -> Release:
    """Release a private grid's frequency dynamics (Algorithm 1).

    Without a trajectory it stops after step 2, and the guarantee is unconditional.
    lineage : the account that is charged.
    allocation : what is drawn of each group; a fit needs items.
    start : what step 2 takes, posterior means, or the noisy values as they were clipped (the
    paper's way).
    ports : groups of loaded buses that are shown as one port each; default: each alone.
    """
    sampler = sampler or SecureSampler()
    settings = settings or FitSettings()
    check_observed(observed, source.facts, settings, bounds, sampler)
    check_allocation(source.facts, allocation, fits=bool(observed))
    hidden = allocation.hides_network
    check_fits(source.facts, bounds, 1 if hidden else len(loaded_buses(source.facts)))
    noisy = perturb(  # step 1: spends ε
        source,
        epsilon=epsilon,
        adjacency=adjacency,
        bounds=bounds,
        ledger=ledger,
        sampler=sampler,
        lineage=lineage,
        allocation=allocation,
    )
    # Step 2 and what follows: post-processing.
    table = (
        noisy if start == "clipped" and allocation.mechanism == "items" else posterior_mean(noisy)
    )
    if hidden:
        assert isinstance(table, PublicTable), "sums have no clipped items"
        reduced = networkless_model(table, middle(bounds[WEIGHT.name]))
    else:
        # Trajectories and their events may lie on any bus; without one, only loaded buses are
        # needed.
        reduced = reduce(table, None if observed else loaded_buses(source.facts))
    crash_points.step("reduced")
    fitted = (
        fit(reduced, observed, settings, bounds, progress, noisy) if observed else None
    )  # step 3: post-processing
    release = Release.of(noisy, reduced, fitted, observed)
    return release if ports is None else merge_loads(release, source.facts, ports)


def check_allocation(facts: GridFacts, allocation: Allocation, *, fits: bool) -> None:
    """Refuse an allocation that this grid, or a fit, cannot use, before anything is drawn."""
    machine_shares(facts, allocation.sharing)
    if fits and allocation.mechanism != "items":
        raise OptionError(
            f"A trajectory cannot be used with the mechanism {allocation.mechanism}: the fit needs "
            "noisy items.",
            outcome=NOTHING_SPENT,
            remedy="Choose the mechanism items, or leave the trajectory out.",
        )


def check_observed(
    observed: Sequence[Observation],
    facts: GridFacts,
    settings: FitSettings,
    bounds: Bounds,
    sampler: Sampler | None = None,
) -> None:
    """Refuse trajectories that are not public or cannot be fitted, before anything is drawn."""
    _check_origin(observed, sampler or SecureSampler())
    _check_records(observed, facts, settings, bounds)


def _check_origin(observed: Sequence[Observation], sampler: Sampler) -> None:
    """Refuse a trajectory that was simulated from the source: it would carry private values past
    the noise.
    """
    if not makes_demo(sampler) and any(one.provenance.origin != "measured" for one in observed):
        raise OptionError(
            "A trajectory simulated from the source grid is not public.",
            outcome=NOTHING_SPENT,
            remedy="Use a measured, published trajectory, or none; simulated ones are for demos.",
        )


def _check_records(
    observed: Sequence[Observation], facts: GridFacts, settings: FitSettings, bounds: Bounds
) -> None:
    """Set step 3 up on a public surrogate, so that a record that cannot be fitted is refused before
    anything is spent.
    """
    if observed:
        check_events(observed, facts, settings, bounds)
        upper = {name: np.full(size, bounds[name].upper) for name, size in facts.sizes.items()}
        surrogate = reduced_model(facts, upper)
        problem(
            surrogate,
            observed,
            bounds,
            dt_s=settings.dt_s,
            scheme=settings.scheme,
            rho=settings.rho,
        )
        if settings.scheme == "euler":
            check_euler(surrogate, settings.dt_s)
