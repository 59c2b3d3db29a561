"""The command that spends: release."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.foreseen import print_bounds, show_foreseen
from gridveil.cli.options import GridReading, PublishLoads, reads_grid
from gridveil.cli.output import (
    Bar,
    check_large,
    guarantee_json,
    note_outcome,
    print_command,
    print_guarantee,
    print_json,
    print_notice,
    print_table,
    print_text,
    progress_bar,
    verdict_in_words,
)
from gridveil.cli.replay import check_plot, draw_records
from gridveil.cli.terms import explained
from gridveil.cli.trajectories import (
    event_json,
    events_in_words,
    print_trajectory,
    trajectory_json,
)
from gridveil.foundation.errors import NOTHING_SPENT, GridveilError

if TYPE_CHECKING:
    from gridveil.grid.facts import TableFacts
    from gridveil.inference.fit.misfit import PlaceMisfit
    from gridveil.inference.records import Measured
    from gridveil.publication.release import FitSummary
    from gridveil.workflow.bounds import Chosen
    from gridveil.workflow.release import Dialogue, Released


PAIRS = ("alpha", "bounds", "split", "treatments")


@reads_grid
def release(
    grid: options.OptionalGrid = None,
    epsilon: Annotated[str | None, options.option("privacy loss, exact: 1/2 or 0.5")] = None,
    model: options.ModelName = None,
    adjacency: options.AdjacencyName = None,
    alpha: options.Alpha = None,
    mechanism: Annotated[
        str | None,
        options.option(
            "aggregates (sums of m and of d; default without a trajectory), items (every "
            "entry; default with one) or topology (sums, and nothing of the network)"
        ),
    ] = None,
    split: Annotated[
        list[str] | None,
        options.option(
            "shares of epsilon, such as k=1,m=1/4,d=3/4; default: chosen on a surrogate. Of a "
            "detailed model machine=2/5: what items have of an asset's"
        ),
    ] = None,
    treatments: Annotated[
        list[str] | None,
        options.option(
            "of a detailed model, what is done with its parameters, such as x=protect,M=mean: "
            "protect, mean, typical, or publish (true values go out); inspect lists the usual ones"
        ),
    ] = None,
    share_by: Annotated[
        str | None,
        options.option(
            "how machines share a sum: equal (default), or rating (rated MVA, then public)"
        ),
    ] = None,
    surrogate: Annotated[
        str | None,
        options.option(
            "a public case to choose the shares on, named in the certificate; default: this "
            "topology at the middle of the bounds"
        ),
    ] = None,
    bounds: options.ReleaseBounds = None,
    profile: Annotated[str | None, options.option("default or paper")] = None,
    out: Annotated[
        Path | None,
        options.option("bundle to write: a folder, or a file that ends in .zip; default release"),
    ] = None,
    lineage: Annotated[
        str | None, options.option("account of the ledger to charge; default: the grid's name")
    ] = None,
    ledger: options.LedgerPlace = None,
    witness: options.WitnessPlace = None,
    count: Annotated[
        int | None,
        options.option("draw this many releases; costs as many times epsilon; default 1"),
    ] = None,
    bounds_origin: Annotated[
        str | None, options.option("where the bounds come from: a public source, in words")
    ] = None,
    formats: Annotated[
        str | None,
        options.option("other tools' formats to put into the bundle, such as andes,psse,mat"),
    ] = None,
    merge_loads: Annotated[
        str | None,
        options.option(
            "show loaded buses as fewer ports: equal (those behind one cut vertex), or a "
            "number of zones"
        ),
    ] = None,
    form: Annotated[
        str | None,
        options.option(
            "of a detailed model: reduced (default; units on the reduced network), or network (the "
            "whole released case, whose topology shows)"
        ),
    ] = None,
    trajectory: options.Trajectories = None,
    config: Annotated[
        Path | None, options.option("a release.toml that holds any of these options")
    ] = None,
    publish_loads: PublishLoads = None,
    plot: Annotated[
        Path | None,
        options.option("draw the records there, with the model before and after its fit"),
    ] = None,
    *,
    reading: GridReading,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask before going on")] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="show what would be charged, drawn and published, and do none of it"
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Perturb a grid and reduce it to its machines: a real release, charged, certified and signed.

    With a public trajectory the model is fitted to it as well (step 3), and the guarantee is
    conditional on that trajectory.
    """
    given = {
        name: value
        for name, value in locals().items()
        if name not in ("config", "json", "yes", "dry_run", "reading", "plot")
    }
    from gridveil.workflow.release import release_grid
    from gridveil.workflow.settings import ReleaseSettings

    given["trajectory"] = trajectory or None
    given |= {name: options.joined(given[name]) for name in PAIRS}
    settings = ReleaseSettings.from_file(config, given | reading)
    if dry_run:
        from gridveil.workflow.foresee import foresee

        with progress_bar(quiet=json) as bar:
            foreseen = foresee(settings, dialogue(bar, quiet=json, yes=True))
        show_foreseen(foreseen, json=json)
        return
    check_plot(plot, settings)
    check_large(settings.epsilon, yes=yes)
    with progress_bar(quiet=json) as bar:
        done = release_grid(settings, dialogue(bar, quiet=json, yes=yes))
    draw_records(done.releases[-1], plot)
    if json:
        print_json(_json(done))
    else:
        print_released(done)


