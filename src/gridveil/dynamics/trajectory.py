"""Trajectories: what `simulate` returns, and what was measured.

They plot themselves and turn into tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.dynamics.engine.lti import XArray, beside, namespace
from gridveil.foundation.arguments import Unfit, names, takes
from gridveil.foundation.drawing import (
    CYCLE,
    FITTED,
    NOISY,
    SOURCE,
    STYLES,
    labelled,
    mark_demo,
    new_figure,
    own_axes,
    plain,
    written,
)
from gridveil.foundation.looks import looks
from gridveil.foundation.shown import csv_cell
from gridveil.grid.facts import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Rate of change of frequency is measured over half a second, as European operators do.
ROCOF_WINDOW_S = 0.5


Ends = tuple[float, float]


def _numbers(value: Any) -> Array:
    """Read an array of numbers."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise Unfit("an array of numbers") from None


@dataclass(frozen=True)
class BusResponse:
    """What an engineer reads off one bus's frequency.

    nadir_hz : largest deviation from nominal, with its sign [Hz].
    nadir_s : when [s], both also between two samples;
    rocof_hz_s : steepest mean slope over 0.5 s, with its sign [Hz/s].
    settling_hz : deviation it settles at [Hz].
    nadir_band_hz, rocof_band_hz_s, settling_band_hz : lower and upper end of the band of each;
    None where the trajectory has none.
    """

    bus: str
    nadir_hz: float
    nadir_s: float
    rocof_hz_s: float
    settling_hz: float
    nadir_band_hz: Ends | None = None
    rocof_band_hz_s: Ends | None = None
    settling_band_hz: Ends | None = None


@dataclass(frozen=True, eq=False)
class Band:
    """Where a trajectory and its figures lie with probability `level`, each for itself.

    lower, upper : (N + 1, h) of every sample [p.u.].
    nadir : (h, 2) of each bus's largest deviation [p.u.]; rocof : (h, 2) [p.u./s].
    settling : lower and upper end [p.u.].
    """

    lower: Array
    upper: Array
    nadir: Array
    rocof: Array
    settling: Ends
    level: float


