"""A release, from settings to signed bundles that the ledger has noted: what `gridveil release`
and Python call.

Every guard is here or below: whoever calls it meets the same ones, in the same order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gridveil.foundation import crash_points
from gridveil.foundation.archive import SUMS, check_free
from gridveil.foundation.arguments import of_type, takes
from gridveil.foundation.errors import (
    NOTHING_SPENT,
    GridveilError,
    Interrupted,
    NoLedger,
    OutputExists,
)
from gridveil.foundation.interrupts import Ended, held, signal_of
from gridveil.foundation.progress import RELEASE, staged
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import GridFacts, IntArray, TableFacts
from gridveil.grid.parameters import DETAILED, Bounds
from gridveil.grid.tables import PublicTable
from gridveil.inference.fit import check_records
from gridveil.inference.fit.detailed import DetailedFitSettings
from gridveil.inference.records import Measured, read_all
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.ledger import Account, Ledger, Receipt
from gridveil.privacy.ledger.accounts import check_family, counted
from gridveil.privacy.mechanisms import Sampler
from gridveil.publication.bundle import Report, write
from gridveil.publication.certificate import SELECTION
from gridveil.publication.export import check_formats
from gridveil.publication.ports import equal_ports, named_ports, zone_ports
from gridveil.publication.release import Release, detailed_names, neutral_names
from gridveil.publication.signing import open_signer
from gridveil.publication.unpack import read_files
from gridveil.vault.perturb import PlannedDraw, version_of
from gridveil.vault.sampler import SecureSampler
from gridveil.vault.source import SourceGrid
from gridveil.workflow.bounds import Chosen, choose_bounds, refuse_missing
from gridveil.workflow.detailed import (
    allocate,
    check_detailed_records,
    check_public_end,
    check_writable,
    detailed_algorithm,
    fit_controls,
)
from gridveil.workflow.leakage import GivenAway, given_away
from gridveil.workflow.opening import open_named, open_surrogate
from gridveil.workflow.publish import (
    FitRecords,
    algorithm_1,
    check_allocation,
    check_mergeable,
    share_out,
)
from gridveil.workflow.settings import ReleaseSettings

if TYPE_CHECKING:
    from gridveil.privacy.ledger import Entry, Ledger

# What a notice is about: the cost of several draws, what a record gives away, the kind of model, a
# folder that is made.
About = Literal["cost", "leakage", "model", "place"]


class Dialogue:
    """What a release says and asks on its way; this one says nothing, and goes on."""

    def notice(self, about: About, words: str) -> None:
        """Say something before anything is charged."""

    def goes_on(self) -> bool:
        """Whether to go on, after it was said what the trajectories give away."""
        return True

    def accepts(self, chosen: Chosen, facts: TableFacts) -> bool:
        """Whether to go on with bounds that were derived, and α with them, once they are shown."""
        del chosen, facts
        return False

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
    warnings : what an owner should not overlook.
    """

    releases: tuple[Release, ...]
    reports: tuple[Report, ...]
    facts: TableFacts
    measured: tuple[Measured, ...]
    allocation: Allocation
    ports: Mapping[str, tuple[str, ...]]
    leakage: GivenAway | None
    ledger: str
    lineage: str
    signed_by: str | None
    warnings: tuple[str, ...]

    @property
    def receipt(self) -> Receipt:
        """What the ledger gave for the last draw: spent and budget are the lineage's."""
        receipt = self.releases[-1].receipt
        assert receipt is not None, "it was charged"
        return receipt


@takes(
    outcome=NOTHING_SPENT,
    settings=of_type(
        ReleaseSettings, "ReleaseSettings, such as ReleaseSettings.of(grid='grid.m', epsilon=1)"
    ),
    dialogue=of_type(Dialogue, "a Dialogue"),
)
def release_grid(settings: ReleaseSettings, dialogue: Dialogue | None = None) -> Released:
    """Release a grid: read, check, show what its records give away, charge, draw, write, sign and
    note the bundles in the ledger.

    Privacy
    -------
    All that can be refused is refused before the charge; the charge is durable before the draw.
    """
    dialogue = dialogue or Dialogue()
    prepared = prepare(settings, dialogue)
    plan, book, lineage = prepared.plan, prepared.book, prepared.lineage
    assert book is not None, "made where there was none"
    facts, places = plan.source.facts, settings.places
    signer = open_signer(dialogue.passphrase)
    if settings.count > 1:
        _set_aside(plan, settings.count, book, lineage, prepared.known, dialogue)
    made: list[tuple[Release, Report]] = []
    with outcome_told(book, lineage, places, settings.epsilon, dialogue.outcome):
        for place in places:
            with staged(RELEASE):
                release = prepared.make()
                made.append((release, write(release, place, signer, settings.formats)))
    releases, reports = zip(*made, strict=True)
    return Released(
        releases,
        reports,
        facts,
        prepared.measured,
        plan.allocation,
        prepared.ports,
        prepared.leaked,
        book.location,
        lineage,
        signer.key_id if signer else None,
        tuple(warnings(settings.epsilon, releases[-1].clipped, facts, plan.allocation)),
    )


