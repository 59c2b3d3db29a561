"""Call something in a child process of limited memory and processor time, forked from this one:
nothing is imported again.
"""

import json
import os
import re
import resource
import signal
from dataclasses import dataclass
from pathlib import Path

from gridveil.foundation.errors import GridveilError

# by the clock on the wall, of a machine that others use: a pipe that is waited for takes no
# processor time
HUNG_S = 300


@dataclass(frozen=True)
class Ended:
    """How a call ended.

    error : words of a refusal, None if there was none.
    seconds : of processor time.
    peak : bytes held.
    """

    how: str
    error: str | None
    exit_code: int
    seconds: float
    peak: int


def in_child(call, *, memory, seconds) -> Ended:
    """Call with so many bytes of address space more than this process has, and so many seconds of
    processor time.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            signal.alarm(HUNG_S)
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            most = pages * os.sysconf("SC_PAGE_SIZE") + memory
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
            os.write(writing, json.dumps(_outcome(call)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read()
    _, status, used = os.wait4(child, 0)
    how, error, code = (
        json.loads(said) if said else (f"killed by signal {os.WTERMSIG(status)}", None, -1)
    )
    return Ended(how, error, code, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def _outcome(call):
    try:
        call()
    except GridveilError as error:
        return "refused", str(error), error.exit_code
    except BaseException as error:
        return type(error).__name__, None, 70
    return "accepted", None, 0


def own_peak() -> int:
    """Most memory that this process held [bytes].

    Not ru_maxrss: at exec, a child is given the peak of whoever started it, a test worker of any
    size.
    """
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", status)[1])
