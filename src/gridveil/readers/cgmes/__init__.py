"""CGMES models (ENTSO-E's exchange format), read through pypowsybl in a process of its own."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from gridveil.foundation.errors import InputError
from gridveil.readers.cgmes.files import CimModel, check, collect
from gridveil.readers.cgmes.grid import MACHINES, as_tables, grid_of, names
from gridveil.readers.guarded import BROKEN, NOT_LOADED, OUT_OF_TIME, guarded
from gridveil.readers.network import FileGrid
from gridveil.readers.table import Table

TIMEOUT_S, TIMEOUT_S_PER_MB = 60.0, 3.0
PROFILES = "Check that all its profiles are there, or export it again."
COUNTED = {  # the classes of CGMES from which pypowsybl makes each of its tables
    "transformers": ("PowerTransformer",),
    "loads": (
        "EnergyConsumer",
        "ConformLoad",
        "NonConformLoad",
        "EnergySource",
        "StationSupply",
        "AsynchronousMachine",
    ),
    "shunts": ("LinearShuntCompensator", "NonlinearShuntCompensator", "EquivalentShunt"),
    "machines": MACHINES,
    "lines": ("ACLineSegment", "SeriesCompensator", "EquivalentBranch"),
}


def read_cgmes(path: Path) -> FileGrid:
    """Read a CGMES model from a folder, a zip or a file; node-breaker models by the buses that
    their switches make.
    """
    files = collect(path)
    model = check(path, files)
    if find_spec("pypowsybl") is None:
        raise InputError(
            "CGMES is read through pypowsybl, which is not installed",
            file=path.name,
            expected="gridveil with the extra cgmes",
            remedy="pip install 'gridveil[cgmes]'",
        )
    tables = _tables(path.name, files)
    _check_counts(path.name, model, tables)
    return grid_of(path.name, model, tables)


def _check_counts(file: str, model: CimModel, tables: Mapping[str, Table]) -> None:
    """Refuse a model of which pypowsybl dropped something in silence."""
    count = {name: len(table) for name, table in tables.items()}
    read = {
        "transformers": count["2_windings_transformers"] + count["3_windings_transformers"],
        "loads": sum(
            kind in COUNTED["loads"] for kind in names(tables["loads"], "CGMES.originalClass")
        ),
        "shunts": count["shunt_compensators"],
        "machines": sum(
            kind in MACHINES for kind in names(tables["generators"], "CGMES.originalClass")
        ),
        "lines": count["lines"] + count["boundary_lines"],
    }
    for what, classes in COUNTED.items():
        there = sum(model.classes[one] for one in classes)
        # A line of no impedance inside a voltage level becomes a switch, whose buses are then one.
        fewest = there - (model.zero_lines if what == "lines" else 0)
        if not fewest <= read[what] <= there:
            raise InputError(
                f"pypowsybl reads {read[what]} {what} of the {there} in the files",
                file=file,
                expected="all of them",
                remedy="Check whether they lack terminals or a profile, or export the model again.",
            )


def _tables(file: str, files: Mapping[str, bytes]) -> dict[str, Table]:
    """Let pypowsybl read the files in a process of its own, within a time and a memory."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    limit = TIMEOUT_S + TIMEOUT_S_PER_MB * len(packed.getvalue()) / 2**20
    answer, _ = guarded("cgmes", packed.getvalue(), seconds=limit)
    if "tables" not in answer:
        problem, remedy = {
            NOT_LOADED: ("pypowsybl cannot be loaded", "pip install 'gridveil[cgmes]'"),
            OUT_OF_TIME: (f"pypowsybl did not finish within {limit:.0f} s", PROFILES),
            BROKEN: ("pypowsybl broke down over the model", PROFILES),
        }.get(answer["error"], ("pypowsybl cannot read the model", PROFILES))
        raise InputError(
            problem,
            file=file,
            expected="a whole model: EQ, SSH, and TP or the nodes of EQ",
            remedy=remedy,
        )
    return as_tables(file, answer["tables"])
