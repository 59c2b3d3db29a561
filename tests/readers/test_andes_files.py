"""ANDES's workbooks and JSON files: what they mean in p.u. of the system base, and one clear error
for a bad one.
"""

import copy
import io
import json
import random
import re
import zipfile
from pathlib import Path

import numpy as np
import openpyxl
import pytest

from cli_helpers import DAMPING, INERTIA, X, found_in, write_grid
from gridveil.foundation.errors import GridveilError, InputError
from gridveil.readers.andes import workbook
from gridveil.readers.cases import open_grid, read_grid
from gridveil.readers.cases.packages import PACKAGES, package_folder
from gridveil.readers.governors import GOVERNORS
from gridveil.readers.psse import dyr
from gridveil.vault.source import Private

PLANTED = np.array([float(value) for value in (*X, *INERTIA, *DAMPING)])
BUSES = ("1", "2", "3", "4", "5")


def lines():
    ends = ((1, 4), (2, 4), (3, 5), (4, 5), (1, 2), (2, 5))
    rows = [
        {
            "idx": f"Line_{n}",
            "u": 1,
            "bus1": i,
            "bus2": j,
            "Sn": 100,
            "Vn1": 132,
            "Vn2": 132,
            "r": 0.01,
            "x": float(x),
            "b": 0.02,
        }
        | {"tap": 1.0, "phi": 0.0}
        for n, ((i, j), x) in enumerate(zip(ends, X, strict=True))
    ]
    rows[3] |= {"tap": 0.97, "phi": float(np.deg2rad(3))}
    return rows


def machine(n, **changes):
    values = {"idx": f"M{n}", "u": 1, "bus": n, "gen": n, "Sn": 100, "Vn": 132, "fn": 60}
    return (
        values
        | {"D": float(DAMPING[n - 1]), "M": float(INERTIA[n - 1]), "gammap": 1.0, "gammaq": 1.0}
        | changes
    )


def governor(n, **changes):
    return {
        "idx": f"T{n}",
        "u": 1,
        "syn": f"M{n}",
        "Tn": None,
        "R": 0.05,
        "T1": 0.5,
        "T2": 1,
        "T3": 1,
        "Dt": 0,
    } | changes


def private_case():
    """The grid of cli_helpers, as ANDES would have it."""
    voltages, loads = (
        (1.02, 1.01, 1.01, 1.0, 1.0),
        {1: (0.1, 0.02), 2: (0.2, 0.04), 4: (0.4, 0.09), 5: (0.3, 0.05)},
    )
    static = [
        {"idx": n, "u": 1, "Sn": 100, "Vn": 132, "bus": n, "p0": p, "q0": 0, "v0": voltages[n - 1]}
        for n, p in ((1, 0.4), (2, 0.3), (3, 0.3))
    ]
    return {
        "Bus": [
            {"idx": n, "u": 1, "name": f"bus {n}", "Vn": 132, "v0": v, "a0": 0}
            for n, v in enumerate(voltages, start=1)
        ],
        "PQ": [
            {"idx": f"PQ_{n}", "u": 1, "bus": n, "Vn": 132, "p0": p, "q0": q}
            for n, (p, q) in loads.items()
        ],
        "PV": static[1:],
        "Slack": [static[0] | {"a0": 0.0}],
        "Line": lines(),
        "GENCLS": [machine(1), machine(2)],
        "GENROU": [machine(3)],
        "TGOV1": [governor(1), governor(2), governor(3)],
    }


def save_json(folder, case, name="case.json"):
    path = folder / name
    path.write_text(json.dumps(case, indent=2), encoding="utf-8")
    return path


def save_xlsx(folder, case, name="case.xlsx"):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for model, rows in case.items():
        sheet = book.create_sheet(model)
        columns = list(rows[0]) if rows else ["idx"]
        sheet.append(["uid", *columns])
        for number, row in enumerate(rows):
            sheet.append([number, *(row[column] for column in columns)])
    path = folder / name
    book.save(path)
    return path


def changed(change):
    case = private_case()
    change(case)
    return case


def private(source):
    return {name: Private.open(source.values[name]) for name in "kmd"}


def opened(folder, case, **options):
    return open_grid(str(save_json(folder, case)), options=options)


def read(folder, case):
    return read_grid(save_json(folder, case))


# --- what a file means ----------------------------------------------------------------------------


