"""Bad input gets one clear line: the place, what was expected, the next step.

Nothing is written, charged or quoted.
"""

import json
import re

import numpy as np
import pytest

from cli_helpers import (
    DAMPING,
    INERTIA,
    X,
    charges,
    found_in,
    gridveil,
    gridveil_process,
    write_grid,
)
from measured_helpers import write_measured

PLANTED = np.array([float(value) for value in (*X, *INERTIA, *DAMPING)])


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "ledger.sqlite"))
    return tmp_path / "ledger.sqlite"


def assert_refused(done, *said):
    assert done.code == 2, done.err
    assert done.out == ""
    assert done.err.strip().count("\n") == 0, done.err
    assert "Traceback" not in done.err
    for words in said:
        assert words in done.err
    assert found_in(done.err.encode(), PLANTED) == []


def assert_refused_as_json(done, *said):
    document = json.loads(done.out)
    assert document.keys() == {"error", "outcome", "remedy"}
    assert all(document.values()), document
    assert_refused(done._replace(out=""), *said)
    assert found_in(done.out.encode(), PLANTED) == []


def assert_nothing_happens(folder, ledger, arguments, said):
    before = set(folder.rglob("*"))
    assert_refused(gridveil(*arguments), *said)
    assert_refused_as_json(gridveil(*arguments, "--json"), *said)
    assert set(folder.rglob("*")) - {ledger} == before
    assert charges(ledger) == []


# --- files ----------------------------------------------------------------------------------------


def cut_before(words):
    return lambda text: text[: text.index(words)]


def with_text(old, new):
    def change(text):
        assert old in text
        return text.replace(old, new)

    return change


BAD_FILES = {
    "empty": (lambda text: "", ["the file is empty", "expected a MATPOWER case", "copied whole"]),
    "blank": (
        lambda text: " \n\n",
        ["the file is empty", "expected a MATPOWER case", "copied whole"],
    ),
    "prose": (
        lambda text: "Dear reader,\n",
        ["line 1", "expected mpc.name = [ numbers ]", "savecase"],
    ),
    "cut inside a table": (
        cut_before("  3 5 0.01"),
        ["table mpc.branch", "line 18", "a closing bracket", "Copy the whole file"],
    ),
    "cut inside a row": (
        cut_before(X[2]),
        ["table mpc.branch, row 3, line 19", "expected 11", "Check whether the row was cut"],
    ),
    "cut inside names": (
        lambda text: text[: text.index("mpc.bus")] + "mpc.bus_name = {\n",
        ["mpc.bus_name", "line 4", "a closing bracket", "Copy the whole file"],
    ),
    "no branch table": (
        cut_before("mpc.branch"),
        ["no table mpc.branch", "expected a MATPOWER case", "copied whole"],
    ),
    "binary": (
        lambda text: text.replace("]", "\0"),
        ["a binary file", "expected a MATPOWER case (.m), in plain text"],
    ),
    "text in a number": (
        with_text(X[2], X[2] + "q"),
        [
            "table mpc.branch, row 3, line 19",
            "column 4 is not a number",
            "expected plain numbers",
            "Write the number out",
        ],
    ),
    "NaN": (
        with_text(X[2], "NaN"),
        ["table mpc.branch, row 3, line 19", "column 4 (x)", "a finite number", "Fix that row"],
    ),
    "inf": (
        with_text(X[2], "Inf"),
        ["table mpc.branch, row 3, line 19", "column 4 (x)", "a finite number", "Fix that row"],
    ),
    "NaN load": (
        with_text("4 1 40", "4 1 NaN"),
        ["table mpc.bus, row 4, line 8", "Pd", "a finite number", "Fix that row"],
    ),
    "unknown bus in branch": (
        with_text("  3 5 0.01", "  3 77 0.01"),
        [
            "table mpc.branch, row 3, line 19",
            "bus 77 is unknown",
            "a bus of the bus table",
            "Fix that row",
        ],
    ),
    "a reactance in the place of a bus": (
        with_text("  3 5 0.01", f"  3 {X[1]} 0.01"),
        ["table mpc.branch, row 3, line 19", "expected a bus of the bus table", "Fix that row"],
    ),
    "unknown bus in gen": (
        with_text("  3 30 0", "  77 30 0"),
        [
            "table mpc.gen, row 3, line 14",
            "bus 77 is unknown",
            "a bus of the bus table",
            "Fix that row",
        ],
    ),
    "a bus twice": (
        with_text("  5 1 30", "  4 1 30"),
        ["table mpc.bus, row 5, line 9", "bus 4 occurs twice", "Fix that row"],
    ),
    "x = 0": (
        with_text(X[2], "0"),
        ["table mpc.branch, row 3, line 19", "x of 1e-06 p.u. or more", "--zero-x merge"],
    ),
    "x < 0": (
        with_text(X[2], "-" + X[2]),
        ["table mpc.branch, row 3, line 19", "expected x above 0", "--negative-x abs"],
    ),
    "x too small": (
        with_text(X[2], "1e-320"),
        ["table mpc.branch, row 3, line 19", "x is zero, or next to it"],
    ),
    "a loop": (
        with_text("  3 5 0.01", "  3 3 0.01"),
        ["table mpc.branch, row 3", "two different buses", "Fix that row"],
    ),
    "disconnected": (
        lambda text: re.sub(r"  \d 5 0", "  3 4 0", text),
        [
            "2 islands",
            "1 buses with 0 machines around bus 5",
            "expected one island",
            "--island largest",
        ],
    ),
    "no machine": (
        lambda text: re.sub(r"(?s)mpc.gen = \[.*?\]", "mpc.gen = [\n]", text),
        ["mpc.gen is empty", "no machine", "at least one row"],
    ),
    "all machines out of service": (
        with_text("100 1 100 0;", "100 0 100 0;"),
        [
            "mpc.gen",
            "no machine is in service",
            "at least one generator",
            "Put a generator in service",
        ],
    ),
    "no base power": (
        with_text("mpc.baseMVA = 100;", ""),
        ["mpc.baseMVA", "a finite number above 0"],
    ),
    "a load beyond reach": (
        with_text("4 1 40", "4 1 4000"),
        ["does not converge", "a solvable", "--operating-point file"],
    ),
}


