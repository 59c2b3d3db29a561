"""Named steps at which the tests kill a release, to show that a crash never draws more than was
charged.
"""

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
    """Die here, as if the power had gone, if $GRIDVEIL_FAULT names this step; or get a signal, if
    it is STEP:SIGTERM.
    """
    at, _, sent = os.environ.get("GRIDVEIL_FAULT", "").partition(":")
    if at == name:
        os.kill(os.getpid(), signal.Signals[sent or "SIGKILL"])
