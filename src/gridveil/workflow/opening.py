"""Grids that settings name: the owner's own, and public surrogates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gridveil.foundation.errors import InputError, OptionError
from gridveil.foundation.progress import RELEASE, staged
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import DAMPING, INERTIA
from gridveil.grid.tables import PublicTable
from gridveil.inference.posterior import middle
from gridveil.inference.records import Measured, read_all
from gridveil.privacy.ledger import Ledger
from gridveil.readers.cases import declared_public, open_grid
from gridveil.vault.perturb import version_of
from gridveil.vault.source import SourceGrid
from gridveil.workflow.places import check_figure, writing
from gridveil.workflow.settings import GridSettings

# What is said of a private grid's machines and file: no surrogate may be opened with it.
OWN = ("inertia", "damping", "base", "island")


def open_named(settings: GridSettings) -> SourceGrid[Any]:
    """Open the grid that settings name, read as they say."""
    model: Any = settings.said_family or settings.model
    return open_grid(
        settings.grid, dynamics_file=settings.dynamics, options=settings.reading, model=model
    )


def open_surrogate(
    name: str, settings: GridSettings, own: GridFacts, ledger: Ledger | None = None
) -> PublicTable:
    """Open the public case that stands in for a grid, with nothing of the grid's own inertia and
    damping in it.

    own : public facts of the grid.
    """
    public = {option: said for option, said in settings.reading.items() if option not in OWN}
    try:
        other = open_grid(name, options=public)
    except InputError:  # a static case: what it lacks lies in the middle of the public bounds
        bounds = settings.bounds
        usual = {
            "inertia": middle(bounds[INERTIA.name]),
            "damping": middle(bounds[DAMPING.name]),
        }
        other = open_grid(name, options=public | usual)
    return declared_public(other, ledger, own=own)


def open_detailed_surrogate(
    name: str, settings: GridSettings, own: DetailedFacts
) -> PublicTable[DetailedFacts]:
    """Open the public case with devices that stands in for a detailed grid.

    own : public facts of the grid.
    """
    other = open_grid(
        name,
        options={option: said for option, said in settings.reading.items() if option not in OWN},
        model="detailed",
    )
    return declared_public(other, own=own)


def inspect_grid(settings: GridSettings, plot: Path | None = None) -> tuple[Any, list[Measured]]:
    """Read and check a grid and its trajectories; plot : a figure of those."""
    if plot and not settings.trajectory:
        raise OptionError(
            "--plot has nothing to draw.", expected="--trajectory FILE.toml beside it"
        )
    if plot:
        check_figure(plot)
    with staged(RELEASE[:2]):
        facts = open_named(settings).facts
    measured = read_all(settings.trajectory, facts) if settings.trajectory else []
    if plot:
        from gridveil.inference.records.drawing import plot_measured

        with writing(plot, "--plot") as place:
            plot_measured(measured, str(place))
    return facts, measured


def register(ledger: Ledger, lineage: str, settings: GridSettings | None) -> None:
    """Open an account for a grid and all its versions; settings : so that it is known again."""
    version = None if settings is None else version_of(open_named(settings), ledger)
    ledger.register(lineage, version)
