"""What the command line prints, results to stdout, progress and errors to stderr; and how it ends.

A reader that went away (`| head -1`) is no error and changes no exit code. Where stdout is closed
or full, what a command left behind is said on stderr; one that left nothing but its text ends with
74.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from shlex import quote
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from gridveil.cli.terms import explained
from gridveil.foundation.errors import NOTHING_SPENT, GridveilError, OptionError
from gridveil.foundation.sealed import places_of
from gridveil.foundation.shown import json_text, shown

if TYPE_CHECKING:
    from fractions import Fraction

    from gridveil.inference.fit.guard import Verdict
    from gridveil.privacy.guarantee import Guarantee

TEXT_LOST = 74  # EX_IOERR of sysexits.h
# Above this, next to nothing is hidden.
LARGE_EPSILON = 10
# Between two lines of progress off a terminal [s].
BETWEEN_LINES_S = 4.0


# How text goes to a screen that lacks its signs.
SPELT = "gridveil-spelt"


def _spelt(error: UnicodeError) -> tuple[str, int]:
    """Spell a sign that a screen does not have: ε as epsilon, what has no plain name as ?."""
    assert isinstance(error, UnicodeEncodeError), "raised by an encoder"
    words = unicodedata.name(error.object[error.start], "?").split()
    plain = {"GREEK": words[-1].lower(), "MINUS": "-"}.get(words[0], "?")
    return plain, error.start + 1


codecs.register_error(SPELT, _spelt)


class Outlet:
    """A stream that falls silent, and remembers why, where writing fails: what a command did stands
    all the same.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = Path(os.devnull).open("w", encoding="utf-8") if stream is None else stream  # noqa: SIM115
        self._closed = stream is None
        self.lost: str | None = None
        self.left = False

    def write(self, text: str) -> int:
        """Write, or drop what nobody can read."""
        if not isinstance(text, str):
            raise TypeError("text only")  # which is how typer finds out
        if text and self._closed:
            self.lost = "it is closed"
        elif self.lost is None:
            self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write what is still held back."""
        if self.lost is None:
            self._try(self._stream.flush)

    def _try(self, write: Any) -> None:
        try:
            write()
        except (OSError, ValueError) as error:  # ValueError: somebody closed it
            self.left = isinstance(error, OSError) and error.errno == errno.EPIPE
            self.lost = (isinstance(error, OSError) and error.strerror) or "it is closed"
            # Python would try again on its way out, and complain.
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Result:
    """What the command at work has left behind, in a sentence; done : all that it was asked for."""

    words = ""
    done = False
    told = False


_result = _Result()


def note_outcome(words: str, *, done: bool = False) -> None:
    """Note what stands, however the command may end from here on.

    done : nothing is missing but its text.
    """
    _result.words, _result.done, _result.told = words, done, False


def outcome_words() -> str:
    """What stands, to be said now: a blank and a sentence, or nothing."""
    _result.told = True
    return f" {shown(_result.words)}" if _result.words else ""


@contextmanager
def own_streams() -> Iterator[Outlet]:
    """Let a command write to streams that never fail; gives stdout."""
    for number in range(3):
        try:
            os.fstat(number)
        except (
            OSError
        ):  # closed: the next file that is opened, a ledger perhaps, would be taken for stdout
            os.open(os.devnull, os.O_RDWR)
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        if isinstance(
            stream, TextIOWrapper
        ):  # a screen without ε must not break off a release that was drawn
            stream.reconfigure(errors=SPELT)
    out: Any = Outlet(sys.stdout)
    err: Any = Outlet(sys.stderr)
    note_outcome("")
    sys.stdin = sys.stdin or Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    sys.stdout, sys.stderr = out, err
    try:
        yield out
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def exit_code(code: int, out: Outlet) -> int:
    """Flush, say what stands if the command did not get to say it, and return the exit code that
    follows from it.
    """
    sys.stdout.flush()
    lost = f"stdout could not be written ({out.lost})" if out.lost and not out.left else ""
    if _result.done and not _result.told and (code or out.lost):
        sys.stderr.write(f"gridveil:{f' {lost}.' if lost else ''}{outcome_words()}\n")
    elif lost and not code:
        sys.stderr.write(f"gridveil: {lost}: what this command printed is lost.\n")
    sys.stderr.flush()
    if _result.done:
        return 0
    return TEXT_LOST if lost and not code else code


def print_json(data: Any) -> None:
    """Print one JSON document, in ASCII where stdout is not in UTF-8."""
    text = json_text(data)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if text.encode(encoding, "replace") != text.encode():
        text = json.dumps(data, indent=2)
    sys.stdout.write(f"{text}\n")


def print_text(*lines: str, err: bool = False) -> None:
    """Print lines, wrapped to the terminal; err : on stderr.

    A line end within one is escaped: a value cannot begin a line of its own.
    """
    from rich.console import Console

    wraps = (sys.stderr if err else sys.stdout).isatty()
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=not wraps, stderr=err)
    console.print("\n".join(map(shown, lines)))


def print_command(label: str, *words: object) -> None:
    """Print a command that runs as printed: quoted for a shell, in one line however narrow the
    terminal is.

    words : its parts; one in capitals stands for what the user fills in.
    """
    command = " ".join(quote(shown(word)) for word in words)
    sys.stdout.write(f"{label:<9}{command}\n")


def print_line(label: str, line: str) -> None:
    """Print a line of a shell as it is, never wrapped."""
    sys.stdout.write(f"{label:<9}{shown(line)}\n")


def at_a_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(warning: str, *, yes: bool, outcome: str) -> None:
    """Say what is at stake and ask; off a terminal only --yes goes on.

    outcome : what did not happen if the answer is no.
    """
    if yes:
        return
    if not at_a_terminal():
        raise OptionError(
            warning, outcome=outcome, remedy="If that is meant, say so: give --yes as well."
        )
    import typer

    print_notice(warning)
    if not typer.confirm("Go on?", default=False, err=True):
        raise OptionError("It was called off.", outcome=outcome, remedy="Nothing is left to do.")


def check_large(epsilon: Fraction, *, yes: bool) -> None:
    """Ask before an ε that hides next to nothing is spent."""
    if epsilon > LARGE_EPSILON:
        confirm(
            f"ε = {float(epsilon):g} is above {LARGE_EPSILON}: an observer's odds may change by "
            f"e^{float(epsilon):g}, which hides next to nothing.",
            yes=yes,
            outcome=NOTHING_SPENT,
        )


def print_notice(text: str) -> None:
    """Say something before the work starts, on stderr: it belongs to no result."""
    print_text(f"gridveil: {text}", err=True)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str | Sequence[str]]],
    *,
    texts: int = 1,
    err: bool = False,
) -> None:
    """Print a table; the first columns are texts, the others line up on the right. Where a cell's
    words would not fit the terminal it is printed row by row, a line a cell.

    A cell is a line, or a list of lines.
    err : on stderr, before the work starts.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        table.add_column(shown(column), justify="left" if number < texts else "right")
    for row in rows:
        table.add_row(
            *("\n".join(map(shown, [cell] if isinstance(cell, str) else cell)) for cell in row)
        )
    width = None if (sys.stderr if err else sys.stdout).isatty() else 160
    console = Console(highlight=False, markup=False, emoji=False, width=width, stderr=err)
    with console.capture() as captured:
        console.print(table)
    cells = "".join(map(str, (columns, rows)))
    if captured.get().count("…") <= cells.count("…"):  # nothing was cut off
        print_text(title, err=err)
        console.print(table)
    else:
        print_text(*_row_by_row(title, columns, rows), err=err)


