"""README and docs are true: their Python runs, their commands work, their schema is the code's."""

import contextlib
import importlib
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import gridveil
from gridveil import open_grid, read_trajectory
from gridveil.cli import app
from gridveil.privacy.guarantee import CONDITIONAL
from gridveil.publication.certificate import CertificateDocument
from gridveil.publication.schema import ReleaseDocument
from record_layouts import BUSES, LAYOUTS, fill_in

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "THREAT_MODEL.md",
    ROOT / "KNOWN_LIMITS.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
]


def blocks(page, language):
    fenced = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    found = fenced.findall(page.read_text(encoding="utf-8"))
    return [text for name, text in found if name == language]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRIDVEIL_HOME", str(tmp_path / "home"))
    return tmp_path


def run(line):
    program = Path(sys.executable).with_name("gridveil")
    return subprocess.run(
        [program, *shlex.split(line, comments=True)[1:]],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )


def test_the_readme_works_from_top_to_bottom(workplace):
    page = ROOT / "README.md"
    lines = [
        line
        for block in blocks(page, "")
        for line in block.splitlines()
        if line.startswith("gridveil ")
    ]
    assert len(lines) == 8
    for line in lines:
        result = run(line)
        assert result.returncode == 0, result.stderr
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), {})
    assert (workplace / "response.png").stat().st_size > 10_000


def test_the_readme_is_short():
    page = ROOT / "README.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 100
    assert max(map(len, lines)) <= 100
    assert all(block.count("\n") <= 10 for name in ("", "python") for block in blocks(page, name))


def test_each_figure_in_the_readme_stands_on_the_page_that_it_links_to():
    rows = re.findall(
        r"^\| (.*) \| (.*) \| \[.*\]\((.*)\) \|$",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(rows) == 8
    for what, figure, page in rows:
        numbers = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", figure)
        told = re.findall(r"(?<![\w.])\d+(?:\.\d+)?", (ROOT / page).read_text(encoding="utf-8"))
        assert set(numbers) <= set(told), what


# What a page says of the code: `tests/x.py`, `foundation/x.py` of the package, `gridveil.x.y`.
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"(?<![\w/.-])((?:[a-z_]+/)+[a-z_0-9]+\.py)\b")
MODULE = re.compile(r"\bgridveil((?:\.[a-z_][a-z_0-9]*)+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_modules_that_a_page_names_are_there(page):
    said = " ".join(CODE.findall(page.read_text(encoding="utf-8")))
    places = (ROOT, ROOT / "src" / "gridveil")
    files = [name for name in FILE.findall(said) if "NAME" not in name]
    assert [name for name in files if not any((at / name).exists() for at in places)] == []
    for name in MODULE.findall(said):
        thing = gridveil
        for part in name.split(".")[1:]:
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{thing.__name__}.{part}")
            thing = getattr(thing, part)


@pytest.mark.parametrize(
    "page", [page for page in PAGES[1:] if blocks(page, "python")], ids=lambda page: page.name
)
def test_the_python_on_a_page_runs(page, workplace):
    if page.name == "trajectories.md":
        (workplace / "record.toml").write_text(blocks(page, "toml")[0], encoding="utf-8")
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), {})


def options_of(command):
    """The options of a command and of those below it; a switch has two."""
    own = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    below = getattr(command, "commands", {}).values()
    return own.union({"--help"}, *map(options_of, below))


def in_code(page):
    """Lines of code blocks, and words set as code."""
    text = page.read_text(encoding="utf-8")
    fenced = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
    lines = [line.strip() for block in fenced.findall(text) for line in block.splitlines()]
    return lines + re.findall(r"`([^`\n]+)`", fenced.sub("", text))


PROGRAM = typer.main.get_command(app)
BENCHMARKS = "".join(
    path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py")
)


def unknown(words):
    """Commands and options of gridveil that a line names and that are not there."""
    command, names = PROGRAM, words.replace("\\|", " ").split()[1:]
    for name in itertools.takewhile(str.islower, names):
        if name not in getattr(command, "commands", {}):
            break
        command = command.commands[name]
    missing = names[:1] if command is PROGRAM and names[0].isalpha() else []
    options = re.findall(r"(?<![\w-])--[a-z][a-z-]*", words)
    return missing + [option for option in options if option not in options_of(command)]


COMMAND_LINES = {
    page: [words for words in in_code(page) if re.match(r"gridveil [a-z-]", words)]
    for page in PAGES
}
LONE_OPTIONS = {
    page: [words for words in in_code(page) if re.match(r"--[a-z]", words)] for page in PAGES
}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if COMMAND_LINES[page]], ids=lambda page: page.name
)
def test_the_commands_on_a_page_are_there_with_their_options(page):
    assert {words: unknown(words) for words in COMMAND_LINES[page] if unknown(words)} == {}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if LONE_OPTIONS[page]], ids=lambda page: page.name
)
def test_the_options_that_a_page_names_alone_are_of_a_command_or_a_benchmark(page):
    for words in LONE_OPTIONS[page]:
        assert all(f'"{option}"' in BENCHMARKS for option in unknown(f"gridveil {words}")), words


