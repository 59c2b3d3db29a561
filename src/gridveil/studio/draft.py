"""A release in the making: what was chosen so far, and what follows from it. Nothing here opens a
private value: a grid is read once, and its public facts alone are kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from pprint import pformat
from typing import Any

from gridveil.foundation.errors import GridveilError, NoLedger, OptionError
from gridveil.grid.parameters import DETAILED, Bounds
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import MECHANISMS, MECHANISMS_IN_WORDS
from gridveil.privacy.epsilon import exact
from gridveil.privacy.ledger import Account, Ledger
from gridveil.privacy.ledger.accounts import check_lineage
from gridveil.publication.export import check_formats
from gridveil.studio.drawing import Chart, DrawnNetwork, frequencies, network
from gridveil.workflow.bounds import Chosen, choose_bounds
from gridveil.workflow.inspecting import listed_facts
from gridveil.workflow.opening import inspect_grid
from gridveil.workflow.preview import Preview, look_at_records, preview
from gridveil.workflow.settings import DERIVE, GridSettings, ReleaseSettings, bounds_over, derives
from gridveil.workflow.start import HIDDEN, Answers

# Stops of the slider, from more private to more faithful; any other ε can be typed.
STOPS = ("1/10", "1/5", "1/2", "1", "2", "5", "10")
NOTHING = "Nothing was read, drawn or charged."
LARGE = 10  # ε above which next to nothing is hidden


@dataclass(frozen=True)
class Record:
    """A public record that was chosen: where it is from, how it looks, what it gives away."""

    toml: Path
    origin: str
    words: tuple[str, ...]
    charts: tuple[Chart, ...]
    verdict: str


@dataclass
class Draft:
    """Choices of one release.

    id : of the release that these choices would make; a change of any makes another.
    grid : a name or a path, as `open_grid` takes it; shown : the same for people.
    facts : public.
    choices : of step 2, as its form has them.
    valid : whether step 2 was left with choices that hold together.
    """

    ledger: str
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    grid: str = ""
    shown: str = ""
    reading: dict[str, Any] = field(default_factory=dict[str, Any])
    facts: Any = None
    drawing: DrawnNetwork | None = None
    found: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    names: dict[str, str] = field(default_factory=dict[str, str])
    choices: dict[str, Any] = field(default_factory=dict[str, Any])
    record: Record | None = None
    valid: bool = False
    _previews: dict[tuple[Any, ...], Preview] = field(default_factory=dict[Any, Preview])

    def changed(self) -> None:
        """Give the release another id: what was shown of the last one holds no more."""
        self.id = secrets.token_hex(8)

    def choose_grid(self, grid: str, shown: str, reading: Mapping[str, Any]) -> None:
        """Read a grid and keep its public facts; other choices begin anew."""
        settings = GridSettings.of({"model": "auto", **reading}, grid=grid)
        facts, _ = inspect_grid(settings)
        self.changed()
        self.grid, self.shown, self.reading, self.facts = grid, shown, dict(reading), facts
        self.drawing = network(facts)
        self.found, self.names = listed_facts(facts)
        stem = Path(facts.name).stem
        self.choices = {"hide": 0, "epsilon": "1", "lineage": stem, "formats": []}
        self.record, self.valid = None, False
        self._previews = {}

    @property
    def family(self) -> str:
        """Of the grid's model: swing or detailed."""
        return self.facts.family

    @property
    def ways(self) -> tuple[tuple[str, str, str | None], ...]:
        """What may be hidden: words, adjacency, mechanism."""
        return HIDDEN[self.family]

    @property
    def mechanism(self) -> str:
        """What is drawn: what hides the network, or what was chosen, or the usual."""
        hides = self.ways[int(self.choices["hide"])][2]
        usual = "items" if self.record else "aggregates"
        return hides or self.choices.get("mechanism") or usual

    @property
    def mechanisms(self) -> dict[str, str]:
        """What may be chosen, in words."""
        return {name: MECHANISMS_IN_WORDS[name] for name in MECHANISMS if name != "topology"}

    def chosen_bounds(self) -> Chosen:
        """Public bounds: what was given, else the grid's own, else what public facts tell."""
        text = self.choices.get("bounds") or None
        return choose_bounds(
            bounds_over(Bounds(), text),
            self.facts,
            derive_others=derives(text),
            rule=self.ways[int(self.choices["hide"])][1],
            topology=self.mechanism == "topology",
        )

    def account(self) -> Account | None:
        """The ledger's account that would be charged; None: it is new."""
        try:
            return Ledger(self.ledger, create=False).account(self.choices["lineage"])
        except NoLedger:
            return None

    def answers(self) -> Answers:
        """The choices by the keys of a release.toml, each with a comment."""
        words, rule, hides = self.ways[int(self.choices["hide"])]
        text = self.choices.get("bounds") or ""
        if self.chosen_bounds().missing:
            text = ",".join(filter(None, (DERIVE, text)))
        mechanism = hides or self.choices.get("mechanism")
        said = Answers().adding(grid=(self.grid, "The grid: a file, or the name of a case."))
        for name, value in self.reading.items():
            said = said.adding(**{name: (value, "How the grid's file is read.")})
        return said.adding(
            model=(self.family, "The kind of model: swing or detailed."),
            adjacency=(
                rule,
                f"Neighbours, which the release must not tell apart, differ in {words}.",
            ),
            mechanism=(mechanism, "What is drawn.") if mechanism else None,
            bounds=(text, "Public bounds: derived from public facts, but for those given.")
            if text
            else None,
            trajectory=(str(self.record.toml), "A public record to fit to.")
            if self.record
            else None,
            epsilon=(self.choices["epsilon"], "Privacy loss, exact."),
            lineage=(self.choices["lineage"], "The account that is charged, for all versions."),
            formats=(",".join(self.choices["formats"]), "Other tools' formats in the bundle.")
            if self.choices["formats"]
            else None,
        )

    def settings(self, out: Path) -> ReleaseSettings:
        """As `release_grid` takes them."""
        return ReleaseSettings.of(self.answers().settings, out=str(out), ledger=self.ledger)

    def choose(self, choices: Mapping[str, Any]) -> None:
        """Take the choices of step 2 if they hold together; else leave all as it was."""
        before, was_valid = self.choices, self.valid
        self.choices = {**self.choices, **choices}
        self.valid = False
        try:
            if not str(self.choices["hide"]).isdecimal() or int(self.choices["hide"]) >= len(
                self.ways
            ):
                raise OptionError("This is nothing that can be hidden.", outcome=NOTHING)
            exact(self.choices["epsilon"])
            check_lineage(self.choices["lineage"])
            self.settings(Path("bundle.zip"))
            detailed = self.family == DETAILED
            check_formats(self.choices["formats"], len(self.facts.machines), detailed=detailed)
        except GridveilError:
            self.choices, self.valid = before, was_valid
            raise
        if self.choices != before:
            self.changed()

    def choose_record(self, toml: Path | None) -> None:
        """Read a public record and see what it gives away; None: no record."""
        before = self.record
        if toml is None:
            self.record = None
        else:
            self.record = Record(toml, "", (), (), "")
            try:
                self.record = self._read_record(toml)
            except GridveilError:
                self.record = before
                raise
        self.valid = False
        self.changed()

    def _read_record(self, toml: Path) -> Record:
        settings, chosen = self.settings(Path("bundle.zip")), self.chosen_bounds()
        measured, verdict = look_at_records(settings, self.facts, chosen.bounds, self.adjacency())
        return Record(
            toml,
            "; ".join(record.declared.provenance.origin for record in measured),
            tuple(record.observation.in_words() for record in measured),
            tuple(
                frequencies(record.trajectory, f"{record.declared.file}: {record.declared.event}")
                for record in measured
            ),
            verdict,
        )

    def adjacency(self) -> Adjacency:
        """Who is a neighbour, by the account where there is one."""
        settings = self.settings(Path("bundle.zip"))
        return settings.neighbours(self.account(), self.family, self.chosen_bounds().alpha)

    def tried(self, choices: Mapping[str, Any]) -> Draft:
        """A draft with these choices in place of its own; nothing of them is kept."""
        tried = Draft(self.ledger, facts=self.facts, grid=self.grid, choices=dict(self.choices))
        tried.record, tried.shown = self.record, self.shown
        tried._previews = self._previews
        tried.choose(choices)
        return tried

    def preview(
        self, goes_on: Callable[[], bool] = lambda: True
    ) -> tuple[Preview, Chart | None, list[tuple[str, str]]]:
        """What its ε would mean on a public surrogate, the error over every ε tried so far, and its
        choices summed up.

        goes_on : whether anyone still waits for what takes long.
        """
        epsilon, mechanism = exact(self.choices["epsilon"]), self.mechanism
        bounds, adjacency, summary = self.chosen_bounds().bounds, self.adjacency(), self.summary()
        key = (
            self.choices["hide"],
            mechanism,
            self.choices.get("bounds"),
            self.choices["lineage"],
        )
        if (found := self._previews.get((*key, epsilon))) is None:
            shown: Any = mechanism
            found = preview(self.facts, bounds, adjacency, shown, epsilon, goes_on)
            if found.nadir_mhz is not None:
                self._previews[(*key, epsilon)] = found
        known = list(self._previews.items())
        alike = {one.epsilon: one for (*of, _), one in known if tuple(of) == key}
        return found, _trade_off([alike[one] for one in sorted(alike)]), summary

    def summary(self) -> list[tuple[str, str]]:
        """All choices so far, for the column beside each step."""
        if self.facts is None:
            return []
        kind = "with its controls" if self.family == "detailed" else "swing model"
        size = f"{len(self.facts.buses)} buses, {len(self.facts.machines)} machines, {kind}"
        rows = [("Grid", self.shown), ("", size)]
        chosen = self.chosen_bounds()
        given = self.choices.get("bounds") or chosen.bounds.origin
        return [
            *rows,
            ("Hidden", self.ways[int(self.choices["hide"])][0]),
            ("Drawn", self.mechanism if self.family == "swing" else "as its treatments say"),
            ("Bounds", given),
            ("Record", self.record.toml.name if self.record else "none: no fit"),
            ("ε", self.choices["epsilon"]),
            ("Account", self.choices["lineage"]),
            *([("Formats", ", ".join(self.choices["formats"]))] if self.choices["formats"] else []),
        ]


