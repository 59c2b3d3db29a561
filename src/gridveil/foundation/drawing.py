"""Figures, all in one look: units on every axis, colours for colour-blind readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gridveil.foundation import palette
from gridveil.foundation.errors import GridveilError
from gridveil.foundation.shown import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

NOISY, FITTED, SOURCE, CYCLE = palette.NOISY, palette.FITTED, palette.SOURCE, palette.CYCLE
UNTOLD = {
    "png": ("Software",),
    "pdf": ("Creator", "Producer", "CreationDate"),
    "svg": ("Creator", "Date"),
}
LONGEST = 100  # characters of a title or a label; a longer one would leave no room for the axes
STYLES = ("-", "--", "-.", ":")


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **sharing: Any
) -> tuple[Figure, list[Axes]]:
    """Make a figure of the house's style without touching matplotlib's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False, **sharing).ravel())
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(True, color="#dddddd", linewidth=0.6)
        panel.tick_params(labelsize=8)
    return figure, axes


def own_axes(width: float, height: float, axes: Axes | None) -> tuple[Figure, Axes]:
    """The axes that were given, with their figure, or new ones."""
    if axes is None:
        figure, (axes,) = new_figure(width, height)
        return figure, axes
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes have a figure"
    return figure, axes


def labelled(axes: Axes, x: str | None = None, y: str | None = None) -> None:
    """Name the axes of a panel, units in brackets."""
    if x is not None:
        axes.set_xlabel(x, fontsize=9)
    if y is not None:
        axes.set_ylabel(y, fontsize=9)


def mark_level(axes: Axes, value: float, words: str) -> None:
    """Draw a dashed line at a value that others are compared with."""
    axes.axhline(value, color="#888888", linewidth=0.9, linestyle="--", label=words)


def plain_ticks(axis: Axis) -> None:
    """Label a logarithmic axis by 0.1, 0.2, 0.5, 1, …"""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def mark_demo(figure: Figure) -> None:
    """Write "demo" into a corner: the figure shows the truth or seeded noise."""
    figure.text(0.005, 0.005, "demo", ha="left", va="bottom", fontsize=8, color="#888888")


def plain(words: str) -> str:
    """Escape words with a name in them: matplotlib would set dollars and hide a leading _."""
    text = shown(words)
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return (" " * text.startswith("_") + text).replace("$", r"\$")


def written(figure: Figure, path: str | None) -> Figure:
    """The figure, written to a path if there is one."""
    if path is not None:
        import matplotlib as mpl

        # No software name, no time and no random names in the file.
        metadata = dict.fromkeys(UNTOLD.get(path.rpartition(".")[2], ()))
        try:
            with mpl.rc_context({"svg.hashsalt": "gridveil"}):
                figure.savefig(path, dpi=160, metadata=metadata)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError) as error:
            raise GridveilError(
                f"The figure {shown(path)} could not be written: {shown(error)}.",
                remedy="Name a .png, .pdf or .svg in a folder that is there.",
            ) from None
    return figure
