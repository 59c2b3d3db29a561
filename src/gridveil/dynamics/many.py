"""Figures of many machines: each in grey, all bands shaded together, their mean bold, and the first
seconds at large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.foundation.drawing import (
    FITTED,
    NOISY,
    labelled,
    mark_demo,
    new_figure,
    own_axes,
    written,
)
from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gridveil.dynamics.trajectory import Trajectory

MOST_COLOURS = 7  # buses that a reader can tell apart
FIRST_S = 5.0  # that the second panel shows
BEFORE_S = 0.5
LAYERS, SHADE = 6, 0.6  # of all bands together, and their opacity where all overlap, about


def is_many(trajectory: Trajectory) -> bool:
    """Whether there are too many buses for a colour each."""
    return len(trajectory.buses) > MOST_COLOURS


def check_axes(axes: Any) -> None:
    """Refuse what nothing can be drawn into."""
    if axes is not None and not hasattr(axes, "get_figure"):
        raise OptionError(
            "Nothing can be drawn into what was given as ax",
            expected="Axes of matplotlib, such as those of plt.subplots()",
            outcome="Nothing was drawn.",
        )


def plot_many(
    trajectory: Trajectory,
    path: str | None = None,
    axes: Axes | None = None,
    weights: Array | None = None,
) -> Figure:
    """Draw all of it, and beside it the first seconds after the event; given axes get the whole
    alone.

    weights : (h,) of the mean; None: equal ones.
    """
    mean = np.average(trajectory.deviation_hz, axis=1, weights=weights)
    if axes is not None:
        figure, panels = own_axes(0.0, 0.0, axes)[0], [axes]
    else:
        figure, panels = new_figure(9.6, 3.6, 1, 2, sharey=True)
    what = "mean" if weights is None else "system: inertia-weighted mean"
    for panel in panels:
        _shade(panel, trajectory)
        panel.plot(trajectory.time_s, trajectory.deviation_hz, color="#bbbbbb", linewidth=0.6)
        panel.plot(trajectory.time_s, mean, color=FITTED, linewidth=2.2, label=what)
        panel.plot([], [], color="#bbbbbb", label=f"{len(trajectory.buses)} buses")
    panels[0].axhline(
        trajectory.settling * trajectory.frequency_hz,
        color="#888888",
        linewidth=0.8,
        linestyle=(0, (1, 2)),
    )
    labelled(panels[0], "time [s]", "frequency deviation [Hz]")
    panels[0].legend(fontsize=8, frameon=False)
    if len(panels) > 1:
        begin = _begin_s(trajectory)
        panels[1].set_xlim(max(0.0, begin - BEFORE_S), begin + FIRST_S)
        labelled(panels[1], "time [s], the first seconds")
    if trajectory.demo:
        mark_demo(figure)
    return written(figure, path)


def _shade(panel: Axes, trajectory: Trajectory) -> None:
    """Shade all bands together, in layers: from the outermost ends of any band to the median ends.

    A band each, of hundreds of buses, would be fainter than the shades that a picture has.
    """
    if trajectory.band is None:
        return
    share = np.linspace(0, 0.5, LAYERS)
    lower = trajectory.frequency_hz * np.quantile(trajectory.band.lower, share, axis=1)
    upper = trajectory.frequency_hz * np.quantile(trajectory.band.upper, 1 - share, axis=1)
    for low, high in zip(lower, upper, strict=True):
        panel.fill_between(
            trajectory.time_s, low, high, color=NOISY, alpha=SHADE / LAYERS, linewidth=0
        )
    words = f"{100 * trajectory.band.level:.0f} % bands"
    panel.fill_between([], [], [], color=NOISY, alpha=0.3, linewidth=0, label=words)


def _begin_s(trajectory: Trajectory) -> float:
    """When something begins to move [s]."""
    moving = np.flatnonzero(np.nan_to_num(np.abs(trajectory.omega)).max(axis=1) > 0)
    return float(trajectory.time_s[max(0, moving[0] - 1)]) if len(moving) else 0.0
