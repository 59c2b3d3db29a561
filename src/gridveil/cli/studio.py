"""The command that opens the studio: studio."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from gridveil.foundation.errors import OptionError
from gridveil.foundation.shown import shown

# The extra `studio`.
NEEDED = ("jinja2", "python_multipart", "starlette", "uvicorn")


def studio(
    out: Annotated[Path, typer.Option(help="folder for the bundles that are released")] = Path(
        "releases"
    ),
    demo: Annotated[
        bool,
        typer.Option(
            "--demo",
            help="ready to click through: seeded, nothing charged, all of it deleted at exit",
        ),
    ] = False,
    port: Annotated[
        int, typer.Option(help="port on this machine; 0: any that is free", max=65535, min=0)
    ] = 0,
    browser: Annotated[bool, typer.Option(help="open it in the browser")] = True,
) -> None:
    """Open a page on this machine that leads to a release, step by step, and through a bundle.

    Nothing is charged before the last yes of step 3. It answers this machine's browser alone.
    """
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise OptionError(
            f"The studio needs packages that are not installed: {', '.join(missing)}.",
            outcome="Nothing was started.",
            remedy="Install them with: pip install 'gridveil[studio]'",
        )
    if find_spec("fcntl") is None:
        raise OptionError(
            "The studio needs POSIX file locks, which this system does not have.",
            outcome="Nothing was started.",
            remedy="Start it on Linux, macOS or WSL. A recipient's commands work everywhere.",
        )
    from gridveil.studio.serve import serve

    serve(out, port=port, demo=demo, browse=browser, say=_say)


def _say(words: str) -> None:
    """One line, however long: a link that is broken opens nothing."""
    sys.stdout.write(f"{shown(words)}\n")
    sys.stdout.flush()
