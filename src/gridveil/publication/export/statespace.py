"""State space x' = A x + B u, y = C x + D u, for python-control, MATLAB's ss and the like."""

from __future__ import annotations

import numpy as np

from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.events import Event
from gridveil.publication.export.common import Format, about
from gridveil.publication.export.matfile import cells, mat_file
from gridveil.publication.release import Release

FILE = "statespace.mat"
UNITS = {
    "time": "s",
    "input": "p.u. power (load added at a port)",
    "output": "p.u. frequency (deviation at a port)",
    "omega": "p.u. frequency",
    "delta": "rad",
    "p": "p.u. power",
}

DETAILED_UNITS = {
    "time": "s",
    "input": "p.u. power (P, then Q, consumed at a port beyond its load)",
    "output": "p.u. frequency (deviation at a port), then p.u. voltage",
}


def write(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write A, B, C, D from the load at every port to the frequency at every port.

    Only differences of angles act, so that delta counts from the last machine's and 3g - 1 states
    remain.
    """
    del event
    model = release.swing
    names, every = model.machines, len(model.ports)
    lti = model.lti(np.eye(every), np.arange(every))
    states = (
        *(f"omega_{name}" for name in names),
        *(f"delta_{name}_{names[-1]}" for name in names[:-1]),
        *(f"p_{name}" for name in names),
    )
    arrays = {
        "A": lti.A,
        "B": lti.B,
        "C": lti.C,
        "D": lti.D,
        "states": cells(states),
        "inputs": cells(tuple(f"load_{port}" for port in model.ports)),
        "outputs": cells(tuple(f"omega_{port}" for port in model.ports)),
        "loads": model.loads,
        "omega_b": model.omega_b,
        "frequency_hz": model.frequency_hz,
        "base_mva": model.base_mva,
        "units": UNITS,
        "about": cells(about(release)),
        "demo": release.demo,
    }
    return {FILE: mat_file(arrays)}


def write_detailed(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write A, B, C, D of a detailed model: P and Q at every port, to frequency and voltage there.

    Angles count from the last unit's, as for a swing model.
    """
    del event
    model = release.model
    assert isinstance(model, DetailedModel), "a swing model has a writer of its own"
    kept = [name for place, name in enumerate(model.states) if place != model.angles[-1]]
    lti = model.whole
    arrays = {
        "A": lti.A,
        "B": lti.B,
        "C": lti.C,
        "D": lti.D,
        "states": cells(tuple(kept)),
        "inputs": cells(tuple(f"{power}_{port}" for power in "PQ" for port in model.ports)),
        "outputs": cells(
            tuple(f"{what}_{port}" for what in ("omega", "v") for port in model.ports)
        ),
        "loads": model.loads,
        "omega_b": model.omega_b,
        "frequency_hz": model.frequency_hz,
        "base_mva": model.base_mva,
        "units": DETAILED_UNITS,
        "about": cells(about(release)),
        "demo": release.demo,
    }
    return {FILE: mat_file(arrays)}


FORMAT = Format(
    "statespace",
    1,
    write,
    runs=(
        f"python -c \"import control, scipy.io; s = scipy.io.loadmat('{FILE}'); "
        "print(control.damp(control.ss(s['A'], s['B'], s['C'], s['D'])))\""
    ),
    largest=1000,
    because="A is a dense square of three rows per machine",
    write_detailed=write_detailed,
)
