"""The ledger's commands: register, budget, show, verify, adopt, export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.options import GridReading, reads_grid
from gridveil.cli.output import (
    print_command,
    print_json,
    print_notice,
    print_table,
    print_text,
)
from gridveil.cli.terms import explained
from gridveil.foundation.errors import LedgerError, OptionError
from gridveil.foundation.shown import json_file

if TYPE_CHECKING:
    from gridveil.privacy.ledger import Account, Entry, Ledger
    from gridveil.privacy.ledger.chain import Head

app = typer.Typer(
    help="What was spent on which grid: accounts, budgets, checks.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SHOWN = 50  # rows of a table, the latest ones

Heads = Annotated[
    list[Path] | None,
    options.option(
        "an earlier head, or a certificate.json that holds one, to check besides; may be repeated",
        "--head",
    ),
]
Lineage = Annotated[str, options.argument("name of a grid and all its versions")]


@app.command()
@reads_grid
def register(
    lineage: Lineage,
    grid: Annotated[str | None, options.argument("the grid, so that it is known again")] = None,
    *,
    reading: GridReading,
    ledger: options.LedgerPlace = None,
    witness: options.WitnessPlace = None,
    json: options.Json = False,
) -> None:
    """Open an account for a grid: its other formats, seasons and edited copies belong to it."""
    from gridveil.workflow.opening import register

    book = _open(ledger, witness, create=True)
    register(book, lineage, None if grid is None else reading.of(grid))
    if json:
        print_json({"registered": lineage})
        return
    print_text(f"Registered {lineage}.")
    print_command("Next", "gridveil", "ledger", "budget", lineage, "--epsilon", "EPSILON")


@app.command()
def budget(
    lineage: Lineage,
    epsilon: Annotated[
        str, options.option("total privacy loss that may be spent, exact: 2 or 3/2")
    ],
    adjacency: options.AdjacencyName = None,
    alpha: options.Alpha = None,
    ledger: options.LedgerPlace = None,
    witness: options.WitnessPlace = None,
    json: options.Json = False,
) -> None:
    """Give a lineage its budget, or raise it.

    Adjacency and what is published are fixed by the first one, for ever. α may grow: what was drawn
    before is then counted for the larger α, and the budget has to cover that too.
    """
    from gridveil.privacy.epsilon import exact
    from gridveil.workflow.settings import adjacency_over, alpha_of

    distances = alpha_of(options.joined(alpha))
    book = _open(ledger, witness)
    before = _known(lineage, book)
    chosen = adjacency_over(before.adjacency, adjacency, distances)
    book.set_budget(lineage, chosen, exact(epsilon))
    account = _known(lineage, book)
    if json:
        print_json(_account_json(account, book.versions().get(lineage, 0), book.entries(lineage)))
        return
    print_text(
        f"The budget of {lineage} is ε = {account.epsilon} under {chosen.rule}; "
        f"{_number(account.left)} is left."
    )
    if before.spent != account.spent:
        print_text(
            f"For the larger α, what was drawn before counts ε = {_number(account.spent)}; for the "
            f"smaller it counted {_number(before.spent)}, and later draws count no less there."
        )


@app.command()
def show(
    ledger: options.LedgerPlace = None,
    witness: options.WitnessPlace = None,
    json: options.Json = False,
) -> None:
    """Show every account: its budget, what was spent, what is left, and each draw."""
    book = _open(ledger, witness)
    for problem in book.verify():
        print_notice(f"this ledger does not verify: {problem}.")
    draws, accounts, versions = book.entries(), list(book.accounts().values()), book.versions()
    if json:
        of: dict[str, list[Entry]] = {account.lineage: [] for account in accounts}
        for entry in draws:  # read before the accounts: each has one
            of[entry.lineage].append(entry)
        shown = [
            _account_json(one, versions.get(one.lineage, 0), of[one.lineage]) for one in accounts
        ]
        print_json({"ledger": book.location, "accounts": shown})
        return
    print_table(
        f"{book.location}: accounts{_latest(accounts)}",
        ("lineage", "versions", "adjacency", "budget ε", "spent", "left", "draws"),
        [
            (
                account.lineage,
                str(versions.get(account.lineage, 0)),
                account.adjacency.rule if account.adjacency else "none yet",
                str(account.epsilon),
                _number(account.spent),
                _number(account.left),
                str(account.draws),
            )
            for account in accounts[-SHOWN:]
        ],
    )
    print_text(explained("lineage", "adjacency", "ε"))
    print_table(
        f"draws{_latest(draws)}",
        ("row", "lineage", "ε", "state", "bundle"),
        [
            (
                str(entry.number),
                entry.lineage,
                str(entry.epsilon),
                entry.state,
                (entry.digest or "")[:16],
            )
            for entry in draws[-SHOWN:]
        ],
    )


@app.command()
def verify(
    head: Heads = None,
    ledger: options.LedgerPlace = None,
    witness: options.WitnessPlace = None,
    json: options.Json = False,
) -> None:
    """Check every row against the chain, the head and the witness.

    Exit code 1 if a row was changed, dropped or lost.
    """
    book = _open(ledger, witness)
    problems = book.verify(*_heads(head))
    rows, missing = len(book.export()), book.missing
    if json:
        print_json(
            {
                "ok": not problems,
                "ledger": book.location,
                "rows": rows,
                "problems": problems,
                "missing": missing,
            }
        )
    elif problems:
        print_text(f"{book.location}: {'; '.join(problems)}.")
    else:
        print_text(f"{book.location}: {rows} rows, all as they were written.")
        for name in missing:
            print_text(
                f"No {name} knows this ledger: lost rows at its end would not be noticed (gridveil "
                "ledger adopt)."
            )
    if problems:
        raise typer.Exit(1)


@app.command()
def adopt(
    head: Heads = None,
    ledger: options.LedgerPlace = None,
    witness: options.WitnessPlace = None,
    json: options.Json = False,
) -> None:
    """Take a ledger for whole whose head or witness is lost or new, as on a new machine; every row
    is checked first.

    Give the latest certificate with --head: nothing else tells whether rows were lost at the end.
    """
    book = _open(ledger, witness)
    missing, heads = book.missing, _heads(head)
    if missing or book.verify(*heads):
        book.adopt(*heads)
    rows = book.head().count
    if json:
        print_json({"adopted": book.location, "rows": rows, "missing": missing})
        return
    print_text(
        f"{book.location}: {rows} rows, all as they were written; head and witness know them now."
    )
    if not heads:
        print_text(
            "No certificate was compared: rows lost at the end would not be noticed. Give the "
            "latest one with --head."
        )


@app.command()
def export(
    out: Annotated[Path | None, options.option("file to write; default: print")] = None,
    ledger: options.LedgerPlace = None,
    witness: options.WitnessPlace = None,
    json: options.Json = False,
) -> None:
    """Write all rows and the signed head as JSON, for an auditor.

    No key and no value of a grid is in it.
    """
    book = _open(ledger, witness)
    rows = book.export()
    head = book.head_of(rows)
    for problem in book.verify(head):  # no head leaves that was not checked
        raise LedgerError(
            f"{book.location}: {problem}.",
            outcome="Nothing was exported.",
            remedy="See gridveil ledger verify and docs/ledger.md.",
        )
    document = {"ledger": book.location, "head": asdict(head), "rows": rows}
    if out is None:
        print_json(document)
        return
    from gridveil.workflow.places import writing

    with writing(out, "--out") as place:
        place.write_bytes(json_file(document))
    if json:
        print_json({"written": str(out), "rows": len(document["rows"])})
    else:
        print_text(f"Wrote {len(document['rows'])} rows to {out}.")


def _open(location: str | None, witness: str | None, *, create: bool = False) -> Ledger:
    from gridveil.privacy.ledger import Ledger, default_location

    return Ledger(location or default_location(), witness=witness, create=create)


def _heads(paths: list[Path] | None) -> list[Head]:
    from gridveil.privacy.ledger.chain import read_head

    return [read_head(path) for path in paths or ()]


def _latest(items: Sequence[Any]) -> str:
    return f" (the latest {SHOWN} of {len(items)}; --json has all)" if len(items) > SHOWN else ""


def _known(lineage: str, book: Ledger) -> Account:
    from difflib import get_close_matches

    account = book.account(lineage)
    if account is None:
        known = book.accounts()
        close = get_close_matches(lineage, known, n=1)
        raise OptionError(
            f"The lineage {lineage!r} is not registered.",
            outcome="Nothing was changed.",
            remedy=(f"Did you mean {close[0]}? " if close else "")
            + f"Register it: gridveil ledger register {quote(lineage)} GRID",
        )
    return account


def _account_json(account: Account, versions: int, draws: Sequence[Entry]) -> dict[str, Any]:
    from gridveil.privacy.epsilon import float_at_least, float_at_most

    return {
        "lineage": account.lineage,
        "versions": versions,
        "adjacency": account.adjacency.rule if account.adjacency else None,
        "alpha": {name: str(alpha) for name, alpha in account.adjacency.alpha.items()}
        if account.adjacency
        else None,
        "published": list(account.adjacency.published) if account.adjacency else None,
        "epsilon": str(account.epsilon),
        "spent": float_at_least(account.spent),
        "left": float_at_most(account.left),
        "groups": {name: float_at_least(total) for name, total in account.totals.items()},
        "draws": [
            {
                "row": entry.number,
                "epsilon": str(entry.epsilon),
                "state": entry.state,
                "digest": entry.digest,
            }
            for entry in draws
        ],
    }


def _number(value: Any) -> str:
    return f"{float(value):.6g}" if value > 1e-12 else "0"  # what rounding down to floats left over
