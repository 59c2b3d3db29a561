"""The bundle: a release as a folder or as one canonical zip, certified, signed, and verified to the
bit.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from gridveil.dynamics.compact import is_compact
from gridveil.dynamics.ensemble import LEVEL
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.trajectory import Trajectory
from gridveil.foundation import crash_points
from gridveil.foundation.archive import (
    DOCUMENT,
    NOT_LOADED,
    SIGNATURE,
    SUMS,
    broken,
    checksums,
    write_files,
)
from gridveil.foundation.arguments import a_place, takes
from gridveil.foundation.errors import BundleError, GridveilError, InputError
from gridveil.foundation.progress import stage
from gridveil.foundation.shown import json_file
from gridveil.grid.facts import Array, GridFacts, IntArray, complete_edges
from gridveil.grid.parameters import Bounds
from gridveil.inference.fit.guard import Verdict
from gridveil.publication.card import CARD, CARD_VERSION, card_page
from gridveil.publication.certificate import (
    CERTIFICATE_VERSION,
    CertificateDocument,
    certificate_problems,
    certify,
    contradiction,
    in_plain_words,
    receipt_of,
)
from gridveil.publication.compact import SHARES, SPARSE, from_sparse_arrays, sparse_arrays
from gridveil.publication.document import from_document, to_document
from gridveil.publication.ensemble import (
    ensemble_document,
    ensemble_file,
    gives_bands,
    read_ensemble,
)
from gridveil.publication.export import FORMATS, export, format_named
from gridveil.publication.matfile import FEWER, check_size, from_mat, to_mat
from gridveil.publication.readme import readme
from gridveil.publication.release import Release
from gridveil.publication.replay_files import (
    REPLAY,
    REPLAY_FILES,
    SAMPLES,
    read_replays,
    replay_files,
    replay_problems,
)
from gridveil.publication.schema import (
    EDGES_UP_TO,
    SCHEMA_VERSION,
    ExportDocument,
    ModelDocument,
    ReferenceDocument,
    ReleaseDocument,
)
from gridveil.publication.signing import KeyInfo, Signer, TrustedKeys, check_signature
from gridveil.publication.stated import check_declared, differing, release_problems
from gridveil.publication.unpack import names_in, read_files
from gridveil.publication.withdrawal import check_withdrawal, find_notices

ARRAYS, REFERENCE, README, ENSEMBLE = "model.mat", "reference.csv", "README.md", "ensemble.mat"
CERTIFICATE, IN_WORDS = "certificate.json", "certificate.txt"
OWN_FILES = {
    DOCUMENT,
    ARRAYS,
    REFERENCE,
    README,
    ENSEMBLE,
    CARD,
    CERTIFICATE,
    IN_WORDS,
    SUMS,
    SIGNATURE,
    *REPLAY_FILES,
}
# Fields of a document, names of buses aside: a reader of JSON makes an object, or an error, of
# each.
MOST_FIELDS, LISTED_BUS = (
    5000,
    re.compile(rb'"[GL][1-9][0-9]{0,6}(?: [A-Za-z0-9_.]{1,50})?",\s*'),
)


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
    loaded = _parse(path, files)
    return Verified(loaded.release, _verified(path, files, loaded), loaded.certificate, files)


def verify_files(path: Path, files: Mapping[str, bytes]) -> Report:
    """Verify the files of a bundle, whose checksums hold."""
    return _verified(path, files, _parse(path, files))


def _verified(path: Path, files: Mapping[str, bytes], loaded: _Loaded) -> Report:
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
    loaded = _parse(path, files)
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
    return _parse(path, files).release, _digest(files)


def contents(
    release: Release, signer: Signer | None = None, formats: Sequence[str] = ()
) -> dict[str, bytes]:
    """Make the files of a bundle: a function of its arguments alone (no time, no user, no
    platform).
    """
    if not release.demo and release.receipt is None:
        raise GridveilError(
            "A release that was loaded cannot be written again: its certificate belongs to the "
            "bundle it came in.",
            remedy="Copy that bundle.",
        )
    exported = {name: export(release, name) for name in formats}
    listed = tuple(_described(name, made) for name, made in exported.items())
    document = to_document(release).model_copy(update={"exports": listed, "card": CARD_VERSION})
    run = document.reference
    if release.ensemble is not None:
        bars = ensemble_document(release, run)
        document = document.model_copy(update={"ensemble": bars})
    stage("simulating the reference")
    reference = _reference(release, run)
    stage("writing the bundle")
    files = {
        DOCUMENT: _json(document),
        ARRAYS: to_mat(_arrays(release)),
        REFERENCE: reference.to_csv().encode(),
        README: readme(release, document).encode(),
        **replay_files(release),
    }
    if release.ensemble is not None:
        files[ENSEMBLE] = ensemble_file(release.ensemble)
    for made in exported.values():
        files |= made
    certificate = None
    if not release.demo:  # nobody certifies or signs a demo
        certificate = certify(release, signer.public_key if signer else None)
        files |= {CERTIFICATE: _json(certificate), IN_WORDS: in_plain_words(certificate).encode()}
    files[CARD] = card_page(release, document, certificate).encode()
    files[SUMS] = checksums(files)
    if signer and certificate:
        files[SIGNATURE] = signer.sign(files[SUMS])
    return dict(sorted(files.items()))


def _described(name: str, made: Mapping[str, bytes]) -> ExportDocument:
    known = format_named(name)
    return ExportDocument(format=known.name, version=known.version, files=tuple(made))  # pyright: ignore[reportArgumentType]


def _reference(release: Release, run: ReferenceDocument) -> Trajectory:
    return release.simulate(
        run.event,
        horizon_s=run.horizon_s,
        dt_s=run.dt_s,
        scheme=run.scheme,
        buses=run.buses or None,
    )


def _gives(release: Release, run: ReferenceDocument, stored: bytes) -> bool:
    """Whether a release answers the reference event as stored: the same rows and columns, and
    numbers to nine digits.
    """
    try:
        with np.errstate(all="ignore"):
            again = _reference(release, run)
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


@dataclass(frozen=True)
class _Loaded:
    release: Release
    document: ReleaseDocument
    certificate: CertificateDocument | None
    replayed: list[Array]


def _parse(path: Path, files: Mapping[str, bytes]) -> _Loaded:
    """Read a release, if all that its files state follows from its facts; what takes long, `verify`
    does.
    """
    missing = {DOCUMENT, ARRAYS, REFERENCE, README} - files.keys()
    if missing:
        raise broken(path, f"{', '.join(sorted(missing))} is missing")
    for name in {DOCUMENT, CERTIFICATE} & files.keys():
        if LISTED_BUS.sub(b"", files[name]).count(b",") > MOST_FIELDS:
            raise broken(path, f"{name} holds more than any that gridveil writes")
    document, release = _read_release(path, files)
    release, replayed = _read_replays(path, files, release)
    if problem := next(release_problems(release), None):
        raise broken(path, problem)
    _check_announced(path, files, document)
    certificate = _check_certificate(path, files, release)
    release = _with_ensemble(path, files, release, document)
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
    return _Loaded(release, document, certificate, replayed)


def _read_replays(
    path: Path, files: Mapping[str, bytes], release: Release
) -> tuple[Release, list[Array]]:
    """Add what a bundle keeps of its records, and return what it says its model gives."""
    try:
        replays, replayed = read_replays(files)
    except (ValidationError, ValueError, OverflowError) as error:
        problem = f"{REPLAY} or {SAMPLES} is not as gridveil writes them ({type(error).__name__})"
        raise broken(path, problem) from None
    return replace(release, replays=replays), replayed


def _read_release(path: Path, files: Mapping[str, bytes]) -> tuple[ReleaseDocument, Release]:
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
        return document, from_document(document, _from_mat(files[ARRAYS], document.model))
    except (ValidationError, GridveilError, KeyError, ValueError) as error:
        problem = (
            f"{DOCUMENT} or {ARRAYS} does not follow schema {SCHEMA_VERSION} "
            f"({type(error).__name__})"
        )
        raise broken(path, problem) from None


def _with_ensemble(
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
    if _json(stated) != data:
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


def _check_card(path: Path, files: Mapping[str, bytes], loaded: _Loaded) -> tuple[str, ...]:
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
    mine, theirs = (_parse(place, read_files(place).files).certificate for place in (path, beside))
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


def _json(document: BaseModel) -> bytes:
    """Write a document; one that was read has no more fields than were in it, as in a bundle of an
    earlier gridveil.
    """
    return json_file(document.model_dump(mode="json", exclude_unset=True))


def _arrays(release: Release) -> dict[str, Any]:
    """The arrays of a model of either kind, as a file has them."""
    if isinstance(release.model, ReducedModel):
        arrays = release.model.arrays
        if release.model.compact:
            arrays |= sparse_arrays(release.model)
        return arrays | _edges(len(release.model.machines))
    # What knows devices is imported where there are some: most bundles have none.
    from gridveil.publication.detailed import arrays_of

    assert release.shown is not None, "a detailed release shows a case"
    return dict(arrays_of(release.model, release.shown))


def _from_mat(data: bytes, model: ModelDocument) -> dict[str, Array]:
    """Read the model's arrays; whether they are a model's, `release_problems` says."""
    if model.detailed is not None:
        from gridveil.publication.detailed import shapes_of

        return from_mat(data, shapes_of(model), {})
    machines = len(model.machines)
    shapes = ReducedModel.shapes(machines, len(model.loaded_buses))
    if model.compact is None:
        return from_mat(data, shapes, _edges(machines))
    arrays = from_mat(data, shapes, _edges(machines), sparse_ones=SPARSE)
    return arrays | from_sparse_arrays(arrays)


def check_fits(facts: GridFacts, bounds: Bounds, loaded: int) -> None:
    """Refuse a model that no bundle can hold, by its public sizes and numbers, before anything is
    drawn.
    """
    check_declared(facts, bounds)
    compact = is_compact(len(facts.machines), loaded)
    for name, shape in ReducedModel.shapes(len(facts.machines), loaded).items():
        if compact and name == SHARES:  # of which few are kept
            continue
        check_size(name, shape, "Nothing was drawn and nothing was written.", FEWER)


def _edges(machines: int) -> dict[str, IntArray]:
    """The pairs that k_r belongs to, from 1; left out of large models, where they would outweigh
    k_r.
    """
    return {"edges": complete_edges(machines) + 1} if machines <= EDGES_UP_TO else {}


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
