"""Figures, all in one look: units on every axis, colours that colour-blind readers can tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from gridveil.shown import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from gridveil.leakage import Leakage
    from gridveil.measured import Measured
    from gridveil.plan import Plan
    from gridveil.trajectory import Trajectory

# The paper's yellow, blue and red, in the hues of Tol's high-contrast palette.
NOISY, FITTED, SOURCE = "#DDAA33", "#004488", "#BB5566"
CYCLE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000")
UNTOLD = {"png": ("Software",), "pdf": ("Creator", "Producer", "CreationDate"), "svg": ("Creator", "Date")}
LONGEST = 100  # characters of a title or a label; a longer one would leave no room for the axes
STYLES = ("-", "--", "-.", ":")


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **sharing: Any) -> tuple[Figure, list[Axes]]:
    """Make a figure of the house's style without touching matplotlib's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False, **sharing).ravel())
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(True, color="#dddddd", linewidth=0.6)
        one.tick_params(labelsize=8)
    return figure, axes


def plot_trajectory(trajectory: Trajectory, path: str | None = None) -> Figure:
    """Draw the frequency deviation of every bus of a trajectory over time."""
    figure, (axes,) = new_figure(6.4, 3.6)
    for number, (bus, hz) in enumerate(zip(trajectory.buses, trajectory.deviation_hz.T, strict=True)):
        style = STYLES[number // len(CYCLE) % len(STYLES)]
        axes.plot(trajectory.time_s, hz, style, color=CYCLE[number % len(CYCLE)], linewidth=1.2, label=_plain(bus))
    axes.axhline(trajectory.settling * trajectory.frequency_hz, color="#888888", linewidth=0.8, linestyle=(0, (1, 2)))
    axes.set_xlabel("time [s]", fontsize=9)
    axes.set_ylabel("frequency deviation [Hz]", fontsize=9)
    if len(trajectory.buses) <= 24:
        axes.legend(fontsize=8, ncols=ceil(len(trajectory.buses) / 8), frameon=False)
    if trajectory.demo:
        mark_demo(figure)
    return _written(figure, path)


def plot_measured(measured: Sequence[Measured], path: str | None = None) -> Figure:
    """Draw the samples of measured trajectories, one panel each, with a line at each step of the event."""
    figure, axes = new_figure(6.4, 3.0 * len(measured) + 0.4, rows=len(measured))
    for panel, one in zip(axes, measured, strict=True):
        record = one.trajectory
        for number, (place, hz) in enumerate(zip(one.locations, record.deviation_hz.T, strict=True)):
            label = _plain(f"{place.column} (bus {place.bus}), {100 * place.gaps:.0f} % gaps")
            # Dots too: a sample between two gaps makes no line.
            panel.plot(
                record.time_s, 1000 * hz, ".-", color=CYCLE[number % len(CYCLE)], linewidth=0.9, markersize=2, label=label
            )
        for number, step in enumerate(one.event.steps):
            panel.axvline(step.at_s, color="#888888", linewidth=0.9, linestyle="--", label="event" if number == 0 else None)
        panel.set_title(_plain(f"{one.declared.file}: {one.declared.event}"), fontsize=9)
        panel.set_xlabel("time [s]", fontsize=9)
        panel.set_ylabel("deviation [mHz]", fontsize=9)
        if len(one.locations) <= 12:
            panel.legend(fontsize=8, frameon=False)
    return _written(figure, path)


def plain_ticks(axis: Axis) -> None:
    """Label a logarithmic axis by 0.1, 0.2, 0.5, 1, …"""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def plot_leakage(found: Mapping[str, Leakage], path: str | None = None) -> Figure:
    """Draw the relative error that records leave an attacker in each item, one panel a group; a line at what bounds leave."""
    import numpy as np
    from matplotlib.ticker import MaxNLocator

    figure, axes = new_figure(9.0, 3.4, columns=3)
    for panel, name in zip(axes, ("k", "m", "d"), strict=True):
        for number, (words, one) in enumerate(found.items()):
            for known, attacker in ((True, one.known), (False, one.unknown)):
                values = np.sort(attacker.items[name].with_bounds)
                panel.plot(
                    np.arange(1, len(values) + 1),
                    100 * values,
                    "o" if known else "x",
                    color=CYCLE[number % len(CYCLE)],
                    markersize=4,
                    label=_plain(f"{words}, total load {'public' if known else 'unknown'}"),
                )
        prior = 100 * next(iter(found.values())).known.items[name].prior
        panel.axhline(prior, color="#888888", linestyle="--", linewidth=0.9, label="public bounds alone")
        panel.set_yscale("log")
        plain_ticks(panel.yaxis)
        panel.set_ylim(bottom=min(panel.get_ylim()[0], prior / 10))  # a decade at least, or hardly a tick would be left
        panel.set_title({"k": "line weights k", "m": "inertia m", "d": "damping d"}[name], fontsize=9)
        panel.set_xlabel("item, best known first", fontsize=9)
        panel.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes[0].set_ylabel("relative error [%]", fontsize=9)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8, frameon=False)
    return _written(figure, path)


