"""How objects look at a prompt and in a notebook: one line, and a small table in HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any, TypeVar

from gridveil.foundation.shown import shown

T = TypeVar("T", bound=type)
ROWS = 30  # of a table; a grid may have thousands of machines


def looks(
    line: Callable[[Any], str] | None = None,
    table: Callable[[Any], Mapping[str, Any]] | None = None,
) -> Callable[[T], T]:
    """Give a class its one-line `repr`, and an HTML one for notebooks.

    line : what stands behind the name of the class; None: its `repr` is one line already.
    table : what HTML lists below it, by name.

    >>> @looks(lambda lamp: "on", lambda lamp: {"power [W]": 5})
    ... class Lamp: ...
    >>> Lamp()
    <Lamp on>
    >>> Lamp()._repr_html_()
    '<p>&lt;Lamp on&gt;</p><table><tr><th>power [W]</th><td>5</td></tr></table>'
    """

    def decorate(cls: T) -> T:
        def one_line(self: Any) -> str:
            assert line is not None
            return shown(f"<{type(self).__name__} {line(self)}>")

        made: Any = cls
        if line is not None:
            made.__repr__ = one_line
        made._repr_html_ = lambda self: _html(self, table(self) if table else {})
        return cls

    return decorate


def _html(thing: object, rows: Mapping[str, Any]) -> str:
    listed = "".join(
        f"<tr><th>{escape(shown(name))}</th><td>{escape(shown(value))}</td></tr>"
        for name, value in list(rows.items())[:ROWS]
    )
    if len(rows) > ROWS:
        listed += f"<tr><td colspan=2>… {len(rows)} in all</td></tr>"
    return f"<p>{escape(shown(repr(thing)))}</p>" + (f"<table>{listed}</table>" if listed else "")
