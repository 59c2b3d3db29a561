"""No reader of a grid file says a private value: mutated files of every format, and all that an
error carries along.
"""

import io
import json
import logging
import os
import random
import re
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

from cli_helpers import files_under, found_in, gridveil, gridveil_process
from fuzzing import OPTIONS, mutate
from gridveil.foundation.errors import GridveilError
from gridveil.readers.cases import open_grid
from gridveil.vault.source import Private
from privacy_helpers import locals_seen

BEFORE = dict(os.environ)
LINES = ((1, 4), (2, 4), (3, 5), (4, 5), (1, 2), (2, 5))
CHOICES = ("--inertia=8", "--damping=2", "--negative-x=abs", "--zero-x=merge")
# How many mutated files of each format the fast and the slow test throw; a CGMES model takes a
# second or two.
COUNTS = {
    "m": (25, 500),
    "toml": (25, 300),
    "mat": (15, 300),
    "raw": (25, 500),
    "dyr": (25, 400),
    "xlsx": (10, 250),
    "andes": (25, 400),
    "pandapower": (0, 400),
    "csv": (25, 500),
    "system": (10, 200),
    "cgmes": (0, 60),
}
SLOW_ONLY = [name for name, (fast, _) in COUNTS.items() if not fast]
FORMATS = [
    pytest.param(name, marks=pytest.mark.slow if name in SLOW_ONLY else ()) for name in COUNTS
]


class Sound(NamedTuple):
    """A grid's files, which of them is opened and which are mutated, and the private numbers in
    them as they are written.
    """

    files: dict[str, bytes]
    grid: str
    mutated: list[str]
    planted: list[str]

    def write(self, folder, **changed):
        for name, data in (self.files | changed).items():
            (folder / name).write_bytes(data)
        return folder / self.grid


# --- sound files with private numbers of twelve digits --------------------------------------------


class Numbers:
    """Private numbers of twelve random digits, each written once."""

    def __init__(self, seed):
        self.rng, self.written = random.Random(seed), []
        self.x, self.r, self.b = (
            self.some(6, 0.1, 0.3),
            self.some(6, 0.01, 0.02),
            self.some(6, 0.01, 0.03),
        )
        self.p, self.q, self.v = self.some(5, 10, 40), self.some(5, 2, 9), self.some(5, 0.99, 1.04)
        self.generation, self.m, self.d = (
            self.some(3, 25, 40),
            self.some(3, 10, 20),
            self.some(3, 5, 10),
        )
        self.gain = self.some(3, 0.04, 0.06)

    def some(self, count, low, high):
        texts = [f"{self.rng.uniform(low, high):.12g}" for _ in range(count)]
        self.written += texts
        return texts


def matpower(n):
    bus = [
        f"{i} {k} {n.p[i - 1]} {n.q[i - 1]} 0 0 1 {n.v[i - 1]} 0 132 1 1.1 0.9;"
        for i, k in enumerate((3, 2, 2, 1, 1), 1)
    ]
    gen = [f"{i} {n.generation[i - 1]} 0 100 -100 {n.v[i - 1]} 100 1 100 0;" for i in (1, 2, 3)]
    branch = [
        f"{i} {j} {r} {x} {b} 0 0 0 0 0 1;"
        for (i, j), r, x, b in zip(LINES, n.r, n.x, n.b, strict=True)
    ]
    tables = [f"mpc.{name} = [\n" + "\n".join(rows) + "\n];\n" for name, rows in
              (("bus", bus), ("gen", gen), ("branch", branch))]  # fmt: skip
    return "function mpc = grid\nmpc.version = '2';\nmpc.baseMVA = 100;\n" + "".join(tables)


def dynamics_toml(n):
    return "".join(
        f"[machines.{i + 1}]\ninertia = {n.m[i]}\ndamping = {n.d[i]}\n" for i in range(3)
    )


def mat(n, tmp_path):
    from scipy.io import savemat

    from gridveil.readers.matpower import read_tables

    (tmp_path / "case.m").write_text(matpower(n))
    tables, numbers, _ = read_tables(tmp_path / "case.m")
    case = {name: table.values for name, table in tables.items()} | {
        "version": "2",
        "baseMVA": numbers["baseMVA"],
    }
    buffer = io.BytesIO()
    savemat(buffer, {"mpc": case})
    return buffer.getvalue()


