"""MAT-files of level 5, whose bytes depend on their content alone. Those of bundles hold plain
matrices: written without copies, and read back only if they are what we write. Those of exports
hold texts as well, and are written by SciPy.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gridveil.foundation.errors import GridveilError

# The text in front of a MAT-file; SciPy would write the platform and the time there.
HEADER = b"MATLAB 5.0 MAT-file, gridveil release".ljust(116) + bytes(8) + b"\x00\x01IM"
EXPORT_HEADER = b"MATLAB 5.0 MAT-file, gridveil export".ljust(116)
KINDS = {"f8": (6, 9), "f4": (7, 7), "i8": (14, 12)}  # class of matrix, type of data
LARGEST = 2**31 - 1  # bytes of one matrix that MATLAB reads from a file of this level
NOT_WRITTEN = "No bundle was written; the privacy budget of its draw stays spent."
FEWER = (
    "Reduce the grid to fewer machines and loaded buses, or release its islands one by one "
    "(--island)."
)

Matrix = NDArray[np.float64] | NDArray[np.float32] | NDArray[np.int64] | sparse.csc_array
Kind = Literal["f8", "f4"]


def to_mat(arrays: Mapping[str, Matrix]) -> bytes:
    """Write matrices, uncompressed; vectors become columns, sparse ones stay sparse.

    NumPy (SciPy), MATLAB, Octave and Julia read it.
    """
    parts: list[bytes | memoryview] = [HEADER]
    for name, matrix in arrays.items():
        if isinstance(matrix, sparse.csc_array):
            parts += _sparse(name, matrix)
            continue
        check_size(name, matrix.shape, NOT_WRITTEN, FEWER)
        parts.append(_head(name, matrix.dtype.str[1:], matrix.shape))
        # .T of an array in column order is one in row order: a view, where order="F" would copy.
        parts.append(np.ascontiguousarray(matrix.T).data.cast("B") if matrix.size else b"")
        parts.append(bytes(-matrix.nbytes % 8))
    return b"".join(parts)


def check_size(name: str, shape: tuple[int, ...], outcome: str, remedy: str) -> None:
    """Refuse a matrix that a MAT-file of this level cannot hold."""
    if 8 * prod(shape) > LARGEST:
        raise GridveilError(
            f"The matrix {name} takes {8 * prod(shape) / 2**30:.1f} GiB, and a MAT-file of level 5 "
            "holds 2 GiB at most.",
            outcome=outcome,
            remedy=remedy,
        )


def mat_file(content: Mapping[str, Any]) -> bytes:
    """Write matrices, numbers, texts, cells and structs of an export, uncompressed; vectors become
    columns.
    """
    from scipy.io import savemat

    remedy = "Use the bundle from Python: gridveil.load gives the arrays as they are."
    for name, values in content.items():
        if isinstance(values, np.ndarray) and values.dtype != object:
            check_size(name, values.shape, "Nothing was written.", remedy)
    buffer = io.BytesIO()
    savemat(buffer, dict(content), format="5", do_compression=False, oned_as="column")
    return EXPORT_HEADER + buffer.getvalue()[len(EXPORT_HEADER) :]


def cells(texts: Sequence[str]) -> NDArray[np.object_]:
    """Turn texts into a column of cells (n, 1): MATLAB's char arrays would pad them."""
    column = np.empty((len(texts), 1), dtype=object)
    column[:, 0] = texts
    return column


def _sparse(name: str, matrix: sparse.csc_array) -> list[bytes | memoryview]:
    """A matrix as MATLAB's sparse class has it: rows of the entries, where columns begin, and the
    entries.
    """
    check_size(name, (2 * matrix.nnz,), NOT_WRITTEN, FEWER)
    shape = tuple(matrix.shape)  # pyright: ignore[reportArgumentType]
    parts: list[bytes | memoryview] = []
    parts.append(_sparse_head(name, shape, matrix.nnz))
    for kind, numbers in (
        (5, matrix.indices.astype("<i4")),
        (5, matrix.indptr.astype("<i4")),
        (9, matrix.data),
    ):
        parts.append(struct.pack("<2I", kind, numbers.nbytes))
        parts.append(np.ascontiguousarray(numbers).data.cast("B") if numbers.size else b"")
        parts.append(bytes(-numbers.nbytes % 8))
    return parts


def _sparse_head(name: str, shape: tuple[int, ...], entries: int) -> bytes:
    """What stands in front of a sparse matrix's numbers."""
    rows, columns = (*shape, 1)[:2]
    flags = struct.pack("<4I", 6, 8, 5, entries)
    front = flags + struct.pack("<2I2i", 5, 8, rows, columns) + _label(name)
    sizes = (4 * entries, 4 * (columns + 1), 8 * entries)
    whole = len(front) + sum(8 + size + -size % 8 for size in sizes)
    return struct.pack("<2I", 14, whole) + front


