"""The cells of an ensemble: one case, rule, mechanism, ε and fit each; and their controls.

A case is public, and goes to workers as a public table: they read no file and open no ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np

from gridveil.dynamics.events import Event
from gridveil.dynamics.kron import reduced_model
from gridveil.dynamics.metrics import measure
from gridveil.dynamics.models import ReducedModel
from gridveil.foundation.errors import GridveilError, OptionError
from gridveil.foundation.shards import digest_of
from gridveil.foundation.version import __version__
from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import SWING, Bounds
from gridveil.grid.tables import PublicTable
from gridveil.privacy.adjacency import Adjacency
from gridveil.publication.release import loaded_buses
from gridveil.readers.cases import declared_public, open_grid, opened_by_name
from gridveil.workflow.bounds import choose_bounds
from gridveil.workflow.ensemble.spec import NO_FIT, SeededRecord, Spec
from gridveil.workflow.settings import adjacency_over

FORMAT = 1  # of what a shard holds, and of how it is computed
# Controls, in the place of a mechanism: public bounds alone, and one machine for the whole grid,
# fitted to the public record.
NO_RELEASE, ONE_MACHINE = "no release", "one machine"
CONTROLS = (NO_RELEASE, ONE_MACHINE)
PLACES, STEP = 6, 0.1  # steps of load at single buses that releases are judged by [p.u. power]


@dataclass(frozen=True, eq=False)
class JudgedCase:
    """A public case under one rule, and how releases of it are judged."""

    name: str
    table: PublicTable[GridFacts]
    adjacency: Adjacency
    bounds: Bounds
    events: tuple[Event, ...]
    record: SeededRecord

    @cached_property
    def truth(self) -> ReducedModel:
        """The case itself, at machines and loaded buses."""
        return reduced_model(self.table.facts, self.table.values, loaded_buses(self.table.facts))

    @cached_property
    def digest(self) -> str:
        """Names all of it."""
        own = [getattr(self, field.name) for field in fields(self)]
        return digest_of([FORMAT, __version__, *own])


@dataclass(frozen=True, eq=False)
class Cell:
    """One combination; epsilon : None for a control."""

    case: JudgedCase
    mechanism: str
    epsilon: Fraction | None
    fit: str

    @property
    def settings(self) -> dict[str, str]:
        """Its columns in the table."""
        return {
            "case": self.case.name,
            "adjacency": self.case.adjacency.rule,
            "mechanism": self.mechanism,
            "epsilon": "" if self.epsilon is None else str(self.epsilon),
            "fit": self.fit,
        }

    @cached_property
    def hash(self) -> str:
        """Names all that a row depends on besides its seed."""
        return digest_of([self.case.digest, self.settings])[:16]

    def in_words(self) -> str:
        """Name it in a line."""
        of = "" if self.epsilon is None else f", ε = {self.epsilon}"
        fitted = "" if self.fit == NO_FIT else f", fit {self.fit}"
        return f"{self.case.name}, {self.case.adjacency.rule}, {self.mechanism}{of}{fitted}"


def cells_of(spec: Spec, place: str) -> list[Cell]:
    """Every cell of a spec, releases first, then controls; place : the spec's name, for errors.

    A fit needs noisy items: other mechanisms go without.
    """
    found: list[Cell] = []
    for name, rule in product(spec.case, spec.adjacency):
        case = _case(spec, name, rule, place)
        for mechanism, fit in _pairs(spec):
            found += [Cell(case, mechanism, epsilon, fit) for epsilon in spec.epsilon]
        found += [Cell(case, NO_RELEASE, None, fit) for fit in spec.fit]
        found.append(Cell(case, ONE_MACHINE, None, "record"))
    return found


def left_out(spec: Spec) -> list[str]:
    """Combinations of a mechanism and a fit that cannot be, in words."""
    there = set(_pairs(spec))
    return [
        f"{mechanism} with fit {fit}: a fit needs noisy items"
        for mechanism, fit in product(spec.mechanism, spec.fit)
        if (mechanism, fit) not in there
    ]


def _pairs(spec: Spec) -> Iterator[tuple[str, str]]:
    for mechanism, fit in product(spec.mechanism, spec.fit):
        if fit == NO_FIT or mechanism == "items":
            yield mechanism, fit


def _case(spec: Spec, name: str, rule: str, place: str) -> JudgedCase:
    key = "case"
    try:
        source = open_grid(name, options={"publish_loads": True, **spec.reading}, model="swing")
        if not (opened_by_name(source) or spec.public):
            raise OptionError(
                "It is a file, and an ensemble shows what the grid itself does.",
                remedy="Name a case such as ieee30, or say public = true if all the world may "
                "know the grid.",
            )
        table = declared_public(source)
        key = "adjacency"
        facts = source.facts
        chosen = choose_bounds(Bounds(), facts, rule=rule)
        adjacency = adjacency_over(None, rule, chosen.alpha, SWING)
        key = "events"
        ports = reduced_model(facts, table.values, loaded_buses(facts)).ports
        case = JudgedCase(
            name,
            table,
            adjacency,
            chosen.bounds,
            _events(spec.events, ports, facts.base_mva),
            spec.record,
        )
        measure(case.truth, case.events)
        key = "record"
        whole = reduced_model(facts, table.values)
        for step in Event.parse(spec.record.event, base_mva=facts.base_mva).steps:
            step.loads(whole)
    except GridveilError as error:
        raise OptionError(
            f"{key} does not do for {name}: {error.problem}",
            file=place,
            remedy=error.remedy or "Correct it and try again.",
        ) from None
    return case


def _events(said: Sequence[str] | None, ports: Sequence[str], base_mva: float) -> tuple[Event, ...]:
    if said is not None:
        return tuple(Event.parse(words, base_mva=base_mva) for words in said)
    picked = np.linspace(0, len(ports) - 1, min(PLACES, len(ports))).round().astype(int)
    places = dict.fromkeys(ports[int(at)] for at in picked)
    return tuple(Event.load({place: STEP}) for place in places)
