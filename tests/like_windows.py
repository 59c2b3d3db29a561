"""Run commands of gridveil in a Python that has nothing but what Windows has too.

Modules and names of `os` and `signal` that are POSIX's alone are gone, text files that are opened
without a line end get \\r\\n, and one that is opened without an encoding is an error.

    python like_windows.py RESULTS COMMANDS

COMMANDS : JSON, a list of lists of words; "python" before a script runs that.
RESULTS : where the exit codes go, as JSON.
"""

import builtins
import io
import json
import os
import shutil
import signal
import subprocess  # noqa: F401 - it reads names of os that are gone afterwards
import sys
import warnings
from pathlib import Path

import numpy  # noqa: F401 - built for this system, it asks for its kernel

MODULES = (
    *("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "posix", "syslog", "crypt"),
    *("readline", "spwd", "nis", "curses"),
)
# What Python's documentation of os lists for Windows, of what the module `posix` gives here.
IN_OS = """\
DirEntry F_OK O_APPEND O_CREAT O_EXCL O_RDONLY O_RDWR O_TRUNC O_WRONLY P_NOWAIT P_NOWAITO P_WAIT
R_OK TMP_MAX W_OK X_OK abort access chdir chmod close closerange cpu_count device_encoding dup dup2
environ error execv execve fspath fstat fsync ftruncate get_inheritable get_terminal_size getcwd
getcwdb getlogin getpid getppid isatty kill link listdir lseek lstat mkdir open pipe putenv read
readlink remove rename replace rmdir scandir set_inheritable spawnv spawnve stat stat_result
strerror symlink system terminal_size times times_result truncate umask unlink unsetenv urandom
utime waitpid waitstatus_to_exitcode write
"""
SIGNALS = {"SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV"}


def become_windows() -> None:
    """Take away what Windows does not have."""
    import posix

    for name in {*dir(posix)} - {*IN_OS.split()}:
        if not name.startswith("_") and hasattr(os, name):
            delattr(os, name)
    shutil._use_fd_functions = False
    for name in dir(signal):
        if name.startswith("SIG") and not name.startswith("SIG_") and name not in SIGNALS:
            delattr(signal, name)
    for name in MODULES:
        sys.modules[name] = None
    opened = io.open

    def open_like_windows(
        file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *more, **others
    ):
        if "b" not in mode:
            encoding = io.text_encoding(encoding)
            if newline is None and set(mode) & set("wax+"):
                newline = "\r\n"
        return opened(file, mode, buffering, encoding, errors, newline, *more, **others)

    io.open = builtins.open = open_like_windows
    warnings.filterwarnings("error", category=EncodingWarning, module="gridveil")


def run(words: list[str]) -> int:
    """Run a script, or a command of gridveil; give its exit code."""
    if words[0] == "python":
        exec(compile(words[1], "script", "exec"), {})
        return 0
    from gridveil.cli import main

    sys.argv = words
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    return 0


if __name__ == "__main__":
    become_windows()
    results, commands = sys.argv[1:]
    codes = [run(words) for words in json.loads(commands)]
    Path(results).write_bytes(json.dumps(codes).encode())
