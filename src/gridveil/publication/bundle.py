"""The bundle: a release as a folder or as one canonical zip, certified, signed, and verified to the
bit.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from gridveil.foundation import crash_points
from gridveil.foundation.archive import DOCUMENT, NOT_LOADED, SUMS, broken, write_files
from gridveil.foundation.arguments import a_place, takes
from gridveil.foundation.errors import BundleError, GridveilError, InputError
from gridveil.inference.fit.guard import Verdict
from gridveil.publication.bundle_files import (
    CERTIFICATE,
    ENSEMBLE,
    REFERENCE,
    contents,
    reference_of,
)
from gridveil.publication.bundle_reading import Loaded, parse
from gridveil.publication.card import CARD, CARD_VERSION, card_page
from gridveil.publication.certificate import CertificateDocument, contradiction
from gridveil.publication.ensemble import gives_bands
from gridveil.publication.export import FORMATS, export
from gridveil.publication.release import Release
from gridveil.publication.replay_files import replay_problems
from gridveil.publication.schema import ReferenceDocument, ReleaseDocument
from gridveil.publication.signing import KeyInfo, Signer, TrustedKeys
from gridveil.publication.unpack import names_in, read_files
from gridveil.publication.withdrawal import check_withdrawal, find_notices


@dataclass(frozen=True)
class Report:
    """What `verify` found in an intact bundle.

    digest : SHA-256 of its checksum file, which names the bundle.
    signed_by : public key in hex, None if nobody signed;
    trusted : whether that key is one that the recipient named.
    noise : α and scale of each group, in words;
    exports : formats of other tools that it holds;
    not_recomputed : those of them, and the card, that another version of gridveil wrote, which only
    their checksums vouch for.
    repacked : whether another program made the zip anew.
    ignored : files that it or the system put in, and that are no part of the bundle.
    verdict : of the guard on its fit; None: no fit, or none that was judged.
    ignored_notices : words on each notice of withdrawal that does not count.
    """

    path: str
    demo: bool
    epsilon: str
    adjacency: str
    machines: int
    files: tuple[str, ...]
    digest: str
    signed_by: str | None
    trusted: bool
    noise: Mapping[str, str] = field(default_factory=dict)
    exports: tuple[str, ...] = ()
    not_recomputed: tuple[str, ...] = ()
    repacked: bool = False
    ignored: int = 0
    verdict: Verdict | None = None
    ignored_notices: tuple[str, ...] = ()


def write(
    release: Release, path: Path, signer: Signer | None = None, formats: Sequence[str] = ()
) -> Report:
    """Write a bundle, certified and signed, whole or not at all; the ledger then notes that it was
    published. `check_free` comes before; the move itself replaces nothing that appeared meanwhile.
    """
    files = contents(release, signer, formats)
    spent = "No bundle was left there; the privacy budget of its draw stays spent."
    write_files(path, files, what="The bundle", outcome=spent)
    if release.ledger is not None and release.receipt is not None:
        release.ledger.mark_published(release.receipt.entry, _digest(files))
        crash_points.step("published")
    document = ReleaseDocument.read(files[DOCUMENT])
    certificate = CertificateDocument.read(files[CERTIFICATE]) if CERTIFICATE in files else None
    return _report(path, files, release, document, certificate)


_BUNDLE = a_place("a path to a bundle, a folder or a .zip")


@takes(
    outcome="Nothing was checked.",
    path=_BUNDLE,
    key=a_place("a path to a public key (PEM) or a keyring"),
    beside=_BUNDLE,
    notices=a_place("a path to a notice of withdrawal, or a folder of them"),
)
def verify(
    path: str | Path,
    key: str | Path | None = None,
    beside: str | Path | None = None,
    notices: str | Path | None = None,
) -> Report:
    """Check every bit of a bundle, and recompute every sentence and figure in it that follows from
    its facts.

    key : a public key (PEM) or keyring that the recipient trusts; the bundle must then be signed by
    it.
    beside : another bundle of the same owner; both certificates must then be of one history of the
    ledger, which a restored backup breaks.
    notices : notices of withdrawal to honour, besides those that lie beside the bundle and in the
    user's folder.

    Raises
    ------
    BundleError : naming each file that was changed, is missing or is not listed, what is not stated
    as gridveil states it, or the key that is not trusted.
    Withdrawn : of an intact bundle that its publisher withdrew.
    """
    path = Path(path)
    report = _intact(path, key)
    trusted = TrustedKeys.read(key) if key is not None else None
    found = find_notices(path, Path(notices) if notices is not None else None)
    ignored = check_withdrawal(path, report.digest, _raw(report.signed_by), found, trusted)
    report = replace(report, ignored_notices=ignored)
    if beside is not None:
        _check_history(path, Path(beside), key)
    return report


def _intact(path: Path, key: str | Path | None) -> Report:
    """Verify a bundle, withdrawn or not."""
    unpacked = read_files(path)
    report = replace(
        verify_files(path, unpacked.files), repacked=unpacked.repacked, ignored=unpacked.ignored
    )
    if key is not None:
        _check_trusted(path, report, Path(key))
        report = replace(report, trusted=True)
    return report


def _raw(signed_by: str | None) -> bytes | None:
    return bytes.fromhex(signed_by) if signed_by else None


@dataclass(frozen=True, eq=False)
class Verified:
    """A bundle that verifies: its release, what `verify` found, its certificate (none of a demo),
    and its files as they were read.
    """

    release: Release
    report: Report
    certificate: CertificateDocument | None
    files: Mapping[str, bytes]


def load_verified(path: Path) -> Verified:
    """Verify a bundle and load it, all from one reading of its files."""
    files = read_files(path).files
    loaded = parse(path, files)
    return Verified(loaded.release, _verified(path, files, loaded), loaded.certificate, files)


def verify_files(path: Path, files: Mapping[str, bytes]) -> Report:
    """Verify the files of a bundle, whose checksums hold."""
    return _verified(path, files, parse(path, files))


def _verified(path: Path, files: Mapping[str, bytes], loaded: Loaded) -> Report:
    if not _gives(loaded.release, loaded.document.reference, files[REFERENCE]):
        raise broken(path, f"the model does not give its own reference trajectory, {REFERENCE}")
    if problem := next(replay_problems(loaded.release, loaded.replayed), None):
        raise broken(path, problem)
    stated = loaded.document.ensemble
    if stated and not gives_bands(loaded.release, loaded.document.reference, stated):
        raise broken(path, f"{ENSEMBLE} does not give the bands that {DOCUMENT} states")
    others = (
        *_check_exports(path, files, loaded.release, loaded.document),
        *_check_card(path, files, loaded),
    )
    return replace(
        _report(path, files, loaded.release, loaded.document, loaded.certificate),
        not_recomputed=others,
    )


def is_bundle(path: Path) -> bool:
    """Whether a folder or a zip sets out to be a bundle; whether it is one, `verify` says."""
    try:
        if path.is_dir():
            return any((path / name).exists() for name in (DOCUMENT, SUMS))
        return (
            path.is_file()
            and zipfile.is_zipfile(path)
            and not {DOCUMENT, SUMS}.isdisjoint(names_in(path))
        )
    except OSError:  # what is wrong with it, whoever reads it says
        return False


@takes(outcome="Nothing was read.", path=_BUNDLE, even_withdrawn=bool)
def load(path: str | Path, *, even_withdrawn: bool = False) -> Release:
    """Load a bundle, once its checksums, schema, certificate and signature hold.

    even_withdrawn : load one that its publisher withdrew too, to look at it all the same.

    Raises
    ------
    BundleError : of a bundle that is damaged or altered.
    Withdrawn : where a notice lies beside it or in the user's folder.
    """
    path = Path(path)
    files = read_files(path).files
    loaded = parse(path, files)
    if not even_withdrawn:
        signed_by = _raw(loaded.certificate.signed_by) if loaded.certificate else None
        check_withdrawal(path, _digest(files), signed_by, find_notices(path), None)
    return loaded.release


def load_named(path: str | Path) -> tuple[Release, str]:
    """Load a bundle, withdrawn or not, and the digest that names it: SHA-256 of its checksum
    file.
    """
    path = Path(path)
    files = read_files(path).files
    return parse(path, files).release, _digest(files)


def _gives(release: Release, run: ReferenceDocument, stored: bytes) -> bool:
    """Whether a release answers the reference event as stored: the same rows and columns, and
    numbers to nine digits.
    """
    try:
        with np.errstate(all="ignore"):
            again = reference_of(release, run)
            if stored.count(b"\n") != len(again.time_s) + 1:
                return False
            rows = [
                [float(cell) for cell in line.split(",")[1:]]
                for line in stored.decode("ascii").splitlines()[1:]
            ]
            expected = np.array(rows)
            # Not `>`: a NaN compares as neither.
            near = (
                expected.shape == again.omega.shape
                and np.abs(expected - again.omega).max() <= 1e-9 * np.abs(expected).max()
            )
        return bool(near) and replace(again, omega=expected).to_csv().encode() == stored
    except (GridveilError, ArithmeticError, ValueError):
        return False


def _check_exports(
    path: Path, files: Mapping[str, bytes], release: Release, document: ReleaseDocument
) -> tuple[str, ...]:
    """Write every export again; return the formats that another version wrote, whose bytes this one
    cannot make.
    """
    others = []
    for listed in document.exports:
        if listed.version > FORMATS[listed.format].version:
            raise _newer(path, f"its files for {listed.format} are of version {listed.version}")
        if (
            listed.version < FORMATS[listed.format].version
            and tuple(_exported(release, listed.format)) == listed.files
        ):
            others.append(listed.format)
        elif list(_exported(release, listed.format).items()) != [
            (name, files[name]) for name in listed.files
        ]:
            raise broken(
                path,
                f"{' or '.join(listed.files)} is not what the model gives in the format "
                f"{listed.format}",
            )
    return tuple(others)


def _check_card(path: Path, files: Mapping[str, bytes], loaded: Loaded) -> tuple[str, ...]:
    """Write the card again; name it where another version wrote it, whose bytes this one cannot
    make.
    """
    version = loaded.document.card or CARD_VERSION
    if version > CARD_VERSION:
        raise _newer(path, f"its {CARD} is of version {version}")
    if version < CARD_VERSION:
        return (CARD,)
    if CARD not in files:
        return ()
    try:
        again = card_page(loaded.release, loaded.document, loaded.certificate).encode()
    except (GridveilError, ArithmeticError, ValueError, np.linalg.LinAlgError):
        again = b""  # a forged model may hold numbers of any size
    if files[CARD] != again:
        raise broken(path, f"{CARD} is not what gridveil writes for such a release")
    return ()


def _newer(path: Path, what: str) -> BundleError:
    return BundleError(
        f"{path}: {what}, which this gridveil does not know.",
        outcome=NOT_LOADED,
        remedy="Upgrade gridveil: pip install --upgrade gridveil.",
    )


def _exported(release: Release, name: str) -> dict[str, bytes]:
    """What a release gives in a format: nothing where it cannot be written in it."""
    try:
        return export(release, name)
    except (GridveilError, ArithmeticError, ValueError, StopIteration):
        # a forged model may hold numbers of any size
        return {}


def _check_trusted(path: Path, report: Report, key: Path) -> None:
    if report.signed_by is None:
        raise broken(path, "it is not signed" + (": nobody signs a demo" if report.demo else ""))
    signed = bytes.fromhex(report.signed_by)
    status = TrustedKeys.read(key).status(signed)
    if status in ("revoked", "unknown"):
        told = "was revoked by its owner" if status == "revoked" else f"is not in {key}"
        raise BundleError(
            f"{path}: it is signed by the key {KeyInfo(signed, 'active').id}, which {told}.",
            outcome=NOT_LOADED,
            remedy="Do not use it. "
            + (
                "" if status == "revoked" else "If it is older, try the publisher's keyring.json."
            ).strip(),
        )


def _check_history(path: Path, beside: Path, key: str | Path | None) -> None:
    """Two bundles, of the same publisher where a key is named, are of one history of their
    ledger.
    """
    other = _intact(beside, key)
    mine, theirs = (parse(place, read_files(place).files).certificate for place in (path, beside))
    if mine is None or theirs is None or _ledger(mine) != _ledger(theirs):
        why = (
            f"{beside if other.demo else path} is a demo"
            if mine is None or theirs is None
            else "they are of two ledgers"
        )
        raise InputError(
            f"{path} and {beside} are intact, and cannot be compared: {why}",
            outcome="Nothing was compared.",
            remedy="Name two releases of one ledger. Of two ledgers, what was spent on one grid "
            "adds up.",
        )
    if problem := contradiction(mine, theirs):
        raise BundleError(
            f"{path} and {beside} are not of one history: {problem}.",
            outcome="What they say was spent on the grid is not to be trusted.",
            remedy="Ask their publisher; docs/ledger.md says how this comes about.",
        )


def _ledger(certificate: CertificateDocument) -> tuple[str, str]:
    return certificate.ledger_head.ledger, certificate.ledger_head.public_key


def _digest(files: Mapping[str, bytes]) -> str:
    return hashlib.sha256(files[SUMS]).hexdigest()


def _report(
    path: Path,
    files: Mapping[str, bytes],
    release: Release,
    document: ReleaseDocument,
    certificate: CertificateDocument | None,
) -> Report:
    return Report(
        path=str(path),
        demo=release.demo,
        epsilon=str(release.guarantee.epsilon),
        adjacency=release.guarantee.rule,
        machines=len(release.model.machines),
        files=tuple(sorted(files)),
        digest=_digest(files),
        signed_by=certificate.signed_by if certificate else None,
        trusted=False,
        noise={
            name: f"on {loss.mechanism.whole}, of scale "
            f"{loss.scale_in_words}, for α = {loss.alpha_in_words}"
            for name, loss in release.guarantee.groups.items()
        }
        | dict.fromkeys(release.guarantee.published, "none, published as it is"),
        exports=tuple(listed.format for listed in document.exports),
        verdict=release.fitted.verdict if release.fitted else None,
    )
