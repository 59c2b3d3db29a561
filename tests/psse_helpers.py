"""RAW files, made by hand."""

from importlib.util import find_spec
from pathlib import Path

ANDES = Path(find_spec("andes").submodule_search_locations[0]) / "cases"
ORDER = (
    "bus",
    "load",
    "fixed shunt",
    "generator",
    "branch",
    "transformer",
    "area",
    "two-terminal DC",
    "VSC DC",
    "impedance correction",
    "multi-terminal DC",
    "multi-section line",
    "zone",
    "inter-area transfer",
    "owner",
    "FACTS",
    "switched shunt",
    "GNE",
    "induction machine",
)
BUS = "{}, 'BUS {}', {}, {}, 1, 1, 1, {}, {}"
MACHINE = (
    "{}, '1 ', 40.0, 3.0, 99.0, -99.0, 1.02, 0, {}, 0.0, 0.2, 0.0, 0.0, 1.0, 1, 100.0, 99.0, "
    "0.0, 1, 1.0"
)
LINE = "{}, {}, '1 ', 0.01, {}, 0.04, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, {}, 1, 0.0, 1, 1.0"
SMALL = {
    "bus": [
        BUS.format(1, "A, /B", 138.0, 3, 1.02, 0.0),
        BUS.format(2, "'' ", 138.0, 1, 0.98, -3.0),
        BUS.format(30, "C", 20.0, 1, 1.0, -5.0),
    ],
    "load": [
        "2, '1 ', 1, 1, 1, 30.0, 10.0, 8.0, 4.0, 5.0, -2.0, 1, 1, 0",
        "2, '2 ', 0, 1, 1, 99.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1",
    ],
    "fixed shunt": ["2, '1 ', 1, 3.0, 7.0", "2, '2 ', 0, 9.0, 9.0"],
    "generator": [MACHINE.format(1, 250.0)],
    "branch": [LINE.format(1, 2, 0.1234567, 1), LINE.format(2, 30, 0.2, 1)],
}


def raw(
    folder,
    sections,
    *,
    revision=33,
    name="case.raw",
    header="0, 200.0, {}, 0, 1, 50.0 / made by hand",
    order=ORDER,
):
    text = [header.format(revision), "title", "title"]
    if revision > 33:
        order = ("system-wide", *order[:5], "switching device", *order[5:], "substation")
    for section in order:
        text += [*sections.get(section, ()), f"0 / END OF {section.upper()} DATA"]
    path = folder / name
    path.write_text("\n".join([*text, "Q", ""]))
    return path