@looks(
    lambda own: (
        f"{len(own.buses)} buses, {len(own.time_s)} samples to {own.time_s[-1]:g} s"
        + (" (demo)" if own.demo else "")
    ),
    lambda own: {f"{one.bus}: nadir [Hz]": f"{one.nadir_hz:+.4f}" for one in own.responses()},
)
@takes(time_s=_numbers, omega=_numbers, buses=names("names of buses"))
@dataclass(frozen=True, eq=False)
class Trajectory:
    """Frequency deviations of some buses on an even clock; a measured one has NaN in gaps, and its
    clock is even to a step.

    time_s : (N + 1,) [s].
    omega : (N + 1, h) [p.u. of frequency_hz].
    buses : h labels.
    settling : steady value [p.u.].
    band : where they lie by what is known of the model, if that was asked for.
    """

    time_s: Array
    omega: Array
    buses: tuple[str, ...]
    frequency_hz: float
    settling: float
    demo: bool = False
    band: Band | None = None

    @property
    def deviation_hz(self) -> Array:
        """Frequency deviation (N + 1, h) [Hz]."""
        return self.omega * self.frequency_hz

    def responses(self) -> list[BusResponse]:
        """Nadir, rate of change and settling value of each bus."""
        hz = self.deviation_hz.T
        low, when = nadir(self.time_s, hz)
        slope = rocof(self.time_s, hz)
        return [
            BusResponse(
                bus,
                float(low[i]),
                float(when[i]),
                float(slope[i]),
                self.settling * self.frequency_hz,
                **self._bands(i),
            )
            for i, bus in enumerate(self.buses)
        ]

    def _bands(self, place: int) -> dict[str, Ends]:
        """Bands of a bus's figures [Hz, Hz/s], if there are any."""
        if self.band is None:
            return {}
        return {
            "nadir_band_hz": in_hz(self.band.nadir[place], self.frequency_hz),
            "rocof_band_hz_s": in_hz(self.band.rocof[place], self.frequency_hz),
            "settling_band_hz": in_hz(self.band.settling, self.frequency_hz),
        }

    def to_frame(self, *, bands: bool = False) -> Any:
        """Return a pandas DataFrame: index time [s], one column of frequency deviation [Hz] a
        bus; with bands, then one of its lower and one of its upper end a bus, `G1 low`, `G1 high`.
        """
        import pandas as pd

        columns, values = self._columns(bands, "{} low", "{} high")
        return pd.DataFrame(
            values * self.frequency_hz,
            index=pd.Index(self.time_s, name="time_s"),
            columns=pd.Index((*self.buses, *columns)),
        )

    def to_csv(self, *, bands: bool = False) -> str:
        """Write time [s] and frequency deviations [p.u.] as CSV text, floats in full; with bands,
        their ends as further columns.
        """
        more, values = self._columns(bands, "omega_{}_low_pu", "omega_{}_high_pu")
        named = (*(f"omega_{bus}_pu" for bus in self.buses), *more)
        header = ",".join(["time_s", *map(csv_cell, named)])
        rows = (
            ",".join(map(repr, (t, *row)))
            for t, row in zip(self.time_s.tolist(), values.tolist(), strict=True)
        )
        return "\n".join([header, *rows]) + "\n"

    def _columns(self, bands: bool, low: str, high: str) -> tuple[list[str], Array]:
        """Names of the columns of bands, if they are asked for and there, and all values (N + 1, ·)
        [p.u.].
        """
        if not bands or self.band is None:
            return [], self.omega
        ends = np.stack([self.band.lower, self.band.upper], axis=2)
        names = [name.format(bus) for bus in self.buses for name in (low, high)]
        return names, np.concatenate([self.omega, ends.reshape(len(self.omega), -1)], axis=1)

    def plot(
        self, path: str | None = None, *, ax: Axes | None = None, weights: Array | None = None
    ) -> Figure:
        """Draw the frequency of each bus, its band shaded; of many in grey beneath their mean.

        path : where to write it; None: nowhere.
        ax : matplotlib axes to draw into; None: a figure of its own.
        weights : (h,) of the mean, such as inertias; None: equal ones.
        """
        from gridveil.dynamics.many import check_axes, is_many, plot_many

        check_axes(ax)
        if is_many(self):
            return plot_many(self, path, ax, weights)
        return plot_trajectory(self, path, ax)


def in_hz(ends: Sequence[float] | Array, frequency_hz: float) -> Ends:
    """Both ends of a band in Hz, or in Hz/s."""
    return float(ends[0]) * frequency_hz, float(ends[1]) * frequency_hz


def nadir(time_s: Array, deviation: XArray) -> tuple[XArray, XArray]:
    """Find the largest deviation with its sign, and its time, between samples by a parabola through
    three of them.

    time_s : (N + 1,) an even clock [s].
    deviation : (..., N + 1) in any unit, NaN in gaps. Returns two arrays (...,).
    """
    xp, last, dt = namespace(deviation), len(time_s) - 1, float(time_s[1] - time_s[0])
    worst = _furthest(deviation)[..., None]
    before, at, after = (
        xp.take_along_axis(deviation, xp.clip(worst + step, 0, last), axis=-1)[..., 0]
        for step in (-1, 0, 1)
    )
    bend = before - 2 * at + after
    usable = (worst > 0)[..., 0] & (worst < last)[..., 0] & xp.isfinite(bend) & (bend != 0)
    slope = xp.where(usable, after - before, xp.zeros_like(bend))
    # of a step, from the worst sample
    part = -0.5 * slope / xp.where(usable, bend, xp.ones_like(bend))
    when = xp.take(beside(time_s, deviation), xp.reshape(worst, (-1,)), axis=0)
    return at + 0.25 * slope * part, xp.reshape(when, at.shape) + part * dt


