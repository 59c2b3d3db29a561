"""The command line: `gridveil demo | cases | inspect | plan | leakage | release | verify | simulate
| export | …`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from signal import SIGINT
from typing import Annotated, Any, NoReturn

import typer

from gridveil.cli import (
    assurance,
    bundles,
    grids,
    keys,
    leakage,
    ledger,
    owner,
    plan,
    record,
    release,
    research,
    start,
    studio,
    withdraw,
)
from gridveil.cli.options import HeadedCommand, ReleaseCommand
from gridveil.cli.output import (
    exit_code,
    fail,
    fail_unexpectedly,
    outcome_words,
    own_streams,
    print_json,
    print_text,
)
from gridveil.foundation.errors import GridveilError
from gridveil.foundation.interrupts import Ended, raised, signal_of
from gridveil.foundation.shown import shown

app = typer.Typer(
    help="Publish a dynamic model of a power grid without publishing the grid.",
    epilog="Start with: gridveil demo",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from gridveil.foundation.version import __version__

        print_text(f"gridveil {__version__}")
        raise typer.Exit


@app.callback()
def general(
    debug: Annotated[
        bool,
        typer.Option("--debug", help="on an error, list the places it came through; never a value"),
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="print the version", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Options of every command."""
    # Read by main, which also sees errors that come before this is called.
    del debug, version


for name, command in {
    "demo": grids.demo,
    "cases": grids.cases,
    "inspect": grids.inspect,
    "start": start.start,
    "plan": plan.plan,
    "leakage": leakage.leakage,
}.items():
    app.command(name, cls=HeadedCommand)(command)
app.add_typer(record.app, name="record")
app.command("release", cls=ReleaseCommand)(release.release)
app.command("studio")(studio.studio)
app.command("verify")(bundles.verify)
app.command("simulate")(bundles.simulate)
app.command("export")(bundles.export)
app.command("withdraw")(withdraw.withdraw)
app.add_typer(ledger.app, name="ledger")
app.add_typer(keys.app, name="keys")
app.command("audit")(assurance.audit)
app.command("attack", cls=HeadedCommand)(owner.attack)
app.command("signoff", cls=HeadedCommand)(owner.signoff)
app.command("paper")(research.paper)
app.command("ensemble")(research.ensemble)


# typer brings click along, under a name that changes with its version.
_UsageError: Any = typer.BadParameter.__mro__[1]


def main() -> None:
    """Run the command line: exit code 2 for a user's mistake, 1 for a bundle that does not verify;
    docs/commands.md has all.
    """
    _end_with(sys.exit)


def program() -> None:
    """Run the command line as a program of its own, which ends at once: a signal on the way out
    would deny what was done.
    """
    _end_with(os._exit)


def _end_with(leave: Callable[[int], NoReturn]) -> None:
    as_json, debug = "--json" in sys.argv, "--debug" in sys.argv
    with own_streams() as out, raised():
        try:
            code = _run(as_json, debug)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except (Ended, KeyboardInterrupt) as interrupt:
            number = signal_of(interrupt)
            how = "interrupted" if number == SIGINT else f"ended by {number.name}"
            sys.stderr.write(f"gridveil: {how}.{outcome_words()}\n")
            # At once: a progress bar's thread may hold stderr, on which Python's own way out would
            # abort.
            os._exit(exit_code(128 + number, out))
        leave(exit_code(code, out))


def _nearest(error: Any, near: Sequence[str]) -> str:
    """The option that was meant: one that begins like it, before one that looks like it."""
    wanted = getattr(error, "option_name", None) or ""
    known = [name for option in error.ctx.command.params for name in option.opts] if wanted else []
    begun = [name for name in known if wanted and name.startswith(wanted)]
    return (begun or list(near))[0]


def _run(as_json: bool, debug: bool) -> int:
    """Run a command and return its exit code."""
    try:
        return app(standalone_mode=False) or 0
    except _UsageError as error:  # an option that typer cannot read
        if (
            error.ctx and error.message == error.ctx.get_help()
        ):  # it was called with nothing, and says what it takes
            sys.stderr.write(f"{error.message}\n")
            return 2
        if nearest := getattr(error, "possibilities", None):
            error.message += f". Did you mean {_nearest(error, nearest)}?"
            error.possibilities = None
        error.message = shown(error.message)
        error.show()
        if as_json:
            print_json(
                {
                    "error": "The command line cannot be read: see stderr.",
                    "outcome": "Nothing was done.",
                    "remedy": "--help",
                }
            )
        return 2
    except typer.Abort:
        sys.stderr.write("gridveil: called off.\n")
        return 1
    except GridveilError as error:
        fail(error, as_json, debug)
    except Exception as error:
        fail_unexpectedly(error, debug)