def raw(n):
    bus = [
        f"{i}, 'BUS {i}', 132.0, {k}, 1, 1, 1, {n.v[i - 1]}, 0.0"
        for i, k in enumerate((3, 2, 2, 1, 1), 1)
    ]
    load = [
        f"{i}, '1 ', 1, 1, 1, {n.p[i - 1]}, {n.q[i - 1]}, 0.0, 0.0, 0.0, 0.0, 1"
        for i in range(1, 6)
    ]
    machine = [f"{i}, '1 ', {n.generation[i - 1]}, 0.0, 99.0, -99.0, {n.v[i - 1]}, 0, 100.0, 0.0, "
               "0.2, 0.0, 0.0, 1.0, 1"
               for i in (1, 2, 3)]  # fmt: skip
    lines = [f"{i}, {j}, '1 ', {r}, {x}, {b}, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1, 1, 0.0"
             for (i, j), r, x, b in list(zip(LINES, n.r, n.x, n.b, strict=True))[:5]]  # fmt: skip
    i, j = LINES[5]
    transformer = [
        f"{i}, {j}, 0, '1 ', 1, 1, 1, 0.0, 0.0, 2, 'T', 1",
        f"{n.r[5]}, {n.x[5]}, 100.0",
        "1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 1.1, 0.9, 1.1, 0.9, 33, 0, 0.0, 0.0",
        "1.0, 0.0",
    ]
    titles = ("BUS", "LOAD", "FIXED SHUNT", "GENERATOR", "BRANCH", "TRANSFORMER")
    text = ["0, 100.0, 33, 0, 1, 60.0 / planted", "title", "title"]
    for title, rows in zip(titles, (bus, load, [], machine, lines, transformer), strict=True):
        text += [*rows, f"0 / END OF {title} DATA"]
    return "\n".join([*text, *["0"] * 13, "Q", ""])


def dyr(n):
    return "".join(
        f"{i + 1} 'GENCLS' 1 {n.m[i]} {n.d[i]} /\n{i + 1} 'TGOV1' 1 {n.gain[i]} 0.5 1.0 0.0 1.0 "
        "1.0 0.0 /\n"
        for i in range(3)
    )


def andes(n):
    def static(i):
        return {
            "idx": i,
            "u": 1,
            "Sn": 100,
            "Vn": 132,
            "bus": i,
            "p0": float(n.generation[i - 1]) / 100,
            "q0": 0,
            "v0": float(n.v[i - 1]),
        }

    line = [
        {
            "idx": f"Line_{k}",
            "u": 1,
            "bus1": i,
            "bus2": j,
            "Sn": 100,
            "Vn1": 132,
            "Vn2": 132,
            "r": float(n.r[k]),
            "x": float(n.x[k]),
            "b": float(n.b[k]),
            "tap": 1.0,
            "phi": 0.0,
        }
        for k, (i, j) in enumerate(LINES)
    ]
    machine = [
        {
            "idx": f"M{i}",
            "u": 1,
            "bus": i,
            "gen": i,
            "Sn": 100,
            "Vn": 132,
            "fn": 60,
            "D": float(n.d[i - 1]),
            "M": float(n.m[i - 1]),
        }
        for i in (1, 2, 3)
    ]
    governor = [
        {
            "idx": f"T{i}",
            "u": 1,
            "syn": f"M{i}",
            "R": float(n.gain[i - 1]),
            "T1": 0.5,
            "T2": 1,
            "T3": 1,
            "Dt": 0,
        }
        for i in (1, 2, 3)
    ]
    return {
        "Bus": [
            {"idx": i, "u": 1, "name": f"bus {i}", "Vn": 132, "v0": float(n.v[i - 1]), "a0": 0}
            for i in range(1, 6)
        ],
        "PQ": [
            {
                "idx": f"PQ_{i}",
                "u": 1,
                "bus": i,
                "Vn": 132,
                "p0": float(n.p[i - 1]) / 100,
                "q0": float(n.q[i - 1]) / 100,
            }
            for i in range(1, 6)
        ],
        "PV": [static(2), static(3)],
        "Slack": [static(1) | {"a0": 0.0}],
        "Line": line,
        "GENCLS": machine,
        "TGOV1": governor,
    }


