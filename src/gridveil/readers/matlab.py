"""MATPOWER cases that MATLAB or Octave saved (.mat, level 5), read by scipy in a guarded process:
damaged files crash it.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import MOST_VALUES, UNPACKED_BYTES
from gridveil.foundation.reading import read_bytes
from gridveil.readers.guarded import OUT_OF_TIME, guarded
from gridveil.readers.matpower import Matrix, matpower_case
from gridveil.readers.network import FileGrid

TABLES, BASE = ("bus", "gen", "branch", "dcline"), ("baseMVA",)
EXPECTED = "a MATPOWER case saved by MATLAB or Octave"
SAVED, DAMAGED = "arrays as MATLAB saves them", "the file is cut off or damaged"
TIMEOUT_S, TIMEOUT_S_PER_MB = 60.0, 0.5
MOST_NAMES, MOST_CELLS = 1000, 10**5
MATRIX, COMPRESSED = 14, 15  # elements of a level-5 file, by the numbers that it gives them
HEADER, CHUNK = 128, 2**20
OLD_OR_NEW = "Save it with save(..., '-v7'), or with savecase as .m."


class Refused(Exception):
    """What is wrong with a file, here or in the child: problem, what was expected, the table."""

    def __init__(self, problem: str, expected: str = SAVED, table: str = "") -> None:
        super().__init__()
        self.place = {"problem": problem, "expected": expected, "table": table}


def read_matlab(path: Path) -> FileGrid:
    """Read a MATPOWER case from a `.mat` file: a struct `mpc`, or its tables as variables of their
    own.
    """
    data = read_bytes(path, EXPECTED, UNPACKED_BYTES)
    _check_level(path.name, data)
    limit = TIMEOUT_S + TIMEOUT_S_PER_MB * len(data) / 2**20
    try:
        answer, numbers = guarded("mat", _unpacked(data), seconds=limit)
    except Refused as refusal:
        answer, numbers = dict[str, Any](refused=refusal.place), b""
    if "shapes" not in answer:
        late = answer.get("error") == OUT_OF_TIME
        words = f"scipy did not finish within {limit:.0f} s" if late else DAMAGED
        place = answer.get("refused", Refused(words).place)
        raise InputError(
            place["problem"],
            file=path.name,
            table=place["table"],
            expected=place["expected"],
            remedy="Save the case again, or copy the whole file.",
        )
    values, tables = np.frombuffer(numbers), dict[str, Matrix]()
    for name, (rows, width) in answer["shapes"].items():
        tables[name] = Matrix(values[: rows * width].reshape(rows, width))
        values = values[rows * width :]
    base = tables.pop("baseMVA", None)
    base_mva = float("nan") if base is None else float(base.values[0, 0])
    return matpower_case(path.name, tables, base_mva, answer["fuels"])


def _check_level(file: str, data: bytes) -> None:
    """Check the header, which ends in a version and in letters that tell the byte order."""
    if data[:4] == b"\x89HDF" or data[512:516] == b"\x89HDF" or data.startswith(b"MATLAB 7.3"):
        problem, expected, remedy = "this is a MAT-file of level 7.3 (HDF5)", "level 5", OLD_OR_NEW
    elif b"\0" in data[:4]:
        problem = "this is a MAT-file of level 4, or none at all"
        expected, remedy = "level 5", OLD_OR_NEW
    elif data[124:HEADER] not in (b"\x00\x01IM", b"\x01\x00MI"):
        problem, expected = "this is no MAT-file of level 5", EXPECTED
        remedy = "Save it with save -v7 or savecase; if it was, copy the whole file again."
    else:
        return
    raise InputError(problem, file=file, expected=expected, remedy=remedy)


def answer(data: bytes) -> tuple[dict[str, Any], bytes]:
    """In the child: shapes of a case's tables, its fuels, and all numbers as doubles."""
    try:
        file = BytesIO(data)
        fields = _fields(file)
        tables = {name: _table(name, fields[name]) for name in (*TABLES, *BASE) if name in fields}
        if any(table.dtype.kind in "iu" and table.itemsize == 8 for table in tables.values()):
            _check_types(tables, _fields(file, mat_dtype=True))
        if any(tables[name].shape != (1, 1) for name in BASE if name in tables):
            raise Refused("mpc.baseMVA is no single number", "a finite number of MVA above 0")
        fuels = _texts("genfuel", fields["genfuel"]) if "genfuel" in fields else []
    except Refused as refusal:
        return {"refused": refusal.place}, b""
    shapes = {name: table.shape for name, table in tables.items()}
    return {"shapes": shapes, "fuels": fuels}, b"".join(
        np.ascontiguousarray(table, dtype=float).tobytes() for table in tables.values()
    )


