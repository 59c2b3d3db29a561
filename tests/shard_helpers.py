"""Work for shards, in a module that workers can import."""

import os
import signal
import time
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from gridveil.foundation.errors import GridveilError
from gridveil.foundation.executors import Called, Crew


def square(number):
    return number * number


def waits(folder):
    """Say that it is at work, and go on for longer than any test."""
    Path(folder, "at work").touch()
    time.sleep(600)


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


class Ending(Executor):
    """Works here, and ends with an error after so many pieces; then it works again."""

    def __init__(self, after, error):
        self.left, self.error = after, error

    def submit(self, fn, /, *args, **kwargs):
        self.left -= 1
        if self.left == -1:
            raise self.error
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def stopped(after):
    """Workers until Ctrl-C, after so many pieces."""
    executor = Ending(after, KeyboardInterrupt())
    return Crew(lambda: nullcontext(Called(executor, lambda: 1)))


def lost(after):
    """Workers that are lost once, after so many pieces."""
    executor = Ending(after, BrokenExecutor())
    return Crew(lambda: nullcontext(Called(executor, lambda: 1)))


@dataclass(frozen=True)
class Awkward:
    """A part of an audit that does as `awkward` does, and shows one row."""

    what: str
    folder: str

    subject = "awkward"
    spans = (range(1), range(1, 2))

    def values(self, span):
        return len(span)

    def tally(self, span, sampler, random):
        return awkward((self.what if span.start else "works", self.folder, span.start))

    def rows(self, tallies, parts):
        from gridveil.assurance.audit.findings import Fit  # heavy: most workers need none of it

        return [Fit("awkward", str(tallies), parts, 1.0, 0.5)]
