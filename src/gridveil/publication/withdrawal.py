"""Notices of withdrawal: a publisher's signed word that a bundle is not to be used any more.

A notice names its bundle by digest. It counts if the key that signed the bundle signed it, or,
where a recipient has the publisher's keyring, any key of it that is not revoked. It never makes a
bundle better: a bundle that does not verify is refused before any notice is read.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from os import scandir
from pathlib import Path
from typing import Any

from gridveil.foundation.errors import BundleError, InputError
from gridveil.foundation.files import gridveil_home
from gridveil.foundation.reading import read_regular
from gridveil.foundation.shown import json_file
from gridveil.publication.signing import KeyInfo, Signer, TrustedKeys, check_signature
from gridveil.publication.signing.public import decode_key

SUFFIX = ".withdrawn.json"
KIND, VERSION = "gridveil withdrawal", 1
LONGEST_REASON = 500  # characters
LARGEST = 2**14  # bytes
MOST = 10_000  # notices of a folder
DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Notice:
    """That a bundle is withdrawn.

    bundle, superseded_by : digests, SHA-256 of a bundle's checksum file.
    date : a day, YYYY-MM-DD, as the publisher states it.
    public_key : 32 raw bytes.
    """

    bundle: str
    date: str
    reason: str
    superseded_by: str | None
    public_key: bytes
    signature: bytes = b""

    @property
    def key_id(self) -> str:
        """The name of the key that signed it."""
        return KeyInfo(self.public_key, "active").id

    @property
    def genuine(self) -> bool:
        """Whether its signature is that of the key it names."""
        return check_signature(self.public_key, self.signature, json_file(self._stated()))

    def to_file(self) -> bytes:
        """Write it: the same notice gives the same bytes."""
        return json_file(self._stated() | {"signature": _text(self.signature)})

    def signed(self, signer: Signer) -> Notice:
        """The same, signed."""
        unsigned = replace(self, public_key=signer.public_key, signature=b"")
        return replace(unsigned, signature=signer.sign(json_file(unsigned._stated())))

    def _stated(self) -> dict[str, Any]:
        """What is signed. Its first line is none of a checksum file, which is signed too."""
        return {
            "kind": KIND,
            "schema_version": VERSION,
            "bundle": self.bundle,
            "date": self.date,
            "reason": self.reason,
            "superseded_by": self.superseded_by,
            "public_key": _text(self.public_key),
        }


def parse_notice(data: bytes) -> Notice:
    """Read a notice that is, byte for byte, what `to_file` writes; whether it is genuine, it says.

    Raises
    ------
    ValueError : with words on what it is instead.
    """
    problem = "is not a notice as gridveil writes it"
    try:
        document = json.loads(data)
        version = document["schema_version"]
        if document["kind"] == KIND and isinstance(version, int) and version > VERSION:
            problem = "is of a later version of gridveil, which has to be upgraded to read it"
        notice = Notice(
            document["bundle"],
            document["date"],
            document["reason"],
            document["superseded_by"],
            decode_key(document["public_key"]) or b"",
            base64.b64decode(document["signature"], validate=True),
        )
        strict = (
            DIGEST.fullmatch(notice.bundle)
            and (notice.superseded_by is None or DIGEST.fullmatch(notice.superseded_by))
            and isinstance(notice.reason, str)
            and date.fromisoformat(notice.date).isoformat() == notice.date
            and 0 < len(notice.reason) <= LONGEST_REASON
            and notice.to_file() == data
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        notice, strict = None, False
    if notice is None or not strict:
        raise ValueError(problem)
    return notice


@dataclass(frozen=True)
class Notices:
    """Notices that were found.

    named : of them, the one that the user gave as a file.
    unread : words on each file that is none.
    """

    found: Mapping[Path, Notice] = field(default_factory=dict)
    named: Path | None = None
    unread: tuple[str, ...] = ()


def notices_folder() -> Path:
    """Name the user's own folder of notices; it may not exist."""
    return gridveil_home() / "notices"


def find_notices(bundle: Path, given: Path | None = None) -> Notices:
    """Read the notices beside a bundle, in the user's folder, and where the user says.

    given : a notice, or a folder of them.
    """
    named = given if given is not None and not _is_folder(given) else None
    folders = [(bundle if bundle.name else bundle.absolute()).parent]
    with suppress(RuntimeError):  # a user without a home has no folder of notices
        folders.append(notices_folder())
    if given is not None and named is None:
        folders.append(given)
    places = [] if named is None else [named]
    unread = []
    for folder in folders:
        listed = _listed(folder)
        places += listed[:MOST]
        if len(listed) > MOST:
            unread.append(f"{folder} holds more than {MOST} notices, and the others")
    found: dict[Path, Notice] = {}
    for place in places:
        try:
            found[place] = _read(place)
        except ValueError as error:
            if place == named:
                raise InputError(
                    f"{place} {error}",
                    outcome="Nothing was verified.",
                    remedy="Get the notice again from the publisher, or name a folder of notices.",
                ) from None
            unread.append(f"{place} {error}")
    return Notices(found, named, tuple(dict.fromkeys(unread)))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name that is too long, say: whoever reads it says so
        return False


