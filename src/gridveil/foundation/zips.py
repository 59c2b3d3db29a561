"""Zip files, unpacked warily: what their directory says is checked first, so that none swells,
overlaps or fills the memory.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

from gridveil.foundation.limits import MOST_FILES

PLAIN = (
    zipfile.ZIP_STORED,
    zipfile.ZIP_DEFLATED,
)  # zipfile unpacks the others whole, whatever size they say


class BadZip(Exception):
    """A zip that is not unpacked; its words say why, and hold nothing of its content."""


def unzipped(
    data: bytes, *, most: int, wanted: Callable[[str], bool] = lambda _: True
) -> list[tuple[str, bytes]]:
    """Unpack the wanted files of a zip. most : bytes that all its files may take, wanted or not.

    Raises
    ------
    BadZip : for a zip that is damaged, too large, of too many files, of overlapping ones or packed
    in another way.
    """
    problem = "cut off or damaged"
    if (
        data.count(b"PK\1\2") > 10 * MOST_FILES
    ):  # a directory's entry each; zips within it have their own
        raise BadZip("of too many files")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len(entries) > MOST_FILES:
                problem = "of too many files"
            elif sum(entry.file_size for entry in entries) > most:
                problem = "too large once unpacked"
            elif sum(entry.compress_size for entry in entries) > len(data):
                problem = "of files that overlap"
            elif any(entry.compress_type not in PLAIN for entry in entries):
                problem = "packed in an unusual way"
            else:
                return [
                    (entry.filename, archive.read(entry))
                    for entry in entries
                    if wanted(entry.filename)
                ]
    except Exception:  # noqa: S110 - zipfile passes on what its codecs raise, and trips over names itself
        pass
    raise BadZip(problem)  # out here: the decoder's error would become its context
