"""How a grid is named, `ieee30`, `matpower:case118` or a file, and which reader a file wants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args
from weakref import WeakSet

from gridveil.foundation.arguments import Unfit, a_place, of_type, one_of, takes
from gridveil.foundation.errors import NOTHING_SPENT, InputError, NoLedger, OptionError
from gridveil.foundation.limits import JSON_BYTES, MOST_FILES
from gridveil.foundation.progress import stage
from gridveil.foundation.reading import Twice, once, read_bytes
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import Facts
from gridveil.readers.network import FileGrid
from gridveil.vault.source import SourceGrid

if TYPE_CHECKING:
    from gridveil.grid.case import DetailedCase
    from gridveil.grid.detailed import DetailedFacts
    from gridveil.grid.facts import TableFacts
    from gridveil.grid.tables import PublicTable
    from gridveil.privacy.ledger import Ledger
    from gridveil.readers.dynamics import Dynamics

MOST_MEMORY = 0.7e9  # bytes, estimated: an empty object takes 70 for its three characters
JSON = "a grid in ANDES's or pandapower's JSON"


class FileFormat(NamedTuple):
    """A format: its name, and the function of `gridveil.readers` that reads it."""

    name: str
    module: str
    function: str

    def read(self, *content: Any) -> FileGrid:
        """Read a file; the reader is imported now, for most need other packages."""
        return getattr(import_module(f"gridveil.readers.{self.module}"), self.function)(*content)


CGMES = FileFormat("CGMES", "cgmes", "read_cgmes")
CSV = FileFormat("CSV tables", "csv_tables", "read_csv_tables")
ANDES_JSON = FileFormat("ANDES", "andes", "read_andes_json")
PANDAPOWER_JSON = FileFormat("pandapower", "pandapower", "read_pandapower_json")
FORMATS = {
    ".m": FileFormat("MATPOWER", "matpower", "read_matpower"),
    ".mat": FileFormat("MATPOWER, saved by MATLAB", "matlab", "read_matlab"),
    ".raw": FileFormat("PSS/E", "psse", "read_psse"),
    ".xlsx": FileFormat("ANDES", "andes", "read_andes_xlsx"),
    ".json": FileFormat("ANDES or pandapower", "cases", "read_json"),
    ".xml": CGMES,
    ".zip": CGMES,
}
# What is no grid by itself: the problem, what was expected and the remedy.
PARTS = {
    ".dyr": (
        "a DYR holds machines and no network",
        "the RAW that it goes with",
        "Name the RAW as the grid, with --dynamics {name}.",
    ),
    ".csv": (
        "a table is no whole grid",
        "the folder that holds buses.csv, branches.csv, machines.csv and system.toml",
        "Name that folder. If it is a record of measurements, declare it with gridveil record init "
        "and give it as --trajectory.",
    ),
}


@sealed
def read_grid(path: Path, dyr: Path | None = None) -> FileGrid:
    """Read a grid file by the format that its name ends in; a folder holds CSV tables or CGMES
    files.

    dyr : PSS/E dynamics; default for a .raw: the .dyr of the same name beside it, if there is one.
    """
    suffix = path.suffix.lower()
    if dyr is not None and suffix != ".raw":
        raise InputError(
            "a DYR file goes with a RAW file",
            file=dyr.name,
            expected="GRID.raw",
            remedy="Give a TOML instead.",
        )
    if path.is_dir():
        return (CGMES if any(file.suffix == ".xml" for file in _listed(path)) else CSV).read(path)
    if suffix == ".raw":
        return FORMATS[suffix].read(path, dyr or _beside(path))
    if suffix in FORMATS:
        return FORMATS[suffix].read(path)
    if not path.exists():
        raise InputError("there is no such file", file=str(path), remedy="Check the path.")
    known = ", ".join(f"{end} ({kind.name})" for end, kind in FORMATS.items())
    problem, expected, remedy = PARTS.get(
        suffix,
        (
            f"the format {suffix or 'of this file'} is not known",
            f"{known}, or a folder of CSV tables",
            "Save the grid in one of these.",
        ),
    )
    raise InputError(
        problem, file=path.name, expected=expected, remedy=remedy.format(name=path.name)
    )


def _listed(folder: Path) -> list[Path]:
    """List a folder; refuse one that this user may not list, whose files may not be looked at, or
    that has too many.
    """
    try:
        listed = list(islice(folder.iterdir(), MOST_FILES + 1))
        for file in listed[:1]:
            file.lstat()
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})",
            file=str(folder),
            remedy="Check the path and its permissions.",
        ) from None
    if len(listed) > MOST_FILES:
        raise InputError(
            f"there are more than {MOST_FILES} files in it",
            file=folder.name,
            expected="a folder of CSV tables, or of a CGMES model",
            remedy="Keep the files of one grid there.",
        )
    return listed


def _beside(path: Path) -> Path | None:
    return next(
        (other for end in (".dyr", ".DYR") if (other := path.with_suffix(end)).exists()), None
    )


def read_json(path: Path) -> FileGrid:
    """Read a grid in ANDES's or pandapower's JSON, whichever it is."""
    document = parse_json(path)
    if isinstance(document, dict) and document.get("_class") == "pandapowerNet":
        return PANDAPOWER_JSON.read(path, document)
    if isinstance(document, dict) and "Bus" in document:
        return ANDES_JSON.read(path, document)
    raise InputError("this is JSON, but no grid", file=path.name, expected=JSON)


def parse_json(path: Path) -> Any:
    """Parse a JSON file; a mistake is named by its line, and nothing of the file goes along with an
    error.
    """
    data = read_bytes(path, JSON, JSON_BYTES)
    if (
        2 * len(data) + 72 * (data.count(b"{") + data.count(b"[")) + 40 * data.count(b",")
        > MOST_MEMORY
    ):
        raise InputError(
            "the file holds too much", file=path.name, expected="a grid of up to some 100 000 buses"
        )
    line: int | None = None
    problem = "this is no JSON, or it is cut off"
    try:
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=once)
    except UnicodeDecodeError:
        problem = "this is no text in UTF-8"
    except json.JSONDecodeError as error:
        line = error.lineno
    except Twice:
        problem = "an object has the same key twice"
    except (ValueError, RecursionError):
        problem = "it holds a number of too many digits, or is nested too deeply"
    # Raised out here: inside the handler, the decoder's error would become its context, with the
    # file's text in it.
    raise InputError(
        problem,
        file=path.name,
        line=line,
        expected=JSON,
        remedy="Check that it was copied whole.",
    )


HERE = Path(__file__).parent
BUNDLED = ("ieee30", "star5")
KNOWN = f"{' or '.join(BUNDLED)}, a file, or a case of an installed package"
# Grids that were opened by the name of a case, not from a file: those are public.
_named: WeakSet[SourceGrid[Any]] = WeakSet()
ModelName = Literal["auto", "swing", "detailed"]


def _grid(value: Any) -> str | Path:
    """Read a grid's name or path; whether there is one is found out later."""
    if not isinstance(value, str | Path):
        raise Unfit(f"{KNOWN}, such as 'ieee30', 'andes:ieee39' or 'grid.raw'")
    return value


