"""`gridveil leakage`: figures and a verdict before anything is spent, and a coarser record beside
the finer one.
"""

import io
import re
from unittest.mock import Mock

import numpy as np
import pytest

from cli_helpers import INERTIA, X, as_json, charges, gridveil, make_release, write_grid
from gridveil import Adjacency, load, open_grid
from gridveil.adversary.attack.network import recover_star
from gridveil.adversary.coarsen import Coarser, write_coarser
from gridveil.adversary.leakage import leakage
from gridveil.cli import release as cli
from gridveil.grid.tables import PublicTable
from gridveil.inference.records import read_declaration, read_trajectory
from measured_helpers import signal, stamps, write_csv, write_measured, write_toml

TIME = np.arange(301) / 50
NOISE = np.random.default_rng(0).normal(0, 1e-5, (301, 2))
SHORT = (TIME, 60 * (1 + signal(TIME) + NOISE))


@pytest.fixture(autouse=True)
def ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_LEDGER", str(tmp_path / "ledger.sqlite"))
    return tmp_path / "ledger.sqlite"


def test_figures_and_a_verdict(tmp_path, ledger):
    record = write_measured(tmp_path / "in", *SHORT)
    found = as_json(gridveil("leakage", "star5", "--trajectory", record, "--json"))
    (one,) = found["records"]
    assert one["sigma_pu"] == pytest.approx(1e-5, rel=0.1)
    assert found["sigma_from"].startswith("its scatter")
    assert (one["locations"], one["values"]) == (["1", "4"], 602)
    assert one["total_load_public"]["directions"] == 12
    assert len(one["total_load_public"]["mu"]["k"]) == 4
    assert one["verdict"].startswith("This trajectory")
    assert "geometric middle" in one["computed_at"]
    said = " ".join(
        gridveil("leakage", "star5", "--trajectory", record, "--sigma", "0.6mHz").out.split()
    )
    for words in (
        "bounds alone",
        "largest μ",
        "Verdict This trajectory",
        "of 12 directions",
        "1e-05 p.u. (0.6 mHz), from --sigma",
    ):
        assert words in said, words
    assert not ledger.exists()  # nothing is spent, and no account is opened


def test_a_joint_claim_and_a_figure(tmp_path):
    record = write_measured(tmp_path / "in", *SHORT)
    given = [
        "leakage",
        "star5",
        "--trajectory",
        record,
        "--sigma=0.01",
        "--delta=1e-5",
        "--plot",
        tmp_path / "a.png",
    ]
    (one,) = as_json(gridveil(*given, "--json"))["records"]
    assert one["joint"]["delta"] == 1e-5
    assert one["joint"]["mu"] >= one["total_load_public"]["mu_of_neighbours"]
    assert one["joint"]["epsilon_x"] > 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "Joint" in gridveil(*given).out


def test_a_joint_claim_needs_white_noise_of_a_declared_size(tmp_path):
    """The sigma of a TOML will not do: it holds model error, and in a coarser record rounding,
    which would buy a claim.
    """
    bare = write_measured(tmp_path / "bare", *SHORT)
    declared = write_measured(tmp_path / "declared", *SHORT, sigma=0.6)
    for record in (bare, declared):
        done = gridveil("leakage", "star5", "--trajectory", record, "--delta=1e-5")
        assert (done.code, "needs white noise of a declared size" in done.err) == (2, True), (
            done.err
        )
    given = ["leakage", "star5", "--trajectory", declared, "--sigma=0.001", "--delta=1e-5"]
    found = as_json(gridveil(*given, "--json"))
    assert found["sigma_from"] == "--sigma"
    (one,) = found["records"]
    assert one["sigma_pu"] == pytest.approx(0.001)
    assert "searched" in one["joint"]["mu_is"] and "not proven" in one["joint"]["mu_is"]
    said = " ".join(gridveil(*given).out.split())
    assert (
        "The supremum over neighbours was searched for at the corners of the public bounds, not "
        "proven" in said
    )


