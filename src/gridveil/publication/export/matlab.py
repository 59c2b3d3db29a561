"""MATLAB, Octave, Julia and Python: everything that a release says, in one MAT-file."""

from __future__ import annotations

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.publication.document import EQUATIONS, MODEL_UNITS, SIGN_CONVENTION
from gridveil.publication.export.common import Format, about
from gridveil.publication.export.matfile import cells, mat_file
from gridveil.publication.release import Release

FILE = "release.mat"
# Above it the list of pairs would outweigh k_r, whose order is always the same.
EDGES_UP_TO = 1000
ARRAYS = ("k_r", "m", "d", "governor_rate", "droop_gain", "K_ac", "loads")


def write(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write the arrays of `model.mat` with names, units, equations and their numbers."""
    del event
    model = release.model
    arrays = {name: getattr(model, name) for name in ARRAYS}
    numbers = {
        name: float(getattr(model, name)) for name in ("omega_b", "frequency_hz", "base_mva")
    }
    texts = {
        "machines": cells(model.machines),
        "loaded_buses": cells(model.ports[len(model.machines) :]),
        "equations": cells(EQUATIONS),
        "about": cells(about(release)),
        "sign_convention": SIGN_CONVENTION,
        "k_r_order": "pairs of machines 12, 13, ..., 1g, 23, ..., as in edges where "
        "that is written",
    }
    content = arrays | numbers | texts | {"units": dict(MODEL_UNITS), "demo": release.demo}
    if len(model.m) <= EDGES_UP_TO:  # as doubles, with which MATLAB indexes
        content |= {"edges": (model.edges + 1).astype(np.float64)}
    return {FILE: mat_file(content)}


FORMAT = Format(
    "mat",
    1,
    write,
    runs=f"octave-cli --eval \"r = load('{FILE}'); disp(r.units); disp([r.m r.d])\"",
)