@sealed
@takes(
    outcome="Nothing was read.",
    grid=_grid,
    dynamics_file=a_place("a path to a TOML or a DYR"),
    options=of_type(Mapping, "settings by name, such as {'damping': 2}"),
    model=one_of(get_args(ModelName)),
)
def open_grid(
    grid: str | Path,
    *,
    dynamics_file: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    model: ModelName = "swing",
) -> SourceGrid[Any]:
    """Open a grid by name or path.

    What the file does not say comes from dynamics_file, else from a TOML of the same name beside
    it, else from options alone; options (fields of `Dynamics` and `Policy`, None where not given)
    win over both. dynamics_file may also be a PSS/E DYR.
    model : which kind of table it becomes; auto: a detailed one where the file has controls of its
    machines.
    """
    from gridveil.readers.assemble import assemble
    from gridveil.readers.devices import has_controls

    stage("reading the grid")
    file, said, name = _read(grid, dynamics_file, options)
    if model == "detailed" or (model == "auto" and has_controls(file)):
        from gridveil.readers.detailed import detailed_source

        source = detailed_source(file, said, name=name)
    else:
        source = assemble(file, said, name=name)
    if name is not None:
        _named.add(source)
    return source


def _read(
    grid: str | Path, dynamics_file: str | Path | None, options: Mapping[str, Any] | None
) -> tuple[FileGrid, Dynamics, str | None]:
    """The file of a grid, what is said beside it, and the name of a case; None: it is a file."""
    from gridveil.readers.dynamics import Dynamics, read_dynamics

    path, name = _place(str(grid))
    dynamics_file = None if dynamics_file is None else Path(dynamics_file)
    beside = path.with_suffix(".toml")
    dyr = dynamics_file if dynamics_file and dynamics_file.suffix.lower() == ".dyr" else None
    if dynamics_file is not None and dyr is None:
        dynamics = read_dynamics(dynamics_file)
    else:
        dynamics = read_dynamics(beside) if _exists(beside) else Dynamics()
    return read_grid(path, dyr), dynamics.over(options or {}), name


