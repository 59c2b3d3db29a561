"""Accounts: what the rows of a ledger add up to, lineage by lineage."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from shlex import quote
from typing import Any, Literal

from gridveil.foundation.errors import NOTHING_SPENT, BudgetExceeded, LedgerError
from gridveil.grid.parameters import FAMILIES, PARAMETERS, SWING, Asset, assets
from gridveil.privacy.adjacency import Adjacency, Rule
from gridveil.privacy.ledger.chain import Head, Row
from gridveil.privacy.mechanisms import drawn_jointly

State = Literal["reserved", "drawn", "published"]

LONGEST_LINEAGE = 200  # characters


def check_lineage(lineage: str) -> None:
    """Refuse a lineage whose name is empty, too long, or does not print as itself."""
    if not lineage.strip() or len(lineage) > LONGEST_LINEAGE or not lineage.isprintable():
        raise LedgerError(
            f"{lineage[:40] + '…' if len(lineage) > 40 else lineage!r} cannot be the name of a "
            "lineage.",
            outcome=NOTHING_SPENT,
            remedy=f"Name one with --lineage: at most {LONGEST_LINEAGE} printable characters.",
        )


def assets_of(names: Iterable[str]) -> dict[str, Asset]:
    """The asset of each parameter, or of those that a joint draw covers; of one that is declared
    elsewhere alone, a machine's.

    Losses of one asset add up, so that it is not counted for less.
    """
    declared: dict[str, Asset] = {}
    for family in FAMILIES:
        declared |= assets(family)
    first = {name: name.rpartition(": ")[2].partition(", ")[0] for name in names}
    return {name: declared.get(first[name], "machine") for name in names}


def counted(
    losses: Mapping[str, Fraction], draws: Mapping[str, str], adjacency: Adjacency
) -> dict[str, Fraction]:
    """Losses as an account adds them up: of groups that were drawn jointly for one asset, once, by
    the draw's name.

    draws : what is drawn of each group.
    """
    # sorted, as rows have them: a draw has one name, before it is written and when it is read
    ways = {name: draws[name] for name in sorted(losses) if name in draws}
    # where entries of several assets may move, joint noise shows each in a row of its own
    together = drawn_jointly(ways, assets_of(ways), adjacency.counts)
    once: dict[str, Fraction] = {}
    for name, loss in losses.items():
        key = together.get(name, name)
        once[key] = max(once.get(key, Fraction(0)), loss)
    return once


@dataclass(frozen=True)
class Version:
    """A grid as a ledger knows it: keyed marks of its network (`line_marks`), no values."""

    marks: tuple[str, ...]


@dataclass(frozen=True)
class Charge:
    """Cost of a draw: neighbours, α, exact ε, and the loss and noise scale of each drawn group.

    draws : what is drawn of each group, by the mechanism's name. Items and sums of a group are not
    disjoint: both are charged. Groups of one joint draw have one loss, which is charged once.
    family : whose parameters the groups are.
    published : those that go out as they are, in which neighbours do not differ.
    """

    lineage: str
    version: Version
    rule: Rule
    epsilon: Fraction
    alpha: Mapping[str, Fraction]
    spent: Mapping[str, float]
    scale: Mapping[str, float]
    draws: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(PARAMETERS, "items"))
    family: str = SWING
    published: tuple[str, ...] = ()

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that it is a cost for."""
        return Adjacency(self.rule, self.alpha, family=self.family, published=self.published)


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
class Receipt:
    """What a ledger gives for a draw: its entry, and where ledger and account stood after it.

    nonce : random, of the reservation.
    commitment : SHA-256 of the nonce and of what was drawn.
    earlier : nonces of the ledger's charges before it, the latest ones.
    spent, budget : ε spent on the lineage so far, this draw included, and ε that may be.
    """

    entry: int
    nonce: str
    commitment: str
    earlier: tuple[str, ...]
    head: Head
    spent: Fraction
    budget: Fraction


