"""Figures of many machines: each in grey, bands shaded, their mean bold, and the first seconds at
large.
"""

from dataclasses import replace

import numpy as np
import pytest

from gridveil.dynamics.many import LAYERS
from gridveil.dynamics.trajectory import Band, Trajectory

TIME = np.arange(201) / 10


def run(buses):
    omega = -1e-3 * np.arange(1, buses + 1) * (TIME > 1)[:, None]
    return Trajectory(TIME, omega, tuple(f"G{n + 1}" for n in range(buses)), 50.0, -1e-3)


@pytest.mark.parametrize(("buses", "panels"), [(7, 1), (8, 2), (40, 2)])
def test_more_machines_than_colours_are_grey_beneath_their_mean(buses, panels):
    figure = run(buses).plot()
    assert len(figure.axes) == panels
    drawn = {line.get_color() for line in figure.axes[0].lines}
    widest = max(figure.axes[0].lines, key=lambda line: line.get_linewidth())
    if panels == 1:
        assert len(drawn) > buses - 1
        return
    mean = np.asarray(widest.get_ydata(), dtype=float)
    assert mean == pytest.approx(50.0 * run(buses).omega.mean(axis=1))
    begin, end = figure.axes[1].get_xlim()
    assert end - begin < 10


def test_weights_are_those_of_the_mean():
    weights = np.arange(1.0, 9.0)
    figure = run(8).plot(weights=weights)
    widest = max(figure.axes[0].lines, key=lambda line: line.get_linewidth())
    own = 50.0 * np.average(run(8).omega, axis=1, weights=weights)
    assert np.asarray(widest.get_ydata(), dtype=float) == pytest.approx(own)


@pytest.mark.parametrize("buses", [8, 40])
def test_bands_of_many_machines_are_shaded(buses):
    plain = run(buses)
    ends = np.zeros((buses, 2))
    band = Band(plain.omega - 1e-3, plain.omega + 1e-3, ends, ends, (0.0, 0.0), 0.8)
    figure = replace(plain, band=band).plot()
    for panel in figure.axes:
        assert len(panel.collections) == LAYERS + 1  # and the legend's
        extents = [layer.get_paths()[0].get_extents() for layer in panel.collections[:LAYERS]]
        lowest, highest = min(own.y0 for own in extents), max(own.y1 for own in extents)
        assert (lowest, highest) == pytest.approx((50 * (-1e-3 * buses - 1e-3), 50 * 1e-3))
    words = {text.get_text() for text in figure.axes[0].get_legend().get_texts()}
    assert "80 % bands" in words
    assert not any(panel.collections for panel in plain.plot().axes)
