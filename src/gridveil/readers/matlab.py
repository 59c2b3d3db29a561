"""MATPOWER cases that MATLAB or Octave saved (.mat, level 5), by a strict reader: scipy's crashes
on damaged files.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from gridveil.foundation.errors import InputError
from gridveil.foundation.limits import MOST_VALUES, UNPACKED_BYTES
from gridveil.foundation.reading import read_bytes
from gridveil.grid.facts import Array
from gridveil.readers.matpower import Matrix, matpower_case
from gridveil.readers.network import FileGrid

WANTED = ("bus", "gen", "branch", "dcline")
EXPECTED = "a MATPOWER case saved by MATLAB or Octave"
MOST_CELLS, MOST_NAMES = 10**5, 1000

# Storage types and array classes of a level-5 file, by the numbers that it gives them.
NUMERIC = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
MATRIX, COMPRESSED = 14, 15
ENCODINGS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
CELL_CLASS, STRUCT_CLASS, CHAR_CLASS = 1, 2, 4
FLOAT_CLASSES, NUMBER_CLASSES = (6, 7), range(6, 16)
COMPLEX_FLAG = 0x0800


@np.errstate(all="ignore")  # what overflows is refused later, by its row
def read_matlab(path: Path) -> FileGrid:
    """Read a MATPOWER case from a `.mat` file: a struct `mpc`, or its tables as variables of their
    own.
    """
    data = read_bytes(path, EXPECTED, UNPACKED_BYTES)
    file = _File(path.name, _byte_order(path.name, data))
    variables = _variables(file, memoryview(data)[128:])
    structs = {
        name: fields
        for name, variable in variables.items()
        if variable.kind == STRUCT_CLASS and "bus" in (fields := variable.fields())
    }
    fields = variables if {"bus", "branch"} <= set(variables) else structs.get("mpc")
    if fields is None and len(structs) == 1:
        (fields,) = structs.values()
    if fields is None:
        raise file.error(
            "there is no case in it", expected="a struct mpc with fields bus, gen and branch"
        )
    tables = {name: Matrix(fields[name].table(name)) for name in WANTED if name in fields}
    base = fields["baseMVA"].table("baseMVA") if "baseMVA" in fields else np.full((1, 1), np.nan)
    if base.shape != (1, 1):
        raise file.error(
            "mpc.baseMVA is no single number", expected="a finite number of MVA above 0"
        )
    fuels = fields["genfuel"].texts("genfuel") if "genfuel" in fields else ()
    return matpower_case(path.name, tables, float(base[0, 0]), fuels)


def _byte_order(file: str, data: bytes) -> Literal["<", ">"]:
    """Check the header of 128 bytes, which ends in a version and in letters that tell the byte
    order.
    """
    if data[:4] == b"\x89HDF" or data[512:516] == b"\x89HDF" or data.startswith(b"MATLAB 7.3"):
        raise InputError(
            "this is a MAT-file of level 7.3 (HDF5)",
            file=file,
            expected="one of level 5",
            remedy="Save it with save(..., '-v7'), or with savecase as .m.",
        )
    if b"\0" in data[:4]:
        raise InputError(
            "this is a MAT-file of level 4, or none at all",
            file=file,
            expected="one of level 5",
            remedy="Save it with save(..., '-v7'), or with savecase as .m.",
        )
    version, letters = data[124:126], data[126:128]
    if letters == b"IM" and version == b"\x00\x01":
        return "<"
    if letters == b"MI" and version == b"\x01\x00":
        return ">"
    raise InputError(
        "this is no MAT-file of level 5",
        file=file,
        expected=EXPECTED,
        remedy="Save it with save -v7 or savecase; if it was, copy the whole file again.",
    )


class _Element(NamedTuple):
    """A piece of a file. kind : its type; data : its content; end : where the next one begins."""

    kind: int
    data: memoryview
    end: int


NOTHING = _Element(0, memoryview(b""), 0)


@dataclass(frozen=True)
class _File:
    """Where an element stands, for errors, and its byte order."""

    name: str
    order: Literal["<", ">"]

    def error(self, problem: str, *, expected: str, table: str = "") -> InputError:
        return InputError(
            problem,
            file=self.name,
            table=table,
            expected=expected,
            remedy="Save the case again, or copy the whole file.",
        )

    def number(self, data: memoryview) -> int:
        return int.from_bytes(data, "little" if self.order == "<" else "big")

    def elements(
        self, data: memoryview, table: str = "", most: int = MOST_NAMES
    ) -> Iterator[_Element]:
        """Yield the elements of some bytes."""
        count = 0
        at = 0
        while at < len(data):
            kind = self.number(data[at : at + 4])
            if (
                kind >> 16
                # a small element: type and size share four bytes, the content follows in the next
                # four
            ):
                kind, size, start, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
                damaged = size > 4
            else:
                size, start = self.number(data[at + 4 : at + 8]), at + 8
                end = start + (size if kind == COMPRESSED else -(-size // 8) * 8)
                damaged = False
            if damaged or at + 8 > len(data) or start + size > len(data):
                raise self.error(
                    "the file is cut off or damaged",
                    expected="elements that end within the file",
                    table=table,
                )
            if (count := count + 1) > most:
                raise self.error(
                    f"there are more than {most} items", expected="a MATPOWER case", table=table
                )
            yield _Element(kind, data[start : start + size], end)
            at = end


@dataclass(frozen=True)
class _Variable:
    """An array of a file.

    kind : its class.
    rest : its elements after the name, not looked into yet.
    """

    file: _File
    name: str
    kind: int
    is_complex: bool
    shape: tuple[int, ...]
    rest: memoryview

    def error(self, problem: str, table: str, expected: str) -> InputError:
        return self.file.error(problem, table=f"mpc.{table}", expected=expected)

    def table(self, name: str) -> Array:
        """The numbers of a matrix (rows, columns)."""
        count = prod(self.shape)
        storage, data, _ = next(self.file.elements(self.rest, f"mpc.{name}"), NOTHING)
        letters = NUMERIC.get(storage, "")
        if (
            self.kind not in NUMBER_CLASSES
            or self.is_complex
            or len(self.shape) != 2
            or not letters
        ):
            raise self.error("this is no table of plain numbers", name, "a full, real matrix")
        # MATLAB shortens doubles to small integers, never to these: with a damaged type, 100.0
        # would be read as 4.6e18.
        if self.kind in FLOAT_CLASSES and letters[1] == "8" and letters != "f8":
            raise self.error(
                "the type of its numbers is damaged", name, "doubles, or small integers"
            )
        if count > MOST_VALUES:
            raise self.error(
                f"the table has more than {MOST_VALUES} numbers", name, "a table of a power grid"
            )
        if len(data) != count * int(letters[1]):
            raise self.error(
                "the table has another size than it says", name, "rows times columns numbers"
            )
        values = np.frombuffer(data, dtype=f"{self.file.order}{letters}").astype(float)
        return values.reshape(self.shape, order="F")

    def fields(self) -> dict[str, _Variable]:
        """The fields of a struct; {} for an array of structs."""
        if self.shape != (1, 1):
            return {}
        elements = self.file.elements(self.rest, self.name)
        width, names = (next(elements, NOTHING).data for _ in range(2))
        length = self.file.number(width)
        if len(width) != 4 or not 0 < length <= 64 or len(names) % length:
            raise self.file.error(
                "the field names of a struct are damaged",
                expected="names of equal length",
                table=self.name,
            )
        keys = [_word(names[at : at + length]) for at in range(0, len(names), length)]
        values = [_variable(self.file, element) for element in elements]
        if len(values) != len(keys) or len(set(keys)) < len(keys) or None in keys:
            raise self.file.error(
                "the fields of a struct are damaged", expected="one value a field", table=self.name
            )
        return {
            str(key): replace(value, name=str(key)) for key, value in zip(keys, values, strict=True)
        }

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of a cell array."""
        cells = (
            self.file.elements(self.rest, f"mpc.{name}", MOST_CELLS)
            if self.kind == CELL_CLASS
            else iter(())
        )
        texts = tuple(_variable(self.file, cell)._text(name) for cell in cells)
        if self.kind != CELL_CLASS or len(texts) != prod(self.shape):
            raise self.error("this is no list of texts", name, "a cell array of texts")
        return texts

    def _text(self, name: str) -> str:
        storage, data, _ = next(self.file.elements(self.rest, f"mpc.{name}"), NOTHING)
        encoding = ENCODINGS.get(storage, "")
        if encoding in ("utf-16", "utf-32"):
            encoding += "-le" if self.file.order == "<" else "-be"
        text = ""
        if self.kind == CHAR_CLASS and encoding and self.shape[0] <= 1 and len(data) <= 1024:
            text = bytes(data).decode(encoding, errors="replace")
        if (prod(self.shape) and not text) or not (text.isprintable() and "\ufffd" not in text):
            raise self.error("one of its cells is no text", name, "a line of text in each")
        return text


