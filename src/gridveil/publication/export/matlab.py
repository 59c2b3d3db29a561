"""MATLAB, Octave, Julia and Python: everything that a release says, in one MAT-file."""

from __future__ import annotations

import numpy as np

from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.events import Event
from gridveil.publication.compact import sparse_arrays
from gridveil.publication.document import SIGN_CONVENTION, equations, model_units
from gridveil.publication.export.common import Format, about
from gridveil.publication.matfile import cells, mat_file
from gridveil.publication.release import Release

FILE = "release.mat"
# Above it the list of pairs would outweigh k_r, whose order is always the same.
EDGES_UP_TO = 1000


def write(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write the arrays of `model.mat` with names, units, equations and their numbers."""
    del event
    model = release.swing
    numbers = {
        name: float(getattr(model, name)) for name in ("omega_b", "frequency_hz", "base_mva")
    }
    texts = {
        "machines": cells(model.machines),
        "loaded_buses": cells(model.ports[len(model.machines) :]),
        "equations": cells(equations(model)),
        "about": cells(about(release)),
        "sign_convention": SIGN_CONVENTION,
        "k_r_order": "pairs of machines 12, 13, ..., 1g, 23, ..., as in edges where "
        "that is written",
    }
    arrays = model.arrays | (sparse_arrays(model) if model.compact else {})
    content = arrays | numbers | texts | {"units": model_units(), "demo": release.demo}
    if len(model.machines) <= EDGES_UP_TO:  # as doubles, with which MATLAB indexes
        content |= {"edges": (model.edges + 1).astype(np.float64)}
    return {FILE: mat_file(content)}


def write_detailed(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write the arrays of `model.mat` of a detailed release with names, units and equations."""
    from gridveil.publication import detailed

    del event
    model, shown = release.model, release.shown
    assert isinstance(model, DetailedModel), "a swing model has a writer of its own"
    assert shown is not None, "a detailed release shows a case"
    content = detailed.arrays_of(model, shown) | {
        "machines": cells(model.machines),
        "loaded_buses": cells(model.ports[model.units :]),
        "states": cells(model.states),
        "equations": cells(detailed.EQUATIONS),
        "about": cells(about(release)),
        "sign_convention": detailed.SIGN_CONVENTION,
        "omega_b": model.omega_b,
        "frequency_hz": model.frequency_hz,
        "base_mva": model.base_mva,
        "demo": release.demo,
    }
    return {FILE: mat_file(content)}


FORMAT = Format(
    "mat",
    1,
    write,
    runs=f"octave-cli --eval \"r = load('{FILE}'); disp(r.units); disp([r.m r.d])\"",
    carries_devices=True,
    write_detailed=write_detailed,
    runs_detailed=f"octave-cli --eval \"r = load('{FILE}'); disp(r.states); disp(eig(r.A))\"",
)
