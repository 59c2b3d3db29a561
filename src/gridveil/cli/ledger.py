"""The ledger's commands: register, budget, show, verify, export."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.output import print_json, print_notice, print_table, print_text, writing
from gridveil.cli.reading import GridReading, reads_grid
from gridveil.errors import OptionError
from gridveil.shown import json_text

if TYPE_CHECKING:
    from gridveil.privacy.ledger import Account, Ledger

app = typer.Typer(help="What was spent on which grid: accounts, budgets, checks.", no_args_is_help=True, rich_markup_mode=None)

Lineage = Annotated[str, typer.Argument(help="name of a grid and all its versions", show_default=False)]


@app.command()
@reads_grid
def register(
    lineage: Lineage,
    grid: Annotated[str | None, typer.Argument(help="the grid, so that it is known again", show_default=False)] = None,
    *,
    reading: GridReading,
    ledger: options.LedgerPlace = None,
    json: options.Json = False,
) -> None:
    """Open an account for a grid: its other formats, seasons and edited copies belong to it."""
    book = _open(ledger, create=True)
    version = None
    if grid is not None:
        from gridveil.vault.mechanism import version_of

        version = version_of(reading.open(grid), book)
    book.register(lineage, version)
    if json:
        print_json({"registered": lineage})
        return
    print_text(f"Registered {lineage}. Next: gridveil ledger budget {lineage} --epsilon …")


@app.command()
def budget(
    lineage: Lineage,
    epsilon: Annotated[str, typer.Option(help="total privacy loss that may be spent, exact: 2 or 3/2", show_default=False)],
    adjacency: options.AdjacencyName = None,
    alpha_k: options.AlphaK = None,
    alpha_m: options.AlphaM = None,
    alpha_d: options.AlphaD = None,
    ledger: options.LedgerPlace = None,
    json: options.Json = False,
) -> None:
    """Give a lineage its budget, or raise it. Adjacency and α are fixed by the first one, for ever."""
    from gridveil.privacy.epsilon import exact

    alpha = options.given_alpha({"alpha_k": alpha_k, "alpha_m": alpha_m, "alpha_d": alpha_d})
    book = _open(ledger)
    _check_known(lineage, book)
    chosen = options.adjacency_over(book.accounts()[lineage].adjacency, adjacency, alpha)
    book.set_budget(lineage, chosen, exact(epsilon))
    account = book.accounts()[lineage]
    if json:
        print_json(_account_json(account))
        return
    print_text(f"The budget of {lineage} is ε = {account.epsilon} under {chosen.rule}; {_number(account.left)} is left.")


@app.command()
def show(ledger: options.LedgerPlace = None, json: options.Json = False) -> None:
    """Show every account: its budget, what was spent, what is left, and each draw."""
    book = _open(ledger)
    for problem in book.verify():
        print_notice(f"this ledger does not verify: {problem}.")
    accounts = list(book.accounts().values())
    if json:
        print_json({"ledger": book.location, "accounts": [_account_json(account) for account in accounts]})
        return
    print_table(
        f"{book.location}: accounts",
        ("lineage", "versions", "adjacency", "budget ε", "spent", "left", "draws"),
        [
            (
                account.lineage,
                str(account.versions),
                account.adjacency.rule if account.adjacency else "none yet",
                str(account.epsilon),
                _number(account.spent),
                _number(account.left),
                str(len(account.entries)),
            )
            for account in accounts
        ],
    )
    print_table(
        "draws",
        ("row", "lineage", "ε", "state", "bundle"),
        [
            (str(entry.number), entry.lineage, str(entry.epsilon), entry.state, (entry.digest or "")[:16])
            for entry in book.entries()
        ],
    )


@app.command()
def verify(
    head: Annotated[
        Path | None,
        typer.Option(help="an earlier head, or a certificate.json that holds one; default: the one kept", show_default=False),
    ] = None,
    ledger: options.LedgerPlace = None,
    json: options.Json = False,
) -> None:
    """Check every row against the chain and the head. Exit code 1 if a row was changed, dropped, swapped, inserted or lost."""
    from gridveil.privacy.ledger.chain import read_head

    book = _open(ledger)
    problems = book.verify(read_head(head) if head else None)
    rows = len(book.export())
    if json:
        print_json({"ok": not problems, "ledger": book.location, "rows": rows, "problems": problems})
    elif problems:
        print_text(f"{book.location}: {'; '.join(problems)}.")
    else:
        print_text(f"{book.location}: {rows} rows, all as they were written.")
    if problems:
        raise typer.Exit(1)


@app.command()
def export(
    out: Annotated[Path | None, typer.Option(help="file to write; default: print", show_default=False)] = None,
    ledger: options.LedgerPlace = None,
    json: options.Json = False,
) -> None:
    """Write all rows and the signed head as JSON, for an auditor. No key and no value of a grid is in it."""
    book = _open(ledger)
    document = {"ledger": book.location, "head": asdict(book.head()), "rows": book.export()}
    if out is None:
        print_json(document)
        return
    with writing(out, "--out"):
        out.write_text(json_text(document) + "\n", encoding="utf-8")
    if json:
        print_json({"written": str(out), "rows": len(document["rows"])})
    else:
        print_text(f"Wrote {len(document['rows'])} rows to {out}.")


def _open(location: str | None, *, create: bool = False) -> Ledger:
    from gridveil.privacy.ledger import Ledger, default_location

    return Ledger(location or default_location(), create=create)


def _check_known(lineage: str, book: Ledger) -> None:
    from difflib import get_close_matches

    known = book.accounts()
    if lineage not in known:
        close = get_close_matches(lineage, known, n=1)
        raise OptionError(
            f"The lineage {lineage!r} is not registered.",
            outcome="Nothing was changed.",
            remedy=(f"Did you mean {close[0]}? " if close else "") + f"Register it: gridveil ledger register {lineage} GRID.",
        )


def _account_json(account: Account) -> dict[str, Any]:
    from gridveil.privacy.epsilon import float_at_least, float_at_most

    return {
        "lineage": account.lineage,
        "versions": account.versions,
        "adjacency": account.adjacency.rule if account.adjacency else None,
        "alpha": {name: str(alpha) for name, alpha in account.adjacency.alpha.items()} if account.adjacency else None,
        "epsilon": str(account.epsilon),
        "spent": float_at_least(account.spent),
        "left": float_at_most(account.left),
        "groups": {name: float_at_least(total) for name, total in account.totals.items()},
        "draws": [
            {"row": entry.number, "epsilon": str(entry.epsilon), "state": entry.state, "digest": entry.digest}
            for entry in account.entries
        ],
    }


def _number(value: Any) -> str:
    return f"{float(value):.6g}" if value > 1e-12 else "0"  # what rounding down to floats left over