def dialogue(bar: Bar, *, quiet: bool, yes: bool) -> Dialogue:
    """What a release says and asks at a terminal; the bar makes room for it."""
    from gridveil.cli.keys import ask_passphrase
    from gridveil.workflow.release import About, Dialogue

    class AtTerminal(Dialogue):
        def notice(self, about: About, words: str) -> None:
            if about != "leakage" or not quiet:
                bar.stop()
                print_notice(words)

        def goes_on(self) -> bool:
            if quiet or yes or not _at_a_terminal():
                return True
            bar.stop()
            return confirmed("Go on?", default=True)

        def accepts(self, chosen: Chosen, facts: TableFacts) -> bool:
            if quiet or yes or not _at_a_terminal():
                return False  # where nobody is asked, --bounds derived says so
            bar.stop()
            print_bounds(chosen, facts, err=True)
            print_notice(
                "these bounds are public, and so are the facts of the file that they follow from; "
                "α is fixed by the lineage's first budget, for ever."
            )
            return confirmed("Release with these bounds?", default=False)

        def passphrase(self) -> str:
            bar.stop()
            return ask_passphrase("Passphrase of the signing key: ")

        def outcome(self, words: str, *, done: bool = False) -> None:
            note_outcome(words, done=done)

    return AtTerminal()


def confirmed(question: str, *, default: bool) -> bool:
    """Ask at the terminal."""
    try:
        return typer.confirm(question, default=default, err=True)
    except typer.Abort:  # the question was left without an answer: as good as no
        raise GridveilError(
            "The release was called off.",
            outcome=NOTHING_SPENT,
            remedy="Answer y or n, or give --yes to go on without a question.",
        ) from None


def _at_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _json(done: Released) -> dict[str, Any]:
    last, report = done.releases[-1], done.reports[-1]
    spent, left, _ = _spent(done)
    return {
        "demo": False,
        "bundles": [report.path for report in done.reports],
        "bundle": report.path,
        "digest": report.digest,
        "signed_by": done.signed_by,
        "guarantee": guarantee_json(last.guarantee),
        "allocation": done.allocation.in_words(),
        "ports": dict(done.ports),
        "clipped": last.clipped,
        "fits": [_fit_json(release.fitted) for release in done.releases if release.fitted],
        "estimated_events": [event_json(event, done.measured, done.facts) for event in last.events],
        "trajectories": [trajectory_json(record) for record in done.measured],
        "leakage": done.leakage.to_json() if done.leakage else None,
        "ledger": done.ledger,
        "lineage": done.lineage,
        "epsilon_spent": spent,
        "epsilon_left": left,
        "warnings": list(done.warnings),
    }


