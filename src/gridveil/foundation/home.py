"""Where an owner's own files lie: the ledger and the keys."""

from __future__ import annotations

import os
from pathlib import Path


def gridveil_home() -> Path:
    """Name the owner's folder: $GRIDVEIL_HOME, or gridveil in the user's data folder.

    It may not exist yet.
    """
    if named := os.environ.get("GRIDVEIL_HOME"):
        return Path(named)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "gridveil"


def state_home() -> Path:
    """Name gridveil's state folder, outside the owner's backups. It may not exist yet."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "gridveil"
