"""Work for shards, in a module that workers can import."""

import os
import signal
from pathlib import Path

from gridveil.foundation.errors import GridveilError


def square(number):
    return number * number


def awkward(piece):
    """What is asked for: (what, folder, number). A file counts the tries."""
    what, folder, number = piece
    with Path(folder, f"{number}.tries").open("a") as tries:
        tries.write("x")
    tried = Path(folder, f"{number}.tries").stat().st_size
    if what == "wrong":
        raise GridveilError("No such thing.")
    if what == "fails" or (what == "fails twice" and tried < 3):
        raise RuntimeError("bad luck")
    if what == "dies" or (what == "dies once" and tried == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def tries_in(folder):
    return {int(path.stem): path.stat().st_size for path in Path(folder).glob("*.tries")}
