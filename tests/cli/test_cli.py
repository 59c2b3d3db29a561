"""The five commands from end to end: what they write, what they say, and what they charge."""

import inspect
import json
import shutil
from fractions import Fraction

import numpy as np
import pytest

from cli_helpers import as_json, charges, gridveil, gridveil_process, write_grid
from gridveil import load, open_grid, verify
from gridveil.cli.release import release as release_command
from gridveil.grid.parameters import PARAMETERS, Bounds, Range
from gridveil.planning.profiles import PROFILES
from gridveil.workflow.settings import ReleaseSettings
from measured_helpers import signal, write_measured

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)


@pytest.fixture(autouse=True)
def ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "ledger.sqlite"))
    return tmp_path / "ledger.sqlite"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    given = ["--epsilon=1/2", "--ledger", folder / "ledger", "--out", folder / "bundle"]
    assert gridveil("release", write_grid(folder), *given).code == 0
    return folder / "bundle"


# --- demo -----------------------------------------------------------------------------------------


def test_the_demo_writes_a_bundle_and_a_figure_and_says_what_it_did(tmp_path, ledger):
    done = gridveil("demo", "star5", "--out", tmp_path / "out")
    assert done.code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"bundle", "frequency.png"}
    assert (tmp_path / "out" / "frequency.png").read_bytes().startswith(b"\x89PNG")
    release = load(tmp_path / "out" / "bundle")
    said = " ".join(done.out.split())
    for words in (
        "DEMO: ε = 1/2, adjacency one-asset",
        "k every item 1 p.u. power / rad 1/2 2 p.u. power / rad ",
        "m every item 1 p.u. power * s / p.u. frequency 1/4 4 p.u. power * s / p.u. frequency ",
        "d every item 1 p.u. power / p.u. frequency 1/4 4 p.u. power / p.u. frequency ",
        "this release protects nothing",
        "Conditional on: the case's own answer to +20 % load (simulated from the "
        "source: demo only)",
        f"J of the noisy model {release.fitted.mismatch_before:.3e}, of the fitted one "
        f"{release.fitted.mismatch_after:.3e}",
        f"gridveil verify {tmp_path / 'out' / 'bundle'}",
    ):
        assert words in said
    assert release.fitted.mismatch_after < release.fitted.mismatch_before / 100
    assert [one.origin for one in release.provenance] == ["simulated"]
    assert release.demo
    assert charges(ledger) == []


def test_the_demo_repeats_itself_from_its_seed(tmp_path):
    for name in ("a", "b"):
        assert gridveil("demo", "star5", "--seed=3", "--out", tmp_path / name).code == 0
    a, b = (
        as_json(gridveil("verify", tmp_path / name / "bundle", "--json"))["digest"]
        for name in ("a", "b")
    )
    assert a == b
    assert (tmp_path / "a" / "frequency.png").read_bytes() == (
        tmp_path / "b" / "frequency.png"
    ).read_bytes()


def test_the_demo_as_json(tmp_path, ledger):
    found = as_json(gridveil("demo", "star5", "--epsilon=0.3", "--out", tmp_path / "out", "--json"))
    assert found["demo"] is True
    assert found["guarantee"]["epsilon"] == "3/10"
    assert found["guarantee"]["groups"]["m"]["scale"] == pytest.approx(1 / 0.15)
    assert "demo only" in found["guarantee"]["conditional_on"][0]
    assert found["mismatch_after_pu2_s"] < found["mismatch_before_pu2_s"]
    assert found["worst_error_fitted_mhz"] < found["worst_error_noisy_mhz"]
    assert found["converged"] is True
    assert as_json(gridveil("verify", found["bundle"], "--json"))["digest"] == found["digest"]
    assert charges(ledger) == []


@pytest.mark.slow
def test_the_demo_of_ieee30_wins_the_dynamics_back(tmp_path):
    done = gridveil_process("demo", "--out", "out", "--json", cwd=tmp_path)
    found = json.loads(done.out)
    assert (done.code, found["converged"]) == (0, True)
    assert found["mismatch_after_pu2_s"] < found["mismatch_before_pu2_s"] / 100


