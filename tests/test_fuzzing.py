"""Mutated files of every format: a whole grid or one plain error, no traceback, no hang, no flood of memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fuzzing import LIMIT_GB, LIMIT_S, STRANGE

COUNTS = {
    "m": 700, "toml": 300, "mat": 500, "mat-compressed": 300, "raw": 700, "dyr": 500,
    "xlsx": 500, "andes": 600, "pandapower": 600, "csv": 700, "cgmes": 100,
}  # fmt: skip


def test_the_fuzzer_throws_5000_files_in_all():
    assert sum(COUNTS.values()) >= 5000
    assert {b"nan", b"inf", b"1e308"} <= set(STRANGE)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), COUNTS.items())
def test_mutated_files_give_a_whole_grid_or_one_plain_error(kind, count):
    call = [sys.executable, str(Path(__file__).with_name("fuzzing.py")), kind, str(count), "7"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert sum(found["outcomes"].values()) == count + 1
    assert found["outcomes"]["refused"] > count / 4  # the mutations do bite
    assert found["slowest_s"] < LIMIT_S
    assert found["peak_gb"] < LIMIT_GB
