"""The audit: empirical lower bounds on ε, and tests of the noise, from what `perturb` and bundles
really put out.

It sees synthetic grids of its own making only, and what is released of them: it never opens a
private value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from gridveil.assurance.audit.constant import ConstantNoise
from gridveil.assurance.audit.detailed import Assets, detailed_kind
from gridveil.assurance.audit.findings import DECIDING, Finding, Fit
from gridveil.assurance.audit.noise import NoiseTest, Opens
from gridveil.assurance.audit.pieces import AuditPart, Piece, tally
from gridveil.assurance.audit.releases import (
    JOINT,
    KINDS,
    PAIR,
    ChargedReleases,
    Draw,
    Kind,
    alphas,
    by_bundle,
    by_perturb,
    joint_kinds,
    pair_of_sums,
    perturbed,
)
from gridveil.assurance.audit.run import (
    Advantage,
    Canaries,
    audit_adjacency,
    measure_advantage,
    values_to_draw,
)
from gridveil.assurance.audit.sampler import LowBits, audit_low_bits, audit_processes
from gridveil.assurance.audit.sums import Sums, audit_sums
from gridveil.foundation.executors import Crew, here
from gridveil.foundation.progress import counted
from gridveil.foundation.shards import Failure, Kept, gather
from gridveil.grid.parameters import DETAILED, SWING
from gridveil.privacy.adjacency import ABSOLUTE, RULES_OF, Adjacency
from gridveil.privacy.mechanisms import USUAL, Box, Noise

__all__ = [
    "Advantage",
    "AuditRun",
    "ChargedReleases",
    "Draw",
    "Effort",
    "Finding",
    "Fit",
    "Power",
    "UnmadeBatch",
    "alphas",
    "audit_adjacency",
    "audit_all",
    "audit_low_bits",
    "audit_sums",
    "audited",
    "measure_advantage",
    "perturbed",
    "values_to_draw",
]


Power = Literal["quick", "thorough", "full"]
CANARIES: Mapping[Power, int] = {"quick": 10_000, "thorough": 30_000, "full": 1_000_000}
JOINT_SHARE = 3  # of canaries, one in so many again in joint noise, which takes longer to draw


@dataclass(frozen=True)
class Effort:
    """How much an audit draws.

    canaries : for each adjacency.
    sums : releases of a sum, each its own canary; of detailed tables half as many.
    items, bundles : releases whose noise is tested, one by one; of detailed tables half as many.
    kinds : of the bundles.
    processes : whether new processes are compared too.
    detailed_bundles : whether bundles of two detailed tables are compared.
    """

    canaries: int
    sums: int
    items: int
    bundles: int
    kinds: tuple[Kind, ...]
    processes: bool
    detailed_bundles: bool = True

    @classmethod
    def of(cls, canaries: int | None, power: Power = "quick") -> Effort:
        """Choose what takes some seconds, half a minute, or some twenty; canaries : None for the
        usual number.
        """
        canaries = canaries or CANARIES[power]
        sums = max(500, canaries // 100)
        if power == "full":
            return cls(canaries, sums, 1000, 200, KINDS, True)
        usual = tuple(kind for kind in KINDS if kind.name in ("items", "aggregates"))
        if power == "thorough":
            return cls(canaries, sums, 150, 30, usual, False)
        return cls(canaries, max(100, canaries // 100), 80, 4, usual[:1], False, False)

    def fits(self, adjacency: Adjacency) -> list[tuple[str, int, Kind, Opens]]:
        """List the audits of noise for an adjacency: name, releases, kind and where the outputs are
        taken from.
        """
        if adjacency.family != SWING:
            kind = detailed_kind(adjacency)
            return [(kind.name, self.items // 2, kind, by_perturb)]
        items, sums = (
            next(kind for kind in KINDS if kind.name == name) for name in ("items", "topology")
        )
        drawn = [("items", self.items, items), ("sums", self.sums, sums)]
        published = list(self.kinds)
        if _joint(adjacency):
            drawn += [(kind.name, self.items, kind) for kind in JOINT]
            published += JOINT if self.processes else JOINT[:1]
        for kind in pair_of_sums(adjacency):
            drawn.append((kind.name, self.sums, kind))
            published += [kind] if self.processes else []
        return [
            *((name, releases, kind, by_perturb) for name, releases, kind in drawn),
            *((f"{kind.name}, in bundles", self.bundles, kind, by_bundle) for kind in published),
        ]


def _guessing(adjacency: Adjacency, epsilon: Fraction, effort: Effort) -> list[AuditPart]:
    """List the audits by guesses for an adjacency."""
    if adjacency.family != SWING:
        return [Assets(adjacency, epsilon, effort.sums // 2)]
    listed: list[AuditPart] = [
        Canaries(adjacency, epsilon, effort.canaries),
        Sums(adjacency, epsilon, effort.sums),
    ]
    if _joint(adjacency):
        items, means = (kind.allocation for kind in JOINT)
        fewer = max(1000, effort.canaries // JOINT_SHARE)
        listed += [
            Canaries(adjacency, epsilon, fewer, items, True, f"{adjacency.rule}, joint"),
            Sums(adjacency, epsilon, effort.sums, means),
        ]
    return listed + [
        Sums(adjacency, epsilon, effort.sums, kind.allocation) for kind in pair_of_sums(adjacency)
    ]


def _testing(adjacency: Adjacency, epsilon: Fraction, effort: Effort) -> list[AuditPart]:
    """List the tests of noise and of bundles for an adjacency."""
    listed: list[AuditPart] = [
        NoiseTest(f"{adjacency.rule}: {name}", adjacency, epsilon, releases, kind, opens)
        for name, releases, kind, opens in effort.fits(adjacency)
    ]
    if adjacency.family == SWING:
        listed.append(ConstantNoise(adjacency, epsilon, (*KINDS, *joint_kinds(adjacency))))
    elif effort.detailed_bundles:
        listed.append(ConstantNoise(adjacency, epsilon, None))
    return listed


def _joint(adjacency: Adjacency) -> bool:
    """Whether noise on a whole asset is drawn jointly under a rule."""
    return adjacency.counts == "one-asset"


def _laws(adjacencies: Sequence[Adjacency]) -> list[tuple[Noise, int]]:
    """List the laws whose low bits are looked at, and how many values a row of each has."""
    laws: list[tuple[Noise, int]] = [(USUAL, 1)]
    if any(map(_joint, adjacencies)):
        laws.append((Box(1), 1))
    if any(map(pair_of_sums, (own for own in adjacencies if own.family == SWING))):
        laws.append((PAIR.noise, 2))
    return laws


def parts_of(
    adjacencies: Sequence[Adjacency], epsilon: Fraction, effort: Effort
) -> list[AuditPart]:
    """List the parts of an audit, in the order of its rows."""
    listed: list[AuditPart] = []
    for adjacency in adjacencies:
        listed += _guessing(adjacency, epsilon, effort) + _testing(adjacency, epsilon, effort)
    laws = _laws(adjacencies)
    return listed + [LowBits(effort.canaries // 5, noise=law, width=width) for law, width in laws]


@dataclass(frozen=True)
class UnmadeBatch:
    """A batch that could not be made: of which part, how often it was tried, and why it failed."""

    subject: str
    batch: str
    tries: int
    why: str


@dataclass(frozen=True)
class AuditRun:
    """What an audit found; failed : batches without which their parts have no rows."""

    findings: tuple[Finding, ...]
    fits: tuple[Fit, ...]
    failed: tuple[UnmadeBatch, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all of it was made, and every claim stands."""
        return not self.failed and all(row.passed for row in (*self.findings, *self.fits))


