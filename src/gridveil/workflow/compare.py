"""Two models beside each other: what each answers to the same event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.events import WORDS, Event
from gridveil.dynamics.metrics import Metrics, read
from gridveil.dynamics.models import ReducedModel
from gridveil.dynamics.simulate import simulate
from gridveil.dynamics.trajectory import Trajectory, shade
from gridveil.foundation.arguments import a_number, names, of_type, takes
from gridveil.foundation.drawing import (
    FITTED,
    NOISY,
    labelled,
    mark_demo,
    new_figure,
    plain,
    written,
)
from gridveil.foundation.errors import OptionError
from gridveil.foundation.looks import looks
from gridveil.publication.bundle import load
from gridveil.publication.release import Release, reference_event

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOT_COMPARED = "Nothing was compared."
MOST_PANELS = 12
Comparable = Release | ReducedModel | DetailedModel | str | Path


@looks(
    lambda own: f"{len(own.a.buses)} buses after {own.event}",
    lambda own: {f"{bus}: RMS difference [mHz]": f"{rms:.3g}" for bus, rms in own.rms_mhz.items()},
)
@dataclass(frozen=True, eq=False)
class ModelComparison:
    """What two models answer to one event, at the machines that both have.

    event : in words, or as it was given.
    a, b : trajectories of the same buses on the same clock.
    system_a, system_b : figures of the inertia-weighted frequency.
    """

    event: str
    a: Trajectory
    b: Trajectory
    system_a: Metrics
    system_b: Metrics

    @property
    def rms_mhz(self) -> dict[str, float]:
        """Root mean square of the difference at each bus [mHz]."""
        left = 1000 * (self.a.deviation_hz - self.b.deviation_hz)
        return dict(zip(self.a.buses, np.sqrt((left**2).mean(axis=0)).tolist(), strict=True))

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row for each bus and one for the system; nadir [Hz], RoCoF over 0.5
        s [Hz/s] and settling value [Hz] of both, and the difference's root mean square [mHz].
        """
        import pandas as pd

        rows = {}
        for one, other in zip(self.a.responses(), self.b.responses(), strict=True):
            rows[one.bus] = {
                f"{name}_{side}": getattr(which, name)
                for name in ("nadir_hz", "rocof_hz_s", "settling_hz")
                for side, which in (("a", one), ("b", other))
            } | {"rms_mhz": self.rms_mhz[one.bus]}
        rows["system"] = {
            f"{name}_{side}": float(getattr(which, name))
            for name in ("nadir_hz", "rocof_hz_s", "settling_hz")
            for side, which in (("a", self.system_a), ("b", self.system_b))
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("bus")

    def plot(self, path: str | None = None) -> Figure:
        """Draw both, a panel a bus, bands of releases shaded; write the figure to path if one is
        given.
        """
        count = min(len(self.a.buses), MOST_PANELS)
        columns = min(3, count)
        rows = -(-count // columns)
        figure, axes = new_figure(2.8 * columns, 2.0 * rows + 0.7, rows, columns, sharex=True)
        for place, panel in enumerate(axes):
            if place >= count:
                panel.set_visible(False)
                continue
            for run, style, colour, words in (
                (self.a, "--", NOISY, "a"),
                (self.b, "-", FITTED, "b"),
            ):
                shade(panel, run, place, colour, scale=1000, name=f"{words}: ")
                mhz = 1000 * run.deviation_hz[:, place]
                panel.plot(run.time_s, mhz, style, color=colour, linewidth=1.3, label=words)
            panel.set_title(plain(self.a.buses[place]), fontsize=9)
            labelled(
                panel,
                "time [s]" if place // columns == rows - 1 else None,
                "deviation [mHz]" if place % columns == 0 else None,
            )
        figure.legend(
            *axes[0].get_legend_handles_labels(),
            loc="outside upper center",
            ncols=4,
            fontsize=9,
            frameon=False,
        )
        if self.a.demo or self.b.demo:
            mark_demo(figure)
        return written(figure, path)


A_SIDE = of_type(
    (Release, ReducedModel, DetailedModel, str, Path), "a release, its model, or a path"
)


@takes(
    outcome=NOT_COMPARED,
    a=A_SIDE,
    b=A_SIDE,
    event=of_type((Event, str, type(None)), WORDS),
    horizon_s=a_number("a time above 0 [s]"),
    dt_s=a_number("a time step above 0 [s]"),
    buses=names("names of buses, such as ['G1', 'L3']"),
)
def compare(
    a: Comparable,
    b: Comparable,
    event: Event | str | None = None,
    *,
    horizon_s: float = 30.0,
    dt_s: float = 0.01,
    buses: Sequence[str] | None = None,
) -> ModelComparison:
    """Simulate one event on two models, and set the answers beside each other.

    a, b : releases, models, or paths of bundles, of one nominal frequency.
    event : default: the reference event of a.
    buses : default: the machines that both have.
    """
    sides = [load(side) if isinstance(side, (str, Path)) else side for side in (a, b)]
    first, second = (side.model if isinstance(side, Release) else side for side in sides)
    if first.frequency_hz != second.frequency_hz:
        raise OptionError(
            f"The models run at {first.frequency_hz:g} and {second.frequency_hz:g} Hz.",
            expected="two models of one nominal frequency",
            outcome=NOT_COMPARED,
        )
    words = reference_event(first) if event is None else event
    happenings = [
        Event.parse(words, base_mva=model.base_mva) if isinstance(words, str) else words
        for model in (first, second)
    ]
    shared = [bus for bus in first.machines if bus in second.machines]
    named = shared if buses is None else list(buses)
    if not named:
        raise OptionError(
            "The models have no machine in common.",
            expected="models whose machines have the same names, or buses=[…]",
            outcome=NOT_COMPARED,
        )
    runs, systems = [], []
    for side, model, happening in zip(sides, (first, second), happenings, strict=True):
        clock: dict[str, Any] = {"horizon_s": horizon_s, "dt_s": dt_s}
        if isinstance(side, Release):
            runs.append(side.simulate(happening, **clock, buses=named))
        else:
            runs.append(simulate(model, happening, **clock, buses=named))
        systems.append(read(simulate(model, happening, **clock), model, happening))
    return ModelComparison(words if isinstance(words, str) else repr(words), *runs, *systems)
