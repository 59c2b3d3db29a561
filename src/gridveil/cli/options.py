"""Options that several commands have. What they mean is read in `workflow.settings`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from gridveil.grid.parameters import DECLARED, PARAMETERS, Parameter

Grid = Annotated[
    str,
    typer.Argument(
        help="a grid file, or a name such as ieee30 or matpower:case118", show_default=False
    ),
]
OptionalGrid = Annotated[
    str | None,
    typer.Argument(
        help="a grid file, or a name such as ieee30 or matpower:case118", show_default=False
    ),
]
Bundle = Annotated[
    Path, typer.Argument(help="a bundle: its folder or its .zip", show_default=False)
]
WitnessPlace = Annotated[
    str | None,
    typer.Option(
        "--witness",
        help="a path or a URL, away from the ledger's backups, that notices a restored one; "
        "default $GRIDVEIL_WITNESS or the user's state folder",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document")]
LedgerPlace = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        help="a path, or a URL such as postgresql://host/database; default $GRIDVEIL_LEDGER or the "
        "user's data folder",
        show_default=False,
    ),
]

AdjacencyName = Annotated[
    str | None,
    typer.Option(
        help="one-asset (default), one-item or one-per-group; append -relative for α as a ratio",
        show_default=False,
    ),
]
_UNITS = ", ".join(f"{name} [{parameter.unit}]" for name, parameter in PARAMETERS.items())
_REDUCED = ", ".join(
    f"{name} ({parameter.title}) [{parameter.unit}]"
    for name, parameter in DECLARED.items()
    if parameter.reduces
)


def joined(texts: list[str] | None) -> str | None:
    """Join what an option of pairs was given in one text or several: k=1,m=2 or k=1 and m=2."""
    return ",".join(texts) if texts else None


def _ranges(parameters: Mapping[str, Parameter]) -> str:
    ranges = {name: parameter.bounds for name, parameter in parameters.items()}
    return ",".join(f"{name}={usual.lower:g}:{usual.upper:g}" for name, usual in ranges.items())


Alpha = Annotated[
    list[str] | None,
    typer.Option(
        help=f"distances protected, such as k=1,m=1/2: {_UNITS}; default 1 each, relative 1/10",
        show_default=False,
    ),
]
Bounds = Annotated[
    list[str] | None,
    typer.Option(
        help=f"public bounds lower:upper: {_UNITS}; default {_ranges(PARAMETERS)}",
        show_default=False,
    ),
]
ReleaseBounds = Annotated[
    list[str] | None,
    typer.Option(
        help=f"public bounds lower:upper: {_UNITS}, {_REDUCED}; default {_ranges(DECLARED)}",
        show_default=False,
    ),
]
Trajectories = Annotated[
    list[Path] | None,
    typer.Option(
        "--trajectory",
        help="TOML that declares a public, measured trajectory and its event; may be repeated",
        show_default=False,
    ),
]