def audit_all(
    adjacencies: Sequence[Adjacency],
    epsilon: Fraction,
    effort: Effort,
    *,
    crew: Crew | None = None,
    kept: Kept[Any] | None = None,
    seed: int | None = None,
) -> AuditRun:
    """Run every audit.

    An honest installation fails once in 10 000 such audits, or less (Bonferroni).

    crew : who makes the batches; None: this process.
    kept : finished batches, from which an audit goes on that was stopped.
    seed : as in `Piece`; None: OpenDP's noise.
    """
    parts = parts_of(adjacencies, epsilon, effort)
    pieces = [
        [Piece(part, number, span, seed) for span in part.spans]
        for number, part in enumerate(parts)
    ]
    named = {piece.name: piece for own in pieces for piece in own}
    total = sum(piece.part.values(piece.span) for piece in named.values())
    with counted("auditing", total) as progress, crew or here() as crew:
        tallies, failed = gather(
            named,
            tally,
            crew,
            kept=kept,
            more=lambda name: progress(named[name].part.values(named[name].span)),
        )
    sharing = sum(not isinstance(part, ConstantNoise) for part in parts) + effort.processes
    rows: list[Finding | Fit] = []
    for part, own in zip(parts, pieces, strict=True):
        if all(piece.name in tallies for piece in own):
            rows += part.rows([tallies[piece.name] for piece in own], sharing)
    if effort.processes:
        rows.append(audit_processes((1 - DECIDING) / sharing))
    return AuditRun(
        tuple(row for row in rows if isinstance(row, Finding)),
        tuple(row for row in rows if isinstance(row, Fit)),
        tuple(_unmade(named[one.name], one) for one in failed),
    )


def _unmade(piece: Piece, failure: Failure[str]) -> UnmadeBatch:
    number, count = piece.part.spans.index(piece.span) + 1, len(piece.part.spans)
    return UnmadeBatch(piece.part.subject, f"{number} of {count}", failure.tries, failure.why)


def audited(rules: Sequence[str] | None, power: Power = "quick") -> list[Adjacency]:
    """Choose what to audit: rules by name, each for swing tables and for detailed ones if it is a
    rule of theirs; by default the first of either, thoroughly the usual ones, in full all.
    """
    usual = {
        "quick": {SWING: ("one-asset",), DETAILED: ("one-asset-relative",)},
        "thorough": {SWING: ABSOLUTE, DETAILED: ("one-asset-relative", "asset-l1-relative")},
        "full": RULES_OF,
    }[power]
    return [
        Adjacency(rule, alphas(family), family=family)  # pyright: ignore[reportArgumentType]
        for family, own in RULES_OF.items()
        for rule in dict.fromkeys(rules or usual[family])
        if rule in own or (rule not in RULES_OF[DETAILED] and family == SWING)
    ]
