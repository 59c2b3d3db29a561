"""Drawings of the studio's pages: where the points go. The templates write the SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.dynamics.trajectory import Trajectory
from gridveil.publication.card.layout import lengths, places

Array = NDArray[np.float64]
MOST_BUSES = 400  # of a drawn network: with more, nothing can be told apart
LABELLED = 60  # up to so many each has its label
SMALL_BOX, BOX, MARGIN, APART, APART_OF_MANY = (400, 380), (600, 500), 24, 40, 8
ASIDE = 15  # of a label from its bus
MOST_SERIES = 6
DEVIATION = "frequency deviation [mHz]"
WIDTH, HEIGHT = 500, 280
LEFT, RIGHT, TOP, BOTTOM = 84, 14, 12, 48


@dataclass(frozen=True)
class DrawnNetwork:
    """A drawn network: lines as pairs of points, buses; labelled : whether names are shown."""

    width: int
    height: int
    lines: list[tuple[float, float, float, float]]
    buses: list[dict[str, Any]]
    labelled: bool


def network(facts: Any) -> DrawnNetwork | None:
    """Draw public facts of a grid: its buses and lines, machines marked; None: too many."""
    n = len(facts.buses)
    if n > MOST_BUSES:
        return None
    few = n <= LABELLED
    box = SMALL_BOX if few else BOX
    edges = np.asarray(facts.edges, dtype=np.int64)
    at = places(lengths(n, edges, np.ones(len(edges))), box, APART if few else APART_OF_MANY)
    at = at + MARGIN
    machines = set(np.asarray(facts.machines).tolist())
    return DrawnNetwork(
        box[0] + 2 * MARGIN,
        box[1] + 2 * MARGIN,
        [tuple(np.round([*at[i], *at[j]], 1).tolist()) for i, j in facts.edges],
        [
            {
                "x": round(float(x), 1),
                "y": round(float(y), 1),
                "machine": place in machines,
                "label": str(facts.buses[place])[:40],
                **_beside(at, place, edges),
            }
            for place, (x, y) in enumerate(at)
        ],
        few,
    )


def _beside(at: NDArray[Any], place: int, edges: NDArray[np.int64]) -> dict[str, float]:
    """Where a bus has its label: in the middle of the widest angle between its lines."""
    ends = np.concatenate([edges[edges[:, 0] == place, 1], edges[edges[:, 1] == place, 0]])
    x, y = at[place]
    turns = np.sort(np.arctan2(at[ends, 1] - y, at[ends, 0] - x))
    if not turns.size:
        return {"label_x": round(float(x), 1), "label_y": round(float(y) - 10, 1)}
    gaps = np.diff(np.append(turns, turns[0] + 2 * np.pi))
    turn = turns[gaps.argmax()] + gaps.max() / 2
    return {
        "label_x": round(float(x + ASIDE * np.cos(turn)), 1),
        "label_y": round(float(y + ASIDE * np.sin(turn)) + 4, 1),
    }


@dataclass(frozen=True)
class Chart:
    """A drawn chart: series as points of a polyline, bands as polygons, ticks with their words."""

    title: str
    x_label: str
    y_label: str
    series: list[dict[str, Any]]
    bands: list[dict[str, Any]]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    note: str = ""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def chart(
    title: str,
    x: Array,
    series: Sequence[tuple[str, Array]],
    *,
    x_label: str,
    y_label: str,
    bands: Sequence[tuple[Array, Array] | None] = (),
    note: str = "",
    points: bool = False,
    logarithmic: bool = False,
) -> Chart:
    """Lay series (n,) out over x (n,).

    bands : lower and upper end of some series, in their order.
    points : whether to mark each value.
    logarithmic : whether x runs by its logarithm.
    """
    across = np.log(x) if logarithmic else x
    every = [values for _, values in series]
    every += [end for band in bands if band is not None for end in band]
    shown = np.concatenate([values[np.isfinite(values)] for values in every])
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 1.0)
    low, high = min(low, 0.0), max(high, 0.0)
    ticks = _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    first, last = float(across[0]), float(across[-1])

    def at_x(value: Any) -> Any:
        return LEFT + (value - first) / max(last - first, 1e-12) * (WIDTH - RIGHT - LEFT)

    def at_y(value: Any) -> Any:
        return HEIGHT - BOTTOM - (value - low) / max(high - low, 1e-12) * (HEIGHT - BOTTOM - TOP)

    thin = slice(None, None, max(1, len(x) // 400))
    marks = [
        (float(at_x(math.log(t) if logarithmic else t)), f"{t:g}")
        for t in (x if points else _ticks(first, last))
        if points or first <= t <= last
    ]
    return Chart(
        title,
        x_label,
        y_label,
        [
            {
                "name": name,
                "runs": _runs(at_x(across[thin]), at_y(values[thin])),
                "points": np.round(np.stack([at_x(across), at_y(values)], 1), 1).tolist()
                if points
                else [],
            }
            for name, values in series
        ],
        [
            {"number": number, "runs": _runs(*_around(at_x(across[thin]), at_y, band, thin))}
            for number, band in enumerate(bands)
            if band is not None
        ],
        marks,
        [(float(at_y(value)), f"{value:g}".replace("-", "−")) for value in ticks],
        note,
    )


def _around(x: Array, at_y: Any, band: tuple[Array, Array], thin: slice) -> tuple[Array, Array]:
    lower, upper = (at_y(end[thin]) for end in band)
    return np.concatenate([x, x[::-1]]), np.concatenate([lower, upper[::-1]])


def _runs(x: Array, y: Array) -> list[str]:
    """Points of polylines, broken at gaps."""
    runs: list[list[str]] = [[]]
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        if math.isfinite(b):
            runs[-1].append(f"{a:.1f},{b:.1f}")
        elif runs[-1]:
            runs.append([])
    return [" ".join(run) for run in runs if run]


def _ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers that cover a range."""
    span = max(high - low, 1e-12)
    power = 10 ** math.floor(math.log10(span / 4))
    step = next(power * f for f in (1, 2, 5, 10) if span / (power * f) <= 6)
    first, last = math.floor(low / step + 0.1), math.ceil(high / step - 0.1)
    return [round(k * step, 12) for k in range(first, last + 1)]


def frequencies(trajectory: Trajectory, title: str) -> Chart:
    """Draw the frequency of the buses that move most, with their bands."""
    hz = 1e3 * trajectory.deviation_hz
    size = np.nanmax(np.abs(hz), axis=0)
    picked = sorted(np.argsort(-size)[:MOST_SERIES].tolist())
    band, to_mhz = trajectory.band, 1e3 * trajectory.frequency_hz
    left_out = len(trajectory.buses) - len(picked)
    words = f"The {len(picked)} buses that move most; {left_out} others are not drawn."
    return chart(
        title,
        trajectory.time_s,
        [(str(trajectory.buses[place])[:40], hz[:, place]) for place in picked],
        x_label="time [s]",
        y_label=DEVIATION,
        bands=[
            None if band is None else (to_mhz * band.lower[:, p], to_mhz * band.upper[:, p])
            for p in picked
        ],
        note=words if left_out else "",
    )
