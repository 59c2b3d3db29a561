"""No release with bounds that nobody chose: refused before anything is charged, or derived from
public facts, shown, accepted and declared.
"""

from dataclasses import replace
from fractions import Fraction

import pytest

from cli_helpers import charges, files_under, gridveil, write_grid
from gridveil import load, verify
from gridveil.foundation.errors import OptionError
from gridveil.grid.derived import DERIVED, RATED_SIZES, VOLTAGE_CLASSES
from gridveil.grid.parameters import Range
from gridveil.privacy.ledger import Ledger
from gridveil.publication.stated import release_problems
from gridveil.workflow.foresee import foresee
from gridveil.workflow.release import Dialogue, release_grid
from gridveil.workflow.settings import ReleaseSettings
from terminal import Terminal

IEEE39 = ("release", "andes:ieee39", "--epsilon=1", "--damping=2")
RATED = ("3 30 0 100 -100 1.01 100 1 100 0", "3 30 0 100 -100 1.01 400 1 100 0")


@pytest.fixture
def room(tmp_path, monkeypatch):
    """An empty folder with a home, and a grid that has no bounds of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRIDVEIL_WITNESS", str(tmp_path / "home/witness.sqlite"))
    monkeypatch.delenv("GRIDVEIL_LEDGER", raising=False)
    grid = write_grid(tmp_path / "in", replace=RATED)
    toml = grid.with_suffix(".toml")
    toml.write_text(toml.read_text().partition("[bounds]")[0])
    return tmp_path


def test_a_grid_that_has_no_bounds_is_refused_before_anything_is_written(room):
    done = gridveil(*IEEE39)
    assert done.code == 2
    for words in ("k, m, d are neither given nor derived", "nothing was spent", "--bounds derived"):
        assert words in done.err
    assert not (room / "home").exists()
    assert not (room / "release").exists()
    partly = gridveil(*IEEE39, "--bounds=m=10:1200,k=5:500")
    assert (partly.code, "bounds of d are neither" in partly.err) == (2, True), partly.err


def test_derived_bounds_are_accepted_declared_and_verified(room):
    done = gridveil(*IEEE39, "--bounds=derived", "--out=out")
    assert done.code == 0, done.err
    verify("out")
    release = load("out")
    assert release.bounds["m"] == Range(16, 4400)
    assert release.bounds.origin == DERIVED
    assert release.guarantee.groups["m"].alpha == 5
    assert release.public_inputs[RATED_SIZES].startswith("ratings of 836 MVA or more, median 1060")
    assert release.public_inputs[VOLTAGE_CLASSES].startswith("138 to 345 kV; declared public")
    assert any("rated MVA" in words for words in release.not_protected)
    assert any("nominal voltage" in words for words in release.not_protected)
    # Σm is 1814: gridveil's usual bounds, 1 to 40, gave at most 400
    assert 1500 < release.swing.m.sum() < 2200


def test_facts_behind_bounds_are_checked_where_a_bundle_states_them(room):
    settings = ReleaseSettings.of(grid="in/private.m", epsilon="1", bounds="derived", out="out")
    (made,) = release_grid(settings).releases
    assert list(release_problems(made)) == []
    told = dict(made.public_inputs)
    for inputs in (
        told | {VOLTAGE_CLASSES: "132 kV"},  # without saying that its owner declares it
        told | {"ratings of rivals": "declared public by the owner"},
    ):
        assert any(
            "public_inputs" in one for one in release_problems(replace(made, public_inputs=inputs))
        )
    hidden = replace(made, guarantee=replace(made.guarantee, hides_network=True))
    assert any("public_inputs" in one for one in release_problems(hidden))


@pytest.mark.parametrize(
    "options",
    [
        ("in/private.m", "--bounds=derived"),
        ("in/private.m", "--bounds=derived", "--mechanism=topology", "--count=2", "--json"),
        ("in/private.m",),
        ("andes:kundur", "--formats=psse", "--json"),
    ],
    ids=" ".join,
)
def test_a_dry_run_charges_draws_and_writes_nothing(room, options, monkeypatch):
    monkeypatch.setattr("gridveil.vault.sampler.SecureSampler.draw", None)
    before = files_under(room)
    done = gridveil("release", *options, "--epsilon=1/2", "--dry-run")
    assert done.code == 0, done.err
    assert "Nothing was charged, nothing was drawn and nothing was written." in done.out
    assert files_under(room) == before


def test_a_dry_run_says_that_its_place_is_taken_and_goes_on(room):
    (room / "taken").mkdir()
    command = ("release", "star5", "--epsilon=1/2", "--out=taken")
    done = gridveil(*command, "--dry-run")
    assert done.code == 0, done.err
    assert "taken exists already: a release there would be refused." in " ".join(done.err.split())
    assert "Nothing was charged" in done.out
    assert gridveil(*command).code == 2


def test_an_option_that_makes_a_swing_model_of_a_grid_with_controls_says_so(room):
    given = ["--epsilon=1", "--bounds=derived", "--dry-run"]
    done = gridveil("release", "andes:ieee39", "--damping=2", *given)
    said = " ".join(done.err.split())
    assert done.code == 0 and "--damping makes this a swing model: 10 exciters left out" in said
    assert "for ever" in said
    done = gridveil("release", "andes:ieee39", "--damping=2", "--model=swing", *given)
    assert done.code == 0 and "makes this a swing model" not in done.err


def test_a_dry_run_foretells_what_the_release_then_says(room):
    asked = {"grid": "in/private.m", "epsilon": "1/2", "bounds": "derived", "out": "out"}
    seen = foresee(ReleaseSettings.of(asked))
    made = release_grid(ReleaseSettings.of(asked)).releases[0]
    assert made.guarantee == seen.guarantee
    assert dict(made.public_inputs) == dict(seen.inputs)
    assert made.not_protected == seen.not_protected
    assert {name: made.bounds[name] for name in "kmd"} == {
        name: seen.chosen.bounds[name] for name in "kmd"
    }
    assert seen.cost == Fraction(1, 2)


def test_a_dry_run_is_refused_where_the_release_would_be(room):
    command = ("release", "in/private.m", "--epsilon=1/2", "--bounds=derived")
    assert gridveil(*command, "--out=first").code == 0
    refused, real = gridveil(*command, "--dry-run"), gridveil(*command)
    assert (refused.code, refused.err) == (real.code, real.err)
    assert "does not cover" in refused.err
    other = gridveil(*command, "--dry-run", "--lineage=sold")
    assert "it is a version of that one" in other.err
    assert len(charges(room / "home/ledger.sqlite")) == 1


def test_a_budget_keeps_its_distances_whatever_would_be_derived_now(room):
    ledger = Ledger(room / "home/ledger.sqlite")
    ledger.register("private")
    assert gridveil("ledger", "budget", "private", "--epsilon=2").code == 0
    assert gridveil("release", "in/private.m", "--epsilon=1", "--bounds=derived").code == 0
    assert load("release").guarantee.groups["m"].alpha == 1


def test_a_terminal_is_asked_and_a_no_leaves_nothing(room):
    class Asked(Dialogue):
        def __init__(self, answer):
            self.answer, self.shown = answer, []

        def accepts(self, chosen, facts):
            self.shown.append((chosen.missing, chosen.sources["m"]))
            return self.answer

    settings = ReleaseSettings.of(grid="in/private.m", epsilon="1/2", out="out")
    no, yes = Asked(False), Asked(True)
    with pytest.raises(OptionError, match="neither given nor derived"):
        release_grid(settings, no)
    assert not (room / "home").exists()
    released = release_grid(settings, yes)
    ((missing, source),) = yes.shown
    assert missing == ("k", "m", "d")
    assert source == "H of 1 to 10 s; ratings of 100 MVA or more, median 100, together 600"
    assert released.releases[0].bounds.origin == DERIVED


@pytest.mark.parametrize("answer", ["", "y"])
def test_a_real_terminal_shows_the_table_and_asks(room, answer):
    terminal = Terminal("release", "in/private.m", "--epsilon=1/2", "--out=out", cwd=room)
    terminal.until("bounds follow from")
    terminal.until("ratings of 100 MVA")
    terminal.answer("Release with these bounds? [y/N]", answer)
    assert terminal.end() == (0 if answer else 2), terminal.shown
    assert (room / "out").exists() == (room / "home").exists() == bool(answer)
    assert max(map(len, terminal.lines)) <= 80


def test_bounds_beside_a_file_are_its_own_and_options_come_before_them(room):
    toml = room / "in/private.toml"
    toml.write_text(
        f"{toml.read_text()}[bounds]\nk = [2, 90]\nm = [1, 50]\nd = [0, 9]\n"
        'origin = "a public study"\n'
    )
    seen = foresee(ReleaseSettings.of(grid="in/private.m", epsilon="1", bounds="m=3:33"))
    assert seen.chosen.missing == ()
    assert seen.chosen.bounds["k"] == Range(2, 90)
    assert seen.chosen.bounds["m"] == Range(3, 33)
    assert gridveil("release", "in/private.m", "--epsilon=1").code == 0
    assert load("release").public_inputs["bounds"] == "a public study"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("k = [9.25, 3.125]", "bounds are not usable"),
        ("k = 3.125", "k is not usable"),
        ("x = [1, 3.125]", "the key 'x' is unknown"),
    ],
)
def test_bounds_beside_a_file_are_checked_and_no_error_shows_them(room, table, words):
    toml = room / "in/private.toml"
    toml.write_text(f"{toml.read_text()}[bounds]\n{table}\n")
    done = gridveil("inspect", "in/private.m")
    assert (done.code, words in done.err, "3.125" in done.err) == (2, True, False), done.err


def test_a_release_toml_may_say_derived_and_an_option_one_group(room):
    (room / "release.toml").write_text(
        'grid = "in/private.m"\nepsilon = "1/2"\nbounds = "derived"\n'
    )
    done = gridveil("release", "--config=release.toml", "--bounds=m=5:50", "--json")
    assert done.code == 0, done.err
    assert load("release").bounds["m"] == Range(5, 50)
    assert RATED_SIZES in load("release").public_inputs  # d follows from ratings