def _read_sparse(
    data: bytes, start: int, name: str, shape: tuple[int, ...]
) -> tuple[sparse.csc_array, int]:
    """A sparse matrix that begins at some byte, and where it ends. Entries are listed by column,
    then by row, each once; what they are, others check.
    """
    rows, columns = (*shape, 1)[:2]
    if len(data) < start + 24:
        raise ValueError("not what gridveil writes")
    (entries,) = struct.unpack_from("<I", data, start + 20)
    if 16 * entries > LARGEST or max(rows, columns) > LARGEST:
        raise ValueError("not what gridveil writes")
    head = _sparse_head(name, shape, entries)
    at, found = start + len(head), []
    if data[start:at] != head:
        raise ValueError("not what gridveil writes")
    for kind, dtype, count in ((5, "<i4", entries), (5, "<i4", columns + 1), (9, "<f8", entries)):
        size = int(dtype[2]) * count
        end = at + 8 + size + -size % 8
        if (
            len(data) < end
            or data[at : at + 8] != struct.pack("<2I", kind, size)
            or any(data[at + 8 + size : end])
        ):
            raise ValueError("not what gridveil writes")
        found.append(np.frombuffer(data, dtype, count=count, offset=at + 8))
        at = end
    index, first, values = found
    if first[0] != 0 or first[-1] != entries or (np.diff(first) < 0).any():
        raise ValueError("not what gridveil writes")
    if entries and not (index.min() >= 0 and index.max() < rows):
        raise ValueError("not what gridveil writes")
    rising = np.diff(index) > 0
    begins = first[1:-1][(first[1:-1] > 0) & (first[1:-1] < entries)]
    rising[begins - 1] = True  # a new column
    if not rising.all():
        raise ValueError("not what gridveil writes")
    return sparse.csc_array((values, index, first), shape=(rows, columns)), at


def from_mat(
    data: bytes,
    shapes: Mapping[str, tuple[int, ...]],
    rest: Mapping[str, Matrix],
    kind: Kind = "f8",
    *,
    sparse_ones: Collection[str] = (),
) -> dict[str, Any]:
    """Read float matrices as views, from exactly what `to_mat` writes: SciPy's reader crashes on
    some tampered files.

    rest : matrices that stand behind them and are known. kind : f4 of single precision.
    sparse_ones : names of those that are sparse. ValueError if a byte other than the numbers is not
    as written.
    """
    arrays: dict[str, Any] = {}
    end = len(HEADER)
    for name, shape in shapes.items():
        size = int(kind[1]) * prod(shape)
        if name in sparse_ones:
            arrays[name], end = _read_sparse(data, end, name, shape)
            continue
        if size > LARGEST:  # in a tampered document
            raise ValueError("not what gridveil writes")
        start, pad = end + len(_head(name, kind, shape)), -size % 8
        end = start + size + pad
        if len(data) < end:
            raise ValueError("not what gridveil writes")
        arrays[name] = np.frombuffer(
            data, f"<{kind}", count=size // int(kind[1]), offset=start
        ).reshape(shape, order="F")
        head = _head(name, kind, shape)
        if data[start - len(head) : start] != head or any(data[end - pad : end]):
            raise ValueError("not what gridveil writes")
    tail = to_mat(rest)[len(HEADER) :]
    if data[: len(HEADER)] != HEADER or len(data) != end + len(tail) or data[end:] != tail:
        raise ValueError("not what gridveil writes")
    return arrays


def _head(name: str, kind: str, shape: tuple[int, ...]) -> bytes:
    """What stands in front of a matrix's numbers."""
    rows, columns = (*shape, 1)[:2] if shape != (0,) else (0, 0)  # as SciPy has it
    matrix_class, data_type = KINDS[kind]
    flags = struct.pack("<4I", 6, 8, matrix_class, 0)
    dimensions = struct.pack("<2I2i", 5, 8, rows, columns)
    size = int(kind[1]) * rows * columns
    rest = flags + dimensions + _label(name) + struct.pack("<2I", data_type, size)
    return struct.pack("<2I", 14, len(rest) + size + -size % 8) + rest


def _label(name: str) -> bytes:
    """A matrix's name, as its element has it."""
    text = name.encode("ascii")
    if len(text) <= 4:  # a small element: its length shares a word with its type
        return struct.pack("<HH", 1, len(text)) + text.ljust(4, b"\0")
    return struct.pack("<2I", 1, len(text)) + text.ljust(-(-len(text) // 8) * 8, b"\0")
