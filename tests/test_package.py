"""What is installed is what was checked: one version, typed, from a wheel as from a checkout."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from gridveil import __version__

ROOT = Path(__file__).parent.parent


def said(*arguments, **more):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, **more
    ).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    said("-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (path,) = folder.iterdir()
    return path


def test_the_version_is_written_once():
    assert "version" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_a_checkout_and_a_wheel_tell_the_same_version(wheel, tmp_path):
    assert wheel.name == f"gridveil-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
        names = archive.namelist()
    assert f"Version: {__version__}\n" in (
        tmp_path / f"gridveil-{__version__}.dist-info" / "METADATA"
    ).read_text(encoding="utf-8")
    command = """
import sys
sys.path[:0], sys.argv = sys.argv[1:], ["gridveil", "--version"]
import gridveil.cli
print(gridveil.cli.__file__)
gridveil.cli.main()
"""
    for place in (ROOT / "src", tmp_path):
        file, version = said("-c", command, place).splitlines()
        assert Path(file).is_relative_to(place)
        assert version == f"gridveil {__version__}"
    assert "gridveil/py.typed" in names


def test_a_wheel_holds_every_module_and_case_of_the_checkout(wheel):
    source = ROOT / "src"
    ours = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert ours <= names
    assert {name for name in names - ours if ".dist-info/" not in name} == set()
