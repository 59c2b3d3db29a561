"""CSV: machines, weights, and what a load at each port means to the machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gridveil.dynamics.events import Event
from gridveil.foundation.shown import csv_cell
from gridveil.grid.parameters import REDUCED_WEIGHT
from gridveil.publication.document import equations, model_units
from gridveil.publication.export.common import Format, about
from gridveil.publication.release import Release

MACHINES, WEIGHTS, PORTS = "machines.csv", "weights.csv", "ports.csv"


def write(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write three tables; lines in front of each, behind a #, say what it is."""
    del event
    model, names = release.swing, release.swing.machines
    columns = [*model.of_machines, "governor_rate", "droop_gain"]
    machines = zip(names, *(model.arrays[name].tolist() for name in columns), strict=True)
    weight = REDUCED_WEIGHT.name
    weights = zip(model.edges.tolist(), model.values[weight].tolist(), strict=True)
    return {
        MACHINES: _table(release, ("machine", *(_head(name) for name in columns)), machines),
        WEIGHTS: _table(
            release,
            ("from", "to", _head(weight)),
            ((names[i], names[j], k) for (i, j), k in weights),
        ),
        PORTS: ports_table(release),
    }


def ports_table(release: Release) -> bytes:
    """Write each port's nominal load (nan if withheld) and its shares [I, K_ac] of machines."""
    model = release.swing
    heads = (
        "port",
        _head("loads"),
        *(f"share on {name} [{model_units()['K_ac']}]" for name in model.machines),
    )
    rows = zip(model.ports, model.loads.tolist(), model.port_map.T.tolist(), strict=True)
    return _table(release, heads, ((port, load, *shares) for port, load, shares in rows))


def _head(name: str) -> str:
    return f"{name} [{model_units()[name]}]"


def _table(release: Release, heads: Sequence[str], rows: Iterable[Iterable[str | float]]) -> bytes:
    text = [f"# {line}" for line in (*about(release), *equations(release.swing))]
    text += [",".join(map(csv_cell, row)) for row in (heads, *rows)]
    return "\n".join([*text, ""]).encode("ascii")


FORMAT = Format(
    "csv",
    1,
    write,
    runs=f"python -c \"import pandas; print(pandas.read_csv('{MACHINES}', comment='#'))\"",
    largest=1000,
    because="it lists every pair of machines in a row",
    carries_devices=True,
)
