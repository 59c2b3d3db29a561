"""MATPOWER: a case file with extra fields for dynamics, and the TOML that gridveil reads."""

from __future__ import annotations

from collections.abc import Iterable

from gridveil.dynamics.events import Event
from gridveil.dynamics.models import ReducedModel
from gridveil.grid.parameters import DECLARED
from gridveil.publication.document import EQUATIONS, model_units
from gridveil.publication.export.common import (
    BASE_KV,
    Format,
    about,
    governed,
    lines,
    reference_machines,
)
from gridveil.publication.release import Release

NAME = "gridveil_case"
CASE, DYNAMICS = f"{NAME}.m", f"{NAME}.toml"
BUS = "bus_i type Pd Qd Gs Bs area Vm Va baseKV zone Vmax Vmin"
GEN = (
    "bus Pg Qg Qmax Qmin Vg mBase status Pmax Pmin Pc1 Pc2 Qc1min Qc1max Qc2min Qc2max ramp_agc "
    "ramp_10 ramp_30 ramp_q apf"
)
BRANCH = "fbus tbus r x b rateA rateB rateC ratio angle status angmin angmax"


def write(release: Release, event: Event | None) -> dict[str, bytes]:
    """Write the network at rest (no load, 1 p.u. voltage), r = 0, x = 1/k_r, and dynamics."""
    del event
    return {CASE: _case(release).encode("ascii"), DYNAMICS: _dynamics(release).encode("ascii")}


def _case(release: Release) -> str:
    model, base = release.swing, release.swing.base_mva
    reference = reference_machines(model)
    numbers = range(1, len(model.machines) + 1)
    unit = [
        f"{name} [{model_units()[name]}]"
        for name in (*model.of_machines, "governor_rate", "droop_gain", "loads", "K_ac")
    ]
    columns = zip(
        *(values.tolist() for values in model.of_machines.values()),
        model.governor_rate.tolist(),
        model.droop_gain.tolist(),
        strict=True,
    )
    parts = [
        f"function mpc = {NAME}",
        *(f"% {line}" for line in (*about(release), *EQUATIONS)),
        "mpc.version = '2';",
        f"mpc.baseMVA = {base!r};",
        f"% {BUS} [MW, Mvar, p.u., deg, kV]",
        *_matrix(
            "bus",
            (
                (n, 3 if n in reference else 2, 0, 0, 0, 0, 1, 1, 0, BASE_KV, 1, 1.1, 0.9)
                for n in numbers
            ),
        ),
        f"% {GEN} [MW, Mvar, p.u., MVA]",
        *_matrix(
            "gen", ((n, 0, 0, 9999, -9999, 1, base, 1, 9999, -9999, *([0] * 11)) for n in numbers)
        ),
        f"% {BRANCH} [p.u., MVA, deg]",
        *_matrix(
            "branch",
            (
                (branch.start, branch.end, 0, branch.x, 0, 0, 0, 0, 0, 0, 1, -360, 360)
                for branch in lines(model)
            ),
        ),
        f"% {'; '.join(unit[:-2])}",
        *_matrix("gridveil_machines", columns),
        "% the machines, then the loaded buses, which are no nodes of this network",
        *_names("gridveil_ports", model.ports),
        f"% {unit[-2]}, of every port; NaN if withheld",
        *_matrix("gridveil_loads", ([load] for load in model.loads.tolist())),
        f"% {unit[-1]}: share of the load at a loaded bus (column) that each machine (row) feels",
        *_matrix("gridveil_K_ac", model.K_ac.tolist()),
        f"mpc.gridveil_omega_b = {model.omega_b!r};",
        f"mpc.gridveil_frequency_hz = {model.frequency_hz!r};",
        f"mpc.gridveil_demo = {int(release.demo)};",
    ]
    return "\n".join([*parts, ""])


def _dynamics(release: Release) -> str:
    model = release.swing
    parts = [
        *(f"# {line}" for line in about(release)),
        f"# The dynamics of {CASE}, as gridveil reads them: gridveil inspect {CASE}",
        "[dynamics]",
        f"omega_b = {model.omega_b!r}  # [{model_units()['omega_b']}]",
        f"frequency_hz = {model.frequency_hz!r}  # [Hz]",
        'operating_point = "flat"  # k = 1/x, as it stands',
    ]
    for n in range(1, len(model.machines) + 1):
        parts += [f"[machines.{n}]  # {model.machines[n - 1]}", *_machine(model, n)]
    return "\n".join([*parts, ""])


def _machine(model: ReducedModel, n: int) -> Iterable[str]:
    """A governor that never moves (T = 0) is one without gain."""
    acts = n in governed(model)
    values = {
        **{
            DECLARED[name].title: (name, values[n - 1])
            for name, values in model.of_machines.items()
        },
        "governor_rate": ("governor_rate", model.governor_rate[n - 1] if acts else 1.0),
        "droop_gain": ("droop_gain", model.droop_gain[n - 1] if acts else 0.0),
    }
    return (
        f"{key} = {float(value)!r}  # [{model_units()[name]}]"
        for key, (name, value) in values.items()
    )


def _matrix(name: str, rows: Iterable[Iterable[float]]) -> list[str]:
    return [
        f"mpc.{name} = [",
        *("  " + " ".join(_number(value) for value in row) + ";" for row in rows),
        "];",
    ]


def _names(name: str, texts: Iterable[str]) -> list[str]:
    return [f"mpc.{name} = {{", *(f"  '{text}';" for text in texts), "};"]


def _number(value: float) -> str:
    return "NaN" if value != value else repr(value)


FORMAT = Format(
    "matpower",
    1,
    write,
    runs=f'octave-cli --eval "mpc = {NAME}; disp(mpc.branch)"',
    largest=500,
    because="it lists every pair of machines as a branch",
)
