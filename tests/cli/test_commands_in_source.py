"""Every command that a string of the source tells a user to run is run here, capitals and holes
filled in: one that is added without being run fails.
"""

import ast
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import gridveil as package
from cli_helpers import gridveil
from gridveil.cli import app
from measured_helpers import write_measured
from record_layouts import hz_at

SOURCE = Path(package.__file__).parent
MENU = typer.main.get_command(app)
COMMANDS = {name: set(getattr(command, "commands", ())) for name, command in MENU.commands.items()}
# Words of a command besides its name: options, capitals, holes, and values such as record.png.
WORD = re.compile(
    r"--[a-z-]+|-[a-z]|[A-Z][A-Z_]*(=[A-Z]+|\.toml)?|\{\}|\.|[a-z-]+\.(png|json|toml)|\.\./[a-z.]+"
    r"|derived|ieee30|\"\{\}\""
)
# What is said of a release, and is no command.
NO_COMMAND = re.compile(
    r"gridveil (release[:,.]|release$|release\n|ledger (chain|names|head|seals))"
)

# Commands with arguments, and what stands for their holes, in order.
RUN = {
    "gridveil verify {}": ["bundle"],
    "gridveil simulate {} --event {} --plot response.png": ["bundle", "load:G1=+0.1"],
    "gridveil inspect {}": ["star5"],
    "gridveil inspect ieee30": [],
    "gridveil verify BUNDLE --key keyring.json": [],
    "gridveil ledger budget {} --epsilon EPSILON": ["star5"],
    "gridveil ledger budget {} --alpha NAME=ALPHA --epsilon EPSILON": ["star5"],
    "gridveil ledger budget {} --epsilon {}": ["star5", "4"],
    "gridveil ledger register {} GRID": ["another"],
    "gridveil ledger adopt --head certificate.json": [],
    "gridveil inspect GRID --trajectory {} --plot {}": ["record/record.toml", "record.png"],
    "gridveil inspect GRID --trajectory THIS.toml --plot record.png": [],
    "gridveil release --config {}": ["release.toml"],
    "gridveil ledger budget --help": [],
    "gridveil release GRID --epsilon EPSILON --bounds derived --dry-run": [],
    "gridveil record init {}": ["record/record.csv"],
    "gridveil cases {}": ["star"],
    "gridveil leakage GRID --trajectory RECORD --surrogate {}": ["bundle"],
    "gridveil leakage GRID --trajectory RECORD --sigma SIGMA": [],
    "gridveil leakage GRID --trajectory RECORD --rate RATE": [],
    'gridveil simulate . --event "{}"': ["load:G1=+0.1"],
    "gridveil simulate . --replay --plot ../replay.png": [],
}
# Run elsewhere: minutes, a terminal, or a folder of their own.
ELSEWHERE = {
    "gridveil audit --thorough": "tests/assurance/test_audit_noise.py",
    "gridveil paper --runs {}": "tests/paper",
    "gridveil plan FILE --public": "tests/planning/test_plan.py",
    "gridveil studio --demo": "tests/studio",
    "gridveil release --config release.toml": "tests/studio/test_way.py, as downloaded",
    "{}": "test_printed_commands.py, the release that a plan proposes",
}
CAPITALS = {
    "GRID": "star5",
    "BUNDLE": "bundle",
    "EPSILON": "3",
    "RECORD": "record/record.toml",
    "THIS.toml": "record/record.toml",
    "SIGMA": "1mHz",
    "RATE": "10Hz",
    "NAME=ALPHA": "k=2",
}
OWN = {
    "gridveil ledger register {} GRID": {"GRID": "ieee30"},  # star5 is known to the ledger
    "gridveil release GRID --epsilon EPSILON --bounds derived --dry-run": {"EPSILON": "1/4"},
}
# Commands that run without any argument, and change nothing that others need.
BARE = ("demo", "cases", "keys show", "keys rotate", "ledger show", "ledger verify", "ledger adopt")


