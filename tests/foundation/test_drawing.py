"""Figures that cannot be written are told in words."""

import pytest

from gridveil.foundation.drawing import new_figure, written
from gridveil.foundation.errors import GridveilError


@pytest.mark.parametrize("name", ["nowhere/x.png", "x.doc"])
def test_a_figure_that_cannot_be_written_says_what_to_name(tmp_path, name):
    figure, _ = new_figure(2.0, 1.0)
    with pytest.raises(GridveilError, match=r"could not be written.*\.png, \.pdf or \.svg"):
        written(figure, str(tmp_path / name))