# --- inspect --------------------------------------------------------------------------------------


def test_inspect_shows_the_public_facts_of_ieee30():
    found = as_json(gridveil("inspect", "ieee30", "--json"))
    counts = {
        name: found[name]
        for name in ("buses", "lines", "machines", "loaded_buses", "total_load_mw", "frequency_hz")
    }
    assert counts == {
        "buses": 30,
        "lines": 41,
        "machines": 6,
        "loaded_buses": 21,
        "total_load_mw": 283.4,
        "frequency_hz": 60.0,
    }
    assert {bus: found["public_names"][bus] for bus in ("1", "2", "5", "8", "11", "13", "3")} == {
        "1": "G1", "2": "G2", "5": "G3", "8": "G4", "11": "G5", "13": "G6", "3": "L1"
    }  # fmt: skip
    said = gridveil("inspect", "ieee30").out
    for words in ("283.4", "what a release protects", "p.u. power / rad", "1: G1, 2: G2, 5: G3"):
        assert words in said


def test_inspect_takes_the_options_of_a_file(tmp_path):
    grid = write_grid(tmp_path)
    found = as_json(
        gridveil("inspect", grid, "--frequency-hz=50", "--operating-point=flat", "--json")
    )
    assert found["omega_b_rad_s"] == pytest.approx(2 * np.pi * 50)
    assert found["operating_point"].startswith("flat")
    assert found["loads_published"] is False


# --- release --------------------------------------------------------------------------------------


def test_a_release_is_charged_once_with_what_it_spent(tmp_path, ledger):
    found = as_json(
        gridveil(
            "release", write_grid(tmp_path), "--epsilon=1/2", "--out", tmp_path / "out", "--json"
        )
    )
    (entry,) = charges(ledger)
    groups = found["guarantee"]["groups"]
    assert (entry.state, entry.digest) == ("published", found["digest"])
    assert (entry.lineage, entry.rule, entry.epsilon) == ("private", "one-asset", HALF)
    assert entry.alpha == {"k": 1, "m": 1, "d": 1}
    assert entry.spent == {name: groups[name]["spent"] for name in "kmd"}
    pair = groups["m"]["drawn"]
    assert pair.startswith("hexagon-")
    assert {name: groups[name]["drawn"] for name in "kmd"} == {"k": "items", "m": pair, "d": pair}
    # lines and machines do not share ε, and a pair has one loss
    shares = {name: Fraction(groups[name]["epsilon"]) for name in "kmd"}
    assert shares == dict.fromkeys("kmd", HALF)
    assert {name: groups[name]["scale"] for name in "kmd"} == pytest.approx(
        {n: float(1 / e) for n, e in shares.items()}
    )
    assert found["guarantee"]["conditional_on"] == []
    assert "Unconditional" in found["guarantee"]["in_words"]
    assert (found["demo"], found["ledger"]) == (False, str(ledger))
    assert as_json(gridveil("verify", found["bundle"], "--json")) == {
        "ok": True,
        "path": found["bundle"],
        "demo": False,
        "epsilon": "1/2",
        "adjacency": "one-asset",
        "machines": 3,
        "files": [
            "README.md",
            "SHA256SUMS",
            "card.html",
            "certificate.json",
            "certificate.txt",
            "ensemble.mat",
            "model.mat",
            "reference.csv",
            "release.json",
        ],
        "digest": found["digest"],
        "signed_by": None,
        "trusted": False,
        "noise": {
            name: f"on {drawn}, of scale {groups[name]['scale']:.6g} {groups[name]['unit']}, for α "
            f"= 1 {groups[name]['unit']}"
            for name, drawn in (("k", "every item"), ("m", "their sum"), ("d", "their sum"))
        },
        "exports": [],
        "not_recomputed": [],
        "repacked": False,
        "ignored": 0,
        "verdict": None,
        "ignored_notices": [],
    }