@pytest.mark.parametrize("save", [save_json, save_xlsx])
def test_the_same_grid_from_andes_and_from_matpower_is_the_same(tmp_path, save):
    ours, theirs = (
        open_grid(str(save(tmp_path, private_case()))),
        open_grid(str(write_grid(tmp_path / "m"))),
    )
    assert ours.facts.buses == theirs.facts.buses == BUSES
    assert ours.facts.notes == ()
    assert ours.facts.governor_rate == pytest.approx([2, 2, 2], rel=1e-12)
    assert ours.facts.droop_gain.tolist() == [20, 20, 20]
    assert (ours.facts.base_mva, ours.facts.frequency_hz) == (100, 60)
    assert np.array_equal(ours.facts.edges, theirs.facts.edges)
    assert ours.facts.loads == pytest.approx(theirs.facts.loads, rel=1e-14)
    for name, values in private(theirs).items():
        assert private(ours)[name] == pytest.approx(values, rel=1e-12), name


def test_impedances_are_p_u_of_the_lines_own_bases(tmp_path):
    def other_bases(case):
        for row in case["Line"]:  # z in p.u. of 66 kV and 50 MVA: Zn/Zb = (66/132)² · 100/50 = 1/2
            row |= {"Sn": 50, "Vn1": 66, "r": 2 * row["r"], "x": 2 * row["x"], "b": row["b"] / 2}

    assert private(opened(tmp_path, changed(other_bases)))["k"] == pytest.approx(
        private(opened(tmp_path, private_case()))["k"], rel=1e-12
    )


def test_dynamics_are_p_u_of_the_machines_own_bases(tmp_path):
    def other_bases(case):
        case["GENROU"][0] |= {
            "Sn": 250,
            "M": case["GENROU"][0]["M"] / 2.5,
            "D": case["GENROU"][0]["D"] / 2.5,
        }
        case["TGOV1"][0] |= {"Tn": 30}

    source = opened(tmp_path, changed(other_bases))
    for name in "md":
        assert private(source)[name] == pytest.approx(
            private(opened(tmp_path, private_case()))[name], rel=1e-12
        )
    assert source.facts.droop_gain == pytest.approx([0.3 * 20, 20, 2.5 * 20])


def test_base_and_frequency_come_from_the_files_config(tmp_path):
    def configured(case):
        rows = (("System", "mva", 200), ("System", "freq", 50), ("PFlow", "mva", 7))
        case["_config"] = [
            {"section": section, "key": key, "value": value} for section, key, value in rows
        ]
        for name in ("GENCLS", "GENROU", "TGOV1"):
            del case[name]

    grid = read(tmp_path, changed(configured))
    assert (grid.base_mva, grid.frequency_hz) == (200, 50)
    plain = read(tmp_path, private_case())
    assert grid.branches.series == pytest.approx(2 * plain.branches.series)
    assert grid.buses.load == pytest.approx(plain.buses.load)  # given in p.u. of the system base


def test_the_frequency_is_the_one_that_the_swing_equations_are_written_for(tmp_path):
    def fifty(case):
        for row in (*case["GENCLS"], *case["GENROU"]):
            row["fn"] = 50

    assert opened(tmp_path, changed(fifty)).facts.omega_b == pytest.approx(2 * np.pi * 50)


def test_machines_of_one_static_generator_share_its_power(tmp_path):
    def two_units(case):
        case["GENCLS"][1] |= {"gammap": 0.25}
        case["GENCLS"].append(machine(2, idx="other", gammap=0.75, M=4.0))

    grid = read(tmp_path, changed(two_units))
    at = np.flatnonzero(grid.machines.bus == 1)
    assert grid.machines.power[at].real == pytest.approx([0.25 * 0.3, 0.75 * 0.3])
    assert grid.machines.droop_gain[at].tolist() == [20, 0]
    assert grid.notes == ()
    case = changed(two_units)
    case["GENCLS"][1]["u"] = 0
    assert read(tmp_path, case).machines.power.real.sum() == pytest.approx(1.0)
    assert read(tmp_path, case).notes == (
        "1 static generators whose machines' gammap do not add up to 1: scaled",
    )


def test_a_static_generator_without_a_synchronous_machine_has_no_inertia(tmp_path):
    def converter(case):
        del case["GENROU"], case["TGOV1"][2]
        case["REGCA1"] = [{"idx": "R1", "gen": 3, "bus": 3}]

    case = changed(converter)
    assert np.isnan(read(tmp_path, case).machines.inertia).tolist() == [False, True, False]
    with pytest.raises(InputError, match="machine at bus 3 has no inertia"):
        opened(tmp_path, case)
    source = opened(tmp_path, case, without_dynamics="drop")
    assert len(source.facts.machines) == 2
    assert (
        "1 converters left out; their static generators are machines without dynamics (1 REGCA1)"
        in source.facts.notes
    )


