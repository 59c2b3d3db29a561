"""The command line: `gridveil demo | cases | inspect | plan | leakage | release | verify | simulate | export | …`."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from gridveil.cli import assurance, attack, bundles, cases, export, grids, keys, leakage, ledger, plan, release, research
from gridveil.cli.output import fail, fail_unexpectedly, print_json, print_text
from gridveil.errors import GridveilError

app = typer.Typer(
    help="Publish a dynamic model of a power grid without publishing the grid.",
    epilog="Start with: gridveil demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from gridveil.version import __version__

        print_text(f"gridveil {__version__}")
        raise typer.Exit


@app.callback()
def general(
    debug: Annotated[bool, typer.Option("--debug", help="on an error, list the places it came through; never a value")] = False,
    version: Annotated[bool, typer.Option("--version", help="print the version", is_eager=True, callback=_version)] = False,
) -> None:
    """Options of every command."""
    # Read by main, which also sees errors that come before this is called.
    del debug, version


app.command("demo")(grids.demo)
app.command("cases")(cases.cases)
app.command("inspect")(grids.inspect)
app.command("plan")(plan.plan)
app.command("leakage")(leakage.leakage)
app.command("release")(release.release)
app.command("verify")(bundles.verify)
app.command("simulate")(bundles.simulate)
app.command("export")(export.export)
app.add_typer(ledger.app, name="ledger")
app.add_typer(keys.app, name="keys")
app.command("audit")(assurance.audit)
app.command("attack")(attack.attack)
app.command("paper")(research.paper)


def main() -> None:
    """Run the command line: exit code 2 for a user's mistake, 1 for a bundle that does not verify."""
    as_json, debug = "--json" in sys.argv, "--debug" in sys.argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a screen without ε must not break off a release that was drawn
            stream.reconfigure(errors="replace")
    try:
        app()
    except SystemExit as end:
        if end.code == 130:  # how typer passes Ctrl-C on
            _interrupted()
        if as_json and end.code == 2:  # typer has told stderr which option it cannot read
            print_json(
                {"error": "The command line cannot be read: see stderr.", "outcome": "Nothing was done.", "remedy": "--help"}
            )
        raise
    except GridveilError as error:
        fail(error, as_json, debug)
    except KeyboardInterrupt:
        _interrupted()
    except Exception as error:
        fail_unexpectedly(error, debug)


def _interrupted() -> NoReturn:
    sys.stderr.write("gridveil: interrupted.\n")
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: a progress bar's thread may hold stderr, on which Python's own way out would abort.
    os._exit(130)
