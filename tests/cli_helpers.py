"""A small private grid as files, the command line in this process, and a search for numbers in
whatever was written.
"""

import io
import json
import os
import re
import struct
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

from gridveil.cli import main
from gridveil.grid.parameters import Bounds
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import ITEMS
from gridveil.privacy.ledger import Ledger
from gridveil.publication.release import Release
from gridveil.readers.cases import open_grid
from gridveil.vault.sampler import DemoSampler
from gridveil.workflow.publish import publish

SCRIPT = Path(sys.executable).with_name("gridveil")

# Twelve digits each, so that none can turn up by chance.
X = (
    "0.102938475612",
    "0.217364958273",
    "0.146583927164",
    "0.193847561294",
    "0.128374659183",
    "0.175839264718",
)
INERTIA = ("10.8273645918", "14.2938475617", "19.5647382913")
DAMPING = ("5.91827364513", "7.38291045672", "9.46372819053")

GRID = """function mpc = private
mpc.version = '2';
mpc.baseMVA = 100;
mpc.bus = [
  1 3 10 2 0 0 1 1.02 0 132 1 1.1 0.9;
  2 2 20 4 0 0 1 1.01 0 132 1 1.1 0.9;
  3 2 0 0 0 0 1 1.01 0 132 1 1.1 0.9;
  4 1 40 9 0 0 1 1 0 132 1 1.1 0.9;
  5 1 30 5 0 0 1 1 0 132 1 1.1 0.9;
];
mpc.gen = [
  1 40 0 100 -100 1.02 100 1 100 0;
  2 30 0 100 -100 1.01 100 1 100 0;
  3 30 0 100 -100 1.01 100 1 100 0;
];
mpc.branch = [
  1 4 0.01 {x[0]} 0.02 0 0 0 0 0 1;
  2 4 0.01 {x[1]} 0.02 0 0 0 0 0 1;
  3 5 0.01 {x[2]} 0.02 0 0 0 0 0 1;
  4 5 0.01 {x[3]} 0.02 0 0 0 0.97 3 1;
  1 2 0.01 {x[4]} 0.02 0 0 0 0 0 1;
  2 5 0.01 {x[5]} 0.02 0 0 0 0 0 1;
];
"""
DYNAMICS = """[machines.1]
inertia = {m[0]}
damping = {d[0]}
[machines.2]
inertia = {m[1]}
damping = {d[1]}
[machines.3]
inertia = {m[2]}
damping = {d[2]}
[bounds]
k = [1.0, 100.0]
m = [1.0, 40.0]
d = [1.0, 40.0]
origin = "gridveil's defaults"
"""


class Done(NamedTuple):
    """What a command left: its exit code, and what it printed."""

    code: int
    out: str
    err: str


def gridveil(*arguments: object) -> Done:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["gridveil", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    return Done(code, out.getvalue(), err.getvalue())


def gridveil_process(*arguments: object, cwd: Path, **environment: str) -> Done:
    """Run the installed command in a process of its own."""
    command = [SCRIPT, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, check=False
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def write_grid(
    folder: Path, *, x=X, m=INERTIA, d=DAMPING, replace: tuple[str, str] = ("", "")
) -> Path:
    """Write private.m with its dynamics beside it; replace puts another text in place of one that
    occurs in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    old, new = replace
    text = GRID.format(x=x)
    assert old in text
    path = folder / "private.m"
    path.write_text(text.replace(old, new), encoding="utf-8")
    path.with_suffix(".toml").write_text(DYNAMICS.format(m=m, d=d), encoding="utf-8")
    return path


def make_release(
    folder: Path, *, demo: bool = False, epsilon: Fraction = Fraction(1, 2), **options
) -> Release:
    """Release private.m, for real with a ledger in the folder, or from a seed."""
    return publish(
        open_grid(str(write_grid(folder)), options=options),
        epsilon=epsilon,
        adjacency=Adjacency(),
        bounds=Bounds(),
        ledger=None if demo else Ledger(folder / "ledger.sqlite"),
        sampler=DemoSampler(1) if demo else None,
        allocation=ITEMS,
    )


def charges(ledger: Path) -> list:
    """The ledger's entries; none if there is no ledger."""
    return Ledger(ledger).entries() if ledger.exists() else []


NUMBER = re.compile(rb"(\d*)\.?(\d*)(?:[eE]([-+]?\d{1,2}))?")


def numbers_in(data: bytes) -> np.ndarray:
    """Every number of at least 6 significant digits written in some bytes, with its last digit's
    worth: (numbers, 2).
    """
    found = []
    for match in NUMBER.finditer(data):
        whole, part, exponent = match.groups(default=b"")
        if len((whole + part).lstrip(b"0")) >= 6:
            found.append((float(match[0]), 10.0 ** (int(exponent or 0) - len(part))))
    return np.array(found).reshape(-1, 2)


def found_in(data: bytes, values: np.ndarray) -> list[float]:
    """The values that some bytes hold, as text that agrees to its last digit (rounded or cut off)
    or as floats.
    """
    written, last_digit = numbers_in(data).T
    as_text = (
        np.abs(written[:, None] - values) <= np.maximum(last_digit[:, None], 1e-15 * values)
    ).any(axis=0)
    as_floats = [
        any(struct.pack(form, value) in data for form in ("<d", ">d", "<f", ">f"))
        for value in values
    ]
    return values[as_text | as_floats].tolist()


def files_under(folder: Path) -> dict[Path, bytes]:
    """Every file in a folder and its bytes."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def as_json(done):
    """The document that a command printed; NaN is no JSON."""
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