def test_every_release_is_charged_summed_and_refused_beyond_the_budget(tmp_path, ledger):
    assert gridveil("ledger", "register", "star5", "star5").code == 0
    assert gridveil("ledger", "budget", "star5", "--epsilon=0.6").code == 0
    done = gridveil("ledger", "budget", "star6", "--epsilon=0.6")
    assert (done.code, "Did you mean star5?" in done.err) == (2, True)
    asked = enumerate(("1/2", "0.1", "1/9"))
    done = [
        gridveil("release", "star5", f"--epsilon={epsilon}", "--out", tmp_path / str(n))
        for n, epsilon in asked
    ]
    assert [entry.epsilon for entry in charges(ledger)] == [HALF, Fraction(1, 10)]
    assert "ε = 0.6 spent, " in done[1].out
    assert done[2].code == 2
    assert "does not cover ε = 1/9" in done[2].err
    assert not (tmp_path / "2").exists()


def test_several_draws_say_what_they_cost_before_they_start(tmp_path, ledger):
    done = gridveil(
        "release", "star5", "--epsilon=1/10", "--count=3", "--out", tmp_path / "out.zip"
    )
    assert "3 draws at ε = 1/10 each cost ε = 3/10 together" in done.err
    assert "has no ε bound" in done.err
    assert sorted(path.name for path in tmp_path.glob("*.zip")) == [
        "out-1.zip",
        "out-2.zip",
        "out-3.zip",
    ]
    assert [entry.state for entry in charges(ledger)] == ["published"] * 3
    assert gridveil("ledger", "budget", "star5", "--epsilon=1/2").code == 0
    done = gridveil("release", "star5", "--epsilon=1/10", "--count=3", "--out", tmp_path / "more")
    assert (done.code, len(charges(ledger))) == (2, 3)
    assert "does not cover 3 draws at ε = 1/10: 0.2 is left" in done.err


def test_a_release_says_what_it_promises(tmp_path):
    done = gridveil("release", "star5", "--epsilon=1/2", "--out", tmp_path / "out.zip")
    said = " ".join(done.out.split())
    for words in (
        "ε = 1/2, adjacency one-asset",
        "k every item 1 p.u. power / rad 1/2 2 p.u. power / rad ",
        "changes an observer's odds between them by at most e^(ε t/α)",
        "Conditional on: nothing",
        f"Bundle {tmp_path / 'out.zip'}",
        f"gridveil verify {tmp_path / 'out.zip'}",
    ):
        assert words in said
    assert "DEMO" not in said


def test_two_releases_differ(tmp_path):
    assert (
        gridveil("release", "star5", "--epsilon=1/2", "--count=2", "--out", tmp_path / "out").code
        == 0
    )
    assert not np.isin(load(tmp_path / "out-1").model.k_r, load(tmp_path / "out-2").model.k_r).any()


def test_profile_paper_is_one_per_group_with_a_third_of_epsilon_each(tmp_path, ledger):
    found = as_json(
        gridveil(
            "release",
            "star5",
            "--epsilon=1/2",
            "--profile=paper",
            "--out",
            tmp_path / "out",
            "--json",
        )
    )
    assert found["guarantee"]["adjacency"] == "one-per-group"
    for group in found["guarantee"]["groups"].values():
        assert (group["alpha"], group["epsilon"]) == ("1", "1/6")
        assert 6 <= group["scale"] < 6.0001
    assert load(tmp_path / "out").bounds == PROFILES["paper"].bounds
    assert charges(ledger)[0].rule == "one-per-group"


def test_release_toml_knows_every_option():
    assert (
        set(inspect.signature(release_command).parameters)
        - {"config", "json", "yes", "dry_run", "plot"}
        == ReleaseSettings.keys()
    )


