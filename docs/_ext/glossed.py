"""Terms of the glossary explain themselves: the first of each on a page is a link to its entry, and
shows the definition when a pointer rests on it or the keyboard reaches it.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

GLOSSARY = "glossary"
# Inside these, a term stays as it is.
CLOSED = (
    nodes.literal,
    nodes.literal_block,
    nodes.reference,
    nodes.title,
    nodes.math,
    nodes.math_block,
    nodes.raw,
    nodes.image,
    addnodes.desc_signature,
    addnodes.pending_xref,
    addnodes.download_reference,
    addnodes.toctree,
)


def collect(app: Sphinx, doctree: nodes.document) -> None:
    """Keep what the glossary says of each term."""
    if app.env.docname != GLOSSARY:
        return
    said = {}
    for item in doctree.findall(nodes.definition_list_item):
        definition = next(item.findall(nodes.definition)).astext()
        for term in item.findall(nodes.term):
            said[term.astext()] = (term["ids"][0], " ".join(definition.split()))
    app.env.gridveil_terms = said


def mark(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Make the first of each term on a page a link that says what it is."""
    said = getattr(app.env, "gridveil_terms", {})
    if docname == GLOSSARY or app.builder.format != "html" or not said:
        return
    words = "|".join(re.escape(term) for term in sorted(said, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w∂Δ/_·'-])({words})(?![\w/_'′*-])")
    home = app.builder.get_relative_uri(docname, GLOSSARY)
    seen: set[str] = set()
    for text in list(doctree.findall(nodes.Text)):
        if any(isinstance(parent, CLOSED) for parent in _above(text)):
            continue
        pieces: list[nodes.Node] = []
        for at, part in enumerate(pattern.split(str(text))):
            if at % 2 and part not in seen:
                seen.add(part)
                target, definition = said[part]
                link = nodes.reference("", part, internal=True, refuri=f"{home}#{target}")
                link["reftitle"] = definition
                link["classes"] = ["glossed"]
                pieces.append(link)
            elif part:
                pieces.append(nodes.Text(part))
        if len(pieces) > 1 or (pieces and not isinstance(pieces[0], nodes.Text)):
            text.parent.replace(text, pieces)


def _above(node: nodes.Node) -> Any:
    while node.parent is not None:
        node = node.parent
        yield node


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx."""
    app.connect("doctree-read", collect)
    app.connect("doctree-resolved", mark)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
