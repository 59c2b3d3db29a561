"""The vault's walls: who may import it, and what a command line may not load."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {
    "cryptography",
    "opendp",
    "scipy",
    "pandas",
    "matplotlib",
    "starlette",
    "uvicorn",
    "jinja2",
}


def lint_imports(root):
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "COLUMNS": "200"}
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )


def test_the_page_on_the_layout_lists_the_rooms_in_the_order_of_the_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert rooms == contracts["contracts"][0]["layers"]
    assert set(rooms) == {
        path.parent.name for path in (ROOT / "src/gridveil").glob("*/__init__.py")
    }


def test_one_name_is_one_class():
    modules = defaultdict(list)
    for path in (ROOT / "src/gridveil").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(path.name)
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}


def test_nothing_behind_perturb_imports_the_vault():
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("files", "broken"),
    [
        (
            {"inference/fit/__init__.py": "from gridveil.vault.source import SourceGrid"},
            "gridveil.inference.fit -> gridveil.vault.source",
        ),
        (
            {"grid/newcomer.py": "from gridveil.vault.source import SourceGrid"},
            "gridveil.grid.newcomer -> gridveil.vault.source",
        ),
        (
            {
                "grid/newcomer.py": "from gridveil.foundation.second import SourceGrid",
                "foundation/second.py": "from gridveil.vault.source import SourceGrid",
            },
            "gridveil.foundation.second -> gridveil.vault.source",
        ),
        (
            {"newcomer.py": "from gridveil.vault.source import SourceGrid"},
            "gridveil.newcomer",
        ),
        (
            {"dynamics/kron/__init__.py": "from gridveil.workflow.publish import publish"},
            "gridveil.dynamics.kron -> gridveil.workflow.publish",
        ),
        (
            {"cli/release.py": "from gridveil.assurance.owner_report.assess import steps"},
            "gridveil.cli.release -> gridveil.assurance.owner_report.assess",
        ),
        (
            {"cli/release.py": "from gridveil.vault.source import SourceGrid"},
            "gridveil.cli.release -> gridveil.vault.source",
        ),
        (
            {"vault/perturb.py": "import gridveil.assurance.owner_report.signoff"},
            "gridveil.vault.perturb -> gridveil.assurance.owner_report.signoff",
        ),
        (
            {"adversary/newcomer.py": "from gridveil.readers.cases import declared_public"},
            "gridveil.adversary.newcomer -> gridveil.readers.cases",
        ),
    ],
    ids=[
        "the fit",
        "a new module in a low room",
        "through another new module",
        "a new module in no room",
        "a room above",
        "another command",
        "the command line itself",
        "the other exit",
        "through the readers",
    ],
)
def test_a_forbidden_way_to_the_vault_is_found(tmp_path, files, broken):
    """Planted with nothing edited in pyproject.toml: what is new is covered at once."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for file, planted in files.items():
        with (tmp_path / "src/gridveil" / file).open("a") as module:
            module.write(f"\n{planted}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert broken in done.stdout


def test_the_command_line_starts_without_heavy_packages():
    script = f"import sys, gridveil.cli; print(*{HEAVY} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


@pytest.mark.parametrize(
    ("words", "most", "unused"),
    [
        (["--help"], 250, HEAVY | {"numpy", "pydantic", "rich", "sqlalchemy"}),
        (
            ["release", "ieee30", "--epsilon", "1", "--out", "bundle"],
            1500,
            {"scipy.stats", "scipy.signal", "pandas", "matplotlib", "array_api_compat"},
        ),
    ],
    ids=["help", "release"],
)
def test_a_command_imports_no_more_than_it_needs(tmp_path, words, most, unused):
    """Modules are counted and not seconds: a busy machine does not change their number."""
    script = (
        "import sys, gridveil.cli\n"
        "try: gridveil.cli.main()\n"
        "finally: print(len(sys.modules), *sys.modules, file=sys.stderr)"
    )
    home = {"GRIDVEIL_HOME": str(tmp_path), "GRIDVEIL_WITNESS": str(tmp_path / "witness.sqlite")}
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | home,
    )
    assert done.returncode == 0, done.stderr
    count, *names = done.stderr.splitlines()[-1].split()
    assert int(count) <= most
    assert not unused & set(names)