def test_a_jumper_is_a_branch_without_reactance(tmp_path):
    def jumped(case):
        case["Bus"].append(case["Bus"][4] | {"idx": 6})
        case["Jumper"] = [{"idx": "J", "u": 1, "bus1": 5, "bus2": 6}]

    with pytest.raises(InputError, match="reactance x is zero") as refusal:
        opened(tmp_path, changed(jumped))
    assert (refusal.value.table, refusal.value.row) == ("Jumper", 1)
    merged = opened(tmp_path, changed(jumped), zero_x="merge")
    assert private(merged)["k"] == pytest.approx(
        private(opened(tmp_path, private_case()))["k"], rel=1e-12
    )


def test_what_a_line_has_at_its_ends_counts_as_shunts(tmp_path):
    def at_ends(case):
        for row in case["Line"]:
            row |= {"b": 0.0, "b1": 0.0, "b2": 0.0, "g": 0.0, "g1": 0.0, "g2": 0.0}
        case["Line"][3] |= {"b1": 0.03, "b2": 0.05, "g": 0.02}

    def as_shunts(case):
        for row in case["Line"]:
            row["b"] = 0.0
        # y of 50 MVA and 66 kV: Zb/Zn = (132/66)² · 50/100 = 2
        shunt = {"u": 1, "Sn": 50, "Vn": 66}
        case["Shunt"] = [
            {"idx": 1, "bus": 4, "g": 0.01 / 0.97**2 / 2, "b": 0.03 / 0.97**2 / 2} | shunt,
            {"idx": 2, "bus": 5, "g": 0.01 / 2, "b": 0.05 / 2} | shunt,
        ]

    one, other = (
        read(tmp_path, changed(at_ends)).buses.shunt,
        read(tmp_path, changed(as_shunts)).buses.shunt,
    )
    assert one == pytest.approx(other, rel=1e-12)
    assert np.count_nonzero(one) == 2


def test_what_is_out_of_service_stays_out(tmp_path):
    def switched_off(case):
        case["Line"].append(case["Line"][0] | {"idx": "off", "u": 0})
        case["PQ"].append(case["PQ"][0] | {"idx": "off", "u": 0})
        case["Bus"].append({"idx": 9, "u": 0, "name": "gone", "Vn": 132, "v0": 1, "a0": 0})
        case["PV"].append(case["PV"][0] | {"idx": 9, "bus": 4, "u": 0})
        case["TGOV1"].append(governor(1, u=0))

    source = opened(tmp_path, changed(switched_off))
    assert source.facts.notes == (
        "1 loads out of service left out",
        "1 isolated buses (type 4) left out",
        "1 machines out of service left out",
        "1 branches out of service left out",
    )
    for name, values in private(opened(tmp_path, private_case())).items():
        assert private(source)[name] == pytest.approx(values, rel=1e-12), name


def test_numbers_saved_as_text_are_numbers_and_indices_match_whatever_their_type(tmp_path):
    case = private_case()
    as_text = {
        model: [
            {column: str(cell) for column, cell in row.items() if cell is not None} for row in rows
        ]
        for model, rows in case.items()
    }
    for name, values in private(opened(tmp_path, case)).items():
        assert np.array_equal(private(opened(tmp_path, as_text))[name], values)


def test_what_is_left_out_is_counted_and_named(tmp_path):
    def more(case):
        case["EXDC2"] = [{"idx": n} for n in range(3)]
        case["Motor5"] = [{"idx": 1}]
        case["Toggle"] = [{"idx": 1}]
        case["FANCY"] = [{"idx": n} for n in range(2)]
        case["Line"] = [row | {"lenght": 7} for row in case["Line"]]
        case["TGOV1"][1] |= {"T1": None}
        case["TGOV1DB"] = [case["TGOV1"].pop() | {"dbL": -0.001, "dbU": 0.001}]

    assert read(tmp_path, changed(more)).notes == (
        "1 governors' dead bands left out",
        "1 empty cells of table TGOV1 took ANDES's default (T1)",
        "1 columns of table Line that ANDES does not have left out",
        "3 exciters left out (3 EXDC2)",
        "1 motors left out (1 Motor5)",
        "2 devices of unknown models left out (2 FANCY)",
    )