@dataclass(frozen=True)
class Account:
    """A lineage: its budget, fixed in parameters and adjacency for ever, and what was spent of it.
    Its α may grow alone, and what was drawn before is counted for the larger one.

    draws : how many times it was charged.
    totals : loss of each group so far, and of groups that were drawn jointly, by the draw's name.
    spent : of all, by the adjacency's rule;
    epsilon : the budget.
    """

    lineage: str
    adjacency: Adjacency | None = None
    epsilon: Fraction = Fraction(0)
    totals: Mapping[str, Fraction] = field(
        default_factory=lambda: dict.fromkeys(PARAMETERS, Fraction(0))
    )
    draws: int = 0

    @property
    def spent(self) -> Fraction:
        """ε spent so far under the adjacency's rule."""
        return (
            self.adjacency.loss(self.totals, assets_of(self.totals))
            if self.adjacency
            else Fraction(0)
        )

    @property
    def left(self) -> Fraction:
        """ε left of the budget."""
        return max(Fraction(0), self.epsilon - self.spent)

    def check_covers(
        self, epsilon: Fraction, losses: Mapping[str, Fraction], draws: int = 1
    ) -> None:
        """Refuse draws at ε, with losses as `counted`, beyond the budget; say what is left."""
        if self.adjacency is None:
            raise BudgetExceeded(
                f"The lineage {self.lineage!r} has no budget yet.",
                outcome=NOTHING_SPENT,
                remedy=f"Give it one: gridveil ledger budget {quote(self.lineage)} --epsilon "
                "EPSILON",
            )
        after = {
            name: self.totals.get(name, Fraction(0)) + draws * losses.get(name, Fraction(0))
            for name in {**self.totals, **losses}
        }
        if self.adjacency.loss(after, assets_of(after)) > self.epsilon:
            asked = f"ε = {epsilon}" if draws == 1 else f"{draws} draws at ε = {epsilon}"
            raise BudgetExceeded(
                f"The budget of {self.lineage!r} does not cover {asked}: "
                f"{math.floor(self.left * 10**6) / 10**6:g} is left of ε = {self.epsilon}.",
                outcome=NOTHING_SPENT,
                remedy=f"Ask for less, or raise the budget: gridveil ledger budget "
                f"{quote(self.lineage)} --epsilon EPSILON",
            )

    def grown(self, adjacency: Adjacency) -> Account:
        """The same account for larger distances: what was spent so far, counted for those.

        Privacy
        -------
        A change by α' is n = ⌈α'/α⌉ changes by at most α each (in ratios, the least n with
        (1 + α)^n ≥ 1 + α'), so that a draw of any mechanism that loses ε for α loses at most n ε
        for α'. Groups are drawn independently, or jointly at the largest n of theirs; where changes
        of several groups share one distance, all take the largest n. See docs/privacy.md.
        """
        fixed = self.adjacency
        assert fixed is not None, "check_grows"
        steps = {name: _steps(fixed, adjacency, name) for name in fixed.alpha}
        together = fixed.rule.startswith("asset-l1")
        most = max(steps.values(), default=1)
        totals = {
            key: total * (most if together else max(steps[name] for name in names_in(key, steps)))
            for key, total in self.totals.items()
        }
        return replace(self, adjacency=adjacency, totals=totals)

    def after(self, kind: str, body: Mapping[str, Any]) -> Account:
        """Its state after one more row about it."""
        if kind == GROWN:
            return replace(self.grown(adjacency_of(body)), epsilon=Fraction(body["epsilon"]))
        if kind == "budget":
            fixed = adjacency_of(body)
            totals = self.totals
            if fixed.family != SWING and self.adjacency is None:
                totals = dict.fromkeys(fixed.alpha, Fraction(0))
            return replace(self, adjacency=fixed, totals=totals, epsilon=Fraction(body["epsilon"]))
        if kind == "reserved":
            return replace(self, totals=self._totals_with(body), draws=self.draws + 1)
        assert kind == "registered", kind
        return self

    def _totals_with(self, body: Mapping[str, Any]) -> dict[str, Fraction]:
        """Add, per group, one more draw's loss for the budget's α: spent · α_ref / α."""
        alpha, totals = exact_values(body["alpha"]), dict(self.totals)
        fixed = self.adjacency or adjacency_of(body)
        charged: dict[str, Fraction] = {}
        for name, spent in body["spent"].items():
            reference = fixed.alpha[name]
            assert reference == alpha[name] or not fixed.relative, "ratios do not scale; check_same"
            charged[name] = Fraction(spent) * reference / alpha[name]
        for name, loss in counted(charged, body["draws"], fixed).items():
            totals[name] = totals.get(name, Fraction(0)) + loss
        return totals


# A row with a budget for larger distances than before.
GROWN = "budget-grown"
# Rows that tell about one lineage; the others tell about the ledger itself or about a charge.
OF_A_LINEAGE = ("registered", "budget", GROWN, "reserved")


def names_in(key: str, known: Iterable[str]) -> list[str]:
    """The groups of a total: one, or those that a joint draw covers; all where none is known."""
    named = [name for name in key.rpartition(": ")[2].split(", ") if name in known]
    return named or list(known)


def _steps(fixed: Adjacency, larger: Adjacency, name: str) -> int:
    """How many changes by the old distance make up one by the new."""
    old, new = fixed.alpha[name], larger.alpha[name]
    if not fixed.in_ratios(name):
        return math.ceil(new / old)
    count, reached = 1, 1 + old
    while reached < 1 + new:
        count, reached = count + 1, reached * (1 + old)
    return count