def _row_by_row(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Sequence[str]]]
) -> list[str]:
    """Lay out a table that is too wide row by row, a line a cell."""
    widest = max(map(len, columns))
    lines = [title]
    for row in rows:
        lines.append("")
        for column, cell in zip(columns, row, strict=True):
            for number, line in enumerate([cell] if isinstance(cell, str) else cell):
                head = column if number == 0 else ""
                lines += [f"  {head:<{widest}}  {line}"] if line else []
    return [*lines, ""]


def verdict_in_words(verdict: Verdict, title: str) -> list[str]:
    """What the guard says of a fit, a reason a line."""
    return [
        f"{title}{verdict.in_words()}",
        *(f"{' ' * len(title)}- {reason}" for reason in verdict.reasons),
    ]


def print_guarantee(guarantee: Guarantee, clipped: dict[str, int] | None) -> None:
    """Print what a release promises; clipped : None before it is drawn."""
    drawn = clipped is not None
    print_table(
        f"{'DEMO: ' if guarantee.demo else ''}ε = {guarantee.epsilon}, adjacency {guarantee.rule}",
        ("group", "drawn", "α", "ε of the group", "noise scale", *["on a bound"] * drawn),
        [
            _group_row(name, guarantee, clipped or {})[: 5 + drawn]
            for name in (guarantee.parameters if clipped is None else clipped)
        ],
        texts=2,
    )
    print_text(explained("ε", "adjacency", "α", "scale"))
    print_text(guarantee.in_words())
    print_text("Conditional on: " + ("; ".join(guarantee.conditional_on) or "nothing"), "")


