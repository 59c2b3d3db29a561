"""A bundle's files, read back: a release, if all that they state follows from its facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from gridveil.dynamics.ensemble import LEVEL
from gridveil.foundation.archive import DOCUMENT, NOT_LOADED, SIGNATURE, SUMS, broken
from gridveil.foundation.errors import BundleError, GridveilError
from gridveil.grid.facts import Array
from gridveil.publication.bundle_files import (
    ARRAYS,
    CERTIFICATE,
    ENSEMBLE,
    IN_WORDS,
    OWN_FILES,
    README,
    REFERENCE,
    arrays_in,
    document_file,
)
from gridveil.publication.card import CARD
from gridveil.publication.certificate import (
    CERTIFICATE_VERSION,
    CertificateDocument,
    certificate_problems,
    certify,
    in_plain_words,
    receipt_of,
)
from gridveil.publication.document import from_document, to_document
from gridveil.publication.ensemble import read_ensemble
from gridveil.publication.readme import readme
from gridveil.publication.release import Release
from gridveil.publication.replay_files import REPLAY, SAMPLES, read_replays
from gridveil.publication.schema import SCHEMA_VERSION, ReleaseDocument
from gridveil.publication.signing import check_signature
from gridveil.publication.stated import differing, release_problems

# Fields of a document, names of buses aside: a reader of JSON makes an object, or an error, of
# each.
MOST_FIELDS, LISTED_BUS = (
    5000,
    re.compile(rb'"[GL][1-9][0-9]{0,6}(?: [A-Za-z0-9_.]{1,50})?",\s*'),
)


@dataclass(frozen=True)
class Loaded:
    """A bundle that was read; replayed : what it says its model gives of its records."""

    release: Release
    document: ReleaseDocument
    certificate: CertificateDocument | None
    replayed: list[Array]


def parse(path: Path, files: Mapping[str, bytes]) -> Loaded:
    """Read a release, if all that its files state follows from its facts; what takes long, `verify`
    does.
    """
    missing = {DOCUMENT, ARRAYS, REFERENCE, README} - files.keys()
    if missing:
        raise broken(path, f"{', '.join(sorted(missing))} is missing")
    for name in {DOCUMENT, CERTIFICATE} & files.keys():
        if LISTED_BUS.sub(b"", files[name]).count(b",") > MOST_FIELDS:
            raise broken(path, f"{name} holds more than any that gridveil writes")
    document, release = read_release(path, files)
    release, replayed = read_records(path, files, release)
    if problem := next(release_problems(release), None):
        raise broken(path, problem)
    _check_announced(path, files, document)
    certificate = _check_certificate(path, files, release)
    release = with_ensemble(path, files, release, document)
    told: dict[str, object] = {"exports": document.exports}
    if (document.card is None) != (CARD not in files):
        raise broken(path, f"{CARD} is {'missing' if document.card else f'not in {DOCUMENT}'}")
    if document.card is not None:
        told["card"] = document.card
    if document.ensemble is not None:  # its bands are recomputed by `verify`
        told["ensemble"] = document.ensemble
    derived = to_document(release).model_copy(update=told)
    _check_stated(path, DOCUMENT, document, derived, files[DOCUMENT])
    if files[README] != readme(release, document).encode():
        raise broken(path, f"{README} is not what gridveil writes for such a release")
    return Loaded(release, document, certificate, replayed)


def read_records(
    path: Path, files: Mapping[str, bytes], release: Release
) -> tuple[Release, list[Array]]:
    """Add what a bundle keeps of its records, and return what it says its model gives."""
    try:
        replays, replayed = read_replays(files)
    except (ValidationError, ValueError, OverflowError) as error:
        problem = f"{REPLAY} or {SAMPLES} is not as gridveil writes them ({type(error).__name__})"
        raise broken(path, problem) from None
    return replace(release, replays=replays), replayed


def read_release(path: Path, files: Mapping[str, bytes]) -> tuple[ReleaseDocument, Release]:
    """Read the document, and the release that it and the arrays make."""
    try:
        version = from_json(files[DOCUMENT])["schema_version"]
    except (KeyError, TypeError, ValueError):
        raise broken(path, f"{DOCUMENT} is no release document") from None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BundleError(
            f"{path}: its schema is version {version}, and this gridveil knows up to "
            f"{SCHEMA_VERSION}.",
            outcome=NOT_LOADED,
            remedy="Upgrade gridveil: pip install --upgrade gridveil.",
        )
    try:
        document = ReleaseDocument.read(files[DOCUMENT])
        return document, from_document(document, arrays_in(files[ARRAYS], document.model))
    except (ValidationError, GridveilError, KeyError, ValueError) as error:
        problem = (
            f"{DOCUMENT} or {ARRAYS} does not follow schema {SCHEMA_VERSION} "
            f"({type(error).__name__})"
        )
        raise broken(path, problem) from None


def with_ensemble(
    path: Path, files: Mapping[str, bytes], release: Release, document: ReleaseDocument
) -> Release:
    """Read the ensemble that a document tells of, which a bundle then holds."""
    if (document.ensemble is None) != (ENSEMBLE not in files):
        raise broken(
            path,
            f"{ENSEMBLE} is missing"
            if document.ensemble
            else f"{ENSEMBLE} is not announced in {DOCUMENT}",
        )
    if document.ensemble is None:
        return release
    if document.ensemble.level != LEVEL:
        raise broken(path, f"the level of {ENSEMBLE} is none that gridveil writes")
    try:
        with np.errstate(all="ignore"):
            return read_ensemble(files[ENSEMBLE], release, document.ensemble)
    except (GridveilError, ArithmeticError, ValueError, np.linalg.LinAlgError):
        raise broken(path, f"{ENSEMBLE} holds no ensemble that gridveil writes") from None


def _check_stated(
    path: Path, name: str, stated: BaseModel, derived: BaseModel, data: bytes
) -> None:
    """A document says what gridveil says of such a release, in the bytes that gridveil writes."""
    if found := differing(stated, derived):
        told = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
        raise broken(path, f"{name}: {told} is not what gridveil states of such a release")
    if document_file(stated) != data:
        raise broken(path, f"{name} is not written as gridveil writes it")


def _check_announced(path: Path, files: Mapping[str, bytes], document: ReleaseDocument) -> None:
    """Every file is one of a bundle's own or of an export that its document names."""
    announced = {name for listed in document.exports for name in listed.files}
    if len({listed.format for listed in document.exports}) < len(document.exports):
        raise broken(path, f"{DOCUMENT} announces a format twice")
    if strangers := files.keys() - OWN_FILES - announced:
        raise broken(path, f"{', '.join(sorted(strangers))} is not announced in {DOCUMENT}")
    if missing := announced - files.keys():
        raise broken(path, f"{', '.join(sorted(missing))} is missing")
    if doubled := announced & OWN_FILES:
        raise broken(path, f"{', '.join(sorted(doubled))} is not a file of an export")


