"""Mutations aimed at the readers' limits, and the texts beside grids that are mutated too: records,
settings and events.

`python fuzzing.py KIND COUNT SEED hard` throws them; a file must end as in `fuzzing`, within less
time and memory.
"""

import re

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.inference.records import read_trajectory
from gridveil.readers.cases import open_grid
from gridveil.workflow.settings import ReleaseSettings
from measured_helpers import write_measured

# a file's processor time, three times what the slowest of 10 850 took, and memory at its peak
LIMIT_S, LIMIT_GB = (9, 1.0)
JAVA_GB = 2.0  # the same of CGMES, whose child process is pypowsybl's
LARGEST = 4 * 10**6  # bytes of a mutated file
SIZES = (10**3,) * 8 + (10**4,) * 6 + (10**5,) * 4 + (10**6,)
NUMBER = re.compile(rb"-?\d+\.?\d*(?:[eE][-+]?\d+)?")
WORD = re.compile(rb"[A-Za-z_]\w*")
NESTS = (b"[", b"{", b"(", b"'", b'"', b"<a>", b'{"a":', b"[[", b"{a=", b"%{\n", b'"""', b"<!--")
FILLS = (
    b"\0",
    b" ",
    b"\t",
    b"\n",
    b"\r\n",
    b",",
    b";",
    b"/",
    b"...\n",
    b"a.",
    b"@",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"&amp;",
    b"\x85",
)
SIZES_SAID = (2**32 - 1, 2**31 - 1, 2**31, 2**24, 2**16, 0)
EVENT = "uniform:+5%@10s; load:5=+0.1,7=+15MW@2s; lost:1,2@3s; gen:3=-0.5"
CONFIG = """grid = "ieee30"
epsilon = "1/2"
adjacency = "one-asset"
alpha = "k=1/2,m=1"
split = "k=1,m=1/2,d=1/2"
bounds = "k=1:100,m=1:40"
bounds_origin = "public"
mechanism = "items"
count = 2
inertia = 8.0
merge_loads = 12
"""


def text_files(kind, folder):
    """Sound texts of a kind, by name, and those that are mutated; None for a kind of grid."""
    if kind == "event":
        return {"event": EVENT.encode()}, ["event"]
    if kind == "config":
        return {"release.toml": CONFIG.encode()}, ["release.toml"]
    if kind == "trajectory":
        write_measured(folder, np.arange(61) / 5, None, sigma=0.001)
        names = ["record.csv", "record.toml"]
        return {name: (folder / name).read_bytes() for name in names}, names
    return None


def read_text(kind, folder):
    """Read one of them: what is wrong with what was read, None if nothing is."""
    if kind == "event":
        event = Event.parse((folder / "event").read_bytes().decode("latin-1"), base_mva=100)
        return None if len(event.steps) <= 100 else "too many steps"
    if kind == "config":
        settings = ReleaseSettings.from_file(folder / "release.toml", {})
        return None if 0 < settings.epsilon < 10**12 else "epsilon is unusable"
    measured = read_trajectory(folder / "record.toml", FACTS)
    return "a value is infinite" if np.isinf(measured.trajectory.omega).any() else None


FACTS = open_grid("star5").facts


def mutate_hard(rng, data):
    """One or two changes of up to a million bytes."""
    for _ in range(rng.choice((1, 1, 2))):
        data = rng.choice(MUTATIONS)(rng, data, rng.choice(SIZES))
    return data[:LARGEST]


def _instead(rng, pattern, data, text):
    found = list(pattern.finditer(data[:200_000]))
    if not found:
        return data + text
    hit = rng.choice(found)
    return data[: hit.start()] + text + data[hit.end() :]


def long_number(rng, data, size):
    digits = (
        rng.choice((b"1", b"9", b"0", b"0.", b"1e", b"-", b"0x", b"1_"))
        + rng.choice((b"0", b"9", b"7")) * size
    )
    return _instead(
        rng,
        NUMBER,
        data,
        digits + rng.choice((b"", b"", b"x", b".", b"e", b"e5", b".5", b" MW", b"%")),
    )


def huge_exponent(rng, data, size):
    return _instead(
        rng,
        NUMBER,
        data,
        rng.choice((b"1e", b"-1e-", b"0x1p")) + b"9" * rng.choice((3, 5, 18, size)),
    )


def long_word(rng, data, size):
    return _instead(
        rng, WORD, data, rng.choice((b"a", b"A1", b"a_", "é".encode(), b"a.", b"'", b"a=")) * size
    )


def fill(rng, data, size):
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(FILLS) * size + data[place:]


def nest(rng, data, size):
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(NESTS) * size + data[place:]


def many_rows(rng, data, size):
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    times = min(size, LARGEST // (len(lines[place]) + 1))
    return b"\n".join([*lines[:place], *[lines[place]] * times, *lines[place:]])


def many_columns(rng, data, size):
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    lines[place] = (lines[place][:2000] + rng.choice((b",", b" ", b"\t", b";", b""))) * (
        1 + size // (len(lines[place][:2000]) + 1)
    )
    return b"\n".join(lines)


def said_size(rng, data, size):
    """Another size where a binary file may say one; a number of rows or an index where a text has
    one.
    """
    if b"\0" not in data[:2000]:
        return _instead(
            rng, NUMBER, data, str(rng.choice((*SIZES_SAID, 10**9, 10**18, -1))).encode()
        )
    place = rng.randrange(0, max(len(data) - 4, 1), 4)
    return data[:place] + rng.choice(SIZES_SAID).to_bytes(4, "little") + data[place + 4 :]


MUTATIONS = (
    long_number,
    long_number,
    huge_exponent,
    long_word,
    fill,
    fill,
    nest,
    many_rows,
    many_columns,
    said_size,
)
