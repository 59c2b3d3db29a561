"""Accounts: what the rows of a ledger add up to, lineage by lineage."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from gridveil.errors import NOTHING_SPENT, BudgetExceeded, LedgerError
from gridveil.privacy.adjacency import ASSETS, Adjacency, Rule
from gridveil.privacy.ledger.chain import Row

State = Literal["reserved", "drawn", "published"]

LONGEST_LINEAGE = 200  # characters


def check_lineage(lineage: str) -> None:
    """Refuse a new lineage whose name is empty, too long for a line, or would not print as itself."""
    if not lineage.strip() or len(lineage) > LONGEST_LINEAGE or not lineage.isprintable():
        raise LedgerError(
            f"{lineage[:40] + '…' if len(lineage) > 40 else lineage!r} cannot be the name of a lineage.",
            outcome=NOTHING_SPENT,
            remedy=f"Name one with --lineage: at most {LONGEST_LINEAGE} printable characters.",
        )


@dataclass(frozen=True)
class Version:
    """A grid as a ledger knows it: keyed fingerprints only. marks : kind:name, of its lines (`line_marks`)."""

    fingerprint: str
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Charge:
    """What a draw costs: neighbours, α, exact ε asked for, and per drawn group the loss charged and the scale of the noise.

    draws : what is drawn of each group: items, sum or nothing. Items and sums of a group are not disjoint: both are charged.
    """

    lineage: str
    version: Version
    rule: Rule
    epsilon: Fraction
    alpha: Mapping[str, Fraction]
    spent: Mapping[str, float]
    scale: Mapping[str, float]
    draws: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(ASSETS, "items"))


@dataclass(frozen=True)
class Entry:
    """A draw in the ledger. A reserved one counts as spent, whatever became of it."""

    number: int
    state: State
    lineage: str
    rule: Rule
    epsilon: Fraction
    alpha: Mapping[str, Fraction]
    spent: Mapping[str, float]
    digest: str | None


@dataclass(frozen=True)
class Account:
    """A lineage: its budget, fixed in adjacency and α for ever, and what was spent of it.

    totals : loss of each group so far; spent : of all, by the adjacency's rule; epsilon : the budget.
    """

    lineage: str
    versions: int
    adjacency: Adjacency | None
    epsilon: Fraction
    totals: Mapping[str, Fraction]
    entries: tuple[Entry, ...]

    @property
    def spent(self) -> Fraction:
        """ε spent so far under the adjacency's rule."""
        return self.adjacency.loss(self.totals, ASSETS) if self.adjacency else Fraction(0)

    @property
    def left(self) -> Fraction:
        """ε left of the budget."""
        return max(Fraction(0), self.epsilon - self.spent)

    def check_covers(self, epsilon: Fraction, losses: Mapping[str, Fraction], draws: int = 1) -> None:
        """Refuse draws at ε, each with these losses of its groups, that the budget does not cover; say what is left."""
        if self.adjacency is None:
            raise BudgetExceeded(
                f"The lineage {self.lineage!r} has no budget yet.",
                outcome=NOTHING_SPENT,
                remedy=f"Give it one: gridveil ledger budget {self.lineage} --epsilon …",
            )
        after = {name: total + draws * losses.get(name, Fraction(0)) for name, total in self.totals.items()}
        if self.adjacency.loss(after, ASSETS) > self.epsilon:
            asked = f"ε = {epsilon}" if draws == 1 else f"{draws} draws at ε = {epsilon}"
            raise BudgetExceeded(
                f"The budget of {self.lineage!r} does not cover {asked}: {math.floor(self.left * 10**6) / 10**6:g} is left of "
                f"ε = {self.epsilon}.",
                outcome=NOTHING_SPENT,
                remedy=f"Ask for less, or raise the budget: gridveil ledger budget {self.lineage} --epsilon …",
            )


def replay(rows: Sequence[Row]) -> dict[str, Account]:
    """Replay the rows into accounts."""
    budgets: dict[str, tuple[Adjacency | None, Fraction]] = {}
    draws: dict[int, dict[str, Any]] = {}
    states: dict[int, tuple[State, str | None]] = {}
    versions = versions_of(rows)
    for row in rows:
        body = json.loads(row.body)
        if row.kind == "registered":
            budgets[body["lineage"]] = (None, Fraction(0))
        elif row.kind == "budget":
            budgets[body["lineage"]] = (Adjacency(body["adjacency"], exact_values(body["alpha"])), Fraction(body["epsilon"]))
        elif row.kind == "reserved":
            draws[row.number], states[row.number] = body, ("reserved", None)
        elif row.kind == "drawn":
            states[body["of"]] = ("drawn", None)
        elif row.kind == "published":
            states[body["of"]] = ("published", body["digest"])
    found = {}
    for lineage, (adjacency, epsilon) in budgets.items():
        entries = tuple(
            Entry(
                number,
                states[number][0],
                lineage,
                body["adjacency"],
                Fraction(body["epsilon"]),
                exact_values(body["alpha"]),
                body["spent"],
                states[number][1],
            )
            for number, body in draws.items()
            if body["lineage"] == lineage
        )
        totals = _totals(entries, adjacency)
        found[lineage] = Account(lineage, len(versions.get(lineage, {})), adjacency, epsilon, totals, entries)
    return found


def _totals(entries: Sequence[Entry], adjacency: Adjacency | None) -> dict[str, Fraction]:
    """Add up, group by group, what all draws tell about a change by the budget's α: Σ spent · α_ref / α."""
    totals = dict.fromkeys(ASSETS, Fraction(0))
    for entry in entries:
        for name, spent in entry.spent.items():
            reference = adjacency.alpha[name] if adjacency else entry.alpha[name]
            assert reference == entry.alpha[name] or not Adjacency(entry.rule).relative, "ratios do not scale; check_same"
            totals[name] += Fraction(spent) * reference / entry.alpha[name]
    return totals


def versions_of(rows: Sequence[Row]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Marks of every version of every lineage."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for row in rows:
        if row.kind == "version":
            body = json.loads(row.body)
            found.setdefault(body["lineage"], {})[body["fingerprint"]] = tuple(body["marks"])
    return found


def check_same(account: Account, adjacency: Adjacency) -> None:
    """Refuse another adjacency or another α than the budget's."""
    fixed = account.adjacency
    assert fixed is not None
    if fixed.rule != adjacency.rule or dict(fixed.alpha) != dict(adjacency.alpha):
        alpha = ", ".join(f"{name} {value}" for name, value in fixed.alpha.items())
        raise LedgerError(
            f"The budget of {account.lineage!r} is fixed to adjacency {fixed.rule} with α = {alpha}, for ever.",
            outcome=NOTHING_SPENT,
            remedy="Use them, or leave --adjacency and --alpha-… out.",
        )


def exact_values(values: Mapping[str, str]) -> dict[str, Fraction]:
    """Read fractions as they are stored."""
    return {name: Fraction(value) for name, value in values.items()}