@dataclass(frozen=True, eq=False)
class Prepared:
    """A release whose every check has passed.

    chosen : its public bounds, and where they come from.
    plan : of each draw.
    make : charges, draws and makes one release.
    book : the ledger; None: there is none, and none was to be made.
    known : the lineage's account before it.
    """

    chosen: Chosen
    plan: PlannedDraw[Any]
    make: Callable[[], Release]
    book: Ledger | None
    lineage: str
    known: Account | None
    measured: tuple[Measured, ...] = ()
    ports: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    leaked: GivenAway | None = None


def prepare(
    settings: ReleaseSettings,
    dialogue: Dialogue,
    *,
    dry: bool = False,
    sampler: Sampler | None = None,
) -> Prepared:
    """Read and check a release, choose its bounds, and show what its records give away; nothing is
    charged.

    dry : whether nothing is to be written either: no ledger is made where there is none, and a
    place that is taken is only said.
    sampler : of the noise; one with a seed makes a demo. None: the secure one.
    """
    dialogue.outcome(NOTHING_SPENT)
    for place in settings.places:
        try:
            check_free(place)
        except OutputExists:
            if not dry:
                raise
            words = f"{place} exists already: a release there would be refused."
            dialogue.notice("place", f"{words} Name another place with --out, or move it away.")
    for folder in dict.fromkeys(place.parent for place in settings.places):
        if not dry and not folder.exists():
            dialogue.notice("place", f"{folder} is not there yet, and is made for the bundle.")
    with staged(RELEASE):
        source = open_named(settings)
    facts = source.facts
    detailed = facts.family == DETAILED
    if detailed:
        settings.check_detailed()
    elif words := swing_words(settings, facts):
        dialogue.notice("model", words)
    ports = detailed_names(facts) if isinstance(facts, DetailedFacts) else neutral_names(facts)
    check_formats(settings.formats, len(facts.machines), len(ports), detailed=detailed)
    chosen = choose_bounds(
        settings.bounds,
        facts,
        derive_others=settings.derive,
        rule=settings.adjacency,
        topology=settings.drawn == "topology",
    )
    if chosen.missing and not dialogue.accepts(chosen, facts):
        raise refuse_missing(facts.name, chosen.missing)
    settings = replace(settings, bounds=chosen.bounds)
    make = _prepared_detailed if detailed else _prepared_swing
    return make(settings, source, chosen, dialogue, dry, sampler or SecureSampler())


def _opened(
    settings: ReleaseSettings, facts: TableFacts, dry: bool
) -> tuple[Ledger | None, str, Account | None]:
    """The ledger, the lineage to charge, and its account, which counts this family or none yet."""
    lineage = settings.lineage or Path(facts.name).stem
    try:
        book = Ledger(settings.ledger_place, witness=settings.witness, create=not dry)
    except NoLedger:
        return None, lineage, None
    crash_points.step("opened")
    known = book.account(lineage)
    check_family(known, facts.family)
    return book, lineage, known


def _prepared_swing(
    settings: ReleaseSettings,
    source: SourceGrid,
    chosen: Chosen,
    dialogue: Dialogue,
    dry: bool,
    sampler: Sampler,
) -> Prepared:
    """Check a release of a swing model, and show what its records give away."""
    facts, fit = source.facts, settings.preset.settings
    measured = read_all(settings.trajectory, facts, fit.dt_s, settings.bounds)
    observed = [record.observation for record in measured]
    records = FitRecords(observed, sampler)
    check_records(observed, facts, fit, settings.bounds)
    book, lineage, known = _opened(settings, facts, dry)
    adjacency = settings.neighbours(known, derived=chosen.alpha)
    leaked = _shown_leakage(measured, facts, settings.bounds, adjacency, fit.dt_s, dialogue)
    with staged(RELEASE):
        allocation = settings.allocation or _shared_out(settings, facts, adjacency, book)
    check_allocation(facts, settings.bounds, allocation, fits=bool(observed))
    plan = PlannedDraw(source, settings.epsilon, adjacency, settings.bounds, allocation)
    ports = _ports(settings.merge_loads, facts, allocation)

    def make() -> Release:
        return algorithm_1(
            plan,
            records,
            ledger=book,
            settings=fit,
            start=settings.preset.start,
            lineage=lineage,
            ports=ports,
        )

    named = {} if ports is None else named_ports(facts, ports)
    return Prepared(chosen, plan, make, book, lineage, known, tuple(measured), named, leaked)


