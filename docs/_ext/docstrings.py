"""Docstrings as this project writes them, for autodoc: `name : what it is`, a line or more each.

Words between backticks are code; a title with a line below it opens a part; nothing else is markup.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

NAMED = re.compile(r"^([\w.]+(?:, [\w.]+)*) : (.*)")


def plain(text: str) -> str:
    """Words that reStructuredText is to show as they are; `code` stays code."""
    parts = re.split(r"`([^`]+)`", text)
    for at, part in enumerate(parts):
        parts[at] = f"``{part}``" if at % 2 else re.sub(r"([\\*_|`])", r"\\\1", part)
    return r"\ ".join(part for part in parts if part) if len(parts) > 1 else parts[0]


def rewrite(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn the paragraphs of a docstring into reStructuredText."""
    del app, what, name, obj, options
    text = "\n".join(lines).strip()
    made: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        body = paragraph.splitlines()
        if len(body) > 1 and re.fullmatch(r"-{3,}", body[1].strip()):
            made += [f"**{body[0].strip()}**", ""]
            body = body[2:]
        if body and body[0].lstrip().startswith(">>>"):
            made += [
                "",
                *(line.strip() if line.lstrip().startswith(">>>") else line for line in body),
                "",
            ]
        else:
            made += _entries(body)
    lines[:] = made


def _entries(body: list[str]) -> list[str]:
    """Plain lines as a paragraph, named ones as a list of definitions."""
    made: list[str] = []
    head: list[str] = []
    entry: list[str] = []
    for line in [*body, None]:
        found = NAMED.match(line.strip()) if line is not None else None
        if line is None or found:
            if entry:
                made += [*head, "    " * bool(head) + " ".join(entry), ""]
            entry = []
        if found:
            head, entry = [f"``{found[1]}``"], [plain(found[2])]
        elif line is not None:
            entry.append(plain(line.strip()))
    return made


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx."""
    app.connect("autodoc-process-docstring", rewrite)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
