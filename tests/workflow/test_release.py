"""A call and the command are one procedure: the same bundle, the same rows in the ledger, the same
refusals.

The sampler is replaced in here, since no option can do that.
"""

import copy
import json
import pickle
import re
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from cli_helpers import gridveil, write_grid
from gridveil import Event, load, open_grid, publish, simulate, verify
from gridveil.foundation.archive import SIGNATURE, SUMS
from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit import FitSettings, Observation
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import topology
from gridveil.privacy.epsilon import exact
from gridveil.privacy.ledger import Ledger, default_location
from gridveil.privacy.provenance import Provenance
from gridveil.publication.ports import equal_ports
from gridveil.publication.signing import new_key
from gridveil.publication.unpack import read_files
from gridveil.readers.cases import declared_public
from gridveil.vault.perturb import PlannedDraw
from gridveil.vault.sampler import SecureSampler
from gridveil.vault.truth import true_model
from gridveil.workflow.leakage import LeakageSettings, report_leakage
from gridveil.workflow.plan import PlanSettings, plan_release
from gridveil.workflow.publish import FitRecords, algorithm_1
from gridveil.workflow.release import Dialogue, release_grid
from gridveil.workflow.settings import ReleaseSettings
from measured_helpers import signal, write_measured

GRID = {"grid": "private.m", "epsilon": "1/2", "out": "bundle"}
RECORD = {"trajectory": ["record/record.toml"], "bounds": "k=1:90,m=1:39"}
# What is random, and what says, hashes or signs it.
ROW = {"ledger", "nonce", "commitment", "mac", "digest"}
RANDOM = ROW | {"ledger_nonce", "earlier_draws", "draw_commitment", "ledger_head"}
HASHED, HEX = {SUMS, SIGNATURE}, re.compile("[0-9a-f]{16,}")


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Two rooms alike, each with a grid, a record, a key and a ledger of its own."""
    monkeypatch.setattr(
        SecureSampler,
        "draw",
        lambda self, values, *law: np.linspace(2.2, 3.5, values.size).reshape(values.shape),
    )
    times = np.arange(201) / 50
    for name in ("called", "commanded"):
        room = tmp_path / name
        write_grid(room)
        write_grid(room / "copy").rename(room / "copy/renamed.m")
        (room / "copy/private.toml").rename(room / "copy/renamed.toml")
        write_measured(room / "record", times, 60 * (1 + signal(times)), locations={"north": "1"})
        (room / "taken").mkdir()
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "called/home"))
    new_key(tmp_path / "called/home/keys")
    shutil.copytree(tmp_path / "called/home", tmp_path / "commanded/home")

    def enter(name):
        monkeypatch.chdir(tmp_path / name)
        monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / name / "home"))
        monkeypatch.setenv("GRIDVEIL_WITNESS", str(tmp_path / name / "home/witness.sqlite"))
        monkeypatch.delenv("GRIDVEIL_LEDGER", raising=False)

    return enter


def options(settings):
    """The options that say what settings do."""
    given = {name: value for name, value in settings.items() if name not in ("grid", "surrogate")}
    said = [
        f"--{name.replace('_', '-')}={one}"
        for name, value in given.items()
        for one in (value if isinstance(value, list) else [value])
    ]
    return [*said, *([f"--surrogate={settings['surrogate']}"] if "surrogate" in settings else [])]


def plain(value):
    """A document without what is random in it, or says where a room is."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if name not in RANDOM}
    return [plain(one) for one in value] if isinstance(value, list) else value


def left_behind():
    """What a room holds besides its grid: bundles, and the ledger's rows."""
    found = {}
    for place in sorted(Path.cwd().glob("bundle*")):
        for name, data in read_files(place).files.items():
            if name.endswith(".json"):
                found[place.name, name] = plain(json.loads(data))
            elif name == "certificate.txt":
                found[place.name, name] = HEX.sub("…", data.decode())
            elif name not in HASHED:
                found[place.name, name] = data
    ledger = Path(default_location())
    found["rows"] = plain(Ledger(ledger).export()) if ledger.exists() else []
    found["states"] = [e.state for e in Ledger(ledger).entries()] if ledger.exists() else []
    return found


