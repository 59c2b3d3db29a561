"""The bundle: a release as a folder or as one canonical zip, certified, signed, and verified to the bit."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ValidationError

from gridveil.archive import DOCUMENT, NOT_LOADED, SIGNATURE, SUMS, broken, check_free, checksums, read_files, write_files
from gridveil.certificate import CertificateDocument, certify, in_plain_words
from gridveil.document import from_document, to_document
from gridveil.errors import BundleError, GridveilError
from gridveil.export import FORMATS, export, format_named
from gridveil.grid import Array, IntArray, complete_edges
from gridveil.matfile import check_size, from_mat, to_mat
from gridveil.recipient import readme
from gridveil.release import Release
from gridveil.schema import EDGES_UP_TO, SCHEMA_VERSION, ExportDocument, ReferenceDocument, ReleaseDocument
from gridveil.signing import KeyInfo, Signer, TrustedKeys, check_signature
from gridveil.stages import stage
from gridveil.trajectory import Trajectory

ARRAYS, REFERENCE, README = "model.mat", "reference.csv", "README.md"
CERTIFICATE, IN_WORDS = "certificate.json", "certificate.txt"
OWN_FILES = {DOCUMENT, ARRAYS, REFERENCE, README, CERTIFICATE, IN_WORDS, SUMS, SIGNATURE}
MODEL_ARRAYS = ("k_r", "m", "d", "governor_rate", "droop_gain", "K_ac", "loads")


@dataclass(frozen=True)
class Report:
    """What `verify` found in an intact bundle.

    digest : SHA-256 of its checksum file, which names the bundle; signed_by : public key in hex, None if nobody signed;
    trusted : whether that key is one that the recipient named; exports : formats of other tools that it holds;
    not_recomputed : those of them that another version of gridveil wrote, which only their checksums vouch for.
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
    exports: tuple[str, ...] = ()
    not_recomputed: tuple[str, ...] = ()


def write(release: Release, path: Path, signer: Signer | None = None, formats: Sequence[str] = ()) -> Report:
    """Write a bundle, certified and signed, whole or not at all."""
    check_free(path)
    files = contents(release, signer, formats)
    write_files(path, files)
    return _report(path, files, release)


def verify(path: str | Path, key: str | Path | None = None) -> Report:
    """Check every bit of a bundle, its schema, certificate, signature and reference trajectory.

    key : a public key (PEM) or keyring that the recipient trusts; the bundle must then be signed by it.

    Raises
    ------
    BundleError : naming each file that was changed, is missing or is not listed, or the key that is not trusted.
    """
    path = Path(path)
    files = read_files(path)
    release, document = _parse(path, files)
    if not _gives(release, document.reference, files[REFERENCE]):
        raise broken(path, f"the model does not give its own reference trajectory, {REFERENCE}")
    report = replace(_report(path, files, release), not_recomputed=_check_exports(path, files, release, document))
    if key is not None:
        _check_trusted(path, report, Path(key))
        report = replace(report, trusted=True)
    return report


def is_bundle(path: Path) -> bool:
    """Whether a folder or a zip sets out to be a bundle; whether it is one, `verify` says."""
    try:
        if path.is_dir():
            return any((path / name).exists() for name in (DOCUMENT, SUMS))
        if not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as archive:
            return not {DOCUMENT, SUMS}.isdisjoint(archive.namelist())
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError):  # what is wrong with it, whoever reads it says
        return False


def load(path: str | Path) -> Release:
    """Load a bundle, once its checksums, schema, certificate and signature hold."""
    return load_named(path)[0]


def load_named(path: str | Path) -> tuple[Release, str]:
    """Load a bundle, and the digest that names it: SHA-256 of its checksum file."""
    path = Path(path)
    files = read_files(path)
    return _parse(path, files)[0], _digest(files)