def test_a_joint_claim_is_rounded_up(tmp_path):
    record = write_measured(tmp_path / "in", *SHORT)
    for sigma in ("0.01", "0.013", "0.017", "0.5"):
        given = ["leakage", "star5", "--trajectory", record, f"--sigma={sigma}", "--delta=1e-5"]
        (one,) = as_json(gridveil(*given, "--json"))["records"]
        shown = float(
            re.search(r"\(ε \+ ([0-9.e+-]+), 1e-05\)", " ".join(gridveil(*given).out.split()))[1]
        )
        assert one["joint"]["epsilon_x"] <= shown <= 1.01 * one["joint"]["epsilon_x"]


def test_rounding_buys_no_joint_claim(tmp_path):
    """It is post-processing of what the noise covers, and no white noise itself."""
    record = write_measured(tmp_path / "in", *SHORT)
    given = ["--sigma=1e-4", "--delta=1e-5", "--json"]
    coarser = ["--round=50mHz", "--out", tmp_path / "out"]
    before, after = as_json(gridveil("leakage", "star5", "--trajectory", record, *given, *coarser))[
        "records"
    ]
    assert after["sigma_pu"] > 2 * before["sigma_pu"]
    (again,) = as_json(
        gridveil("leakage", "star5", "--trajectory", tmp_path / "out" / "record.toml", *given)
    )["records"]
    for one in (after, again):
        assert one["joint"]["mu"] == pytest.approx(before["joint"]["mu"])


def test_the_grid_gives_public_facts_only(tmp_path):
    record = write_measured(tmp_path / "in", *SHORT, locations={"north": "1"})
    folders = tmp_path / "a", tmp_path / "b"
    grids = [write_grid(folder) for folder in folders]
    text = grids[1].read_text().replace(X[0], "0.302938475612")
    grids[1].write_text(text)
    beside = grids[1].with_suffix(".toml")
    beside.write_text(beside.read_text().replace(INERTIA[0], "17.8273645918"))
    found = [as_json(gridveil("leakage", grid, "--trajectory", record, "--json")) for grid in grids]
    assert found[0] == found[1]
    static = write_grid(tmp_path / "c").rename(tmp_path / "c" / "static.m")
    for surrogate in (*grids, static):
        # itself, a copy with other values, and one without its dynamics
        done = gridveil("leakage", grids[0], "--trajectory", record, "--surrogate", surrogate)
        assert (done.code, "The surrogate is a version of the grid itself" in done.err) == (2, True)


def test_an_event_that_is_to_be_estimated_is_taken_as_it_is_guessed(tmp_path):
    given = {"event": "unknown:total=+0.1@2.3s"}
    record = write_measured(tmp_path / "in", *SHORT, **given)
    (one,) = as_json(
        gridveil("leakage", "star5", "--trajectory", record, "--sigma=1e-4", "--json")
    )["records"]
    assert one["notes"][0].startswith("The event is to be estimated")
    assert max(one["total_load_public"]["mu"]["m"]) > 0


@pytest.mark.parametrize(
    "given",
    [
        {"event": "unknown:total=+0.1@2.3s"},
        {"event": "unknown@2.3s", "event_size": "0.05:0.2"},
        {"event_time_window": 0.5},
    ],
    ids=["place", "size", "time"],
)
def test_an_event_that_is_to_be_estimated_has_no_joint_claim(tmp_path, monkeypatch, given):
    """Its μ grows with the event's size, of which only a guess is known."""
    monkeypatch.setattr(
        "gridveil.adversary.leakage.leakage",
        lambda *args, **more: pytest.fail("something was computed"),
    )
    record = write_measured(tmp_path / "in", *SHORT, **given)
    done = gridveil("leakage", "star5", "--trajectory", record, "--sigma=1e-4", "--delta=1e-5")
    said = " ".join(done.err.split())
    assert (done.code, done.out) == (2, "")
    for words in (
        "is to be estimated",
        "is no bound",
        "Nothing was computed.",
        "or leave --delta out",
    ):
        assert words in said, said


def test_a_joint_claim_is_about_the_grid_and_not_about_a_surrogate(tmp_path):
    """The event and the lines are the grid's own, whatever case the figures are of."""
    record = write_measured(tmp_path / "in", *SHORT, event="uniform:+10%@2.3s")
    given = [
        "leakage",
        "star5",
        "--trajectory",
        record,
        "--sigma=1e-4",
        "--delta=1e-5",
        "--rate=10Hz",
        "--json",
    ]
    own, surrogate = (
        as_json(gridveil(*given))["records"],
        as_json(gridveil(*given, "--surrogate=ieee30"))["records"],
    )
    assert [one["computed_at"] for one in surrogate] == ["ieee30"] * 2
    assert [one["joint"] for one in surrogate] == [one["joint"] for one in own]
    assert own[0]["joint"]["computed_on"] == "the grid's own topology"
    assert own[0]["joint"]["mu"] > own[1]["joint"]["mu"]