def both(enter, *released):
    """Release by call and by command, one after another; what was refused, and what is left."""
    enter("called")
    called = []
    for settings in released:
        try:
            release_grid(ReleaseSettings.of(settings))
            called.append(None)
        except GridveilError as error:
            called.append((error.problem, error.outcome, error.remedy))
    left = left_behind()
    enter("commanded")
    commanded = []
    for settings in released:
        grid = [settings["grid"]] if "grid" in settings else []
        done = gridveil("release", *grid, *options(settings), "--json")
        said = json.loads(done.out)
        commanded.append((said["error"], said["outcome"], said["remedy"]) if done.code else None)
    assert called == commanded
    assert left == left_behind()
    return called, left


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"mechanism": "items", "out": "bundle.zip", "formats": "andes,csv"},
        {"mechanism": "topology", "adjacency": "one-item-relative"},
        {"adjacency": "one-per-group", "alpha": "k=2,m=1/2", "bounds": "k=2:90,k_r=0:150"},
        {"split": "k=1,m=1/4,d=3/4", "share_by": "rating", "lineage": "ours", "inertia": 9},
        {"count": 2, "merge_loads": "equal", "bounds_origin": "a public study"},
        {"profile": "paper", "surrogate": "star5", "mechanism": "aggregates"},
        RECORD,
    ],
    ids=lambda settings: " ".join(settings) or "defaults",
)
def test_a_call_and_the_command_leave_the_same(places, settings):
    refused, left = both(places, GRID | settings)
    assert refused == [None]
    assert left["states"] == ["published"] * settings.get("count", 1)
    for name in ("bundle", "bundle.zip", "bundle-2"):
        if Path(name).exists():
            assert verify(name).signed_by


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"surrogate": "private.m"}, "The surrogate is a version of the grid itself"),
        ({"surrogate": "copy/renamed.m"}, "The surrogate is a version of the grid itself"),
        ({"surrogate": "star5", "mechanism": "items"}, "nothing to choose"),
        ({"epsilon": "-1"}, "is not a positive number"),
        ({"epsilon": "1e-30"}, "OpenDP finds no noise scale"),
        ({"bounds": "m=3:2"}, "--bounds m: "),
        ({"bounds": "z=1:2"}, "--bounds z is unknown"),
        ({"alpha": "k=1,k=2"}, "--alpha cannot be read"),
        ({"mechanism": "magic"}, "--mechanism magic is unknown"),
        ({"profile": "other"}, "The profile 'other' is unknown"),
        ({"formats": "word"}, "'word'"),
        ({"out": "taken"}, "exists already"),
        ({"count": 2000}, "count of draws"),
        ({"merge_loads": "1", "mechanism": "topology"}, "nothing to merge"),
        ({"adjacency": "one-asset-relative", "bounds": "d=0:40"}, "lower bound above 0"),
        (RECORD | {"mechanism": "topology"}, "cannot be used with the mechanism"),
        (RECORD | {"trajectory": 2 * RECORD["trajectory"]}, "is given twice"),
        ({"grid": "nowhere.m"}, "nowhere.m"),
        ({"dynamics": "nowhere.toml"}, "nowhere.toml"),
    ],
    ids=lambda case: case if isinstance(case, str) else " ".join(case),
)
def test_a_call_and_the_command_refuse_the_same(places, settings, problem):
    (refused,), left = both(places, GRID | settings)
    assert problem in refused[0]
    assert left["states"] == []
    assert not Path("bundle").exists()


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ({}, "budget"),
        ({"adjacency": "one-item"}, "for ever"),
        ({"lineage": "another"}, "lineage"),
        ({"grid": "ieee30", "surrogate": "copy/renamed.m"}, "it is a private grid"),
    ],
    ids=["spent", "other rule", "other lineage", "private surrogate"],
)
def test_both_refuse_the_same_after_a_release(places, second, problem):
    (first, refused), left = both(places, GRID, GRID | {"out": "second"} | second)
    assert first is None
    assert problem in " ".join(refused)
    assert left["states"] == ["published"]


def test_a_grid_that_was_released_is_no_surrogate_of_any_call_or_command(places):
    """The plan, the leakage of another grid, and a table for whoever plans in Python."""
    places("called")
    release_grid(ReleaseSettings.of(GRID))
    record = write_measured(Path("other"))
    looked = {"grid": "star5", "trajectory": [record], "surrogate": "copy/renamed.m"}
    for refused in (
        lambda: declared_public(open_grid("copy/renamed.m")),
        lambda: declared_public(open_grid("private.m"), Ledger(default_location())),
        lambda: plan_release(PlanSettings.of(surrogate="private.m", nadir_error="5mHz")),
        lambda: report_leakage(LeakageSettings.of(looked)),
    ):
        with pytest.raises(OptionError, match="as a version of the lineage private"):
            refused()
    for command in (
        ("plan", "private.m", "--nadir-error=5mHz"),
        ("leakage", "star5", "--trajectory", record, "--surrogate=copy/renamed.m"),
    ):
        done = gridveil(*command)
        assert (done.code, "as a version of the lineage private" in done.err) == (2, True)
    assert declared_public(open_grid("star5"), Ledger(default_location())).facts.name == "star5"


def test_what_a_release_gives_away_is_said_before_it_is_charged(places):
    places("called")
    heard = []

    class Doubtful(Dialogue):
        def notice(self, about, words):
            assert not Ledger(default_location()).entries()
            heard.append(about)

        def goes_on(self):
            heard.append("asked")
            return False

    with pytest.raises(GridveilError, match=r"called off. Nothing was drawn and nothing was spent"):
        release_grid(ReleaseSettings.of(GRID | RECORD), Doubtful())
    assert heard == ["leakage", "asked"]
    assert not Path("bundle").exists()