def _prepared_detailed(
    settings: ReleaseSettings,
    source: SourceGrid[DetailedFacts],
    chosen: Chosen,
    dialogue: Dialogue,
    dry: bool,
    sampler: Sampler,
) -> Prepared:
    """Check a release of a detailed model, and ask whether its records may be used."""
    facts, fit = source.facts, DetailedFitSettings(exponents="zip" not in settings.reading)
    measured = read_all(settings.trajectory, facts, fit.dt_s)
    records = FitRecords([record.observation for record in measured], sampler)
    check_detailed_records(records.observed, facts)
    book, lineage, known = _opened(settings, facts, dry)
    adjacency = settings.neighbours(known, facts.family)
    bounds = chosen.bounds
    allocation = allocate(facts, adjacency, settings.treatments, settings.item_shares)
    plan = PlannedDraw(source, settings.epsilon, adjacency, bounds, allocation)
    check_writable(settings.formats, check_public_end(facts.public))
    leaked = _shown_leakage(measured, facts, bounds, adjacency, fit.dt_s, dialogue)

    with staged(RELEASE):
        controls = fit_controls(facts, records, fit)

    def make() -> Release:
        return detailed_algorithm(
            plan, records, ledger=book, lineage=lineage, form=settings.form, controls=controls
        )

    return Prepared(chosen, plan, make, book, lineage, known, tuple(measured), leaked=leaked)


def _shown_leakage(
    measured: Sequence[Measured],
    facts: GridFacts | DetailedFacts,
    bounds: Bounds,
    adjacency: Adjacency,
    dt_s: float,
    dialogue: Dialogue,
) -> GivenAway | None:
    """Show what the trajectories give away by themselves, and ask whether to go on."""
    if not measured:
        return None
    observed = [record.observation for record in measured]
    leaked = given_away(observed, facts, bounds, adjacency, dt_s=dt_s)
    if isinstance(leaked, str):
        dialogue.notice("leakage", leaked)
        return None
    _ask(dialogue, leaked.leakage.verdict())
    return leaked


def _ask(dialogue: Dialogue, words: str) -> None:
    """Say what records give away, and ask whether to go on."""
    dialogue.notice("leakage", words)
    if not dialogue.goes_on():
        raise GridveilError(
            "The release was called off.",
            outcome=NOTHING_SPENT,
            remedy="A coarser record may tell less; try one: gridveil leakage GRID --trajectory "
            "RECORD --rate RATE",
        )


def _shared_out(
    settings: ReleaseSettings, facts: GridFacts, adjacency: Adjacency, book: Ledger | None
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
    plan: PlannedDraw,
    count: int,
    book: Ledger,
    lineage: str,
    known: Account | None,
    dialogue: Dialogue,
) -> None:
    """Say what several draws cost; see that the budget covers them all, or set one that does."""
    epsilon, allocation = plan.epsilon, plan.allocation
    dialogue.notice(
        "cost", f"{count} draws at ε = {epsilon} each cost ε = {count * epsilon} together."
    )
    dialogue.notice("cost", SELECTION)
    if known is None:
        book.set_budget(lineage, plan.adjacency, count * epsilon, version_of(plan.source, book))
    else:
        losses = allocation.over(plan.adjacency).split(epsilon, allocation.assets)
        known.check_covers(epsilon, counted(losses, allocation.draws, plan.adjacency), count)


def swing_words(settings: ReleaseSettings, facts: TableFacts) -> str:
    """Say that an option made a swing model of a grid with controls; nothing where none did."""
    left_out = [note for note in getattr(facts, "notes", ()) if "left out" in note]
    said = settings.swing_only
    if settings.model != "auto" or not said or not left_out:
        return ""
    option = f"--{said[0].replace('_', '-')}"
    return (
        f"{option} makes this a swing model: {'; '.join(left_out)}. An account keeps its kind of "
        f"model for ever. Leave {option} out for a detailed one, or say --model swing."
    )


