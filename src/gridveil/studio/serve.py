"""Run the studio: on this machine's own address alone, until it is stopped."""

from __future__ import annotations

import os
import re
import shutil
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import uvicorn

from gridveil.foundation.errors import GridveilError
from gridveil.foundation.interrupts import Ended
from gridveil.studio.app import create_app
from gridveil.studio.guard import Keys
from gridveil.studio.state import FOLDER, Studio

OWNER = "owner"  # names the process that an uploads folder belongs to


def serve(
    out: Path,
    *,
    port: int = 0,
    demo: bool = False,
    browse: bool = True,
    say: Callable[[str], object],
) -> None:
    """Serve until a signal comes; uploads are then deleted, and a release that runs is called off.

    port : 0: any that is free.
    say : takes what a user should read, links among it.
    """
    _sweep()
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen()  # a browser may follow the link before the server takes it up
    except OSError as error:
        listening.close()
        raise GridveilError(
            f"Port {port} of this machine cannot be used ({error.strerror}).",
            outcome="Nothing was started.",
            remedy="Name another with --port, or none.",
        ) from None
    studio = Studio(out, demo)
    (studio.uploads / OWNER).write_text(str(os.getpid()), encoding="utf-8")
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    keys = Keys(host, lambda link: say(f"To open it once more: {link}"))
    try:
        say(f"{'DEMO. ' if demo else ''}The studio is open at: {keys.link}")
        say("Stop it with Ctrl-C. Uploads are deleted then.")
        if browse:
            webbrowser.open(keys.link)
        server_of(create_app(studio, keys)).run(sockets=[listening])
    except (KeyboardInterrupt, Ended):
        pass
    finally:
        running = studio.jobs.running()
        studio.close()
        listening.close()
        if running is not None and (ended := running.ended()):
            say(f"A release was running: {ended.get('problem', '')} {ended['outcome']}")
        say("The studio is closed.")


def server_of(app: Any) -> uvicorn.Server:
    """A server that logs nothing: addresses and errors might hold what is private."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=2,
        )
    )


def _sweep() -> None:
    """Delete uploads of studios that were killed."""
    for folder in Path(gettempdir()).glob(f"{FOLDER}*"):
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            owner = (folder / OWNER).read_text(encoding="utf-8")
        except OSError:
            continue
        if re.fullmatch("[0-9]+", owner) and not _lives(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