def xlsx(n):
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for model, rows in andes(n).items():
        sheet = book.create_sheet(model)
        for cells in (
            ["uid", *rows[0]],
            *([number, *row.values()] for number, row in enumerate(rows)),
        ):
            sheet.append(cells)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def csv_tables(n):
    bus = [f"b{i},{n.p[i - 1]},{n.q[i - 1]},{n.v[i - 1]}" for i in range(1, 6)]
    branch = [
        f"b{i},b{j},{r},{x},{b}" for (i, j), r, x, b in zip(LINES, n.r, n.x, n.b, strict=True)
    ]
    machine = [
        f"b{i},{n.generation[i - 1]},{n.v[i - 1]},{n.m[i - 1]},{n.d[i - 1]}" for i in (1, 2, 3)
    ]
    return {
        "buses.csv": "\n".join(["bus,load_mw,load_mvar,voltage_pu", *bus, ""]),
        "branches.csv": "\n".join(["from_bus,to_bus,r_pu,x_pu,b_pu", *branch, ""]),
        "machines.csv": "\n".join(["bus,power_mw,set_point_pu,inertia_s,damping_pu", *machine, ""]),
        "system.toml": "base_mva = 100.0\nfrequency_hz = 60.0\n",
    }


@contextmanager
def foreign_package():
    """For packages that write sound files: what they warn of, and cache in the home folder, is none
    of gridveil's.
    """
    with patch.dict(os.environ, BEFORE), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def pandapower_json(n):
    with foreign_package():
        pp = pytest.importorskip("pandapower")
        net = pp.create_empty_network(sn_mva=100.0, f_hz=60.0)
        for i in range(5):
            pp.create_bus(net, vn_kv=132.0)
            pp.create_load(net, i, p_mw=float(n.p[i]), q_mvar=float(n.q[i]))
        pp.create_ext_grid(net, 0, vm_pu=float(n.v[0]))
        for i in (1, 2):
            pp.create_gen(net, i, p_mw=float(n.generation[i]), vm_pu=float(n.v[i]))
        for (i, j), r, x, b in zip(LINES, n.r, n.x, n.b, strict=True):
            ohms = {
                "r_ohm_per_km": float(r),
                "x_ohm_per_km": float(x),
                "c_nf_per_km": float(b),
                "max_i_ka": 1.0,
            }
            pp.create_line_from_parameters(net, i - 1, j - 1, length_km=100.0, **ohms)
        return pp.to_json(net).encode()


def cgmes_zip(n, tmp_path):
    with foreign_package():
        pytest.importorskip("pypowsybl")
        import pypowsybl.network as pn

        grid = pn.create_ieee9()
        lines, loads = grid.get_lines().index.tolist(), grid.get_loads().index.tolist()
        grid.update_lines(id=lines, x=[float(x) * 200 for x in n.x[: len(lines)]])
        grid.update_loads(id=loads, p0=[float(p) * 3 for p in n.p[: len(loads)]])
        n.written = [
            f"{x:.12g}"
            for x in (*(float(x) * 200 for x in n.x), *(float(p) * 3 for p in n.p[: len(loads)]))
        ]
        grid.save(str(tmp_path / "made.zip"), format="CGMES")
        return (tmp_path / "made.zip").read_bytes()


