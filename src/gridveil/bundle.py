"""The bundle: a release as a folder or as one canonical zip, written whole or not at all, and verified to the bit."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.document import from_document, to_document
from gridveil.errors import BundleError, GridveilError, OutputExists
from gridveil.grid import Array, complete_edges
from gridveil.recipient import readme
from gridveil.release import Release
from gridveil.schema import SCHEMA_VERSION, ReferenceDocument, ReleaseDocument

SUMS, DOCUMENT, ARRAYS, REFERENCE, README = "SHA256SUMS", "release.json", "model.mat", "reference.csv", "README.md"
MODEL_ARRAYS = ("k_r", "m", "d", "governor_rate", "droop_gain", "K_ac", "loads")
# The text in front of a MAT-file; SciPy would write the platform and the time there.
MAT_HEADER = b"MATLAB 5.0 MAT-file, gridveil release".ljust(116)
NOT_LOADED = "Nothing was loaded."


@dataclass(frozen=True)
class Report:
    """What `verify` found in an intact bundle. digest : SHA-256 of its checksum file, which names the bundle."""

    path: str
    demo: bool
    epsilon: str
    adjacency: str
    machines: int
    files: tuple[str, ...]
    digest: str


def write(release: Release, path: Path) -> Report:
    """Write a bundle atomically: whoever sees it sees all of it."""
    check_free(path)
    files = contents(release)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            if path.suffix == ".zip":
                _write_file(work / "bundle", canonical_zip(files))
                (work / "bundle").replace(path)
            else:
                folder = work / "bundle"
                folder.mkdir()
                for name, data in files.items():
                    _write_file(folder / name, data)
                folder.rename(path)
            _sync_folder(path.parent)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise GridveilError(
            f"The bundle could not be written to {path} ({error.strerror}).",
            outcome="No bundle was left there; the privacy budget of its draw stays spent.",
            remedy="Make room or choose another place with --out.",
        ) from None
    return _report(path, files, release)


def check_free(path: Path) -> None:
    """Refuse a place that is taken, before anything is drawn."""
    if path.exists() or path.is_symlink():
        raise OutputExists(str(path))
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)):
        raise GridveilError(
            f"{parent} is not a folder that this user may write to.",
            outcome="Nothing was drawn and nothing was written.",
            remedy="Name another place with --out.",
        )


def verify(path: str | Path) -> Report:
    """Check every bit of a bundle, its schema and its reference trajectory.

    Raises
    ------
    BundleError : naming each file that was changed, is missing or is not listed.
    """
    path = Path(path)
    files = _intact_files(path)
    release, document = _parse(path, files)
    if not _gives(release, document.reference, files[REFERENCE]):
        raise _broken(path, f"the model does not give its own reference trajectory, {REFERENCE}")
    return _report(path, files, release)


def _gives(release: Release, run: ReferenceDocument, stored: bytes) -> bool:
    """Whether a release answers the reference event as stored."""
    try:
        rows = [[float(cell) for cell in line.split(",")[1:]] for line in stored.decode("ascii").splitlines()[1:]]
        with np.errstate(all="ignore"):
            omega = release.simulate(run.event, horizon_s=run.horizon_s, dt_s=run.dt_s, scheme=run.scheme).omega
            expected = np.array(rows)
            # Not `>`: a NaN compares as neither.
            return expected.shape == omega.shape and bool(np.abs(expected - omega).max() <= 1e-9 * np.abs(expected).max())
    except (GridveilError, ValueError):
        return False


def load(path: str | Path) -> Release:
    """Load a bundle, once its checksums and its schema hold."""
    path = Path(path)
    return _parse(path, _intact_files(path))[0]


def contents(release: Release) -> dict[str, bytes]:
    """Make the files of a bundle: a function of the release alone (no time, no user, no platform)."""
    document = to_document(release)
    run = document.reference
    reference = release.simulate(run.event, horizon_s=run.horizon_s, dt_s=run.dt_s, scheme=run.scheme)
    files = {
        DOCUMENT: (json.dumps(document.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode(),
        ARRAYS: _to_mat({name: getattr(release.model, name) for name in MODEL_ARRAYS} | {"edges": release.model.edges + 1}),
        REFERENCE: reference.to_csv().encode(),
        README: readme(release, document).encode(),
    }
    return dict(sorted({**files, SUMS: _sums(files)}.items()))


def canonical_zip(files: Mapping[str, bytes]) -> bytes:
    """Pack files so that the same bundle always gives the same bytes: sorted, stored, without times."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def _intact_files(path: Path) -> dict[str, bytes]:
    """Read all files of a bundle and compare them with its checksums."""
    try:
        files = _read_zip(path) if path.is_file() else _read_folder(path)
    except OSError as error:
        raise _broken(path, f"it cannot be read ({error.strerror})") from None
    if SUMS not in files:
        raise _broken(path, f"{SUMS} is missing")
    listed = _parse_sums(path, files[SUMS])
    found = {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != SUMS}
    problems = [f"{name} is missing" for name in sorted(listed.keys() - found.keys())]
    problems += [f"{name} is not listed in {SUMS}" for name in sorted(found.keys() - listed.keys())]
    problems += [f"{name} was changed" for name in sorted(listed.keys() & found.keys()) if listed[name] != found[name]]
    if problems:
        raise _broken(path, "; ".join(problems))
    missing = {DOCUMENT, ARRAYS, REFERENCE, README} - files.keys()
    if missing:
        raise _broken(path, f"{', '.join(sorted(missing))} is missing")
    return files


