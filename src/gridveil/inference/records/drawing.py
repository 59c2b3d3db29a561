"""Figures of public records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gridveil.foundation.drawing import CYCLE, labelled, new_figure, plain, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gridveil.inference.records import Measured


def plot_measured(measured: Sequence[Measured], path: str | None = None) -> Figure:
    """Draw the samples of measured trajectories, one panel each, with a line at each step of the
    event.
    """
    figure, axes = new_figure(6.4, 3.0 * len(measured) + 0.4, rows=len(measured))
    for panel, shown in zip(axes, measured, strict=True):
        record = shown.trajectory
        for number, (place, hz) in enumerate(
            zip(shown.locations, record.deviation_hz.T, strict=True)
        ):
            label = plain(f"{place.column} (bus {place.bus}), {100 * place.gaps:.0f} % gaps")
            # Dots too: a sample between two gaps makes no line.
            panel.plot(
                record.time_s,
                1000 * hz,
                ".-",
                color=CYCLE[number % len(CYCLE)],
                linewidth=0.9,
                markersize=2,
                label=label,
            )
        for number, step in enumerate(shown.event.steps):
            panel.axvline(
                step.at_s,
                color="#888888",
                linewidth=0.9,
                linestyle="--",
                label="event" if number == 0 else None,
            )
        panel.set_title(plain(f"{shown.declared.file}: {shown.declared.event}"), fontsize=9)
        labelled(panel, "time [s]", "deviation [mHz]")
        if len(shown.locations) <= 12:
            panel.legend(fontsize=8, frameon=False)
    return written(figure, path)