def sound(kind, tmp_path):
    """Sound files of a format; two tests have the same."""
    n, made = Numbers(f"planted {kind}"), tmp_path / "made"
    made.mkdir()
    match kind:
        case "m" | "toml":
            texts = {"grid.m": matpower(n), "grid.toml": dynamics_toml(n)}
            target = [f"grid.{kind}"]
        case "mat":
            texts, target = {"grid.mat": mat(n, made)}, ["grid.mat"]
        case "raw" | "dyr":
            texts, target = {"grid.raw": raw(n), "grid.dyr": dyr(n)}, [f"grid.{kind}"]
        case "xlsx":
            texts, target = {"grid.xlsx": xlsx(n)}, ["grid.xlsx"]
        case "andes":
            texts, target = {"grid.json": json.dumps(andes(n), indent=1)}, ["grid.json"]
        case "pandapower":
            texts, target = {"grid.json": pandapower_json(n)}, ["grid.json"]
        case "csv" | "system":
            texts = csv_tables(n)
            target = [name for name in texts if (name == "system.toml") == (kind == "system")]
        case "cgmes":
            texts, target = {"grid.zip": cgmes_zip(n, made)}, ["grid.zip"]
    files = {
        name: data if isinstance(data, bytes) else data.encode() for name, data in texts.items()
    }
    return Sound(files, "." if kind in ("csv", "system") else next(iter(files)), target, n.written)


# --- the search -----------------------------------------------------------------------------------


class Search:
    """Looks for private values in what was said: numbers that agree to their last digit, or their
    first seven digits.
    """

    def __init__(self, grid, source=None):
        values = [float(text) for text in grid.planted]
        if source is not None:
            values += [
                value for name in "kmd" for value in Private.open(source.values[name]).tolist()
            ]
        self.values = np.array([*values, *(2 * value for value in values)])
        # Whatever stands between them: with a decimal comma, in MW or in p.u., digits stay the
        # same.
        self.digits = {re.sub(r"^[0.]+|\.", "", text)[:7] for text in grid.planted}

    def found(self, said):
        runs = re.findall(r"\d{7,}", re.sub(r"(?<=\d)[.,_](?=\d)", "", said))
        return found_in(said.encode(), self.values) + [
            run for run in runs if any(digits in run for digits in self.digits)
        ]


