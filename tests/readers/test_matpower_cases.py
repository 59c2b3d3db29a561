"""The page on MATPOWER's cases is true: each line is what its script makes of the case today."""

import re
from pathlib import Path

import pytest

from matpower_cases import line, names, row

PAGE = (Path(__file__).parents[2] / "docs" / "matpower-cases.md").read_text(encoding="utf-8")
LINES = {found[1]: found[0] for found in re.finditer(r"^\| (case\S+) \|.*$", PAGE, re.MULTILINE)}
SMALL = ("case118", "case300", "case33bw", "case533mt_hi", "case_ACTIVSg2000")


def test_the_page_has_every_case_of_the_wheel():
    assert list(LINES) == names()
    assert len(LINES) > 70


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SMALL else pytest.mark.slow) for name in LINES]
)
def test_a_case_is_read_right_or_refused_as_the_page_says(name):
    assert line(row(name)) == LINES[name]


@pytest.mark.parametrize(
    ("name", "number"), [("case33bw", 115), ("case533mt_hi", None), ("case533mt_lo", None)]
)
def test_cases_whose_statements_would_change_their_tables_are_refused_by_line(name, number):
    assert re.search(rf"refused: line {number or '[0-9]+'}: this line is a statement", LINES[name])
