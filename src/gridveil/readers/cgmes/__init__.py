"""CGMES models (ENTSO-E's exchange format), read through pypowsybl in a process of its own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from gridveil.foundation.errors import InputError
from gridveil.readers.cgmes.files import Model, check, collect
from gridveil.readers.cgmes.grid import MACHINES, Table, as_tables, grid_of
from gridveil.readers.network import FileGrid

TIMEOUT_S, TIMEOUT_S_PER_MB = 60.0, 3.0
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


def _check_counts(file: str, model: Model, tables: Mapping[str, Table]) -> None:
    """Refuse a model of which pypowsybl dropped something in silence."""
    count = {name: len(table) for name, table in tables.items()}
    read = {
        "transformers": count["2_windings_transformers"] + count["3_windings_transformers"],
        "loads": sum(
            kind in COUNTED["loads"] for kind in tables["loads"].texts("CGMES.originalClass")
        ),
        "shunts": count["shunt_compensators"],
        "machines": sum(
            kind in MACHINES for kind in tables["generators"].texts("CGMES.originalClass")
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
    # -P: a json.py or pypowsybl.py in the working folder, which may be a stranger's, must not run
    # with the grid in its hands.
    command = [sys.executable, "-P", "-m", "gridveil.readers.cgmes.child"]
    problem, answer = "pypowsybl cannot read the model", {}
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, and no argument from outside
            command,
            input=packed.getvalue(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=limit,
            check=False,
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        problem = f"pypowsybl did not finish within {limit:.0f} s"
    except ValueError:
        problem = "pypowsybl broke down over the model"
    if "tables" not in answer:  # raised out here: the answer, cut off, may hold private values
        missing = answer.get("error") == "ImportError"
        raise InputError(
            "pypowsybl cannot be loaded" if missing else problem,
            file=file,
            expected="a whole model: EQ, SSH, and TP or the nodes of EQ",
            remedy="pip install 'gridveil[cgmes]'"
            if missing
            else "Check that all its profiles are there, or export it again.",
        )
    return as_tables(file, answer["tables"])
