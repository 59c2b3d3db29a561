"""gridveil: publish a dynamic model of a power grid without publishing the grid.

>>> import gridveil
>>> source = gridveil.open_grid("star5")
>>> source
<SourceGrid star5: 5 buses, 4 lines, 4 machines; k, m, d private>
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gridveil.foundation.version import __version__ as __version__

if TYPE_CHECKING:
    from gridveil.dynamics.events import Event
    from gridveil.dynamics.kron import reduce
    from gridveil.dynamics.simulate import modes, simulate
    from gridveil.dynamics.trajectory import Trajectory
    from gridveil.foundation.errors import GridveilError
    from gridveil.grid.parameters import Bounds, Range
    from gridveil.inference.fit import FitSettings, Observation
    from gridveil.inference.records import read_trajectory
    from gridveil.privacy.adjacency import Adjacency
    from gridveil.privacy.epsilon import exact
    from gridveil.privacy.ledger import Ledger
    from gridveil.privacy.provenance import Provenance
    from gridveil.publication.bundle import load, verify
    from gridveil.publication.release import Release
    from gridveil.readers.cases import open_grid
    from gridveil.vault.perturb import perturb
    from gridveil.vault.sampler import DemoSampler, SecureSampler
    from gridveil.workflow.compare import compare
    from gridveil.workflow.demo import run_demo
    from gridveil.workflow.publish import publish
    from gridveil.workflow.records import init_record
    from gridveil.workflow.release import release_grid
    from gridveil.workflow.settings import ReleaseSettings


# Where each public name lives. Imported when it is first used: `gridveil --help` needs none of
# them.
_HOMES = {
    "Adjacency": "gridveil.privacy.adjacency",
    "Bounds": "gridveil.grid.parameters",
    "DemoSampler": "gridveil.vault.sampler",
    "Event": "gridveil.dynamics.events",
    "FitSettings": "gridveil.inference.fit",
    "GridveilError": "gridveil.foundation.errors",
    "Ledger": "gridveil.privacy.ledger",
    "Observation": "gridveil.inference.fit",
    "Provenance": "gridveil.privacy.provenance",
    "Range": "gridveil.grid.parameters",
    "Release": "gridveil.publication.release",
    "ReleaseSettings": "gridveil.workflow.settings",
    "SecureSampler": "gridveil.vault.sampler",
    "Trajectory": "gridveil.dynamics.trajectory",
    "compare": "gridveil.workflow.compare",
    "exact": "gridveil.privacy.epsilon",
    "init_record": "gridveil.workflow.records",
    "load": "gridveil.publication.bundle",
    "modes": "gridveil.dynamics.simulate",
    "open_grid": "gridveil.readers.cases",
    "perturb": "gridveil.vault.perturb",
    "publish": "gridveil.workflow.publish",
    "read_trajectory": "gridveil.inference.records",
    "reduce": "gridveil.dynamics.kron",
    "release_grid": "gridveil.workflow.release",
    "run_demo": "gridveil.workflow.demo",
    "simulate": "gridveil.dynamics.simulate",
    "verify": "gridveil.publication.bundle",
}

__all__ = [
    "Adjacency",
    "Bounds",
    "DemoSampler",
    "Event",
    "FitSettings",
    "GridveilError",
    "Ledger",
    "Observation",
    "Provenance",
    "Range",
    "Release",
    "ReleaseSettings",
    "SecureSampler",
    "Trajectory",
    "compare",
    "exact",
    "init_record",
    "load",
    "modes",
    "open_grid",
    "perturb",
    "publish",
    "read_trajectory",
    "reduce",
    "release_grid",
    "run_demo",
    "simulate",
    "verify",
]


def run_command_line() -> None:
    """Run the command line as a program; Ctrl-C while it is being imported shows no traceback."""
    import os
    import sys

    try:
        program = import_module("gridveil.cli").program
    except KeyboardInterrupt:
        sys.stderr.write("gridveil: interrupted.\n")
        os._exit(130)
    program()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gridveil' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