@pytest.mark.slow
def test_the_page_on_trajectories_works_from_top_to_bottom(workplace):
    page = ROOT / "docs" / "trajectories.md"
    text = page.read_text(encoding="utf-8").splitlines()
    assert (
        " ".join(line.removeprefix("> ") for line in text if line.startswith("> ")) == CONDITIONAL
    )
    declared, *unknown = blocks(page, "toml")
    (workplace / "record.toml").write_text(declared, encoding="utf-8")
    exec(compile(blocks(page, "python")[0], page.name, "exec"), {})
    lines = [line for line in text if line.startswith("gridveil ") and "record.toml" in line]
    assert [line.split()[1] for line in lines] == ["inspect", "release"]
    for line in lines:
        result = run(line)
        assert result.returncode == 0, result.stderr
    assert (workplace / "record.png").stat().st_size > 10_000
    facts = open_grid("star5").facts
    for block in unknown:  # what is said of an unknown event stands in the place of the known one
        keys = [line.split(" =")[0] for line in block.splitlines()]
        rest = [line for line in declared.splitlines() if line.split(" =")[0] not in keys]
        (workplace / "unknown.toml").write_text("\n".join([block, *rest]), encoding="utf-8")
        assert read_trajectory(workplace / "unknown.toml", facts).unknown.split
    # The page's few rows have the columns that its declaration names.
    (shown,) = blocks(page, "csv")
    assert (workplace / "record.csv").read_text(encoding="utf-8").splitlines()[
        0
    ] == shown.splitlines()[0]


@pytest.mark.slow
def test_the_page_on_trajectories_leads_from_files_to_a_replay(workplace):
    for write in LAYOUTS.values():  # the files that the page names
        write(workplace)
    text = (ROOT / "docs" / "trajectories.md").read_text(encoding="utf-8").splitlines()
    lines = [line for line in text if line.startswith("gridveil ") and "record.toml" not in line]
    assert [line.split()[1] for line in lines] == [
        *("record", "inspect", "release", "simulate", "record", "record", "record")
    ]
    for line in lines:
        result = run(line)
        assert result.returncode == 0, result.stderr
        if line.startswith("gridveil record init"):  # what the page asks the reader to do
            made = result.stdout.split()[0].rstrip(":")
            fill_in(workplace / made, BUSES[made.removesuffix(".toml")])
    for name in ("pmu.png", "fitted.png", "replay.png"):
        assert (workplace / name).stat().st_size > 10_000


@pytest.mark.slow
def test_the_commands_on_leakage_work_with_the_record_that_it_names(workplace):
    trajectories, page = ROOT / "docs" / "trajectories.md", ROOT / "docs" / "leakage.md"
    (workplace / "record.toml").write_text(blocks(trajectories, "toml")[0], encoding="utf-8")
    exec(compile(blocks(trajectories, "python")[0], trajectories.name, "exec"), {})
    lines = [line for line in blocks(page, "")[0].splitlines() if line.startswith("gridveil ")]
    assert len(lines) == 3
    made = [
        line
        for line in trajectories.read_text(encoding="utf-8").splitlines()
        if line.startswith("gridveil release") and "record.toml" in line
    ]
    for line in (*made, *lines):
        result = run(line)
        assert result.returncode == 0, result.stderr
    assert (workplace / "coarser" / "record.toml").exists()


@pytest.mark.slow
def test_the_page_on_plans_shows_what_the_command_prints(workplace):
    page = ROOT / "docs" / "plan.md"
    (line,) = [
        line
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("gridveil plan")
    ]
    result = run(line)
    assert result.returncode == 0, result.stderr
    (shown,) = blocks(page, "text")
    assert shown.split() == result.stdout.split()
    assert (workplace / "plan.png").stat().st_size > 10_000


def test_the_toml_of_the_pages_on_commands_and_grids_is_a_working_configuration(workplace):
    (config,) = blocks(ROOT / "docs" / "commands.md", "toml")
    dynamics = blocks(ROOT / "docs" / "grids.md", "toml")[0]
    (workplace / "release.toml").write_text(config, encoding="utf-8")
    assert run("gridveil release --config release.toml").returncode == 0
    case = (ROOT / "src/gridveil/readers/cases/ieee30.m").read_text(encoding="utf-8")
    (workplace / "case.m").write_text(case, encoding="utf-8")
    (workplace / "case.toml").write_text(dynamics, encoding="utf-8")
    assert run("gridveil inspect case.m").returncode == 0


@pytest.mark.parametrize(
    ("name", "document"),
    [("release-schema-1", ReleaseDocument), ("certificate-schema-2", CertificateDocument)],
)
def test_the_published_schemas_are_the_ones_in_use(name, document):
    published = json.loads((ROOT / "docs" / f"{name}.json").read_text(encoding="utf-8"))
    assert published == document.model_json_schema()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target
