"""Print which way one release takes through the code: modules, calls from room to room, and what
runs more than once.

Usage: python scripts/walk.py [--grid star5] [--json]

Run it with the Python of the checkout to measure. The command `gridveil release` runs in this
process, once without a trajectory and once with one, under a profiler; imports do not count, only
calls. A room is a folder or a module at the top of the package. A kind of call is a pair of rooms,
a way a pair of modules, the caller being the nearest function of gridveil above the called one.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import gridveil
from gridveil.cli import main as command

SOURCE = f"{Path(gridveil.__file__).parent}{os.sep}"
# One name each for what is counted by name: whole reductions, those of them that a fit makes at
# other weights, its cheaper ones, and the list of all pairs of machines.
COUNTED = {
    "Kron eliminations": ("eliminate",),
    "Kron eliminations of the fit": ("Direct.at",),
    "Kron evaluations of the fit": (
        "Network.__call__",
        "Network.slopes",
        "KronMap.__call__",
        "KronMap.slopes",
    ),
    "complete_edges": ("complete_edges",),
    "accounts of the ledger": (
        "Ledger.account",
        "Ledger.accounts",
        "Books.account",
        "Books.accounts",
    ),
}
RECORD = """record = "record.csv"
time_column = "time"
time_format = "seconds"
unit = "Hz"
values = "absolute"
nominal_hz = 60.0
event = "load:5=+0.1@2s"
[locations]
"north" = "1"
"south" = "4"
[provenance]
origin = "measured"
source = "made up for scripts/walk.py"
date = "2016-01-06"
link = "https://example.org/record"
event_source = "made up"
"""


class Place(NamedTuple):
    """A function of gridveil: its room, its module, and its name within it."""

    room: str
    module: str
    name: str


class Walk:
    """Calls of gridveil's own functions, counted by a profiler."""

    def __init__(self) -> None:
        self.calls: Counter[Place] = Counter()
        self.rooms: set[tuple[str, str]] = set()
        self.ways: set[tuple[str, str]] = set()
        self._places: dict[CodeType, Place | None] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call; the profiler's hook."""
        code = frame.f_code
        if event != "call" or (place := self._place(code)) is None:
            return
        if code.co_code[frame.f_lasti + 1]:  # RESUME of a generator that goes on
            return
        above = frame.f_back
        while above is not None and not above.f_code.co_filename.startswith(SOURCE):
            above = above.f_back
        caller = self._place(above.f_code) if above else None
        if above and caller is None:  # an import runs it
            return
        self.calls[place] += 1
        if caller and caller.room != place.room:
            self.rooms.add((caller.room, place.room))
        if caller and caller.module != place.module:
            self.ways.add((caller.module, place.module))

    def _place(self, code: CodeType) -> Place | None:
        if code not in self._places:
            self._places[code] = _place(code)
        return self._places[code]

    def as_dict(self) -> dict[str, Any]:
        """What was counted; checks that ran, by name, with how often."""
        counted = {
            title: sum(calls for place, calls in self.calls.items() if place.name in names)
            for title, names in COUNTED.items()
        }
        checks = {
            f"{place.module}.{place.name}": calls
            for place, calls in self.calls.items()
            if place.name.rpartition(".")[2].lstrip("_").startswith(("check_", "checked", "verify"))
        }
        return {
            "modules": len({place.module for place in self.calls}),
            "rooms": len({place.room for place in self.calls}),
            "kinds of room-to-room call": len(self.rooms),
            "module-to-module ways": len(self.ways),
            **counted,
            "checks": dict(sorted(checks.items())),
        }


def _place(code: CodeType) -> Place | None:
    """Where a function stands; None outside of gridveil, and for the body of a module or class."""
    if not code.co_filename.startswith(SOURCE) or not code.co_flags & CO_NEWLOCALS:
        return None
    path = Path(code.co_filename.removeprefix(SOURCE)).with_suffix("")
    parts = path.parts[:-1] if path.name == "__init__" else path.parts
    return Place(path.parts[0], ".".join(parts), code.co_qualname)


def write_record(folder: Path) -> Path:
    """Write a made-up record of 6 s at 50 Hz, and its declaration."""
    time_s = np.arange(301) / 50
    since = np.maximum(time_s - 2.0, 0.0)
    north = -0.002 * (1 - np.exp(-since / 2))
    south = north * (1 + 0.1 * np.sin(2 * since))
    rows = zip(time_s.tolist(), (60 + 60 * north).tolist(), (60 + 60 * south).tolist(), strict=True)
    lines = ["time,north,south", *(",".join(map(repr, row)) for row in rows)]
    (folder / "record.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    declaration = folder / "record.toml"
    declaration.write_text(RECORD, encoding="utf-8")
    return declaration


def walk(grid: str, *, trajectory: bool) -> dict[str, Any]:
    """Release a grid with the command, in a place of its own, and count."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = {
            "GRIDVEIL_HOME": str(folder / "home"),
            "GRIDVEIL_WITNESS": str(folder / "witness.sqlite"),
            "GRIDVEIL_LEDGER": str(folder / "ledger.sqlite"),
        }
        given = ["release", grid, "--epsilon", "1/2", "--out", str(folder / "out"), "--yes"]
        if trajectory:
            given += ["--trajectory", str(write_record(folder))]
        found, err, code = Walk(), io.StringIO(), None
        with (
            patch.dict(os.environ, own),
            patch.object(sys, "argv", ["gridveil", *given, "--json"]),
            redirect_stdout(io.StringIO()),
            redirect_stderr(err),
        ):
            sys.setprofile(found)
            try:
                command()
            except SystemExit as end:
                code = end.code
            finally:
                sys.setprofile(None)
        if code:
            raise SystemExit(f"gridveil {' '.join(given)} ended with {code}: {err.getvalue()}")
    return found.as_dict()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--grid", default="star5", help="a case that has buses 1, 4 and 5")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args()
    walks = {
        "without a trajectory": walk(given.grid, trajectory=False),
        "with a trajectory": walk(given.grid, trajectory=True),
    }
    sys.stdout.write(f"{json.dumps(walks, indent=2) if given.json else table(given.grid, walks)}\n")


def table(grid: str, walks: Mapping[str, Mapping[str, Any]]) -> str:
    """Lay both walks out side by side."""
    plain, fitted = walks.values()
    lines = [f"{'gridveil release ' + grid:<56}{'alone':>8}{'with trajectory':>18}"]
    lines += [
        f"{title:<56}{plain[title]:>8}{fitted[title]:>18}" for title in plain if title != "checks"
    ]
    lines += ["Checks, and how often they run:"]
    for name in sorted(plain["checks"] | fitted["checks"]):
        once, other = plain["checks"].get(name, 0), fitted["checks"].get(name, 0)
        lines += [f"  {name:<54}{once:>8}{other:>18}"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
