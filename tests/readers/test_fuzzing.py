"""Mutated files of every format: a whole grid or one plain error, no traceback, no hang, no flood
of memory.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import fuzzing_limits
from fuzzing import LIMIT_GB, LIMIT_S, STRANGE

COUNTS = {
    "m": 700, "toml": 300, "mat": 500, "mat-compressed": 300, "raw": 700, "dyr": 500,
    "xlsx": 500, "andes": 600, "pandapower": 600, "csv": 700, "cgmes": 100,
}  # fmt: skip


# Aimed at the limits, at records, settings and events too.
HARD = {
    "m": 1000,
    "toml": 800,
    "mat": 900,
    "mat-compressed": 700,
    "raw": 700,
    "dyr": 700,
    "xlsx": 700,
    "andes": 900,
    "pandapower": 800,
    "csv": 800,
    "cgmes": 150,
    "event": 900,
    "config": 900,
    "trajectory": 900,
}


def test_the_fuzzer_throws_5000_files_and_10000_at_the_limits():
    assert sum(COUNTS.values()) >= 5000
    assert sum(HARD.values()) >= 10_000
    assert {b"nan", b"inf", b"1e308"} <= set(STRANGE)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), COUNTS.items())
def test_mutated_files_give_a_whole_grid_or_one_plain_error(kind, count):
    found = thrown(kind, count, "7")
    assert found["slowest_s"] < LIMIT_S
    assert found["peak_gb"] < LIMIT_GB


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), HARD.items())
def test_files_aimed_at_the_limits_give_a_whole_grid_or_one_plain_error(kind, count):
    found = thrown(kind, count, "11", "hard")
    assert found["slowest_s"] < fuzzing_limits.LIMIT_S
    assert found["peak_gb"] < (
        fuzzing_limits.JAVA_GB if kind == "cgmes" else fuzzing_limits.LIMIT_GB
    )


def thrown(kind, count, *how):
    call = [
        sys.executable,
        str(Path(__file__).parents[1].joinpath("fuzzing.py")),
        kind,
        str(count),
        *how,
    ]
    done = subprocess.run(call, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found)
    assert found["failures"] == []
    assert sum(found["outcomes"].values()) == count + 1
    assert found["outcomes"]["refused"] > count / 4  # the mutations do bite
    return found
