"""Named steps at which tests kill a release: a crash never draws more than was charged."""

from __future__ import annotations

import os
import signal

STEPS = (
    "opened",
    "charged",
    "drawn",
    "reduced",
    "bundle-begun",
    "bundle-half",
    "bundle-moved",
    "published",
)


def step(name: str) -> None:
    """Die here if $GRIDVEIL_FAULT names this step; with STEP:SIGTERM, get that signal instead."""
    at, _, sent = os.environ.get("GRIDVEIL_FAULT", "").partition(":")
    if at == name:
        os.kill(os.getpid(), signal.Signals[sent or "SIGKILL"])