def contents(release: Release, signer: Signer | None = None, formats: Sequence[str] = ()) -> dict[str, bytes]:
    """Make the files of a bundle: a function of its arguments alone (no time, no user, no platform)."""
    if not release.demo and release.receipt is None:
        raise GridveilError(
            "A release that was loaded cannot be written again: its certificate belongs to the bundle it came in.",
            remedy="Copy that bundle.",
        )
    exported = {name: export(release, name) for name in formats}
    listed = tuple(ExportDocument(format=n, version=format_named(n).version, files=tuple(f)) for n, f in exported.items())
    document = to_document(release).model_copy(update={"exports": listed})
    run = document.reference
    stage("simulating the reference")
    reference = _reference(release, run)
    stage("writing the bundle")
    files = {
        DOCUMENT: _json(document),
        ARRAYS: to_mat({name: getattr(release.model, name) for name in MODEL_ARRAYS} | _edges(len(release.model.m))),
        REFERENCE: reference.to_csv().encode(),
        README: readme(release, document).encode(),
    }
    for made in exported.values():
        files |= made
    if release.demo:  # nobody certifies or signs a demo
        return dict(sorted((files | {SUMS: checksums(files)}).items()))
    certificate = certify(release, signer.public_key if signer else None)
    files |= {CERTIFICATE: _json(certificate), IN_WORDS: in_plain_words(certificate).encode()}
    files[SUMS] = checksums(files)
    if signer:
        files[SIGNATURE] = signer.sign(files[SUMS])
    return dict(sorted(files.items()))


def _reference(release: Release, run: ReferenceDocument) -> Trajectory:
    return release.simulate(run.event, horizon_s=run.horizon_s, dt_s=run.dt_s, scheme=run.scheme, buses=run.buses or None)


def _gives(release: Release, run: ReferenceDocument, stored: bytes) -> bool:
    """Whether a release answers the reference event as stored."""
    try:
        rows = [[float(cell) for cell in line.split(",")[1:]] for line in stored.decode("ascii").splitlines()[1:]]
        with np.errstate(all="ignore"):
            omega = _reference(release, run).omega
            expected = np.array(rows)
            # Not `>`: a NaN compares as neither.
            return expected.shape == omega.shape and bool(np.abs(expected - omega).max() <= 1e-9 * np.abs(expected).max())
    except (GridveilError, ValueError):
        return False


def _parse(path: Path, files: Mapping[str, bytes]) -> tuple[Release, ReleaseDocument]:
    missing = {DOCUMENT, ARRAYS, REFERENCE, README} - files.keys()
    if missing:
        raise broken(path, f"{', '.join(sorted(missing))} is missing")
    try:
        version = json.loads(files[DOCUMENT])["schema_version"]
    except (KeyError, TypeError, ValueError):
        raise broken(path, f"{DOCUMENT} is no release document") from None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BundleError(
            f"{path}: its schema is version {version}, and this gridveil knows up to {SCHEMA_VERSION}.",
            outcome=NOT_LOADED,
            remedy="Upgrade gridveil: pip install --upgrade gridveil.",
        )
    try:
        document = ReleaseDocument.model_validate_json(files[DOCUMENT])
        m = document.model
        release = from_document(document, _from_mat(files[ARRAYS], len(m.machines), len(m.loaded_buses)))
    except (ValidationError, GridveilError, KeyError, ValueError) as error:
        problem = f"{DOCUMENT} or {ARRAYS} does not follow schema {SCHEMA_VERSION} ({type(error).__name__})"
        raise broken(path, problem) from None
    if ("demo" in document.guarantee.mechanism) != document.demo:
        raise broken(path, "its demo flag and its mechanism contradict each other")
    shown = document.guarantee.groups.k is not None or m.loaded_buses != ("L1",) or len(np.unique(release.model.k_r)) > 1
    if document.guarantee.hides_network and shown:
        raise broken(path, "it claims to hide the network, and shows one")
    _check_announced(path, files, document)
    _check_certificate(path, files, document)
    return release, document


def _check_announced(path: Path, files: Mapping[str, bytes], document: ReleaseDocument) -> None:
    """Every file is one of a bundle's own or of an export that its document names."""
    announced = {name for one in document.exports for name in one.files}
    if strangers := files.keys() - OWN_FILES - announced:
        raise broken(path, f"{', '.join(sorted(strangers))} is not announced in {DOCUMENT}")
    if missing := announced - files.keys():
        raise broken(path, f"{', '.join(sorted(missing))} is missing")
    if doubled := announced & OWN_FILES:
        raise broken(path, f"{', '.join(sorted(doubled))} is not a file of an export")


def _check_exports(path: Path, files: Mapping[str, bytes], release: Release, document: ReleaseDocument) -> tuple[str, ...]:
    """Write every export again; return the formats that another version wrote, whose bytes this one cannot make."""
    others = []
    for one in document.exports:
        if one.format not in FORMATS or FORMATS[one.format].version != one.version:
            others.append(one.format)
        elif _exported(release, one.format) != {name: files[name] for name in one.files}:
            raise broken(path, f"{' or '.join(one.files)} is not what the model gives in the format {one.format}")
    return tuple(others)


