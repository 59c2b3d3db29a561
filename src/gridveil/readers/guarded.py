"""A process of its own for code that a damaged file may hang or kill: within a time and a memory,
and without a core file.

The file comes in through stdin and the answer leaves through stdout: private values never touch a
disk. The answer is a line of JSON, then bytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple


class GuardedTask(NamedTuple):
    """What a child does.

    module : its function `answer` turns the file into what goes into JSON, and bytes.
    package : what it needs; the memory that this reserves when it is loaded comes on top.
    memory : [bytes].
    """

    module: str
    package: str
    memory: int


TASKS = {
    # pypowsybl reserves 2 GB at its start, of which it uses 0.3.
    "cgmes": GuardedTask("gridveil.readers.cgmes.child", "pypowsybl.network", 2**31),
    "mat": GuardedTask("gridveil.readers.matlab", "scipy.io.matlab", 2**29),
}
OUT_OF_TIME, BROKEN, NOT_LOADED = "out of time", "broken", "not loaded"


def guarded(task: str, data: bytes, *, seconds: float) -> tuple[dict[str, Any], bytes]:
    """Let a child read a file; {"error": …} if it did not."""
    # -P: a json.py or scipy.py in the working folder, which may be a stranger's, must not run with
    # the grid in its hands.
    command = [sys.executable, "-P", "-m", "gridveil.readers.guarded", task]
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, and no argument from outside
            command,
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
        head, _, content = done.stdout.partition(b"\n")
        return json.loads(head), content
    except subprocess.TimeoutExpired:
        return {"error": OUT_OF_TIME}, b""
    except ValueError:  # the answer, cut off, may hold private values
        return {"error": BROKEN}, b""


def _limit(name: str, most: int) -> None:
    """Let the process die instead of filling the machine; only where the system can."""
    try:
        import resource

        resource.setrlimit(getattr(resource, name), (most, most))
    except (AttributeError, ImportError, OSError, ValueError):
        pass


def _reserved() -> int:
    """Bytes that the process has reserved; far beyond all limits where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return 1024 * next(
            int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData")
        )
    except (OSError, StopIteration, ValueError):
        return 2**60


def main() -> None:
    """Answer, or name the kind of the error, never its message, which may hold private values."""
    answer = os.fdopen(os.dup(1), "wb")
    quiet = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # what native code prints must not mix with the answer
        os.dup2(quiet, stream)
    _limit("RLIMIT_CORE", 0)
    task, data, content = TASKS[sys.argv[1]], sys.stdin.buffer.read(), b""
    # Where pandapower is installed pypowsybl loads it too, for a converter: seven seconds for
    # nothing.
    sys.modules.setdefault("pandapower", None)  # pyright: ignore[reportArgumentType]
    try:
        import_module(task.package)
        module = import_module(task.module)
        _limit("RLIMIT_DATA", _reserved() + task.memory)
        head, content = module.answer(data)
    except ImportError:
        head = {"error": NOT_LOADED}
    except BaseException as error:
        head = {"error": type(error).__name__}
    answer.write(json.dumps(head).encode() + b"\n")
    answer.write(content)
    answer.close()
    os._exit(0)  # Java's threads may not end by themselves


if __name__ == "__main__":
    main()
