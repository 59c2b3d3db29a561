"""The differential test: under constant noise, two private tables of one grid must give the same
bundle, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from gridveil.assurance.audit.detailed import facts
from gridveil.assurance.audit.findings import Fit
from gridveil.assurance.audit.pieces import Plain, in_order
from gridveil.assurance.audit.releases import KINDS, Kind, chain
from gridveil.dynamics.detailed.entries import entries_of
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array
from gridveil.grid.parameters import DETAILED, PARAMETERS, Bounds
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.mechanisms import Noise, Sampler
from gridveil.publication.bundle import contents
from gridveil.publication.detailed import FORMS, Form
from gridveil.publication.export import FORMATS
from gridveil.publication.release import Release
from gridveil.vault.sampler import DemoSampler
from gridveil.vault.source import SourceGrid
from gridveil.workflow.detailed import publish_detailed
from gridveil.workflow.publish import publish

MACHINES = 2


class Constant:
    """Draws the same vectors whatever it is given: what it makes is a demo, and holds a true value
    only if something leaks.

    drawn : one after the other; none: numbers that lie, with their exponentials, in the usual
    bounds of items and of sums of a swing model.
    """

    def __init__(self, drawn: Sequence[Array] = ()) -> None:
        self._drawn = iter(drawn) if drawn else None

    def in_words(self, noises: Sequence[Noise]) -> str:  # noqa: ARG002 - a sampler's
        """No noise, whatever was asked for."""
        return "constant vector (demo: no privacy)"

    def draw(self, values: Array, scale: Any, noise: Noise) -> Array:  # noqa: ARG002
        """Return the next numbers; (n,), or (n, d)."""
        if self._drawn is not None:
            return next(self._drawn).reshape(values.shape)
        return np.linspace(2.2, 3.5, values.size).reshape(values.shape)


@dataclass(frozen=True)
class ConstantNoise:
    """Two tables under constant noise; kinds : None: detailed tables."""

    adjacency: Adjacency
    epsilon: Fraction
    kinds: tuple[Kind, ...] | None = KINDS

    @property
    def subject(self) -> str:
        """What is audited."""
        form = "bundles" if self.kinds is not None else "detailed bundles"
        return f"{self.adjacency.rule}: {form} of two tables, constant noise"

    @property
    def spans(self) -> list[range]:
        """Both tables at once."""
        return [range(1)]

    def values(self, span: range) -> int:  # noqa: ARG002 - a part's
        """Nothing is drawn."""
        return 0

    def tally(
        self,
        span: range,  # noqa: ARG002 - a part's
        sampler: Sampler | None,  # noqa: ARG002 - its noise is its own
        random: np.random.Generator | None,
    ) -> Plain:
        """Compare the files."""
        random = random or np.random.default_rng()
        pairs = (
            _detailed_pairs(self.adjacency, self.epsilon, random)
            if self.kinds is None
            else _pairs(self.adjacency, self.epsilon, self.kinds, random)
        )
        return astuple(compared(self.subject, pairs))

    def rows(self, tallies: Sequence[Plain], parts: int) -> tuple[Fit]:  # noqa: ARG002
        """State one row: honest code passes with certainty, so that it takes no share."""
        return (Fit(*tallies[0]),)


def audit_constant(adjacency: Adjacency, epsilon: Fraction, kinds: Sequence[Kind] = KINDS) -> Fit:
    """Publish two tables with equal public facts under constant noise; every file and every export
    must be equal.

    Finds any figure that carries a true value past the noise, in whichever digit. Honest code
    passes with certainty. The row names a file that differs.
    """
    part = ConstantNoise(adjacency, epsilon, tuple(kinds))
    return part.rows(in_order(part, None, None), 1)[0]


def audit_constant_detailed(adjacency: Adjacency, epsilon: Fraction) -> Fit:
    """The same of detailed tables, in either form.

    The constants are those of one seeded draw on public values, so that a power flow exists.
    """
    part = ConstantNoise(adjacency, epsilon, None)
    return part.rows(in_order(part, None, None), 1)[0]


Pairs = Iterable[tuple[str, list[dict[str, bytes]]]]  # what was released, and the files of both


def _pairs(
    adjacency: Adjacency, epsilon: Fraction, kinds: Sequence[Kind], random: np.random.Generator
) -> Pairs:
    # Some within the bounds, some beyond.
    tables = [
        {name: np.exp(random.uniform(-1, 6, MACHINES)) for name in PARAMETERS} for _ in range(2)
    ]
    return (
        (
            kind.name,
            [
                _files(SourceGrid.of(chain(MACHINES), **table), adjacency, epsilon, kind)
                for table in tables
            ],
        )
        for kind in kinds
    )


def _detailed_pairs(adjacency: Adjacency, epsilon: Fraction, random: np.random.Generator) -> Pairs:
    usual = Adjacency(adjacency.rule, family=DETAILED)
    middle = {name: entries_of(facts().public)[name][0] for name in facts().parameters}
    recording = _Recording(1)
    _detailed(middle, usual, epsilon, recording, "reduced")
    tables = [
        {
            name: values * np.exp(random.uniform(-1, 1, len(values)))
            for name, values in middle.items()
        }
        for _ in range(2)
    ]
    formats = tuple(name for name, format_ in FORMATS.items() if format_.write_detailed)
    return (
        (
            f"the {form} form",
            [
                contents(
                    _detailed(table, usual, epsilon, Constant(recording.drawn), form),
                    formats=formats,
                )
                for table in tables
            ],
        )
        for form in FORMS
    )


def compared(subject: str, pairs: Pairs) -> Fit:
    """Hold files of two tables against each other."""
    files, differing = 0, list[str]()
    for name, (first, other) in pairs:
        files += len(first)
        differing += [
            f"{file} of {name}" for file in first | other if first.get(file) != other.get(file)
        ]
    return Fit(
        subject, differing[0] if differing else "all equal", files, 0.0 if differing else 1.0, 0.5
    )


class _Recording(DemoSampler):
    """A seeded sampler that keeps what it draws."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn: list[Array] = []

    def draw(self, values: Array, scale: Any, noise: Noise) -> Array:
        """Draw, and keep it."""
        self.drawn.append(super().draw(values, scale, noise))
        return self.drawn[-1]


def _detailed(
    table: Mapping[str, Array],
    adjacency: Adjacency,
    epsilon: Fraction,
    sampler: Sampler,
    form: Form,
) -> Release:
    return publish_detailed(
        SourceGrid[DetailedFacts].of(facts(), **table),
        epsilon=epsilon,
        adjacency=adjacency,
        ledger=None,
        sampler=sampler,
        form=form,
    )


def _files(
    source: SourceGrid, adjacency: Adjacency, epsilon: Fraction, kind: Kind
) -> dict[str, bytes]:
    release = publish(
        source,
        epsilon=epsilon,
        adjacency=adjacency,
        bounds=Bounds(),
        ledger=None,
        sampler=Constant(),
        allocation=kind.allocation,
        start=kind.start,
    )
    return contents(release, formats=tuple(FORMATS))
