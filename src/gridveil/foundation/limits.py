"""Upper limits of files and texts: above every real grid, low enough to stall no machine.

The largest public grid, MATPOWER's case_SyntheticUSA (82 000 buses), takes 23 MB, 322 000 lines and
four million numbers.
"""

from __future__ import annotations

import io

# Bytes of a file, by what it holds: cut into short fields, a text takes twenty times as much
# memory.
GRID_BYTES = 2**26  # .m, RAW and DYR
TABLE_BYTES = 2**25  # one of the CSV tables of a grid
RECORD_BYTES = 2**26  # a trajectory: an hour at 50 Hz of 40 locations
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


def bad_lines(data: bytes) -> str | None:
    r"""Say what is wrong with the lines of a text, before it is cut into any; None: nothing.

    >>> bad_lines(b"1 2\n3 4\r5"), bad_lines(b"1" * 2**21)
    (None, 'a line is longer than 1048576 characters')
    """
    ends = data.replace(b"\r", b"\n") if b"\r" in data else data
    if ends.count(b"\n") > MOST_LINES:
        return f"there are more than {MOST_LINES} lines"
    if max(map(len, io.BytesIO(ends)), default=0) > LONGEST_LINE:
        return f"a line is longer than {LONGEST_LINE} characters"
    return None
