"""Figures of what public records give away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gridveil.foundation.drawing import CYCLE, new_figure, plain, plain_ticks, written
from gridveil.grid.parameters import PARAMETERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gridveil.adversary.leakage import Leakage


def plot_leakage(found: Mapping[str, Leakage], path: str | None = None) -> Figure:
    """Draw the relative error that records leave an attacker in each item, one panel a group; a
    line at what bounds leave.
    """
    import numpy as np
    from matplotlib.ticker import MaxNLocator

    figure, axes = new_figure(3.0 * len(PARAMETERS), 3.4, columns=len(PARAMETERS))
    for panel, name in zip(axes, PARAMETERS, strict=True):
        for number, (words, one) in enumerate(found.items()):
            for known, attacker in ((True, one.known), (False, one.unknown)):
                values = np.sort(attacker.items[name].with_bounds)
                panel.plot(
                    np.arange(1, len(values) + 1),
                    100 * values,
                    "o" if known else "x",
                    color=CYCLE[number % len(CYCLE)],
                    markersize=4,
                    label=plain(f"{words}, total load {'public' if known else 'unknown'}"),
                )
        prior = 100 * next(iter(found.values())).known.items[name].prior
        panel.axhline(
            prior, color="#888888", linestyle="--", linewidth=0.9, label="public bounds alone"
        )
        panel.set_yscale("log")
        plain_ticks(panel.yaxis)
        panel.set_ylim(
            bottom=min(panel.get_ylim()[0], prior / 10)
        )  # a decade at least, or hardly a tick would be left
        panel.set_title(f"{PARAMETERS[name].plural} {name}", fontsize=9)
        panel.set_xlabel("item, best known first", fontsize=9)
        panel.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes[0].set_ylabel("relative error [%]", fontsize=9)
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=2,
        fontsize=8,
        frameon=False,
    )
    return written(figure, path)
