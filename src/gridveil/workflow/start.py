"""What a guided start needs besides its questions: a plan on the grid's public facts alone, and the
`release.toml` that answers make.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gridveil.dynamics.events import Event
from gridveil.foundation.errors import GridveilError
from gridveil.foundation.files import replace_whole
from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import Bounds
from gridveil.grid.tables import PublicTable
from gridveil.planning.plan import plan
from gridveil.planning.plan.search import Choice
from gridveil.planning.plan.targets import Target
from gridveil.planning.surrogate import from_prior, without_network
from gridveil.privacy.adjacency import Adjacency
from gridveil.workflow.plan import EVENT

TABLES, DRAWS = 3, 60
# What must be hidden: the words, the adjacency, and the mechanism that hides it.
HIDDEN: Mapping[str, tuple[tuple[str, str, str | None], ...]] = {
    "swing": (
        ("what one line, or one machine, is: all its values together", "one-asset", None),
        ("any single value, of a line or of a machine", "one-item", None),
        ("the network as well: nothing of it is shown", "one-asset", "topology"),
    ),
    "detailed": (
        ("what one line, machine, load or shunt is: all its values", "one-asset-relative", None),
        ("any single value", "one-item-relative", None),
    ),
}


@dataclass(frozen=True)
class PlannedStart:
    """What plans on several public tables found.

    epsilons : the least ε of each that meets the error; None: none up to 100 does.
    chosen : that of the largest ε, which meets it on all of them; None: there is none.
    nadirs_mhz : of the tables, after 10 % more load.
    """

    epsilons: tuple[float | None, ...]
    chosen: Choice | None
    nadirs_mhz: tuple[float, ...]


def planned_epsilon(
    facts: GridFacts, bounds: Bounds, adjacency: Adjacency, mechanism: Any, error: str
) -> PlannedStart:
    """The least ε whose release stays within an error of the nadir, on each of some tables.

    error : such as 20mHz.

    Privacy
    -------
    Tried on the declared topology with tables drawn from the prior on the public bounds, by a
    public seed: the grid's own values have no part in it.
    """
    known = without_network(facts) if mechanism == "topology" else facts
    drawn = from_prior(known, bounds, draws=TABLES)
    plans = [
        plan(
            PublicTable(known, {name: values[number] for name, values in drawn.items()}),
            [Target.parse("nadir", error)],
            event=Event.parse(EVENT, base_mva=facts.base_mva),
            adjacencies=[adjacency],
            bounds=bounds,
            mechanisms=[mechanism],
            draws=DRAWS,
        )
        for number in range(TABLES)
    ]
    choices = [found.chosen for found in plans]
    epsilons = tuple(
        None if own is None or own.epsilon is None else float(own.epsilon) for own in choices
    )
    met = [epsilon for epsilon in epsilons if epsilon is not None]
    return PlannedStart(
        epsilons,
        choices[epsilons.index(max(met))] if len(met) == TABLES else None,
        tuple(1e3 * float(found.reference.nadir_hz[0]) for found in plans),
    )


@dataclass(frozen=True)
class Answers:
    """What a guided start was told, by the keys of a release.toml, each with a comment."""

    lines: Mapping[str, tuple[Any, str]] = field(default_factory=dict[str, tuple[Any, str]])

    def adding(self, **more: tuple[Any, str] | None) -> Answers:
        """The same with more answers; None: nothing was said."""
        return Answers({**self.lines, **{k: v for k, v in more.items() if v is not None}})

    @property
    def settings(self) -> dict[str, Any]:
        """As `ReleaseSettings.of` takes them."""
        return {name: value for name, (value, _) in self.lines.items()}

    def to_toml(self) -> str:
        """One commented file for `gridveil release --config`."""
        parts = ["# Written by gridveil start. Make the release with:", ""]
        for name, (value, why) in self.lines.items():
            parts += [f"# {why}", f"{name.replace('_', '-')} = {_toml(value)}", ""]
        return "\n".join(parts).rstrip() + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(str(value), ensure_ascii=False)


def write_toml(path: Path, answers: Answers, command: str) -> None:
    """Write the file whole or not at all."""
    text = answers.to_toml().replace("with:\n", f"with:\n# {command}\n", 1)
    try:
        replace_whole(path, text.encode(), 0o644)
    except OSError as error:
        raise GridveilError(
            f"{path} could not be written ({error.strerror}).",
            outcome="Nothing was written and nothing was charged.",
            remedy="Name another place with --write.",
        ) from None
