"""Upper limits of files and texts: above every real grid, low enough to stall no machine. And what
an owner may say in words: one line of plain text, which a bundle shows as it is.

The largest public grid, MATPOWER's case_SyntheticUSA (82 000 buses), takes 23 MB, 322 000 lines and
four million numbers.
"""

from __future__ import annotations

import re

from gridveil.foundation.errors import NOTHING_SPENT, OptionError

# Bytes of a file, by what it holds: cut into short fields, a text takes twenty times as much
# memory.
GRID_BYTES = 2**26  # .m, RAW and DYR
TABLE_BYTES = 2**25  # one of the CSV tables of a grid
RECORD_BYTES = 2**26  # a trajectory: an hour at 50 Hz of 40 locations
COMTRADE_BYTES = 2**20  # the .cfg of a pair: 10 000 channels
JSON_BYTES = 2**27  # names are repeated in every row
UNPACKED_BYTES = 2**28  # what a .mat, .xlsx or CGMES zip swells to: XML says little in many bytes
TOML_BYTES = 2**21  # dynamics of 20 000 single machines
KEY_BYTES = 2**20  # a keyring or a key: 7 000 keys

# Parts of a file.
LONGEST_LINE = 2**20  # signs: a table of 10 000 rows may stand in one line
MOST_LINES = 2**21
MOST_VALUES = 2**23  # numbers, fields or cells of a file
LONGEST_NUMBER = 400  # signs: the smallest float written out without an exponent has 326
MOST_DOTS = 20  # in a line of TOML: reading a key takes as long as the square of its parts
MOST_FILES = 1000  # of a folder or a zip
MOST_STEPS = 100  # of an event: a simulation of 500 takes 45 s of processor time
LONGEST_EVENT = 2**20  # signs: a step on each of 70 000 buses
LONGEST_OPTION = 100  # signs of a number with its unit

# Characters of the owner's words.
LONGEST_WORDS = 1000
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
    if len(text) > LONGEST_WORDS or not re.fullmatch(PLAIN, text) or HALVES.search(text):
        raise OptionError(
            f"{what} cannot be written into a bundle as it is.",
            expected=f"one line of at most {LONGEST_WORDS} characters, without control characters",
            outcome=NOTHING_SPENT,
            remedy="Say it in fewer or plainer words.",
        )