def test_blank_rows_and_a_wrong_size_of_a_sheet_change_nothing(tmp_path):
    path = save_xlsx(tmp_path, private_case())
    book = openpyxl.load_workbook(path)
    book["Line"].insert_rows(3)
    book.save(path)
    content = {
        member: zipfile.ZipFile(path).read(member) for member in zipfile.ZipFile(path).namelist()
    }
    rewrite(
        path,
        {
            name: re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1:B2"', data)
            for name, data in content.items()
        },
    )
    assert len(read_grid(path).branches.ends) == len(X)


# --- governors ------------------------------------------------------------------------------------

TGOV1 = ({"R": 0.04, "T1": 0.25, "T2": 1.0, "T3": 3.0, "Dt": 0.0}, 1 / 1.5, 25.0)
HYGOV = ({"R": 0.05, "r": 0.3, "Tr": 1.0, "Tf": 0.0, "Tg": 0.0, "Tw": 2.0, "At": 1.2}, 1 / 15, 24.0)
GOVERNED = {  # rate [1/s] and gain on the governor's own base, worked out by hand
    "TGOV1": TGOV1,
    "TGOV1N": TGOV1,
    "TGOV1DB": TGOV1,
    "TGOV1NDB": TGOV1,
    "GAST": ({"R": 0.05, "T1": 0.5, "T2": 1.0, "Dt": 0.0}, 1 / 2, 20.0),
    "TG2": ({"R": 0.05, "T1": 1.0, "T2": 9.0}, 1 / 4, 20.0),
    "IEEEG1": (
        {"K": 18.0, "T1": 1.0, "T2": 1.0, "T3": 0.25, "T4": 0.0, "T5": 0.0, "T6": 0.0, "T7": 1.0}
        | {"K1": 0.2, "K3": 0.0, "K5": 0.0, "K7": 0.3},
        0.56 / 0.44,
        18.0,
    ),
    "IEESGO": (
        {
            "K1": 21.0,
            "K2": 0.5,
            "K3": 0.5,
            "T1": 0.0,
            "T2": 0.0,
            "T3": 0.25,
            "T4": 0.0,
            "T5": 1.0,
            "T6": 1.0,
        },
        0.55 / 0.45,
        21.0,
    ),
    "HYGOV": HYGOV,
    "HYGOVDB": HYGOV,
    "HYGOV4": (
        {
            "Rperm": 0.05,
            "Rtemp": 0.3,
            "Tr": 1.0,
            "Tp": 1.0,
            "Tg": 0.2,
            "Tw": 0.0,
            "At": 1.0,
            "Hdam": 1.0,
        },
        1 / 11,
        20.0,
    ),
}


def test_every_governor_is_tried():
    assert GOVERNED.keys() == GOVERNORS.keys()


@pytest.mark.parametrize("model", GOVERNED)
def test_a_governor_has_the_rate_and_gain_of_its_formula(tmp_path, model):
    parameters, rate, gain = GOVERNED[model]

    def governed(case):
        case["TGOV1"] = case["TGOV1"][:2]
        case.setdefault(model, []).append(
            parameters | {"idx": "G", "u": 1, "syn": "M3"}
            if model != "TGOV1"
            else governor(3, **parameters)
        )
        case["GENROU"][0]["Sn"] = 200

    units = read(tmp_path, changed(governed)).machines
    (at,) = np.flatnonzero(units.bus == 2)
    on_base = 1 if model == "IEESGO" else 2  # ANDES does not convert K1 of IEESGO
    assert units.governor_rate[at] == pytest.approx(rate)
    assert units.droop_gain[at] == pytest.approx(on_base * gain)