def _exported(release: Release, name: str) -> dict[str, bytes]:
    """What a release gives in a format: nothing where it cannot be written in it."""
    try:
        return export(release, name)
    except (GridveilError, ArithmeticError, ValueError, StopIteration):  # a forged model may hold numbers of any size
        return {}


def _check_certificate(path: Path, files: Mapping[str, bytes], document: ReleaseDocument) -> None:
    """A real release has a certificate that says the same as its document, and the signature that it speaks of."""
    if document.demo:
        if present := {CERTIFICATE, IN_WORDS, SIGNATURE} & files.keys():
            raise broken(path, f"a demo has no {', '.join(sorted(present))}")
        return
    try:
        certificate = CertificateDocument.model_validate_json(files[CERTIFICATE])
        words = in_plain_words(certificate).encode()
    except (KeyError, ValueError, OverflowError):  # a forged one may hold numbers of any size
        raise broken(path, f"{CERTIFICATE} is missing or is no certificate") from None
    g = document.guarantee
    stated = (certificate.adjacency, certificate.epsilon_asked, certificate.epsilon_charged, certificate.groups)
    if stated != (g.adjacency, g.epsilon, g.spent, g.groups) or files.get(IN_WORDS) != words:
        raise broken(path, f"{CERTIFICATE}, {IN_WORDS} and {DOCUMENT} contradict each other")
    signed_by = certificate.signed_by
    if (signed_by is None) != (SIGNATURE not in files):
        raise broken(path, f"{SIGNATURE} is missing" if signed_by else f"{SIGNATURE} is not announced in {CERTIFICATE}")
    if signed_by and not check_signature(bytes.fromhex(signed_by), files[SIGNATURE], files[SUMS]):
        raise broken(path, f"{SIGNATURE} is not the signature of the key in {CERTIFICATE}")


def _check_trusted(path: Path, report: Report, key: Path) -> None:
    if report.signed_by is None:
        raise broken(path, "it is not signed" + (": nobody signs a demo" if report.demo else ""))
    signed = bytes.fromhex(report.signed_by)
    status = TrustedKeys.read(key).status(signed)
    if status in ("revoked", "unknown"):
        told = "was revoked by its owner" if status == "revoked" else f"is not in {key}"
        raise broken(path, f"it is signed by the key {KeyInfo(signed, 'active').id}, which {told}")


def _json(document: BaseModel) -> bytes:
    return (json.dumps(document.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode()


def _from_mat(data: bytes, machines: int, loaded: int) -> dict[str, Array]:
    """Read the model's arrays, if they are a model's."""
    arrays = from_mat(data, _shapes(machines, loaded), _edges(machines))
    if not all(np.isfinite(values).all() for name, values in arrays.items() if name != "loads") or (arrays["m"] <= 0).any():
        raise ValueError("not a model")
    return arrays


def _shapes(machines: int, loaded: int) -> dict[str, tuple[int, ...]]:
    g = machines
    return dict.fromkeys(MODEL_ARRAYS, (g,)) | {"k_r": (g * (g - 1) // 2,), "K_ac": (g, loaded), "loads": (g + loaded,)}


def check_fits(machines: int, loaded: int) -> None:
    """Refuse a model that no bundle can hold, by its public sizes, before anything is drawn."""
    for name, shape in _shapes(machines, loaded).items():
        check_size(name, shape, "Nothing was drawn and nothing was written.")


def _edges(machines: int) -> dict[str, IntArray]:
    """The pairs that k_r belongs to, from 1; left out of large models, where they would outweigh k_r."""
    return {"edges": complete_edges(machines) + 1} if machines <= EDGES_UP_TO else {}


def _digest(files: Mapping[str, bytes]) -> str:
    return hashlib.sha256(files[SUMS]).hexdigest()


def _report(path: Path, files: Mapping[str, bytes], release: Release) -> Report:
    return Report(
        path=str(path),
        demo=release.demo,
        epsilon=str(release.guarantee.epsilon),
        adjacency=release.guarantee.rule,
        machines=len(release.model.m),
        files=tuple(sorted(files)),
        digest=_digest(files),
        signed_by=json.loads(files[CERTIFICATE])["signed_by"] if CERTIFICATE in files else None,
        trusted=False,
        exports=tuple(one["format"] for one in json.loads(files[DOCUMENT]).get("exports", ())),
    )