def _check_certificate(
    path: Path, files: Mapping[str, bytes], release: Release
) -> CertificateDocument | None:
    """A real release has a certificate that says what its facts give, and the signature that it
    speaks of.
    """
    if release.demo:
        if present := {CERTIFICATE, IN_WORDS, SIGNATURE} & files.keys():
            raise broken(path, f"a demo has no {', '.join(sorted(present))}")
        return None
    try:
        version = from_json(files[CERTIFICATE])["certificate_version"]
        if isinstance(version, int) and 0 < version != CERTIFICATE_VERSION:
            raise BundleError(
                f"{path}: its certificate is of version {version}, and this gridveil knows "
                f"{CERTIFICATE_VERSION}.",
                outcome=NOT_LOADED,
                remedy="Verify it with the gridveil that made it."
                if version < CERTIFICATE_VERSION
                else "Upgrade gridveil.",
            )
        certificate = CertificateDocument.read(files[CERTIFICATE])
        words = in_plain_words(certificate).encode()
        receipt = receipt_of(certificate)
    except (KeyError, TypeError, ValueError, OverflowError):
        # a forged one may hold numbers of any size
        raise broken(path, f"{CERTIFICATE} is missing or is no certificate") from None
    signed_by = certificate.signed_by
    derived = certify(
        replace(release, receipt=receipt), bytes.fromhex(signed_by) if signed_by else None
    )
    # Versions of another installation; OpenDP's is the mechanism's.
    derived = derived.model_copy(update={"software": derived.software | certificate.software})
    _check_stated(path, CERTIFICATE, certificate, derived, files[CERTIFICATE])
    if problem := next(certificate_problems(certificate, receipt), None):
        raise broken(path, f"{CERTIFICATE}: {problem}")
    if files.get(IN_WORDS) != words:
        raise broken(path, f"{IN_WORDS} does not say what {CERTIFICATE} does")
    if (signed_by is None) != (SIGNATURE not in files):
        raise broken(
            path,
            f"{SIGNATURE} is missing"
            if signed_by
            else f"{SIGNATURE} is not announced in {CERTIFICATE}",
        )
    if signed_by and not check_signature(bytes.fromhex(signed_by), files[SIGNATURE], files[SUMS]):
        raise broken(path, f"{SIGNATURE} is not the signature of the key in {CERTIFICATE}")
    return certificate
