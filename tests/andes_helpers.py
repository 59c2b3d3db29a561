"""ANDES as an oracle, in a process of its own: it generates code into the home folder on its first
run.
"""

import fcntl
import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def andes(tmp_path_factory, worker_id):
    """Run Python code that uses ANDES, one process at a time and in one home for all workers; gives
    back its stdout.
    """
    shared = (
        tmp_path_factory.getbasetemp()
        if worker_id == "master"
        else tmp_path_factory.getbasetemp().parent
    )
    home = shared / "andes-home"
    home.mkdir(exist_ok=True)

    def run(code, *arguments):
        with (home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            command = [sys.executable, "-c", code, *map(str, arguments)]
            done = subprocess.run(
                command,
                cwd=home,
                env=os.environ | {"HOME": str(home)},
                capture_output=True,
                text=True,
            )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
