"""Formulas as MathML, which browsers draw by themselves: no script, no font, no image."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def drawn(node: nodes.Element, display: str) -> str:
    """The formula; dots and hats sit on their letters in full size."""
    made = convert(node.astext(), display=display)
    return made.replace("<mover>", '<mover accent="true">')


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula inside a line."""
    writer.body.append(drawn(node, "inline"))
    raise nodes.SkipNode


def block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own; where it is too wide, its box scrolls."""
    writer.body.append(f'<div class="formula" tabindex="0">{drawn(node, "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
