"""What `release --dry-run` prints: bounds with their sources, the charge, the draw, and what would
be published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gridveil.cli.output import (
    guarantee_json,
    print_guarantee,
    print_json,
    print_table,
    print_text,
)
from gridveil.cli.terms import explained

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from gridveil.grid.facts import TableFacts
    from gridveil.workflow.bounds import Chosen
    from gridveil.workflow.foresee import Foreseen

UNDONE = "Nothing was charged, nothing was drawn and nothing was written."


def print_bounds(
    chosen: Chosen,
    facts: TableFacts,
    alpha: Mapping[str, Fraction] | None = None,
    *,
    err: bool = False,
) -> None:
    """Print public bounds and where they come from.

    alpha : of each group; None: those that were derived with the bounds.
    """
    distances = chosen.alpha if alpha is None else alpha
    print_table(
        f"Public bounds and α of {facts.name}",
        ("group", "what it is", "bounds", "α", "bounds follow from"),
        [
            (
                name,
                f"{parameter.title} [{parameter.unit}]",
                f"{chosen.bounds[name].lower:g} to {chosen.bounds[name].upper:g}",
                str(distances.get(name, "")),
                chosen.sources[name],
            )
            for name, parameter in facts.parameters.items()
        ],
        texts=5,
        err=err,
    )


def show_foreseen(foreseen: Foreseen, *, json: bool) -> None:
    """Print a release that was not made."""
    if json:
        print_json(_json(foreseen))
        return
    guarantee = foreseen.guarantee
    alpha = {name: loss.alpha for name, loss in guarantee.groups.items()}
    print_bounds(foreseen.chosen, foreseen.facts, alpha)
    print_guarantee(guarantee, None)
    print_text(
        *_outline(foreseen),
        f"Drawn    {foreseen.allocation.in_words()}",
        f"Formats  {', '.join(foreseen.formats) or 'none besides its own'}",
        "",
        "The certificate would declare these public inputs:",
        *(f"- {name}: {words}" for name, words in foreseen.inputs.items()),
        *_open(foreseen),
    )
    accept = ", with --bounds derived to accept the bounds" if foreseen.chosen.missing else ""
    print_text("", f"{UNDONE} Leave --dry-run out to make this release{accept}.")


def print_outline(foreseen: Foreseen) -> None:
    """Print the same in short: the charge, the bundle, and what is not protected."""
    print_text(*_outline(foreseen), *_open(foreseen))


def _outline(foreseen: Foreseen) -> list[str]:
    epsilon, account = foreseen.guarantee.epsilon, foreseen.account
    several = f"{foreseen.count} draws at ε = {epsilon}: " if foreseen.count > 1 else ""
    words = f"Charge   {several}ε = {foreseen.cost} to the lineage {foreseen.lineage}"
    if account is None:
        words += (
            ", which is new: this fixes its budget, the adjacency and α, for ever (α may only grow)"
        )
    else:
        words += f", of which ε = {float(account.left):g} is left of {account.epsilon}"
    return [
        words,
        f"         {explained('lineage')}",
        f"Ledger   {foreseen.ledger or 'none yet: the release would make one'}",
        f"Model    {foreseen.ports}",
        *(f"Bundle   {place}" for place in foreseen.places),
        f"Signed   by {f'key {foreseen.signed_by}' if foreseen.signed_by else 'nobody'}",
    ]


def _open(foreseen: Foreseen) -> list[str]:
    protected = [f"- {words}" for words in foreseen.not_protected]
    return ["It would say that these are not protected:", *protected]


def _json(foreseen: Foreseen) -> dict[str, Any]:
    account, bounds = foreseen.account, foreseen.chosen.bounds
    return {
        "dry_run": True,
        "bounds": {
            name: {
                "lower": bounds[name].lower,
                "upper": bounds[name].upper,
                "follows_from": source,
            }
            for name, source in foreseen.chosen.sources.items()
        },
        "to_accept": list(foreseen.chosen.missing),
        "guarantee": guarantee_json(foreseen.guarantee),
        "epsilon_charged": str(foreseen.cost),
        "lineage": foreseen.lineage,
        "epsilon_left_before": str(account.left) if account else None,
        "ledger": foreseen.ledger,
        "allocation": foreseen.allocation.in_words(),
        "model": foreseen.ports,
        "bundles": [str(place) for place in foreseen.places],
        "formats": list(foreseen.formats),
        "signed_by": foreseen.signed_by,
        "public_inputs": dict(foreseen.inputs),
        "not_protected": list(foreseen.not_protected),
        "outcome": UNDONE,
    }
