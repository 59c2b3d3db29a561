"""gridveil attack: every figure beside a blind one, all of it marked confidential, none of it
written down.
"""

import json
from fractions import Fraction
from importlib import import_module

import pytest

from cli_helpers import as_json, files_under, found_in, gridveil, make_release, write_grid
from gridveil import Adjacency, Bounds, DemoSampler, Event, publish, reduce, simulate
from gridveil.assurance.owner_report import redraws
from gridveil.assurance.owner_report.assess import assess_attacks
from gridveil.assurance.owner_report.signoff import CONFIDENTIAL
from gridveil.foundation.errors import PrivateValueError
from gridveil.privacy.allocation import Allocation
from gridveil.publication.bundle import verify
from gridveil.readers.cases import declared_public, open_grid
from gridveil.vault.source import Private
from gridveil.workflow.demo import run_demo
from measured_helpers import write_csv, write_measured, write_toml


@pytest.fixture
def short(monkeypatch):
    """Few draws: the figures over ε are for another test."""
    monkeypatch.setattr(redraws, "DRAWS", 2)
    monkeypatch.setattr(redraws, "RELEASES", (1, 3))
    monkeypatch.setattr("gridveil.assurance.owner_report.assess.RELEASES", (1, 3))
    monkeypatch.setattr(redraws, "SINGLE_DRAWS", 2)
    monkeypatch.setattr("gridveil.assurance.owner_report.attacks.ADVANTAGE_DRAWS", 2000)


@pytest.fixture
def bundle(tmp_path):
    made = make_release(tmp_path, demo=True, epsilon=Fraction(1))
    made.save(tmp_path / "bundle")
    return tmp_path / "bundle"


def attack(bundle, *options):
    return gridveil("attack", bundle, "--source", bundle.with_name("private.m"), *options)


def test_the_screen_says_confidential_and_nothing_is_written(short, bundle, tmp_path):
    before = files_under(tmp_path)
    done = attack(bundle)
    assert done.code == 0, done.err
    assert "CONFIDENTIAL" in done.out and "CONFIDENTIAL" in done.err
    assert "blind" in done.out and "plain Kron" in done.out
    assert files_under(tmp_path) == before


