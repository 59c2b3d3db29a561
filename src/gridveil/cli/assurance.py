"""Commands that put the promise to the test: audit."""

from __future__ import annotations

from dataclasses import asdict, astuple
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.output import print_json, print_notice, print_table, print_text, progress_bar

if TYPE_CHECKING:
    from gridveil.assurance.audit import AuditRun, Finding, Fit


QUICK = (
    "This was the quick audit. It catches items (single values) without noise, with the noise of "
    "another, or drawn again at a bound; noise half as large as charged for; and a true value in a "
    "swing bundle. It cannot catch a scale that is a fifth off, sums drawn again at a bound, or "
    "faults of other adjacencies and of detailed bundles. Half a minute more: "
    "gridveil audit --thorough"
)


def audit(
    epsilon: Annotated[str, typer.Option(help="privacy loss to audit, exact: 1/2 or 0.5")] = "1",
    adjacency: Annotated[
        list[str] | None,
        options.option(
            "one-asset, one-item or one-per-group, or with -relative, or asset-l1-relative; may "
            "be repeated; default: one-asset, and one-asset-relative of detailed tables; "
            "thoroughly the first three and those of detailed tables, in full all"
        ),
    ] = None,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough", help="more adjacencies, bundles and canaries: about half a minute"
        ),
    ] = False,
    full: Annotated[
        bool,
        typer.Option("--full", help="everything, a million canaries each: some twenty minutes"),
    ] = False,
    canaries: Annotated[
        int | None,
        typer.Option(
            help="secrets to guess, for each adjacency; default: 10 000, thoroughly 30 000, in "
            "full a million",
            min=1000,
            show_default=False,
        ),
    ] = None,
    workers: options.Workers = None,
    keep: options.Keep = None,
    json: options.Json = False,
) -> None:
    """Attack releases of synthetic grids: lower bounds on epsilon, tests of the noise. Exit code 1
    if the claim falls.

    It reads no grid of yours and charges no ledger of yours. By default it takes some seconds, and
    catches gross faults: see docs/audit.md.
    """
    if not json:
        words = "some twenty minutes" if full else "half a minute" if thorough else "some seconds"
        print_notice(f"attacking releases of synthetic grids; about {words}")
    from gridveil.assurance.audit import Effort, audit_all, audited
    from gridveil.foundation.executors import crew_of
    from gridveil.privacy.epsilon import exact

    claimed = exact(epsilon)
    power = "full" if full else "thorough" if thorough else "quick"
    chosen = audited(adjacency, power)
    effort = Effort.of(canaries, power)
    crew, kept = crew_of(workers=workers, short=True), options.kept_in(keep)
    with progress_bar(quiet=json):
        found = audit_all(chosen, claimed, effort, crew=crew, kept=kept)
    passed = found.passed
    if json:
        print_json(
            {
                "passed": passed,
                "power": power,
                "epsilon": str(claimed),
                "findings": [_finding_json(row) for row in found.findings],
                "noise": [_fit_json(row) for row in found.fits],
                "failed": [asdict(one) for one in found.failed],
            }
        )
    else:
        _print(found)
        if passed and power == "quick":
            print_text(QUICK)
    if not passed:
        raise typer.Exit(1)


def _print(found: AuditRun) -> None:
    findings, fits = found.findings, found.fits
    print_table(
        "what the guesses prove: ε is above …",
        (
            "audited",
            "canaries",
            "guesses",
            "right",
            "ε charged",
            "95 % bound",
            "of ε",
            "99.99 % bound",
            "verdict",
        ),
        [
            (
                f"{row.subject}: {row.pattern}",
                f"{row.counts.canaries}",
                f"{row.counts.guesses}",
                f"{row.counts.correct}",
                f"{float(row.epsilon):.4f}",
                f"{row.lower_95:.4f}",
                f"{100 * row.lower_95 / float(row.epsilon):.1f} %",
                f"{row.lower_9999:.4f}",
                "stands" if row.passed else "FALLS",
            )
            for row in findings
        ],
    )
    print_text(
        "(canary: a secret planted in a synthetic grid and guessed from its release; a bound is "
        "what the right guesses prove of ε)",
        "",
    )
    print_table(
        "is the noise what was charged for: honest noise looks as odd as this with probability …",
        ("audited", "oddest", "values", "probability", "falls below", "verdict"),
        [
            (
                row.subject,
                row.pattern,
                f"{row.values}",
                f"{row.p_value:.2g}",
                f"{row.level:.2g}",
                "stands" if row.passed else "FALLS",
            )
            for row in fits
        ],
    )
    if found.failed:
        heads = ("audited", "batch", "tries", "why")
        rows = [tuple(map(str, astuple(one))) for one in found.failed]
        print_table("Failed", heads, rows, texts=4)
    leaking = [f"{row.subject}: {row.pattern}" for row in findings if not row.passed]
    odd = [f"{row.subject}: {row.pattern}" for row in fits if not row.passed]
    if leaking:
        print_text(f"FAILED: more than the charged ε leaks ({'; '.join(leaking)}).")
    if odd:
        print_text(f"FAILED: noise or bundles are not what was charged for ({'; '.join(odd)}).")
    if leaking or odd:
        print_text("Make no release with this installation, and report it with these tables.")
    elif found.failed:
        print_text("Not decided: what failed above was not audited. Run it again.")
    else:
        print_text(
            "Passed: no bound exceeds the ε that was charged, and the noise is what was charged "
            "for."
        )


def _finding_json(row: Finding) -> dict[str, Any]:
    return {
        "subject": row.subject,
        "pattern": row.pattern,
        "epsilon_charged": float(row.epsilon),
        "canaries": row.counts.canaries,
        "guesses": row.counts.guesses,
        "correct": row.counts.correct,
        "lower_95": row.lower_95,
        "lower_9999": row.lower_9999,
        "passed": row.passed,
    }


def _fit_json(row: Fit) -> dict[str, Any]:
    return {
        "subject": row.subject,
        "oddest": row.pattern,
        "values": row.values,
        "p_value": row.p_value,
        "level": row.level,
        "passed": row.passed,
    }
