"""Options that several commands have, and how `--help` lists them: under plain headings, units in
brackets as they are (rich markup would swallow those). What they mean is read in
`workflow.settings`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from gridveil.grid.parameters import DECLARED, PARAMETERS

if TYPE_CHECKING:
    from gridveil.foundation.shards import Kept
    from gridveil.workflow.settings import GridSettings


def option(help_: str, *names: str, panel: str | None = None) -> Any:
    """An option whose help says itself what holds where it is not given."""
    return typer.Option(*names, help=help_, show_default=False, rich_help_panel=panel)


def argument(help_: str) -> Any:
    """An argument, likewise."""
    return typer.Argument(help=help_, show_default=False)


Grid = Annotated[str, argument("a grid file, or a name such as ieee30 or matpower:case118")]
OptionalGrid = Annotated[
    str | None, argument("a grid file, or a name such as ieee30 or matpower:case118")
]
Bundle = Annotated[Path, argument("a bundle: its folder or its .zip")]
WitnessPlace = Annotated[
    str | None,
    option(
        "a path or a URL, away from the ledger's backups, that notices a restored one; "
        "default $GRIDVEIL_WITNESS or the user's state folder",
        "--witness",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document")]
ComputeName = Annotated[
    str,
    typer.Option(
        "--compute", help="where seeded batches are computed: cpu, or gpu (torch, else CuPy)"
    ),
]
Engine = Annotated[str, typer.Option("--engine", help="local (processes of this machine) or dask")]
Scheduler = Annotated[
    str | None,
    option("address of a Dask scheduler; default: a cluster on this machine", "--scheduler"),
]
Workers = Annotated[
    int | None, option("processes on this machine; default: one for each core", "--workers")
]
Keep = Annotated[
    Path | None,
    option("folder that keeps finished batches; called again, it goes on from there", "--keep"),
]
LedgerPlace = Annotated[
    str | None,
    option(
        "a path, or a URL such as postgresql://host/database; default $GRIDVEIL_LEDGER or the "
        "user's data folder",
        "--ledger",
    ),
]

ModelName = Annotated[
    str | None,
    option(
        "swing, detailed (machines with their controls, loads, voltages), or auto (default): "
        "detailed where the file has such controls and no option is of swing models alone"
    ),
]
AdjacencyName = Annotated[
    str | None,
    option(
        "one-asset (default), one-item or one-per-group; append -relative for α as a ratio; of a "
        "detailed model one-asset-relative (default), one-item-relative or asset-l1-relative"
    ),
]
_UNITS = ", ".join(f"{name} [{parameter.unit}]" for name, parameter in PARAMETERS.items())
_REDUCED = ", ".join(
    f"{name} ({parameter.title}) [{parameter.unit}]"
    for name, parameter in DECLARED.items()
    if parameter.reduces
)


def kept_in(folder: Path | None) -> Kept[Any] | None:
    """Where finished batches are kept, if anywhere."""
    from gridveil.cli.output import note_outcome
    from gridveil.foundation.archive import check_outside_bundles
    from gridveil.foundation.shards import Kept

    if folder is None:
        return None
    check_outside_bundles(folder / "any")
    note_outcome(f"Finished batches are kept in {folder}: run it again to go on.")
    return Kept.plain(folder)


def joined(texts: list[str] | None) -> str | None:
    """Join what an option of pairs was given in one text or several: k=1,m=2 or k=1 and m=2."""
    return ",".join(texts) if texts else None


Alpha = Annotated[
    list[str] | None,
    option(
        f"distances protected, such as k=1,m=1/2: {_UNITS}; default 1 each, relative 1/10, "
        "detailed 1/20"
    ),
]
_DERIVED = (
    "derived, or derived,m=1:40 with some given: the others follow from ratings, voltages and "
    "ranges of the class"
)
Bounds = Annotated[
    list[str] | None,
    option(f"public bounds lower:upper: {_UNITS}; {_DERIVED}; default: the grid's own, or derived"),
]
ReleaseBounds = Annotated[
    list[str] | None,
    option(
        f"public bounds lower:upper: {_UNITS}, {_REDUCED}; {_DERIVED}, which are then public, and "
        "α is derived too; default: the grid's own, or none: see --dry-run"
    ),
]
Trajectories = Annotated[
    list[Path] | None,
    option(
        "TOML that declares a public, measured trajectory and its event; may be repeated",
        "--trajectory",
    ),
]


MACHINES = "Dynamics of the machines (files only)"
AWKWARD = "What to do with awkward data (files only)"


PublishLoads = Annotated[
    bool | None,
    option("whether the bundle carries the nominal loads", "--publish-loads/--withhold-loads"),
]


# How a grid's file is read: the type of each option, its heading, and its help.
READING: Mapping[str, tuple[type, str, str]] = {
    "dynamics": (
        Path,
        MACHINES,
        "TOML with dynamics and policies, or a PSS/E DYR; default: the one beside the grid file",
    ),
    "inertia": (
        float,
        MACHINES,
        "M = 2H of each machine, system base [p.u. power s / p.u. frequency]",
    ),
    "damping": (float, MACHINES, "D of each machine [p.u. power / p.u. frequency]"),
    "governor_rate": (float, MACHINES, "T, inverse governor time constant [1/s]"),
    "droop_gain": (float, MACHINES, "G = 1/R [p.u. power / p.u. frequency]"),
    "load_damping": (
        float,
        MACHINES,
        "public damping of loads [p.u. power / p.u. frequency per p.u. of load]",
    ),
    "frequency_hz": (float, MACHINES, "nominal frequency [Hz]; default 60"),
    "omega_b": (float, MACHINES, "omega_b [rad/s]; default 2 pi f"),
    "operating_point": (
        str,
        MACHINES,
        "newton (default), file or flat: voltages and angles inside k",
    ),
    "base": (
        str,
        MACHINES,
        "system (default) or rated: the base that inertia, damping and droop gain are p.u. of",
    ),
    "negative_x": (str, AWKWARD, "branches with x < 0: refuse (default), abs or merge"),
    "zero_x": (str, AWKWARD, "branches with |x| < 1e-6 p.u.: refuse (default) or merge"),
    "island": (
        str,
        AWKWARD,
        "of several islands: largest, or a bus in the one to keep; default: refuse",
    ),
    "taps": (str, AWKWARD, "tap ratios in k: include (default) or ignore"),
    "without_dynamics": (str, AWKWARD, "machines without inertia: refuse (default) or drop"),
    "zip": (
        str,
        MACHINES,
        "of a detailed model, loads where the file does not say: Z (default), I or P; six shares "
        "stand in the TOML",
    ),
    "unknown_devices": (
        str,
        AWKWARD,
        "of a detailed model, devices that gridveil does not know: refuse (default) or typical",
    ),
    "without_machine": (
        str,
        AWKWARD,
        "of a detailed model, units without a machine: refuse (default) or typical",
    ),
}


class GridReading(dict[str, Any]):
    """What a grid file does not say of its machines, and what to do with awkward data, by the names
    of `READING`; None where not given.
    """

    def given(self) -> dict[str, Any]:
        """What was given of the grid's file, by name."""
        return {
            name: value for name, value in self.items() if name != "dynamics" and value is not None
        }

    def of(self, grid: str, **more: Any) -> GridSettings:
        """Settings of a grid, read like this."""
        from gridveil.workflow.settings import GridSettings

        return GridSettings.of(self, grid=grid, **more)