def rocof(time_s: Array, deviation: XArray, window_s: float = ROCOF_WINDOW_S) -> XArray:
    """Find the steepest mean slope over a window, with its sign: (..., N + 1) to (...,) [unit of
    deviation / s].

    Before the record the grid was at rest, so that it does not matter when in the record an event
    falls.
    """
    xp, dt = namespace(deviation), float(time_s[1] - time_s[0])
    window = max(1, round(window_s / dt))
    slope = deviation / (window * dt)
    later = slope[..., window:] - slope[..., : max(0, slope.shape[-1] - window)]
    slope = xp.concat([slope[..., :window], later], axis=-1)
    steepest = _furthest(slope)[..., None]
    return xp.take_along_axis(slope, steepest, axis=-1)[..., 0]


def _furthest(values: XArray) -> XArray:
    """Position of the entry of the largest size along the last axis; gaps (NaN) count for
    nothing.
    """
    xp, size = namespace(values), namespace(values).abs(values)
    return xp.argmax(xp.where(size >= 0, size, -xp.ones_like(size)), axis=-1)


def plot_trajectory(
    trajectory: Trajectory, path: str | None = None, axes: Axes | None = None
) -> Figure:
    """Draw the frequency deviation of every bus of a trajectory over time, bands shaded."""
    figure, axes = own_axes(6.4, 3.6, axes)
    for number, (bus, hz) in enumerate(
        zip(trajectory.buses, trajectory.deviation_hz.T, strict=True)
    ):
        style = STYLES[number // len(CYCLE) % len(STYLES)]
        shade(axes, trajectory, number, CYCLE[number % len(CYCLE)])
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
    labelled(axes, "time [s]", "frequency deviation [Hz]")
    if len(trajectory.buses) <= 24:
        axes.legend(fontsize=8, ncols=ceil(len(trajectory.buses) / 8), frameon=False)
    if trajectory.demo:
        mark_demo(figure)
    return written(figure, path)


def shade(
    axes: Axes,
    trajectory: Trajectory,
    place: int,
    colour: str,
    *,
    scale: float = 1.0,
    name: str | None = None,
) -> None:
    """Shade the band of one bus, where there is one.

    scale : of its values in Hz. name : for the legend, begins what is said of it there.
    """
    band = trajectory.band
    if band is None:
        return
    hz = scale * trajectory.frequency_hz
    axes.fill_between(
        trajectory.time_s,
        hz * band.lower[:, place],
        hz * band.upper[:, place],
        color=colour,
        alpha=0.15,
        linewidth=0,
        label=None if name is None else f"{name}{100 * band.level:.0f} % band",
    )


def plot_comparison(
    source: Trajectory, noisy: Trajectory, fitted: Trajectory, title: str, path: str | None = None
) -> Figure:
    """Draw source, noisy and fitted frequency side by side, one panel a machine.

    It shows the truth: a demo.
    title : what was released, and what happens to it.
    """
    columns = min(3, len(source.buses))
    rows = ceil(len(source.buses) / columns)
    figure, axes = new_figure(
        2.6 * columns, 1.9 * rows + 0.9, rows, columns, sharex=True, sharey=True
    )
    for place, panel in enumerate(axes):
        if place >= len(source.buses):
            panel.set_visible(False)
            continue
        for shown, style, colour, width, words in (
            (source, "-", SOURCE, 2.4, "source"),
            (noisy, "--", NOISY, 1.4, "noisy (steps 1, 2)"),
            (fitted, "-", FITTED, 1.1, "fitted (step 3)"),
        ):
            hz = shown.deviation_hz[:, place]
            shade(panel, shown, place, colour)
            panel.plot(shown.time_s, hz, style, color=colour, linewidth=width, label=words)
        panel.set_title(plain(f"machine {fitted.buses[place]}"), fontsize=9)
        labelled(
            panel,
            "time [s]" if place // columns == rows - 1 else None,
            "deviation [Hz]" if place % columns == 0 else None,
        )
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        title=plain(title),
        title_fontsize=10,
        ncols=3,
        fontsize=9,
        frameon=False,
    )
    mark_demo(figure)
    return written(figure, path)
