"""Read a bundle's files, from its folder or any zip of it: each bit as listed, and within limits
that a hostile one meets.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import struct
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from os import scandir
from pathlib import Path

from gridveil.foundation.archive import DOCUMENT, NOT_LOADED, SIGNATURE, SUMS, broken, canonical_zip
from gridveil.foundation.errors import BundleError, InputError
from gridveil.foundation.reading import read_regular

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,59}")
MOST_FILES = 100
# Bytes of one file and of all, for models whose two large matrices take 2 GiB each, and as much
# again in another format.
LARGEST = 2**33
LARGEST_OF = {
    DOCUMENT: 2**22,
    "README.md": 2**20,
    "certificate.json": 2**20,
    "certificate.txt": 2**20,
    "reference.csv": 2**23,
    "replay.json": 2**20,
    "replay.csv": 2**24,
    "ensemble.mat": 2**24,
    "card.html": 2**24,
    SUMS: 2**16,
    SIGNATURE: 2**10,
}
# What a zip may grow to: bytes in any case, and times its own size. Noisy numbers hardly shrink,
# documents tenfold.
ALWAYS, TIMES = 2**26, 20
# What Finder and Explorer leave in folders that they show.
OF_SYSTEM = {".DS_Store", "desktop.ini", "Thumbs.db"}
DIRECTORY_ENTRY = b"PK\x01\x02"
DESCRIPTOR = 24  # bytes that may follow an entry's data: its size and checksum, once more


@dataclass(frozen=True)
class Unpacked:
    """The files of a bundle.

    repacked : whether another program made the zip.
    ignored : files of its own, or of the system, that are no part of the bundle.
    """

    files: dict[str, bytes]
    repacked: bool = False
    ignored: int = 0


def read_files(path: Path) -> Unpacked:
    """Read all files of a folder or zip and compare them with its checksums; the signature alone is
    not listed.
    """
    try:
        unpacked = _read_zip(path) if path.is_file() else _read_folder(path)
    except OSError as error:
        raise broken(path, f"it cannot be read ({error.strerror})") from None
    check_sums(path, unpacked.files)
    return unpacked


def names_in(path: Path) -> set[str]:
    """Name the files of a zip, without the folder that holds them all; nothing where it cannot be
    read.
    """
    try:
        with _opened(path, read_regular(path, most=_size(path))) as archive:
            return set(_named(archive.infolist()))
    except (BundleError, OSError, zipfile.BadZipFile, NotImplementedError, ValueError):
        return set()


def check_sums(path: Path, files: Mapping[str, bytes]) -> None:
    """Compare files with the checksums among them."""
    if SUMS not in files:
        raise broken(path, f"{SUMS} is missing")
    listed = _parse_sums(path, files[SUMS])
    digests = {
        name: hashlib.sha256(data).hexdigest()
        for name, data in files.items()
        if name not in (SUMS, SIGNATURE)
    }
    problems = [f"{name} is missing" for name in sorted(listed.keys() - digests.keys())]
    problems += [
        f"{name} is not listed in {SUMS}" for name in sorted(digests.keys() - listed.keys())
    ]
    problems += [
        f"{name} was changed"
        for name in sorted(listed.keys() & digests.keys())
        if listed[name] != digests[name]
    ]
    if problems:
        raise broken(path, "; ".join(problems[:8]) + ("; …" if len(problems) > 8 else ""))


def _parse_sums(path: Path, data: bytes) -> dict[str, str]:
    lines = re.findall(rf"([0-9a-f]{{64}})  ({NAME.pattern})\n", data.decode("ascii", "replace"))
    listed = {name: digest for digest, name in lines}
    # Any other byte in it (a blank, a second entry, another order) is a change too.
    if "".join(f"{listed[name]}  {name}\n" for name in sorted(listed)).encode() != data:
        raise broken(path, f"{SUMS} was changed")
    return listed


def _read_folder(path: Path) -> Unpacked:
    if not path.is_dir():
        raise InputError(
            f"there is no bundle at {path}",
            outcome=NOT_LOADED,
            expected="a bundle's folder or its .zip",
            remedy="Check the path.",
        )
    if not (path / SUMS).exists() and (path / "bundle" / SUMS).exists():
        raise InputError(
            f"{path} is no bundle, but {path / 'bundle'} is",
            outcome=NOT_LOADED,
            remedy=f"Name {path / 'bundle'}.",
        )
    if not any((path / name).exists() for name in (SUMS, DOCUMENT)):
        raise InputError(
            f"{path} is no bundle: it holds no {SUMS}", outcome=NOT_LOADED, remedy="Check the path."
        )
    with scandir(path) as listing:
        members = sorted(islice(listing, MOST_FILES + 1), key=lambda member: member.name)
    if len(members) > MOST_FILES:
        raise broken(path, f"it holds more than {MOST_FILES} files")
    files: dict[str, bytes] = {}
    ignored = 0
    for member in members:
        if _is_of_system(member.name) and member.is_file(follow_symlinks=False):
            ignored += 1
            continue
        if member.is_symlink() or not member.is_file():
            raise broken(path, f"{member.name} is not a plain file, hence not listed in {SUMS}")
        _check_size(path, member.name, member.stat().st_size, sum(map(len, files.values())))
        files[member.name] = read_regular(Path(member.path), most=member.stat().st_size)
    return Unpacked(files, ignored=ignored)


def _read_zip(path: Path) -> Unpacked:
    data = read_regular(path, most=_size(path))
    if path.suffix != ".zip" and not data.startswith(b"PK"):
        folder = path.parent if (path.parent / SUMS).exists() else None
        raise InputError(
            f"{path} is no bundle" + (f", but a file of {folder}" if folder else ""),
            outcome=NOT_LOADED,
            expected="a bundle's folder or its .zip",
            remedy=f"Name {folder}." if folder else "Check the path.",
        )
    try:
        with _opened(path, data) as archive:
            _check_extents(path, data, archive)
            named = _named(archive.infolist())
            _check_entries(path, archive, named, max(ALWAYS, TIMES * len(data)))
            # Never more than announced: `read()` would first unpack whatever the data gives.
            files = {
                name: archive.open(entry).read(entry.file_size + 1) for name, entry in named.items()
            }
            folders = sum(map(_is_folder, archive.infolist()))
            ignored = len(archive.infolist()) - folders - len(files)
    except BundleError:
        raise
    except Exception as error:  # a damaged zip raises nearly anything
        raise broken(path, f"the zip is damaged ({type(error).__name__})") from None
    plain = ignored == 0 and all(
        entry.compress_type == zipfile.ZIP_STORED for entry in named.values()
    )
    return Unpacked(files, repacked=not (plain and canonical_zip(files) == data), ignored=ignored)


def _size(path: Path) -> int:
    """Size of a file, or what it may be at most: reading stops there."""
    return min(path.stat().st_size, LARGEST)


def _opened(path: Path, data: bytes) -> zipfile.ZipFile:
    # Counted before the directory is read, which makes an object of each.
    if data.count(DIRECTORY_ENTRY) > 10 * MOST_FILES:
        raise broken(path, "the zip holds too many files for a bundle")
    return zipfile.ZipFile(io.BytesIO(data))


def _check_extents(path: Path, data: bytes, archive: zipfile.ZipFile) -> None:
    """Refuse a zip whose entries overlap, so that all of them are no larger than the zip, or with
    anything beside them.
    """
    end, gap = 0, 0
    for entry in sorted(archive.infolist(), key=lambda one: one.header_offset):
        if not 0 <= entry.header_offset - end <= gap:
            raise broken(path, "the zip's entries overlap, or something lies between them")
        name, extra = struct.unpack_from("<HH", data, entry.header_offset + 26)
        end, gap = entry.header_offset + 30 + name + extra + entry.compress_size, DESCRIPTOR
    last = len(data) - 22 - len(archive.comment)
    if not 0 <= archive.start_dir - end <= gap or data[last : last + 4] != b"PK\x05\x06":
        raise broken(path, "the zip's entries overlap, or something lies behind them")


def _named(entries: Iterable[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Name the files, without the one folder that may hold them all; what systems add is left out.

    ValueError: two of a name.
    """
    files = [
        entry for entry in entries if not _is_folder(entry) and not _is_of_system(_name(entry))
    ]
    folders = {_name(entry).rpartition("/")[0] for entry in files}
    named = {
        _name(entry).rpartition("/")[2] if len(folders) == 1 else _name(entry): entry
        for entry in files
    }
    if len(named) < len(files):
        raise ValueError("two files of one name")
    return named


