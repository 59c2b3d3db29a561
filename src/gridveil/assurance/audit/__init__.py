"""The audit: empirical lower bounds on ε, and tests of the noise, from what `perturb` and bundles
really put out.

It sees synthetic grids of its own making only, and what is released of them: it never opens a
private value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from gridveil.assurance.audit.constant import audit_constant
from gridveil.assurance.audit.findings import DECIDING, Finding, Fit
from gridveil.assurance.audit.noise import Opens, audit_noise, values_of_noise
from gridveil.assurance.audit.releases import (
    KINDS,
    ChargedReleases,
    Draw,
    Kind,
    alphas,
    by_bundle,
    by_perturb,
    perturbed,
)
from gridveil.assurance.audit.run import (
    Advantage,
    audit_adjacency,
    measure_advantage,
    values_to_draw,
)
from gridveil.assurance.audit.sampler import audit_low_bits, audit_processes
from gridveil.assurance.audit.sums import audit_sums
from gridveil.foundation.progress import counted
from gridveil.grid.parameters import PARAMETERS
from gridveil.privacy.adjacency import Adjacency

__all__ = [
    "Advantage",
    "ChargedReleases",
    "Draw",
    "Effort",
    "Finding",
    "Fit",
    "alphas",
    "audit_adjacency",
    "audit_all",
    "audit_low_bits",
    "audit_sums",
    "measure_advantage",
    "perturbed",
    "values_in_all",
    "values_to_draw",
]


CANARIES, CANARIES_IN_FULL = 30_000, 1_000_000


@dataclass(frozen=True)
class Effort:
    """How much an audit draws.

    canaries : for each adjacency.
    sums : releases of a sum, each its own canary.
    items, bundles : releases whose noise is tested, one by one.
    kinds : of the bundles.
    processes : whether new processes are compared too.
    """

    canaries: int
    sums: int
    items: int
    bundles: int
    kinds: tuple[Kind, ...]
    processes: bool

    @classmethod
    def of(cls, canaries: int | None, *, full: bool) -> Effort:
        """Choose what takes some fifteen seconds, or in full some minutes; canaries : None for the
        usual number.
        """
        canaries = canaries or (CANARIES_IN_FULL if full else CANARIES)
        quick = tuple(kind for kind in KINDS if kind.name in ("items", "aggregates"))
        sums = max(500, canaries // 100)
        return (
            cls(canaries, sums, 1000, 200, KINDS, True)
            if full
            else cls(canaries, sums, 150, 30, quick, False)
        )

    def fits(self) -> list[tuple[str, int, Kind, Opens]]:
        """List the audits of noise for each adjacency: name, releases, kind and where the outputs
        are taken from.
        """
        items, sums = (
            next(kind for kind in KINDS if kind.name == name) for name in ("items", "topology")
        )
        return [
            ("items", self.items, items, by_perturb),
            ("sums", self.sums, sums, by_perturb),
            *((f"{kind.name}, in bundles", self.bundles, kind, by_bundle) for kind in self.kinds),
        ]


def audit_all(
    adjacencies: Sequence[Adjacency],
    epsilon: Fraction,
    effort: Effort,
) -> tuple[list[Finding], list[Fit]]:
    """Run every audit.

    An honest installation fails once in 10 000 such audits, or less (Bonferroni).
    """
    parts = len(adjacencies) * (2 + len(effort.fits())) + 1 + effort.processes
    level = (1 - DECIDING) / parts
    findings: list[Finding] = []
    fits: list[Fit] = []
    with counted("auditing", values_in_all(adjacencies, effort)) as progress:
        for adjacency in adjacencies:
            findings += audit_adjacency(
                adjacency, epsilon, effort.canaries, progress=progress, parts=parts
            )
            findings.append(
                audit_sums(adjacency, epsilon, effort.sums, progress=progress, parts=parts)
            )
            for name, releases, kind, opens in effort.fits():
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
            fits.append(audit_constant(adjacency, epsilon))
        findings.append(audit_low_bits(draws=effort.canaries // 5, progress=progress, parts=parts))
    if effort.processes:
        fits.append(audit_processes(level))
    return findings, fits


def values_in_all(adjacencies: Sequence[Adjacency], effort: Effort) -> int:
    """Count the values that `audit_all` draws, for a progress bar."""
    each = len(PARAMETERS) * effort.sums + sum(
        values_of_noise(releases, kind) for _, releases, kind, _ in effort.fits()
    )
    return (
        sum(values_to_draw(adjacency.rule, effort.canaries) + each for adjacency in adjacencies)
        + effort.canaries // 5
    )