def test_publish_draws_what_the_command_does_and_save_notes_it(places):
    places("called")
    ledger = Ledger(default_location())
    settings = {"epsilon": exact("1/2"), "adjacency": Adjacency(), "bounds": Bounds()}
    release = publish(open_grid("private.m"), **settings, ledger=ledger)
    assert [entry.state for entry in ledger.entries()] == ["drawn"]
    drawn = {name: loss.drawn for name, loss in release.guarantee.groups.items()}
    assert drawn["m"].startswith("hexagon-")
    assert drawn == {"k": "items", "m": drawn["m"], "d": drawn["m"]}
    report = release.save("bundle")
    assert [(entry.state, entry.digest) for entry in ledger.entries()] == [
        ("published", report.digest)
    ]
    assert ledger.verify() == []


def test_settings_are_checked_however_they_are_made():
    for wrong in ({"count": 0}, {"profile": "other"}, {"share_by": "guess"}, {"merge_loads": "x"}):
        with pytest.raises(OptionError):
            ReleaseSettings(grid="star5", epsilon=exact(1), **wrong)
    with pytest.raises(OptionError, match=r"the key 'epsilom' is unknown.*Did you mean epsilon"):
        ReleaseSettings.of(grid="star5", epsilom=1)
    text = ReleaseSettings.of(grid="star5", epsilon="1/2", alpha="k=2", bounds="m=2:30")
    typed = ReleaseSettings.of(
        grid="star5", epsilon=exact("1/2"), alpha={"k": 2}, bounds={"m": "2:30"}
    )
    assert text == typed


# --- what a reviewer broke ------------------------------------------------------------------------


def test_an_option_of_pairs_may_be_repeated_and_none_is_dropped(places):
    places("commanded")
    said = ["release", "private.m", "--epsilon", "1/2", "--mechanism", "items", "--out"]
    pairs = ["--alpha", "k=5", "--alpha", "m=2", "--bounds", "k=1:90", "--bounds", "m=1:30"]
    assert gridveil(*said, "bundle", *pairs, "--split", "k=1", "--split=m=1/2,d=1/2").code == 0
    release = load("bundle")
    groups = release.guarantee.groups
    assert [groups[name].alpha for name in groups] == [5, 2, 1]
    assert [release.bounds[name].upper for name in groups] == [90, 30, 40]
    again = gridveil(*said, "other", "--alpha", "k=1", "--alpha", "k=2")
    assert (again.code, "each group once" in again.err) == (2, True)
    assert gridveil("ledger", "register", "other").code == 0
    budget = ("ledger", "budget", "other", "--epsilon", "1", "--alpha", "k=5", "--alpha", "m=2")
    assert gridveil(*budget).code == 0
    assert Ledger(default_location()).account("other").adjacency.alpha == {"k": 5, "m": 2, "d": 1}


def test_the_steps_themselves_refuse_what_would_be_spent_for_nothing(places):
    places("called")
    source, book = open_grid("private.m"), Ledger(default_location())
    event = Event.load({"1": 0.1})
    made = simulate(true_model(source), event, horizon_s=2.0, dt_s=0.05)
    observed = [Observation(event, made, Provenance("simulated", "the source"))]
    common = {"epsilon": exact("1/2"), "adjacency": Adjacency(), "bounds": Bounds()}
    steps = {"settings": FitSettings(), "start": "posterior"}
    with pytest.raises(OptionError, match="is not public"):
        algorithm_1(PlannedDraw(source, **common), FitRecords(observed), **steps, ledger=book)
    ports = equal_ports(source.facts)
    with pytest.raises(OptionError, match="nothing to merge"):
        publish(source, **common, ledger=book, allocation=topology(), ports=ports)
    assert list(book.entries()) == []


def test_settings_made_directly_are_those_that_are_read():
    settings = ReleaseSettings(grid="star5", epsilon=0.1, out="x", merge_loads=2, count=3)
    assert (settings.epsilon, settings.out) == (Fraction(1, 10), Path("x"))
    assert settings.merge_loads == "2"
    assert "3.217" not in repr(ReleaseSettings.of(grid="star5", epsilon="1", inertia=3.217))


def test_a_release_can_be_copied_and_pickled(places):
    places("called")
    book, half = Ledger(default_location()), exact("1/2")
    source = open_grid("private.m")
    release = publish(source, epsilon=half, adjacency=Adjacency(), bounds=Bounds(), ledger=book)
    for other in (pickle.loads(pickle.dumps(release)), copy.deepcopy(release)):
        assert (other.guarantee, other.receipt) == (release.guarantee, release.receipt)


def test_a_ledger_that_cannot_be_read_makes_no_grid_public(places):
    places("called")
    declared_public(open_grid("private.m"))  # there is no ledger yet
    release_grid(ReleaseSettings.of(GRID))
    Path(default_location()).write_bytes(b"garbage")
    with pytest.raises(GridveilError):
        declared_public(open_grid("private.m"))
