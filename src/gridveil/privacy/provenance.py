"""Provenance: where a public trajectory and its event data come from, declared before they are
used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from gridveil.foundation.arguments import of_type, takes
from gridveil.foundation.errors import NOTHING_SPENT, OptionError
from gridveil.foundation.limits import check_words
from gridveil.foundation.looks import looks

Origin = Literal["measured", "simulated"]


_TEXT = of_type(str, "a text")


@looks(lambda own: f"{own.origin}: {own.in_words()}")
@takes(
    outcome=NOTHING_SPENT,
    source=_TEXT,
    date=of_type(str, "a day, as '2026-05-24'", date.isoformat),
    link=_TEXT,
    event_source=_TEXT,
)
@dataclass(frozen=True)
class Provenance:
    """Where a trajectory is from.

    origin : `measured` (public before the draw), or `simulated` from the source itself, which is
    for demos only.
    source, date, link : who published the trajectory, when it was public (a day), and where it can
    be read.
    event_source : who published the loads of its event.
    """

    origin: Origin
    source: str
    date: str = ""
    link: str = ""
    event_source: str = ""

    def __post_init__(self) -> None:
        if self.origin not in ("measured", "simulated"):
            raise _undeclared(f"the origin {self.origin!r} is unknown", "measured or simulated")
        if not self.source.strip():
            raise _undeclared("its source is not named", "who published it")
        for name in ("source", "date", "link", "event_source"):
            check_words(f"The {name} of a trajectory", getattr(self, name))
        if self.origin == "simulated":
            return
        if not (re.fullmatch(r"\d{4}-\d\d-\d\d", self.date) and _is_day(self.date)):
            raise _undeclared("its date is missing", "the day it became public, as 2026-05-24")
        if date.fromisoformat(self.date) > date.today() + timedelta(
            days=1
        ):  # somewhere it is tomorrow already
            raise _undeclared("its date lies in the future", "a day on which it was public already")
        if not re.fullmatch(r"(https?://|doi:)\S+", self.link):
            raise _undeclared(
                "its link is missing", "an https:// or doi: address where it can be read"
            )
        if not self.event_source.strip():
            raise _undeclared(
                "the source of its event's loads is not named",
                "who published the size and place of the event",
            )

    def in_words(self) -> str:
        """Describe it for the certificate."""
        if self.origin == "simulated":
            return f"{self.source} (simulated from the source: demo only)"
        return (
            f"{self.source}, public since {self.date}, {self.link}; event data: {self.event_source}"
        )


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _undeclared(problem: str, expected: str) -> OptionError:
    return OptionError(
        f"A trajectory cannot be used: {problem}.",
        expected=expected,
        outcome=NOTHING_SPENT,
        remedy="Declare where it comes from, or release without it.",
    )