@pytest.mark.parametrize("model", ["TGOV1", "GAST", "IEEEG1", "IEESGO", "HYGOV"])
def test_psse_and_andes_mean_the_same_by_a_governor(model):
    n, other = 0.7, 0.3  # constants in PSS/E's order; limits and dead bands as n
    R, K, T = 0.05, 20.0, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
    shares = (0.3, 0.0, 0.3, 0.0, 0.4, 0.0, 0.0, 0.0)
    steam = [T[3], *shares[:2], T[4], *shares[2:4], T[5], *shares[4:6], T[6], *shares[6:]]
    named = {f"T{number}": value for number, value in enumerate(T, start=1)}
    psse, ours = {
        "TGOV1": (
            [R, T[0], n, n, T[1], T[2], 0.9],
            {"R": R, "T1": T[0], "T2": T[1], "T3": T[2], "Dt": 0.9},
        ),
        "GAST": ([R, T[0], T[1], n, n, n, n, n, 0.9], {"R": R, "T1": T[0], "T2": T[1], "Dt": 0.9}),
        "IEEEG1": ([K, *T[:3], n, n, n, n, *steam], {"K": K, **named, "shares": shares[::2]}),
        "IEESGO": (
            [*T[:6], K, other, n, n, n],
            {"K1": K, "K2": other, "K3": n} | dict(list(named.items())[:6]),
        ),
        "HYGOV": (
            [R, other, *T[:3], n, n, n, T[3], 1.1, n, n],
            {"R": R, "r": other, "Tr": T[0], "Tf": T[1], "Tg": T[2], "Tw": T[3], "At": 1.1},
        ),
    }[model]
    theirs, found = (
        dyr.GOVERNORS[model].governors(psse)[0].response,
        GOVERNORS[model].respond(**ours),
    )
    assert (found.gain, found.at_1, found.damping) == pytest.approx(
        (theirs.gain, theirs.at_1, theirs.damping), rel=1e-12
    )


def test_a_turbines_damping_adds_to_its_machines(tmp_path):
    def damped(case):
        case["TGOV1"][2] |= {"Dt": 0.5, "Tn": 60}

    more = (
        private(opened(tmp_path, changed(damped)))["d"]
        - private(opened(tmp_path, private_case()))["d"]
    )
    assert more == pytest.approx([0, 0, 0.3])


def test_two_machines_on_one_turbine_share_its_gain(tmp_path):
    def tandem(case):
        fractions = dict(
            zip((f"K{n}" for n in range(1, 9)), (0.3, 0, 0, 0.5, 0.2, 0, 0, 0), strict=True)
        )
        timing = {
            "K": 20.0,
            "T1": 0.0,
            "T2": 0.0,
            "T3": 0.1,
            "T4": 0.1,
            "T5": 0.2,
            "T6": 0.3,
            "T7": 0.4,
        }
        case["IEEEG1"] = [
            {"idx": "G", "u": 1, "syn": "M1", "syn2": "M3", "Tn": None} | timing | fractions
        ]
        case["TGOV1"] = case["TGOV1"][1:2]
        case["GENROU"][0]["Sn"] = 300

    units = read(tmp_path, changed(tandem)).machines
    assert dict(zip(units.bus.tolist(), units.droop_gain.tolist(), strict=True)) == pytest.approx(
        {0: 40, 1: 20, 2: 40}
    )


# --- what is wrong with a file --------------------------------------------------------------------


def put(model, row, **cells):
    def change(case):
        case[model][row] |= cells

    return change


def without(model, column):
    def change(case):
        for row in case[model]:
            del row[column]

    return change


def drop(*models):
    def change(case):
        for model in models:
            del case[model]

    return change


def append(model, row):
    return lambda case: case.setdefault(model, []).append(row)


