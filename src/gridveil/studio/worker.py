"""The process that makes one release: it charges, draws, fits and writes, and notes how far it is
and how it ended in its job's folder. It goes on whatever becomes of the studio and its pages; a
signal ends it as Ctrl-C ends `gridveil release`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from gridveil.foundation.errors import GridveilError, Interrupted, NoLedger
from gridveil.foundation.files import replace_whole
from gridveil.foundation.interrupts import Ended, held, raised
from gridveil.foundation.progress import told_to
from gridveil.inference.records import read_all
from gridveil.privacy.ledger import Ledger
from gridveil.workflow.demo import demo_release
from gridveil.workflow.opening import open_named
from gridveil.workflow.release import Dialogue, release_grid
from gridveil.workflow.settings import ReleaseSettings

CONFIG, JOB, PROGRESS, OUTCOME = "release.toml", "job.json", "progress.jsonl", "outcome.json"
BETWEEN_S = 0.1  # between two notes of one stage
CALLED_OFF = "It was called off before anything was charged."


class Notes(Dialogue):
    """Notes progress and notices, a line each; keeps what stands."""

    def __init__(self, folder: Path, passphrase: str) -> None:
        self.words = "Nothing was drawn and nothing was spent."
        self._file = (folder / PROGRESS).open("a", encoding="utf-8", buffering=1)
        self._last: tuple[str, float] = ("", 0.0)
        self._passphrase = passphrase

    def notice(self, about: str, words: str) -> None:
        """Note it."""
        self._write({"notice": words, "about": about})

    def passphrase(self) -> str | None:
        """As it was typed."""
        return self._passphrase or None

    def outcome(self, words: str, *, done: bool = False) -> None:
        """Keep it."""
        del done
        self.words = words

    def progress(self, stage: str, done: int | None, total: int | None) -> None:
        """Note a stage, and now and then how far it is."""
        now = monotonic()
        if stage == self._last[0] and now - self._last[1] < BETWEEN_S:
            return
        self._last = stage, now
        self._write({"stage": stage, "done": done, "total": total})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")


def main(folder: Path, passphrase: str) -> None:
    """Make the release of a job's folder, and note how it ended."""
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    notes = Notes(folder, passphrase)

    def make() -> dict[str, Any]:
        settings = ReleaseSettings.from_file(folder / CONFIG, {})
        if "signoff" in job:
            return _sign_off(settings, Path(job["bundle"]), Path(job["signoff"]))
        if job["demo"]:
            demo_release(settings, notes)
            return {
                "state": "done",
                "outcome": "A demo: it was drawn with a seed, and not charged.",
            }
        done = release_grid(settings, notes)
        return {
            "state": "done",
            "outcome": notes.words,
            "warnings": list(done.warnings),
            "signed_by": done.signed_by,
        }

    with raised(), told_to(notes.progress):
        ended = _ended(make, notes)
        with held():
            replace_whole(folder / OUTCOME, json.dumps(ended).encode())


def _sign_off(settings: ReleaseSettings, bundle: Path, place: Path) -> dict[str, Any]:
    """Write the confidential page on a release that was made."""
    from gridveil.assurance.owner_report.signoff_page import signoff

    source = open_named(settings)
    measured = read_all(settings.trajectory, source.facts)
    try:
        ledger = Ledger(settings.ledger_place, create=False)
    except NoLedger:
        ledger = None
    signoff(bundle, source, ledger, [record.observation for record in measured]).write(place)
    return {"state": "done", "outcome": "The sign-off page was written. It charges nothing."}


def _ended(make: Callable[[], dict[str, Any]], notes: Notes) -> dict[str, Any]:
    try:
        return make()
    except GridveilError as error:
        state = "stopped" if isinstance(error, Interrupted) else "failed"
        told = {"problem": error.problem, "outcome": error.outcome, "remedy": error.remedy}
        return {"state": state, **told}
    except (Ended, KeyboardInterrupt):
        return {"state": "stopped", "problem": "Called off.", "outcome": notes.words}
    except Exception as error:  # its own words might hold a private value
        name = type(error).__name__
        return {"state": "failed", "problem": f"Internal error, {name}.", "outcome": notes.words}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.stdin.readline().rstrip("\n"))
