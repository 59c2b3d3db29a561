"""Hostile and unlucky files: each is refused in a line, within seconds of processor time and little
memory; none hangs.
"""

import bz2
import io
import json
import os
import struct
import zipfile
import zlib
from functools import cache
from pathlib import Path

import pytest

from gridveil.dynamics.events import Event
from gridveil.foundation.errors import GridveilError
from gridveil.foundation.limits import GRID_BYTES, MOST_LINES, MOST_VALUES
from gridveil.foundation.toml import read_toml
from gridveil.inference.records import read_trajectory
from gridveil.planning.plan.targets import Target
from gridveil.publication.signing import TrustedKeys, keys_in, load_signer, new_key
from gridveil.readers.cases import HERE, open_grid
from gridveil.readers.cases.packages import package_case
from gridveil.readers.dynamics import read_dynamics
from gridveil.readers.matpower import read_tables
from gridveil.workflow.leakage import _hz
from gridveil.workflow.settings import ReleaseSettings
from limited import in_child
from measured_helpers import write_measured

# Seconds of processor time, and bytes beyond what this process has: three times what the worst
# took, 0.8 s and 160 MB.
SECONDS, MEMORY = 3, 500 * 10**6
# The same for what is read up to a limit before it is refused: 4.9 s, and 620 MB of the 1 GB that
# is promised.
LONGER = {"seconds": 15, "memory": 10**9}
READ_ON = (
    "9 million numbers in "
    "lines of a .m", "15 million texts in a .m", "9 million fields in rows of a RAW",
    "40 000 keys of 20 parts in TOML", "5 million objects in CGMES", "a .mat that swells to 400 MB",
    "a .mat of 100 variables that swell", "a .mat of 30 million numbers",
)  # fmt: skip
NEWLINE = b"\n"
OPTIONS = {"inertia": 8.0, "damping": 2.0}
M = (HERE / "ieee30.m").read_text()
LONG = "1" * 40_000 + "x"
RAW = "0, 100.0, 33, 0, 1, 60.0\n\n\n"
WHOLE_RAW = RAW + "0\n" * 20 + "Q\n"
CSV = {
    "system.toml": "base_mva = 100.0\n",
    "buses.csv": "bus\n1\n2\n",
    "branches.csv": "from_bus,to_bus,x_pu\n1,2,0.1\n",
    "machines.csv": "bus\n1\n",
}


