"""Time the commands of two checkouts side by side, so that a busy machine slows both.

Usage: python scripts/compare_bench.py BEFORE AFTER [--rounds 9] [--case ieee30] [--json]

BEFORE and AFTER are checkouts, each with its own .venv. Every command is a new process; the two
checkouts take turns, and who goes first changes from round to round. Printed are medians of wall
and processor time and their ratios, after over before. It ends with 1 if a ratio of wall time is
above --limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

EVENT = "uniform:+5%@1s"
SIDES = ("before", "after")


class Taken(NamedTuple):
    """What a process took, both in seconds."""

    wall: float
    processor: float


class Side:
    """A checkout, with a folder for what its commands write."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.program = checkout.resolve() / ".venv" / "bin" / "gridveil"
        if not self.program.exists():
            raise SystemExit(f"{self.program} is not there: run make in that checkout first")
        self.folder = folder
        self.folder.mkdir()

    def run(self, arguments: Sequence[str], number: int) -> Taken:
        """Run a command with a ledger of its own; OUT is a new place, BUNDLE the first release."""
        places = {"OUT": f"out-{number}", "BUNDLE": "bundle"}
        command = [str(self.program), *(places.get(one, one) for one in arguments)]
        own = {
            "GRIDVEIL_HOME": str(self.folder / f"home-{number}"),
            "GRIDVEIL_WITNESS": str(self.folder / f"witness-{number}.sqlite"),
        }
        start = time.perf_counter()
        with (self.folder / "said.txt").open("wb") as said:
            process = subprocess.Popen(  # noqa: S603 - the checkouts' own program
                command, cwd=self.folder, env=os.environ | own, stdout=said, stderr=said
            )
            _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            text = (self.folder / "said.txt").read_text(encoding="utf-8")
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{text}")
        return Taken(wall, used.ru_utime + used.ru_stime)


def commands(case: str) -> dict[str, list[str]]:
    """The commands to time; OUT and BUNDLE stand for places."""
    return {
        "--help": ["--help"],
        "release --help": ["release", "--help"],
        "inspect": ["inspect", case],
        "release": ["release", case, "--epsilon", "1/2", "--out", "OUT"],
        "plan": ["plan", case, "--nadir-error", "20mHz", "--draws", "100"],
        "verify": ["verify", "BUNDLE"],
        "simulate": ["simulate", "BUNDLE", "--event", EVENT],
    }


def compare(sides: Sequence[Side], case: str, rounds: int) -> list[dict[str, Any]]:
    """Time every command on both sides, in turns, after one run each that warms up."""
    number = 0
    release = ["release", case, "--epsilon", "1/2", "--publish-loads", "--out", "BUNDLE"]
    for side in sides:
        side.run(release, number)
    rows = []
    for name, arguments in commands(case).items():
        taken: list[list[Taken]] = [[], []]
        for turn in range(rounds + 1):
            for place in (0, 1) if turn % 2 else (1, 0):
                number += 1
                taken[place].append(sides[place].run(arguments, number))
        before, after = np.median(np.array([runs[1:] for runs in taken]), axis=1)
        rows.append(
            {
                "command": name,
                "wall_s": dict(zip(SIDES, (before[0], after[0]), strict=True)),
                "processor_s": dict(zip(SIDES, (before[1], after[1]), strict=True)),
                "wall_ratio": after[0] / before[0],
                "processor_ratio": after[1] / before[1],
            }
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--case", default="ieee30")
    parser.add_argument("--limit", type=float, default=1.05, help="of a ratio of wall times")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        sides = [
            Side(checkout, Path(name) / label)
            for label, checkout in zip(SIDES, (given.before, given.after), strict=True)
        ]
        rows = compare(sides, given.case, given.rounds)
    if given.json:
        sys.stdout.write(f"{json.dumps(rows, indent=2)}\n")
    else:
        sys.stdout.write(f"{table(given.case, given.rounds, rows)}\n")
    sys.exit(int(any(row["wall_ratio"] > given.limit for row in rows)))


def table(case: str, rounds: int, rows: Sequence[dict[str, Any]]) -> str:
    """Lay the medians out, a line a command."""
    heads = f"{'after':>8}{'ratio':>7}"
    lines = [
        f"{case}, medians of {rounds} interleaved runs [s]",
        f"{'':<16}{'wall before':>12}{heads}{'cpu before':>13}{heads}",
    ]
    for row in rows:
        wall, used = row["wall_s"], row["processor_s"]
        lines.append(
            f"{row['command']:<16}{wall['before']:>12.3f}{wall['after']:>8.3f}"
            f"{row['wall_ratio']:>7.3f}{used['before']:>13.3f}{used['after']:>8.3f}"
            f"{row['processor_ratio']:>7.3f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
