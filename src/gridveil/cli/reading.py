"""How a command reads a grid: the options that say what its file does not, stated once for every
command that has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from gridveil.workflow.settings import GridSettings

MACHINES = "Dynamics of the machines (files only)"
AWKWARD = "What to do with awkward data (files only)"


def _option(help_: str, panel: str) -> Any:
    return typer.Option(help=help_, show_default=False, rich_help_panel=panel)


DynamicsFile = Annotated[
    Path | None,
    _option(
        "TOML with dynamics and policies, or a PSS/E DYR; default: the one beside the grid file",
        MACHINES,
    ),
]
Inertia = Annotated[
    float | None,
    _option("M = 2H of each machine, system base [p.u. power s / p.u. frequency]", MACHINES),
]
Damping = Annotated[
    float | None, _option("D of each machine [p.u. power / p.u. frequency]", MACHINES)
]
PublishLoads = Annotated[
    bool | None,
    typer.Option(
        "--publish-loads/--withhold-loads",
        help="whether the bundle carries the nominal loads",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class GridReading:
    """What a grid file does not say of its machines, and what to do with awkward data; None where
    not given.
    """

    dynamics: DynamicsFile = None
    inertia: Inertia = None
    damping: Damping = None
    governor_rate: Annotated[
        float | None, _option("T, inverse governor time constant [1/s]", MACHINES)
    ] = None
    droop_gain: Annotated[
        float | None, _option("G = 1/R [p.u. power / p.u. frequency]", MACHINES)
    ] = None
    load_damping: Annotated[
        float | None,
        _option("public damping of loads [p.u. power / p.u. frequency per p.u. of load]", MACHINES),
    ] = None
    frequency_hz: Annotated[
        float | None, _option("nominal frequency [Hz]; default 60", MACHINES)
    ] = None
    omega_b: Annotated[float | None, _option("omega_b [rad/s]; default 2 pi f", MACHINES)] = None
    operating_point: Annotated[
        str | None,
        _option("newton (default), file or flat: voltages and angles inside k", MACHINES),
    ] = None
    base: Annotated[
        str | None,
        _option(
            "system (default) or rated: the base that inertia, damping and droop gain are p.u. of",
            MACHINES,
        ),
    ] = None
    negative_x: Annotated[
        str | None, _option("branches with x < 0: refuse (default), abs or merge", AWKWARD)
    ] = None
    zero_x: Annotated[
        str | None, _option("branches with |x| < 1e-6 p.u.: refuse (default) or merge", AWKWARD)
    ] = None
    island: Annotated[
        str | None,
        _option(
            "of several islands: largest, or a bus in the one to keep; default: refuse", AWKWARD
        ),
    ] = None
    taps: Annotated[
        str | None, _option("tap ratios in k: include (default) or ignore", AWKWARD)
    ] = None
    without_dynamics: Annotated[
        str | None, _option("machines without inertia: refuse (default) or drop", AWKWARD)
    ] = None

    def given(self) -> dict[str, Any]:
        """What was given of the grid's file, by name."""
        return {
            name: value
            for name, value in vars(self).items()
            if name != "dynamics" and value is not None
        }

    def of(self, grid: str, **more: Any) -> GridSettings:
        """Settings of a grid, read like this."""
        from gridveil.workflow.settings import GridSettings

        return GridSettings.of(vars(self), grid=grid, **more)


def reads_grid(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes `reading: GridReading` the fields of it as options, listed where
    that parameter stands.

    >>> @reads_grid
    ... def show(grid: str, *, reading: GridReading, loud: bool = False) -> None:
    ...     print(grid, reading.taps)
    >>> list(signature(show).parameters)[:3], list(signature(show).parameters)[-2:]
    (['grid', 'dynamics', 'inertia'], ['without_dynamics', 'loud'])
    >>> show(grid="ieee30", taps="ignore")
    ieee30 ignore
    """
    hints = get_type_hints(GridReading, include_extras=True)
    spread = {
        f.name: Parameter(f.name, Parameter.KEYWORD_ONLY, default=None, annotation=hints[f.name])
        for f in fields(GridReading)
    }
    own = signature(command, eval_str=True)
    listed: list[Parameter] = []
    for name, parameter in own.parameters.items():
        listed += (
            spread.values()
            if name == "reading"
            else [parameter.replace(kind=Parameter.KEYWORD_ONLY)]
        )

    @wraps(command)
    def spreading(**given: Any) -> None:
        reading = GridReading(**{name: given.pop(name) for name in spread if name in given})
        command(**given, reading=reading)

    spreading.__dict__["__signature__"] = own.replace(parameters=listed)  # what typer reads
    return spreading
