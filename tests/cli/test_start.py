"""The guided path, driven through a terminal: from a fresh home to a verified release, and nothing
half done wherever it is left.
"""

import shutil
import time
import tomllib
from fractions import Fraction

import pytest
import typer

from cli_helpers import charges, files_under, gridveil
from gridveil import load, verify
from gridveil.cli import start as guide
from gridveil.privacy.ledger import Ledger
from gridveil.readers.cases.packages import package_case
from terminal import Terminal

QUESTIONS = (
    "Hide",
    "Enter to accept",
    "Its TOML",
    "Largest error of the nadir",
    "ε of the release",
    "Account of the ledger",
    "Bundle, a folder",
    "Budget ε",
    "Write these settings",
    "Make the release now",
)


@pytest.fixture
def room(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRIDVEIL_WITNESS", str(tmp_path / "home/witness.sqlite"))
    monkeypatch.delenv("GRIDVEIL_LEDGER", raising=False)
    return tmp_path


def walk(room, *arguments, **answers):
    """Answer every question, with Enter where nothing else is said."""
    terminal = Terminal("start", *arguments, cwd=room)
    detailed = () if "--model=swing" in arguments else ("A public case to plan on",)
    for question in (*QUESTIONS[:4], *detailed, *QUESTIONS[4:]):
        terminal.answer(question, answers.get(question.split()[0].lower(), ""))
    return terminal, terminal.end()


@pytest.mark.slow
def test_a_swing_model_of_ieee39_from_a_fresh_home_to_a_verified_release(room):
    terminal, code = walk(
        room,
        "andes:ieee39",
        "--model=swing",
        "--damping=2",
        largest="5",
        budget="3",
        ε="1/2",
        make="y",
    )
    assert code == 0, terminal.shown
    verify(room / "release")
    release = load(room / "release")
    assert release.guarantee.epsilon == Fraction(1, 2)
    assert release.guarantee.groups["m"].alpha == 5
    assert release.bounds.origin.startswith("derived by gridveil")
    account = Ledger(room / "home/ledger.sqlite").account("andes:ieee39")
    assert (account.epsilon, account.draws) == (3, 1)
    assert max(map(len, terminal.lines)) <= 80
    settings = tomllib.loads((room / "release.toml").read_text())
    assert settings["bounds"] == "derived"
    assert settings["epsilon"] == "1/2"
    # the same release again, by the file alone, is the command that it names
    again = gridveil("release", "--config=release.toml", "--out=again", "--dry-run")
    assert again.code == 0, again.err


@pytest.mark.slow
def test_a_raw_and_dyr_pair_from_a_fresh_home_to_a_verified_release(room):
    folder = package_case("andes:kundur").parent
    shutil.copy(folder / "kundur.raw", room / "ours.raw")
    shutil.copy(folder / "kundur_full.dyr", room / "ours.dyr")
    terminal, code = walk(room, "ours.raw", make="y")
    assert code == 0, terminal.shown
    verify(room / "release")
    assert load(room / "release").guarantee.rule == "one-asset-relative"
    assert max(map(len, terminal.lines)) <= 80


def test_wrong_answers_are_asked_again_and_a_last_no_charges_nothing(room):
    terminal = Terminal("start", "star5", cwd=room)
    for question, answers in {
        "Hide": ("7", "3"),
        "Enter to accept": ("m=3:2", "m=2:30", ""),
        "Its TOML": ("nowhere.toml", ""),
        "Largest error of the nadir": ("much", "200"),
        "ε of the release": ("-1", "1/2"),
        "Account of the ledger": ("ours",),
        "Bundle, a folder": ("out",),
        "Budget ε": ("1/4", "1"),
        "Write these settings": ("",),
        "Make the release now": ("",),
    }.items():
        for answer in answers:
            terminal.answer(question, answer)
    assert terminal.end() == 0, terminal.shown
    for words in (
        "is none of them",
        "reversed",
        "nowhere.toml",
        "does not cover",
        "Nothing was ch",
    ):
        assert words in terminal.shown
    assert sorted(path.name for path in room.iterdir()) == ["release.toml"]
    settings = tomllib.loads((room / "release.toml").read_text())
    assert settings["mechanism"] == "topology"
    assert settings["bounds"] == "m=2:30"
    done = gridveil("release", "--config=release.toml")
    assert done.code == 0, done.err
    assert charges(room / "home/ledger.sqlite")[0].lineage == "ours"


def test_an_interrupt_at_a_terminal_leaves_nothing(room):
    terminal = Terminal("start", "star5", cwd=room)
    terminal.until("Hide [1]: ")
    time.sleep(0.5)  # a key between prompt and answer would wait for the next one
    terminal.type("\x03")
    assert terminal.end() != 0
    assert "Nothing was written and nothing was charged." in terminal.shown
    assert files_under(room) == {}


@pytest.fixture
def asked(monkeypatch):
    """Answers by the number of the question; Ctrl-C at one of them."""
    monkeypatch.setattr(guide, "_check_terminal", lambda write: None)
    monkeypatch.setattr(guide, "_planned", lambda *of: ("1/2", None))

    def until(last):
        number = [0]

        def answer(text, default=None, **how):
            number[0] += 1
            if number[0] == last:
                raise typer.Abort
            return True if isinstance(default, bool) else default

        monkeypatch.setattr(typer, "prompt", answer)
        monkeypatch.setattr(typer, "confirm", answer)

    return until


@pytest.mark.parametrize("number", range(1, len(QUESTIONS) + 1))
def test_wherever_it_is_left_nothing_is_half_written_or_charged(room, asked, number):
    asked(number)
    done = gridveil("start", "star5")
    assert not (room / "home").exists()
    if number == len(QUESTIONS):  # the settings are written whole, and nothing is charged
        assert (done.code, [path.name for path in room.iterdir()]) == (0, ["release.toml"])
        assert "Nothing was charged." in done.out
    else:
        assert (done.code, files_under(room)) == (2, {}), done.err
        assert "Nothing was written and nothing was charged." in done.err


def test_it_needs_a_terminal_and_a_free_place(room):
    refused = gridveil("start", "star5")
    assert (refused.code, "no terminal to ask at" in refused.err) == (2, True), refused.err
    (room / "release.toml").write_text("grid = 'star5'\n")
    terminal = Terminal("start", "star5", cwd=room)
    assert terminal.end() == 2
    assert "is there already" in terminal.shown
