"""One palette for figures and pages, with enough contrast in every look."""

import re

import pytest

from gridveil.foundation import drawing
from gridveil.foundation.chart import CHART_STYLE
from gridveil.foundation.page import house_style
from gridveil.foundation.palette import CYCLE, DARK, LIGHT, PRINTED
from gridveil.publication.card import _own as of_card
from gridveil.studio.app import files

WORDS = ("ink", "quiet", "blue", "red", "amber", "green")
LINES = [name for name in LIGHT if name.startswith("series-")]
PAPER_ONLY = {"#000000", "#ffffff", "#dddddd", "#00448833"}


def linear(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]


def contrast(one, other):
    """As WCAG 2.2 defines it."""
    light = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in map(linear, (one, other))]
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.parametrize("look", [LIGHT, DARK, PRINTED], ids=["light", "dark", "printed"])
def test_words_and_lines_stand_out_from_their_ground(look):
    assert look.keys() == LIGHT.keys()
    for ground in (look["paper"], look["panel"]):
        assert min(contrast(look[name], ground) for name in WORDS) >= 4.5
        assert min(contrast(look[name], ground) for name in LINES) >= 3
    assert contrast(look["paper"], look["red"]) >= 4.5  # words on a coloured ground
    assert contrast(look["paper"], look["amber"]) >= 4.5
    assert contrast(look["paper"], look["blue"]) >= 4.5


def test_figures_and_pages_share_the_palette():
    assert drawing.CYCLE == CYCLE == tuple(LIGHT[name] for name in LINES)
    assert LIGHT["blue"] == drawing.FITTED
    for name, colour in LIGHT.items():
        assert f"--{name}: {colour};" in house_style()
    own = files("gridveil.studio").joinpath("static", "studio.css").read_text(encoding="utf-8")
    for sheet in (CHART_STYLE, of_card("card.css"), own):
        assert set(re.findall(r"#[0-9a-f]{6,8}\b", sheet)) <= PAPER_ONLY
        assert set(re.findall(r"var\(--([a-z0-9-]+)\)", sheet)) <= LIGHT.keys()
