"""Charts for pages: points where their axes say, names as text, nothing that a policy blocks."""

import re

import numpy as np
import pytest

from gridveil.foundation.chart import BOTTOM, LEFT, RIGHT, TOP, Series, Shade, chart

DOT = re.compile(r'<circle class="dot release" cx="([0-9.]+)" cy="([0-9.]+)"')
TICK = re.compile(r'<text class="(middle|end)" x="([0-9.]+)" y="([0-9.]+)">([-0-9.e+]+)</text>')


def drawn(x, y, **more):
    return chart("A", [Series("one", "release", x, y, dots=True)], x="t [s]", y="f [Hz]", **more)


@pytest.mark.parametrize("log", [False, True])
def test_points_lie_where_the_ticks_of_both_axes_say(log):
    x, y = np.array([1.0, 7.0, 40.0]), np.array([0.2, 3.0, 50.0])
    svg = drawn(x, y, log=log)
    felt = np.log10 if log else np.asarray
    ticks = [(kind, float(a), float(b), float(value)) for kind, a, b, value in TICK.findall(svg)]
    *dots, _ = DOT.findall(svg)  # the last is the legend's
    found = np.array([[float(part) for part in dot] for dot in dots])
    for kind, column, values in (("middle", 0, x), ("end", 1, y)):
        known = [(felt(t[3]), t[1] if column == 0 else t[2] - 4) for t in ticks if t[0] == kind]
        assert len(known) >= 3
        at, place = np.array(known).T
        slope, offset = np.polyfit(at, place, 1)
        np.testing.assert_allclose(found[:, column], slope * felt(values) + offset, atol=0.2)
    assert (found[:, 0] >= LEFT).all() and (found[:, 0] <= RIGHT).all()
    assert (found[:, 1] >= TOP).all() and (found[:, 1] <= BOTTOM).all()


def test_what_is_not_finite_or_not_on_a_logarithmic_axis_is_left_out():
    svg = drawn([1.0, np.nan, 3.0, 0.0], [1.0, 2.0, np.inf, 4.0], log=True)
    assert len(DOT.findall(svg)) == 2  # one point, and the legend's


def test_names_stay_text_and_no_attribute_needs_a_looser_policy():
    name = '"><script>alert(1)</script>'
    shade = Shade(name, [0, 1], [0, 0], [1, 1])
    svg = chart(name, [Series(name, "truth", [0, 1], [0, 1])], x=name, y=name, shade=shade)
    rows = chart(name, [Series(name, "simple", [1, 2], [0, 1], True)], x="", y="", rows=[name] * 2)
    for made in (svg, rows):
        assert "<script" not in made and "style=" not in made
        assert "&lt;script&gt;" in made


def test_equal_values_have_an_axis_too():
    assert "NaN" not in drawn([1, 1], [0, 0]) and "inf" not in drawn([1, 1], [5, 5], log=True)
