"""Gather all that a machine without a network needs to install gridveil: `make wheelhouse`.

A folder with gridveil's own wheel, the wheels of what it needs at their locked versions and hashes,
a requirements.txt with the hash of each, and INSTALL.txt; and the same folder as a tar.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements-dev.txt"  # of every extra; requirements.txt holds the same versions
INSTALL = """\
{title}: an install without a network
{line}

Made for {target}.

1. Carry this folder to that machine.
2. There, make an environment and enter it:

       python -m venv gridveil-env
       . gridveil-env/bin/activate           (Windows: gridveil-env\\Scripts\\activate)

3. In this folder:

       python -m pip install --no-index --find-links . {wanted}

   or, with the hash of every file checked:

       python -m pip install --no-index --find-links . --require-hashes -r requirements.txt

4. See that it works:

       gridveil --version
       gridveil demo star5
"""


@dataclass(frozen=True)
class Pinned:
    """A package of the lock.

    name : as pip normalises it; version and hashes : in `text`, as pip reads them.
    marker : where it is needed; None: everywhere.
    via : packages that need it.
    """

    name: str
    text: str
    marker: Marker | None
    via: frozenset[str]


def read_lock(lock: str) -> list[Pinned]:
    """Read a lock that uv compiled, with what each package is needed by."""
    found = []
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock):
        lines = block.splitlines()
        pin, _, marker = lines[0].removesuffix("\\").partition(" ; ")
        comments = " ".join(line.partition("#")[2] for line in lines if "#" in line)
        via = {canonicalize_name(word) for word in re.sub(r"\[.*?\]", "", comments).split()}
        hashes = [line.strip().removesuffix("\\").strip() for line in lines if "--hash" in line]
        found.append(
            Pinned(
                canonicalize_name(pin.partition("==")[0]),
                " ".join([pin.strip(), *hashes]),
                Marker(marker) if marker else None,
                frozenset(via),
            )
        )
    return found


def needed(
    lock: Sequence[Pinned], wanted: Iterable[str], environment: dict[str, str]
) -> list[Pinned]:
    """The packages that some need, and what those need, where an environment needs them.

    Pip would ask the markers about this machine, also where wheels for another are gathered.
    """
    names, before = {canonicalize_name(name) for name in wanted}, set[str]()
    while names != before:
        before = set(names)
        names |= {one.name for one in lock if one.via & names}
    return [
        one
        for one in lock
        if one.name in names and (one.marker is None or one.marker.evaluate(environment))
    ]


def direct(extras: Sequence[str]) -> list[str]:
    """Names of the packages that gridveil itself asks for, with some extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    offered = project["optional-dependencies"]
    if unknown := [name for name in extras if name not in offered]:
        sys.exit(f"wheelhouse: there is no extra {unknown[0]}; there are {', '.join(offered)}.")
    asked = [*project["dependencies"], *(one for name in extras for one in offered[name])]
    return [Requirement(one).name for one in asked]


def environment_of(platform: str, python: str) -> dict[str, str]:
    """What markers are asked about: this machine, or the one that a platform tag is of."""
    environment = {name: str(value) for name, value in default_environment().items()}
    if python:
        environment["python_version"] = ".".join(python.split(".")[:2])
        environment["python_full_version"] = python if python.count(".") > 1 else f"{python}.0"
    if platform:
        machine = re.sub(r"^(win|macosx_\d+_\d+|manylinux\w*?|linux)_(?=[a-z])", "", platform)
        system = next(
            (names for tag, names in SYSTEMS.items() if platform.startswith(tag)),
            SYSTEMS["manylinux"],
        )
        environment |= dict(
            zip(("sys_platform", "platform_system", "os_name"), system, strict=True)
        )
        environment["platform_machine"] = machine.upper() if system[0] == "win32" else machine
    return environment


SYSTEMS = {
    "win": ("win32", "Windows", "nt"),
    "macosx": ("darwin", "Darwin", "posix"),
    "manylinux": ("linux", "Linux", "posix"),
}


def tags_of(platform: str) -> list[str]:
    """A platform's tag, and those of older systems whose wheels it takes; pip adds macOS's own.

    >>> tags_of("manylinux_2_6_x86_64")
    ['manylinux_2_6_x86_64', 'manylinux_2_5_x86_64', 'manylinux1_x86_64']
    """
    match = re.fullmatch(r"manylinux_2_(\d+)_(\w+)", platform)
    if not match:
        return [platform]
    newest, machine = int(match[1]), match[2]
    named = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
    return [
        f"{tag}_{machine}"
        for minor in range(newest, 4, -1)
        for tag in (f"manylinux_2_{minor}", *([named[minor]] if minor in named else []))
    ]


def gather(folder: Path, platform: str, python: str, extras: Sequence[str]) -> None:
    """Fill a new folder."""
    folder.mkdir(parents=True)
    build = ("-m", "hatchling", "build", "-t", "wheel", "-d", str(folder.absolute()))
    _python(*build)
    environment = environment_of(platform, python)
    pins = needed(read_lock(LOCK.read_text(encoding="utf-8")), direct(extras), environment)
    lock = folder / "requirements.txt"
    lock.write_text("".join(f"{one.text}\n" for one in pins), encoding="utf-8")
    where = [f"--platform={tag}" for tag in tags_of(platform)] if platform else []
    where += [f"--python-version={python}"] if python else []
    hashed = ("--require-hashes", "-r", str(lock.absolute()), "-d", str(folder.absolute()))
    _python("-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", *where, *hashed)
    wheels = {parse_wheel_filename(path.name)[:2]: path for path in sorted(folder.glob("*.whl"))}
    lock.write_text(
        "".join(
            f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
            for (name, version), path in wheels.items()
        ),
        encoding="utf-8",
    )
    (own,) = (version for name, version in wheels if name == "gridveil")
    title = f"gridveil {own}"
    described = {
        "title": title,
        "line": "=" * len(f"{title}: an install without a network"),
        "target": f"Python {environment['python_version']} on "
        + (platform or f"{environment['platform_system']} {environment['platform_machine']}"),
        "wanted": f'"gridveil[{",".join(extras)}]"' if extras else "gridveil",
    }
    (folder / "INSTALL.txt").write_text(INSTALL.format(**described), encoding="utf-8")


def _python(*arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, check=False)  # noqa: S603
    if done.returncode:
        sys.exit("wheelhouse: nothing was made; the lines above say why.")


def main() -> None:
    """Make the folder and its tar, whole or not at all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", default="", help="such as win_amd64; default: this one")
    parser.add_argument("--python", default="", help="such as 3.12; default: this one")
    parser.add_argument("--extras", default="", help="such as studio,xlsx; default: none")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "wheelhouse")
    given = parser.parse_args()
    out, half = given.out, given.out.with_name(f"{given.out.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    try:
        gather(half, given.platform, given.python, [x for x in given.extras.split(",") if x])
        shutil.rmtree(out, ignore_errors=True)
        half.rename(out)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    packed = out.with_name(f"{out.name}.tar")
    with tarfile.open(packed, "w") as tar:  # wheels are packed already
        tar.add(out, out.name)
    with packed.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    count, size = len(list(out.glob("*.whl"))), packed.stat().st_size / 2**20
    print(f"{out}: {count} wheels; INSTALL.txt says how to install them.")
    print(f"{packed}: the same, {size:.0f} MiB, SHA-256 {digest}")


if __name__ == "__main__":
    main()