def write(folder, name, content):
    """Write a file: text, bytes, or parts of a zip."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def zipped(members, method=zipfile.ZIP_DEFLATED):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def csv_folder(folder, **changes):
    for name, content in (
        CSV | {name.replace("_", "."): content for name, content in changes.items()}
    ).items():
        write(folder, f"grid/{name}", content)
    return folder / "grid"


def workbook(sheet, **more):
    """A workbook of one sheet, Bus, whose XML is given."""
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    office = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    return zipped(
        {
            "[Content_Types].xml": "<Types "
            'xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override '
            f'PartName="/xl/workbook.xml" ContentType="{office}.sheet.main+xml"/><Override '
            f'PartName="/xl/worksheets/sheet1.xml" ContentType="{office}.worksheet+xml"/></Types>',
            "_rels/.rels": "<Relationships "
            'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
            f'Id="rId1" Type="{kinds}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook {space} xmlns:r="{kinds}"><sheets>'
            '<sheet name="Bus" sheetId="1" r:id="rId1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": "<Relationships "
            'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
            f'Id="rId1" Type="{kinds}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
            "xl/worksheets/sheet1.xml": f"<worksheet {space}>"
            f"<sheetData>{sheet}</sheetData></worksheet>",
        }
        | more
    )


def mat(*elements):
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"".join(elements)


def element(kind, data, size=None):
    return (
        struct.pack("<II", kind, len(data) if size is None else size)
        + data
        + b"\0" * (-len(data) % 8)
    )


def matrix(name, shape, numbers, size=None):
    """A double matrix of stored bytes; shape and size may lie."""
    return element(
        14,
        element(6, struct.pack("<II", 6, 0))
        + element(5, struct.pack(f"<{len(shape)}i", *shape))
        + element(1, name.encode())
        + element(2, numbers, size),
    )


def compressed(data):
    packed = zlib.compress(data, 9)
    return struct.pack("<II", 15, len(packed)) + packed


def cgmes(*objects):
    spaces = (
        'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns:cim="http://iec.ch/TC57/2013/CIM-schema-cim16#"'
    )
    return f"<rdf:RDF {spaces}>{''.join(objects)}</rdf:RDF>"


def voltage(text):
    what = "cim:BaseVoltage.nominalVoltage"
    return f'<cim:BaseVoltage rdf:ID="_1"><{what}>{text}</{what}></cim:BaseVoltage>'


def andes(value):
    return json.dumps(
        {"Bus": [{"idx": value, "Vn": 110}], "Line": [{"bus1": 1, "bus2": 1, "x": 0.1}]}
    )


def pandapower(**values):
    net = {
        "_class": "pandapowerNet",
        "_object": {"format_version": "3.0", "sn_mva": 100.0, "f_hz": 50.0} | values,
    }
    return json.dumps(net)


def frame(body):
    return {"_class": "DataFrame", "orient": "split", "_object": body}


# Each makes a grid's path in a folder.
GRIDS = {
    "digits in a .m": lambda to: write(to, "grid.m", f"mpc.baseMVA = {LONG};\n"),
    "digits in a table of a .m": lambda to: write(to, "grid.m", f"mpc.bus = [\n1 {LONG};\n];\n"),
    "digits in a RAW": lambda to: write(to, "grid.raw", f"0, {LONG}, 33\n\n\n"),
    "digits in a CSV table": lambda to: csv_folder(
        to, branches_csv=f"from_bus,to_bus,x_pu\n1,2,{LONG}\n"
    ),
    "digits in an ANDES JSON": lambda to: write(to, "grid.json", andes(LONG)),
    "digits in an ANDES workbook": lambda to: write(
        to,
        "grid.xlsx",
        workbook(
            '<row r="1"><c t="str"><v>idx</v></c></row><row r="2"><c '
            f't="str"><v>{LONG}</v></c></row>'
        ),
    ),
    "digits in CGMES": lambda to: write(to, "grid.xml", cgmes(voltage(LONG[:900]))),
    "a number of a million digits in a .m": lambda to: write(
        to, "grid.m", f"mpc.baseMVA = {'1' * 10**6};\n"
    ),
    "a whole number of a million digits in JSON": lambda to: write(
        to, "grid.json", '{"Bus": ' + "1" * 10**6 + "}"
    ),
    "a whole number of a million digits in TOML": lambda to: csv_folder(
        to, system_toml=f"base_mva = {'1' * 10**6}\n"
    ),
    "a hexadecimal number of a million digits in TOML": lambda to: csv_folder(
        to, system_toml=f"base_mva = 0x{'f' * 10**6}\n"
    ),
    "a line of 30 million numbers in a .m": lambda to: write(
        to, "grid.m", "mpc.bus = [" + "1 " * 30_000_000 + "];\n"
    ),
    "a line of 50 million numbers in a .m": lambda to: write(
        to, "grid.m", "mpc.bus = [" + "1 " * 50_000_000 + "];\n"
    ),
    "9 million numbers in lines of a .m": lambda to: write(
        to, "grid.m", "mpc.bus = [\n" + ("1 " * 999 + "1\n") * 9000 + "];\n"
    ),
    "30 million lines in a .m": lambda to: write(
        to, "grid.m", "mpc.bus = [\n" + "1\n" * 30_000_000 + "];\n"
    ),
    "a continued line of 30 million numbers": lambda to: write(
        to, "grid.m", "mpc.bus = [" + ("1 " * 300_000 + "...\n") * 100 + "];\n"
    ),
    "a comment of 30 million signs in a .m": lambda to: write(
        to, "grid.m", "'" * 30_000_000 + "%\n"
    ),
    "15 million texts in a .m": lambda to: write(
        to, "grid.m", "mpc.genfuel = {\n" + ("'a' " * 100 + "\n") * 150_000 + "};\n"
    ),
    "a row of 50 million commas in a RAW": lambda to: write(
        to, "grid.raw", RAW + "," * 50_000_000 + "\n"
    ),
    "a header of 30 million commas in a RAW": lambda to: write(
        to, "grid.raw", "0" + "," * 30_000_000 + "\n"
    ),
    "9 million fields in rows of a RAW": lambda to: write(
        to, "grid.raw", RAW + ("12," * 300 + "1\n") * 30_000
    ),
    "30 million lines in a RAW": lambda to: write(to, "grid.raw", RAW + "1\n" * 30_000_000),
    "30 million lines in a DYR": lambda to: (
        write(to, "grid.dyr", "1\n" * 30_000_000),
        write(to, "grid.raw", WHOLE_RAW),
    )[1],
    "a row of 15 million columns in a CSV table": lambda to: csv_folder(
        to, buses_csv="bus\n" + "," * 15_000_000 + "\n"
    ),
    "a header of 15 million columns in a CSV table": lambda to: csv_folder(
        to, buses_csv="," * 15_000_000 + "\n1\n"
    ),
    "10 million rows in a CSV table": lambda to: csv_folder(
        to, buses_csv="bus\n" + "1\n" * 10_000_000
    ),
    "a key of 200 000 parts in TOML": lambda to: csv_folder(
        to, system_toml="a." * 200_000 + "b = 1\n"
    ),
    "a key of 200 000 parts in an inline table": lambda to: csv_folder(
        to, system_toml="x = {" + "a." * 200_000 + "b = 1}\n"
    ),
    "a table of 200 000 parts in TOML": lambda to: csv_folder(
        to, system_toml="[" + "a." * 200_000 + "b]\n"
    ),
    "40 000 keys of 20 parts in TOML": lambda to: csv_folder(
        to, system_toml="".join(f"{'a.' * 20}b{n} = 1\n" for n in range(40_000))
    ),
    "a key of 200 000 parts between texts in TOML": lambda to: csv_folder(
        to, system_toml='x = {y = """\n""", ' + "a." * 200_000 + 'b = """ """}\n'
    ),
    "arrays in arrays in TOML": lambda to: csv_folder(to, system_toml="x = " + "[" * 100_000),
    "5 million keys in TOML": lambda to: csv_folder(
        to, system_toml="".join(f"k{n}=1\n" for n in range(5_000_000))
    ),
    "deep JSON": lambda to: write(to, "grid.json", '{"Bus": ' + "[" * 10**6),
    "a deep table in a pandapower JSON": lambda to: write(
        to, "grid.json", pandapower(bus=frame("[" * 10**6))
    ),
    "10 million objects in JSON": lambda to: write(
        to, "grid.json", '{"Bus": [' + "{}," * 10_000_000 + "{}]}"
    ),
    "30 million numbers in JSON": lambda to: write(
        to, "grid.json", '{"Bus": [' + "1," * 30_000_000 + "1]}"
    ),
    "30 million numbers in a pandapower table": lambda to: write(
        to,
        "grid.json",
        pandapower(bus=frame('{"columns": [], "index": [' + "1," * 30_000_000 + '1], "data": []}')),
    ),
    "8 million rows in a workbook": lambda to: write(
        to, "grid.xlsx", workbook("<row/>" * 8_000_000)
    ),
    "8 million cells in a workbook": lambda to: write(
        to, "grid.xlsx", workbook("<row>" + "<c/>" * 8_000_000 + "</row>")
    ),
    "a row of number 10^9 in a workbook": lambda to: write(
        to, "grid.xlsx", workbook('<row r="1000000000"/>')
    ),
    "a row of a billion digits' number in a workbook": lambda to: write(
        to, "grid.xlsx", workbook(f'<row r="{"9" * 10**6}"/>')
    ),
    "a cell far to the right in a workbook": lambda to: write(
        to,
        "grid.xlsx",
        workbook("".join(f'<row r="{n}"><c r="XFD{n}"><v>1</v></c></row>' for n in range(1, 2000))),
    ),
    "a workbook that swells to 400 MB": lambda to: write(
        to, "grid.xlsx", workbook("", **{"xl/a.xml": bytes(4 * 10**8)})
    ),
    "a workbook packed by bzip2": lambda to: write(to, "grid.xlsx", lying_bzip2("xl/workbook.xml")),
    "a workbook with entities": lambda to: write(
        to, "grid.xlsx", workbook("<row/>", **{"xl/sharedStrings.xml": entities("sst")})
    ),
    "a CGMES zip that swells to 400 MB": lambda to: write(
        to, "grid.zip", zipped({"a.xml": bytes(4 * 10**8)})
    ),
    "a CGMES zip of 100 zips that swell": lambda to: write(
        to, "grid.zip", zipped({f"{n}.zip": swelling() for n in range(100)} | {"a.xml": cgmes()})
    ),
    "a CGMES zip packed by bzip2": lambda to: write(to, "grid.zip", lying_bzip2("a.xml")),
    "a CGMES zip of overlapping entries": lambda to: write(to, "grid.zip", overlapping(500)),
    "CGMES with entities": lambda to: write(to, "grid.xml", entities("rdf:RDF")),
    "5 million objects in CGMES": lambda to: write(
        to, "grid.xml", cgmes("".join(f'<cim:Terminal rdf:ID="{n:x}"/>' for n in range(5_000_000)))
    ),
    "deep CGMES": lambda to: write(
        to, "grid.xml", cgmes('<cim:Terminal rdf:ID="a">' + "<a>" * 5_000_000)
    ),
    "a folder of 20 000 files": lambda to: many_files(to / "grid", 20_000),
    "a .mat of huge sizes": lambda to: write(
        to,
        "grid.mat",
        mat(matrix("bus", (2**31 - 1,) * 30, b""), matrix("branch", (1, 1), b"1" * 8)),
    ),
    "a .mat of a huge element": lambda to: write(
        to, "grid.mat", mat(matrix("bus", (10**5, 13), b"", size=2**32 - 8))
    ),
    "a .mat that swells to 400 MB": lambda to: write(
        to, "grid.mat", mat(compressed(element(14, bytes(4 * 10**8))))
    ),
    "a .mat of 100 variables that swell": lambda to: write(
        to,
        "grid.mat",
        mat(*(compressed(matrix(f"v{n}", (1, 10**6), bytes(8 * 10**6))) for n in range(100))),
    ),
    "a .mat of 30 million numbers": lambda to: write(
        to,
        "grid.mat",
        mat(
            *(
                compressed(matrix(name, (10**6, 10), bytes(8 * 10**7)))
                for name in ("bus", "gen", "branch")
            )
        ),
    ),
    "a sparse file of 100 GB": lambda to: sparse(to / "grid.m", 100 * 10**9),
}


def entities(root):
    """The billion laughs."""
    laughs = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    return f'<!DOCTYPE x [<!ENTITY a0 "ha">{laughs}]><{root}>&a11;</{root}>'


@cache
def bzip2_bomb():
    squeezer = bz2.BZ2Compressor()
    return b"".join(squeezer.compress(bytes(10**7)) for _ in range(150)) + squeezer.flush()


def lying_bzip2(name):
    """A zip whose bzip2 member says that it holds 100 bytes, and holds 1.5 GB."""
    packed = bzip2_bomb()
    archive = bytearray(zipped({name: b"x" * 100}, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(io.BytesIO(bytes(archive))) as opened:
        size = opened.infolist()[0].compress_size
    start = 30 + len(name)
    central = archive.index(b"PK\x01\x02")
    directory = archive[central:]
    struct.pack_into("<I", directory, 20, len(packed))
    struct.pack_into("<I", archive, 18, len(packed))
    end = directory.index(b"PK\x05\x06")
    struct.pack_into("<I", directory, end + 16, start + len(packed))
    return (
        bytes(archive[:start]) + packed + bytes(archive[start + size : central]) + bytes(directory)
    )


def overlapping(count):
    """A zip of many entries that all lead to the same bytes, 60 MB once unpacked."""
    one = bytearray(zipped({"a00000.xml": bytes(500_000)}))
    central, end = one.index(b"PK\x01\x02"), one.index(b"PK\x05\x06")
    entry = bytes(one[central:end])
    directory = b"".join(entry.replace(b"a00000", b"a%05d" % n) for n in range(count))
    tail = bytearray(one[end:])
    struct.pack_into("<HHII", tail, 8, count, count, len(directory), central)
    return bytes(one[:central]) + directory + bytes(tail)


@cache
def swelling():
    return zipped({"a.txt": bytes(2 * 10**8)})


def many_files(folder, count):
    for n in range(count):
        write(folder, f"{n}.xml", "<a/>")
    return folder


def sparse(path, size):
    with path.open("wb") as file:
        file.truncate(size)
    return path


def refused(call, *, seconds=SECONDS, memory=MEMORY):
    ended = in_child(call, memory=memory, seconds=2 * seconds)
    assert ended.how == "refused", ended
    assert ended.exit_code == 2
    assert "\n" not in ended.error
    assert len(ended.error) < 2500
    assert ended.seconds < seconds, ended
    return ended


# Those that take seconds to make, or to read up to a limit.
SLOW = [
    name
    for name in GRIDS
    if any(
        word in name for word in ("million", "swell", "bzip2", "20 000 files", "40 000", "100 GB")
    )
]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in GRIDS]
)
def test_a_hostile_grid_file_is_refused_in_seconds(name, tmp_path):
    path = GRIDS[name](tmp_path)
    ended = refused(lambda: open_grid(path, options=OPTIONS), **(LONGER if name in READ_ON else {}))
    print(f"{name}: {ended.seconds:.2f} s, {ended.peak / 1e6:.0f} MB: {ended.error}")


TEXTS = {
    "5 000 events": lambda: Event.parse(
        ";".join(f"load:1=+0.1@{n}s" for n in range(5000)), base_mva=100
    ),
    "an event of 40 kB of digits": lambda: Event.parse(f"load:1=+{LONG}", base_mva=100),
    "an event of blanks": lambda: Event.parse("load:" + " " * 40_000 + "@", base_mva=100),
    "an event of many times": lambda: Event.parse("load:1=1" + "@ 1 s" * 20_000, base_mva=100),
    "a target of many signs": lambda: Target.parse("nadir", "e" * 40_000 + "1"),
    "a rate of blanks": lambda: _hz("1" + " " * 40_000 + "x", "--rate", "10Hz"),
    "bounds of a million digits": lambda: ReleaseSettings.of(
        grid="ieee30", epsilon="1/2", bounds="k=" + "1" * 10**6 + ":x"
    ),
    "bounds of a million groups": lambda: ReleaseSettings.of(
        grid="ieee30", epsilon="1/2", bounds="k=1:2," * 10**6
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_option_is_refused_in_seconds(name):
    ended = refused(TEXTS[name])
    print(f"{name}: {ended.seconds:.2f} s, {ended.peak / 1e6:.0f} MB: {ended.error[:100]}")


RECORDS = {
    "digits in a cell": {"csv": f"time,north,south\n0,{LONG},60\n"},
    "digits in a time": {"csv": f"time,north,south\n{LONG},60,60\n"},
    "a line of 60 million signs": {"csv": "time,north,south\n" + "1" * 60_000_000 + "\n"},
    "a row of 30 million columns": {"csv": "time,north,south\n" + "," * 30_000_000 + "\n"},
    "a header of 30 million columns": {"csv": "time" + "," * 30_000_000 + "\n"},
    "20 million rows": {"csv": "time,north,south\n" + "," * 2 + "\n" + "0,,\n" * 15_000_000},
    "30 million unused columns": {
        "csv": "time,north,south" + ",a" * 3000 + "\n" + ("0,60,60" + ",1" * 3000 + "\n") * 9000
    },
    "digits in an event": {"event": f"unknown:total={LONG}"},
    "blanks in an event": {"event": "unknown:total=1" + " " * 40_000 + "x"},
    "digits in an event's size": {"event": "unknown", "event_size": f"{LONG}:2"},
    "blanks in an event's size": {"event": "unknown", "event_size": "1" + " " * 40_000 + "x:2"},
    "5 000 steps": {"event": ";".join(f"load:5=+0.1@{n}s" for n in range(5000))},
    "100 000 locations": {"locations": {f"c{n}": "1" for n in range(100_000)}},
    "a name with a NUL": {"record": "a\\u0000b.csv"},
    "a bus of a million digits": {"locations": {"north": int("1" * 4000)}},
    "a record of 100 GB": {"csv": None},
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if "million" in name or "000" in name else name
        for name in RECORDS
    ],
)
def test_a_hostile_record_is_refused_in_seconds(name, tmp_path):
    changes = dict(RECORDS[name])
    content = changes.pop("csv", "")
    path = write_measured(tmp_path, **changes)
    if content is None:
        sparse(tmp_path / "record.csv", 100 * 10**9)
    elif content:
        write(tmp_path, "record.csv", content)
    facts = open_grid("star5").facts
    ended = refused(lambda: read_trajectory(path, facts))
    print(f"{name}: {ended.seconds:.2f} s, {ended.peak / 1e6:.0f} MB: {ended.error[:100]}")


def test_an_event_on_many_buses_and_a_name_with_many_points_are_no_hostile_toml(tmp_path):
    event = ",".join(f"{n}=+0.{n}5" for n in range(1, 60))
    path = write(
        tmp_path,
        "a.toml",
        f'event = "load:{event}"\n"a{".b" * 50}" = \'c{".d" * 50}\' # it\'s {"." * 9}\n',
    )
    assert len(Event.parse(read_toml(path)["event"], base_mva=100).steps[0].change) == 59


@pytest.mark.slow
def test_the_largest_public_grid_takes_half_of_each_limit_at_most():
    path = package_case("matpower:case_SyntheticUSA")
    data = path.read_bytes()
    tables, _, texts = read_tables(path)
    count = sum(table.values.size for table in tables.values()) + sum(map(len, texts.values()))
    print(f"{len(data)} bytes, {data.count(NEWLINE)} lines, {count} values")
    assert 2 * len(data) <= GRID_BYTES
    assert 2 * data.count(NEWLINE) <= MOST_LINES
    assert 2 * count <= MOST_VALUES


# --- what is no regular file ----------------------------------------------------------------------


def pipe(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def endless(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def grid_beside(name):
    def use(folder: Path):
        for file, content in (("grid.raw", WHOLE_RAW), ("grid.m", M)):
            if not (folder / file).is_fifo() and not (folder / file).is_symlink():
                write(folder, file, content)
        return open_grid(folder / name)

    return use


def signing_folder(folder):
    folder.chmod(0o700)
    return keys_in(folder)


def use_record(folder):
    write_measured(folder / "other")
    (folder / "record.toml").write_bytes((folder / "other" / "record.toml").read_bytes())
    return read_trajectory(folder / "record.toml", open_grid("star5").facts)


# What is named, and what reads it.
PLACES = {
    **{
        f"grid.{end}": grid_beside(f"grid.{end}")
        for end in ("m", "mat", "raw", "xlsx", "json", "xml", "zip")
    },
    "grid.dyr": grid_beside("grid.raw"),
    "grid.toml": grid_beside("grid.m"),
    "other.toml": lambda to: open_grid("ieee30", dynamics_file=to / "other.toml"),
    "other.dyr": lambda to: open_grid(
        write(to, "grid.raw", WHOLE_RAW), dynamics_file=to / "other.dyr"
    ),
    **{f"grid/{name}": lambda to: open_grid(to / "grid") for name in (*CSV, "system.csv", "a.xml")},
    "release.toml": lambda to: ReleaseSettings.from_file(to / "release.toml", {}),
    "trajectory.toml": lambda to: read_trajectory(to / "trajectory.toml", open_grid("star5").facts),
    "record.csv": use_record,
    "trusted.pem": lambda to: TrustedKeys.read(to / "trusted.pem"),
    "keyring.json": signing_folder,
}


@pytest.mark.parametrize("make", [pipe, endless])
@pytest.mark.parametrize("name", PLACES)
def test_what_is_no_regular_file_is_neither_read_nor_waited_for(name, make, tmp_path):
    if name.startswith("grid/"):
        csv_folder(tmp_path)
        if name == "grid/system.csv":
            (tmp_path / "grid/system.toml").unlink()
    make(tmp_path / name)
    ended = refused(lambda: PLACES[name](tmp_path), seconds=3)
    assert "not a regular file" in ended.error


@pytest.mark.parametrize("make", [pipe, endless])
def test_a_private_key_that_is_no_regular_file_is_not_read(make, tmp_path):
    folder = tmp_path / "keys"
    place = folder / f"signing-{new_key(folder).id}.pem"
    make(place)
    if make is pipe:
        place.chmod(0o600)
    ended = refused(lambda: load_signer(folder), seconds=3)
    assert ("not a regular file" if make is pipe else "open to other users") in ended.error


# --- what is decoded ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "piece",
    [b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf"],
    ids=["NUL", "UTF-16", "surrogate", "BOM"],
)
@pytest.mark.parametrize(
    "kind", ["m", "raw", "json", "csv", "toml", "xml", "config", "trajectory", "record"]
)
def test_strange_bytes_give_a_grid_or_a_plain_error(kind, piece, tmp_path):
    """In the middle of a name, and at the very beginning."""
    facts = open_grid("star5").facts
    for at in (0, 7):
        if kind == "csv":
            path = csv_folder(tmp_path, buses_csv=insert(CSV["buses.csv"], at, piece))
        elif kind in ("trajectory", "record"):
            path = write_measured(tmp_path)
            changed = path if kind == "trajectory" else path.with_suffix(".csv")
            changed.write_bytes(insert(changed.read_text(), at, piece))
        else:
            text = {
                "m": M,
                "raw": RAW,
                "json": andes(1),
                "xml": cgmes(),
                "toml": "base_mva = 100.0\n",
                "config": 'grid = "x"\n',
            }[kind]
            path = write(tmp_path, f"grid.{kind}", insert(text, at, piece))
        read = {
            "toml": lambda path=path: read_dynamics(path),
            "config": lambda path=path: ReleaseSettings.from_file(path, {}),
            "trajectory": lambda path=path: read_trajectory(path, facts),
            "record": lambda path=path: read_trajectory(path, facts),
        }.get(kind, lambda path=path: open_grid(path, options=OPTIONS))
        try:
            read()
        except GridveilError as error:
            assert str(error).isprintable()


def insert(text, at, piece):
    data = text.encode()
    return data[:at] + piece + data[at:]