EVERY_OPTION = """
grid = "{grid}"
mechanism = "items"
share-by = "equal"
merge-loads = "equal"
epsilon = "1/2"
adjacency = "one-item"
alpha = "k=2,m=0.5,d=3"
split = "k=1,m=1/2,d=1/4"
bounds = "k=2:90,k_r=0.5:150,m=3:30,d=1:25"
profile = "default"
trajectory = "{trajectory}"
out = "{out}"
ledger = "{ledger}"
witness = "{ledger}.witness"
lineage = "mine"
count = 1
formats = "andes, csv"
bounds_origin = "a public study"
publish_loads = true
dynamics = "{dynamics}"
inertia = 10
damping = 5.0
governor_rate = 4
droop_gain = 30.0
load_damping = 0.5
frequency_hz = 50
omega_b = 314.0
operating_point = "flat"
base = "system"
negative_x = "abs"
zero_x = "merge"
island = "largest"
taps = "ignore"
without_dynamics = "drop"
model = "swing"
form = "reduced"
unknown_devices = "refuse"
without_machine = "refuse"
zip = "Z"
"""


def write_short(folder, nominal_hz):
    """A record of two seconds before and two after an event."""
    times = np.arange(201) / 50
    return write_measured(
        folder,
        times,
        nominal_hz * (1 + signal(times)),
        nominal_hz=nominal_hz,
        locations={"north": "1"},
    )


@pytest.fixture
def config(tmp_path):
    grid = write_grid(tmp_path / "in")
    dynamics = grid.with_suffix(".toml").rename(tmp_path / "elsewhere.toml")
    path = tmp_path / "release.toml"
    places = {
        "grid": grid,
        "dynamics": dynamics,
        "out": tmp_path / "out.zip",
        "ledger": tmp_path / "other.sqlite",
    }
    places["trajectory"] = write_short(tmp_path / "measured", 50.0)
    path.write_text(EVERY_OPTION.format(**places))
    return path


def test_release_toml_holds_every_option(config, ledger):
    # All but a surrogate, which has nothing to choose where a split is given, and treatments, which
    # swing models have not.
    others = ReleaseSettings.keys() - {"surrogate", "treatments"}
    assert len(EVERY_OPTION.strip().splitlines()) == len(others)
    found = as_json(gridveil("release", "--config", config, "--json"))
    groups = found["guarantee"]["groups"]
    assert {name: (groups[name]["alpha"], groups[name]["epsilon"]) for name in "kmd"} == {
        "k": ("2", "1/2"),
        "m": ("1/2", "1/4"),
        "d": ("3", "1/8"),
    }
    assert found["lineage"] == "mine"
    assert [one["file"] for one in found["trajectories"]] == ["record.toml"]
    assert verify(config.parent / "out.zip").exports == ("andes", "csv")
    release = load(config.parent / "out.zip")
    assert release.guarantee.rule == "one-item"
    assert release.guarantee.operating_point.startswith("flat")
    ranges = {"k": Range(2, 90), "k_r": Range(0.5, 150), "m": Range(3, 30), "d": Range(1, 25)}
    assert release.bounds == Bounds(ranges, origin="a public study")
    assert (release.model.frequency_hz, release.model.omega_b) == (50, 314)
    assert release.model.governor_rate.tolist() == [4, 4, 4]
    assert release.model.droop_gain.tolist() == [30, 30, 30]
    assert release.model.loads.tolist() == [0.1, 0.2, 0, 0.4, 0.3]
    assert len(charges(config.parent / "other.sqlite")) == 1
    assert charges(ledger) == []


