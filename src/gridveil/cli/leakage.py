"""The command that shows what a public trajectory gives away by itself: leakage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridveil.cli import options
from gridveil.cli.leakage_output import print_joint, print_leakage
from gridveil.cli.output import print_json, print_text, progress_bar
from gridveil.cli.reading import GridReading, PublishLoads, reads_grid


@reads_grid
def leakage(
    grid: options.Grid,
    trajectory: options.Trajectories = None,
    surrogate: Annotated[
        str | None,
        typer.Option(
            help="a public case, or a bundle of GRID, to compute at; default: this topology at the "
            "middle of the bounds",
            show_default=False,
        ),
    ] = None,
    sigma: Annotated[
        str | None,
        typer.Option(
            help="noise of a sample: 1e-4 (p.u.) or 5mHz; default: as declared, else its scatter",
            show_default=False,
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="also give the epsilon of trajectory and release together; needs --sigma",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(help="a coarser record: these buses only, such as 1,13", show_default=False),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="a coarser record: samples per second, such as 10Hz", show_default=False),
    ] = None,
    round_to: Annotated[
        str | None,
        typer.Option(
            "--round",
            help="a coarser record: values rounded to this, such as 1mHz",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="folder to write the coarser record and its TOML to", show_default=False),
    ] = None,
    adjacency: options.AdjacencyName = None,
    alpha: options.Alpha = None,
    bounds: options.Bounds = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="draw each item's relative error there (.png, .pdf or .svg)", show_default=False
        ),
    ] = None,
    publish_loads: PublishLoads = None,
    *,
    reading: GridReading,
    json: options.Json = False,
) -> None:
    """Show what a public trajectory gives away by itself, before any epsilon is spent. Uses public
    facts of GRID only.

    At a bundle (--surrogate), bounds, adjacency and distances that no option gives are the bundle's
    own.
    """
    given = {name: value for name, value in locals().items() if name not in ("reading", "json")}
    from gridveil.workflow.leakage import LeakageSettings, report_leakage

    given["trajectory"] = trajectory or None
    given |= {name: options.joined(given[name]) for name in ("alpha", "bounds")}
    settings = LeakageSettings.of(given | vars(reading))
    coarser = settings.coarser.asked
    with progress_bar(quiet=json):
        found = report_leakage(settings)
    if json:
        print_json(
            {
                "sigma_from": found.sigma_from,
                "records": [
                    {
                        "record": name,
                        **record.to_json(),
                        **({"joint": dict(found.joint[name])} if found.joint else {}),
                    }
                    for name, record in found.records.items()
                ],
                "coarser_record": str(out) if coarser and out else None,
                "plot": str(plot) if plot else None,
            }
        )
        return
    for name, record in found.records.items():
        print_leakage(name, record)
        if found.joint:
            print_joint(found.joint[name])
    shown = f"{_noise(found.sigma, found.nominal_hz)}, from {found.sigma_from}"
    if found.rounded is not None:
        shown += f"; rounded, {_noise(found.rounded, found.nominal_hz)}"
    print_text(f"Noise    {shown}")
    if coarser:
        print_text(
            "Coarser  It helps only where the finer record is not public, and never becomes so."
        )
        if out:
            print_text(f"Written  {out}")
    if plot:
        print_text(f"Figure   {plot}")


def _noise(sigma: float, nominal_hz: float) -> str:
    return f"{sigma:.3g} p.u. ({1000 * sigma * nominal_hz:.3g} mHz)"