def replay(rows: Iterable[Row]) -> dict[str, Account]:
    """Add up the rows, lineage by lineage."""
    accounts: dict[str, Account] = {}
    for row in rows:
        if row.kind in OF_A_LINEAGE:
            body = json.loads(row.body)
            name = body["lineage"]
            accounts[name] = accounts.get(name, Account(name)).after(row.kind, body)
    return accounts


def entries_of(rows: Iterable[Row]) -> list[Entry]:
    """List the draws, oldest first, each as far as it has come."""
    entries: dict[int, Entry] = {}
    for row in rows:
        body = json.loads(row.body)
        if row.kind == "reserved":
            epsilon, alpha = Fraction(body["epsilon"]), exact_values(body["alpha"])
            entries[row.number] = Entry(
                row.number,
                "reserved",
                body["lineage"],
                body["adjacency"],
                epsilon,
                alpha,
                body["spent"],
                None,
            )
        elif body.get("of") in entries:
            entries[body["of"]] = replace(
                entries[body["of"]], state=row.kind, digest=body.get("digest")
            )
    return list(entries.values())


def grows(account: Account, adjacency: Adjacency) -> bool:
    """Whether an adjacency differs from a budget's in larger distances alone."""
    fixed = account.adjacency
    if fixed is None or fixed.alpha.keys() != adjacency.alpha.keys():
        return False
    kept = (fixed.rule, fixed.family, fixed.published)
    return (
        kept == (adjacency.rule, adjacency.family, adjacency.published)
        and dict(fixed.alpha) != dict(adjacency.alpha)
        and all(adjacency.alpha[name] >= distance for name, distance in fixed.alpha.items())
    )


def check_same(account: Account, adjacency: Adjacency) -> None:
    """Refuse other parameters, another adjacency or α, or other published parameters than the
    budget's.
    """
    check_family(account, adjacency.family)
    fixed = account.adjacency
    assert fixed is not None
    if fixed.rule != adjacency.rule or dict(fixed.alpha) != dict(adjacency.alpha):
        alpha = ", ".join(f"{name} {value}" for name, value in fixed.alpha.items())
        raise LedgerError(
            f"The budget of {account.lineage!r} is fixed to adjacency {fixed.rule} with α = "
            f"{alpha}, for ever; α may only grow.",
            outcome=NOTHING_SPENT,
            remedy="Use them, or leave --adjacency and --alpha out. For larger α: gridveil ledger "
            f"budget {quote(account.lineage)} --alpha NAME=ALPHA --epsilon EPSILON, which "
            "counts past draws for them.",
        )
    if fixed.published != adjacency.published:
        raise LedgerError(
            f"What {account.lineage!r} publishes as it is was fixed by its first release or "
            f"budget, for ever: {', '.join(fixed.published) or 'nothing'}. To publish what was "
            "protected would undo that; to protect what was published would promise too much.",
            outcome=NOTHING_SPENT,
            remedy="Publish the same, or leave publish out of --treatments.",
        )


def check_family(account: Account | None, family: str) -> None:
    """Refuse to count two parametrisations of one grid in one account: their losses do not add up
    (docs/privacy.md).
    """
    fixed = account and account.adjacency
    if account is None or fixed is None or fixed.family == family:
        return
    raise LedgerError(
        f"The account of {account.lineage!r} counts parameters of the {fixed.family} family, for "
        f"ever, and this table has those of the {family} one. Neighbours of one kind are none of "
        "the other, so that what the two kinds of release tell does not simply add up.",
        outcome=NOTHING_SPENT,
        remedy=f"Release it as a {fixed.family} model again, from the same budget.",
    )


def adjacency_of(body: Mapping[str, Any]) -> Adjacency:
    """The adjacency of a row; one that names no family is of the swing family."""
    return Adjacency(
        body["adjacency"],
        exact_values(body["alpha"]),
        family=body.get("family", SWING),
        published=tuple(body.get("published", ())),
    )


def in_row(adjacency: Adjacency) -> dict[str, Any]:
    """An adjacency as a row has it."""
    row = {
        "adjacency": adjacency.rule,
        "alpha": {name: str(value) for name, value in adjacency.alpha.items()},
    }
    if adjacency.family == SWING:
        return row
    published = {"published": list(adjacency.published)} if adjacency.published else {}
    return {**row, "family": adjacency.family, **published}


def exact_values(values: Mapping[str, str]) -> dict[str, Fraction]:
    """Read fractions as they are stored."""
    return {name: _fraction(value) for name, value in values.items()}


@lru_cache(maxsize=256)
def _fraction(text: str) -> Fraction:
    # rows repeat a few, and to read one takes longer than the rest of its row
    return Fraction(text)
