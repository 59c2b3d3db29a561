"""Where `leakage` computes its figures: at the middle of the bounds, at a public case, or at a
bundle of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

import numpy as np

from gridveil.adversary.explain import explain, too_many_lines
from gridveil.adversary.leakage import check_machines
from gridveil.adversary.leakage.detailed import PUBLIC_VALUES
from gridveil.dynamics.detailed.projection import project
from gridveil.foundation.errors import OptionError
from gridveil.grid.case import DetailedCase
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import DETAILED, PARAMETERS, WEIGHT, Bounds
from gridveil.grid.tables import PublicTable
from gridveil.planning.surrogate import AT_MIDDLE, at_middle
from gridveil.privacy.adjacency import Adjacency
from gridveil.publication.bundle import is_bundle, load, verify
from gridveil.publication.release import Release
from gridveil.workflow.bounds import choose_bounds
from gridveil.workflow.opening import open_detailed_surrogate, open_named, open_surrogate
from gridveil.workflow.settings import GridSettings, adjacency_over

NOTHING_DONE = "Nothing was computed."


@dataclass(frozen=True, eq=False)
class Basis:
    """What figures are computed with: a public table and what it is, public bounds, who is a
    neighbour; notes on all that.

    claimed : a table on the grid's own topology, which alone a joint claim can be about.
    """

    table: PublicTable
    claimed: PublicTable
    origin: str
    bounds: Bounds
    adjacency: Adjacency
    notes: tuple[str, ...] = ()

    @property
    def facts(self) -> GridFacts:
        """Of the table."""
        return self.table.facts

    @property
    def own(self) -> GridFacts:
        """Of the grid itself."""
        return self.claimed.facts


@dataclass(frozen=True, eq=False)
class DetailedBasis:
    """The same of a detailed grid: a public case that stands, in place of a table.

    facts : of that case; own : of the grid itself.
    """

    case: DetailedCase
    facts: DetailedFacts
    own: DetailedFacts
    origin: str
    bounds: Bounds
    adjacency: Adjacency
    notes: tuple[str, ...] = ()


def basis_of(
    settings: GridSettings, surrogate: str | None, bounded: Sequence[str]
) -> Basis | DetailedBasis:
    """The table to compute at: never the grid's own, of which only the public facts are used.

    bounded : groups with bounds.
    """
    if is_bundle(Path(settings.grid)):
        raise OptionError(
            f"{settings.grid} is a bundle, which names neither the record's buses nor the lines "
            "between them.",
            expected="the grid that it was made of",
            outcome=NOTHING_DONE,
            remedy="To compute at the bundle: gridveil leakage GRID --trajectory RECORD "
            f"--surrogate {quote(settings.grid)}",
        )
    facts = open_named(settings).facts
    if isinstance(facts, DetailedFacts):
        return _detailed_basis(settings, facts, surrogate, bounded)
    if surrogate is not None and is_bundle(Path(surrogate)):
        return _at_release(Path(surrogate), facts, settings, bounded)
    chosen = choose_bounds(
        settings.bounds, facts, derive_others=settings.derive, rule=settings.adjacency
    )
    settings = replace(settings, bounds=chosen.bounds)
    asked = adjacency_over(None, settings.adjacency, {**chosen.alpha, **settings.alpha})
    own = at_middle(facts, settings.bounds)
    if surrogate is None:
        return Basis(own, own, AT_MIDDLE, settings.bounds, asked)
    name = Path(surrogate).name
    return Basis(
        open_surrogate(surrogate, settings, facts),
        own,
        name,
        settings.bounds,
        asked,
        (_named_alike(name),),
    )


def _named_alike(name: str) -> str:
    return (
        f"The record's buses and its event are those of the same names in {name}, wherever they "
        "lie there."
    )


def _detailed_basis(
    settings: GridSettings, facts: DetailedFacts, surrogate: str | None, bounded: Sequence[str]
) -> DetailedBasis:
    """Compute at public values of the structure, at a public case, or at a bundle that shows its
    whole network.
    """
    if said := settings.swing_only:
        option = said[0].replace("_", "-")
        raise OptionError(
            f"--{option} is for swing models, and a detailed one was asked for.",
            outcome=NOTHING_DONE,
            remedy=f"Leave --{option} out, or choose --model swing.",
        )
    bounds = settings.bounds_of(DETAILED)
    asked = adjacency_over(None, settings.adjacency, settings.alpha, DETAILED)
    if surrogate is None:
        return DetailedBasis(
            project(facts.public, {}).case, facts, facts, PUBLIC_VALUES, bounds, asked
        )
    name = Path(surrogate).name
    if not is_bundle(Path(surrogate)):
        table = open_detailed_surrogate(surrogate, settings, facts)
        case = project(table.facts.public, table.values).case
        return DetailedBasis(case, table.facts, facts, name, bounds, asked, (_named_alike(name),))
    verify(Path(surrogate))
    release = load(Path(surrogate))
    guarantee = release.guarantee
    bounds = replace(
        release.bounds, ranges={**release.bounds, **{name: bounds[name] for name in bounded}}
    )
    fitted = ", fitted to a trajectory" if release.fitted else ""
    note = (
        f"Figures come from a noisy release (ε = {guarantee.epsilon}{fitted}) and hold near it: "
        "its noise is in them."
    )
    return DetailedBasis(
        _shown_case(release, facts, name),
        facts,
        facts,
        f"the noisy release {name}",
        bounds,
        adjacency_over(guarantee.adjacency, settings.adjacency, settings.alpha, DETAILED),
        (note, *["It is a DEMO: made with a seed, it protects nothing."] * release.demo),
    )


def _shown_case(release: Release, facts: DetailedFacts, name: str) -> DetailedCase:
    """The case that a bundle shows, under the grid's own names, if it can be one of this grid."""
    shown, public = release.shown, facts.public
    if shown is None or shown.form != "network":
        raise OptionError(
            f"{name} does not show the network that records are computed on.",
            expected="a detailed bundle made with --form network",
            outcome=NOTHING_DONE,
            remedy="Name such a bundle or a public case, or leave --surrogate out.",
        )
    case = shown.case
    alike = len(case.buses) == len(public.buses) and all(
        np.array_equal(of(case), of(public))
        for of in (
            lambda c: c.branches.ends,
            lambda c: c.loads.bus,
            lambda c: c.units.bus,
            lambda c: [(table.model, *table.unit) for table in c.devices],
        )
    )
    if not alike:
        raise OptionError(
            f"{name} has another structure: it is no release of this grid.",
            outcome=NOTHING_DONE,
            remedy="Name a bundle of this grid, or leave --surrogate out.",
        )
    return replace(case, buses=public.buses)


