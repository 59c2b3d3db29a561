"""What a running studio knows: its folders, the release in the making, bundles dropped on it."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from typing import Any

from gridveil.foundation.files import gridveil_home
from gridveil.foundation.shown import shown
from gridveil.privacy.ledger import default_location
from gridveil.studio.draft import Draft
from gridveil.studio.jobs import Jobs
from gridveil.workflow.demo import write_demo_record

FOLDER = "gridveil-studio-"


@dataclass
class Received:
    """A bundle that a recipient dropped, and what `verify` found."""

    id: str
    name: str
    path: Path
    report: Any


@dataclass
class Studio:
    """One studio. out : where bundles go; demo : whether everything is seeded and nothing charged.

    uploads : a folder of its own, deleted on exit.
    trying : held while an ε is tried, one at a time; other pages do not wait for it.
    """

    out: Path
    demo: bool = False
    home: Path = field(default_factory=gridveil_home)
    ledger: str = field(default_factory=default_location)
    uploads: Path = field(default_factory=lambda: Path(mkdtemp(prefix=FOLDER)))
    received: dict[str, Received] = field(default_factory=dict[str, Received])
    lock: Lock = field(default_factory=Lock, repr=False)
    trying: Lock = field(default_factory=Lock, repr=False)
    closing: bool = False

    def __post_init__(self) -> None:
        if self.demo:  # nothing of the user's own is touched
            self.home, self.out = self.uploads / "home", self.uploads / "out"
            self.ledger = str(self.uploads / "ledger.sqlite")
            self.record = write_demo_record(self.uploads)
        self.jobs = Jobs(self.home / "studio")
        self.draft = Draft(self.ledger)

    def keep(self, files: Iterable[tuple[str, bytes]]) -> dict[str, Path]:
        """Keep uploaded files in a folder of their own, by their names; what no file may be called
        is left out of these.
        """
        folder = self.uploads / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        kept = {}
        for name, data in files:
            plain = file_name(name)
            (folder / plain).write_bytes(data)
            kept[plain] = folder / plain
        return kept

    def close(self) -> None:
        """Call off what runs, wait till it has noted how it ended, and delete the uploads."""
        self.closing = True
        running = self.jobs.running()
        if running is not None:
            running.cancel()
            running.wait()
        shutil.rmtree(self.uploads, ignore_errors=True)


def file_name(name: str) -> str:
    """A name for a file: the last part of a path, printable, not too long, and not hidden."""
    last = re.split(r"[/\\]", shown(name.replace("\0", "")))[-1].lstrip(".")
    stem, dot, end = last.rpartition(".")
    return f"{stem[:80]}{dot}{end[:16]}" or "file"
