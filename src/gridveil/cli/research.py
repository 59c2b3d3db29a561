"""Commands for researchers: paper, ensemble."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from gridveil.cli import options
from gridveil.cli.output import note_outcome, print_json, print_table, print_text, progress_bar


def paper(
    runs: Annotated[
        int, typer.Option(help="runs of Algorithm 1 per epsilon; each 100 take a seed of their own")
    ] = 100,
    out: Annotated[
        Path,
        typer.Option(
            help="folder for figures, data and finished runs; called again, it goes on there"
        ),
    ] = Path("paper"),
    only: Annotated[
        list[str] | None, options.option("draw only this figure (fig1 to fig9); may be repeated")
    ] = None,
    compute: options.ComputeName = "cpu",
    engine: options.Engine = "local",
    scheduler: options.Scheduler = None,
    workers: options.Workers = None,
    json: options.Json = False,
) -> None:
    """Reproduce the paper on IEEE-30: every figure, table and claim.

    A demo: seeds and truth are known.
    """
    from gridveil.dynamics.engine.compute import Where
    from gridveil.foundation.archive import check_outside_bundles
    from gridveil.foundation.executors import crew_of
    from gridveil.paper import reproduce
    from gridveil.workflow.settings import check_one_of

    for place in (out / "any", *out.rglob("*")):  # what lies there already may be a link
        check_outside_bundles(place)
    check_one_of("compute", compute, get_args(Where))
    where: Any = compute
    crew = crew_of(engine, scheduler, workers, short=True, compute=compute)
    with progress_bar(quiet=json):
        reproduced = reproduce(runs, out, only or (), compute=where, crew=crew)
    if json:
        print_json({"demo": True, **asdict(reproduced)})
        return
    print_table(
        f"DEMO: L on the five named transients, {runs} runs per ε [p.u.² s], mean with "
        "90 % interval",
        ("ε", "L_lap", "median", "L_pp", "median", "20 s means [p.u.²]", "wins", "damping rmse"),
        [
            (
                level.epsilon,
                f"{level.laplace.mean:.2e} [{level.laplace.mean_low:.2e}, "
                f"{level.laplace.mean_high:.2e}]",
                f"{level.laplace.median:.2e}",
                f"{level.fitted.mean:.2e} [{level.fitted.mean_low:.2e}, "
                f"{level.fitted.mean_high:.2e}]",
                f"{level.fitted.median:.2e}",
                f"{level.laplace.time_mean:.1e} / {level.fitted.time_mean:.1e}",
                f"{100 * level.wins:.0f} %",
                f"{level.rmse_before['d']:.2f} → {level.rmse_after['d']:.2f}",
            )
            for level in reproduced.levels
        ],
    )
    for claim in reproduced.claims:
        print_text(f"{claim.verdict:>13}  {claim.words}: {claim.figure}")
    print_text("", f"Figures, data and the page reproduction.md: {out}")


def ensemble(
    spec: Annotated[Path, options.argument("a TOML of what to combine: docs/ensemble.md has one")],
    out: Annotated[
        Path,
        typer.Option(help="folder for shards, table, summary and figure; called again, it goes on"),
    ] = Path("ensemble"),
    shard: Annotated[
        str | None,
        options.option(
            "make part i of n alone, such as 0/4, for an array of jobs; then merge: "
            "the same command without it"
        ),
    ] = None,
    engine: options.Engine = "local",
    scheduler: options.Scheduler = None,
    workers: options.Workers = None,
    json: options.Json = False,
) -> None:
    """Sweep epsilon, adjacency, mechanism, case, fit and seed over public cases.

    A demo for ever: seeds and truth are known. A release is never drawn here.
    """
    from gridveil.foundation.archive import check_outside_bundles
    from gridveil.foundation.executors import crew_of
    from gridveil.workflow.ensemble import Shards, Spec, run_ensemble
    from gridveil.workflow.ensemble.summary import failed_rows, table_of
    from gridveil.workflow.ensemble.table import DEMO

    part = Shards.parse(shard) if shard else None
    crew = crew_of(engine, scheduler, workers)
    for place in (out / "any", out / "shards" / "any", *out.glob("*")):  # they may be links
        check_outside_bundles(place)
    note_outcome(f"Finished shards are kept in {out}: run it again to go on.")
    with progress_bar(quiet=json):
        found = run_ensemble(Spec.from_file(spec), out, crew, place=spec.name, shard=part)
    if json:
        print_json({"demo": True, "words": DEMO, **asdict(found)})
    else:
        print_text(f"DEMO. {DEMO}", "")
        if found.levels:
            print_table("Medians over draws of the largest error", *table_of(found.levels), texts=5)
        if found.failed:
            heads = ("cell", "seeds", "tries", "why")
            print_table("Failed", heads, failed_rows(found.failed), texts=4)
        for words in found.left_out:
            print_text(f"Left out: {words}.")
        there = found.tasks - found.made - len(found.failed)
        print_text(f"{found.made} of {found.tasks} tasks made, {there} were there already.")
        if found.files:
            print_text(f"Table, summary and figure: {out}")
    if found.failed:
        raise typer.Exit(1)