BAD_TABLES = {
    "no bus table": (drop("Bus"), []),
    "no lines": (drop("Line"), ["table Line is missing or empty"]),
    "no generator": (drop("PV", "Slack"), ["there is no generator"]),
    "bus twice": (put("Bus", 3, idx=2), ["table Bus, row 4", "bus 2 occurs twice"]),
    "bus without index": (put("Bus", 3, idx=None), ["table Bus, row 4", "column idx is no name"]),
    "x is text": (put("Line", 2, x=f"{X[2]}q"), ["table Line, row 3", "column x is not a number"]),
    "x is missing": (put("Line", 2, x=None), ["table Line, row 3", "column x is empty"]),
    "x is huge": (put("Line", 2, x=1e300), ["table Line, row 3", "column x is not usable"]),
    "x is infinite": (put("Line", 2, x=1e999), ["table Line, row 3", "column x is"]),
    "no column x": (without("Line", "x"), ["table Line", "column x is missing"]),
    "unknown bus": (put("Line", 2, bus2=77), ["table Line, row 3", "bus 77 is unknown"]),
    "a reactance for a bus": (
        put("Line", 2, bus2=float(X[2])),
        ["table Line, row 3", "column bus2 is no name"],
    ),
    "load's bus": (put("PQ", 1, bus=77), ["table PQ, row 2", "bus 77 is unknown"]),
    "load is text": (put("PQ", 1, p0="much"), ["table PQ, row 2", "column p0 is not a number"]),
    "tap of 0": (
        put("Line", 1, tap=0),
        ["table Line, row 2", "column tap is not usable", "above 0"],
    ),
    "status": (put("Line", 1, u=2), ["table Line, row 2", "column u is neither true nor false"]),
    "rating of 0": (put("GENCLS", 1, Sn=0), ["table GENCLS, row 2", "column Sn is not usable"]),
    "negative inertia": (
        put("GENCLS", 1, M=-float(INERTIA[1])),
        ["table GENCLS, row 2", "column M is not usable"],
    ),
    "no damping": (without("GENROU", "D"), ["table GENROU", "column D is missing"]),
    "machine twice": (put("GENROU", 0, idx="M1"), ["table GENROU, row 1", "M1 occurs twice"]),
    "generator twice": (put("Slack", 0, idx=2), ["table Slack, row 1", "generator 2 occurs twice"]),
    "machine of no generator": (
        put("GENROU", 0, gen=77),
        ["table GENROU, row 1", "column gen names no static generator"],
    ),
    "machine elsewhere": (put("GENROU", 0, bus=1), ["table GENROU, row 1", "different buses"]),
    "two frequencies": (
        put("GENROU", 0, fn=50),
        ["table GENROU, row 1", "another rated frequency"],
    ),
    "droop of 0": (put("TGOV1", 1, R=0), ["table TGOV1, row 2", "column R is not usable"]),
    "governor of no machine": (
        put("TGOV1", 1, syn="M9"),
        ["table TGOV1, row 2", "machine is unknown"],
    ),
    "two governors": (put("TGOV1", 1, syn="M1"), ["table TGOV1, row 2", "M1 has two governors"]),
    "no column T1": (without("TGOV1", "T1"), ["table TGOV1", "column T1 is missing"]),
    "base of 0": (
        append("_config", {"section": "System", "key": "mva", "value": 0}),
        ["table _config, row 1", "column value is not usable"],
    ),
}


# A sheet has no infinity.
BAD_PLACES = [(name, save_json) for name in BAD_TABLES] + [
    (name, save_xlsx) for name in BAD_TABLES if name != "x is infinite"
]


@pytest.mark.parametrize(("name", "save"), BAD_PLACES)
def test_a_bad_table_gets_one_clear_error(tmp_path, name, save):
    change, said = BAD_TABLES[name]
    with pytest.raises(InputError) as refusal:
        open_grid(str(save(tmp_path, changed(change))))
    for words in (*said, "case."):
        assert words in str(refusal.value)
    assert refusal.value.remedy
    assert refusal.value.__context__ is None
    assert found_in(str(refusal.value).encode(), PLANTED) == []
    if save is save_xlsx and refusal.value.row:
        assert refusal.value.line == refusal.value.row + 1