@pytest.mark.parametrize("command", ["inspect", "release"])
@pytest.mark.parametrize(("change", "said"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_refused(tmp_path, ledger, command, change, said):
    grid = write_grid(tmp_path / "in")
    grid.write_text(change(grid.read_text()))
    options = ["--epsilon", "1/2", "--out", tmp_path / "out"] if command == "release" else []
    assert_nothing_happens(tmp_path, ledger, [command, grid, *options], ["private.m", *said])


def test_a_missing_file_is_refused(tmp_path, ledger):
    said = [str(tmp_path / "nowhere.m"), "there is no such file", "Check the path"]
    for command in (["inspect"], ["release", "--epsilon", "1/2", "--out", tmp_path / "out"]):
        assert_nothing_happens(tmp_path, ledger, [*command, tmp_path / "nowhere.m"], said)


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path, ledger):
    (tmp_path / "folder.m").mkdir()
    assert_nothing_happens(
        tmp_path, ledger, ["inspect", tmp_path / "folder.m"], ["folder.m", "buses.csv"]
    )


def test_missing_dynamics_are_asked_for(tmp_path, ledger):
    grid = write_grid(tmp_path / "in")
    grid.with_suffix(".toml").unlink()
    arguments = ["release", grid, "--epsilon", "1/2", "--out", tmp_path / "out"]
    said = [
        "the machine at bus 1 (and 2 others) has no inertia",
        "expected a value for every machine",
        "Give --inertia",
    ]
    assert_nothing_happens(tmp_path, ledger, arguments, said)
    said = [
        "the machine at bus 1 (and 2 others) has no damping",
        "expected a value for every machine",
        "Give --damping",
    ]
    assert_nothing_happens(tmp_path, ledger, [*arguments, "--inertia", "10"], said)


def test_a_real_process_refuses_a_bad_file_in_one_line(tmp_path):
    write_grid(tmp_path, replace=(X[2], X[2] + "q"))
    done = gridveil_process(
        "release",
        "private.m",
        "--epsilon",
        "1/2",
        cwd=tmp_path,
        GRIDVEIL_LEDGER=str(tmp_path / "ledger"),
    )
    assert_refused(done, "private.m, table mpc.branch, row 3, line 19", "column 4 is not a number")
    assert {path.name for path in tmp_path.iterdir()} == {"private.m", "private.toml"}


# --- options --------------------------------------------------------------------------------------

NO_NUMBER = ["is not a positive number", "nothing was spent", "such as 1/2 or 0.5"]
BAD_OPTIONS = {
    "no epsilon": ([], ["--epsilon is missing", "Give --epsilon"]),
    **{
        f"epsilon {text}": ([f"--epsilon={text}"], [f"epsilon = {text}", *NO_NUMBER])
        for text in ("0", "-1", "nan", "inf", "abc")
    },
    **{
        f"epsilon {text}": ([f"--epsilon={text}"], ["epsilon", *NO_NUMBER])
        for text in ("", "1/0", "1e-400", "1e300", "1e-999999999", "1e999999999")
    },
    **{
        f"alpha {text}": (
            ["--epsilon=1/2", f"--alpha=m={text}"],
            [f"alpha of m = {text}", *NO_NUMBER],
        )
        for text in ("0", "-1")
    },
    "epsilon too small for noise": (
        ["--epsilon=1e-50"],
        ["no noise scale", "nothing was spent", "ordinary size"],
    ),
    "bounds reversed": (
        ["--epsilon=1/2", "--bounds=k=100:1"],
        ["--bounds k", "reversed", "lower < upper", "Swap"],
    ),
    "bounds equal": (["--epsilon=1/2", "--bounds=m=3:3"], ["--bounds m", "lower < upper", "widen"]),
    "bounds text": (
        ["--epsilon=1/2", "--bounds=k=low:high"],
        ["--bounds k", "two numbers", "such as 1:100"],
    ),
    "bounds of one number": (
        ["--epsilon=1/2", "--bounds=k=7"],
        ["--bounds k", "two numbers", "such as 1:100"],
    ),
    "bounds not finite": (
        ["--epsilon=1/2", "--bounds=d=1:inf"],
        ["--bounds d", "not finite", "two finite numbers"],
    ),
    "bounds from 0": (
        ["--epsilon=1/2", "--bounds=m=0:4"],
        ["lower bound of m", "above 0", "--bounds m="],
    ),
    "adjacency": (
        ["--epsilon=1/2", "--adjacency=all"],
        ["'all' is unknown", "one-asset, one-item, one-per-group"],
    ),
    "profile": (
        ["--epsilon=1/2", "--profile=best"],
        ["profile 'best' is unknown", "default, paper"],
    ),
    "split above epsilon": (
        ["--epsilon=1/2", "--split=k=1,m=1,d=1/2"],
        ["adds up to 3/2 of ε", "nothing was spent", "Lower the shares"],
    ),
    "split of two groups": (
        ["--epsilon=1/2", "--split=k=1,m=1"],
        ["split names k, m", "each of k, m, d"],
    ),
    "split unreadable": (
        ["--epsilon=1/2", "--split=halves"],
        ["split cannot be read", "such as k=1,m=1/2,d=1/2"],
    ),
    "share of 0": (["--epsilon=1/2", "--split=k=1,m=0,d=1/2"], ["share of m = 0", *NO_NUMBER]),
    "operating point": (
        ["--epsilon=1/2", "--operating-point=dc"],
        ["operating_point is unknown", "newton, file, flat"],
    ),
    "negative damping": (
        ["--epsilon=1/2", "--damping=-7.38291045672"],
        ["damping", "a finite number of 0 or more"],
    ),
    "dynamics file": (
        ["--epsilon=1/2", "--dynamics=nowhere.toml"],
        ["nowhere.toml", "cannot be read", "Check the path"],
    ),
    "config file": (
        ["--config=nowhere.toml"],
        ["nowhere.toml", "cannot be read", "Check the path"],
    ),
}


@pytest.mark.parametrize(("options", "said"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_a_bad_option_is_refused(tmp_path, ledger, options, said):
    arguments = ["release", write_grid(tmp_path / "in"), "--out", tmp_path / "out", *options]
    assert_nothing_happens(tmp_path, ledger, arguments, said)


@pytest.mark.parametrize("grid", ["ieee31", "", "."])
def test_an_unknown_grid_is_refused(tmp_path, ledger, grid):
    said = [f"{grid!r} is not known", "ieee30 or star5", "Check the name"]
    for arguments in (["inspect", grid], ["release", grid, "--epsilon=1/2", "--out", "out"]):
        assert_nothing_happens(tmp_path, ledger, arguments, said)
    assert_nothing_happens(tmp_path, ledger, ["demo", grid, "--out", "out"], ["ieee30 or star5"])


@pytest.mark.parametrize(
    "name", ["a" * 400, "a" * 400 + ".m", "a" * 400 + ".zip"], ids=["bare", "m", "zip"]
)
def test_a_name_that_is_too_long_is_refused(tmp_path, ledger, name):
    grid = write_grid(tmp_path / "in")
    for arguments in (
        ["inspect", name],
        ["release", name, "--epsilon=1/2", "--out", tmp_path / "out"],
        ["release", grid, "--epsilon=1/2", "--out", tmp_path / "out", "--surrogate", name],
        ["release", grid, "--epsilon=1/2", "--out", tmp_path / name],
        ["release", grid, "--epsilon=1/2", "--out", tmp_path / "new" / name / "out"],
        ["leakage", name, "--trajectory", write_measured(tmp_path / "in")],
        ["leakage", grid, "--trajectory", tmp_path / "in" / "record.toml", "--surrogate", name],
        ["verify", name],
        ["export", name, "--to=andes"],
        ["simulate", name, "--event=load:G1=+0.1", "--csv=a.csv"],
    ):
        done = gridveil(*arguments)
        assert done.code in (1, 2) and "File name too long" in done.err, (arguments, done.err)
    assert {path.name for path in tmp_path.iterdir()} <= {"in", "ledger.sqlite"}
    assert charges(ledger) == []


@pytest.mark.parametrize("option", ["--inertia", "--damping"])
def test_text_in_a_private_option_is_not_quoted(tmp_path, ledger, option):
    arguments = [
        "release",
        write_grid(tmp_path / "in"),
        "--epsilon=1/2",
        "--out",
        tmp_path / "out",
        option,
        f"{INERTIA[0]}x",
    ]
    done = gridveil(*arguments)
    assert (done.code, charges(ledger)) == (2, [])
    assert option in done.err
    assert found_in((done.out + done.err).encode(), PLANTED) == []


CONFIG = 'grid = "star5"\nepsilon = "1/2"\nout = "out"\n'
BAD_CONFIGS = {
    "unknown key": ('epsilom = "1/2"\n', ["'epsilom' is unknown", "expected one of", "epsilon"]),
    "broken": ("epsilon = = 1\n", ["line 1", "no TOML", "expected key = value lines"]),
    "not text": ("epsilon = 'é'\n", ["no TOML", "expected key = value lines"]),
    "out as a number": (CONFIG.replace('"out"', "5"), ["out", "text"]),
    "ledger as a number": (CONFIG + "ledger = 5\n", ["ledger", "text"]),
    "dynamics as a table": (CONFIG + "[dynamics]\ninertia = 10.8273645918\n", ["dynamics", "text"]),
    "profile as a list": (CONFIG + 'profile = ["paper"]\n', ["profile", "text"]),
    "epsilon as a truth": (CONFIG.replace('"1/2"', "true"), ["epsilon", "positive number"]),
    "loads as text": (CONFIG + 'publish_loads = "no"\n', ["publish_loads", "true or false"]),
    "inertia as text": (
        CONFIG + 'inertia = "10.8273645918"\n',
        ["inertia", "a finite number above 0"],
    ),
}


@pytest.mark.parametrize(("text", "said"), BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_a_bad_release_toml_is_refused(tmp_path, ledger, text, said):
    (tmp_path / "release.toml").write_text(text, encoding="latin-1")
    assert_nothing_happens(
        tmp_path, ledger, ["release", "--config", tmp_path / "release.toml"], said
    )


# --- places to write to ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out", "out.zip"])
def test_a_place_that_is_taken_is_refused_before_the_draw(tmp_path, ledger, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out.zip").write_bytes(b"mine")
    said = [f"{name} exists already", "Nothing was drawn", "another place with --out"]
    assert_nothing_happens(
        tmp_path, ledger, ["release", "star5", "--epsilon=1/2", "--out", tmp_path / name], said
    )
    assert_nothing_happens(tmp_path, ledger, ["demo", "star5", "--out", tmp_path / name], said)
    assert (tmp_path / "out.zip").read_bytes() == b"mine"


def test_a_place_below_a_file_is_refused_before_the_draw(tmp_path, ledger):
    (tmp_path / "file").write_bytes(b"")
    for command in (["release", "star5", "--epsilon=1/2"], ["demo", "star5"]):
        assert_nothing_happens(
            tmp_path, ledger, [*command, "--out", tmp_path / "file" / "out"], ["file", "--out"]
        )


def test_a_demo_is_for_public_cases_only(tmp_path, ledger):
    """It shows the truth, and its seed is known: on a grid of one's own it would give everything
    away.
    """
    arguments = ["demo", write_grid(tmp_path / "in"), "--out", tmp_path / "out"]
    assert_nothing_happens(tmp_path, ledger, arguments, ["ieee30 or star5", "gridveil release"])


def test_a_demo_needs_a_seed_of_0_or_more(tmp_path, ledger):
    assert_nothing_happens(
        tmp_path, ledger, ["demo", "star5", "--seed=-1", "--out", "out"], ["seed", "0 or more"]
    )


# --- simulate -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulate")
    grid = write_grid(folder)  # with ω_b = 2π 60, at which Euler's method is soon unstable
    options = ["--epsilon=1", "--ledger", folder / "ledger", "--out", folder / "bundle"]
    assert gridveil("release", grid, *options).code == 0
    return folder / "bundle"


LOAD = "--event=load:G1=0.1"
BAD_SIMULATIONS = {
    "unknown bus": (
        ["--event=load:G9=0.1"],
        ["'G9'", "expected one of G1, G2, G3, L1, L2", "Name a bus that the model has"],
    ),
    "unknown bus to show": (
        [LOAD, "--buses=G1,G9"],
        ["'G9'", "expected one of G1, G2", "Name a bus that the model has"],
    ),
    "unreadable": (["--event=boom"], ["'boom' cannot be read", "'load:BUS=+0.2,BUS=+15MW'"]),
    "size unreadable": (
        ["--event=load:G1=much"],
        ["'load:G1=much' cannot be read", "'load:BUS=+0.2,BUS=+15MW'"],
    ),
    "size not finite": (["--event=load:G1=nan"], ["must be finite", "Nothing was simulated"]),
    "share of loads withheld": (
        ["--event=uniform:+5%"],
        ["no nominal loads", "bus by bus", "load:BUS=+0.2"],
    ),
    "behind the horizon": (
        [LOAD + "@31s"],
        ["31 s", "expected a time up to 30 s", "Lengthen the horizon"],
    ),
    "between samples": ([LOAD + "@0.015s"], ["0.015 s", "a multiple of 0.01 s", "Move it to"]),
    "unstable": (
        [LOAD, "--scheme=euler"],
        ["euler scheme is unstable", "step of 0.01 s", "Use a step of", "'exact'"],
    ),
    "dt = 0": ([LOAD, "--dt=0"], ["dt", "above 0 s", "Nothing was simulated"]),
    "dt < 0": ([LOAD, "--dt=-0.1"], ["dt", "above 0 s", "Nothing was simulated"]),
    "dt not a number": ([LOAD, "--dt=nan"], ["dt", "above 0 s", "Nothing was simulated"]),
    "dt too small": (
        [LOAD, "--dt=1e-320"],
        ["does not fit", "10 million steps", "Nothing was simulated"],
    ),
    "dt beyond the horizon": (
        [LOAD, "--dt=31"],
        ["does not fit a horizon of 30 s", "Nothing was simulated"],
    ),
    "horizon": ([LOAD, "--horizon=inf"], ["horizon", "above 0 s", "Nothing was simulated"]),
    "scheme": ([LOAD, "--scheme=rk4"], ["cannot be 'rk4'", "exact, trapezoidal, euler"]),
    "figure nowhere": (
        [LOAD, "--plot=nowhere/a.png"],
        ["nowhere/a.png", "could not be written", "--plot"],
    ),
    "figure of no kind": ([LOAD, "--plot=a.txt"], ["a.txt", ".png, .pdf or .svg", "--plot"]),
    "samples nowhere": (
        [LOAD, "--csv=nowhere/a.csv"],
        ["nowhere/a.csv", "could not be written", "--csv"],
    ),
}


@pytest.mark.parametrize(("options", "said"), BAD_SIMULATIONS.values(), ids=BAD_SIMULATIONS)
def test_a_bad_simulation_is_refused(tmp_path, ledger, bundle, options, said):
    assert_nothing_happens(tmp_path, ledger, ["simulate", bundle, *options], said)


def test_a_simulation_without_an_event_is_refused_as_json_too(bundle):
    done = gridveil("simulate", bundle, "--json")
    assert done.code == 2
    assert "--event" in done.err
    assert all(json.loads(done.out)[name] for name in ("error", "outcome", "remedy"))
