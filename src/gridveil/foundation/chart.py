"""Charts for pages, as SVG inside the page: hues and dashes by class, so that they follow the
page's light, dark and printed looks. Pages that hold one add `CHART_STYLE` to their style.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

import numpy as np
from numpy.typing import ArrayLike

from gridveil.foundation.page import text

# In the units of the view box: the whole, and the plot's left, right, top and bottom edge.
WIDTH, HEIGHT = 440, 270
LEFT, RIGHT, TOP, BOTTOM = 58, 430, 12, 226
TICKS = 5  # about so many on an axis
MOST_POINTS = 400  # of a line

CHART_STYLE = """
.chart { margin: 0.75rem 0; max-width: 36rem; }
.chart svg { display: block; width: 100%; height: auto; }
.chart figcaption { font-weight: 600; }
.chart ul { list-style: none; padding: 0; margin: 0.25rem 0; display: flex; flex-wrap: wrap; gap: 0 1.25rem; font-size: 0.85rem; }
.chart li svg { display: inline-block; width: 28px; height: 10px; margin-right: 0.4rem; }
.chart .line { fill: none; stroke-width: 2; }
.chart .truth { stroke: var(--quiet); fill: var(--quiet); } .chart .truth.line { stroke-width: 4; opacity: 0.6; }
.chart .release { stroke: var(--blue); fill: var(--blue); }
.chart .control { stroke: var(--series-2); fill: var(--series-2); }
.chart .simple { stroke: var(--red); fill: var(--red); }
.chart .line { fill: none; } .chart .dot { stroke: none; }
.chart .control.line { stroke-dasharray: 7 4; } .chart .simple.line { stroke-dasharray: 2 3; }
.chart .hollow { fill: none; stroke-width: 1.5; }
.chart .band { fill: var(--band); stroke: none; }
.chart text { font-size: 13px; } .chart .end { text-anchor: end; } .chart .middle { text-anchor: middle; }
@media print { .chart { break-inside: avoid; } .chart .band { fill: #00448833; } .chart .rule { stroke: #dddddd; } }
"""  # noqa: E501


@dataclass(frozen=True, eq=False)
class Series:
    """Points of a chart.

    look : truth, release, control or simple.
    x, y : (n,); what is not finite is left out.
    dots : whether they are points for themselves, not a line.
    """

    words: str
    look: str
    x: ArrayLike
    y: ArrayLike
    dots: bool = False


@dataclass(frozen=True, eq=False)
class Shade:
    """What lies between two lines."""

    words: str
    x: ArrayLike
    low: ArrayLike
    high: ArrayLike


@dataclass(frozen=True)
class _Scale:
    """Brings values to places."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    @classmethod
    def of(cls, values: np.ndarray, start: float, end: float, *, log: bool) -> _Scale:
        """Hold all values, and a little more."""
        values = values[np.isfinite(values) & ((values > 0) | (not log))]
        low, high = (float(values.min()), float(values.max())) if values.size else (0.1, 1.0)
        if log:
            low, high = (low / 1.2, high * 1.2) if high < 2 * low else (low / 1.05, high * 1.05)
        else:
            room = 0.05 * (high - low) or 0.5 * abs(high) or 1.0
            low, high = low - (room if low else 0.0), high + (room if high or not low else 0.0)
        return cls(low, high, start, end, log)

    def at(self, values: ArrayLike) -> np.ndarray:
        """Places (n,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high, own = (
                np.log10(part) if self.log else np.asarray(part, dtype=float)
                for part in (self.low, self.high, np.asarray(values, dtype=float))
            )
        return self.start + (own - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values, about TICKS of them."""
        if self.log:
            decades = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            steps = (1, 2, 5) if self.high < 300 * self.low else (1,)
            found = [step * 10.0**power for power in decades for step in steps]
            every = max(1, ceil(len([v for v in found if self.low <= v <= self.high]) / 8))
            found = found[:: every if steps == (1,) else 1]
        else:
            raw = (self.high - self.low) / TICKS
            size = 10.0 ** floor(log10(raw))
            step = next(n * size for n in (1, 2, 5, 10) if n * size >= raw)
            found = [step * n for n in range(ceil(self.low / step), floor(self.high / step) + 1)]
        return [value for value in found if self.low <= value <= self.high]


def chart(
    title: str,
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    shade: Shade | None = None,
    log: bool = False,
    rows: Sequence[str] = (),
) -> str:
    """Draw a chart.

    x, y : names of the axes, units in brackets. log : both axes.
    rows : names of rows; series then have their y in rows, from 0, and y is not drawn.

    >>> chart("A", [Series("one", "truth", [0, 1], [0, 2])], x="t [s]", y="f [Hz]")[:22]
    '<figure class="chart">'
    """
    left = 150 if rows else LEFT
    height = HEIGHT if not rows else TOP + 22 * len(rows) + 44
    bottom = height - 44
    parts = [np.asarray(one.x, dtype=float) for one in series]
    across = _Scale.of(np.concatenate(parts), left, RIGHT, log=log)
    values = [np.asarray(one.y, dtype=float) for one in series]
    if shade is not None:
        values += [np.asarray(end, dtype=float) for end in (shade.low, shade.high)]
    if rows:
        up = _Scale(-0.5, len(rows) - 0.5, TOP, bottom, log=False)
    else:
        up = _Scale.of(np.concatenate(values), bottom, TOP, log=log)
    drawn = [*_axes(across, up, left, bottom, rows)]
    if shade is not None:
        drawn.append(_shade(shade, across, up))
    drawn += [_series(one, across, up) for one in series]
    middle = (left + RIGHT) / 2
    drawn.append(f'<text class="middle" x="{middle:.0f}" y="{height - 8}">{text(x)}</text>')
    if not rows:
        turned = f'transform="translate(13 {(TOP + bottom) / 2:.0f}) rotate(-90)"'
        drawn.append(f'<text class="middle" {turned}>{text(y)}</text>')
    said = f"{title}. Across: {x}; up: {y}. " + "; ".join(one.words for one in series)
    return (
        f'<figure class="chart"><figcaption>{text(title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{text(said)}">'
        f"{''.join(drawn)}</svg>{_legend(series, shade)}</figure>"
    )


def _axes(across: _Scale, up: _Scale, left: float, bottom: float, rows: Sequence[str]) -> list[str]:
    found = []
    for value, place in zip(across.ticks(), across.at(across.ticks()), strict=True):
        found.append(f'<path class="rule" d="M{place:.1f} {TOP}V{bottom}"/>')
        words = _number(value)
        found.append(f'<text class="middle" x="{place:.1f}" y="{bottom + 17}">{words}</text>')
    ticks = list(enumerate(rows)) if rows else [(value, _number(value)) for value in up.ticks()]
    for (_, words), place in zip(ticks, up.at([value for value, _ in ticks]), strict=True):
        found.append(f'<path class="rule" d="M{left} {place:.1f}H{RIGHT}"/>')
        found.append(f'<text class="end" x="{left - 6}" y="{place + 4:.1f}">{text(words)}</text>')
    return [*found, f'<path class="axis" d="M{left} {TOP}V{bottom}H{RIGHT}"/>']


def _number(value: float) -> str:
    """To four digits, with a true minus sign."""
    return f"{value:.4g}".replace("-", "−")


def _places(one: Series, across: _Scale, up: _Scale) -> list[tuple[float, float]]:
    x, y = across.at(one.x), up.at(one.y)
    if not one.dots:
        every = max(1, ceil(len(x) / MOST_POINTS))
        x, y = x[::every], y[::every]
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return [(a, b) for a, b in pairs if isfinite(a) and isfinite(b)]


def _series(one: Series, across: _Scale, up: _Scale) -> str:
    places = _places(one, across, up)
    if not one.dots:
        way = "".join(f"{'L' if n else 'M'}{a:.1f} {b:.1f}" for n, (a, b) in enumerate(places))
        return f'<path class="line {one.look}" d="{way}"/>'
    return "".join(_dot(one.look, a, b) for a, b in places)


def _dot(look: str, x: float, y: float) -> str:
    """A mark: round for a release, square for a control, hollow for the simplest model."""
    if look == "control":
        return (
            f'<rect class="dot {look}" x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"/>'
        )
    kind = "hollow" if look == "simple" else "dot"
    return f'<circle class="{kind} {look}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'


def _shade(shade: Shade, across: _Scale, up: _Scale) -> str:
    edges = [_places(Series("", "", shade.x, end), across, up) for end in (shade.low, shade.high)]
    way = "L".join(f"{a:.1f} {b:.1f}" for a, b in [*edges[0], *reversed(edges[1])])
    return f'<path class="band" d="M{way}Z"/>'


def _legend(series: Sequence[Series], shade: Shade | None) -> str:
    signs = [
        (
            one.words,
            _dot(one.look, 14, 5) if one.dots else f'<path class="line {one.look}" d="M0 5H28"/>',
        )
        for one in series
    ]
    if shade is not None:
        signs.append((shade.words, '<rect class="band" width="28" height="10"/>'))
    listed = "".join(
        f'<li><svg viewBox="0 0 28 10" aria-hidden="true">{sign}</svg>{text(words)}</li>'
        for words, sign in signs
    )
    return f"<ul>{listed}</ul>"