def plot_comparison(source: Trajectory, noisy: Trajectory, fitted: Trajectory, path: str | None = None) -> Figure:
    """Draw source, noisy and fitted frequency side by side, one panel a machine. It shows the truth: a demo."""
    columns = min(3, len(source.buses))
    rows = ceil(len(source.buses) / columns)
    figure, axes = new_figure(2.6 * columns, 1.9 * rows + 0.6, rows, columns, sharex=True, sharey=True)
    for place, panel in enumerate(axes):
        if place >= len(source.buses):
            panel.set_visible(False)
            continue
        panel.plot(source.time_s, source.deviation_hz[:, place], color=SOURCE, linewidth=2.4, label="source")
        panel.plot(
            noisy.time_s, noisy.deviation_hz[:, place], color=NOISY, linewidth=1.4, linestyle="--", label="noisy (steps 1, 2)"
        )
        panel.plot(fitted.time_s, fitted.deviation_hz[:, place], color=FITTED, linewidth=1.1, label="fitted (step 3)")
        panel.set_title(_plain(f"machine {fitted.buses[place]}"), fontsize=9)
        if place // columns == rows - 1:
            panel.set_xlabel("time [s]", fontsize=9)
        if place % columns == 0:
            panel.set_ylabel("deviation [Hz]", fontsize=9)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9, frameon=False)
    mark_demo(figure)
    return _written(figure, path)


def plot_plan(plan: Plan, path: str | None = None) -> Figure:
    """Draw the trade-off of a plan: error against ε of each mechanism, one panel a target, with the proposed point."""
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
            target.limit, color="#888888", linewidth=0.9, linestyle="--", label=f"target, {target.limit:g} {target.unit}"
        )
        if plan.chosen is not None and plan.chosen.epsilon is not None:
            at = float(plan.chosen.epsilon), plan.chosen.errors[target.error]
            panel.plot(*at, "o", color="#000000", markersize=6, label=f"proposed, ε = {at[0]:g}")
        panel.set_xlabel(f"ε ({plan.curves[0].choice.adjacency.rule})", fontsize=9)
        name = "RoCoF" if target.figure == "rocof" else target.figure
        panel.set_ylabel(f"error of the {name} [{target.unit}]", fontsize=9)
        panel.legend(fontsize=8, frameon=False)
    figure.suptitle(
        _plain(f"{plan.surrogate.facts.name} (public surrogate): {100 * plan.quantile:g} % of releases are nearer than this"),
        fontsize=9,
    )
    return _written(figure, path)


def mark_demo(figure: Figure) -> None:
    """Write "demo" into a corner: the figure shows the truth or seeded noise."""
    figure.text(0.005, 0.005, "demo", ha="left", va="bottom", fontsize=8, color="#888888")


def _plain(words: str) -> str:
    """Words with a name in them: matplotlib would set what stands between dollars, and hide what begins with _."""
    text = shown(words)
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return (" " * text.startswith("_") + text).replace("$", r"\$")


def _written(figure: Figure, path: str | None) -> Figure:
    if path is not None:
        import matplotlib as mpl

        # No software name, no time and no random names in the file.
        with mpl.rc_context({"svg.hashsalt": "gridveil"}):
            figure.savefig(path, dpi=160, metadata=dict.fromkeys(UNTOLD.get(path.rpartition(".")[2], ())))
    return figure
