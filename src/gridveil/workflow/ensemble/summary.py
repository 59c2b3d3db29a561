"""What an ensemble shows: figures of each cell, a page and a plot; demos, all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.foundation.drawing import (
    CYCLE,
    STYLES,
    labelled,
    mark_demo,
    new_figure,
    plain,
    plain_ticks,
    written,
)
from gridveil.workflow.ensemble.batch import FIGURES, Row
from gridveil.workflow.ensemble.cells import CONTROLS, NO_RELEASE, ONE_MACHINE
from gridveil.workflow.ensemble.spec import NO_FIT
from gridveil.workflow.ensemble.table import DEMO, TEXTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNITS = {"rms_mhz": "mHz", "nadir_mhz": "mHz", "rocof_mhz_s": "mHz/s", "settling_mhz": "mHz"}
WORDS = {
    "rms_mhz": "RMS",
    "nadir_mhz": "nadir",
    "rocof_mhz_s": "RoCoF",
    "settling_mhz": "settling",
}
GREYS = {NO_RELEASE: "#555555", ONE_MACHINE: "#999999"}


@dataclass(frozen=True)
class CellFigures:
    """Figures of one cell over its draws.

    median, low80, high80 : of each figure's size, by name.
    nearer : share of draws whose RMS is below the median of "no release" with the same fit; None of
    a control.
    discarded : share of draws whose fit the guard discarded.
    """

    case: str
    adjacency: str
    mechanism: str
    epsilon: str
    fit: str
    draws: int
    median: dict[str, float]
    low80: dict[str, float]
    high80: dict[str, float]
    nearer: float | None
    discarded: float


def levels(rows: Sequence[Row]) -> Iterator[CellFigures]:
    """Summarise rows cell by cell, in their order."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in TEXTS[1:]), []).append(row)
    without = {
        (case, rule, fit): float(np.median([row["rms_mhz"] for row in some]))
        for (case, rule, mechanism, _, fit), some in groups.items()
        if mechanism == NO_RELEASE
    }
    for (case, rule, mechanism, epsilon, fit), some in groups.items():
        low, middle, high = np.quantile(
            [[row[name] for name in FIGURES] for row in some], [0.1, 0.5, 0.9], axis=0
        )
        control = None if mechanism in CONTROLS else without.get((case, rule, fit))
        yield CellFigures(
            case,
            rule,
            mechanism,
            epsilon,
            fit,
            len(some),
            *(dict(zip(FIGURES, part.tolist(), strict=True)) for part in (middle, low, high)),
            nearer=None
            if control is None
            else float(np.mean([r["rms_mhz"] < control for r in some])),
            discarded=float(np.mean([row["discarded"] for row in some])),
        )


def table_of(figures: Sequence[CellFigures]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and rows of the summary."""
    heads = (
        *("case", "adjacency", "mechanism", "fit", "ε", "draws"),
        *(f"{WORDS[name]} [{UNITS[name]}]" for name in FIGURES),
        "RMS, 80 %",
        "nearer than no release",
    )
    rows = [
        (
            *(one.case, one.adjacency, one.mechanism, one.fit, one.epsilon or "-", str(one.draws)),
            *(f"{one.median[name]:.3g}" for name in FIGURES),
            f"{one.low80['rms_mhz']:.3g} … {one.high80['rms_mhz']:.3g}",
            "" if one.nearer is None else f"{100 * one.nearer:.0f} %",
        )
        for one in figures
    ]
    return heads, rows


def markdown(figures: Sequence[CellFigures], failed: Sequence[Any], left_out: Sequence[str]) -> str:
    """The page."""
    heads, rows = table_of(figures)
    lines = [
        "# Ensemble (demo)",
        "",
        f"**{DEMO}**",
        "",
        "Medians over draws of the largest error over the events; RMS: over machines, time and",
        f"events. Controls: *{NO_RELEASE}* knows the public bounds alone, and with a fit the",
        f"record; *{ONE_MACHINE}* is the simplest model, fitted to the record.",
        "",
        *_table(heads, rows),
        "",
        *(f"- Left out: {words}." for words in left_out),
    ]
    if failed:
        lines += ["", "## Failed", "", *_failed(failed)]
    return "\n".join(lines).rstrip() + "\n"


def _failed(failed: Sequence[Any]) -> list[str]:
    heads = ("cell", "seeds", "tries", "why")
    return _table(heads, failed_rows(failed))


def failed_rows(failed: Sequence[Any]) -> list[tuple[str, ...]]:
    """What failed, a row a batch."""
    return [
        (one.cell, f"{one.first} … {one.last}", str(one.tries), one.why.replace("|", "/"))
        for one in failed
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
        *(f"| {' | '.join(' '.join(cell.split()) for cell in row)} |" for row in rows),
    ]


def plot(figures: Sequence[CellFigures], path: str | None = None) -> Figure:
    """Draw the RMS error against ε, a line a mechanism and fit with its 80 % band, a panel a case
    and rule; controls are dashed lines.
    """
    panels = list(dict.fromkeys((one.case, one.adjacency) for one in figures)) or [("", "")]
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = new_figure(4.6 * columns + 0.4, 4.6 * rows, rows, columns)
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    for panel, (case, rule) in zip(axes, panels, strict=False):
        own = [one for one in figures if (one.case, one.adjacency) == (case, rule)]
        drawn = [one for one in own if one.mechanism not in CONTROLS]
        names = list(dict.fromkeys((one.mechanism, one.fit) for one in drawn))
        for number, name in enumerate(names):
            some = [one for one in drawn if (one.mechanism, one.fit) == name]
            some.sort(key=lambda one: Fraction(one.epsilon))
            at = [float(Fraction(one.epsilon)) for one in some]
            colour = CYCLE[number % len(CYCLE)]
            ends = ([one.low80["rms_mhz"] for one in some], [one.high80["rms_mhz"] for one in some])
            panel.fill_between(at, *ends, color=colour, alpha=0.15, linewidth=0)
            middle = [one.median["rms_mhz"] for one in some]
            label = plain(_named(*name))
            panel.plot(at, middle, "o-", color=colour, markersize=4, label=label)
        for number, one in enumerate(one for one in own if one.mechanism in CONTROLS):
            panel.axhline(
                one.median["rms_mhz"],
                color=GREYS[one.mechanism],
                linewidth=1.0,
                linestyle=STYLES[1 + number % 3],
                label=plain(_named(one.mechanism, one.fit)),
            )
        panel.set_xscale("log")
        panel.set_yscale("log")
        plain_ticks(panel.xaxis)
        plain_ticks(panel.yaxis)
        panel.set_title(plain(case), fontsize=9)
        labelled(panel, f"ε ({rule})", "RMS error of frequency [mHz]")
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2}
        panel.legend(fontsize=7, frameon=False, **below)
    mark_demo(figure)
    return written(figure, path)


def _named(mechanism: str, fit: str) -> str:
    return mechanism if fit == NO_FIT else f"{mechanism}, {fit}"