def _at_release(
    path: Path, facts: GridFacts, settings: GridSettings, bounded: Sequence[str]
) -> Basis:
    """Compute at a bundle of the grid, once it verifies; with its own bounds and α where no others
    are asked for.
    """
    check_machines(len(facts.machines))
    verify(path)
    release = load(path)
    explained, guarantee = explain(facts, release), release.guarantee
    fitted = ", fitted to a trajectory" if release.fitted else ""
    notes = [
        f"Figures come from a noisy release (ε = {guarantee.epsilon}{fitted}) and hold near it: "
        "its noise is in them."
    ]
    if undrawn := [name for name in PARAMETERS if name not in guarantee.groups]:
        notes.append(
            f"Nothing was drawn of {' and '.join(undrawn)}: taken from the middle of its public "
            "bounds."
        )
    if WEIGHT.name in guarantee.groups and too_many_lines(facts):
        notes.append(
            f"{len(facts.edges)} lines are too many to be won back from a bundle: their k is taken "
            "from the middle of its public bounds, and its network was not compared with the "
            "grid's topology."
        )
    if sums := [name for name, loss in guarantee.groups.items() if loss.mechanism.takes == "sum"]:
        notes.append(
            f"Only the sum was drawn of {' and '.join(sums)}: single machines have the shares that "
            "it gives them."
        )
    notes += ["It is a DEMO: made with a seed, it protects nothing."] * release.demo
    return Basis(
        explained.table,
        explained.table,
        f"the noisy release {path.name}",
        replace(
            release.bounds,
            ranges={**release.bounds, **{name: settings.bounds[name] for name in bounded}},
        ),
        adjacency_over(guarantee.adjacency, settings.adjacency, settings.alpha),
        (*notes, *explained.doubts),
    )