def _unpacked(data: bytes) -> bytes:
    """The same file with its variables decompressed; refuse one that ends too early or swells."""
    order = "little" if data[126:HEADER] == b"IM" else "big"
    out, at, count, left = BytesIO(), HEADER, 0, UNPACKED_BYTES
    out.write(data[:HEADER])
    while at < len(data):
        kind, size = (int.from_bytes(data[at + n : at + n + 4], order) for n in (0, 4))
        start, count = at + 8, count + 1
        if kind not in (MATRIX, COMPRESSED) or start + size > len(data):
            raise Refused(DAMAGED)
        if count > MOST_NAMES:
            raise Refused(f"there are more than {MOST_NAMES} variables", EXPECTED)
        if kind == COMPRESSED:
            left -= _decompress(memoryview(data)[start : start + size], out, left)
        else:
            out.write(data[at : start + size])
        at = start + size
    return out.getvalue()


def _decompress(data: memoryview, out: BytesIO, left: int) -> int:
    """Decompress piece by piece, so that what swells does not fill the memory."""
    stream, size = zlib.decompressobj(), 0
    try:
        for at in range(0, len(data), CHUNK):
            piece = bytes(data[at : at + CHUNK])
            while piece and not stream.eof:
                content = stream.decompress(piece, CHUNK)
                piece, size = stream.unconsumed_tail, size + len(content)
                if size > left:
                    words = f"larger than {UNPACKED_BYTES // 2**20} MB once decompressed"
                    raise Refused(f"the file is {words}", EXPECTED)
                out.write(content)
    except zlib.error:
        pass
    if not stream.eof:
        raise Refused(f"{DAMAGED}: it cannot be decompressed")
    return size


def _fields(file: BytesIO, *, mat_dtype: bool = False) -> Mapping[str, Any]:
    """The fields of the case in a file, as they are stored; mat_dtype : in their own types."""
    from scipy.io.matlab import loadmat, whosmat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a name that occurs twice, which is refused
            variables = whosmat(file)
            names = [name for name, _, _ in variables]
            for name in names:
                if names.count(name) > 1:
                    words = f"the variable {name or 'without a name'} occurs twice"
                    raise Refused(words, "each once")
            if not {"bus", "branch"} <= set(names):
                structs = [name for name, _, kind in variables if kind == "struct"]
                return _case(loadmat(file, mat_dtype=mat_dtype, variable_names=structs))
            for name, shape, _ in variables:
                if name in TABLES:
                    _check_size(name, shape)
            wanted = (*TABLES, *BASE, "genfuel")
            return loadmat(file, mat_dtype=mat_dtype, variable_names=wanted)
    except Refused:
        raise
    except Exception:  # noqa: S110 - scipy raises whatever it trips over; its words may hold cells
        pass
    raise Refused(DAMAGED)


def _case(structs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of the struct that is a case."""
    cases = {
        name: struct
        for name, struct in structs.items()
        if isinstance(struct, np.ndarray)
        and struct.shape == (1, 1)
        and "bus" in (struct.dtype.names or ())
    }
    case = cases.get("mpc", next(iter(cases.values())) if len(cases) == 1 else None)
    if case is None:
        raise Refused("there is no case in it", "a struct mpc with fields bus, gen and branch")
    if not all(name.isidentifier() and name[0] != "_" for name in case.dtype.names):
        # scipy puts an underscore before a name that occurs twice.
        raise Refused("the fields of a struct are damaged", "one value a field")
    return {name: case[0, 0][name] for name in case.dtype.names}


def _check_size(name: str, shape: tuple[int, ...]) -> None:
    if prod(shape) > MOST_VALUES:
        words = f"the table has more than {MOST_VALUES} numbers"
        raise Refused(words, "a table of a power grid", f"mpc.{name}")


def _table(name: str, values: Any) -> np.ndarray:
    """A matrix of plain numbers."""
    plain = isinstance(values, np.ndarray) and values.dtype.kind in "fiub"
    if not plain or values.ndim != 2:
        raise Refused("this is no table of plain numbers", "a full, real matrix", f"mpc.{name}")
    _check_size(name, values.shape)
    return values


def _check_types(stored: Mapping[str, np.ndarray], own: Mapping[str, Any]) -> None:
    """MATLAB shortens doubles to small integers, never to those of 8 bytes: with a damaged type,
    100.0 would be read as 4.6e18.
    """
    for name, values in stored.items():
        if values.dtype.kind in "iu" and values.itemsize == 8 and own[name].dtype.kind == "f":
            words = "the type of its numbers is damaged"
            raise Refused(words, "doubles, or small integers", f"mpc.{name}")


def _texts(name: str, cells: Any) -> list[str]:
    """The texts of a cell array, such as the machines' fuels."""
    if not isinstance(cells, np.ndarray) or cells.dtype != object or cells.size > MOST_CELLS:
        raise Refused("this is no list of texts", "a cell array of texts", f"mpc.{name}")
    texts = [str(cell[0]) if cell.shape == (1,) else "" for cell in cells.ravel(order="F")]
    for cell, text in zip(cells.ravel(order="F"), texts, strict=True):
        odd = not text.isprintable() or "\ufffd" in text or len(text) > 1024
        if odd or (cell.size and not (cell.dtype.kind == "U" and text)):
            raise Refused("one of its cells is no text", "a line of text in each", f"mpc.{name}")
    return texts
