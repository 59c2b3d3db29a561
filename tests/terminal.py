"""A command at a terminal of its own: what it shows, and answers typed into it."""

import os
import pty
import re
import select
import signal
import struct
import sys
import termios
from fcntl import ioctl
from pathlib import Path

SCRIPT = Path(sys.executable).with_name("gridveil")
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    """The installed command at a pseudo-terminal, 80 columns wide.

    shown : all that it wrote so far, without the codes of colours and cursor.
    """

    def __init__(self, *arguments, cwd, columns=80, **environment):
        self._raw, self.shown, self._seen = b"", "", 0
        self._process, self._terminal = pty.fork()
        if self._process == 0:
            os.chdir(cwd)
            os.environ.update(environment, TERM="xterm")
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a run in the background ignores it
            os.execv(SCRIPT, [str(SCRIPT), *map(str, arguments)])
        ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    def until(self, words):
        """Wait until words are shown that were not shown before."""
        while (at := self.shown.find(words, self._seen)) < 0:
            if not self._read():
                raise AssertionError(f"{words!r} never came:\n{self.shown[-3000:]}")
        self._seen = at + len(words)

    def answer(self, words, text=""):
        """Wait for a question and answer it."""
        self.until(words)
        self.type(f"{text}\r")

    def type(self, keys):
        """Press keys."""
        os.write(self._terminal, keys.encode())

    def end(self):
        """Wait for the end; give the exit code."""
        while data := self._read():
            pass
        if data is None:
            os.kill(self._process, signal.SIGKILL)
        _, status = os.waitpid(self._process, 0)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status)

    @property
    def lines(self):
        """Its lines, progress bars left out, and notices, which the terminal breaks itself."""
        lines = self.shown.splitlines()
        return [line for line in lines if "━" not in line and "gridveil: " not in line]

    def _read(self):
        """What came, nothing after the end, None where nothing came in time."""
        ready, _, _ = select.select([self._terminal], [], [], 240)
        if not ready:
            return None
        try:
            data = os.read(self._terminal, 1 << 16)
        except OSError:  # how Linux says that it has ended
            data = b""
        self._raw += data  # a character or a code may come in two parts
        self.shown = CODES.sub("", self._raw.decode(errors="replace"))
        return data
