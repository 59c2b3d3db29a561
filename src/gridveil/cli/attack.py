"""The owner's command: attack. What it shows is confidential."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.options import GridReading, PublishLoads, reads_grid
from gridveil.cli.output import print_json, print_notice, print_table, print_text, progress_bar
from gridveil.foundation.errors import OptionError
from gridveil.foundation.progress import counted
from gridveil.foundation.shown import shown

if TYPE_CHECKING:
    from gridveil.assurance.audit import Advantage
    from gridveil.assurance.owner_report.signoff import Table
    from gridveil.grid.facts import GridFacts
    from gridveil.inference.fit import Observation
    from gridveil.publication.release import Release

ADVANTAGE_DRAWS = 20_000
NOT_ATTACKED = "Nothing was attacked and nothing was written."


@reads_grid
def attack(
    bundle: options.Bundle,
    source: Annotated[
        str, options.option("the private grid it was made of: a file, or a name such as ieee30")
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="folder for the report: tables, JSON, figures. CONFIDENTIAL; never inside a bundle"
        ),
    ] = Path("attack-confidential"),
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
    bundle) and a blind guess. For the owner.

    With --trajectory, also what public records give by themselves and beside a release (gridveil
    leakage says that at public values). Figures over epsilon come from releases without a fit. It
    spends no epsilon, and what it shows is covered by none: do not publish it, and do not choose
    among releases by it.
    """
    from gridveil.assurance.owner_report.signoff import CONFIDENTIAL
    from gridveil.foundation.archive import check_free_folder, write_files
    from gridveil.grid.parameters import SWING
    from gridveil.publication.bundle import load_named
    from gridveil.workflow.opening import open_named

    _check_outside_bundles(out)
    check_free_folder(out)
    release, digest = load_named(bundle)
    family = release.guarantee.family
    settings = reading.of(source, publish_loads=publish_loads, model=family)
    grid = open_named(settings)
    g, name = release.guarantee, shown(bundle.absolute().name)
    extra: dict[str, Any] = {
        "bundle": name,
        "digest": digest,
        "epsilon": str(g.epsilon),
        "adjacency": g.rule,
        "seed": seed,
    }
    about = (
        f"Of the bundle {name} (SHA-256 of its checksums {digest}): ε = {g.epsilon}, adjacency "
        f"{g.rule}. Demo draws have the seed {seed}."
    )
    attacked = _attack_swing if family == SWING else _attack_detailed
    report = attacked(grid, release, trajectory, seed=seed, quiet=json, extra=extra, about=about)
    write_files(out, report.files, mode=0o700)  # for its owner's eyes
    if json:
        print_json(report.document | {"report": str(out)})
        return
    for note in report.notes:
        print_notice(note)
    for title, columns, rows in report.tables:
        print_table(title, columns, rows)
    print_text(f"Report   {out}", CONFIDENTIAL)


@dataclass(frozen=True)
class _Report:
    """What an attack on either family comes to: files, and what is shown of them."""

    files: dict[str, bytes]
    document: dict[str, Any]
    notes: list[str]
    tables: list[Table]


def _attack_swing(
    grid: Any,
    release: Release,
    trajectory: list[Path] | None,
    *,
    seed: int,
    quiet: bool,
    extra: dict[str, Any],
    about: str,
) -> _Report:
    from gridveil.assurance.audit.run import values_for_advantage
    from gridveil.assurance.owner_report.assess import assess_attacks, check_matches, steps
    from gridveil.assurance.owner_report.signoff import (
        CONFIDENTIAL,
        attack_files,
        attack_json,
        attack_notes,
        attack_tables,
    )

    check_matches(grid, release)
    observed = _observed(trajectory, grid.facts, release)
    if not quiet:
        print_notice(CONFIDENTIAL)
    draws = values_for_advantage(ADVANTAGE_DRAWS)
    with progress_bar(quiet=quiet), counted("attacking", steps(grid, observed) + 1) as more:
        assessed = assess_attacks(
            grid, release, observed, seed=seed, progress=lambda name: more(at_work=name)
        )
        more(at_work=f"all but one: {draws} values of perturb")
        advantages = _advantages(release)
    extra["all_but_one"] = [
        asdict(row) | {"epsilon": str(row.epsilon), "passed": row.passed} for row in advantages
    ]
    table = _advantage_table(advantages)
    return _Report(
        attack_files(assessed, release, extra, [table], about),
        attack_json(assessed, release) | extra,
        attack_notes(assessed, release),
        [*attack_tables(assessed), table],
    )


