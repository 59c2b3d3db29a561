"""What `make wheelhouse` gathers is enough: it is installed and used where there is no index."""

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import wheelhouse
from gridveil import __version__
from wheelhouse import LOCK, ROOT, direct, environment_of, needed, read_lock, tags_of

NOWHERE = "http://127.0.0.1:9"
TARGETS = [
    (platform, python)
    for platform in ("", "win_amd64", "macosx_14_0_arm64", "manylinux_2_28_x86_64")
    for python in ("3.11", "3.12", "3.13")
]
# What only builds the wheel, and is in requirements.txt too.
BUILD = {"hatchling", "pathspec", "pluggy", "tomlkit", "trove-classifiers"}


def pins(path, platform, python, *wanted):
    lock = read_lock(path.read_text(encoding="utf-8"))
    return {one.text.split()[0] for one in needed(lock, wanted, environment_of(platform, python))}


@pytest.mark.parametrize(("platform", "python"), TARGETS)
def test_the_core_is_what_the_lock_of_the_core_has(platform, python):
    environment = environment_of(platform, python)
    expected = set()
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if re.match("[a-z]", line):
            one = Requirement(line.removesuffix("\\"))
            if one.name not in BUILD and (not one.marker or one.marker.evaluate(environment)):
                expected.add(f"{one.name}{one.specifier}")
    found = pins(LOCK, platform, python, *direct([]))
    assert expected <= found
    assert len(found - expected) <= 2  # what the extras' lock needs everywhere


def test_markers_are_asked_about_the_other_machine():
    lock = ROOT / "requirements.txt"
    assert any("colorama" in pin for pin in pins(lock, "win_amd64", "3.12", *direct([])))
    assert not any("colorama" in pin for pin in pins(lock, "macosx_14_0_arm64", "3.12", "typer"))
    assert environment_of("win_amd64", "3.12")["platform_machine"] == "AMD64"
    assert environment_of("manylinux_2_28_aarch64", "3.12")["platform_machine"] == "aarch64"


def test_extras_bring_their_packages_and_no_others():
    core, more = direct([]), direct(["studio"])
    names = {pin.partition("==")[0] for pin in pins(LOCK, "", "3.12", *more)}
    assert {"starlette", "uvicorn", "anyio", "jinja2"} <= names
    assert not {"andes", "pytest", "playwright"} & names
    assert set(core) < set(more)
    with pytest.raises(SystemExit, match="there is no extra nonsense"):
        direct(["nonsense"])


def test_a_newer_linux_takes_wheels_of_older_ones():
    tags = tags_of("manylinux_2_28_x86_64")
    assert {"manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"} < set(tags)
    assert tags_of("win_amd64") == ["win_amd64"]


def run(*command, cwd, env, check=True):
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.slow
def test_it_is_installed_and_used_without_an_index(tmp_path):
    made = tmp_path / "build" / "wheelhouse"
    run(sys.executable, wheelhouse.__file__, "--out", str(made), cwd=tmp_path, env=os.environ)
    away = tmp_path / "away"
    with tarfile.open(tmp_path / "build" / "wheelhouse.tar") as tar:
        tar.extractall(away, filter="data")
    house = away / "wheelhouse"

    settings = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    settings.pop("PYTHONPATH", None)
    settings |= dict.fromkeys(("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"), NOWHERE)
    settings |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), NOWHERE)
    settings |= {"PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0", "PIP_NO_CACHE_DIR": "1"}
    settings |= {"GRIDVEIL_HOME": str(away / "home")}
    run(sys.executable, "-m", "venv", "env", cwd=away, env=settings)
    programs = away / "env" / ("Scripts" if os.name == "nt" else "bin")

    told = (house / "INSTALL.txt").read_text(encoding="utf-8")
    assert f"gridveil {__version__}:" in told
    lines = re.findall(r"^ +python (-m pip install .*)$", told, re.MULTILINE)
    (plain, hashed) = (line.split() for line in lines)
    run(programs / "python", *plain, cwd=house, env=settings)
    run(programs / "python", "-m", "pip", "check", cwd=away, env=settings)
    again = ("--dry-run", "--ignore-installed")
    run(programs / "python", *hashed, *again, cwd=house, env=settings)

    where = run(
        programs / "python", "-c", "import gridveil as g; print(g.__file__)", cwd=away, env=settings
    )
    assert Path(where.stdout.strip()).is_relative_to(away / "env")
    version = run(programs / "gridveil", "--version", cwd=away, env=settings)
    assert version.stdout == f"gridveil {__version__}\n"
    for words in (
        "demo star5 --out demo",
        "verify demo/bundle",
        "simulate demo/bundle --event load:G1=+0.1 --csv step.csv --plot step.png",
        "export demo/bundle --to fmu --out fmu",
    ):
        run(programs / "gridveil", *words.split(), cwd=away, env=settings)
    assert (away / "step.csv").read_text(encoding="utf-8").startswith("time_s,omega_G1_pu")

    changed = next(house.glob("mdurl-*.whl"))
    changed.write_bytes(changed.read_bytes() + b"\0")
    done = run(programs / "python", *hashed, *again, cwd=house, env=settings, check=False)
    assert done.returncode != 0
    assert "DO NOT MATCH" in done.stderr