def _group_row(name: str, guarantee: Guarantee, clipped: dict[str, int]) -> tuple[str, ...]:
    loss = guarantee.groups.get(name)
    if loss is None:
        drawn = "published as it is" if name in guarantee.published else "nothing"
        return name, drawn, "", "0", "", ""
    return (
        name,
        loss.mechanism.whole,
        loss.alpha_in_words,
        str(loss.epsilon),
        loss.scale_in_words,
        str(clipped.get(name, 0)),
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
        "published": list(guarantee.published),
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


class Bar:
    """The one bar: names what is being done, and moves on with it. It is drawn at the first report,
    and again at the first after a `stop`.
    """

    def __init__(self) -> None:
        self._shown: Any = None
        self._task: Any = None

    def __call__(self, stage: str, done: int | None, total: int | None) -> None:
        """Show what is being done, and how much of it is done."""
        if self._shown is None:
            self._shown = self._begun(stage)
        self._shown.update(self._task, description=shown(stage), completed=done, total=total)

    def _begun(self, stage: str) -> Any:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = bar.add_task(shown(stage), total=None)
        bar.start()
        return bar

    def stop(self) -> None:
        """Take it away: something is said or asked."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None


class Lines(Bar):
    """Progress off a terminal: a plain line now and then, none of what is quick."""

    def __init__(self) -> None:
        super().__init__()
        self._said_s = monotonic()

    def __call__(self, stage: str, done: int | None, total: int | None) -> None:
        """Say what is being done, where the last line is long ago."""
        if monotonic() - self._said_s < BETWEEN_LINES_S:
            return
        self._said_s = monotonic()
        print_notice(f"{stage} ({done} of {total})" if done is not None and total else stage)


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Bar]:
    """Show progress of this block as a bar, or as plain lines off a terminal."""
    if quiet:
        yield Bar()
        return
    bar = Bar() if sys.stderr.isatty() else Lines()
    from gridveil.foundation.progress import told_to

    try:
        with told_to(bar):
            yield bar
    finally:
        bar.stop()


def fail(error: GridveilError, as_json: bool, debug: bool) -> NoReturn:
    """Print a user's error and leave with its exit code."""
    if debug:
        _list_places(error)
    if as_json:
        words = {"error": error.problem, "outcome": error.outcome, "remedy": error.remedy}
        print_json(words | dict(error.details))
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