def _attack_detailed(
    grid: Any,
    release: Release,
    trajectory: list[Path] | None,
    *,
    seed: int,
    quiet: bool,
    extra: dict[str, Any],
    about: str,
) -> _Report:
    from gridveil.assurance.owner_report.detailed import (
        assess_detailed,
        check_same,
        detailed_steps,
    )
    from gridveil.assurance.owner_report.signoff import CONFIDENTIAL
    from gridveil.assurance.owner_report.signoff_detailed import (
        detailed_files,
        detailed_json,
        detailed_notes,
        detailed_tables,
    )

    if trajectory:
        raise OptionError(
            "Trajectories are attacked beside swing bundles, and this one is detailed.",
            outcome=NOT_ATTACKED,
            remedy="Leave --trajectory out.",
        )
    check_same(grid, release)
    if not quiet:
        print_notice(CONFIDENTIAL)
    with progress_bar(quiet=quiet), counted("attacking", detailed_steps()) as more:
        assessed = assess_detailed(
            grid, release, seed=seed, progress=lambda name: more(at_work=name)
        )
    return _Report(
        detailed_files(assessed, release, extra, about),
        detailed_json(assessed, release) | extra,
        detailed_notes(assessed, release),
        detailed_tables(assessed),
    )


def _observed(
    trajectories: list[Path] | None, facts: GridFacts, release: Release
) -> list[Observation]:
    """Read the records that an attacker is said to have, before any attack."""
    if not trajectories:
        return []
    from gridveil.inference.fit.two_stage import MOST_MACHINES, is_too_large
    from gridveil.inference.records import read_all
    from gridveil.workflow.settings import declarations

    if is_too_large(facts):
        raise OptionError(
            f"Trajectories are not attacked on a grid of {len(facts.machines)} machines.",
            expected=f"at most {MOST_MACHINES}, and fewer where all are joined",
            outcome=NOT_ATTACKED,
            remedy="Leave --trajectory out.",
        )
    records = read_all(declarations(trajectories), facts, bounds=release.bounds)
    return [record.observation for record in records]


def _advantages(release: Release) -> tuple[Advantage, ...]:
    """Play the all-but-one adversary against perturb, on synthetic grids, with the release's rule,
    α and ε.
    """
    from gridveil.assurance.audit import measure_advantage

    return measure_advantage(
        release.guarantee.adjacency, release.guarantee.epsilon, ADVANTAGE_DRAWS
    )


def _advantage_table(
    rows: tuple[Advantage, ...],
) -> tuple[str, tuple[str, ...], list[tuple[str, ...]]]:
    return (
        "all but one: advantage of the best test on perturb's output (synthetic grids, every item "
        "drawn, usual shares of ε)",
        ("what differs by α", "draws", "measured", "99.9 % interval", "exact", "tanh(ε/2)"),
        [
            (
                row.moved,
                str(row.draws),
                f"{row.measured:.3f}",
                f"{row.low:.3f} to {row.high:.3f}",
                f"{row.exact:.3f}",
                f"{row.bound:.3f}",
            )
            for row in rows
        ],
    )


def _check_outside_bundles(out: Path) -> None:
    """Refuse a place inside a bundle: what is confidential would travel with what is public."""
    from gridveil.foundation.archive import SUMS, inside_bundle

    if inside_bundle(out, SUMS):
        raise OptionError(
            f"--out {out} lies inside a bundle, which is public; this report is confidential.",
            outcome=NOT_ATTACKED,
            remedy="Name a place outside it.",
        )
