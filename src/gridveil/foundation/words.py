"""The owner's own words: one line of plain text, which a bundle shows as it is."""

from __future__ import annotations

import re

from gridveil.foundation.errors import NOTHING_SPENT, OptionError

LONGEST = 1000  # characters
# No control characters, line or paragraph separators, nor marks that turn the direction of what
# follows.
PLAIN = (
    r"^[^\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\U000e0000-\U000e007f]*$"
)
# Halves of characters, which names of files can hold, have no UTF-8.
HALVES = re.compile("[\ud800-\udfff]")


def check_words(what: str, text: str) -> None:
    """Refuse words that no bundle can carry, before anything is drawn for it."""
    if len(text) > LONGEST or not re.fullmatch(PLAIN, text) or HALVES.search(text):
        raise OptionError(
            f"{what} cannot be written into a bundle as it is.",
            expected=f"one line of at most {LONGEST} characters, without control characters",
            outcome=NOTHING_SPENT,
            remedy="Say it in fewer or plainer words.",
        )
