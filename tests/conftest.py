"""Tests never touch the user's own ledgers and keys. In CI a skipped test fails the run."""

import os
import tempfile

os.environ["GRIDVEIL_HOME"] = tempfile.mkdtemp(prefix="gridveil-tests-")
os.environ["GRIDVEIL_WITNESS"] = f"{tempfile.mkdtemp(prefix='gridveil-tests-')}/witness.sqlite"
os.environ.pop("GRIDVEIL_LEDGER", None)

import pytest

from browser import chromium, open_page  # noqa: F401 - fixtures
from ledger_helpers import folder, home, location, postgres, postgres_server  # noqa: F401 - fixtures; below the home, which gridveil reads


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch):
    """What a command prints does not depend on how busy the machine is."""
    from gridveil.cli import output

    monkeypatch.setattr(output, "BETWEEN_LINES_S", float("inf"))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Fail a run in which a test was skipped, where `.ci/run` says that none may be."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or os.environ.get("GRIDVEIL_TESTS_MAY_SKIP") != "no":
        return
    for report in reporter.stats.get("skipped", []):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line(f"\nSKIPPED, and here none may be: {report.nodeid}", red=True)
