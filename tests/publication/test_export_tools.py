"""Proof in other tools: pypowsybl, matpowercaseframes, Octave, python-control and pandas read what
a release is written as.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cli_helpers import make_release
from detailed_releases import demo as detailed_demo
from gridveil.dynamics.simulate import eigenvalues
from gridveil.publication.export import FORMATS, export

OCTAVE = shutil.which("octave-cli")
needs_compiler = pytest.mark.skipif(
    not shutil.which("c++"), reason="no compiler that CMake takes is installed"
)
needs_octave = pytest.mark.skipif(OCTAVE is None, reason="Octave is not installed")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return make_release(tmp_path_factory.mktemp("release"), demo=True, publish_loads=True)


def written(release, to, folder):
    for name, content in export(release, to).items():
        (folder / name).write_bytes(content)
    return folder


def run_line(line, folder):
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "200",
    }
    return subprocess.run(
        line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    "to",
    [
        *("csv", "statespace", "modelica", "matrices"),
        *(pytest.param(to, marks=needs_octave) for to in ("matpower", "mat")),
        pytest.param("fmu", marks=needs_compiler),
    ],
)
def test_the_line_that_is_printed_runs(release, to, tmp_path):
    """Of andes and psse, in test_export_andes."""
    expected = {
        "csv": {*release.model.machines},
        "statespace": {f"{abs(value):.4g}" for value in eigenvalues(release.model)},
        "modelica": {"P_G1", "f_L1"},
        "matrices": {"x_omega_G1 [p.u. frequency]"},
        "fmu": {"Built target gridveil_release"},
        "matpower": {"360"},
        "mat": {"p.u. power / rad"},
    }
    said = run_line(FORMATS[to].runs, written(release, to, tmp_path))
    assert [words for words in expected[to] if words not in said] == []


def test_lines_of_a_detailed_release_name_files_that_are_written(tmp_path):
    release = detailed_demo()
    for to, format_ in FORMATS.items():
        if format_.write_detailed is not None:
            line, files = format_.line(detailed=True), export(release, to)
            named = re.findall(r"\w+\.(?:json|raw|dyr|mat|mo|fmu|csv)", line)
            assert {*named} - {"response.csv"} <= {*files}, to
    if OCTAVE:
        said = run_line(FORMATS["mat"].line(detailed=True), written(release, "mat", tmp_path))
        assert "G1 machine.delta" in said


def test_pypowsybl_reads_the_raw_file(release, tmp_path):
    import pypowsybl

    network = pypowsybl.network.load(str(written(release, "psse", tmp_path) / "psse.raw"))
    model, lines = release.model, network.get_lines()
    base_ohm = 1.0 / model.base_mva  # 1 kV² / MVA
    assert np.allclose(1 / (lines["x"].sort_index() / base_ohm), model.k_r, rtol=1e-9)
    assert (lines["r"] == 0).all()
    assert (
        len(network.get_buses()) == len(network.get_generators()) == len(network.get_loads()) == 3
    )
    flow = pypowsybl.loadflow.run_ac(network)[0]
    assert flow.status == pypowsybl.loadflow.ComponentStatus.CONVERGED


def test_pypowsybl_answers_a_load_step_as_the_network_of_the_release(release, tmp_path):
    """DC power flow of 1 MW from machine 1 to machine 3: differences of angles by the model's own
    Laplacian.
    """
    import pypowsybl

    network = pypowsybl.network.load(str(written(release, "psse", tmp_path) / "psse.raw"))
    loads = network.get_loads().index.sort_values()
    network.update_loads(id=loads[2], p0=1.0)
    parameters = pypowsybl.loadflow.Parameters(distributed_slack=False)
    pypowsybl.loadflow.run_dc(network, parameters)
    angles = np.deg2rad(network.get_buses()["v_angle"].sort_index().to_numpy())
    (k12, k13, k23), base = release.model.k_r, release.model.base_mva
    L = np.array([[k12 + k23, -k23], [-k23, k13 + k23]])  # machine 1 is the reference
    assert np.allclose(angles[1:] - angles[0], np.linalg.solve(L, [0, -1.0 / base]), rtol=1e-6)


def test_matpowercaseframes_reads_the_case(release, tmp_path):
    from matpowercaseframes import CaseFrames

    case, model = (
        CaseFrames(str(written(release, "matpower", tmp_path) / "gridveil_case.m")),
        release.model,
    )
    assert case.baseMVA == model.base_mva
    assert np.allclose(1 / case.branch["BR_X"], model.k_r, rtol=1e-12)
    assert case.bus["BUS_TYPE"].tolist() == [3, 2, 2]
    assert case.gen["GEN_BUS"].tolist() == [1, 2, 3]


@needs_octave
def test_octave_reads_the_case_with_its_dynamics(release, tmp_path):
    script = """
    mpc = gridveil_case;
    printf("%.17g ", 1 ./ mpc.branch(:, 4), mpc.gridveil_machines', mpc.gridveil_K_ac');
    printf("%.17g ", mpc.gridveil_loads, mpc.baseMVA, mpc.gridveil_omega_b);
    printf("%.17g ", numel(mpc.gridveil_ports), mpc.gridveil_demo);
    """
    folder, model = written(release, "matpower", tmp_path), release.model
    done = subprocess.run(
        [OCTAVE, "--eval", script], cwd=folder, capture_output=True, text=True, check=True
    )
    machines = np.column_stack([model.m, model.d, model.governor_rate, model.droop_gain])
    expected = [
        model.k_r,
        machines.ravel(),
        model.K_ac.ravel(),
        model.loads,
        [100.0, model.omega_b, 5, 1],
    ]
    assert np.allclose(
        np.array(done.stdout.split(), dtype=float), np.concatenate(expected), rtol=1e-12
    )


@needs_octave
def test_octave_reads_the_mat_file(release, tmp_path):
    script = (
        'r = load("release.mat"); printf("%.17g ", r.k_r, r.K_ac, r.omega_b); printf("%s ", '
        "r.machines{:}, r.units.m);"
    )
    folder, model = written(release, "mat", tmp_path), release.model
    done = subprocess.run(
        [OCTAVE, "--eval", script], cwd=folder, capture_output=True, text=True, check=True
    )
    numbers = [*model.k_r, *model.K_ac.ravel(order="F"), model.omega_b]
    found = done.stdout.split()
    assert np.array_equal(np.array(found[: len(numbers)], dtype=float), numbers)
    assert " ".join(found[len(numbers) :]) == "G1 G2 G3 p.u. power * s / p.u. frequency"


def test_python_control_answers_as_the_release_does(release, tmp_path):
    import control
    from scipy.io import loadmat

    s = loadmat(written(release, "statespace", tmp_path) / "statespace.mat")
    names = {
        kind: [str(cell[0]) for cell in s[kind].ravel()] for kind in ("states", "inputs", "outputs")
    }
    system = control.ss(s["A"], s["B"], s["C"], s["D"], **names)
    ours = release.simulate("load:L1=+0.1", horizon_s=5, dt_s=0.01, buses=release.model.ports)
    step = np.zeros((len(names["inputs"]), len(ours.time_s)))
    step[names["inputs"].index("load_L1")] = 0.1
    theirs = control.forced_response(system, ours.time_s, step).outputs.T
    assert np.allclose(theirs, ours.omega, atol=1e-9 * np.abs(ours.omega).max())
