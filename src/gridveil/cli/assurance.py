"""Commands that put the promise to the test: audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridveil.cli import options
from gridveil.cli.output import counted, print_json, print_table, print_text

if TYPE_CHECKING:
    from gridveil.audit import Finding


def audit(
    epsilon: Annotated[str, typer.Option(help="privacy loss to audit, exact: 1/2 or 0.5")] = "1",
    adjacency: Annotated[
        list[str] | None,
        typer.Option(
            help="one-asset, one-item or one-per-group, or with -relative; may be repeated; default: the three",
            show_default=False,
        ),
    ] = None,
    canaries: Annotated[int, typer.Option(help="secrets to guess, for each adjacency", min=1000)] = 1_000_000,
    json: options.Json = False,
) -> None:
    """Attack perturb on synthetic grids: lower bounds on epsilon, and the noise's low bits. Exit code 1 if the claim falls.

    It reads no grid of yours and charges no ledger of yours.
    """
    from gridveil.audit import ALPHA, audit_adjacency, audit_low_bits, audit_sums, values_to_draw
    from gridveil.privacy.adjacency import ABSOLUTE, Adjacency
    from gridveil.privacy.epsilon import exact

    claimed = exact(epsilon)
    chosen = [Adjacency(rule, ALPHA) for rule in dict.fromkeys(adjacency or ABSOLUTE)]  # pyright: ignore[reportArgumentType]
    low_bit_draws, releases = canaries // 5, max(1000, canaries // 100)  # of sums: each has a release of its own
    total = sum(values_to_draw(one.rule, canaries) + 3 * releases for one in chosen) + low_bit_draws
    with counted("guessing canaries", total, quiet=json) as progress:
        found: list[Finding] = []
        for one in chosen:
            found += audit_adjacency(one, claimed, canaries, progress=progress)
            found.append(audit_sums(one, claimed, releases, progress=progress))
        found.append(audit_low_bits(draws=low_bit_draws, progress=progress))
    passed = all(row.passed for row in found)
    if json:
        print_json({"passed": passed, "epsilon": str(claimed), "findings": [_finding_json(row) for row in found]})
    else:
        _print_findings(found)
    if not passed:
        raise typer.Exit(1)


def _print_findings(found: list[Finding]) -> None:
    print_table(
        "what the guesses prove: ε is above …",
        ("audited", "canaries", "guesses", "right", "ε charged", "95 % bound", "of ε", "99.99 % bound", "verdict"),
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
            for row in found
        ],
    )
    fallen = [f"{row.subject}: {row.pattern}" for row in found if not row.passed]
    if fallen:
        print_text(
            f"FAILED: more than the charged ε leaks ({'; '.join(fallen)}).",
            "Make no release with this installation, and report it with this table.",
        )
    else:
        print_text("Passed: no bound exceeds the ε that was charged.")


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
