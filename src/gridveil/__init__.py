"""gridveil: publish a dynamic model of a power grid without publishing the grid.

>>> import gridveil
>>> source = gridveil.open_grid("star5")
>>> source
<SourceGrid star5: 5 buses, 4 lines, 4 machines; k, m, d private>
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gridveil.version import __version__ as __version__

if TYPE_CHECKING:
    from gridveil.algorithm import publish
    from gridveil.bundle import load, verify
    from gridveil.cases import open_grid
    from gridveil.demo import run_demo
    from gridveil.dynamics import modes, simulate
    from gridveil.errors import GridveilError
    from gridveil.events import Event
    from gridveil.fit import FitSettings, Observation
    from gridveil.groups import Bounds, Range
    from gridveil.kron import reduce
    from gridveil.measured import read_trajectory
    from gridveil.privacy.adjacency import Adjacency
    from gridveil.privacy.epsilon import exact
    from gridveil.privacy.ledger import Ledger
    from gridveil.provenance import Provenance
    from gridveil.release import Release
    from gridveil.trajectory import Trajectory
    from gridveil.vault.mechanism import perturb
    from gridveil.vault.sampler import DemoSampler, SecureSampler


# Where each public name lives. Imported when it is first used: `gridveil --help` needs none of them.
_HOMES = {
    "Adjacency": "gridveil.privacy.adjacency",
    "Bounds": "gridveil.groups",
    "DemoSampler": "gridveil.vault.sampler",
    "Event": "gridveil.events",
    "FitSettings": "gridveil.fit",
    "GridveilError": "gridveil.errors",
    "Ledger": "gridveil.privacy.ledger",
    "Observation": "gridveil.fit",
    "Provenance": "gridveil.provenance",
    "Range": "gridveil.groups",
    "Release": "gridveil.release",
    "SecureSampler": "gridveil.vault.sampler",
    "Trajectory": "gridveil.trajectory",
    "exact": "gridveil.privacy.epsilon",
    "load": "gridveil.bundle",
    "modes": "gridveil.dynamics",
    "open_grid": "gridveil.cases",
    "perturb": "gridveil.vault.mechanism",
    "publish": "gridveil.algorithm",
    "read_trajectory": "gridveil.measured",
    "reduce": "gridveil.kron",
    "run_demo": "gridveil.demo",
    "simulate": "gridveil.dynamics",
    "verify": "gridveil.bundle",
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
    "SecureSampler",
    "Trajectory",
    "exact",
    "load",
    "modes",
    "open_grid",
    "perturb",
    "publish",
    "read_trajectory",
    "reduce",
    "run_demo",
    "simulate",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gridveil' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
