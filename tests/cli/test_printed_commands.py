"""Commands that commands print: each runs as printed, capitals filled in."""

import io
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout

import pytest
from rich.console import Console

from cli_helpers import gridveil
from gridveil.cli import output
from gridveil.cli.output import confirm, print_command, print_notice, print_table
from gridveil.cli.terms import TERMS
from gridveil.foundation.errors import OptionError
from measured_helpers import write_measured
from terminal import Terminal

# What a user puts for a word in capitals.
FILLED = {"GRID": "star5", "BUNDLE": "out bundle", "EPSILON": "2"}
FILLED_DETAILED = {"GRID": "andes:kundur"}
PRINTED = re.compile(r"^(?:[A-Z][a-z]+ +| +)(gridveil .*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def at_home(tmp_path_factory):
    """A folder with a home, in which all commands run one after the other."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("GRIDVEIL_HOME", str(folder / "data"))
        patch.delenv("GRIDVEIL_LEDGER", raising=False)
        patch.setenv("GRIDVEIL_WITNESS", str(folder / "witness.sqlite"))
        yield folder


COMMANDS = [
    "keys show",
    "keys new",
    "demo star5 --out 'a demo'",
    "cases star",
    "release star5 --epsilon 1 --out 'out bundle' --lineage 'my grid'",
    "ledger register 'another grid'",
    "plan star5 --nadir-error 30% --draws 50 --adjacency one-asset-relative --bounds d=1:100",
    "plan star5 --nadir-error 2% --draws 50",
]


@pytest.fixture(scope="module")
def printed(at_home):
    """Every command that one of COMMANDS prints."""
    found = []
    for command in COMMANDS:
        done = gridveil(*shlex.split(command))
        assert done.code == 0, (command, done.err)
        found += [(command, line) for line in PRINTED.findall(done.out)]
    return found


def test_each_of_these_commands_prints_one(printed):
    silent = set(COMMANDS) - {command for command, _ in printed}
    assert not silent


def test_every_printed_command_runs_as_printed(printed, at_home):
    (at_home / "keyring.json").write_bytes((at_home / "data/keys/keyring.json").read_bytes())
    for number, (command, line) in enumerate(dict.fromkeys(printed)):
        words = [FILLED.get(word, word) for word in shlex.split(line)]
        assert words[0] == "gridveil"
        if words[1] == "release":
            words += ["--out", f"made-{number}", "--ledger", f"{number}.sqlite"]
            words += ["--witness", f"witness-{number}.sqlite"]
        if words[1:3] == ["keys", "new"]:
            continue  # it was run: there is a key now
        done = gridveil(*words[1:])
        assert done.code == 0, (command, line, done.err)


def test_commands_in_remedies_run_as_printed_too(printed, at_home):
    # Each fails, and says last which command to run next.
    for failing in (
        "release star5 --epsilon 5 --lineage 'my grid' --out never",
        "ledger budget 'no such grid' --epsilon 1",
        "inspect no-such-grid",
        "inspect matpower:no-such-case",
    ):
        done = gridveil(*shlex.split(failing))
        assert done.code == 2
        (line,) = re.findall(r"gridveil [a-z].*$", done.err.removeprefix("gridveil: ").strip())
        filled = FILLED | {"GRID": "ieee30"}  # star5 is known to the ledger
        words = [filled.get(word, word) for word in shlex.split(line)]
        again = gridveil(*words[1:])
        assert again.code == 0, (failing, line, again.err)


def test_a_printed_command_is_quoted_and_in_one_line():
    out = io.StringIO()
    with redirect_stdout(out):
        print_command("Next", "gridveil", "verify", "a folder/" + 30 * "long name ", "--key", "k")
    (line,) = out.getvalue().splitlines()
    assert shlex.split(line.removeprefix("Next"))[2] == "a folder/" + 30 * "long name "


# Terms that stand for themselves wherever they are printed.
OF_ART = ("ε", "α", "adjacency", "lineage", "nadir", "RoCoF", "RMS", "Σℓ", "μ")


@pytest.mark.parametrize(
    "command",
    [
        "release star5 --epsilon 1/2 --lineage 'my grid' --dry-run",
        "verify 'out bundle'",
        "simulate 'out bundle' --event load:G1=+0.1",
        "ledger show",
        "leakage star5 --trajectory record/record.toml",
        "plan star5 --nadir-error 30% --draws 50 --adjacency one-item --mechanism items",
        "demo star5 --out 'another demo'",
    ],
)
def test_every_term_of_art_has_a_word_of_explanation(printed, at_home, command):
    if not (at_home / "record").exists():
        write_measured(at_home / "record")
    if command.startswith("release"):
        assert gridveil("ledger", "budget", "my grid", "--epsilon", "3").code == 0
    done = gridveil(*shlex.split(command))
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    for term in OF_ART:
        if re.search(rf"(?<!\w){term}(?!\w)", said):
            assert f"{term}: {TERMS[term]}" in said, term


def test_a_table_is_laid_out_row_by_row_before_a_cell_is_cut_off(at_home):
    if not (at_home / "record").exists():
        write_measured(at_home / "record")
    terminal = Terminal("leakage", "star5", "--trajectory", "record/record.toml", cwd=at_home)
    assert terminal.end() == 0
    assert "…" not in "".join(terminal.lines)
    assert max(map(len, terminal.lines)) <= 80


def test_the_line_that_export_prints_is_not_wrapped(printed, at_home):
    terminal = Terminal("export", "out bundle", "--to", "csv", cwd=at_home)
    assert terminal.end() == 0
    (line,) = (line for line in terminal.shown.splitlines() if line.startswith("Run "))
    assert line.rstrip().endswith('"')


@pytest.mark.slow
def test_the_release_that_a_detailed_plan_prints_is_made_as_printed(at_home):
    done = gridveil(
        "plan", "andes:kundur", "--nadir-error", "60%", "--draws", "10", "--quantile", "0.5"
    )
    assert done.code == 0, done.err
    (line,) = PRINTED.findall(done.out)
    words = [FILLED_DETAILED.get(word, word) for word in shlex.split(line)]
    ledger = ("--ledger", "detailed.sqlite", "--witness", "detailed-witness.sqlite")
    made = gridveil(*words[1:], "--out", "detailed", *ledger)
    assert made.code == 0, (line, made.err)


# --- tables, questions, progress ------------------------------------------------------------------

COLUMNS = ("name", *(f"figure number {n} [mHz]" for n in range(9)))


def table(monkeypatch, width):
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, markup=False)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    print_table("figures", COLUMNS, [("a", *("1.234" for _ in COLUMNS[1:]))])
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 250])
def test_a_table_survives_a_narrow_terminal(monkeypatch, width):
    text = table(monkeypatch, width)
    assert max(map(len, text.splitlines())) <= width
    for column in COLUMNS:  # whole, in one line, whatever the width
        assert column in text
    assert text.count("1.234") == 9
    assert "…" not in text


def test_a_notice_at_a_terminal_is_wrapped_between_words(monkeypatch):
    class AtATerminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", AtATerminal())
    monkeypatch.setenv("COLUMNS", "80")
    print_notice(" ".join(["confidential"] * 12))
    lines = sys.stderr.getvalue().splitlines()
    assert len(lines) > 1 and max(map(len, lines)) <= 80
    assert set(" ".join(lines).split()) == {"gridveil:", "confidential"}


def test_what_cannot_be_undone_needs_a_word_off_a_terminal():
    confirm("It cannot be undone.", yes=True, outcome="Nothing was done.")
    with pytest.raises(OptionError, match="--yes"):
        confirm("It cannot be undone.", yes=False, outcome="Nothing was done.")


@pytest.mark.parametrize(("answer", "goes_on"), [(True, True), (False, False)])
def test_at_a_terminal_it_is_asked(monkeypatch, answer, goes_on):
    monkeypatch.setattr(output, "at_a_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: answer)
    if goes_on:
        confirm("Sure", yes=False, outcome="Nothing was done.")
    else:
        with pytest.raises(OptionError, match="called off"):
            confirm("Sure", yes=False, outcome="Nothing was done.")


def test_a_large_epsilon_is_refused_off_a_terminal(at_home):
    done = gridveil("release", "star5", "--epsilon", "11", "--out", "large", "--lineage", "large")
    assert done.code == 2
    assert "above 10" in done.err
    assert "Nothing was drawn and nothing was spent" in done.err
    assert not (at_home / "large").exists()


def test_revoking_a_key_asks(printed):
    done = gridveil("keys", "revoke")
    assert done.code == 2
    assert "It cannot be undone" in done.err
    assert "active" in gridveil("keys", "show").out


def test_progress_off_a_terminal_is_plain_lines(monkeypatch, capsys):
    monkeypatch.setattr(output, "BETWEEN_LINES_S", 0.0)
    lines = output.Lines()
    lines("reading the grid", 1, 4)
    lines("drawing", None, None)
    assert capsys.readouterr().err.splitlines() == [
        "gridveil: reading the grid (1 of 4)",
        "gridveil: drawing",
    ]


def test_what_is_quick_says_nothing_on_the_way(capsys):
    output.Lines()("reading the grid", 1, 4)
    assert not capsys.readouterr().err


# --- what was meant -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("inspect case118", "matpower:case118"),
        ("inspect star6", "star5"),
        ("inspect ieee39", "andes:ieee39"),
        ("release star5 --eps 1", "--epsilon"),
    ],
)
def test_what_was_meant_is_asked(command, meant):
    done = gridveil(*command.split())
    assert done.code == 2
    assert f"Did you mean {meant}?" in done.err


def test_a_plan_refuses_bounds_that_the_release_would_refuse():
    ratios = ["--adjacency", "one-asset-relative", "--bounds", "d=0:100"]
    done = gridveil("plan", "star5", "--nadir-error", "9%", *ratios)
    assert done.code == 2
    assert "lower bound of d above 0" in done.err


def test_swing_models_refuse_names_of_detailed_ones():
    done = gridveil("release", "star5", "--epsilon=1", "--model", "swing", "--alpha", "x=1/10")
    assert done.code == 2
    assert "x is of detailed models" in done.err
    for command in ("release star5 --epsilon 1", "plan star5 --nadir-error 9%"):
        words = [*command.split(), "--model", "swing", "--adjacency", "asset-l1-relative"]
        done = gridveil(*words)
        assert done.code == 2
        assert "is an adjacency of detailed models" in done.err


def test_ctrl_c_while_importing_shows_no_traceback():
    code = """
import sys
import gridveil

class Interrupting:
    def find_spec(self, name, *_):
        if name == "gridveil.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
gridveil.run_command_line()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "gridveil: interrupted.\n"
