"""How `--help` lists options: under plain headings, units in brackets as they are.

Rich markup would swallow those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperCommand

COMMON, GRID, PRIVACY, FIT, OUTPUT = "Common options", "Grid", "Privacy", "Fit", "Output"
# The options of `release`: the common ten, then the others by what they are about. Those of a panel
# of their own say how the grid's file is read.
RELEASE: Mapping[str, Sequence[str]] = {
    COMMON: (
        "epsilon",
        "adjacency",
        "alpha",
        "bounds",
        "mechanism",
        "out",
        "lineage",
        "ledger",
        "config",
        "json",
    ),
    GRID: (),
    PRIVACY: ("split", "share_by", "surrogate", "bounds_origin", "count", "witness"),
    FIT: ("trajectory", "profile", "yes"),
    OUTPUT: ("formats", "merge_loads", "publish_loads"),
}


class HeadedCommand(TyperCommand):
    """A command whose help lists its options under headings: its own, else each option's panel."""

    headings: Mapping[str, Sequence[str]] = {}

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options under their headings."""
        headings = ("Arguments", *self.headings, "Options")
        listed: dict[str, list[tuple[str, str]]] = {heading: [] for heading in headings}
        for parameter in sorted(self.get_params(ctx), key=self._place):
            if record := parameter.get_help_record(ctx):
                listed.setdefault(self._heading(parameter), []).append(record)
        for heading, records in listed.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def _place(self, parameter: Any) -> int:
        """Where a heading wants an option; others stay in their order."""
        for names in self.headings.values():
            if parameter.name in names:
                return list(names).index(parameter.name)
        return 0

    def _heading(self, parameter: Any) -> str:
        if parameter.param_type_name == "argument":
            return "Arguments"
        for heading, names in self.headings.items():
            if parameter.name in names:
                return heading
        panel = getattr(parameter, "rich_help_panel", None)
        return GRID if panel and self.headings else panel or "Options"


class ReleaseCommand(HeadedCommand):
    """The command release."""

    headings = RELEASE
