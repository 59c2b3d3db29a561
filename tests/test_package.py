"""What is installed is what was checked: one version, typed, from a wheel as from a checkout."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from gridveil import __version__
from package_readme import package_readme

ROOT = Path(__file__).parent.parent


def said(*arguments, **more):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, **more
    ).stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """What `make dist` builds."""
    folder = tmp_path_factory.mktemp("dist")
    said("-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def sdist(built):
    (path,) = built.glob("*.tar.gz")
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


def test_a_wheel_has_the_licence_and_neither_grows_large(wheel, sdist):
    names = zipfile.ZipFile(wheel).namelist()
    assert f"gridveil-{__version__}.dist-info/licenses/LICENSE" in names
    assert wheel.stat().st_size < 2e6
    assert sdist.stat().st_size < 8e6


def test_an_sdist_builds_the_same_wheel(wheel, sdist, tmp_path):
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    for name in ("LICENSE", "CHANGELOG.md", "CITATION.cff", "docs/privacy.md", "tests/conftest.py"):
        assert (unpacked / name).is_file(), name
    assert not (unpacked / ".venv").exists()
    said("-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", cwd=unpacked)
    assert (tmp_path / "again" / wheel.name).read_bytes() == wheel.read_bytes()


def test_a_package_index_shows_the_readme_without_a_dead_link(wheel, sdist):
    said("-m", "twine", "check", "--strict", wheel, sdist)
    name = f"gridveil-{__version__}.dist-info/METADATA"
    shown = email.message_from_bytes(zipfile.ZipFile(wheel).read(name)).get_payload()
    assert shown.startswith("# gridveil\n")
    assert "gridveil release ieee30" in shown
    assert re.findall(r"\]\((?!https://)[^)]*\)", shown) == []


def test_with_an_address_every_link_of_the_readme_leads_to_a_file_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = package_readme(text, "https://git.example/gridveil", __version__)
    targets = re.findall(r"\]\(https://git\.example/gridveil/(?:raw|blob)/v([^/]+)/([^)#]+)", shown)
    assert len(targets) == len(re.findall(r"\]\((?!https://)", text))
    assert all(version == __version__ and (ROOT / file).exists() for version, file in targets)
    assert re.findall(r"\]\((?!https://)[^)]*\)", shown) == []


# --- installed, on every Python that is here ------------------------------------------------------


def interpreters():
    """The Pythons that the classifiers name, by version, as far as this machine has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    found = {version: found_python(version) for version in versions}
    return {version: path for version, path in found.items() if path}


def found_python(version):
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    of_pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [shutil.which(f"python{version}"), *of_pyenv.glob(f"{version}.*/bin/python{version}")]
    for place in filter(None, places):
        # A shim of pyenv is on the path whether or not its Python may be run.
        asked = subprocess.run([place, "-c", "import venv"], capture_output=True, check=False)
        if asked.returncode == 0:
            return str(place)
    return None


PYTHONS = interpreters()


def test_the_python_of_this_run_is_one_that_the_package_names():
    assert sys.executable in PYTHONS.values()


@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
def test_a_wheel_works_in_a_clean_environment(wheel, tmp_path, version):
    lock = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    constraints = tmp_path / "constraints.txt"
    constraints.write_text(
        "\n".join(re.findall(r"^([a-z].*?) *\\?$", lock, re.MULTILINE)), encoding="utf-8"
    )
    place = tmp_path / "environment"
    subprocess.run([PYTHONS[version], "-m", "venv", "--without-pip", place], check=True)
    said(
        *("-m", "pip", "--python", place / "bin" / "python", "install", "-q"),
        *("--no-compile", "-c", constraints, wheel),
    )
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}

    def run(program, *arguments):
        return subprocess.run(
            [place / "bin" / program, *arguments],
            cwd=tmp_path,
            env=clean,
            text=True,
            capture_output=True,
            check=True,
        ).stdout

    where = "import gridveil, sys; print(gridveil.__file__, *sys.version_info[:2])"
    file, *numbers = run("python", "-c", where).split()
    assert Path(file).is_relative_to(place)
    assert ".".join(numbers) == version
    assert run("gridveil", "--version") == f"gridveil {__version__}\n"
    run("gridveil", "demo", "ieee30", "--out", "demo")
    assert (tmp_path / "demo" / "frequency.png").stat().st_size > 10_000
    assert "DEMO" in run("gridveil", "verify", "demo/bundle")
