"""What two runs left, compared: with the ledger's nonces pinned, and databases as statements."""

import sqlite3
import sys
from contextlib import closing
from itertools import count
from types import SimpleNamespace


def pin_nonces(monkeypatch):
    """Let the ledger's nonces be the same in every run: all that may differ."""
    numbers = count(1)
    stand_in = SimpleNamespace(
        token_hex=lambda n=32: f"{next(numbers):0{2 * n}x}",
        token_bytes=lambda n=32: next(numbers).to_bytes(n, "big"),
    )
    for name, module in list(sys.modules.items()):
        if name.startswith("gridveil.privacy.ledger") and hasattr(module, "secrets"):
            monkeypatch.setattr(module, "secrets", stand_in)


def dumped(path):
    """A database as the statements that make it: its file also holds free pages and counters."""
    with closing(sqlite3.connect(path)) as database:
        return "\n".join(database.iterdump())


def differing(one, other):
    """What is not the same, or only in one of two runs."""
    return sorted(name for name in one | other if one.get(name) != other.get(name))