def test_a_grid_too_large_for_a_joint_claim_is_refused_beside_any_surrogate(tmp_path, monkeypatch):
    monkeypatch.setattr("gridveil.adversary.leakage.TWO_STAGE_UP_TO", 5)
    record = write_measured(tmp_path / "in", *SHORT)
    given = ["leakage", "ieee30", "--trajectory", record, "--surrogate=star5", "--sigma=1e-4"]
    assert gridveil(*given).code == 0
    done = gridveil(*given, "--delta=1e-5")
    assert (done.code, "Leave --delta out" in done.err) == (2, True), done.err


def test_a_named_public_case_may_stand_in(tmp_path):
    record = write_measured(tmp_path / "in", *SHORT)
    (one,) = as_json(
        gridveil("leakage", "star5", "--trajectory", record, "--surrogate=ieee30", "--json")
    )["records"]
    assert one["computed_at"] == "ieee30"
    assert one["notes"] == [
        "The record's buses and its event are those of the same names in ieee30, wherever they lie "
        "there."
    ]


def test_a_surrogate_without_the_records_buses_is_to_blame_and_not_the_record(tmp_path):
    record = write_measured(tmp_path / "in", *SHORT, locations={"north": "1", "south": "13"})
    done = gridveil("leakage", "ieee30", "--trajectory", record, "--surrogate=star5")
    assert (
        done.code,
        "fits the grid, and not the surrogate star5: record.toml: bus '13' is unknown" in done.err,
    ) == (2, True)
    for changes in ({"locations": {"north": "77"}}, {"unit": "mHz"}):
        record = write_measured(tmp_path / "in", *SHORT, **changes)
        done = gridveil("leakage", "ieee30", "--trajectory", record, "--surrogate=star5")
        assert (done.code, "surrogate" in done.err) == (2, False), done.err


# --- at a noisy release ---------------------------------------------------------------------------


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    """A function that releases star5 with some options and returns the bundle."""
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))

    def make(name, *options):
        given = [
            "release",
            "star5",
            "--epsilon=1/2",
            "--out",
            tmp_path / name,
            "--ledger",
            tmp_path / f"{name}.sqlite",
        ]
        done = gridveil(*given, *options)
        assert done.code == 0, done.err
        return tmp_path / name

    return make


def at(bundle, record, *options, grid="star5"):
    return gridveil("leakage", grid, "--trajectory", record, "--surrogate", bundle, *options)


@pytest.mark.parametrize("name", ["folder", "file.zip"])
def test_figures_are_computed_at_a_noisy_release(tmp_path, bundle, name):
    """With its own bounds, rule and α, unless others are asked for; and it says so."""
    record = write_measured(tmp_path / "in", *SHORT)
    own = ["--bounds=m=2:30", "--adjacency=one-item", "--alpha=m=2"]
    made = bundle(name, "--mechanism=items", *own)
    (one,) = as_json(at(made, record, "--sigma=1e-4", "--json"))["records"]
    assert one["computed_at"] == f"the noisy release {name}"
    assert one["notes"] == [
        "Figures come from a noisy release (ε = 1/2) and hold near it: its noise is in them."
    ]
    release, facts = load(made), open_grid("star5").facts
    table = PublicTable(
        facts, {"k": recover_star(release.model.k_r, 4), **release.model.of_machines}
    )
    seen = [read_trajectory(record, facts).observation]
    same = leakage(
        table, seen, release.bounds, Adjacency("one-item", {"k": 1, "m": 2, "d": 1}), sigma=1e-4
    ).to_json()
    for total in ("total_load_public", "total_load_unknown"):
        assert one[total]["rank"] == same[total]["rank"]
        assert one[total]["mu"]["m"] == pytest.approx(same[total]["mu"]["m"], rel=1e-6)
        for group, told in one[total]["relative_deviation"].items():
            assert told["with_public_bounds"]["median"] == pytest.approx(
                same[total]["relative_deviation"][group]["with_public_bounds"]["median"], rel=1e-6
            )
    (other,) = as_json(
        at(made, record, "--sigma=1e-4", "--bounds=m=1:40", "--alpha=m=1", "--json")
    )["records"]
    priors = [
        found["total_load_public"]["relative_deviation"]["m"]["public_bounds_alone"]
        for found in (one, other)
    ]
    assert priors == pytest.approx([np.log(15) / np.sqrt(12), np.log(40) / np.sqrt(12)])
    assert max(other["total_load_public"]["mu"]["m"]) < max(one["total_load_public"]["mu"]["m"])
    said = " ".join(at(made, record).out.split())
    assert (
        f"computed at the noisy release {name}" in said
        and "Note Figures come from a noisy release" in said
    )