def _name(entry: zipfile.ZipInfo) -> str:
    r"""Name an entry with slashes: some programs of Windows write \, and Python reads it there."""
    return entry.filename.replace("\\", "/")


def _is_folder(entry: zipfile.ZipInfo) -> bool:
    return _name(entry).endswith("/")


def _is_of_system(name: str) -> bool:
    return name.startswith("__MACOSX/") or name.rpartition("/")[2] in OF_SYSTEM


def _check_entries(
    path: Path, archive: zipfile.ZipFile, named: Mapping[str, zipfile.ZipInfo], most: int
) -> None:
    """Refuse entries that are no plain files, lie in folders within the folder, or would grow
    far beyond the zip.
    """
    if len(named) > MOST_FILES:
        raise broken(path, f"it holds more than {MOST_FILES} files")
    for entry in archive.infolist():
        name = _name(entry)
        folder = name.rstrip("/").rpartition("/")[0]
        plain = _is_folder(entry) or stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG)
        known = (
            entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            and not entry.flag_bits & 1
        )
        if (
            not plain
            or not known
            or entry.orig_filename.replace("\\", "/") != name
            or (_is_folder(entry) and entry.file_size)
        ):
            raise broken(path, "the zip holds something that is not a plain file")
        if not _is_of_system(name) and (
            folder in (".", "..") or "/" in folder or name.startswith("/")
        ):
            raise broken(path, "the zip holds folders within folders")
    total = 0
    for name, entry in named.items():
        if not NAME.fullmatch(name):
            raise broken(path, "the zip holds a file whose name is none of a bundle's")
        _check_size(path, name, entry.file_size, total)
        total += entry.file_size
    if total > most:
        raise broken(
            path,
            "the zip unpacks to far more than its own size (unpack it and name the folder, if you "
            "trust it)",
        )


def _check_size(path: Path, name: str, size: int, before: int) -> None:
    if size > LARGEST_OF.get(name, LARGEST) or before + size > LARGEST:
        raise broken(path, f"{name} is larger than any that gridveil writes")
