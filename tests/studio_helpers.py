"""A studio on loopback for tests, and a bare HTTP client that can lie."""

import http.client
import json
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gridveil.privacy.ledger import Ledger
from gridveil.studio.app import create_app
from gridveil.studio.guard import UPLOAD_BYTES, Keys
from gridveil.studio.jobs import PID
from gridveil.studio.serve import server_of
from gridveil.studio.state import Studio


@dataclass
class Running:
    """A studio that answers."""

    studio: Studio
    keys: Keys
    links: list = field(default_factory=list)

    @property
    def url(self):
        return f"http://{self.keys.host}"

    def ask(self, method, path, fields=None, *, files=(), headers=None, cookie=True):
        """Send one request; lies are told by headers, where None leaves one out."""
        host, port = self.keys.host.split(":")
        sent = {"Host": self.keys.host, "Origin": self.url}
        if cookie:
            sent["Cookie"] = f"{self.keys.name}={self.keys.cookie}"
        body = None
        if method == "POST":
            body, sent["Content-Type"] = multipart(fields or {}, files)
        sent = {k: v for k, v in (sent | (headers or {})).items() if v is not None}
        connection = http.client.HTTPConnection(host, int(port), timeout=120)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            connection.putheader(name, value)
        if body is not None and "Content-Length" not in sent:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        if body is not None:
            connection.send(body)
        answer = connection.getresponse()
        answer.text = answer.read().decode(errors="replace")
        connection.close()
        return answer

    def choose(self, grid="ieee30", **choices):
        """Walk to step 3."""
        assert self.ask("POST", "/grid", {"name": grid}).status == 303
        given = {"hide": "0", "epsilon": "1", "lineage": grid, "then": "next", **choices}
        return self.ask("POST", "/hide", given)

    def spent(self, lineage="ieee30"):
        """ε that the ledger says was charged."""
        try:
            return sum(one.epsilon for one in Ledger(self.studio.ledger, create=False).entries())
        except Exception:
            return 0

    def until(self, name, limit_s=90):
        """Wait until a release has ended."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            job = self.studio.jobs.get(name)
            if job is not None and (ended := job.ended()) is not None:
                return ended
            time.sleep(0.1)
        raise AssertionError("it did not end")

    def stopped(self, name, limit_s=60):
        """Wait until a release's process was stopped by $GRIDVEIL_FAULT, and name it."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            place = self.studio.jobs.get(name)
            if place is not None and (place.folder / PID).exists():
                number = int((place.folder / PID).read_text())
                if Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                    return number
            time.sleep(0.05)
        raise AssertionError("it was not stopped")


def multipart(fields, files):
    """The body of a form: fields by name, a list for several, and (field, name, content)."""
    mark, parts = "gridveil-test-boundary", []
    for name, value in fields.items():
        for one in value if isinstance(value, list) else [value]:
            head = f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
            parts.append(f"{head}{one}\r\n".encode())
    for name, file, content in files:
        head = f'--{mark}\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"\r\n'
        parts.append(f"{head}Content-Type: application/octet-stream\r\n\r\n".encode())
        parts += [content, b"\r\n"]
    return b"".join([*parts, f"--{mark}--\r\n".encode()]), f"multipart/form-data; boundary={mark}"


@contextmanager
def serving(studio, limit=UPLOAD_BYTES):
    """Answer for a studio in a thread, until the block ends; it is not closed then."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    links = []
    keys = Keys(f"127.0.0.1:{listening.getsockname()[1]}", links.append)
    server = server_of(create_app(studio, keys, limit))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Running(studio, keys, links)
    finally:
        studio.closing = True
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture
def studio_of(tmp_path):
    """Make studios with a home, a ledger and a folder for bundles of the test's own."""
    made = []

    def of(**more):
        studio = Studio(
            tmp_path / "out", home=tmp_path / "home", ledger=str(tmp_path / "ledger.sqlite"), **more
        )
        made.append(studio)
        return studio

    yield of
    for studio in made:
        studio.close()


@pytest.fixture
def running(studio_of):
    """A studio that answers."""
    with serving(studio_of()) as one:
        yield one


def go_on(process):
    """Let a stopped process go on."""
    os.kill(process, signal.SIGCONT)


def events(text):
    """The data of server-sent events."""
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
