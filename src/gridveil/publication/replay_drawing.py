"""Figures of records that a release was fitted to, beside what it gives."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.foundation.drawing import (
    FITTED,
    NOISY,
    labelled,
    mark_demo,
    new_figure,
    plain,
    written,
)
from gridveil.foundation.errors import GridveilError
from gridveil.publication.replay import DT_S, Replay, horizon_of, read_off, released_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gridveil.publication.release import Release

MOST_PANELS = 12
# What is drawn before an event [s]; the rest of a long quiet start is left out.
SHOWN_BEFORE_S = 5.0


def check_replays(release: Release, source: str) -> None:
    """Refuse a release that keeps no records."""
    if not release.replays:
        raise GridveilError(
            f"{source} keeps no record that could be replayed.",
            outcome="Nothing was simulated.",
            remedy="Only releases that were fitted to a measured trajectory keep one; give an "
            "--event instead.",
        )


def plot_replays(release: Release, path: str | None = None) -> Figure:
    """Draw measured, unfitted and fitted frequency, and the band where the release has one: a panel
    for each recorded place. Where the fit was discarded, the released one is not called fitted.
    """
    check_replays(release, "The release")
    panels = [(one, place) for one in release.replays for place in range(len(one.buses))]
    panels = panels[:MOST_PANELS]
    columns = 1 if len(panels) == 1 else 2
    rows = ceil(len(panels) / columns)
    figure, axes = new_figure(4.6 * columns + 1.0, 2.6 * rows + 0.8, rows, columns)
    for number, panel in enumerate(axes):
        if number >= len(panels):
            panel.set_visible(False)
            continue
        _draw(panel, release, *panels[number])
        labelled(
            panel,
            "time after the event [s]" if number // columns == rows - 1 else None,
            "deviation [mHz]" if number % columns == 0 else None,
        )
    known = dict(
        pair
        for panel in axes
        for pair in zip(*reversed(panel.get_legend_handles_labels()))  # noqa: B905
    )
    figure.legend(
        known.values(),
        known.keys(),
        loc="outside upper center",
        ncols=len(known),
        fontsize=9,
        frameon=False,
    )
    if release.demo:
        mark_demo(figure)
    return written(figure, path)


def _draw(panel: Axes, release: Release, one: Replay, place: int) -> None:
    event = Event.parse(one.event, base_mva=release.model.base_mva)
    run = release.simulate(
        event, horizon_s=horizon_of(event, one.time_s), dt_s=DT_S, buses=[one.buses[place]]
    )
    first_s, mhz = event.steps[0].at_s, 1000 * release.model.frequency_hz
    since, after = run.time_s - first_s, one.time_s - first_s
    if run.band is not None:
        lower, upper = (mhz * ends[:, 0] for ends in (run.band.lower, run.band.upper))
        words = f"{100 * run.band.level:.0f} % band"
        panel.fill_between(since, lower, upper, color=FITTED, alpha=0.18, linewidth=0, label=words)
    if one.measured is not None:
        seen = np.isfinite(one.measured[:, place])
        panel.plot(
            after[seen],
            mhz * one.measured[seen, place],
            ".",
            color="#555555",
            markersize=2.5,
            label="measured",
        )
    panel.plot(
        after, mhz * one.unfitted[:, place], "--", color=NOISY, linewidth=1.4, label="unfitted"
    )
    fitted = read_off(run, one.time_s)[:, 0]
    words = released_words(release)
    panel.plot(after, mhz * fitted, color=FITTED, linewidth=1.1, label=words)
    panel.set_xlim(left=max(float(after[0]), -SHOWN_BEFORE_S))
    panel.set_title(plain(f"record {one.record}, {one.buses[place]}: {one.event}"), fontsize=9)