def test_options_win_over_release_toml(config, ledger):
    given = [
        "--epsilon=1",
        "--adjacency=one-asset",
        "--alpha=k=4",
        "--split=k=1,m=1/2,d=1/2",
        "--bounds=k=5:50",
    ]
    given += [
        "--out",
        config.parent / "mine",
        "--ledger",
        ledger,
        "--withhold-loads",
        "--frequency-hz=60",
        "--lineage=star",
    ]
    given += ["--load-damping=0", "--trajectory", write_short(config.parent / "other", 60.0)]
    found = as_json(gridveil("release", "star5", "--config", config, *given, "--json"))
    assert found["guarantee"]["epsilon"] == "1"
    assert found["guarantee"]["groups"]["k"]["alpha"] == "4"
    assert found["guarantee"]["groups"]["d"]["alpha"] == "3"  # what is not given stays
    release = load(config.parent / "mine")
    assert len(release.model.m) == 4
    assert (release.bounds["k"], release.bounds["m"]) == (Range(5, 50), Range(3, 30))
    assert np.isnan(release.model.loads).all()
    assert release.model.frequency_hz == 60
    assert [entry.lineage for entry in charges(ledger)] == ["star"]
    assert not (config.parent / "out.zip").exists()


def test_loads_are_published_only_if_somebody_says_so(tmp_path):
    grid = write_grid(tmp_path)
    for name, given, published in (("a", [], False), ("b", ["--publish-loads"], True)):
        ledger = tmp_path / f"{name}.sqlite"
        assert (
            gridveil(
                "release", grid, "--epsilon=1", "--out", tmp_path / name, "--ledger", ledger, *given
            ).code
            == 0
        )
        release = load(tmp_path / name)
        assert np.isfinite(release.model.loads).all() == published
        assert (
            json.loads((tmp_path / name / "release.json").read_text())["model"]["loads_published"]
            == published
        )


def test_the_owners_bus_names_stay_at_home(tmp_path):
    """Bus 30's name would be found if names went out; machines are G1 …, loaded buses L1 …."""
    assert gridveil("release", "ieee30", "--epsilon=1", "--out", tmp_path / "out").code == 0
    model, facts = load(tmp_path / "out").model, open_grid("ieee30").facts
    loaded = int((facts.loads[facts.interior] != 0).sum())
    assert model.ports == (
        *(f"G{n}" for n in range(1, 7)),
        *(f"L{n}" for n in range(1, loaded + 1)),
    )


# --- verify and simulate --------------------------------------------------------------------------


def test_verify_leaves_with_0_or_1(bundle, tmp_path):
    assert gridveil("verify", bundle).code == 0
    assert gridveil_process("verify", bundle, cwd=tmp_path).code == 0
    changed = shutil.copytree(bundle, tmp_path / "changed")
    (changed / "README.md").write_text("changed")
    assert gridveil("verify", changed).code == 1
    assert gridveil_process("verify", changed, cwd=tmp_path).code == 1


