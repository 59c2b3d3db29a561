"""What the command line prints: results to stdout, progress and errors to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gridveil.cli.ends import outcome_words
from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.foundation.sealed import places_of
from gridveil.foundation.shown import json_text, shown

if TYPE_CHECKING:
    from gridveil.inference.fit.methods import Progress
    from gridveil.privacy.guarantee import Guarantee


FIGURES = (".png", ".pdf", ".svg")


def print_json(data: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(json_text(data) + "\n")


def print_text(*lines: str) -> None:
    """Print lines, wrapped to the terminal.

    A line end within one is escaped: a value cannot begin a line of its own.
    """
    from rich.console import Console

    text = "\n".join(map(shown, lines))
    Console(highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty()).print(
        text
    )


def print_notice(text: str) -> None:
    """Say something before the work starts, on stderr: it belongs to no result."""
    sys.stderr.write(f"gridveil: {shown(text)}\n")


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str | Sequence[str]]],
    *,
    texts: int = 1,
) -> None:
    """Print a table; the first columns are texts, the others line up on the right.

    A cell is a line, or a list of lines.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=shown(title), title_justify="left", box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        table.add_column(shown(column), justify="left" if number < texts else "right")
    for row in rows:
        table.add_row(
            *("\n".join(map(shown, [cell] if isinstance(cell, str) else cell)) for cell in row)
        )
    width = None if sys.stdout.isatty() else 160
    Console(highlight=False, markup=False, emoji=False, width=width).print(table)


def print_guarantee(guarantee: Guarantee, clipped: dict[str, int]) -> None:
    """Print what a release promises."""
    print_table(
        f"{'DEMO: ' if guarantee.demo else ''}ε = {guarantee.epsilon}, adjacency {guarantee.rule}",
        ("group", "drawn", "α", "ε of the group", "noise scale", "on a bound"),
        [_group_row(name, guarantee, clipped) for name in clipped],
        texts=2,
    )
    print_text(guarantee.in_words())
    print_text("Conditional on: " + ("; ".join(guarantee.conditional_on) or "nothing"), "")


def _group_row(name: str, guarantee: Guarantee, clipped: dict[str, int]) -> tuple[str, ...]:
    loss = guarantee.groups.get(name)
    if loss is None:
        return name, "nothing", "", "0", "", ""
    return (
        name,
        loss.mechanism.whole,
        loss.alpha_in_words,
        str(loss.epsilon),
        loss.scale_in_words,
        str(clipped[name]),
    )


def guarantee_json(guarantee: Guarantee) -> dict[str, Any]:
    """Turn a guarantee into JSON's types."""
    return {
        "epsilon": str(guarantee.epsilon),
        "adjacency": guarantee.rule,
        "conditional_on": list(guarantee.conditional_on),
        "mechanism": guarantee.mechanism,
        "in_words": guarantee.in_words(),
        "hides_network": guarantee.hides_network,
        "groups": {
            name: {
                "unit": loss.unit,
                "alpha": str(loss.alpha),
                "epsilon": str(loss.epsilon),
                "spent": loss.spent,
                "scale": loss.scale,
                "drawn": loss.drawn,
                "relative": loss.relative,
            }
            for name, loss in guarantee.groups.items()
        },
    }


@contextmanager
def fit_progress(quiet: bool) -> Iterator[Progress | None]:
    """Show a bar with the mismatch J while a fit runs."""
    if quiet or not sys.stderr.isatty():  # even an empty bar would leave a blank line in a log
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("fitting"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("J = {task.fields[J]:.3e} p.u.² s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("fit", total=None, J=float("nan"))
        yield lambda iteration, limit, J: bar.update(task, completed=iteration, total=limit, J=J)


@contextmanager
def counted(words: str, total: int, quiet: bool) -> Iterator[Callable[..., None] | None]:
    """Show a bar over work of a known size.

    What it yields takes how much more was done, 1 unless told.
    """
    if quiet or not sys.stderr.isatty():  # even an empty bar would leave a blank line in a log
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(words), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=total)
        yield lambda done=1: bar.advance(task, done)


@contextmanager
def stage_progress(stages: Sequence[str], quiet: bool) -> Iterator[None]:
    """Show a bar that names the stage that long work has come to; nothing where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from gridveil.foundation.progress import told_to

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(stages[0], total=len(stages))

        def begin(name: str) -> None:
            bar.update(
                task, description=name, completed=stages.index(name) if name in stages else None
            )

        with told_to(begin):
            yield


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
def writing(path: Path, option: str) -> Iterator[None]:
    """Write a file, never into a bundle; turn a failure into a clear error."""
    _check_no_bundle(path, option)
    with _failures_told(path, option):
        if (
            path.is_file() and path.stat().st_nlink > 1
        ):  # a bundle may hold the same file under another name
            path.resolve().unlink()
        yield


def _check_no_bundle(path: Path, option: str) -> None:
    from gridveil.foundation.archive import check_outside_bundles
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


def fail(error: GridveilError, as_json: bool, debug: bool) -> NoReturn:
    """Print a user's error and leave with its exit code."""
    if debug:
        _list_places(error)
    if as_json:
        print_json({"error": error.problem, "outcome": error.outcome, "remedy": error.remedy})
    sys.stderr.write(f"gridveil: {error}\n")
    sys.exit(error.exit_code)


def fail_unexpectedly(error: Exception, debug: bool) -> NoReturn:
    """Print where a bug struck, without the exception's own words: they might hold a private
    value.
    """
    if debug:
        _list_places(error)
    places = (place.rpartition(" ") for place in reversed(places_of(error)[-4:]))
    where = " < ".join(f"{name} ({at.rpartition(':')[2]})" for at, _, name in places)
    sys.stderr.write(
        f"gridveil: internal error, {type(error).__name__} in {where}. Please report it with the "
        f"command you ran.{outcome_words()}\n"
    )
    sys.exit(70)


def _list_places(error: Exception) -> None:
    """List the places that an error came through, innermost last: modules, functions and lines, no
    source and no values.
    """
    for place in places_of(error):
        sys.stderr.write(f"  {shown(place)}\n")