BAD_TEXTS = {
    "empty": (lambda text: "", ["the file is empty"]),
    "cut off": (lambda text: text[: text.index(X[3])], ["line", "no JSON, or it is cut off"]),
    "NaN": (
        lambda text: text.replace(X[2], "NaN"),
        ["table Line, row 3", "column x is NaN or infinite"],
    ),
    "infinity": (
        lambda text: text.replace(X[2], "-Infinity"),
        ["table Line, row 3", "column x is NaN or infinite"],
    ),
    "many digits": (lambda text: text.replace(X[2], "9" * 5000), ["a number of too many digits"]),
    "deep": (lambda text: text.replace(X[2], "[" * 100_000), []),
    "a key twice": (lambda text: text.replace('"r": 0.01', '"x": 0.3'), ["the same key twice"]),
    "a key misspelt": (
        lambda text: text.replace('"tap": 0.97', '"tab": 0.97'),
        ["row 4", "other columns than the first"],
    ),
    "a row of text": (
        lambda text: text.replace('"Bus": [', '"Bus": ["one", '),
        ["table Bus, row 1", "no object"],
    ),
    "no table": (lambda text: text.replace('"Slack": [', '"Slack": {"a": [') + "}", []),
    "a list": (lambda text: "[1, 2]", ["JSON, but no grid"]),
    "a number": (lambda text: "7", ["JSON, but no grid"]),
    "latin-1": (
        lambda text: text.replace("bus 1", "bus ü").encode("latin-1"),
        ["no text in UTF-8"],
    ),
    "UTF-16": (lambda text: text.encode("utf-16"), ["no text in UTF-8"]),
    "binary": (lambda text: bytes(range(256)), ["no text in UTF-8"]),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_a_bad_json_file_gets_one_clear_error(tmp_path, name):
    change, said = BAD_TEXTS[name]
    text = change(json.dumps(private_case(), indent=1))
    path = tmp_path / "case.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as refusal:
        read_grid(path)
    for words in (*said, "case.json"):
        assert words in str(refusal.value)
    assert refusal.value.__context__ is None
    assert found_in(str(refusal.value).encode(), PLANTED) == []


def rewrite(path, content):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in content.items():
            archive.writestr(member, data)


def with_sheet(path, change):
    content = {
        member: zipfile.ZipFile(path).read(member) for member in zipfile.ZipFile(path).namelist()
    }
    rewrite(
        path,
        {
            name: change(data) if name == "xl/worksheets/sheet1.xml" else data
            for name, data in content.items()
        },
    )


BOMB = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]>'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_bytes(b"PK\3\4 no more"), "no workbook, or cut off or damaged"),
        (
            lambda path: path.write_bytes(path.read_bytes()[:-500]),
            "no workbook, or cut off or damaged",
        ),
        (
            lambda path: path.write_bytes(
                path.read_bytes().replace(b"\x50\x4b\x03\x04", b"\x50\x4b\x03\x05", 1)
            ),
            "workbook",
        ),
        (
            lambda path: path.write_text(json.dumps(private_case())),
            "no workbook, or cut off or damaged",
        ),
        (lambda path: rewrite(path, {"a.txt": b"hello"}), "no workbook that can be read"),
        (lambda path: rewrite(path, {"a.xml": bytes(300 * 2**20)}), "too large"),
        (lambda path: with_sheet(path, lambda data: BOMB + data), "XML entities"),
        (
            lambda path: with_sheet(
                path, lambda data: (BOMB.decode() + data.decode()).encode("utf-16")
            ),
            "XML entities",
        ),
        (lambda path: with_sheet(path, lambda data: data[:-40]), "no workbook that can be read"),
        (
            lambda path: with_sheet(
                path, lambda data: data.replace(b'<row r="3"', b'<row r="1048576999"')
            ),
            "workbook|cells",
        ),
    ],
    ids=[
        "empty",
        "head only",
        "cut off",
        "damaged",
        "JSON",
        "no sheets",
        "zip bomb",
        "XML bomb",
        "UTF-16 bomb",
        "cut",
        "far row",
    ],
)
def test_a_bad_workbook_gets_one_clear_error(tmp_path, change, said):
    path = save_xlsx(tmp_path, private_case())
    change(path)
    with pytest.raises(InputError, match=said) as refusal:
        read_grid(path)
    assert "case.xlsx" in str(refusal.value)
    assert refusal.value.__context__ is None


@pytest.mark.parametrize(
    ("cell", "value", "said"),
    [
        ("J3", "=1/3", "line 3: column x holds a formula"),
        ("J1", "r", "line 1: a column's name occurs twice"),
        ("Z4", 7, "line 4: the row has more cells"),
        ("J3", "#DIV/0!", "line 3: column x is not a number"),
        ("J3", True, "line 3: column x is not a number"),
    ],
)
def test_a_bad_cell_is_named_by_its_row(tmp_path, cell, value, said):
    path = save_xlsx(tmp_path, private_case())
    book = openpyxl.load_workbook(path)
    assert book["Line"]["J1"].value == "x"
    book["Line"][cell] = value
    book.save(path)
    with pytest.raises(InputError, match=said):
        read_grid(path)


def test_a_sheet_without_names_is_refused(tmp_path):
    path = save_xlsx(tmp_path, private_case())
    book = openpyxl.load_workbook(path)
    book["Line"].insert_rows(1)
    book.save(path)
    with pytest.raises(InputError, match="line 1: the first row is blank"):
        read_grid(path)


def test_too_many_cells_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(workbook, "MOST_CELLS", 50)
    with pytest.raises(InputError, match="too many cells"):
        read_grid(save_xlsx(tmp_path, private_case()))


