"""A release, from settings to signed bundles that the ledger has noted: what `gridveil release`
and Python call.

Every guard is here or below: whoever calls it meets the same ones, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from gridveil.foundation import crash_points
from gridveil.foundation.archive import check_free
from gridveil.foundation.errors import NOTHING_SPENT, GridveilError
from gridveil.foundation.progress import RELEASE, staged
from gridveil.grid.facts import GridFacts, IntArray
from gridveil.grid.parameters import PARAMETERS, Bounds
from gridveil.grid.tables import PublicTable
from gridveil.inference.records import Measured, read_all
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.ledger import Account, Ledger, Receipt
from gridveil.publication.bundle import Report
from gridveil.publication.certificate import SELECTION
from gridveil.publication.export import check_formats
from gridveil.publication.ports import equal_ports, named_ports, zone_ports
from gridveil.publication.release import Release
from gridveil.publication.signing import open_signer
from gridveil.readers.cases import BUNDLED
from gridveil.vault.perturb import check_draw, version_of
from gridveil.vault.source import SourceGrid
from gridveil.workflow.leakage import GivenAway, given_away
from gridveil.workflow.opening import open_named, open_surrogate
from gridveil.workflow.outcome import outcome_told
from gridveil.workflow.publish import (
    algorithm_1,
    check_allocation,
    check_mergeable,
    check_observed,
    share_out,
)
from gridveil.workflow.settings import ReleaseSettings

# What a notice is about: the cost of several draws, what a record gives away, default bounds.
About = Literal["cost", "leakage", "bounds"]


class Dialogue:
    """What a release says and asks on its way; this one says nothing, and goes on."""

    def notice(self, about: About, words: str) -> None:
        """Say something before anything is charged."""

    def goes_on(self) -> bool:
        """Whether to go on, after it was said what the trajectories give away."""
        return True

    def passphrase(self) -> str | None:
        """The passphrase of the signing key, where the environment does not tell it."""
        return None

    def outcome(self, words: str, *, done: bool = False) -> None:
        """Keep what stands, however it may end from here on; done : all that was asked for."""


@dataclass(frozen=True, eq=False)
class Released:
    """What a release left: bundles, what they promise, and what its owner should know.

    facts : public, of the grid.
    ports : the owner's buses behind each port, where ports were merged.
    leakage : what the trajectories give away by themselves; None: not computed.
    warnings : what an owner should not overlook; default_bounds : was said before the charge.
    """

    releases: tuple[Release, ...]
    reports: tuple[Report, ...]
    facts: GridFacts
    measured: tuple[Measured, ...]
    allocation: Allocation
    ports: Mapping[str, tuple[str, ...]]
    leakage: GivenAway | None
    ledger: str
    lineage: str
    signed_by: str | None
    warnings: tuple[str, ...]
    default_bounds: str | None

    @property
    def receipt(self) -> Receipt:
        """What the ledger gave for the last draw: spent and budget are the lineage's."""
        receipt = self.releases[-1].receipt
        assert receipt is not None, "it was charged"
        return receipt


def release_grid(settings: ReleaseSettings, dialogue: Dialogue | None = None) -> Released:
    """Release a grid: read, check, show what its records give away, charge, draw, write, sign and
    note the bundles in the ledger.

    Privacy
    -------
    All that can be refused is refused before the charge; the charge is durable before the draw.
    """
    dialogue = dialogue or Dialogue()
    dialogue.outcome(NOTHING_SPENT)
    places = settings.places
    for place in places:
        check_free(place)
    with staged(RELEASE):
        source = open_named(settings)
    facts, fit = source.facts, settings.preset.settings
    check_formats(settings.formats, len(facts.machines))
    measured = read_all(settings.trajectory, facts, fit.dt_s, settings.bounds)
    observed = [record.observation for record in measured]
    check_observed(observed, facts, fit, settings.bounds)
    book = Ledger(settings.ledger_place, witness=settings.witness)
    crash_points.step("opened")
    lineage = settings.lineage or Path(facts.name).stem
    known = book.account(lineage)
    adjacency = settings.neighbours(known)
    leaked = _shown_leakage(settings, measured, facts, adjacency, dialogue)
    with staged(RELEASE):
        allocation = settings.allocation or _shared_out(settings, facts, adjacency, book)
    check_allocation(facts, settings.bounds, allocation, fits=bool(observed))
    # Perturb plans each draw itself, and trusts nobody; here a mistake is told before a question.
    check_draw(source, settings.epsilon, adjacency, settings.bounds, allocation)
    ports = _ports(settings.merge_loads, facts, allocation)
    signer = open_signer(dialogue.passphrase)
    if settings.count > 1:
        _set_aside(settings, source, adjacency, allocation, book, lineage, known, dialogue)
    default_bounds = None
    if settings.bounds == settings.preset.bounds and settings.grid not in BUNDLED:
        default_bounds = _default_bounds(settings.bounds)
        dialogue.notice("bounds", default_bounds)
    made: list[tuple[Release, Report]] = []
    with outcome_told(book, lineage, places, settings.epsilon, dialogue.outcome):
        for place in places:
            with staged(RELEASE):
                release = algorithm_1(
                    source,
                    observed,
                    epsilon=settings.epsilon,
                    adjacency=adjacency,
                    bounds=settings.bounds,
                    ledger=book,
                    settings=fit,
                    lineage=lineage,
                    allocation=allocation,
                    start=settings.preset.start,
                    ports=ports,
                )
                made.append((release, release.save(place, signer, settings.formats)))
    releases, reports = zip(*made, strict=True)
    return Released(
        releases,
        reports,
        facts,
        tuple(measured),
        allocation,
        {} if ports is None else named_ports(facts, ports),
        leaked,
        book.location,
        lineage,
        signer.key_id if signer else None,
        tuple(warnings(settings.epsilon, releases[-1].clipped, facts, allocation)),
        default_bounds,
    )


