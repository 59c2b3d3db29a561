"""Audit of sums and means: one canary a release, since one leaves room for no more."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gridveil.assurance.audit.canaries import Pattern, patterns
from gridveil.assurance.audit.findings import Counts, Finding, Tally, best_threshold, finding
from gridveil.assurance.audit.pieces import Plain, in_order
from gridveil.assurance.audit.releases import Uncharged, chain
from gridveil.foundation.shards import cut
from gridveil.grid.facts import Array
from gridveil.grid.parameters import PARAMETERS, Bounds, Range, assets
from gridveil.privacy.adjacency import Adjacency
from gridveil.privacy.allocation import Allocation, aggregates
from gridveil.privacy.mechanisms import Noise, Sampler, parts
from gridveil.privacy.noisy import NoisyGrid
from gridveil.vault.perturb import perturb
from gridveil.vault.source import SourceGrid

MACHINES = 2
SPAN = 250  # canaries of a piece
AGGREGATES = aggregates()


@dataclass(frozen=True)
class _Table:
    """Where the canaries' entries sit: powers of two, a thousand scales from zero, and bounds that
    never bite.
    """

    centre: dict[str, float]
    bounds: Bounds

    @classmethod
    def of(cls, adjacency: Adjacency, epsilon: Fraction) -> _Table:
        away = 2.0 ** max(2, math.ceil(math.log2(1000 / epsilon)))
        centre = {
            name: 1.0 if adjacency.relative else float(alpha) * away
            for name, alpha in adjacency.alpha.items()
        }
        spread = math.exp(min(600.0, away)) if adjacency.relative else 2.0
        ranges = {
            name: Range(value / spread if adjacency.relative else value / 1e6, value * spread)
            for name, value in centre.items()
        }
        return cls(centre, Bounds(ranges))


@dataclass(frozen=True)
class _Laws:
    """Laws of the coordinates that a canary moves, one after the other: law and how many."""

    laws: tuple[tuple[Noise, int], ...]

    @classmethod
    def of(cls, noisy: NoisyGrid, pattern: Pattern) -> _Laws:
        """A joint draw is one law of all its coordinates; a canary moves all of them, or none."""
        groups = [name for _, name in pattern.signs]
        drawn = parts({name: noisy.allocation.draws[name] for name in groups}, assets())
        return cls(tuple((mechanism.law(len(names)), len(names)) for mechanism, names in drawn))

    def seeded(self, random: np.random.Generator, scale: float, size: tuple[int, int]) -> Array:
        """Noise on rows of all coordinates."""
        each = [law.seeded(random, scale, (size[0], count)) for law, count in self.laws]
        return np.concatenate(each, axis=1)

    def ratio_of_rows(self, z: Array, losses: Array) -> Array:
        """Log-likelihood ratios of independent draws add up."""
        ends = np.cumsum([count for _, count in self.laws])
        return sum(
            (
                law.ratio_of_rows(z[..., end - count : end], losses[end - count : end])
                for (law, count), end in zip(self.laws, ends.tolist(), strict=True)
            ),
            np.zeros(z.shape[:-1]),
        )


@dataclass(frozen=True)
class Sums:
    """Canaries in sums and means, one a release; all as in `audit_sums`."""

    adjacency: Adjacency
    epsilon: Fraction
    canaries: int
    allocation: Allocation = AGGREGATES

    @property
    def subject(self) -> str:
        """What is audited."""
        pair = any(self.allocation.of(name).joint for name in self.allocation.drawn)
        what = "means" if self._means else "pair of sums" if pair else "sums"
        return f"{self.adjacency.rule}, {what}"

    @property
    def _means(self) -> bool:
        return "mean" in self.allocation.takes

    @property
    def spans(self) -> list[range]:
        """Some canaries each."""
        return cut(self.canaries, SPAN)

    def values(self, span: range) -> int:
        """One of each parameter a canary."""
        return len(PARAMETERS) * len(span)

    def tally(
        self, span: range, sampler: Sampler | None, random: np.random.Generator | None
    ) -> Plain:
        """Release a grid for each canary, and guess."""
        sampler, random = sampler or Uncharged(), random or np.random.default_rng()
        table, allocation = _Table.of(self.adjacency, self.epsilon), self.allocation
        moved = [
            moving
            for moving in patterns(
                self.adjacency.rule, 1, alone="box-means" in allocation.draws.values()
            )
            if any(PARAMETERS[group].asset == "machine" for _, group in moving.signs)
        ]
        counts, charged = Counts(), Fraction(0)
        for number in span:
            pattern, secret = moved[number % len(moved)], float(random.choice([-1.0, 1.0]))
            noisy = perturb(
                _source(table, self.adjacency, pattern, secret, allocation),
                epsilon=self.epsilon,
                adjacency=self.adjacency,
                bounds=table.bounds,
                ledger=None,
                sampler=sampler,
                allocation=allocation,
            )
            charged = max(charged, noisy.guarantee.spent)
            counts += _guess(noisy, table, self.adjacency, pattern, secret, self.canaries)
        return Tally(charged, {self.subject: counts}).plain()

    def rows(self, tallies: Sequence[Plain], parts: int) -> tuple[Finding]:
        """State one row."""
        found = Tally.joined(tallies)
        where = "the means of m and d" if self._means else "Σm and Σd"
        words = f"a machine in {where}"
        return (finding(self.subject, words, found.charged, found.whole(), rows=parts),)


def audit_sums(
    adjacency: Adjacency,
    epsilon: Fraction,
    canaries: int,
    *,
    sampler: Sampler | None = None,
    allocation: Allocation = AGGREGATES,
    progress: Callable[[int], object] | None = None,
    parts: int = 1,
) -> Finding:
    """Bound ε from below by guessing, from releases of sums, which way one machine (and what moves
    with it) went.

    Each canary is a release of a grid of two machines of its own: its line's k, if the rule moves
    it along, is drawn as an item, m and d as sums, or as the allocation says: as means.
    parts : as in `audit_adjacency`.

    Privacy: the guesses are independent, so `epsilon_lower` holds for them as for those of one run.
    """
    part = Sums(adjacency, epsilon, canaries, allocation)
    return part.rows(in_order(part, sampler, progress), parts)[0]


def _source(
    table: _Table,
    adjacency: Adjacency,
    pattern: Pattern,
    secret: float,
    allocation: Allocation,
) -> SourceGrid:
    values = {name: np.full(MACHINES, centre) for name, centre in table.centre.items()}
    for (_, name), sign in pattern.signs.items():
        alpha, by = float(adjacency.alpha[name]), sign * secret / 2
        if adjacency.relative:
            if allocation.of(name).takes != "mean":
                # the other machine is next to nothing, so that the sum moves by the whole factor
                values[name][1] = values[name][0] * 1e-12
            values[name][0] *= (1 + alpha) ** by
        else:
            values[name][0] += alpha * by
    return SourceGrid.of(chain(MACHINES), **values)


def _guess(
    noisy: NoisyGrid,
    table: _Table,
    adjacency: Adjacency,
    pattern: Pattern,
    secret: float,
    canaries: int,
) -> Counts:
    moved, losses = list[float](), list[float]()
    for (_, name), sign in pattern.signs.items():
        scale, output = noisy.guarantee.groups[name].scale, float(noisy.values[name][0])
        middle, takes = table.centre[name], noisy.allocation.of(name).takes
        if adjacency.relative:
            apart, z = math.log1p(adjacency.alpha[name]), math.log(output / middle) / scale
        else:
            known = middle * (MACHINES - 1) if takes == "sum" else 0.0
            apart, z = float(adjacency.alpha[name]), (output - known - middle) / scale
        losses.append(abs(sign) * apart / (MACHINES if takes == "mean" else 1) / scale)
        moved.append((sign or 1) * z)
    noise = _Laws.of(noisy, pattern)
    ratio = noise.ratio_of_rows(np.array([moved]), np.array(losses))
    threshold = best_threshold(tuple(losses), canaries, noise)
    return Counts.of(ratio, np.array([secret]), threshold)
