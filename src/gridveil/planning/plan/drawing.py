"""Figures of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridveil.foundation.drawing import CYCLE, STYLES, new_figure, plain, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gridveil.planning.plan import Plan


def plot_plan(plan: Plan, path: str | None = None) -> Figure:
    """Draw the trade-off of a plan: error against ε of each mechanism, one panel a target, with the
    proposed point.
    """
    figure, axes = new_figure(4.6 * len(plan.targets) + 0.4, 3.8, columns=len(plan.targets))
    for panel, target in zip(axes, plan.targets, strict=True):
        for number, curve in enumerate(plan.curves):
            # Mechanisms may lie on top of each other: another width for each.
            panel.loglog(
                curve.epsilon,
                curve.errors[target.error],
                STYLES[number % len(STYLES)],
                color=CYCLE[number % len(CYCLE)],
                linewidth=3.0 - 0.7 * number,
                label=curve.choice.mechanism,
            )
        panel.axhline(
            target.limit,
            color="#888888",
            linewidth=0.9,
            linestyle="--",
            label=f"target, {target.limit:g} {target.unit}",
        )
        if plan.chosen is not None and plan.chosen.epsilon is not None:
            at = float(plan.chosen.epsilon), plan.chosen.errors[target.error]
            panel.plot(*at, "o", color="#000000", markersize=6, label=f"proposed, ε = {at[0]:g}")
        panel.set_xlabel(f"ε ({plan.curves[0].choice.adjacency.rule})", fontsize=9)
        name = "RoCoF" if target.figure == "rocof" else target.figure
        panel.set_ylabel(f"error of the {name} [{target.unit}]", fontsize=9)
        panel.legend(fontsize=8, frameon=False)
    figure.suptitle(
        plain(
            f"{plan.surrogate.facts.name} (public surrogate): {100 * plan.quantile:g} % of "
            "releases are nearer than this"
        ),
        fontsize=9,
    )
    return written(figure, path)
