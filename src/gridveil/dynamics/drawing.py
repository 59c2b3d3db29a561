"""Figures of trajectories."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from gridveil.foundation.drawing import (
    CYCLE,
    FITTED,
    NOISY,
    SOURCE,
    STYLES,
    mark_demo,
    new_figure,
    plain,
    written,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gridveil.dynamics.trajectory import Trajectory


def plot_trajectory(trajectory: Trajectory, path: str | None = None) -> Figure:
    """Draw the frequency deviation of every bus of a trajectory over time."""
    figure, (axes,) = new_figure(6.4, 3.6)
    for number, (bus, hz) in enumerate(
        zip(trajectory.buses, trajectory.deviation_hz.T, strict=True)
    ):
        style = STYLES[number // len(CYCLE) % len(STYLES)]
        axes.plot(
            trajectory.time_s,
            hz,
            style,
            color=CYCLE[number % len(CYCLE)],
            linewidth=1.2,
            label=plain(bus),
        )
    axes.axhline(
        trajectory.settling * trajectory.frequency_hz,
        color="#888888",
        linewidth=0.8,
        linestyle=(0, (1, 2)),
    )
    axes.set_xlabel("time [s]", fontsize=9)
    axes.set_ylabel("frequency deviation [Hz]", fontsize=9)
    if len(trajectory.buses) <= 24:
        axes.legend(fontsize=8, ncols=ceil(len(trajectory.buses) / 8), frameon=False)
    if trajectory.demo:
        mark_demo(figure)
    return written(figure, path)


def plot_comparison(
    source: Trajectory, noisy: Trajectory, fitted: Trajectory, path: str | None = None
) -> Figure:
    """Draw source, noisy and fitted frequency side by side, one panel a machine.

    It shows the truth: a demo.
    """
    columns = min(3, len(source.buses))
    rows = ceil(len(source.buses) / columns)
    figure, axes = new_figure(
        2.6 * columns, 1.9 * rows + 0.6, rows, columns, sharex=True, sharey=True
    )
    for place, panel in enumerate(axes):
        if place >= len(source.buses):
            panel.set_visible(False)
            continue
        panel.plot(
            source.time_s,
            source.deviation_hz[:, place],
            color=SOURCE,
            linewidth=2.4,
            label="source",
        )
        panel.plot(
            noisy.time_s,
            noisy.deviation_hz[:, place],
            color=NOISY,
            linewidth=1.4,
            linestyle="--",
            label="noisy (steps 1, 2)",
        )
        panel.plot(
            fitted.time_s,
            fitted.deviation_hz[:, place],
            color=FITTED,
            linewidth=1.1,
            label="fitted (step 3)",
        )
        panel.set_title(plain(f"machine {fitted.buses[place]}"), fontsize=9)
        if place // columns == rows - 1:
            panel.set_xlabel("time [s]", fontsize=9)
        if place % columns == 0:
            panel.set_ylabel("deviation [Hz]", fontsize=9)
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=3,
        fontsize=9,
        frameon=False,
    )
    mark_demo(figure)
    return written(figure, path)
