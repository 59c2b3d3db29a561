"""The command that turns a bundle into other tools' files: export."""

from __future__ import annotations

from os.path import lexists
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from gridveil.cli import options
from gridveil.cli.output import print_json, print_text
from gridveil.foundation.errors import GridveilError, OptionError


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
    from gridveil.foundation.archive import check_free, write_files
    from gridveil.publication.bundle import load
    from gridveil.publication.export import export as make
    from gridveil.publication.export import format_named

    chosen = format_named(to)
    release = load(bundle)
    place = out or Path(f"{bundle.absolute().stem}-{to}")
    if bundle.is_dir() and bundle.absolute() in place.absolute().parents:
        raise OptionError(
            f"{place} lies inside the bundle, which would no longer verify.",
            remedy="Name a place outside it.",
        )
    if lexists(place):
        raise GridveilError(
            f"{place} exists already.",
            outcome="Nothing was written.",
            remedy="Name another place with --out, or move it away.",
        )
    check_free(place)
    files = make(release, to, ";".join(event) if event else None)
    try:
        write_files(place, files)
    except GridveilError as error:  # which speaks of a bundle and its budget
        raise GridveilError(
            error.problem.replace("The bundle", "The export"),
            outcome="No file was left there.",
            remedy=error.remedy,
        ) from None
    if json:
        print_json(
            {
                "demo": release.demo,
                "to": to,
                "out": str(place),
                "files": list(files),
                "run": chosen.runs,
            }
        )
        return
    print_text(
        *["DEMO: made with a seed; it protects nothing."] * release.demo,
        f"Written  {place}: {', '.join(files)}",
        f"Run      {_go_to(place)} && {chosen.runs}",
    )


def _go_to(place: Path) -> str:
    quoted, folder = quote(str(place)), quote(str(place.with_suffix("")))
    return (
        f"python -m zipfile -e {quoted} {folder} && cd {folder}"
        if place.suffix == ".zip"
        else f"cd {quoted}"
    )
