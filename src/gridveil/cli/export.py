"""The command that turns a bundle into other tools' files: export."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from gridveil.cli import options
from gridveil.cli.output import print_json, print_text


def export(
    bundle: options.Bundle,
    to: Annotated[
        str, typer.Option(help="andes, psse, matpower, mat, csv or statespace", show_default=False)
    ],
    event: Annotated[
        list[str] | None,
        typer.Option(
            help="what to write along (andes): load:G1=+0.1, uniform:+5%@10s; default: the "
            "bundle's reference event",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="folder, or .zip, to write; default BUNDLE-FORMAT", show_default=False),
    ] = None,
    json: options.Json = False,
) -> None:
    """Write a release for another tool: ANDES, PSS/E, MATPOWER, MATLAB, CSV or state space; print
    the line that runs it.
    """
    from gridveil.workflow.bundles import export_bundle

    made = export_bundle(bundle, to, ";".join(event) if event else None, out)
    if json:
        print_json(
            {
                "demo": made.demo,
                "to": to,
                "out": str(made.place),
                "files": list(made.files),
                "run": made.runs,
            }
        )
        return
    print_text(
        *["DEMO: made with a seed; it protects nothing."] * made.demo,
        f"Written  {made.place}: {', '.join(made.files)}",
        f"Run      {_go_to(made.place)} && {made.runs}",
    )


def _go_to(place: Path) -> str:
    quoted, folder = quote(str(place)), quote(str(place.with_suffix("")))
    return (
        f"python -m zipfile -e {quoted} {folder} && cd {folder}"
        if place.suffix == ".zip"
        else f"cd {quoted}"
    )
