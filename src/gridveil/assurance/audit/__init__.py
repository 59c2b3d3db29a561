"""The audit: empirical lower bounds on ε, and tests of the noise, from what `perturb` and bundles
really put out.

It sees synthetic grids of its own making only, and what is released of them: it never opens a
private value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from gridveil.assurance.audit.constant import audit_constant, audit_constant_detailed
from gridveil.assurance.audit.detailed import audit_assets, detailed_kind, values_of_table
from gridveil.assurance.audit.findings import DECIDING, Finding, Fit
from gridveil.assurance.audit.noise import Opens, audit_noise, values_of_noise
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
    audit_adjacency,
    measure_advantage,
    values_to_draw,
)
from gridveil.assurance.audit.sampler import audit_low_bits, audit_processes
from gridveil.assurance.audit.sums import AGGREGATES, audit_sums
from gridveil.foundation.progress import counted
from gridveil.grid.parameters import DETAILED, PARAMETERS, SWING
from gridveil.privacy.adjacency import ABSOLUTE, RULES_OF, Adjacency
from gridveil.privacy.allocation import ITEMS, Allocation
from gridveil.privacy.mechanisms import USUAL, Box, Noise

__all__ = [
    "Advantage",
    "ChargedReleases",
    "Draw",
    "Effort",
    "Finding",
    "Fit",
    "Power",
    "alphas",
    "audit_adjacency",
    "audit_all",
    "audit_low_bits",
    "audit_sums",
    "audited",
    "measure_advantage",
    "perturbed",
    "values_in_all",
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


@dataclass(frozen=True)
class _Guessing:
    """An audit by guesses: how many values it draws, and how it is run, given the shares of the
    confidence that all rows have together.
    """

    values: int
    run: Callable[[Callable[[int], object], int], Sequence[Finding]]


def _guessing(adjacency: Adjacency, epsilon: Fraction, effort: Effort) -> list[_Guessing]:
    """List the audits by guesses for an adjacency."""
    if adjacency.family != SWING:
        releases = effort.sums // 2
        return [
            _Guessing(
                releases * values_of_table(),
                lambda told, parts: audit_assets(
                    adjacency, epsilon, releases, progress=told, parts=parts
                ),
            )
        ]

    def of_items(allocation: Allocation | None, canaries: int) -> _Guessing:
        joint = allocation is not None
        return _Guessing(
            values_to_draw(adjacency.rule, canaries),
            lambda told, parts: audit_adjacency(
                adjacency,
                epsilon,
                canaries,
                draw=perturbed(adjacency, epsilon, allocation=allocation or ITEMS),
                alone=joint,
                subject=f"{adjacency.rule}, joint" if joint else None,
                progress=told,
                parts=parts,
            ),
        )

    def of_sums(allocation: Allocation) -> _Guessing:
        return _Guessing(
            len(PARAMETERS) * effort.sums,
            lambda told, parts: [
                audit_sums(
                    adjacency,
                    epsilon,
                    effort.sums,
                    allocation=allocation,
                    progress=told,
                    parts=parts,
                )
            ],
        )

    listed = [of_items(None, effort.canaries), of_sums(AGGREGATES)]
    if _joint(adjacency):
        items, means = (kind.allocation for kind in JOINT)
        listed += [of_items(items, max(1000, effort.canaries // JOINT_SHARE)), of_sums(means)]
    return listed + [of_sums(kind.allocation) for kind in pair_of_sums(adjacency)]


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


def audit_all(
    adjacencies: Sequence[Adjacency],
    epsilon: Fraction,
    effort: Effort,
) -> tuple[list[Finding], list[Fit]]:
    """Run every audit.

    An honest installation fails once in 10 000 such audits, or less (Bonferroni).
    """
    guessing = {number: _guessing(own, epsilon, effort) for number, own in enumerate(adjacencies)}
    laws = _laws(adjacencies)
    parts = (
        sum(map(len, guessing.values()))
        + sum(len(effort.fits(adjacency)) for adjacency in adjacencies)
        + len(laws)
        + effort.processes
    )
    level = (1 - DECIDING) / parts
    findings: list[Finding] = []
    fits: list[Fit] = []
    with counted("auditing", values_in_all(adjacencies, effort)) as progress:
        for number, adjacency in enumerate(adjacencies):
            for audit in guessing[number]:
                findings += audit.run(progress, parts)
            for name, releases, kind, opens in effort.fits(adjacency):
                subject = f"{adjacency.rule}: {name}"
                fits.append(
                    audit_noise(
                        subject,
                        adjacency,
                        epsilon,
                        releases,
                        kind,
                        opens=opens,
                        level=level,
                        progress=progress,
                    )
                )
            if adjacency.family != SWING:
                if effort.detailed_bundles:
                    fits.append(audit_constant_detailed(adjacency, epsilon))
            else:
                kinds = (*KINDS, *joint_kinds(adjacency))
                fits.append(audit_constant(adjacency, epsilon, kinds))
        for law, width in laws:
            findings.append(
                audit_low_bits(
                    draws=effort.canaries // 5,
                    noise=law,
                    width=width,
                    progress=progress,
                    parts=parts,
                )
            )
    if effort.processes:
        fits.append(audit_processes(level))
    return findings, fits


def values_in_all(adjacencies: Sequence[Adjacency], effort: Effort) -> int:
    """Count the values that `audit_all` draws, for a progress bar."""
    return len(_laws(adjacencies)) * (effort.canaries // 5) + sum(
        sum(audit.values for audit in _guessing(adjacency, Fraction(1), effort))
        + sum(values_of_noise(releases, kind) for _, releases, kind, _ in effort.fits(adjacency))
        for adjacency in adjacencies
    )


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
