"""Releases that the studio was asked for: each once, in a process of its own, and how it ended.

A release's id names a folder that can be made once: a second yes, of another tab, a reload or a
studio that was started again, finds it there. What was charged, the ledger alone says.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

from gridveil.foundation.errors import GridveilError
from gridveil.foundation.files import replace_whole
from gridveil.privacy.ledger import Entry, Ledger
from gridveil.studio.worker import CONFIG, JOB, OUTCOME, PROGRESS

LOCK, PID = "lock", "pid"
GRACE_S = 20.0  # that a release has to note how it ended, after it was called off


@dataclass(frozen=True)
class Job:
    """One release. about : what it is, as JOB has it."""

    folder: Path
    about: dict[str, Any]

    @property
    def id(self) -> str:
        """The one-time id."""
        return self.folder.name

    @property
    def bundle(self) -> Path:
        """Where its bundle goes."""
        return Path(self.about["bundle"])

    @property
    def runs(self) -> bool:
        """Whether its process lives: it holds the lock."""
        import fcntl

        with (self.folder / LOCK).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def ended(self) -> dict[str, Any] | None:
        """How it ended, as its process noted it, or as ledger and bundle tell where it noted
        nothing; None: it runs.
        """
        runs = self.runs  # before the note, which may come in between
        with suppress(FileNotFoundError):
            return json.loads((self.folder / OUTCOME).read_text(encoding="utf-8"))
        return None if runs else self._found()

    def _found(self) -> dict[str, Any]:
        """What ledger and bundle tell of a release whose process was killed."""
        stands = self.bundle.exists()
        problem = "Its process ended without a word: it was killed, or the machine went down."
        if "signoff" in self.about:
            return {"state": "failed", "problem": problem, "outcome": "There is no page."}
        if self.about["demo"]:
            words = "A demo is not charged."
        else:
            try:
                words = _charged(self.entries())
            except GridveilError as error:
                words = f"The ledger cannot be read: {error.problem}"
        words += " Its bundle stands." if stands else " There is no bundle."
        return {"state": "done" if stands else "failed", "problem": problem, "outcome": words}

    def entries(self) -> list[Entry]:
        """What the ledger charged to its account since it began."""
        ledger = Ledger(self.about["ledger"], create=False)
        since = self.about["entries_before"]
        return [e for e in ledger.entries(self.about["lineage"]) if e.number > since]

    def progress(self, seen: int = 0) -> tuple[list[dict[str, Any]], int]:
        """Whole lines of progress from a place in their file on, and where they end."""
        with suppress(FileNotFoundError), (self.folder / PROGRESS).open("rb") as file:
            file.seek(seen)
            text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            return [json.loads(line) for line in whole.splitlines()], seen + len(whole)
        return [], seen

    def cancel(self) -> None:
        """Ask its process to end, as Ctrl-C does."""
        if self.runs:
            with suppress(ProcessLookupError, FileNotFoundError, ValueError):
                os.kill(int((self.folder / PID).read_text(encoding="utf-8")), signal.SIGTERM)

    def wait(self, limit_s: float = GRACE_S) -> None:
        """Wait until it has ended."""
        until = monotonic() + limit_s
        while self.runs and monotonic() < until:
            sleep(0.05)


def _charged(entries: list[Entry]) -> str:
    if not entries:
        return "Nothing was drawn and nothing was spent: the ledger shows no charge since it began."
    total = sum((entry.epsilon for entry in entries), Fraction(0))
    rows = ", ".join(f"row {entry.number} ({entry.state})" for entry in entries)
    return f"ε = {total} was charged and stays spent: the ledger has {rows}."


class Jobs:
    """All releases of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def all(self) -> Iterator[Job]:
        """The latest first."""
        found = [path for path in self._folder.iterdir() if (path / JOB).is_file()]
        for path in sorted(found, key=lambda path: (path / JOB).stat().st_mtime, reverse=True):
            with suppress(ValueError):
                yield Job(path, json.loads((path / JOB).read_text(encoding="utf-8")))

    def get(self, name: str) -> Job | None:
        """Look one up."""
        return next((job for job in self.all() if job.id == name), None)

    def forget(self, job: Job) -> None:
        """Delete a job that charged nothing, so that it can be begun again."""
        assert "signoff" in job.about, "a release is never begun twice"
        shutil.rmtree(job.folder)

    def running(self) -> Job | None:
        """The one that runs, if any."""
        return next((job for job in self.all() if job.ended() is None), None)

    def begin(self, name: str, config: str, about: dict[str, Any], passphrase: str = "") -> Job:
        """Start a release, once: whoever comes second with the same id gets the first one's job."""
        import fcntl

        place = self._folder / name
        try:
            place.mkdir(mode=0o700)
        except FileExistsError:
            job = self.get(name)
            assert job is not None, "it is noted before its folder can be seen by another request"
            return job
        (place / CONFIG).write_text(config, encoding="utf-8")
        with (place / LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # handed to the process, which holds it till its end
            replace_whole(place / JOB, json.dumps(about).encode())
            process = subprocess.Popen(  # noqa: S603 - this Python, and a folder of our own
                [sys.executable, "-m", "gridveil.studio.worker", str(place)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(lock.fileno(),),
                text=True,
            )
            (place / PID).write_text(str(process.pid), encoding="utf-8")
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(f"{passphrase}\n")
            process.stdin.close()
        Thread(target=process.wait, daemon=True).start()
        return Job(place, about)