def _read(place: Path) -> Notice:
    try:
        return parse_notice(read_regular(place, most=LARGEST))
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from None


def _listed(folder: Path) -> list[Path]:
    """The notices of a folder, by name; none where it cannot be read."""
    names = []
    with suppress(OSError), scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(SUFFIX)]
    return [folder / name for name in sorted(names)]


class Withdrawn(BundleError):
    """An intact bundle that its publisher withdrew.

    notice : the latest that counts; place : where it lies.
    instead : digest of the bundle to use, past all that were withdrawn too; None: there is none.
    """

    exit_code = 3

    def __init__(self, path: Path, place: Path, notice: Notice, instead: str | None) -> None:
        self.notice, self.place, self.instead = notice, place, instead
        self.details = {
            "withdrawn": {
                "bundle": notice.bundle,
                "date": notice.date,
                "reason": notice.reason,
                "superseded_by": notice.superseded_by,
                "instead": instead,
                "signed_by": notice.key_id,
                "notice": str(place),
            }
        }
        by = f" and superseded it by {notice.superseded_by}" if notice.superseded_by else ""
        remedy = "Nothing replaces it." if not by else "What superseded it was withdrawn too."
        if instead:
            remedy = f"Use the bundle whose checksums have the SHA-256 {instead}."
        super().__init__(
            f"{path}: WITHDRAWN. Its publisher, key {notice.key_id}, withdrew it on {notice.date}"
            f'{by}: "{notice.reason}" ({place}).',
            outcome="Its files are intact. Nothing was loaded.",
            remedy=f"Do not use it. {remedy}",
        )


def check_withdrawal(
    path: Path, digest: str, signed_by: bytes | None, notices: Notices, trusted: TrustedKeys | None
) -> tuple[str, ...]:
    """Refuse a bundle that a notice withdraws; return words on each notice that does not count.

    signed_by : the key that signed the bundle; None: nobody.
    trusted : the keyring that the recipient gave, which has that key.

    Raises
    ------
    Withdrawn : naming when, why, and what replaces it.
    """
    ignored = [f"{said}: not honoured." for said in notices.unread]
    counted: dict[Path, Notice] = {}
    for place, notice in notices.found.items():
        problem = _problem(notice, signed_by, trusted)
        if problem is None:
            counted[place] = notice
        elif notice.bundle == digest:
            ignored.append(f"{place} is not honoured: {problem}.")
    if notices.named is not None and notices.found[notices.named].bundle != digest:
        ignored.append(f"{notices.named} is about another bundle.")
    mine = {place: notice for place, notice in counted.items() if notice.bundle == digest}
    if mine:
        latest = _latest(mine.values())
        place = next(place for place, notice in mine.items() if notice == latest)
        raise Withdrawn(path, place, latest, _instead(latest, counted.values()))
    return tuple(ignored)


def _problem(notice: Notice, signed_by: bytes | None, trusted: TrustedKeys | None) -> str | None:
    """Why a notice does not count; None: it does."""
    if not notice.genuine:
        return "its signature is bad"
    if signed_by is None:
        return "nobody signed the bundle, so that nobody can show the right to withdraw it"
    if notice.public_key == signed_by:
        return None
    status = trusted.status(notice.public_key) if trusted else "unknown"
    if status in ("active", "retired"):
        return None
    return f"it is signed by key {notice.key_id}, which " + (
        "its owner revoked"
        if status == "revoked"
        else "did not sign the bundle (if the publisher rotated the key, give the keyring with "
        "--key)"
    )


def _latest(notices: Iterable[Notice]) -> Notice:
    return max(notices, key=lambda one: (one.date, one.superseded_by or "", one.reason))


def _instead(notice: Notice, counted: Iterable[Notice]) -> str | None:
    """Follow what superseded a bundle to one that was not withdrawn; None: there is none."""
    by_bundle: dict[str, list[Notice]] = {}
    for one in counted:
        by_bundle.setdefault(one.bundle, []).append(one)
    at, passed = notice.superseded_by, {notice.bundle}
    while at in by_bundle and at not in passed:
        passed.add(at)
        at = _latest(by_bundle[at]).superseded_by
    return None if at in passed else at  # in a circle there is none


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
