"""Pages that people look at: one look, text that cannot become markup, and a strict policy.

A page stands alone: its style and script are inside it, and its Content-Security-Policy names them
by their hashes, so that nothing else runs and nothing is fetched. Attributes `style="…"` and
`onclick="…"` do not work under that policy: use classes, and listeners in the script.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from html import escape
from importlib.resources import files

from gridveil.foundation.palette import as_css
from gridveil.foundation.shown import shown


def text(value: object) -> str:
    """Make text of others fit for a page, between tags and inside quoted attributes.

    >>> text('<b>"G1"</b>')
    '&lt;b&gt;&quot;G1&quot;&lt;/b&gt;'
    """
    return escape(shown(value))


@cache
def house_style() -> str:
    """The style sheet of every page."""
    rules = files("gridveil.foundation").joinpath("page.css").read_text(encoding="utf-8")
    return as_css() + rules


def standalone(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """Write a page that works from a file, offline.

    title : plain text; body : markup, whose foreign parts went through `text`.
    style : rules beside those of the house; script : run after the body, as a module's code is.

    >>> print(standalone("A < B", "<main></main>")[:15])
    <!doctype html>
    """
    style = house_style() + style
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src {_named(style)}",
            f"script-src {_named(script)}" if script else "script-src 'none'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{text(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        body,
        *([f"<script>{script}</script>"] if script else ()),
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"


def _named(content: str) -> str:
    """The name of inline content in a policy: its hash."""
    assert "</" not in content, "content that closes its own tag"
    return f"'sha256-{b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