def text_of(node):
    """A string as it is printed, with {} for what is filled in; None: no string."""
    if isinstance(node, ast.JoinedStr):
        return "".join(p.value if isinstance(p, ast.Constant) else "{}" for p in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def commands_in(text):
    """The commands that a text tells, up to the first word that is none of theirs."""
    for found in re.finditer(r"gridveil ([a-z]+)(?![a-z])(.*?)(?=gridveil |\n|$)", text):
        name = found[1]
        if name not in COMMANDS or NO_COMMAND.match(text, found.start()):
            continue
        words = ["gridveil", name]
        rest = found[2][1:].split(" ") if found[2].startswith(" ") else []
        for place, word in enumerate(rest):
            bare = word if word == "." else word.rstrip(".,;:)`") or word
            if not ((place == 0 and bare in COMMANDS[name]) or WORD.fullmatch(bare)):
                break
            words.append(bare)
            if bare != word:
                break
        yield " ".join(words)


def told():
    """Every command that the source tells, and where."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        left_out = set()  # docstrings, which nobody prints, and parts of f-strings
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                left_out |= {id(part) for part in node.values}
            documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            if documented and node.body and isinstance(node.body[0], ast.Expr):
                left_out.add(id(node.body[0].value))
        for node in ast.walk(tree):
            if id(node) in left_out:
                continue
            text = text_of(node) or ""
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print_command":
                words = [text_of(word) or "{}" for word in node.args[1:]]
                commands = [" ".join(words)]
            else:
                commands = commands_in(text)
            for command in commands:
                found.setdefault(command, f"{path.relative_to(SOURCE)}:{node.lineno}")
    return found


TOLD = told()
NAMES = {
    f"gridveil {' '.join(filter(None, (name, own)))}"
    for name, parts in COMMANDS.items()
    for own in (*parts, "")
}


def test_every_command_that_is_told_is_known_here():
    known = {*RUN, *ELSEWHERE, *NAMES}
    new = {command: place for command, place in TOLD.items() if command not in known}
    assert not new, "add it to RUN, so that it is run as printed"
    assert not {*RUN, *ELSEWHERE} - TOLD.keys(), "told no more"


@pytest.mark.parametrize("command", sorted(NAMES & TOLD.keys()))
def test_a_command_that_is_named_is_there(command):
    assert gridveil(*command.split()[1:], "--help").code == 0


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder in which a key, a signed release with its record and a second home are."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("GRIDVEIL_HOME", str(folder / "data"))
        patch.delenv("GRIDVEIL_LEDGER", raising=False)
        patch.setenv("GRIDVEIL_WITNESS", str(folder / "witness.sqlite"))
        time = [n / 20 for n in range(401)]
        rows = [[hz_at(bus, t - 2) for bus in ("1", "4")] for t in time]
        write_measured(folder / "record", time, rows, offset="none", redistribute=True)
        for command in (
            "keys new",
            "release star5 --epsilon 1 --out bundle --trajectory record/record.toml --yes",
            "ledger budget star5 --epsilon 2",
        ):
            done = gridveil(*command.split())
            assert done.code == 0, (command, done.err)
        (folder / "keyring.json").write_bytes((folder / "data/keys/keyring.json").read_bytes())
        (folder / "certificate.json").write_bytes((folder / "bundle/certificate.json").read_bytes())
        (folder / "release.toml").write_text('grid = "star5"\nepsilon = "1/2"\nout = "again"\n')
        yield folder


@pytest.mark.slow
@pytest.mark.parametrize("command", RUN)
def test_it_runs_as_it_is_told(home, command, monkeypatch):
    values = iter(RUN[command])
    filled = CAPITALS | OWN.get(command, {})
    words = [filled.get(word, word) for word in shlex.split(command)]
    words = [next(values) if word == "{}" else word for word in words]
    if "." in words:  # of a bundle's README
        monkeypatch.chdir(home / "bundle")
    if words[1:3] == ["record", "init"]:
        words += ["--out", str(home / "new.toml")]
    done = gridveil(*words[1:])
    assert done.code == 0, (TOLD.get(command), done.err)


@pytest.mark.slow
@pytest.mark.parametrize("command", BARE)
def test_commands_without_arguments_run_bare(home, command):
    assert gridveil(*command.split()).code == 0


@pytest.mark.slow
def test_the_commands_of_a_bundles_readme_run_in_it(home, monkeypatch):
    """As they stand there, in a shell."""
    monkeypatch.chdir(home / "bundle")
    text = (home / "bundle" / "README.md").read_text()
    lines = re.findall(r"^(?:gridveil|python -c) .*$", text, re.MULTILINE)
    lines += re.findall(r"`(gridveil [a-z]+ \. [^`]*)`", text)
    assert len(lines) >= 4
    scripts = Path(sys.executable).parent
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", f"PATH={shlex.quote(str(scripts))}:$PATH; {line}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (line, done.stderr)
    assert gridveil("verify", ".").code == 0  # nothing was left in it


@pytest.mark.slow
def test_the_line_that_export_prints_runs_in_a_shell(home):
    shutil.rmtree("tables", ignore_errors=True)
    done = gridveil("export", "bundle", "--to", "csv", "--out", "tables")
    (line,) = re.findall(r"^Run +(.*)$", done.out, re.MULTILINE)
    scripts = Path(sys.executable).parent
    ran = subprocess.run(
        ["bash", "-c", f"PATH={shlex.quote(str(scripts))}:$PATH; {line}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "G1" in ran.stdout
