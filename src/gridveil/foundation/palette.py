"""The house's colours, once for figures, pages and their charts: on white, on dark and on paper.

Lines can be told apart by colour-blind readers and in grey, and stand out from their ground by 3 to
1 or more, words by 4.5 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping

LIGHT = {
    "paper": "#ffffff",
    "panel": "#f6f7f9",
    "ink": "#16202b",
    "quiet": "#52606d",
    "line": "#d5dbe1",
    "blue": "#004488",
    "red": "#a63446",
    "amber": "#7a5a00",
    "green": "#00674e",
    "band": "#00448826",
    "focus": "#0072b2",
    "series-1": "#005f99",
    "series-2": "#a67c00",
    "series-3": "#00795a",
    "series-4": "#c23b00",
    "series-5": "#3596cc",
    "series-6": "#a3527c",
    "series-7": "#16202b",
}
DARK = {
    "paper": "#11171d",
    "panel": "#1a222b",
    "ink": "#e8edf2",
    "quiet": "#a3b1bf",
    "line": "#34414e",
    "blue": "#7fb8ee",
    "red": "#f08a98",
    "amber": "#e8c25a",
    "green": "#5fd0ad",
    "band": "#7fb8ee33",
    "focus": "#7fc4ff",
    "series-1": "#4a9fe6",
    "series-2": "#f0c04d",
    "series-3": "#4fcfa8",
    "series-4": "#ff8a50",
    "series-5": "#a3d5f7",
    "series-6": "#e6a3c6",
    "series-7": "#e8edf2",
}
PRINTED = LIGHT | {"panel": "#ffffff", "ink": "#000000", "quiet": "#333333", "line": "#999999"}
# Of lines that have no meaning of their own, one after the other.
CYCLE = tuple(LIGHT[f"series-{number}"] for number in range(1, 8))
# The paper's yellow, blue and red, in the hues of Tol's high-contrast palette.
NOISY, FITTED, SOURCE = "#ddaa33", LIGHT["blue"], "#bb5566"


def as_css() -> str:
    """The colours as variables of a style sheet, by the look that a reader has chosen."""
    return (
        f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n"
        f"@media print {{ :root {{ color-scheme: light; {_variables(PRINTED)} }} }}\n"
    )


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())
