"""Grids that come with gridveil, and how a grid is named: `ieee30`, `star5`, or a MATPOWER file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gridveil.errors import InputError
from gridveil.vault.source import SourceGrid

HERE = Path(__file__).parent
BUNDLED = ("ieee30", "star5")


def open_grid(grid: str, *, dynamics_file: Path | None = None, options: Mapping[str, Any] | None = None) -> SourceGrid:
    """Open a grid by name or path.

    A file's dynamics come from dynamics_file, else from a TOML of the same name beside it, else from options alone; options
    (fields of `Dynamics`, None where not given) win over both.
    """
    from gridveil.io.dynamics import Dynamics, read_dynamics
    from gridveil.io.matpower import read_matpower

    path = HERE / f"{grid}.m" if grid in BUNDLED else Path(grid)
    if path.suffix != ".m":
        raise InputError(
            f"the grid {grid!r} is not known",
            expected=f"{' or '.join(BUNDLED)}, or the path of a MATPOWER file (.m)",
            remedy="Check the name.",
        )
    beside = path.with_suffix(".toml")
    if dynamics_file is not None:
        dynamics = read_dynamics(dynamics_file)
    else:
        dynamics = read_dynamics(beside) if beside.exists() else Dynamics()
    return read_matpower(path, dynamics.over(options or {}), name=grid if grid in BUNDLED else None)