def _read_folder(path: Path) -> dict[str, bytes]:
    if not path.is_dir():
        raise _broken(path, "there is no such folder or zip")
    files: dict[str, bytes] = {}
    for member in sorted(path.iterdir()):
        if member.is_symlink() or not member.is_file():
            raise _broken(path, f"{member.name} is not a plain file, hence not listed in {SUMS}")
        files[member.name] = member.read_bytes()
    return files


def _read_zip(path: Path) -> dict[str, bytes]:
    data = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED or entry.file_size > len(data) for entry in archive.infolist()):
                raise _broken(path, "the zip is not the canonical one")
            files = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    except BundleError:
        raise
    except Exception as error:  # a damaged zip raises nearly anything
        raise _broken(path, f"the zip is damaged ({type(error).__name__})") from None
    if canonical_zip(files) != data:
        raise _broken(path, "the zip's own bytes were changed: it is not the canonical one")
    return files


def _parse(path: Path, files: Mapping[str, bytes]) -> tuple[Release, ReleaseDocument]:
    from pydantic import ValidationError

    try:
        data = json.loads(files[DOCUMENT])
        version = data["schema_version"]
    except (KeyError, TypeError, ValueError):
        raise _broken(path, f"{DOCUMENT} is missing or is no release document") from None
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
        raise _broken(
            path, f"{DOCUMENT} or {ARRAYS} does not follow schema {SCHEMA_VERSION} ({type(error).__name__})"
        ) from None
    if ("demo" in document.guarantee.mechanism) != document.demo:
        raise _broken(path, "its demo flag and its mechanism contradict each other")
    return release, document


def _to_mat(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Write arrays as an uncompressed level-5 MAT-file, which NumPy (SciPy), MATLAB, Octave and Julia read."""
    from scipy.io import savemat

    buffer = io.BytesIO()
    savemat(buffer, dict(arrays), format="5", do_compression=False, oned_as="column")
    return MAT_HEADER + buffer.getvalue()[len(MAT_HEADER) :]


def _from_mat(data: bytes, machines: int, loaded: int) -> dict[str, Array]:
    """Read what `_to_mat` writes, and nothing else: SciPy's reader crashes on some files that were tampered with."""
    g, edges = machines, complete_edges(machines)
    shapes = dict.fromkeys(MODEL_ARRAYS, (g,)) | {"k_r": (len(edges),), "K_ac": (g, loaded), "loads": (g + loaded,)}
    arrays: dict[str, Array] = {}
    end = len(MAT_HEADER) + 12
    for name, shape in shapes.items():
        empty = np.zeros(shape)
        end += len(_to_mat({name: empty})) - len(MAT_HEADER) - 12  # an array is stored last in its element, column by column
        arrays[name] = np.frombuffer(data[end - empty.nbytes : end], "<f8").reshape(shape, order="F")
    if _to_mat(arrays | {"edges": edges + 1}) != data:
        raise ValueError("not what gridveil writes")
    if not all(np.isfinite(values).all() for name, values in arrays.items() if name != "loads") or (arrays["m"] <= 0).any():
        raise ValueError("not a model")
    return arrays


def _sums(files: Mapping[str, bytes]) -> bytes:
    """Write checksums as `sha256sum -c` reads them."""
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)).encode()


def _parse_sums(path: Path, data: bytes) -> dict[str, str]:
    lines = re.findall(r"([0-9a-f]{64})  ([A-Za-z0-9_.-]+)\n", data.decode("ascii", "replace"))
    listed = {name: digest for digest, name in lines}
    # Any other byte in it (a blank, a second entry, another order) is a change too.
    if "".join(f"{listed[name]}  {name}\n" for name in sorted(listed)).encode() != data:
        raise _broken(path, f"{SUMS} was changed")
    return listed


def _report(path: Path, files: Mapping[str, bytes], release: Release) -> Report:
    return Report(
        path=str(path),
        demo=release.demo,
        epsilon=str(release.guarantee.epsilon),
        adjacency=release.guarantee.rule,
        machines=len(release.model.m),
        files=tuple(sorted(files)),
        digest=hashlib.sha256(files[SUMS]).hexdigest(),
    )


def _write_file(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    with suppress(OSError):  # not every file system can
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _broken(path: Path, problem: str) -> BundleError:
    return BundleError(
        f"{path}: {problem}.",
        outcome=NOT_LOADED,
        remedy="Do not use it; ask its publisher for the bundle again.",
    )
