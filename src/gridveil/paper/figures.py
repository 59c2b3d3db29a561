"""The paper's figures, by their order in it, each with its data as CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.dynamics.kron import edge_weights, kron_reduce, laplacian
from gridveil.foundation.drawing import FITTED, NOISY, SOURCE, mark_demo, new_figure
from gridveil.grid.facts import Array, IntArray
from gridveil.paper.experiment import EVENT_S, Experiment, Runs
from gridveil.paper.measures import NAMED, groups_of
from gridveil.paper.star import STAR_WEIGHTS, star_edges

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.5, 7.16  # widths in inches, IEEE's
SMALL = 7.0
Results = Mapping[Fraction, Runs]
Drawing = Callable[[Experiment, Results], tuple["Figure", list[str]]]


def star(experiment: Experiment, results: Results) -> tuple[Figure, list[str]]:
    """Fig. 1: the 5-bus star and its reduction."""
    del experiment, results
    figure, (left, right) = new_figure(COLUMN, 1.8, 1, 2)
    spots = np.array([[-1, 1], [1, 1], [1, -1], [-1, -1], [0, 0]], dtype=float)
    reduced = edge_weights(kron_reduce(laplacian(star_edges(4), STAR_WEIGHTS, 5), np.arange(4))[0])
    pairs = np.array([[i, j] for i in range(4) for j in range(i + 1, 4)])
    rows = ["network,edge,weight_pu_per_rad"]
    for panel, name, sign, buses, edges, weights, at in (
        (left, "original", "k", 5, star_edges(4), STAR_WEIGHTS, 0.5),
        (right, "reduced", "k′", 4, pairs, reduced, 0.3),
    ):
        labels = [str(bus + 1) for bus in range(buses)]
        _network(panel, spots[:buses], edges, labels, machines=range(4), weights=weights, at=at)
        panel.set_title(f"{name}, {sign} [p.u./rad]", fontsize=SMALL)
        rows += [
            f"{name},{a + 1}-{b + 1},{weight!r}"
            for (a, b), weight in zip(edges.tolist(), weights.tolist(), strict=True)
        ]
    return figure, rows


def full_network(experiment: Experiment, results: Results) -> tuple[Figure, list[str]]:
    """Fig. 2: the full network."""
    del results
    facts = experiment.source.facts
    figure, (axes,) = new_figure(COLUMN, 2.9)
    _network(
        axes,
        _place(facts.edges, len(facts.buses)),
        facts.edges,
        list(facts.buses),
        machines=facts.machines.tolist(),
    )
    axes.set_title(
        f"{len(facts.buses)} buses, {len(facts.edges)} lines; machines filled", fontsize=SMALL + 1
    )
    return figure, ["from,to", *(f"{facts.buses[i]},{facts.buses[j]}" for i, j in facts.edges)]


def reduced_network(experiment: Experiment, results: Results) -> tuple[Figure, list[str]]:
    """Fig. 3: the reduced network; a line is as wide as its weight is large."""
    del results
    model = experiment.truth
    figure, (axes,) = new_figure(COLUMN, 2.9)
    angle = np.linspace(0, 2 * np.pi, len(model.m), endpoint=False) + np.pi / 2
    spots = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    _network(
        axes,
        spots,
        model.edges,
        list(model.machines),
        machines=range(len(model.m)),
        widths=0.4 + 3.5 * model.k_r / model.k_r.max(),
    )
    axes.set_title(
        f"{len(model.m)} machines, {len(model.k_r)} weights {model.k_r.min():.3f} to "
        f"{model.k_r.max():.3f} p.u./rad",
        fontsize=SMALL + 1,
    )
    rows = [
        f"{model.machines[i]},{model.machines[j]},{k!r}"
        for (i, j), k in zip(model.edges, model.k_r.tolist(), strict=True)
    ]
    return figure, ["from,to,weight_pu_per_rad", *rows]


def mismatch_over_iterations(experiment: Experiment, results: Results) -> tuple[Figure, list[str]]:
    """Fig. 4: mismatch J of every run over the iterations of step 3."""
    del experiment
    figure, panels = new_figure(COLUMN, 1.9, 1, len(results), sharey=True)
    rows = ["epsilon,iteration,mean_pu2_s,low80_pu2_s,median_pu2_s,high80_pu2_s"]
    for panel, (epsilon, runs) in zip(panels, results.items(), strict=True):
        steps = np.arange(runs.history.shape[1])
        mean, cuts = runs.history.mean(axis=0), np.quantile(runs.history, [0.1, 0.5, 0.9], axis=0)
        panel.plot(
            steps, runs.history[:100].T, color=FITTED, linewidth=0.3, alpha=0.15, rasterized=True
        )
        panel.plot(steps, mean, color="black", linewidth=1.2, label="mean")
        panel.set_yscale("log")
        panel.set_title(_epsilon(epsilon), fontsize=SMALL + 1)
        panel.set_xlabel("iteration", fontsize=SMALL + 1)
        rows += [
            f"{float(epsilon):g},{step}," + ",".join(map(repr, row))
            for step, row in enumerate(np.stack([mean, *cuts], axis=1).tolist())
        ]
    panels[0].set_ylabel("mismatch J [p.u.² s]", fontsize=SMALL + 1)
    panels[0].legend(fontsize=SMALL, frameon=False)
    return figure, rows


def fidelity(experiment: Experiment, results: Results) -> tuple[Figure, list[str]]:
    """Fig. 5: distribution of L before and after step 3; shaded: 80 % intervals, dotted: means."""
    del experiment
    figure, panels = new_figure(COLUMN, 3.4, len(results), 1, sharex=True)
    rows = ["epsilon,run,L_lap_named_pu2_s,L_pp_named_pu2_s,L_lap_all_pu2_s,L_pp_all_pu2_s"]
    pooled = np.concatenate(
        [
            np.concatenate([runs.L_lap.mean(axis=1), runs.L_pp.mean(axis=1)])
            for runs in results.values()
        ]
    )
    bins = np.geomspace(pooled.min() * 0.9, pooled.max() * 1.1, 45)
    for panel, (epsilon, runs) in zip(panels, results.items(), strict=True):
        for values, colour, hatch, label in (
            (runs.L_lap.mean(axis=1), NOISY, "////", "L_lap, Laplace only"),
            (runs.L_pp.mean(axis=1), FITTED, None, "L_pp, post-processed"),
        ):
            panel.hist(
                values,
                bins=bins.tolist(),
                color=colour,
                alpha=0.75,
                label=label,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.3,
            )
            low, high = np.quantile(values, [0.1, 0.9])
            panel.axvspan(low, high, color=colour, alpha=0.12, linewidth=0)
            panel.axvline(float(values.mean()), color="black", linestyle=":", linewidth=1.0)
        panel.set_xscale("log")
        panel.set_ylabel("runs", fontsize=SMALL + 1)
        panel.set_title(_epsilon(epsilon), fontsize=SMALL + 1, loc="left")
        parts = (runs.L_lap[:, :NAMED], runs.L_pp[:, :NAMED], runs.L_lap, runs.L_pp)
        means = [part.mean(axis=1) for part in parts]
        rows += [
            f"{float(epsilon):g},{run}," + ",".join(map(repr, row))
            for run, row in enumerate(np.stack(means, axis=1).tolist())
        ]
    panels[-1].set_xlabel("mean over transients of ∫|ω − ω_ref|² dt [p.u.² s]", fontsize=SMALL + 1)
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=2,
        fontsize=SMALL,
        frameon=False,
    )
    return figure, rows


def trajectories(experiment: Experiment, results: Results) -> tuple[Figure, list[str]]:
    """Fig. 6: frequencies of up to 100 models at the smallest ε, machine by machine."""
    from matplotlib.collections import LineCollection

    epsilon, runs = next(iter(results.items()))
    shown, step = min(100, len(runs.before)), 10
    machines = experiment.truth.machines
    hz = experiment.truth.frequency_hz
    time = EVENT_S + np.arange(0, experiment.true_responses.shape[1], step) * experiment.dt_s
    sets = [
        (experiment.responses(theta[:shown], runs.K_ac[:shown])[:, :NAMED, ::step] * hz, colour)
        for theta, colour in ((runs.before, NOISY), (runs.after, FITTED))
    ]
    truth = experiment.true_responses[:NAMED, ::step] * hz
    figure, panels = new_figure(PAGE, 5.6, NAMED, len(machines), sharex=True, sharey="row")
    rows = [
        "transient,machine,time_s,truth_hz,laplace_low80_hz,laplace_high80_hz,"
        "fitted_low80_hz,fitted_high80_hz"
    ]
    for t in range(NAMED):
        # a few wild noisy models would flatten all others
        low, high = np.quantile(sets[0][0][:, t], [0.003, 0.997])
        for g, machine in enumerate(machines):
            panel = panels[t * len(machines) + g]
            for values, colour in sets:
                curves = [np.stack([time, curve], axis=1) for curve in values[:, t, :, g]]
                panel.add_collection(
                    LineCollection(
                        curves, colors=colour, linewidths=0.35, alpha=0.3, rasterized=True
                    )
                )
            panel.plot(time, truth[t, :, g], color=SOURCE, linewidth=1.1)
            panel.set_xlim(EVENT_S, time[-1])
            panel.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
            panel.tick_params(labelsize=SMALL - 1)
            if t == 0:
                panel.set_title(f"machine {machine}", fontsize=SMALL + 1)
            if g == 0:
                panel.set_ylabel(f"transient {t + 1}\ndeviation [Hz]", fontsize=SMALL)
            if t == NAMED - 1:
                panel.set_xlabel("time [s]", fontsize=SMALL)
            bands = [
                np.quantile(values[:, t, :, g], q, axis=0) for values, _ in sets for q in (0.1, 0.9)
            ]
            rows += [
                f"{t + 1},{machine}," + ",".join(f"{value:.9g}" for value in row)
                for row in np.stack([time, truth[t, :, g], *bands], axis=1).tolist()
            ]
    _legend(
        figure,
        [("Laplace only", NOISY), ("post-processed", FITTED), ("truth", SOURCE)],
        f"{shown} models, {_epsilon(epsilon)}",
    )
    return figure, rows


def boxes(group: str, unit: str, width: float) -> Drawing:
    """Figs. 7 to 9: a parameter before and after step 3."""

    def drawing(experiment: Experiment, results: Results) -> tuple[Figure, list[str]]:
        model = experiment.truth
        labels = list(model.machines)
        if group == "k_r":
            labels = [f"{model.machines[i]}-{model.machines[j]}" for i, j in model.edges]
        part = groups_of(experiment)[group]
        return _boxes(experiment, results, part, labels, f"{group} [{unit}]", width)

    return drawing


FIGURES: Mapping[str, Drawing] = {
    "fig1": star,
    "fig2": full_network,
    "fig3": reduced_network,
    "fig4": mismatch_over_iterations,
    "fig5": fidelity,
    "fig6": trajectories,
    "fig7": boxes("k_r", "p.u. power / rad", PAGE),
    "fig8": boxes("m", "p.u. power · s / p.u. frequency", COLUMN),
    "fig9": boxes("d", "p.u. power / p.u. frequency", COLUMN),
}


def draw(name: str, experiment: Experiment, results: Results, folder: Path) -> list[Path]:
    """Draw one figure as PNG and PDF, and write its data as CSV. All are marked as a demo."""
    figure, rows = FIGURES[name](experiment, results)
    mark_demo(figure)
    paths = [folder / f"{name}.{kind}" for kind in ("png", "pdf", "csv")]
    figure.savefig(paths[0], dpi=200, metadata={"Software": None})
    figure.savefig(
        paths[1], dpi=200, metadata={"Creator": None, "Producer": None, "CreationDate": None}
    )
    paths[2].write_bytes("\n".join(["# demo: seeded noise, shows the truth", *rows, ""]).encode())
    return paths


def _boxes(
    experiment: Experiment,
    results: Results,
    part: slice,
    labels: list[str],
    unit: str,
    width: float,
) -> tuple[Figure, list[str]]:
    figure, panels = new_figure(
        width, 1.35 * len(results) + 0.5, len(results), 1, sharex=True, sharey=True
    )
    truth = experiment.truth.theta[part]
    places = np.arange(len(labels), dtype=float)
    rows = ["epsilon,item,truth,stage,low10,low25,median,high75,high90,mean"]
    for panel, (epsilon, runs) in zip(panels, results.items(), strict=True):
        for values, colour, side, stage in (
            (runs.before[:, part], NOISY, -0.19, "laplace"),
            (runs.after[:, part], FITTED, 0.19, "fitted"),
        ):
            _box(panel, values, places + side, colour)
            cuts = np.quantile(values, [0.1, 0.25, 0.5, 0.75, 0.9], axis=0).T
            rows += [
                f"{float(epsilon):g},{label},{true!r},{stage},"
                + ",".join(f"{value:.9g}" for value in (*cut, mean))
                for label, true, cut, mean in zip(
                    labels, truth.tolist(), cuts.tolist(), values.mean(axis=0).tolist(), strict=True
                )
            ]
        panel.plot(
            places,
            truth,
            "D",
            color="#009E73",
            markersize=3.2,
            markeredgecolor="white",
            markeredgewidth=0.4,
            zorder=5,
        )
        panel.set_title(_epsilon(epsilon), fontsize=SMALL + 1, loc="left")
        panel.set_xticks(places, labels, fontsize=SMALL)
        # line weights span two decades
        panel.set_yscale("log" if truth.max() > 10 * truth.min() else "linear")
    figure.supylabel(unit, fontsize=SMALL + 1)
    panels[-1].set_xlabel(
        "line between machines" if "-" in labels[0] else "machine at bus", fontsize=SMALL + 1
    )
    _legend(figure, [("Laplace only", NOISY), ("post-processed", FITTED), ("truth", "#009E73")], "")
    return figure, rows


def _box(panel: Axes, values: Array, places: Array, colour: str) -> None:
    parts: dict[str, Any] = panel.boxplot(
        values,
        positions=places.tolist(),
        widths=0.32,
        patch_artist=True,
        showfliers=False,
        manage_ticks=False,
        whis=(10, 90),
    )
    for box in parts["boxes"]:
        box.set(facecolor=colour, alpha=0.8, linewidth=0.5)
    for line in (*parts["whiskers"], *parts["caps"]):
        line.set(color=colour, linewidth=0.7)
    for line in parts["medians"]:
        line.set(color="black", linewidth=0.8)


def _network(
    axes: Axes,
    spots: Array,
    edges: IntArray,
    labels: list[str],
    *,
    machines: Any,
    weights: Array | None = None,
    widths: Array | None = None,
    at: float = 0.5,
) -> None:
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.margins(0.12)
    centred: dict[str, Any] = {"ha": "center", "va": "center"}
    for number, (i, j) in enumerate(edges):
        width = 0.8 if widths is None else float(widths[number])
        axes.plot(spots[[i, j], 0], spots[[i, j], 1], color="#777777", linewidth=width, zorder=1)
        if weights is not None:
            x, y = (1 - at) * spots[i] + at * spots[j]
            box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
            words = f"{weights[number]:g}"
            axes.text(x, y, words, fontsize=SMALL, **centred, bbox=box, zorder=2)
    for bus, (x, y) in enumerate(spots):
        filled = bus in set(machines)
        inside, outside = (FITTED, "white") if filled else ("white", FITTED)
        face: dict[str, Any] = {"markerfacecolor": inside, "markeredgecolor": FITTED}
        axes.plot(x, y, "o", markersize=11, zorder=3, **face)
        axes.text(x, y, labels[bus], fontsize=SMALL - 0.5, **centred, color=outside, zorder=4)


def _legend(figure: Figure, entries: list[tuple[str, str]], title: str) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colour, linewidth=3, label=label) for label, colour in entries]
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=len(entries),
        fontsize=SMALL + 1,
        frameon=False,
        title=title or None,
        title_fontsize=SMALL + 1,
    )


def _epsilon(epsilon: Fraction) -> str:
    return f"ε = {float(epsilon):g}"


def _place(edges: IntArray, n: int, rounds: int = 300) -> Array:
    """Place n buses (n, 2) by stress majorisation from their spectral embedding; deterministic."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    distance = shortest_path(graph, directed=False, unweighted=True)
    centred = -0.5 * (np.eye(n) - 1 / n) @ distance**2 @ (np.eye(n) - 1 / n)
    values, vectors = np.linalg.eigh(centred)
    spot = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-9))
    spot += 1e-3 * np.random.default_rng(0).normal(size=spot.shape)
    weight = np.where(distance > 0, 1 / np.maximum(distance, 1) ** 2, 0.0)
    V = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.pinv(V)
    for _ in range(rounds):
        apart = np.linalg.norm(spot[:, None] - spot[None], axis=2)
        ratio = np.where(apart > 1e-12, weight * distance / np.maximum(apart, 1e-12), 0.0)
        spot = inverse @ ((np.diag(ratio.sum(axis=1)) - ratio) @ spot)
    return spot
