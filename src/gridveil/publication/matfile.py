"""MAT-files of level 5 with plain matrices: written without copies, and read back only if they are
what we write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from gridveil.foundation.errors import GridveilError
from gridveil.grid.facts import Array

# The text in front of a MAT-file; SciPy would write the platform and the time there.
HEADER = b"MATLAB 5.0 MAT-file, gridveil release".ljust(116) + bytes(8) + b"\x00\x01IM"
KINDS = {"f8": (6, 9), "i8": (14, 12)}  # class of matrix, type of data
LARGEST = 2**31 - 1  # bytes of one matrix that MATLAB reads from a file of this level

Matrix = NDArray[np.float64] | NDArray[np.int64]


def to_mat(arrays: Mapping[str, Matrix]) -> bytes:
    """Write matrices, uncompressed; vectors become columns.

    NumPy (SciPy), MATLAB, Octave and Julia read it.
    """
    parts: list[bytes | memoryview] = [HEADER]
    for name, matrix in arrays.items():
        check_size(
            name, matrix.shape, "No bundle was written; the privacy budget of its draw stays spent."
        )
        parts.append(_head(name, matrix.dtype.str[1:], matrix.shape))
        # .T of an array in column order is one in row order: a view, where order="F" would copy.
        parts.append(np.ascontiguousarray(matrix.T).data.cast("B") if matrix.size else b"")
    return b"".join(parts)


def check_size(name: str, shape: tuple[int, ...], outcome: str) -> None:
    """Refuse a matrix that a MAT-file of this level cannot hold.

    outcome : what did not happen because of it.
    """
    if 8 * prod(shape) > LARGEST:
        raise GridveilError(
            f"The matrix {name} takes {8 * prod(shape) / 2**30:.1f} GiB, and a MAT-file of level 5 "
            "holds 2 GiB at most.",
            outcome=outcome,
            remedy="Reduce the grid to fewer machines and loaded buses, or release its islands one "
            "by one (--island).",
        )


def from_mat(
    data: bytes, shapes: Mapping[str, tuple[int, ...]], rest: Mapping[str, Matrix]
) -> dict[str, Array]:
    """Read float matrices as views, from exactly what `to_mat` writes: SciPy's reader crashes on
    some tampered files.

    rest : matrices that stand behind them and are known. ValueError if a byte other than the
    numbers is not as written.
    """
    arrays: dict[str, Array] = {}
    end = len(HEADER)
    for name, shape, start, size in _places(shapes):
        end = start + size
        if len(data) < end:
            raise ValueError("not what gridveil writes")
        arrays[name] = np.frombuffer(data, "<f8", count=size // 8, offset=start).reshape(
            shape, order="F"
        )
        head = _head(name, "f8", shape)
        if data[start - len(head) : start] != head:
            raise ValueError("not what gridveil writes")
    tail = to_mat(rest)[len(HEADER) :]
    if data[: len(HEADER)] != HEADER or len(data) != end + len(tail) or data[end:] != tail:
        raise ValueError("not what gridveil writes")
    return arrays


def _places(
    shapes: Mapping[str, tuple[int, ...]],
) -> Iterator[tuple[str, tuple[int, ...], int, int]]:
    """Name, shape, first byte and size of each matrix's numbers."""
    end = len(HEADER)
    for name, shape in shapes.items():
        size = 8 * prod(shape)
        if size > LARGEST:  # in a tampered document
            raise ValueError("not what gridveil writes")
        start = end + len(_head(name, "f8", shape))
        yield name, shape, start, size
        end = start + size


def _head(name: str, kind: str, shape: tuple[int, ...]) -> bytes:
    """What stands in front of a matrix's numbers."""
    rows, columns = (*shape, 1)[:2] if shape != (0,) else (0, 0)  # as SciPy has it
    matrix_class, data_type = KINDS[kind]
    flags = struct.pack("<4I", 6, 8, matrix_class, 0)
    dimensions = struct.pack("<2I2i", 5, 8, rows, columns)
    text = name.encode("ascii")
    if len(text) <= 4:  # a small element: its length shares a word with its type
        label = struct.pack("<HH", 1, len(text)) + text.ljust(4, b"\0")
    else:
        label = struct.pack("<2I", 1, len(text)) + text.ljust(-(-len(text) // 8) * 8, b"\0")
    size = 8 * rows * columns
    rest = flags + dimensions + label + struct.pack("<2I", data_type, size)
    return struct.pack("<2I", 14, len(rest) + size) + rest