def test_without_openpyxl_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    path = save_xlsx(tmp_path, private_case())
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    with pytest.raises(InputError, match=r"gridveil\[xlsx\]"):
        read_grid(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    for name in ("nowhere.xlsx", "nowhere.json"):
        with pytest.raises(InputError, match=rf"{name}: there is no such file.*Check the path"):
            read_grid(tmp_path / name)


# --- mutated files --------------------------------------------------------------------------------

HUGE = (
    b"1e308",
    b"-1e300",
    b"1e-320",
    b"NaN",
    b"Infinity",
    b"9" * 400,
    b"-5",
    b"0",
    b"1048577",
    b"null",
    b"true",
    b"[]",
    b'"x"',
)


def mutated(data, rng):
    """Bytes with one thing wrong: flipped bits, cut off, repeated, a number replaced, another
    encoding.
    """
    match rng.randrange(6):
        case 0:
            data = bytearray(data)
            for _ in range(rng.choice((1, 3, 20))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return bytes(data)
        case 1:
            return data[: rng.randrange(len(data))]
        case 2:
            start = rng.randrange(len(data))
            return data[:start] + data[start : start + rng.randrange(500)] + data[start:]
        case 3:
            found = rng.choice(list(re.finditer(rb"\d+\.?\d*", data)))
            return data[: found.start()] + rng.choice(HUGE) + data[found.end() :]
        case 4:
            return data.decode("latin-1").encode(
                rng.choice(("utf-16", "utf-32", "utf-8-sig", "cp037")), errors="replace"
            )
        case _:
            rows = data.split(b"\n")
            i, j = rng.randrange(len(rows)), rng.randrange(len(rows))
            rows[i], rows[j] = rows[j], rows[i]
            return b"\n".join(rows)


def mutated_inside(data, rng):
    """A workbook one of whose members is mutated, packed anew with a right checksum."""
    members = zipfile.ZipFile(io.BytesIO(data))
    chosen, out = (
        rng.choice([name for name in members.namelist() if name.startswith("xl/")]),
        io.BytesIO(),
    )
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in members.namelist():
            archive.writestr(
                name, mutated(members.read(name), rng) if name == chosen else members.read(name)
            )
    return out.getvalue()


def assert_read_or_refused(path):
    try:
        open_grid(str(path), options={"damping": 1.0})
    except GridveilError as error:
        assert error.remedy
        assert found_in(str(error).encode(), PLANTED) == []


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_mutated_file_is_read_or_refused_in_one_clear_error(tmp_path, seed):
    rng = random.Random(seed)
    plain = {
        ".json": save_json(tmp_path, private_case()).read_bytes(),
        ".xlsx": save_xlsx(tmp_path, private_case()).read_bytes(),
    }
    for _ in range(60 if seed == 1 else 1500):
        suffix = rng.choice((".json", ".xlsx"))
        change = mutated_inside if suffix == ".xlsx" and rng.random() < 0.7 else mutated
        path = tmp_path / f"mutated{suffix}"
        path.write_bytes(change(plain[suffix], rng))
        assert_read_or_refused(path)


# --- the files of ANDES itself --------------------------------------------------------------------

SHIPPED = package_folder(PACKAGES["andes"]) or Path("andes-is-not-installed")


@pytest.mark.parametrize(
    "name", ["ieee14/ieee14_full.xlsx", "kundur/kundur_full.xlsx", "kundur/kundur_full.json"]
)
def test_a_shipped_case_is_read(name):
    source = open_grid(str(SHIPPED / name))
    assert len(source.facts.machines) == (5 if "14" in name else 4)
    assert (source.facts.droop_gain > 0).all()


def test_workbook_and_json_of_one_case_agree():
    one, other = (
        open_grid(str(SHIPPED / f"kundur/kundur_full{end}")) for end in (".xlsx", ".json")
    )
    for name, values in private(one).items():
        assert private(other)[name] == pytest.approx(values, rel=1e-12), name


@pytest.mark.slow
def test_every_shipped_case_is_read_or_refused_for_what_it_lacks():
    without_a_grid = {"ieee14_dyn_only.xlsx", "plbvf.xlsx", "pqts.xlsx"}
    for path in sorted(SHIPPED.rglob("*")):
        if path.suffix in (".xlsx", ".json") and path.name not in without_a_grid:
            assert len(read_grid(path).machines.bus), path
    for name in without_a_grid:
        with pytest.raises(InputError, match="table Bus is missing"):
            read_grid(SHIPPED / "ieee14" / name)


def test_reading_changes_nothing_in_a_document():
    case = private_case()
    before = copy.deepcopy(case)
    from gridveil.readers.andes import read_andes_json

    read_andes_json(Path("case.json"), case)
    assert case == before