def _shown_leakage(
    settings: ReleaseSettings,
    measured: Sequence[Measured],
    facts: GridFacts,
    adjacency: Adjacency,
    dialogue: Dialogue,
) -> GivenAway | None:
    """Show what the trajectories give away by themselves, and ask whether to go on."""
    if not measured:
        return None
    found = given_away(
        measured, facts, settings.bounds, adjacency, dt_s=settings.preset.settings.dt_s
    )
    if isinstance(found, str):
        dialogue.notice("leakage", found)
        return None
    dialogue.notice("leakage", found.leakage.verdict())
    if not dialogue.goes_on():
        raise GridveilError(
            "The release was called off.",
            outcome=NOTHING_SPENT,
            remedy="A coarser record may tell less: gridveil leakage --keep … --rate … --round …",
        )
    return found


def _shared_out(
    settings: ReleaseSettings, facts: GridFacts, adjacency: Adjacency, book: Ledger
) -> Allocation:
    """Choose the shares of ε on the surrogate that was asked for, or on the usual one."""
    mechanism: Any = settings.drawn
    sharing: Any = settings.share_by
    surrogate: tuple[PublicTable, str] | None = None
    if settings.surrogate is not None:
        table = open_surrogate(settings.surrogate, settings, facts, book)
        surrogate = table, Path(settings.surrogate).name
    return share_out(
        facts,
        adjacency,
        settings.epsilon,
        settings.bounds,
        mechanism=mechanism,
        sharing=sharing,
        surrogate=surrogate,
    )


def _ports(
    merge: str | None, facts: GridFacts, allocation: Allocation
) -> tuple[IntArray, ...] | None:
    """Group the loaded buses as asked, by the topology alone; None: each is a port of its own."""
    if merge is None:
        return None
    check_mergeable(allocation)
    return equal_ports(facts) if merge == "equal" else zone_ports(facts, int(merge))


def _set_aside(
    settings: ReleaseSettings,
    source: SourceGrid,
    adjacency: Adjacency,
    allocation: Allocation,
    book: Ledger,
    lineage: str,
    known: Account | None,
    dialogue: Dialogue,
) -> None:
    """Say what several draws cost; see that the budget covers them all, or set one that does."""
    epsilon, count = settings.epsilon, settings.count
    dialogue.notice(
        "cost", f"{count} draws at ε = {epsilon} each cost ε = {count * epsilon} together."
    )
    dialogue.notice("cost", SELECTION)
    if known is None:
        book.set_budget(lineage, adjacency, count * epsilon, version_of(source, book))
    else:
        losses = allocation.over(adjacency).split(epsilon, allocation.assets)
        known.check_covers(epsilon, losses, count)


def _default_bounds(bounds: Bounds) -> str:
    shown = ", ".join(
        f"{name} {bounds[name].lower:g}:{bounds[name].upper:g}" for name in PARAMETERS
    )
    return (
        f"public bounds are the defaults, {shown}; values beyond them are clipped, and the release "
        "is charged all the same. Set --bounds from public knowledge."
    )


def warnings(
    epsilon: Fraction, clipped: Mapping[str, int], facts: GridFacts, allocation: Allocation
) -> list[str]:
    """Say what an owner should not overlook: an ε that hides little, bounds that hold the
    values.
    """
    found = []
    if epsilon > 10:
        found.append(
            f"ε = {epsilon} hides next to nothing: odds between neighbours may change by e^ε."
        )
    for name, count in clipped.items():
        if count > (0 if allocation.draws[name] == "sum" else facts.sizes[name] / 4):
            what = f"The noisy sum of {name} lies on its public bounds"
            if allocation.draws[name] == "items":
                what = (
                    f"{count} of {facts.sizes[name]} entries of {name} lie on their public bounds"
                )
            found.append(
                f"{what}: if these do not fit the grid, the model is poor. Choose --bounds "
                f"{name}=… from public knowledge."
            )
    return found
