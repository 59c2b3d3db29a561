"""The command that withdraws a published bundle: withdraw."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gridveil.cli import options
from gridveil.cli.output import print_command, print_json, print_text

NOT_UNDONE = (
    "Copies that others have stay, and what they tell stays told: nothing that was published can "
    "be unpublished. The ledger keeps the charge: a withdrawal gives no ε back."
)


def withdraw(
    bundle: options.Bundle,
    reason: Annotated[str, options.option("why, for everybody to read: one line")],
    superseded_by: Annotated[
        Path | None, options.option("the bundle that takes its place: its folder or its .zip")
    ] = None,
    out: Annotated[
        Path | None,
        options.option("the notice; ends in .withdrawn.json; default: beside the bundle"),
    ] = None,
    json: options.Json = False,
) -> None:
    """Withdraw a bundle that you published: write a signed notice, which verify honours.

    It gives no epsilon back, and reaches only those who get the notice.
    """
    from gridveil.cli.keys import ask_passphrase
    from gridveil.publication.signing.public import key_name
    from gridveil.workflow.withdraw import withdraw_bundle

    done = withdraw_bundle(
        bundle,
        reason,
        superseded_by=superseded_by,
        out=out,
        ask=lambda: ask_passphrase("Passphrase of the signing key: "),
    )
    notice = done.notice
    if json:
        print_json(
            {
                "notice": str(done.place),
                "bundle": notice.bundle,
                "date": notice.date,
                "reason": notice.reason,
                "superseded_by": notice.superseded_by,
                "signed_by": key_name(notice.public_key),
                "same_key": done.same_key,
                "not_undone": NOT_UNDONE,
            }
        )
        return
    print_text(
        f"Notice   {done.place}",
        f"Bundle   {notice.bundle}",
        *([f"Instead  {notice.superseded_by}"] if notice.superseded_by else []),
        f"Key      {notice.key_id}",
        "Publish the notice beside the bundle, and where your keyring is. Whoever has it in the "
        "bundle's folder finds the bundle refused, by verify and by all that reads bundles.",
        NOT_UNDONE,
    )
    if not done.same_key:
        print_text(
            "Another key of yours signed the bundle, so that the notice counts for those alone who "
            "have your keyring:"
        )
        print_command("", "gridveil", "verify", "BUNDLE", "--key", "keyring.json")
