"""Where results other than bundles may be written: never into a bundle, by whatever link."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gridveil.foundation.archive import check_outside_bundles
from gridveil.foundation.errors import GridveilError, OptionError

FIGURES = (".png", ".pdf", ".svg")


def check_figure(path: Path) -> None:
    """Refuse a figure whose format cannot be drawn, or that has no place, before any work is done
    for it.
    """
    if path.suffix not in FIGURES:
        raise OptionError(
            f"--plot {path} is no figure that can be drawn.",
            expected=".png, .pdf or .svg at its end",
        )
    check_place(path, "--plot")


def check_place(path: Path, option: str) -> None:
    """Refuse a file that has no place, or whose place, links followed, is a bundle's, before any
    work is done for it.
    """
    _check_no_bundle(path, option)
    with _failures_told(path, option):
        taken, there = path.is_dir(), path.parent.is_dir()
    if taken or not there:
        why = "it is a folder" if taken else f"{path.parent} is no folder"
        raise OptionError(
            f"{path} could not be written: {why}.", remedy=f"Name another place with {option}."
        )


@contextmanager
def writing(path: Path, option: str) -> Iterator[Path]:
    """Write a file whole or not at all, never into a bundle; turn a failure into a clear error.

    Gives the place to write to, from which it is moved when it is whole.
    """
    _check_no_bundle(path, option)
    with _failures_told(path, option):
        if path.exists() and not path.is_file():  # /dev/stdout, say: nothing can be moved there
            yield path
            return
        place = path.resolve() if path.is_symlink() else path
        half = place.with_name(f".{place.stem}-{os.getpid()}{place.suffix}")
        try:
            yield half
            half.replace(place)  # a bundle may hold the old file under another name
        finally:
            half.unlink(missing_ok=True)


def _check_no_bundle(path: Path, option: str) -> None:
    from gridveil.publication.bundle import is_bundle

    check_outside_bundles(path)
    with _failures_told(path, option):
        is_file = path.is_file()
    if is_file and is_bundle(path):
        raise OptionError(
            f"{path} is a bundle, and would be lost.", remedy=f"Name another place with {option}."
        )


@contextmanager
def _failures_told(path: Path, option: str) -> Iterator[None]:
    """Turn a failure to write a file into a clear error."""
    try:
        yield
    except OSError as error:
        raise GridveilError(
            f"{path} could not be written ({error.strerror}).",
            outcome="Nothing else was changed.",
            remedy=f"Name another place with {option}.",
        ) from None
