"""Folders and canonical zips of files with checksums: written whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os.path import lexists
from pathlib import Path

from gridveil.foundation import crash_points
from gridveil.foundation.errors import BundleError, GridveilError, OptionError, OutputExists
from gridveil.foundation.files import sync_folder, workplace, write_synced

SUMS, SIGNATURE, DOCUMENT = "SHA256SUMS", "SHA256SUMS.sig", "release.json"
NOT_LOADED = "Nothing was loaded."
# How disks without hard links say so; EINVAL: on Windows.
NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


def inside_bundle(path: Path, *names: str) -> bool:
    """Whether a place, links followed, lies in a bundle: a folder that holds all these files."""
    try:
        return any(
            all((folder / name).exists() for name in names)
            for folder in path.absolute().resolve().parents
        )
    except (OSError, RuntimeError):
        # names that are too long, links in a circle: whoever writes there says so
        return False


def check_outside_bundles(path: Path) -> None:
    """Refuse a place inside a bundle, which would no longer verify with another file in it."""
    if inside_bundle(path, SUMS, DOCUMENT):
        raise OptionError(
            f"{path} lies inside a bundle, which would no longer verify.",
            outcome="Nothing was drawn and nothing was written.",
            remedy="Name a place outside it.",
        )


def check_free(path: Path) -> None:
    """Refuse a place that is taken, not writable or inside a bundle, before anything is drawn."""
    try:
        taken = path.exists() or path.is_symlink()
        parent = next(
            folder for folder in path.absolute().parents if folder.exists() or folder.is_symlink()
        )
        for name in path.absolute().parts:
            # of a folder that is still to be made, only this tells that its name is too long
            (parent / name).exists()
    except OSError as error:
        raise GridveilError(
            f"{path} cannot be written ({error.strerror}).",
            outcome="Nothing was drawn and nothing was written.",
            remedy="Name another place with --out.",
        ) from None
    if taken:
        raise OutputExists(str(path))
    check_outside_bundles(path)
    try:
        with workplace(parent):
            pass
    except OSError as error:
        raise GridveilError(
            f"{parent} is not a folder that this user may write to ({error.strerror}).",
            outcome="Nothing was drawn and nothing was written.",
            remedy="Name another place with --out.",
        ) from None


def check_free_folder(path: Path) -> None:
    """Refuse a place where no new folder can be made, before any work is done for it."""
    if path.suffix == ".zip":
        raise OptionError(
            f"--out {path} ends in .zip, and what is written there is a folder.",
            expected="the name of a new folder",
            outcome="Nothing was computed and nothing was written.",
            remedy="Name a folder with --out, and pack it afterwards.",
        )
    check_free(path)


def write_files(
    path: Path,
    files: Mapping[str, bytes],
    *,
    what: str = "The folder",
    outcome: str = "Nothing was left there.",
) -> None:
    """Write files in one move, as a folder or as one zip if the path ends in .zip.

    what, outcome : how an error calls it, and what did not happen.
    """
    try:
        with _in_one_move(path) as made:
            if path.suffix == ".zip":
                write_synced(made, canonical_zip(files))
            else:
                _fill(made, files)
    except OSError as error:
        raise GridveilError(
            f"{what} could not be written to {path} ({error.strerror}).",
            outcome=outcome,
            remedy="Make room or choose another place with --out.",
        ) from None


def write_new(path: Path, data: bytes, *, what: str, mode: int = 0o666) -> None:
    """Write one new file, for those whom its mode admits, in one move. `check_free` comes before.

    what : how an error calls it.
    """
    try:
        with _in_one_move(path) as made:
            write_synced(made, data, mode)
    except OSError as error:
        raise GridveilError(
            f"{what} could not be written to {path} ({error.strerror}).",
            outcome="Nothing was left there.",
            remedy="Make room or choose another place with --out.",
        ) from None


@contextmanager
def _in_one_move(path: Path) -> Iterator[Path]:
    """Give a place beside a path to make something at; move it there once it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with workplace(path.parent) as made:
        crash_points.step("bundle-begun")
        yield made
        _move(made, path)
        sync_folder(path.parent)
        crash_points.step("bundle-moved")


def _move(made: Path, path: Path) -> None:
    """Move what was made to its place; never replace a file that appeared there meanwhile."""
    if made.is_file():
        try:
            path.hardlink_to(made)
            return
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
    if lexists(path):
        raise FileExistsError(errno.EEXIST, "File exists", str(path))
    made.rename(path)


def _fill(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, data in files.items():
        write_synced(folder / name, data)
        crash_points.step("bundle-half")
    sync_folder(folder)


def canonical_zip(files: Mapping[str, bytes]) -> bytes:
    """Pack files so that equal files give equal bytes: sorted, stored, without times."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def checksums(files: Mapping[str, bytes]) -> bytes:
    """Write checksums as `sha256sum -c` reads them."""
    return "".join(
        f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)
    ).encode()


def broken(path: Path, problem: str) -> BundleError:
    """Say what is wrong with a bundle."""
    return BundleError(
        f"{path}: {problem}.",
        outcome=NOT_LOADED,
        remedy="Do not use it; ask its publisher for the bundle again.",
    )
