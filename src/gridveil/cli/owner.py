"""The owner's commands: attack and signoff. What they show is confidential."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.options import GridReading, PublishLoads, reads_grid
from gridveil.cli.output import print_json, print_notice, print_table, print_text, progress_bar
from gridveil.foundation.shown import shown

if TYPE_CHECKING:
    from gridveil.inference.fit import Observation
    from gridveil.privacy.ledger import Ledger
    from gridveil.publication.release import Release
    from gridveil.workflow.settings import GridSettings

Source = Annotated[
    str, options.option("the private grid it was made of: a file, or a name such as ieee30")
]


@reads_grid
def attack(
    bundle: options.Bundle,
    source: Source,
    trajectory: options.Trajectories = None,
    seed: Annotated[
        int, typer.Option(help="seed of the demo draws behind the figures over epsilon", min=0)
    ] = 1,
    *,
    reading: GridReading,
    publish_loads: PublishLoads = None,
    json: options.Json = False,
) -> None:
    """Try attacks on your own release, beside the plain Kron reduction of the grid (of a swing
    bundle) and a blind guess. For the owner; gridveil signoff writes it down.

    With --trajectory, also what public records give by themselves and beside a release (gridveil
    leakage says that at public values). Figures over epsilon come from releases without a fit. It
    spends no epsilon, and what it shows is covered by none: do not publish it, and do not choose
    among releases by it.
    """
    from gridveil.assurance.owner_report.attacks import attack_release, check_attackable
    from gridveil.assurance.owner_report.signoff import CONFIDENTIAL
    from gridveil.publication.bundle import load_named

    release, digest = load_named(bundle)
    grid = _opened(_settings(reading, source, publish_loads, release))
    check_attackable(grid, release, with_records=bool(trajectory))
    observed = _observed(trajectory, grid.facts, release)
    if not json:
        print_notice(CONFIDENTIAL)
    with progress_bar(quiet=json):
        report = attack_release(grid, release, observed, seed=seed)
    guarantee = release.guarantee
    if json:
        about = {
            "bundle": shown(bundle.absolute().name),
            "digest": digest,
            "epsilon": str(guarantee.epsilon),
            "adjacency": guarantee.rule,
            "seed": seed,
        }
        print_json(report.document | about)
        return
    for note in report.notes:
        print_notice(note)
    for title, columns, rows in report.tables:
        print_table(title, columns, rows)
    print_text(CONFIDENTIAL)


@reads_grid
def signoff(
    bundle: options.Bundle,
    source: Source,
    out: Annotated[Path, typer.Option(help="the page. CONFIDENTIAL; never inside a bundle")] = Path(
        "signoff.html"
    ),
    trajectory: options.Trajectories = None,
    *,
    reading: GridReading,
    publish_loads: PublishLoads = None,
    ledger: options.LedgerPlace = None,
    witness: options.WitnessPlace = None,
    json: options.Json = False,
) -> None:
    """Write a confidential page for the two who sign a release off: budget, guarantee, leakage,
    attacks, fidelity, and the files that leave with their hashes. For the owner.

    --trajectory names the records that the release was fitted to, where the bundle does not carry
    them. With --json, the same figures are printed too. It spends no epsilon; to choose among
    releases, or to veto one, by what saw the grid has no epsilon bound.
    """
    from gridveil.assurance.owner_report import signoff_page
    from gridveil.assurance.owner_report.signoff import CONFIDENTIAL
    from gridveil.publication.bundle import load_named

    signoff_page.check_outside(out)
    release, _ = load_named(bundle)
    grid = _opened(_settings(reading, source, publish_loads, release))
    observed = _observed(trajectory, grid.facts, release)
    if not json:
        print_notice(CONFIDENTIAL)
    with progress_bar(quiet=json):
        book = _ledger(ledger, witness)
        report = signoff_page.signoff(bundle, grid, book, observed)
        report.write(out)
    document = report.to_json()
    if json:
        print_json(document | {"report": str(out)})
        return
    print_text(f"Verdict  {document['verdict']['words']}", f"Report   {out}", CONFIDENTIAL)


def _ledger(place: str | None, witness: str | None) -> Ledger | None:
    """The ledger that was named, which must be there, or the usual one, if there is one."""
    from gridveil.foundation.errors import NoLedger
    from gridveil.privacy.ledger import Ledger, default_location

    try:
        return Ledger(place or default_location(), witness=witness, create=False)
    except NoLedger:
        if place is not None:
            raise
        return None


def _settings(
    reading: GridReading, source: str, publish_loads: bool | None, release: Release
) -> GridSettings:
    """How to read the grid of a release."""
    return reading.of(source, publish_loads=publish_loads, model=release.guarantee.family)


def _opened(settings: GridSettings) -> Any:
    from gridveil.workflow.opening import open_named

    return open_named(settings)


def _observed(trajectories: list[Path] | None, facts: Any, release: Release) -> list[Observation]:
    """Read the public records that were named, on the grid's buses."""
    if not trajectories:
        return []
    from gridveil.inference.records import read_all
    from gridveil.workflow.leakage import clock_of
    from gridveil.workflow.settings import declarations

    records = read_all(declarations(trajectories), facts, clock_of(facts), bounds=release.bounds)
    return [record.observation for record in records]
