"""Withdraw a published bundle: a signed notice that recipients' gridveil honours."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gridveil.foundation.archive import SIGNATURE, SUMS, check_free, write_new
from gridveil.foundation.errors import OptionError
from gridveil.publication.bundle import verify
from gridveil.publication.signing import (
    KeyInfo,
    SigningError,
    check_signature,
    key_folder,
    keys_in,
    open_signer,
)
from gridveil.publication.unpack import read_files
from gridveil.publication.withdrawal import LONGEST_REASON, SUFFIX, Notice

NOT_WITHDRAWN = "No notice was written."


@dataclass(frozen=True)
class Withdrawal:
    """A notice, and where it was written.

    same_key : whether it is signed by the key that signed the bundle; if not, recipients need the
    keyring to believe it.
    """

    place: Path
    notice: Notice
    same_key: bool


def withdraw_bundle(
    bundle: Path,
    reason: str,
    *,
    superseded_by: Path | None = None,
    out: Path | None = None,
    ask: Callable[[], str | None] = lambda: None,
) -> Withdrawal:
    """Write a notice that a bundle is withdrawn, signed with the owner's active key.

    bundle : its checksums must hold, and one of the owner's keys must have signed it.
    reason : public, one line.
    superseded_by : a bundle of the same owner that takes its place; it must verify.
    out : ends in .withdrawn.json; None: beside the bundle, under its name.
    ask : gives the key's passphrase, where it has one.

    Privacy
    -------
    It opens no grid and no ledger: what the release spent stays spent, and what was published
    stays known.
    """
    if not reason.strip() or len(reason) > LONGEST_REASON or not reason.isprintable():
        raise OptionError(
            "The reason cannot be used.",
            expected=f"one line of 1 to {LONGEST_REASON} characters that print as themselves",
            outcome=NOT_WITHDRAWN,
        )
    named = bundle if bundle.name else bundle.absolute()
    place = out or named.with_name(f"{named.name}{SUFFIX}")
    if not place.name.endswith(SUFFIX):
        raise OptionError(
            f"--out {place} would not be found as a notice.",
            expected=f"a name that ends in {SUFFIX}",
            outcome=NOT_WITHDRAWN,
        )
    check_free(place)
    keys = keys_in(key_folder())
    digest, key = _signed(bundle, keys)
    successor = _successor(superseded_by, keys, digest) if superseded_by else None
    signer = open_signer(ask)
    if signer is None:
        raise SigningError(
            "There is no active key to sign with.",
            outcome=NOT_WITHDRAWN,
            remedy="Make one: gridveil keys new.",
        )
    today = datetime.now(UTC).date().isoformat()
    notice = Notice(digest, today, reason, successor, signer.public_key).signed(signer)
    write_new(place, notice.to_file(), what="The notice")
    return Withdrawal(place, notice, signer.public_key == key.public_key)


def _signed(bundle: Path, keys: tuple[KeyInfo, ...]) -> tuple[str, KeyInfo]:
    """Name a bundle, and the owner's key that signed it. It need not verify otherwise: one that a
    later gridveil refuses can be withdrawn too.
    """
    files = read_files(bundle).files
    if SIGNATURE not in files:
        raise SigningError(
            f"{bundle} is not signed, so that nobody can show the right to withdraw it.",
            outcome=NOT_WITHDRAWN,
            remedy="Take it off the place where you published it, say why there, and sign the "
            "next one: gridveil keys new.",
        )
    for key in keys:
        if check_signature(key.public_key, files[SIGNATURE], files[SUMS]):
            return hashlib.sha256(files[SUMS]).hexdigest(), key
    raise SigningError(
        f"{bundle} is signed by none of the keys in {key_folder()}.",
        outcome=NOT_WITHDRAWN,
        remedy="Withdraw it where its key lies; GRIDVEIL_HOME names another folder.",
    )


def _successor(bundle: Path, keys: tuple[KeyInfo, ...], withdrawn: str) -> str:
    """Name the bundle that takes a withdrawn one's place."""
    report = verify(bundle)
    problem = None
    if report.digest == withdrawn:
        problem = "is the bundle that is withdrawn"
    elif report.signed_by not in [key.public_key.hex() for key in keys if key.status != "revoked"]:
        problem = "is signed by none of your keys that are not revoked"
    if problem:
        raise OptionError(
            f"{bundle} {problem}.",
            expected="another bundle, signed by the same owner",
            outcome=NOT_WITHDRAWN,
            remedy="Name the right one with --superseded-by, or leave it out.",
        )
    return report.digest