def all_that_it_carries(error):
    """The words of an error, its attributes and the locals of its frames, and those of all errors
    behind it.
    """
    said, seen, to_do = [], set(), [error]
    while to_do:
        one = to_do.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        attributes = {
            name: getattr(one, name, None) for name in dir(one) if not name.startswith("__")
        }
        said.append(
            f"{one} {one!r} {one.args} {attributes} "
            f"{getattr(one, '__notes__', '')}\n{locals_seen(one)}"
        )
        to_do += [
            one.__cause__,
            one.__context__,
            *(part for part in one.args if isinstance(part, BaseException)),
        ]
    return "\n".join(said)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for a grid's files; home, temp and working folder are others, where nothing may be
    left.
    """
    for name, variable in (("temp", "TMPDIR"), ("home", "HOME"), ("work", "PWD")):
        (tmp_path / "left" / name).mkdir(parents=True)
        monkeypatch.setenv(variable, str(tmp_path / "left" / name))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path / "left" / "work")
    (tmp_path / "grid").mkdir()
    return tmp_path / "grid"


def left(folder):
    return {path.name: data for path, data in files_under(folder.parent / "left").items()}


def throw(kind, count, folder, caplog, seed):
    """Open mutated files; return what any of them gave away, and how many were refused."""
    grid = sound(kind, folder.parent)
    caplog.set_level(logging.DEBUG)
    place = grid.write(folder)
    search = Search(grid, open_grid(str(place), options=OPTIONS))
    leaks, refused = [], 0
    for number in range(count):
        rng = random.Random(f"{kind} {seed} {number}")
        target = rng.choice(grid.mutated)
        place = grid.write(folder, **{target: mutate(rng, grid.files[target])})
        try:
            open_grid(str(place), options=OPTIONS)
        except GridveilError as error:
            refused += 1
            if found := search.found(all_that_it_carries(error)):
                leaks.append((number, target, found, str(error)))
    if found := search.found(caplog.text):
        leaks.append(("log", found))
    return leaks, refused


def test_the_search_finds_a_planted_leak(tmp_path):
    grid = sound("m", tmp_path)
    search = Search(grid)
    for text in grid.planted:
        for said in (
            f"bus {text} is unknown",
            text[:9],
            text.replace(".", ","),
            f"{float(text) / 100:.9g}",
            repr(float(text)),
        ):
            assert search.found(said), said
    try:
        try:
            raise UnicodeDecodeError("ascii", grid.planted[0].encode(), 0, 1, "bad")
        except ValueError:
            raise GridveilError("fine") from None
    except GridveilError as error:
        assert search.found(all_that_it_carries(error))
    assert not search.found(
        "grid.m, table mpc.bus, row 3, line 12: column 4 is not a number; expected 13."
    )


# --- what errors say ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "count"), [(kind, fast) for kind, (fast, _) in COUNTS.items() if fast]
)
def test_a_few_mutated_files_give_no_private_value_away(kind, count, folder, caplog):
    leaks, refused = throw(kind, count, folder, caplog, seed=1)
    assert leaks == []
    assert refused >= count / 5  # the mutations do bite
    assert left(folder) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [(kind, slow) for kind, (_, slow) in COUNTS.items()])
def test_hundreds_of_mutated_files_give_no_private_value_away(kind, count, folder, caplog):
    leaks, refused = throw(kind, count, folder, caplog, seed=2)
    assert leaks == []
    assert refused >= count / 5
    assert left(folder) == {}


@pytest.mark.parametrize("kind", FORMATS)
def test_the_command_line_gives_no_private_value_away(kind, folder, caplog):
    caplog.set_level(logging.DEBUG)
    grid = sound(kind, folder.parent)
    search = Search(grid)
    codes = set()
    for number in range(8):
        rng = random.Random(f"command {kind} {number}")
        target = rng.choice(grid.mutated)
        place = grid.write(folder, **{target: mutate(rng, grid.files[target])})
        done = gridveil("--debug", "inspect", place, *CHOICES, *(("--json",) if number % 2 else ()))
        assert done.code in (0, 2), done.err
        codes.add(done.code)
        assert search.found(done.out + done.err + caplog.text) == []
    assert 2 in codes
    assert left(folder) == {}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_inspect_shows_no_private_value_of_a_sound_file(kind, options, folder, caplog):
    caplog.set_level(logging.DEBUG)
    grid = sound(kind, folder.parent)
    place = grid.write(folder)
    search = Search(grid, open_grid(str(place), options=OPTIONS))
    done = gridveil("--debug", "inspect", place, *CHOICES, *options)
    assert done.code == 0, done.err
    assert search.found(done.out + done.err + caplog.text) == []
    assert left(folder) == {}


# --- columns that slipped, names that are numbers -------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "file", "change"),
    [
        (
            "csv",
            "buses.csv",
            lambda n, text: text.replace("bus,load_mw", "load_mw,bus").replace(n.p[1], n.p[0]),
        ),
        (
            "csv",
            "buses.csv",
            lambda n, text: text.replace("b2,", f"{n.p[0]},").replace("b3,", f"{n.p[0]},"),
        ),
        ("csv", "machines.csv", lambda n, text: text.replace("b2,", f"{n.m[1]},")),
        (
            "csv",
            "branches.csv",
            lambda n, text: text.replace("from_bus", "x").replace("x_pu", "from_bus"),
        ),
        (
            "csv",
            "branches.csv",
            lambda n, text: text.replace("from_bus,to_bus,r_pu,x_pu,b_pu\n", ""),
        ),
        ("csv", "system.toml", lambda n, text: f'"{n.m[0]}" = 1\n' + text),
        ("csv", "system.toml", lambda n, text: f"{n.m[0]} = 1\n" + text),
        (
            "toml",
            "grid.toml",
            lambda n, text: text.replace("inertia = " + n.m[0], f'"{n.m[0]}" = 1'),
        ),
        ("toml", "grid.toml", lambda n, text: text.replace("machines.1]", f'machines."{n.m[0]}"]')),
        ("toml", "grid.toml", lambda n, text: f'[dynamics]\noperating_point = "{n.m[0]}"\n' + text),
        ("toml", "grid.toml", lambda n, text: f"[dynamics]\nbase = {n.m[0]}\n" + text),
        ("toml", "grid.toml", lambda n, text: f'[policy]\nisland = "{n.m[0]}"\n' + text),
        ("toml", "grid.toml", lambda n, text: f'[fuel."{n.m[0]}"]\ninertia = "x"\n' + text),
        (
            "andes",
            "grid.json",
            lambda n, text: text.replace('"bus1": 1,', f'"bus1": "{n.x[0].replace(".", ",")}",'),
        ),
        ("andes", "grid.json", lambda n, text: text.replace('"bus1": 1,', f'"bus1": {n.x[0]},')),
        (
            "andes",
            "grid.json",
            lambda n, text: text.replace('"syn": "M1"', f'"syn": "{n.m[0].replace(".", ",")}"'),
        ),
        (
            "andes",
            "grid.json",
            lambda n, text: text.replace('"gen": 1,', f'"gen": "{n.m[0].replace(".", ",")}",'),
        ),
        (
            "andes",
            "grid.json",
            lambda n, text: re.sub(r'"idx": [12],', f'"idx": "{n.v[0]}p",', text),
        ),
        ("andes", "grid.json", lambda n, text: text.replace('"r":', f'"{n.x[0]}":', 1)),
        ("andes", "grid.json", lambda n, text: text.replace('"TGOV1":', f'"{n.x[0]}":')),
        ("raw", "grid.raw", lambda n, text: text.replace("BUS DATA", f"{n.x[0]} DATA")),
        ("raw", "grid.raw", lambda n, text: text.replace("60.0 / planted", f"{n.x[0]}x / planted")),
        ("dyr", "grid.dyr", lambda n, text: text.replace("'GENCLS' 1 ", f"'GENCLS' {n.m[0]} ", 1)),
        (
            "m",
            "grid.m",
            lambda n, text: text.replace("mpc.bus = [", f"mpc.{n.x[0].replace('.', '')} = ["),
        ),
        (
            "m",
            "grid.m",
            lambda n, text: text.replace(
                "mpc.baseMVA = 100", f"mpc.genfuel = {{'{n.x[0]}'}};\nmpc.baseMVA = 100"
            ),
        ),
    ],
)
def test_a_number_in_the_place_of_a_name_is_not_quoted(kind, file, change, folder, caplog):
    grid = sound(kind, folder.parent)
    text = grid.files[file].decode()
    changed = change(Numbers(f"planted {kind}"), text)
    assert changed != text
    place = grid.write(folder, **{file: changed.encode()})
    search = Search(grid)
    try:
        facts = open_grid(str(place), options=OPTIONS).facts
    except GridveilError as error:
        assert search.found(all_that_it_carries(error)) == []
    else:
        assert search.found(" ".join(facts.notes)) == []


# --- the process that reads CGMES -----------------------------------------------------------------


@pytest.mark.slow
def test_the_child_that_reads_cgmes_leaves_no_file_and_prints_no_value(folder):
    grid = sound("cgmes", folder.parent)
    search = Search(grid)
    for broken in (False, True):
        data = grid.files["grid.zip"]
        place = grid.write(folder, **{"grid.zip": data[: len(data) // 2] if broken else data})
        work = folder.parent / "left" / "work"
        done = gridveil_process(
            "--debug",
            "inspect",
            place,
            "--json",
            *CHOICES,
            cwd=work,
            PYTHONDEVMODE="1",
            PYTHONWARNINGS="ignore",
        )
        assert done.code == (2 if broken else 0), done.err
        assert search.found(done.out + done.err) == []
        assert left(folder) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["json.py", "pypowsybl.py", "gridveil/__init__.py"])
def test_the_child_that_reads_cgmes_runs_nothing_that_lies_in_the_working_folder(name, folder):
    grid = sound("cgmes", folder.parent)
    place, mark = grid.write(folder), folder.parent / "mark"
    work = folder.parent / "work"
    (work / name).parent.mkdir(parents=True)
    (work / name).write_text(f"open({str(mark)!r}, 'w').close()\nraise SystemExit(3)\n")
    done = gridveil_process("inspect", place, *CHOICES, cwd=work)
    assert not mark.exists()
    assert done.code == 0, done.err


def test_the_working_folder_of_these_tests_is_not_the_repository(folder):
    assert Path.cwd() != Path(__file__).parents[2]
    assert os.environ["TMPDIR"].startswith(str(folder.parent))