def test_what_a_release_left_open_is_said(tmp_path, bundle):
    record = write_measured(tmp_path / "in", *SHORT)
    (one,) = as_json(at(bundle("topology", "--mechanism=topology"), record, "--json"))["records"]
    assert one["notes"][1] == "Nothing was drawn of k: taken from the middle of its public bounds."
    assert one["notes"][2].startswith("Only the sum was drawn of m and d")
    (fitted,) = as_json(at(bundle("fitted", "--trajectory", record, "--yes"), record, "--json"))[
        "records"
    ]
    assert "(ε = 1/2, fitted to a trajectory)" in fitted["notes"][0]
    make_release(tmp_path / "private", demo=True).save(tmp_path / "demo")
    grid = tmp_path / "private" / "private.m"
    demo = at(tmp_path / "demo", record, grid=grid)
    assert (demo.code, "It is a DEMO" in demo.out) == (0, True), demo.err
    other = write_grid(tmp_path / "other", replace=("  1 2 0.01", "  1 5 0.01"))
    assert "No line weights on the grid's topology" in at(tmp_path / "demo", record, grid=other).out


def test_a_bundle_with_too_many_lines_gives_its_machines_and_says_so(tmp_path, bundle, monkeypatch):
    monkeypatch.setattr("gridveil.adversary.explain.LARGEST", 3)
    record = write_measured(tmp_path / "in", *SHORT)
    (one,) = as_json(at(bundle("folder", "--mechanism=items"), record, "--json"))["records"]
    assert one["notes"][1].startswith(
        "4 lines are too many to be won back from a bundle: their k is taken from the middle"
    )


def test_loads_count_as_public_only_if_the_bundle_publishes_them(tmp_path, bundle):
    record = write_measured(tmp_path / "in", *SHORT, event="uniform:+10%@2s")
    assert at(bundle("shown"), record, "--withhold-loads").code == 0
    done = at(bundle("withheld", "--withhold-loads"), record, "--publish-loads")
    assert (done.code, "carries no nominal loads" in done.err) == (2, True), done.err


