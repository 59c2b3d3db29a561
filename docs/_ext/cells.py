"""Cells of tutorials that are lines for a terminal: shown without the word that makes them so."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

MARK = "%%bash\n"


def unmark(app: Sphinx, doctree: nodes.document) -> None:
    """Take the first line of a terminal's cell away."""
    del app
    for block in doctree.findall(nodes.literal_block):
        if block.astext().startswith(MARK):
            text = block.astext().removeprefix(MARK)
            block.clear()
            block += nodes.Text(text)
            block.rawsource = text
            block["language"] = "bash"


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx."""
    app.connect("doctree-read", unmark)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