def print_released(done: Released) -> None:
    """Print what a release left."""
    for warning in done.warnings:
        print_notice(warning)
    for record in done.measured:
        print_trajectory(record)
    print_guarantee(done.releases[-1].guarantee, done.releases[-1].clipped)
    print_text(f"Drawn    {done.allocation.in_words()}")
    for port, buses in done.ports.items():
        print_text(f"Port     {port}: {', '.join(buses)}")
    for release in done.releases:
        if release.fitted:
            print_text(*_fit_in_words(release.fitted))
            if release.fitted.misfit:
                _print_misfit(release.fitted.misfit, done.measured)
        for line in events_in_words(release.events, done.measured, done.facts):
            print_text(line)
    for report in done.reports:
        print_text(f"Bundle   {report.path}")
    spent, left, budget = _spent(done)
    print_text(
        f"Ledger   {done.ledger}: lineage {done.lineage}, ε = {spent:.6g} spent, {left:.6g} left "
        f"of {budget}",
        f"         {explained('lineage')}",
        f"Signed   by key {done.signed_by}"
        if done.signed_by
        else "Signed   by nobody: gridveil keys new makes a key",
    )
    print_command("Next", "gridveil", "verify", done.reports[-1].path)


def _spent(done: Released) -> tuple[float, float, Any]:
    """ε spent on the lineage, ε left, each rounded to the safe side, and its budget."""
    from gridveil.privacy.epsilon import float_at_least, float_at_most

    receipt = done.receipt
    left = float_at_most(receipt.budget - receipt.spent)
    # Rounding down to floats may leave a little over.
    return float_at_least(receipt.spent), left if left > 1e-12 else 0.0, receipt.budget


def _fit_json(fitted: FitSummary) -> dict[str, Any]:
    return {
        "method": fitted.method,
        "mismatch_before_pu2_s": fitted.mismatch_before,
        "mismatch_after_pu2_s": fitted.mismatch_after,
        "iterations": fitted.iterations,
        "converged": fitted.converged,
        "directions_by_records": fitted.by_records,
        "directions_by_release": fitted.by_release,
        "rms_mhz": [asdict(place) for place in fitted.misfit],
        "sigma_mhz": fitted.sigma_mhz,
        "verdict": asdict(fitted.verdict) if fitted.verdict else None,
    }


def _print_misfit(misfit: Sequence[PlaceMisfit], measured: Sequence[Measured]) -> None:
    """Print how near a release and its controls are to each record."""
    from gridveil.inference.fit.misfit import COMPARED, compared

    rows = []
    for place, judged, cells in compared(misfit):
        bus = measured[place.record - 1].observation.trajectory.buses[place.place - 1]
        rows.append((str(place.record), bus, judged, *cells))
    title = "RMS of what is left of the records [mHz]; controls know of no release"
    print_table(title, ("record", "bus", "judged by", *COMPARED.values()), rows, texts=3)


def _fit_in_words(fitted: FitSummary) -> list[str]:
    text = (
        f"Fit      {fitted.method}: mismatch J (squared distance to the records) from "
        f"{fitted.mismatch_before:.3e} to "
        f"{fitted.mismatch_after:.3e} p.u.² s in {fitted.iterations} "
        f"iterations{'' if fitted.converged else ', where it stopped before converging'}"
    )
    lines = [text]
    if fitted.by_records is not None:
        lines.append(
            f"         {fitted.by_records} directions of the parameters fixed by records, "
            f"{fitted.by_release} by the release"
        )
    if fitted.sigma_mhz is not None:
        noise = f"sensor noise and model error together: {fitted.sigma_mhz:.2g} mHz"
        lines.append(f"         {noise}")
    return [*lines, *(verdict_in_words(fitted.verdict, "Verdict  ") if fitted.verdict else ())]
