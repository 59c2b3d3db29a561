"""Tests never touch the user's own ledgers and keys."""

import os
import tempfile

os.environ["GRIDVEIL_HOME"] = tempfile.mkdtemp(prefix="gridveil-tests-")
os.environ["GRIDVEIL_WITNESS"] = f"{tempfile.mkdtemp(prefix='gridveil-tests-')}/witness.sqlite"
os.environ.pop("GRIDVEIL_LEDGER", None)

from ledger_helpers import folder, home, location, postgres, postgres_server  # noqa: F401 - fixtures; below the home, which gridveil reads