def test_a_bundle_that_cannot_be_used_is_refused(tmp_path, bundle):
    record = write_measured(tmp_path / "in", *SHORT)
    made = bundle("folder")
    done = at(made, record, grid="ieee30")
    assert (done.code, "not a release of this grid" in done.err) == (2, True), done.err
    done = gridveil("leakage", made, "--trajectory", record)
    assert (done.code, "is a bundle" in done.err, "--surrogate" in done.err) == (2, True, True), (
        done.err
    )
    (made / "reference.csv").write_bytes(b"0")
    done = at(made, record)
    assert (done.code, "reference.csv was changed" in done.err) == (1, True), done.err
    (made / "SHA256SUMS").unlink()
    assert "SHA256SUMS is missing" in at(made, record).err
    whole = bundle("file.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[:-100])
    assert "the zip is cut off or damaged" in at(tmp_path / "cut.zip", record).err


def test_what_is_wrong_with_a_coarser_record_is_not_said_of_the_finer_one(tmp_path):
    """Here every row that a tenth of a second keeps is a gap, of a column in which one in five
    is.
    """
    time, values = TIME, SHORT[1].copy()
    values[np.rint(50 * time).astype(int) % 5 == 0, 1] = np.nan
    record = write_measured(tmp_path / "in", time, values)
    for option, words, wrong in (
        ("--rate=10Hz", "10 samples per second", "100 % of column 'south' is missing"),
        ("--round=5Hz", "rounded to 5000 mHz", "column 'north' is constant"),
    ):
        done = gridveil(
            "leakage", "star5", "--trajectory", record, option, "--out", tmp_path / "out"
        )
        assert (done.code, f"The record, {words}, cannot be used: record.csv: " in done.err) == (
            2,
            True,
        ), done.err
        assert wrong in done.err and "No coarser record was made." in done.err, done.err
    assert not (tmp_path / "out").exists()


def test_a_trajectory_that_is_given_twice_is_refused(tmp_path, ledger):
    record = write_measured(tmp_path / "in", *SHORT)
    other = write_toml(tmp_path / "in" / "other.toml", event="load:1=+0.1@2s")
    for command in (
        ["leakage", "star5"],
        ["release", "star5", "--epsilon=1", "--out", tmp_path / "out"],
    ):
        done = gridveil(*command, "--trajectory", record, "--trajectory", record)
        assert (done.code, "is given twice, and would count as two records" in done.err) == (
            2,
            True,
        ), done.err
    assert charges(ledger) == []
    done = gridveil(
        "leakage", "star5", "--trajectory", record, "--trajectory", other, "--sigma=1e-4"
    )
    assert "Verdict  This set of 2 trajectories" in done.out, done.err


def test_the_noise_of_a_rounded_record_is_shown_beside_its_own(tmp_path):
    record = write_measured(tmp_path / "in", *SHORT)
    done = gridveil("leakage", "star5", "--trajectory", record, "--sigma=6mHz", "--round=50mHz")
    assert (
        "Noise    0.0001 p.u. (6 mHz), from --sigma; rounded, 0.000261 p.u. (15.6 mHz)" in done.out
    ), done.err


def test_nothing_is_written_into_a_bundle(tmp_path, bundle, monkeypatch):
    """It would no longer verify, and a release there would have been charged."""
    monkeypatch.setattr(
        "gridveil.adversary.leakage.leakage",
        lambda *args, **more: pytest.fail("something was computed"),
    )
    record, made = write_measured(tmp_path / "in", *SHORT), bundle("folder")
    (tmp_path / "link").symlink_to(made)
    figures = made / "a.png", tmp_path / "link" / "a.png"
    for options in (
        ["--keep=1", "--out", made / "deep" / "x"],
        *(["--plot", figure] for figure in figures),
    ):
        done = gridveil("leakage", "star5", "--trajectory", record, *options)
        assert (done.code, "lies inside a bundle, which would no longer verify" in done.err) == (
            2,
            True,
        ), done.err
    done = gridveil(
        "release",
        "star5",
        "--epsilon=1",
        "--out",
        made / "x",
        "--ledger",
        tmp_path / "other.sqlite",
    )
    assert (done.code, "lies inside a bundle" in done.err) == (2, True), done.err
    assert charges(tmp_path / "other.sqlite") == []
    assert gridveil("verify", made).code == 0
    (tmp_path / "SHA256SUMS").write_text("of something else")  # which makes no bundle of the folder
    assert (
        gridveil("inspect", "star5", "--trajectory", record, "--plot", tmp_path / "a.png").code == 0
    )


@pytest.mark.parametrize(
    "place",
    ["nowhere/a.png", "folder.png", "circle/a.png", "n" * 300 + ".png", "n" * 300 + "/a.png"],
)
def test_a_figure_without_a_place_is_refused_before_any_work(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "gridveil.workflow.leakage.basis_of", lambda *args: pytest.fail("something was computed")
    )
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    record = write_measured(tmp_path / "in", *SHORT)
    done = gridveil("leakage", "star5", "--trajectory", record, "--plot", place)
    assert (done.code, "could not be written" in done.err) == (2, True), done.err
    assert "--plot" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--sigma=loud"], "--sigma loud cannot be read"),
        (["--sigma=-1e-4"], "--sigma -1e-4 cannot be read"),
        (["--rate=fast"], "--rate fast cannot be read"),
        (["--rate=8Hz"], "does not divide the record's 50 Hz"),
        (["--round=0mHz"], "--round 0mHz cannot be read"),
        (["--round=0.1"], "expected a frequency with its unit, such as 1mHz"),
        (["--keep=9"], "--keep names bus 9"),
        (["--keep="], "--keep names no bus"),
        (["--keep=,"], "--keep names no bus"),
        (["--out=here"], "--out has nothing to write"),
        (["--keep=4", "--out=here.zip"], "ends in .zip, and what is written there is a folder"),
        (["--delta=2"], "--delta 2 is no probability"),
        (["--plot=a.gif"], ".png, .pdf or .svg"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    done = gridveil(
        "leakage", "star5", "--trajectory", write_measured(tmp_path / "in", *SHORT), *options
    )
    assert (done.code, said in done.err) == (2, True), done.err
    assert sorted(tmp_path.iterdir()) == [tmp_path / "in"]


def test_there_must_be_a_trajectory():
    assert "no trajectory to look at" in gridveil("leakage", "star5").err


# --- a coarser record -----------------------------------------------------------------------------


def test_a_coarser_record_tells_less_and_is_written(tmp_path):
    record = write_measured(tmp_path / "in", *SHORT)
    given = ["--keep=4", "--rate=10Hz", "--round=1mHz", "--out", tmp_path / "out"]
    found = as_json(gridveil("leakage", "star5", "--trajectory", record, *given, "--json"))
    before, after = found["records"]
    assert after["record"] == "bus 4 only, 10 samples per second, rounded to 1 mHz"
    assert after["locations"] == ["4"]
    assert after["sigma_pu"] == pytest.approx(np.hypot(before["sigma_pu"], 1e-3 / 60 / np.sqrt(12)))
    public = "total_load_public"
    assert after[public]["fixed_by_records"] < before[public]["fixed_by_records"]
    assert max(after[public]["mu"]["m"]) < max(before[public]["mu"]["m"])
    for name in "kmd":
        typical = [
            one[public]["relative_deviation"][name]["with_public_bounds"]["median"]
            for one in (before, after)
        ]
        assert typical[1] > typical[0]
    again = read_trajectory(tmp_path / "out" / "record.toml", open_grid("star5").facts)
    assert (again.locations[0].bus, again.interval_s) == ("4", pytest.approx(0.1))
    cells = [
        line.split(",")[1]
        for line in (tmp_path / "out" / "record.csv").read_text().splitlines()[1:]
    ]
    assert all(abs(1000 * float(cell) - round(1000 * float(cell))) < 1e-6 for cell in cells)
    done = gridveil("leakage", "star5", "--trajectory", record, *given)
    assert (done.code, "exists already" in done.err) == (2, True)
    said = gridveil("leakage", "star5", "--trajectory", record, "--keep=4").out
    assert "It helps only where the finer record is not public" in said
    assert before["notes"] == after["notes"] == []
    coarse = gridveil("leakage", "star5", "--trajectory", record, "--round=50mHz").out
    assert "the times at which values change tell more" in " ".join(coarse.split())


def test_samples_are_picked_from_the_event_on_and_gaps_stay(tmp_path):
    times = np.round(np.arange(601) / 50, 2) + 0.0
    rows = 60 * (1 + signal(times))
    rows[100:130, 0] = np.nan
    write_csv(tmp_path / "record.csv", stamps(times), rows)
    path = write_toml(
        tmp_path / "record.toml",
        time_format="iso",
        event="load:5=+0.1@2.02s",
        event_time="2016-01-05T12:33:16+00:00",
        locations={"north": "1", "south": "4"},
    )
    write_coarser(read_declaration(path), Coarser(rate_hz=10), tmp_path / "out", base_mva=100)
    lines = (tmp_path / "out" / "record.csv").read_text().splitlines()
    assert len(lines) - 1 == 120
    assert any("12:33:18.020000+00:00" in line for line in lines)  # the event's own sample
    assert sum(line.split(",")[1] == "" for line in lines) == 6
    found = read_trajectory(tmp_path / "out" / "record.toml", open_grid("star5").facts)
    assert found.event_s == pytest.approx(2.0)
    assert found.locations[1].gaps == pytest.approx(0)


@pytest.mark.parametrize(
    ("unit", "size"), [("Hz", 1.0), ("mHz", 1000.0), ("p.u.", 1 / 60), ("rad/s", 2 * np.pi)]
)
def test_what_is_declared_and_still_holds_is_kept(tmp_path, unit, size):
    given = {
        "event": "unknown@2s",
        "event_size": "0.05:0.2",
        "event_time_window": 0.5,
        "sigma": 0.002 * size,
    }
    rows = size * 60 * (signal(TIME) + NOISE)
    path = write_measured(tmp_path / "in", TIME, rows, unit=unit, values="deviation", **given)
    before = read_trajectory(path, open_grid("star5").facts)
    kept = write_coarser(
        before.declared, Coarser(rate_hz=10, keep=("4",)), tmp_path / "a", base_mva=100
    )
    assert (kept.sigma, kept.event_size, kept.event_time_window) == (0.002 * size, "0.05:0.2", 0.5)
    after = read_trajectory(tmp_path / "a" / "record.toml", open_grid("star5").facts)
    assert (after.unknown, after.sigma, after.event_s) == (
        before.unknown,
        before.sigma,
        before.event_s,
    )
    rounded = write_coarser(before.declared, Coarser(step_hz=0.01), tmp_path / "b", base_mva=100)
    assert rounded.sigma == pytest.approx(size * np.hypot(0.002, 0.01 / np.sqrt(12)))


def test_figures_are_of_the_coarser_record_as_it_is_read_back(tmp_path):
    """The record that was written, looked at by itself, gives the very same figures."""
    record = write_measured(tmp_path / "in", *SHORT, sigma=0.002)
    given = ["--keep=4", "--rate=10Hz", "--round=1mHz", "--out", tmp_path / "out"]
    _, after = as_json(gridveil("leakage", "star5", "--trajectory", record, *given, "--json"))[
        "records"
    ]
    again = as_json(
        gridveil("leakage", "star5", "--trajectory", tmp_path / "out" / "record.toml", "--json")
    )
    assert again["sigma_from"] == "its declaration"
    (one,) = again["records"]
    assert one["sigma_pu"] == pytest.approx(after["sigma_pu"])
    for total in ("total_load_public", "total_load_unknown"):
        np.testing.assert_allclose(one[total]["mu"]["m"], after[total]["mu"]["m"])
        assert one[total]["rank"] == after[total]["rank"]


def test_a_coarser_record_that_cannot_be_used_is_not_written(tmp_path):
    record = write_measured(tmp_path / "in", *SHORT)
    given = ["--round=10Hz", "--out", tmp_path / "out"]
    done = gridveil("leakage", "star5", "--trajectory", record, *given)
    assert (done.code, "is constant" in done.err) == (2, True), done.err
    assert not (tmp_path / "out").exists()


def test_a_coarser_record_is_written_last(tmp_path, monkeypatch):
    """Nothing else was changed, an error says of a figure that cannot be written: then nothing else
    was.
    """
    record = write_measured(tmp_path / "in", *SHORT)
    given = ["leakage", "star5", "--trajectory", record, "--keep=4", "--out", tmp_path / "out"]
    with monkeypatch.context() as full:
        full.setattr(
            "gridveil.adversary.leakage.report.plot_leakage",
            Mock(side_effect=OSError(28, "No space left on device")),
        )
        done = gridveil(*given, "--plot", tmp_path / "a.png")
    assert (done.code, "Nothing else was changed." in done.err) == (2, True), done.err
    assert sorted(tmp_path.iterdir()) == [tmp_path / "in"]
    with monkeypatch.context() as broken:
        broken.setattr("gridveil.workflow.leakage.joint_epsilon", lambda *args: 1 / 0)
        assert gridveil(*given, "--sigma=1e-4", "--delta=1e-5").code == 70
    assert sorted(tmp_path.iterdir()) == [tmp_path / "in"]
    assert gridveil(*given, "--plot", tmp_path / "a.png").code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "record.csv",
        "record.toml",
    ]


@pytest.mark.parametrize(
    ("unit", "size"), [("Hz", 1.0), ("mHz", 1000.0), ("p.u.", 1 / 60), ("rad/s", 2 * np.pi)]
)
def test_rounding_is_in_hz_whatever_the_unit(tmp_path, unit, size):
    deviation = 60 * signal(TIME)
    path = write_measured(
        tmp_path / "in", TIME, size * deviation, unit=unit, values="deviation", offset="none"
    )
    facts = open_grid("star5").facts
    written = write_coarser(
        read_declaration(path), Coarser(step_hz=0.005), tmp_path / "out", base_mva=100
    )
    hz = read_trajectory(tmp_path / "out" / "record.toml", facts).trajectory.deviation_hz
    np.testing.assert_allclose(hz, 0.005 * np.rint(deviation / 0.005), atol=1e-9)
    assert written.unit == unit


# --- release --------------------------------------------------------------------------------------


def test_release_shows_the_verdict_before_it_draws(tmp_path):
    record = write_measured(tmp_path / "in", *SHORT)
    given = ["release", "star5", "--epsilon=1/2", "--trajectory", record]
    done = gridveil(*given, "--out", tmp_path / "a", "--ledger", tmp_path / "a.sqlite")
    assert done.code == 0
    assert "gridveil: This trajectory" in done.err
    found = as_json(
        gridveil(*given, "--out", tmp_path / "b", "--ledger", tmp_path / "b.sqlite", "--json")
    )
    assert found["leakage"]["verdict"] in done.err
    plain = as_json(
        gridveil("release", "star5", "--epsilon=1/2", "--out", tmp_path / "c", "--json")
    )
    assert plain["leakage"] is None
    assert "This trajectory" not in (tmp_path / "a" / "README.md").read_text(encoding="utf-8")


def test_the_verdict_of_a_release_follows_the_declared_noise_and_the_rule_of_its_budget(
    tmp_path, ledger
):
    record = write_measured(tmp_path / "in", *SHORT, sigma=0.6)
    budget = ["--epsilon=4", "--adjacency=one-per-group", "--alpha=m=2"]
    assert gridveil("ledger", "register", "star5").code == 0
    assert gridveil("ledger", "budget", "star5", *budget).code == 0
    given = [
        "release",
        "star5",
        "--epsilon=1/2",
        "--trajectory",
        record,
        "--out",
        tmp_path / "out",
        "--json",
    ]
    told = as_json(gridveil(*given))["leakage"]
    assert (told["sigma_from"], told["sigma_pu"]) == ("its declaration", pytest.approx(0.01))
    assert told["adjacency"] == "one-per-group"
    same = ["--adjacency=one-per-group", "--alpha=m=2", "--json"]
    (one,) = as_json(gridveil("leakage", "star5", "--trajectory", record, *same))["records"]
    assert told["total_load_public"]["mu"]["m"] == pytest.approx(
        one["total_load_public"]["mu"]["m"]
    )


@pytest.mark.parametrize(
    ("answer", "options", "code"), [(True, [], 0), (False, [], 2), (None, ["--yes"], 0)]
)
def test_at_a_terminal_release_asks(tmp_path, ledger, monkeypatch, answer, options, code):
    asked = []
    monkeypatch.setattr(cli, "_at_a_terminal", lambda: True)
    monkeypatch.setattr(cli.typer, "confirm", lambda *words, **how: asked.append(words) or answer)
    record = write_measured(tmp_path / "in", *SHORT)
    done = gridveil(
        "release",
        "star5",
        "--epsilon=1/2",
        "--trajectory",
        record,
        "--out",
        tmp_path / "out",
        *options,
    )
    assert done.code == code, done.err
    assert bool(asked) == (answer is not None)
    assert (tmp_path / "out").exists() == (code == 0)
    if code:
        assert "The release was called off. Nothing was drawn and nothing was spent." in done.err
        assert charges(ledger) == []


def test_a_question_that_nobody_answers_is_answered_no(tmp_path, ledger, monkeypatch):
    monkeypatch.setattr(cli, "_at_a_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    record = write_measured(tmp_path / "in", *SHORT)
    done = gridveil(
        "release", "star5", "--epsilon=1/2", "--trajectory", record, "--out", tmp_path / "out"
    )
    assert (done.code, "Aborted" in done.err) == (2, False), done.err
    assert "The release was called off. Nothing was drawn and nothing was spent." in done.err
    assert charges(ledger) == []


@pytest.mark.slow
def test_a_record_too_short_to_show_its_noise_stops_no_release(tmp_path):
    times = np.arange(14) * 2.0 - 4
    record = write_measured(
        tmp_path / "in", times, 60 * (1 + signal(times, 0.0)), event="load:5=+0.1@0s", offset="none"
    )
    given = ["release", "star5", "--epsilon=1/2", "--trajectory", record, "--out", tmp_path / "out"]
    done = gridveil(*given)
    assert (done.code, "does not show its own noise" in done.err) == (0, True), done.err
    assert (
        "too short to show its own noise"
        in gridveil("leakage", "star5", "--trajectory", record).err
    )
