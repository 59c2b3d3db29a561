"""Audit of detailed tables: a synthetic one, and its assets as canaries.

It has three machines with an exciter, a stabiliser and a governor each, three loads, a shunt and
six lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from gridveil.assurance.audit.findings import Counts, Finding, Tally, finding, threshold_of
from gridveil.assurance.audit.pieces import Plain, in_order
from gridveil.assurance.audit.releases import NAME, WIDE, Kind, Uncharged
from gridveil.assurance.audit.run import apart
from gridveil.dynamics.detailed.registry import DEVICES
from gridveil.dynamics.detailed.typical import public_case
from gridveil.foundation.shards import cut
from gridveil.grid.case import Branches, DetailedCase, DeviceTable, Loads, Units
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import Array
from gridveil.grid.parameters import DETAILED, Bounds, Range, assets
from gridveil.privacy.adjacency import Adjacency, Rule
from gridveil.privacy.mechanisms import Noise, Sampler, parts
from gridveil.privacy.noisy import NoisyGrid
from gridveil.readers.detailed import locked
from gridveil.readers.dynamics import Detailed
from gridveil.vault.perturb import perturb
from gridveil.vault.source import SourceGrid
from gridveil.workflow.detailed import allocate

UNITS = 3
SPAN = 50  # releases of a piece
MODELS = ("GENROU", "EXDC2", "IEEEST", "TGOV1")
SIGNED = Range(-1e3, 1e3, signed=True)  # of what is counted in its unit: roundings stay small


@cache
def facts() -> DetailedFacts:
    """Public facts of the synthetic grid: every asset that a detailed table may have."""
    ends = [[0, 3], [1, 4], [2, 5], [3, 4], [4, 5], [3, 5]]
    charging = np.array([0.0] * UNITS + [1.0] * UNITS)
    values = {model: DEVICES[model].parameters for model in MODELS}
    structure = DetailedCase(
        NAME,
        tuple(f"b{n}" for n in range(2 * UNITS)),
        100.0,
        60.0,
        Branches(np.array(ends), np.full(6, 0.1 + 1j), charging, np.ones(6, dtype=complex)),
        np.array([0, 0, 0, 1j, 0, 0]),
        Loads(
            np.arange(UNITS, 2 * UNITS),
            np.full(UNITS, 1 + 1j),
            np.ones((UNITS, 2)),
            np.zeros((UNITS, 2)),
        ),
        Units(np.arange(UNITS), np.ones(UNITS), np.ones(UNITS), 0),
        tuple(
            DeviceTable(
                model, np.arange(UNITS), {p.name: np.full(UNITS, p.typical) for p in values[model]}
            )
            for model in MODELS
        ),
    )
    return locked(public_case(structure), Detailed()).facts


def detailed_kind(adjacency: Adjacency) -> Kind:
    """A detailed table, drawn as a release of it is."""
    return Kind("a detailed table", allocate(facts(), adjacency), table=facts())


def steps(rule: Rule, count: int) -> dict[str, list[tuple[float, ...]]]:
    """What a rule calls one step of an asset of so many entries, each counted in its distance: all
    entries together, and one alone. Stated here again: `Adjacency` is what is audited.

    >>> steps("asset-l1-relative", 2)["together"]
    [(0.5, 0.5), (0.5, -0.5)]
    """
    alone = [tuple(float(i == j) for i in range(count)) for j in range(count)]
    if rule.startswith("one-item") or count == 1:
        return {"alone": alone}
    part = 1.0 if rule.startswith("one-asset") else 1 / count
    together = [tuple(part * sign**n for n in range(count)) for sign in (1, -1)]
    return {"together": together, "alone": alone}


@dataclass(frozen=True)
class Assets:
    """Canaries in a detailed table, one of each kind of asset a release; all as in
    `audit_assets`.
    """

    adjacency: Adjacency
    epsilon: Fraction
    releases: int

    @property
    def subject(self) -> str:
        """What is audited."""
        return f"{self.adjacency.rule}, detailed"

    @property
    def spans(self) -> list[range]:
        """Some releases each."""
        return cut(self.releases, SPAN)

    def values(self, span: range) -> int:
        """All of a table a release."""
        return values_of_table() * len(span)

    def tally(
        self, span: range, sampler: Sampler | None, random: np.random.Generator | None
    ) -> Plain:
        """Release tables, and guess."""
        sampler, random = sampler or Uncharged(), random or np.random.default_rng()
        adjacency, allocation, table = self.adjacency, allocate(facts(), self.adjacency), _entries()
        entries = facts().parameters.items()
        public = {name: SIGNED if entry.absolute else WIDE for name, entry in entries}
        counts: dict[str, Counts] = {}
        charged = Fraction(0)
        ways = {asset: steps(adjacency.rule, len(names)) for asset, names in table.items()}
        for number in span:
            chosen = {asset: _turn(number, own) for asset, own in ways.items()}
            secret = {asset: float(random.choice([-1.0, 1.0])) for asset in table}
            source = SourceGrid[DetailedFacts].of(
                facts(),
                **_table(
                    adjacency,
                    {
                        name: (at, secret[asset] * move / 2)
                        for asset, names in table.items()
                        for (name, at), move in zip(names.items(), chosen[asset][1], strict=True)
                    },
                ),
            )
            noisy = perturb(
                source,
                epsilon=self.epsilon,
                adjacency=adjacency,
                bounds=Bounds(public, family=DETAILED),
                ledger=None,
                sampler=sampler,
                allocation=allocation,
            )
            charged = max(charged, noisy.guarantee.spent)
            for asset, names in table.items():
                way, moves = chosen[asset]
                moved = dict(zip(names, moves, strict=True))
                draws = list(_seen(noisy, adjacency, names, moved))
                laws = tuple((law, tuple(losses.tolist())) for law, _, losses in draws)
                ratio = sum(
                    (law.ratio_of_rows(z[None], losses) for law, z, losses in draws), np.zeros(1)
                )
                threshold = threshold_of(laws, self.releases)
                key = f"a {asset}'s entries, {way}"
                guess = Counts.of(ratio, np.array([secret[asset]]), threshold)
                counts[key] = counts.get(key, Counts()) + guess
        return Tally(charged, counts).plain()

    def rows(self, tallies: Sequence[Plain], parts: int) -> list[Finding]:
        """State a row for each kind of asset and each way."""
        found = Tally.joined(tallies)
        return [
            finding(self.subject, key, found.charged, counts, rows=parts * len(found.counts))
            for key, counts in found.counts.items()
        ]


def audit_assets(
    adjacency: Adjacency,
    epsilon: Fraction,
    releases: int,
    *,
    sampler: Sampler | None = None,
    progress: Callable[[int], object] | None = None,
    parts: int = 1,
) -> list[Finding]:
    """Bound ε from below by guessing which way one asset of each kind went, from all that a release
    drew of it: its items and the means that it is part of.

    parts : as in `audit_adjacency`.

    Privacy
    -------
    A release holds a canary in one line, one load, one machine and one shunt, each with a coin of
    its own: one flip is one step of the adjacency. Releases are of grids of their own, so that
    `epsilon_lower` holds for all guesses.
    """
    part = Assets(adjacency, epsilon, releases)
    return part.rows(in_order(part, sampler, progress), parts)


def _turn(
    number: int, ways: Mapping[str, list[tuple[float, ...]]]
) -> tuple[str, tuple[float, ...]]:
    """Take turns: first by way, then by its patterns."""
    way = list(ways)[number % len(ways)]
    return way, ways[way][number // len(ways) % len(ways[way])]


def values_of_table() -> int:
    """Count the values of a table, for a progress bar."""
    return sum(facts().sizes.values())


def _entries() -> dict[str, dict[str, int]]:
    """Of one asset of each kind, the last, the entry of each parameter."""
    found: dict[str, dict[str, int]] = {}
    for name, parameter in facts().parameters.items():
        found.setdefault(parameter.asset, {})[name] = len(facts().positions(name)) - 1
    return found


def _table(adjacency: Adjacency, moves: Mapping[str, tuple[int, float]]) -> dict[str, Array]:
    """A table with 1 everywhere but in the entries that move, each by so many of its distance."""
    values: dict[str, Array] = {}
    for name, (at, by) in moves.items():
        values[name], alpha = np.ones(facts().sizes[name]), float(adjacency.alpha[name])
        step = (1 + alpha) ** by if adjacency.in_ratios(name) else 1 + alpha * by
        values[name][at] = step
    return values


def _seen(
    noisy: NoisyGrid[DetailedFacts],
    adjacency: Adjacency,
    names: Mapping[str, int],
    moved: Mapping[str, float],
) -> Iterator[tuple[Noise, Array, Array]]:
    """What each draw shows of an asset: its law, z = ± (output − 1) / scale of each value, turned
    the way it may have moved, and how far that is, in scales.
    """
    draws = {name: noisy.allocation.draws[name] for name in names}
    for mechanism, drawn in parts(draws, assets(DETAILED)):
        z, losses = list[float](), list[float]()
        for name in drawn:
            loss, entry = noisy.guarantee.groups[name], names[name]
            mean = mechanism.takes == "mean"
            output = float(noisy.values[name][0 if mean else entry])
            far = math.log(output) if loss.relative else output - 1
            sign = -1.0 if moved[name] < 0 else 1.0
            z.append(sign * far / loss.scale)
            share = facts().sizes[name] if mean else 1
            losses.append(abs(moved[name]) * apart(adjacency, name) / share / loss.scale)
        yield noisy.guarantee.groups[drawn[0]].noise, np.array(z), np.array(losses)