def test_simulate_answers_as_the_library_does(bundle, tmp_path):
    given = [
        "--event=load:G1=+0.1",
        "--event=gen:L1=-15MW@10s",
        "--horizon=20",
        "--dt=0.02",
        "--buses=G1, L2",
    ]
    found = as_json(
        gridveil(
            "simulate",
            bundle,
            *given,
            "--csv",
            tmp_path / "a.csv",
            "--plot",
            tmp_path / "a.png",
            "--json",
        )
    )
    release = load(bundle)
    again = release.simulate(
        "load:G1=+0.1; load:L1=+0.15@10s", horizon_s=20, dt_s=0.02, buses=["G1", "L2"]
    )
    assert [response["bus"] for response in found["responses"]] == ["G1", "L2"]
    low = [response["nadir_hz"] for response in found["responses"]]
    assert low == pytest.approx([response.nadir_hz for response in again.responses()], rel=1e-9)
    assert low == pytest.approx(again.deviation_hz.min(axis=0).tolist(), rel=2e-3)  # of samples
    gains = release.model.d.sum() + release.model.droop_gain.sum()
    assert [response["settling_hz"] for response in found["responses"]] == pytest.approx(
        [-60 * 0.25 / gains] * 2
    )
    whole = release.simulate("load:G1=+0.1; load:L1=+0.15@10s", horizon_s=20, dt_s=0.02)
    system = whole.deviation_hz @ release.model.m / release.model.m.sum()
    assert found["system"]["nadir_hz"] == pytest.approx(system.min(), rel=2e-3)
    assert found["system"]["initial_rocof_hz_s"] == pytest.approx(
        -60 * 0.15 / release.model.m.sum()
    )
    assert [mode["frequency_hz"] for mode in found["modes"]] == [
        mode.frequency_hz for mode in release.modes()
    ]
    table = np.loadtxt(tmp_path / "a.csv", delimiter=",", skiprows=1)
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == "time_s,omega_G1_pu,omega_L2_pu"
    assert np.allclose(table, np.column_stack([again.time_s, again.omega]), rtol=1e-12, atol=0)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (found["plot"], found["csv"]) == (str(tmp_path / "a.png"), str(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")]
)
def test_simulate_draws_in_three_formats(bundle, tmp_path, name, start):
    done = gridveil("simulate", bundle, "--event=load:G1=0.1", "--plot", tmp_path / name)
    assert done.code == 0
    assert (tmp_path / name).read_bytes().startswith(start)
    for words in (
        "System   inertia-weighted",
        "nadir [Hz]",
        "RoCoF over 0.5 s [Hz/s]",
        "settles at [Hz]",
        "damping ratio [%]",
        str(tmp_path / name),
    ):
        assert words in done.out


def test_the_figure_is_the_same_file_twice(bundle, tmp_path):
    """No time and no program's name in it."""
    for name in ("a.svg", "b.svg", "a.pdf", "b.pdf", "a.png", "b.png"):
        assert (
            gridveil("simulate", bundle, "--event=load:G1=0.1", "--plot", tmp_path / name).code == 0
        )
    for kind in ("svg", "pdf", "png"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes(), kind


# --- help and screens -----------------------------------------------------------------------------

INERTIA, DAMPING = "p.u. power s / p.u. frequency", "p.u. power / p.u. frequency"
MACHINES = {
    "inertia": INERTIA,
    "damping": DAMPING,
    "governor-rate": "1/s",
    "droop-gain": DAMPING,
    "load-damping": DAMPING,
    "frequency-hz": "Hz",
    "omega-b": "rad/s",
}
PROTECTED = ", ".join(f"{p.name} [{p.unit}]" for p in PARAMETERS.values()).removeprefix("k [")
UNITS = {
    "demo": {},
    "inspect": MACHINES,
    "plan": MACHINES
    | {
        "alpha": PROTECTED,
        "bounds": PROTECTED,
    }
    | {
        "nadir-error": "mHz, Hz or %",
        "rocof-error": "mHz/s, Hz/s or %",
        "settling-error": "mHz, Hz or %",
    },
    "release": MACHINES
    | {
        "alpha": PROTECTED,
        "bounds": PROTECTED,
    },
    "leakage": MACHINES
    | {
        "alpha": PROTECTED,
        "bounds": PROTECTED,
    },
    "verify": {},
    "simulate": {"horizon": "s", "dt": "s", "csv": "s, p.u."},
}


@pytest.mark.parametrize("command", UNITS)
def test_help_gives_every_quantity_its_unit(command):
    done = gridveil(command, "--help")
    assert done.code == 0
    texts = {text.split()[0]: text for text in " ".join(done.out.split()).split(" --")[1:]}
    for option, unit in UNITS[command].items():
        assert f"[{unit}" in texts[option], option


def test_help_of_release_has_plain_headings_and_the_common_options_first():
    done = gridveil("release", "--help")
    headings = [line for line in done.out.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == [
        f"{name}:"
        for name in ("Arguments", "Common options", "Grid", "Privacy", "Fit", "Output", "Options")
    ]
    common = done.out.partition("Common options:")[2].partition("Grid:")[0]
    listed = [line.split()[0] for line in common.splitlines() if line.startswith("  --")]
    assert len(listed) == 10
    assert listed[0] == "--epsilon"
    every = {f"--{name.replace('_', '-')}" for name in ReleaseSettings.keys() - {"grid"}}
    assert every <= set(done.out.replace(" / ", " ").split())


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (("release", "star5", "--epsilom=1"), "Did you mean --epsilon?"),
        (("release", "star5", "--alpha-k=1"), "Did you mean --alpha?"),
        (("plan", "star5", "--bounds-k", "1:2"), "Did you mean --bounds?"),
        (("relase", "star5"), "Did you mean 'release'?"),
    ],
)
def test_an_unknown_option_names_the_nearest_one(arguments, nearest):
    done = gridveil(*arguments)
    assert (done.code, nearest in done.err) == (2, True), done.err


@pytest.mark.parametrize("command", [("plan", "star5", "--nadir-error", "5%"), ("paper",)])
def test_a_gpu_that_is_not_there_is_named_before_anything_is_computed(
    command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for library in ("torch", "cupy"):
        monkeypatch.setattr(f"gridveil.dynamics.engine.compute._by_{library}", lambda: None)
    done = gridveil(*command, "--compute", "gpu")
    assert (done.code, "There is no GPU that torch or CuPy can use here" in done.err) == (2, True)
    done = gridveil(*command, "--compute", "tpu")
    assert (done.code, "tpu" in done.err, list(tmp_path.iterdir())) == (2, True, [])


def test_an_unknown_key_of_release_toml_names_the_nearest_one(tmp_path):
    (tmp_path / "release.toml").write_text('grid = "star5"\nepsilom = 1\n')
    done = gridveil("release", "--config", tmp_path / "release.toml")
    assert (done.code, "Did you mean epsilon?" in done.err) == (2, True), done.err


def test_a_shell_completes_options(tmp_path):
    asked = {"COMP_WORDS": "gridveil release --al", "COMP_CWORD": "2"}
    done = gridveil_process(cwd=tmp_path, _GRIDVEIL_COMPLETE="complete_bash", **asked)
    assert (done.code, done.out.split()) == (0, ["--alpha"])


def test_without_a_command_all_of_them_are_listed():
    done = gridveil("--help")
    assert done.code == 0
    assert [name for name in UNITS if f"\n  {name} " in done.out] == list(UNITS)


def test_a_screen_that_knows_no_greek_does_not_stop_a_release(tmp_path):
    arguments = ("release", "star5", "--epsilon=1/2", "--out", "out")
    done = gridveil_process(*arguments, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (done.code, "internal error" in done.err) == (0, False)
    assert "Bundle   out" in done.out
    done = gridveil_process(*arguments, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (done.code, done.out) == (2, "")
    assert "exists already" in done.err


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("perturb_planned", "nothing was spent"),
        ("reduce", "ε = 1/2 was charged to the lineage star5"),
    ],
)
def test_an_interrupt_says_what_it_cost(tmp_path, ledger, monkeypatch, step, said):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"gridveil.workflow.publish.{step}", interrupt)
    done = gridveil("release", "star5", "--epsilon=1/2", "--out", tmp_path / "out")
    assert done.code == 130
    assert said in done.err
    assert not (tmp_path / "out").exists()
    assert len(charges(ledger)) == (step == "reduce")


def test_a_lone_table_is_told_from_a_file_that_is_not_there(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n", encoding="utf-8")
    done = gridveil("inspect", tmp_path / "x.csv")
    assert (done.code, "a table is no whole grid" in done.err) == (2, True)
    assert "gridveil record init" in done.err
    for name in ("nowhere.csv", "nowhere.py"):
        done = gridveil("inspect", tmp_path / name)
        assert (done.code, "there is no such file" in done.err) == (2, True)


def test_a_release_says_which_folder_it_makes(tmp_path, ledger):
    place = tmp_path / "new" / "parents" / "out"
    done = gridveil("release", "star5", "--epsilon=1/2", "--out", place)
    assert done.code == 0
    assert f"gridveil: {place.parent} is not there yet, and is made for the bundle.\n" in done.err
    done = gridveil("release", "star5", "--epsilon=1/2", "--lineage=b", "--out", place.parent / "b")
    assert "is not there yet" not in done.err