def reads_grid(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes `reading: GridReading` the options of `READING`, listed where that
    parameter stands.

    >>> @reads_grid
    ... def show(grid: str, *, reading: GridReading, loud: bool = False) -> None:
    ...     print(grid, reading["taps"])
    >>> list(inspect.signature(show).parameters)[:3], list(inspect.signature(show).parameters)[-2:]
    (['grid', 'dynamics', 'inertia'], ['without_machine', 'loud'])
    >>> show(grid="ieee30", taps="ignore")
    ieee30 ignore
    """
    spread = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[kind | None, option(words, panel=panel)],
        )
        for name, (kind, panel, words) in READING.items()
    ]
    own = inspect.signature(command, eval_str=True)
    listed: list[inspect.Parameter] = []
    for name, parameter in own.parameters.items():
        listed += (
            spread
            if name == "reading"
            else [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        )

    @wraps(command)
    def spreading(**given: Any) -> None:
        reading = GridReading({name: given.pop(name, None) for name in READING})
        command(**given, reading=reading)

    spreading.__dict__["__signature__"] = own.replace(parameters=listed)  # what typer reads
    return spreading


COMMON, GRID, PRIVACY, FIT, OUTPUT = "Common options", "Grid", "Privacy", "Fit", "Output"
# The options of `release`: the common ten, then the others by what they are about. Those of a panel
# of their own say how the grid's file is read.
RELEASE: Mapping[str, Sequence[str]] = {
    COMMON: (
        "epsilon",
        "adjacency",
        "alpha",
        "bounds",
        "mechanism",
        "out",
        "lineage",
        "config",
        "dry_run",
        "json",
    ),
    GRID: ("model",),
    PRIVACY: (
        "split",
        "treatments",
        "share_by",
        "surrogate",
        "bounds_origin",
        "count",
        "ledger",
        "witness",
    ),
    FIT: ("trajectory", "plot", "profile", "yes"),
    OUTPUT: ("form", "formats", "merge_loads", "publish_loads"),
}


class HeadedCommand(TyperCommand):
    """A command whose help lists its options under headings: its own, else each option's panel."""

    headings: Mapping[str, Sequence[str]] = {}

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options under their headings."""
        headings = ("Arguments", *self.headings, "Options")
        listed: dict[str, list[tuple[str, str]]] = {heading: [] for heading in headings}
        for parameter in sorted(self.get_params(ctx), key=self._place):
            if record := parameter.get_help_record(ctx):
                listed.setdefault(self._heading(parameter), []).append(record)
        for heading, records in listed.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def _place(self, parameter: Any) -> int:
        """Where a heading wants an option; others stay in their order."""
        for names in self.headings.values():
            if parameter.name in names:
                return list(names).index(parameter.name)
        return 0

    def _heading(self, parameter: Any) -> str:
        if parameter.param_type_name == "argument":
            return "Arguments"
        for heading, names in self.headings.items():
            if parameter.name in names:
                return heading
        panel = getattr(parameter, "rich_help_panel", None)
        return GRID if panel and self.headings else panel or "Options"


class ReleaseCommand(HeadedCommand):
    """The command release."""

    headings = RELEASE