def _trade_off(previews: list[Preview]) -> Chart | None:
    """Error of the nadir over ε, of those that were tried."""
    import numpy as np

    from gridveil.studio.drawing import chart

    known = [(float(one.epsilon), one.nadir_mhz) for one in previews if one.nadir_mhz is not None]
    if len(known) < 2:
        return None
    epsilon, errors = (np.array(column, dtype=np.float64) for column in zip(*known, strict=True))
    return chart(
        "Error of the nadir on the surrogate",
        epsilon,
        [("nine of ten releases are nearer", errors)],
        x_label="ε (more private … more faithful)",
        y_label="error of the nadir [mHz]",
        points=True,
        logarithmic=True,
    )


def to_toml(answers: Answers, shown: Mapping[str, str], first: str) -> str:
    """A release.toml for people: paths of uploads are told by their file's own name.

    first : the comment line that says how it is used.
    """
    lines = {name: (shown.get(str(v), v), why) for name, (v, why) in answers.lines.items()}
    text = Answers(lines).to_toml()
    return text.replace(text.partition("\n")[0], first, 1)


def to_script(answers: Answers, shown: Mapping[str, str], budget: Fraction | None) -> str:
    """The Python that makes the same release."""
    said = {name: shown.get(str(value), value) for name, value in answers.settings.items()}
    raised = (
        f"# The account's budget was set to ε = {budget} first: gridveil ledger budget --help\n"
        if budget is not None
        else ""
    )
    return (
        '"""Written by gridveil studio: makes the same release, and charges it."""\n\n'
        "from gridveil import ReleaseSettings, release_grid\n\n"
        f"{raised}settings = ReleaseSettings.of(\n    {pformat(said, sort_dicts=False)},\n"
        '    out="release.zip",\n)\n'
        "done = release_grid(settings)\n"
        "print(done.reports[0].path, done.receipt.spent)\n"
    )