def warnings(
    epsilon: Fraction, clipped: Mapping[str, int], facts: TableFacts, allocation: Allocation
) -> list[str]:
    """Say what an owner should not overlook: an ε that hides little, bounds that hold the
    values.
    """
    words = []
    if epsilon > 10:
        words.append(
            f"ε = {epsilon} hides next to nothing: odds between neighbours may change by e^ε."
        )
    for name, count in clipped.items():
        takes = allocation.of(name).takes
        if count > (facts.sizes[name] / 4 if takes == "items" else 0):
            what = f"The noisy {takes} of {name} lies on its public bounds"
            if takes == "items":
                what = (
                    f"{count} of {facts.sizes[name]} entries of {name} lie on their public bounds"
                )
            words.append(
                f"{what}: if these do not fit the grid, the model is poor. Choose --bounds "
                f"{name}=… from public knowledge."
            )
    return words


@contextmanager
def outcome_told(
    book: Ledger,
    lineage: str,
    places: Sequence[Path],
    epsilon: Fraction,
    note: Callable[..., None],
) -> Iterator[None]:
    """Say what stands at the end. A bundle that was moved to its place but not noted in the ledger
    is noted first.

    epsilon : of each bundle.
    note : takes what stands, as `Dialogue.outcome` does.
    """
    before = len(book.charged)
    note(
        f"What was charged to the lineage {lineage}, gridveil ledger show says."
    )  # until more is known
    try:
        yield
        note(_words(lineage, len(places) * epsilon, dict.fromkeys(places, True)), done=True)
    except BaseException as error:
        with held():  # a second Ctrl-C must not break off the answer to the first
            charged, words, done = _outcome(book, lineage, before, places)
            note(words, done=done)
        if done or not isinstance(error, GridveilError | Ended | KeyboardInterrupt):
            raise
        if isinstance(error, GridveilError):
            raise error.also(words) if charged else error from None
        remedy = (
            "See gridveil ledger show; another release may need gridveil ledger budget."
            if charged
            else ""
        )
        raise Interrupted(
            "Interrupted", outcome=words, remedy=remedy, signal=signal_of(error)
        ) from None


def _outcome(
    book: Ledger, lineage: str, before: int, places: Sequence[Path]
) -> tuple[bool, str, bool]:
    """Whether anything was charged, what became of it in a sentence, and whether all places hold
    bundles that are noted.
    """
    try:
        mine = {
            entry.number: entry
            for entry in book.entries(lineage)
            if entry.number in book.charged[before:]
        }
    except GridveilError as error:
        return (
            True,
            f"What was charged to the lineage {lineage} cannot be read: {error.problem}",
            False,
        )
    if not mine:
        return False, NOTHING_SPENT, False
    noted = {place: _note(book, place, mine) for place in places}
    charged = sum((entry.epsilon for entry in mine.values()), Fraction(0))
    return True, _words(lineage, charged, noted), all(noted.values())


def _words(lineage: str, charged: Fraction, noted: Mapping[Path, bool | None]) -> str:
    """What was charged, which bundles stand, and which of them the ledger could not note."""
    standing, missing, unnoted = (
        [str(place) for place, known in noted.items() if known in wanted]
        for wanted in ((True, False), (None,), (False,))
    )
    words = f"ε = {charged} was charged to the lineage {lineage} and stays spent; "
    if not standing:
        return f"{words}there is no bundle."
    stands = "these bundles stand" if len(standing) > 1 else "the bundle stands"
    words += f"{stands}: {', '.join(standing)}"
    if missing:
        words += f"; there is no {', '.join(missing)}"
    if unnoted:
        words += f"; the ledger could not note that {', '.join(unnoted)} was published"
        words += ", and lists its draw without a bundle"
    return f"{words}."


def _note(book: Ledger, place: Path, mine: dict[int, Entry]) -> bool | None:
    """Note the bundle at a place if the ledger has not: True if it is noted then, False if not,
    None: no bundle of this run.
    """
    try:
        files = read_files(place).files
        entry = mine[json.loads(files["certificate.json"])["ledger_entry"]]
    except (GridveilError, KeyError, ValueError, TypeError):
        return None
    if entry.state == "published":
        return True
    try:
        book.mark_published(entry.number, hashlib.sha256(files[SUMS]).hexdigest())
    except GridveilError:
        return False
    return True
