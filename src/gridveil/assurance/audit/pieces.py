"""An audit in pieces that any executor makes: some canaries, or some releases, of one part each.

They draw OpenDP's noise on synthetic grids, and never a release of anybody's. That noise has no
seed: a piece that is made again is another one, so that its file alone keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gridveil.assurance.audit.findings import Finding, Fit
from gridveil.foundation.shards import name_of
from gridveil.privacy.mechanisms import Sampler
from gridveil.vault.sampler import DemoSampler

Told = Callable[[int], object]
Plain = Any  # what a tally is: numbers, texts, lists and tables, as a file holds them


class AuditPart(Protocol):
    """One part of an audit: settings, cut into spans by themselves alone."""

    @property
    def subject(self) -> str:
        """What is audited, in words."""
        ...

    @property
    def spans(self) -> Sequence[range]:
        """How it is cut: about a second's work each."""
        ...

    def values(self, span: range) -> int:
        """Count the values that a span draws, for a progress bar."""
        ...

    def tally(
        self, span: range, sampler: Sampler | None, random: np.random.Generator | None
    ) -> Plain:
        """Draw a span, and say what came of it; sampler, random : None: OpenDP's, and fresh."""
        ...

    def rows(self, tallies: Sequence[Plain], parts: int) -> Sequence[Finding | Fit]:
        """State what all spans show, in an audit of so many parts."""
        ...


@dataclass(frozen=True)
class Piece:
    """A span of a part.

    number : of the part in its audit.
    seed : None: OpenDP's noise and fresh coins. A seed makes a demo of an audit: it proves nothing.
    """

    part: AuditPart
    number: int
    span: range
    seed: int | None = None

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{name_of(type(self.part).__name__, self)}.json"


def tally(piece: Piece) -> Plain:
    """Make a piece. This is what workers run."""
    if piece.seed is None:
        return piece.part.tally(piece.span, None, None)
    seeds = (piece.seed, piece.number, piece.span.start)
    sampler, random = DemoSampler([*seeds, 0]), np.random.default_rng([*seeds, 1])
    return piece.part.tally(piece.span, sampler, random)


def in_order(part: AuditPart, sampler: Sampler | None, progress: Told | None) -> list[Plain]:
    """Make a whole part here, span by span."""
    found, random = list[Plain](), np.random.default_rng()
    for span in part.spans:
        found.append(part.tally(span, sampler, random))
        if progress is not None:
            progress(part.values(span))
    return found