@sealed
def public_detailed(
    source: SourceGrid[DetailedFacts],
    grid: str | Path,
    *,
    dynamics_file: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    ledger: Ledger | None = None,
    said: bool = True,
) -> tuple[PublicTable[DetailedFacts], DetailedCase]:
    """The table of a public case with devices, and the case with all its constants, of which it may
    be solved; loads depend on voltage as declared.

    source : opened from this grid, in the same way.
    ledger, said : as for `declared_public`.

    Privacy
    -------
    As `declared_public`, which comes first.
    """
    from gridveil.readers.detailed import detailed_case

    table = declared_public(source, ledger, said=said)
    file, dynamics, name = _read(grid, dynamics_file, options)
    whole, _ = detailed_case(file, dynamics, name=name)
    declared = source.facts.public.loads
    loads = replace(whole.loads, impedance=declared.impedance, current=declared.current)
    return table, replace(whole, loads=loads)


@sealed
def declared_public(
    source: SourceGrid[Facts],
    ledger: Ledger | None = None,
    *,
    own: TableFacts | None = None,
    said: bool = True,
) -> PublicTable[Facts]:
    """The table of a grid that is public by its owner's word: a surrogate, to try settings out on.

    ledger : knows the grids that were released; None: the usual one, if there is any.
    own : public facts of the grid that it stands in for.
    said : whether somebody declared the grid public; whoever calls this in Python does.

    Privacy
    -------
    A grid that the ledger knows, or that is a version of `own`, is refused: what is chosen at it
    would depend on private values. So is a file that nobody declared public: an empty ledger knows
    no private grid. A case that was opened by its name is public.
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
    if not opened_by_name(source) and (lineage := _lineage_of(source, ledger)) is not None:
        raise OptionError(
            f"The ledger knows {source.facts.name} as a version of the lineage {lineage}: it is a "
            "private grid, and what is found at it would depend on private values.",
            outcome=NOTHING_SPENT,
            remedy="Name a public case that is like it in size, such as matpower:case118.",
        )
    if not (said or opened_by_name(source)):
        raise OptionError(
            f"{source.facts.name} is a file, and nobody said that it is public: what is found at a "
            "private grid depends on private values, which no ε covers.",
            outcome=NOTHING_SPENT,
            remedy="Name a public case such as ieee30; `gridveil cases` lists them. If all the "
            "world may know this file, say so: `gridveil plan FILE --public`.",
        )
    return public_table(source)


def opened_by_name(source: SourceGrid[Any]) -> bool:
    """Whether a grid is a case of this or another package, which is public."""
    return source in _named


def _lineage_of(source: SourceGrid[Any], ledger: Ledger | None) -> str | None:
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
            remedy=f"Check the name. {_meant(grid)}List those that are installed: gridveil cases",
        )
    return path, None


def _meant(grid: str) -> str:
    """The name of a case that was meant, as a question; "" where none is like it."""
    from difflib import get_close_matches

    from gridveil.readers.cases.packages import PACKAGES, package_cases

    cases = [case for package in PACKAGES.values() for case in package_cases(package)]
    known: dict[str, str] = {name: name for name in BUNDLED}
    for case in cases:  # a folder stands for the best of its cases
        if case.best:
            known.setdefault(case.path.parent.name.lower(), case.name.rpartition("/")[0])
    for case in cases:
        known.setdefault(case.path.stem.lower(), case.name)
    near = [grid.lower()] if grid.lower() in known else []
    near = near or get_close_matches(grid, BUNDLED, n=1, cutoff=0.8)
    near = near or get_close_matches(grid.lower(), known, n=1, cutoff=0.7)
    return f"Did you mean {known[near[0]]}? " if near else ""


def _exists(path: Path) -> bool:
    """Whether there is such a file; none has a name that is too long."""
    try:
        return path.exists()
    except OSError:
        return False
