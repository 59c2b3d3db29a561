"""State space x' = A x + B u, y = C x + D u, for python-control, MATLAB's ss and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.engine import LTI
from gridveil.dynamics.events import Event
from gridveil.publication.export.common import Format, about
from gridveil.publication.export.linear import state_names
from gridveil.publication.matfile import cells, mat_file
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
    every = len(model.ports)
    lti = model.lti(np.eye(every), np.arange(every))
    loads, outputs = ([f"{what}_{port}" for port in model.ports] for what in ("load", "omega"))
    return _mat(release, lti, loads, outputs, UNITS)


def write_detailed(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write A, B, C, D of a detailed model: P and Q at every port, to frequency and voltage there.

    Angles count from the last unit's, as for a swing model.
    """
    del event
    model = release.model
    assert isinstance(model, DetailedModel), "a swing model has a writer of its own"
    powers, outputs = (
        [f"{what}_{port}" for what in both for port in model.ports]
        for both in ("PQ", ("omega", "v"))
    )
    return _mat(release, model.whole, powers, outputs, DETAILED_UNITS)


def _mat(
    release: Release,
    lti: LTI,
    inputs: Sequence[str],
    outputs: Sequence[str],
    units: Mapping[str, str],
) -> dict[str, bytes]:
    model = release.model
    content = {
        **{name: getattr(lti, name) for name in "ABCD"},
        "states": cells([name for name, _ in state_names(model)]),
        "inputs": cells(inputs),
        "outputs": cells(outputs),
        **{name: getattr(model, name) for name in ("loads", "omega_b", "frequency_hz", "base_mva")},
        "units": units,
        "about": cells(about(release)),
        "demo": release.demo,
    }
    return {FILE: mat_file(content)}


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