def test_json_has_figures_and_no_single_value(short, bundle, tmp_path):
    done = attack(bundle, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["confidential"] == CONFIDENTIAL
    best = found["line_attacks"][-1]
    assert best["plain"]["hit_1"] >= best["release"]["hit_1"]
    assert [row["releases"] for row in found["averaging"]["rows"]] == [1, 3]
    assert all(row["exact"] <= row["bound"] for row in found["all_but_one"])
    source = open_grid(str(bundle.with_name("private.m")))
    for values in (source.values["k"], source.values["m"], source.values["d"]):
        assert found_in(done.out.encode(), Private.open(values)) == []


def test_the_star_is_won_back_exactly_and_not_from_its_release(short, tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    assert (
        gridveil(
            "release", "star5", "--epsilon=1", "--mechanism=items", "--out", tmp_path / "bundle"
        ).code
        == 0
    )
    done = gridveil("attack", tmp_path / "bundle", "--source=star5", "--json")
    assert done.code == 0, done.err
    star = json.loads(done.out)["line_attacks"][0]
    assert star["attack"].startswith("star")
    assert star["plain"]["error"] < 1e-9 < star["release"]["error"]


@pytest.mark.parametrize(
    "options", [("--mechanism=topology",), ("--mechanism=aggregates",), ("--merge-loads=equal",)]
)
def test_every_mechanism_can_be_attacked(short, tmp_path, monkeypatch, options):
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    path = write_grid(tmp_path)
    assert (
        gridveil(
            "release",
            path,
            "--epsilon=1",
            "--split=m=1/2,d=1/2" if "topology" in options[0] else "--profile=paper",
            *options,
            "--out",
            tmp_path / "bundle",
        ).code
        == 0
    )
    done = gridveil("attack", tmp_path / "bundle", "--source", path, "--json")
    assert done.code == 0, done.err
    release = json.loads(done.out)["topology"][1]
    if "topology" in options[0]:
        assert release["f1"] == pytest.approx(release["blind_f1"])


@pytest.mark.parametrize("name", ["release", "release.zip"])
def test_a_report_says_which_bundle_it_is_of(short, tmp_path, name):
    make_release(tmp_path, demo=True, epsilon=Fraction(1)).save(tmp_path / name)
    done = attack(tmp_path / name, "--seed=7", "--json")
    found, digest = as_json(done), verify(tmp_path / name).digest
    told = {key: found[key] for key in ("bundle", "digest", "epsilon", "adjacency", "seed")}
    assert told == {
        "bundle": name,
        "digest": digest,
        "epsilon": "1",
        "adjacency": "one-asset",
        "seed": 7,
    }


def test_attacks_that_a_grid_is_too_large_for_are_said_to_be_left_out(
    short, bundle, tmp_path, monkeypatch
):
    """A blind guess in their place would read as if the best attack had found nothing."""
    for module in ("assess", "redraws"):
        monkeypatch.setattr(f"gridveil.assurance.owner_report.{module}.LARGEST", 5)
    monkeypatch.setattr("gridveil.assurance.owner_report.assess.can_guess", lambda model: False)
    done, found = attack(bundle), as_json(attack(bundle, "--json"))
    assert done.code == 0, done.err
    lines, edges = found["notes"][1:]
    assert lines.startswith(
        "The grid has 6 lines, and Gauss–Newton works on up to 5: its lines were not attacked"
    )
    assert edges.startswith("Its plain reduction has 5 ports, too many to guess edges")
    assert all(note in done.err for note in (lines, edges))
    assert found["line_attacks"] == [{"attack": "best attack", "plain": None, "release": None}]
    assert {row["error_k"] for row in found["by_epsilon"]["rows"]} == {None}
    assert "edges, topology unknown" not in done.out


def test_titles_say_what_their_columns_hold(short, bundle, tmp_path, monkeypatch):
    """Three figures of a line where α is known, two where none was drawn; F1 is of the edges that
    ports can show.
    """
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    said = " ".join(attack(bundle).out.split())
    assert "so many within 1 % of the truth / within α (1 p.u. power / rad) / median error" in said
    assert "F1 is of the 6 of 6 between machines and loaded buses" in said
    grid = bundle.with_name("private.m")
    assert (
        gridveil(
            "release", grid, "--epsilon=1", "--mechanism=topology", "--out", tmp_path / "hidden"
        ).code
        == 0
    )
    done = gridveil("attack", tmp_path / "hidden", "--source", grid)
    assert "so many within 1 % of the truth / median error" in " ".join(done.out.split()), done.err
    found = as_json(gridveil("attack", tmp_path / "hidden", "--source", grid, "--json"))
    assert found["alpha"] is None


def test_another_grid_is_refused(bundle, tmp_path):
    done = gridveil("attack", bundle, "--source=star5")
    assert done.code == 2
    assert "not a release of this grid" in done.err


def test_another_grid_of_the_same_size_is_doubted_in_plain_words(short, bundle, tmp_path):
    """One line ends elsewhere: sizes, loads and governors are the same."""
    other = write_grid(tmp_path / "other", replace=("  1 2 0.01", "  1 5 0.01"))
    done = gridveil("attack", bundle, "--source", other, "--json")
    assert done.code == 0, done.err
    doubts = json.loads(done.out)["notes"][1:]
    assert [
        note.startswith("No line weights on the grid's topology give the bundle's network")
        for note in doubts
    ] == [True]
    assert "likely a bundle of another grid" in doubts[0]
    done = gridveil("attack", bundle, "--source", other, "--droop-gain=3")
    assert "The bundle's G are not the grid's" in done.err and "No line weights" in done.err


@pytest.mark.slow
def test_a_demo_and_a_fit_are_said_so(short, tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    record = write_measured(tmp_path / "in")
    given = (
        "release",
        "star5",
        "--epsilon=1",
        "--trajectory",
        record,
        "--out",
        tmp_path / "fitted",
        "--yes",
    )
    assert gridveil(*given).code == 0
    make_release(tmp_path / "demo", demo=True).save(tmp_path / "demo" / "bundle")
    for bundle, source, demo in (
        ("fitted", "star5", False),
        ("demo/bundle", tmp_path / "demo" / "private.m", True),
    ):
        given = ("attack", tmp_path / bundle, "--source", source)
        done, found = gridveil(*given), as_json(gridveil(*given, "--json"))
        assert done.code == 0, done.err
        assert (found["demo"], found["fitted"]) == (demo, not demo)
        words = (
            "DEMO: the bundle was made with a seed"
            if demo
            else "No attack here uses it: give it with --trajectory"
        )
        note, *others = found["notes"]  # and no doubt that the bundle is of its grid
        assert words in note or "was discarded" in note
        assert all(other.startswith("Verdict on the fit") for other in others)
        assert note in done.err


def record_of_star5(folder):
    """A record of all machines of star5, as if somebody had published it."""
    model = reduce(declared_public(open_grid("star5")))
    found = simulate(
        model, Event.load({"5": 0.1}, at_s=2), horizon_s=20, dt_s=0.02, buses=("1", "2", "3", "4")
    )
    names = {f"PMU {bus}": bus for bus in found.buses}
    folder.mkdir()
    write_csv(folder / "record.csv", found.time_s, found.omega, columns=tuple(names))
    return write_toml(folder / "record.toml", unit="p.u.", values="deviation", locations=names)


def test_records_are_attacked_alone_and_beside_a_release(short, tmp_path):
    record = record_of_star5(tmp_path / "in")
    run_demo("star5").release.save(tmp_path / "bundle")
    given = ("attack", tmp_path / "bundle", "--source=star5", "--trajectory", record, "--json")
    done = gridveil(*given)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    blind, records, release, both = found["with_trajectories"]
    assert [row["attacker_has"] for row in (blind, records, both)] == [
        "blind",
        "the trajectories",
        "both",
    ]
    assert release["attacker_has"].startswith("a demo release at ε = ")
    assert max(row[group] for row in (records, both) for group in "md") < 0.01
    assert min(row[group] for row in (blind, release) for group in "md") > 0.01
    assert not any("No attack here uses it" in note for note in found["notes"])


def test_sums_have_no_row_for_both(short, tmp_path):
    record = record_of_star5(tmp_path / "in")
    settings = {
        "adjacency": Adjacency(),
        "bounds": Bounds(),
        "ledger": None,
        "sampler": DemoSampler(1),
    }
    sums = Allocation(
        {"k": "items", "m": "sum", "d": "sum"},
        {"k": Fraction(1), "m": Fraction(1, 2), "d": Fraction(1, 2)},
    )
    publish(open_grid("star5"), epsilon=Fraction(1), allocation=sums, **settings).save(
        tmp_path / "bundle"
    )
    done = gridveil(
        "attack",
        tmp_path / "bundle",
        "--source=star5",
        "--trajectory",
        record,
        "--json",
    )
    assert done.code == 0, done.err
    assert [row["attacker_has"][:6] for row in json.loads(done.out)["with_trajectories"]] == [
        "blind",
        "the tr",
        "a demo",
    ]


def test_records_of_too_large_a_grid_are_refused_before_any_attack(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("gridveil.inference.fit.two_stage"), "TWO_STAGE_UP_TO", 1)
    done = attack(bundle, "--trajectory", write_measured(tmp_path / "in"))
    assert (
        done.code,
        "Nothing was attacked and nothing was written. Leave --trajectory out." in done.err,
    ) == (2, True), done.err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"locations": {"north": "1", "south": "9"}}, "9"),
        ({"nominal_hz": 50.0}, "nominal_hz is 50 Hz"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_before_any_attack(bundle, tmp_path, changes, words):
    record = write_measured(tmp_path / "in", **changes)
    done = attack(bundle, "--trajectory", record)
    assert done.code == 2
    assert words in done.err and "Traceback" not in done.err


def test_a_demo_fitted_to_its_own_source_shows_nothing_of_a_real_release(short, tmp_path):
    run_demo("star5").release.save(tmp_path / "bundle")
    done = gridveil("attack", tmp_path / "bundle", "--source=star5", "--json")
    assert done.code == 0, done.err
    demo, fitted = json.loads(done.out)["notes"]
    assert (
        "simulated from the source itself" in demo
        and "a real release would not give these figures" in demo
    )
    assert "what a real one like it would give" not in demo + fitted


def test_a_source_opened_with_other_load_damping_is_doubted(short, tmp_path):
    for name, made, opened in (
        ("damped", {"load_damping": 10, "publish_loads": True}, []),
        ("withheld", {}, ["--publish-loads", "--load-damping=1"]),
    ):
        make_release(tmp_path / name, demo=True, epsilon=Fraction(1), **made).save(
            tmp_path / name / "bundle"
        )
        given = [
            "attack",
            tmp_path / name / "bundle",
            "--source",
            tmp_path / name / "private.m",
            *opened,
        ]
        done = gridveil(*given, "--json")
        assert done.code == 0, done.err
        assert ["load damping" in note for note in json.loads(done.out)["notes"]] == [False, True]


def test_an_assessment_refuses_to_be_seen(short, tmp_path):
    source, made = open_grid(str(write_grid(tmp_path))), make_release(tmp_path, demo=True)
    found = assess_attacks(source, made)
    for look in (repr, str, list, json.dumps):
        with pytest.raises((PrivateValueError, TypeError)):
            look(found)


def test_a_bug_in_an_attack_says_where_but_not_what(bundle, tmp_path, monkeypatch):
    values = Private.open(open_grid(str(bundle.with_name("private.m"))).values["k"])

    def spill(*_, **__):
        raise ValueError(f"internal: {values.tolist()}")

    monkeypatch.setattr("gridveil.assurance.owner_report.assess.invert", spill)
    done = attack(bundle)
    assert done.code == 70
    assert found_in((done.out + done.err).encode(), values) == []


@pytest.mark.slow
def test_the_whole_attack_on_ieee30_shows_what_the_docs_say(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("gridveil.assurance.owner_report.attacks.ADVANTAGE_DRAWS", 2000)
    assert (
        gridveil(
            "release", "ieee30", "--epsilon=1", "--mechanism=items", "--out", tmp_path / "bundle"
        ).code
        == 0
    )
    done = gridveil("attack", tmp_path / "bundle", "--source=ieee30", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    whole = {row["attack"]: row for row in found["line_attacks"]}[
        "Gauss–Newton: L_red, all of K_ac"
    ]["plain"]
    assert (whole["rank"], whole["fixed"]) == (35, 31)
    assert whole["hit_1"] >= 31
    for row in found["by_epsilon"]["rows"]:
        assert row["low"] <= row["expected"] <= row["high"]
    errors = [row["error_m"] for row in found["averaging"]["rows"]]
    assert errors[-1] < 0.05 < errors[0]


def test_a_grid_without_a_network_to_win_back_is_refused(tmp_path, bundle):
    """One machine, or no load elsewhere: no traceback, and nothing written."""
    grid = bundle.with_name("private.m")
    text = grid.read_text()
    grid.write_text(text.replace("4 1 40 9", "4 1 0 0").replace("5 1 30 5", "5 1 0 0"))
    done = attack(bundle)
    assert done.code == 2
    assert "Nothing was attacked" in done.err