def _word(data: memoryview) -> str | None:
    """A name in a file: ASCII up to the first zero; None if it is none."""
    name = bytes(data).split(b"\0")[0]
    return (
        name.decode("ascii")
        if name.isascii() and (not name or name.decode("ascii").isidentifier())
        else None
    )


def _variable(file: _File, element: _Element) -> _Variable:
    """Read the head of an array: class, shape and name."""
    data = element.data
    if element.kind == MATRIX and not len(data):  # how MATLAB writes [] in a cell or a struct
        return _Variable(file, "", 0, False, (0, 0), data)
    elements = file.elements(data)
    flags, shape, name = (next(elements, NOTHING) for _ in range(3))
    word = _word(name.data)
    sound = element.kind == MATRIX and (flags.kind, len(flags.data), shape.kind) == (6, 8, 5)
    if not sound or word is None or len(shape.data) not in range(8, 129, 4):
        raise file.error(
            "the file holds something that is no array, or is damaged",
            expected="arrays as MATLAB saves them",
        )
    bits = file.number(flags.data[:4])
    sizes = tuple(np.frombuffer(shape.data, dtype=f"{file.order}i4").tolist())
    if min(sizes) < 0:
        raise file.error("the size of an array is damaged", expected="rows and columns", table=word)
    return _Variable(file, word, bits & 0xFF, bool(bits & COMPLEX_FLAG), sizes, data[name.end :])


def _variables(file: _File, data: memoryview) -> dict[str, _Variable]:
    """Read the variables of a file by their names, decompressed where need be."""
    found: dict[str, _Variable] = {}
    left = UNPACKED_BYTES
    for element in file.elements(data):
        if element.kind == COMPRESSED:
            content = _decompressed(file, element.data, left)
            left -= len(content)
            element = next(file.elements(content), NOTHING)
        variable = _variable(file, element)
        if variable.name in found:
            raise file.error(
                f"the variable {variable.name or 'without a name'} occurs twice",
                expected="each once",
            )
        found[variable.name] = variable
    return found


def _decompressed(file: _File, data: memoryview, limit: int) -> memoryview:
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data, limit)
    except zlib.error:
        content = b""
    if not stream.eof and len(content) >= limit:
        raise file.error(
            f"the file is larger than {UNPACKED_BYTES // 2**20} MB once decompressed",
            expected=EXPECTED,
        )
    if not stream.eof:
        raise file.error(
            "the file is cut off or damaged: it cannot be decompressed",
            expected="arrays as MATLAB saves them",
        )
    return memoryview(content)
