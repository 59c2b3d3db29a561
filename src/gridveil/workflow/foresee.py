"""What a release would charge, draw and publish, found without doing any of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.facts import GridFacts, TableFacts
from gridveil.privacy.allocation import Allocation
from gridveil.privacy.guarantee import Guarantee
from gridveil.privacy.ledger import Account
from gridveil.privacy.mechanisms import Sampler
from gridveil.publication.release import detailed_names, inputs_of, loaded_buses, not_protected
from gridveil.publication.signing import active_key, key_folder, keys_in
from gridveil.vault.perturb import charge_of, guarantee_of
from gridveil.vault.sampler import SecureSampler
from gridveil.workflow.bounds import Chosen
from gridveil.workflow.release import Dialogue, Prepared, prepare
from gridveil.workflow.settings import ReleaseSettings


@dataclass(frozen=True, eq=False)
class Foreseen:
    """A release that was not made.

    chosen : its public bounds, and where they come from.
    guarantee : what each draw would promise.
    account : the lineage's before it; None: this release would open it, and fix its budget and α.
    ledger : its place; None: there is none yet.
    inputs, not_protected : what the certificate would declare.
    ports : of the model, in words; places : of the bundles.
    signed_by : the active key; None: nobody.
    """

    facts: TableFacts
    chosen: Chosen
    guarantee: Guarantee
    allocation: Allocation
    count: int
    lineage: str
    account: Account | None
    ledger: str | None
    inputs: Mapping[str, str]
    not_protected: tuple[str, ...]
    ports: str
    places: tuple[Path, ...]
    formats: tuple[str, ...]
    signed_by: str | None

    @property
    def cost(self) -> Fraction:
        """ε of all draws together."""
        return self.count * self.guarantee.epsilon


def foresee(
    settings: ReleaseSettings, dialogue: Dialogue | None = None, sampler: Sampler | None = None
) -> Foreseen:
    """Check a release as `release_grid` does, and say what it would charge, draw and publish.

    sampler : of the noise; one with a seed foresees a demo. None: the secure one.

    Privacy
    -------
    Nothing is drawn: all of it follows from settings and public facts.
    """
    sampler = sampler or SecureSampler()
    prepared = prepare(settings, _Trusting(dialogue or Dialogue()), dry=True, sampler=sampler)
    plan, book = prepared.plan, prepared.book
    facts, allocation = plan.source.facts, plan.allocation
    if book is not None:
        book.check(charge_of(plan, book, prepared.lineage), settings.count)
    guarantee = replace(
        guarantee_of(plan, sampler),
        conditional_on=tuple(record.observation.in_words() for record in prepared.measured),
    )
    loads = isinstance(facts, GridFacts) and facts.loads_are_public
    declared = {"load_model": facts.zip_model} if isinstance(facts, DetailedFacts) else {}
    inputs = inputs_of(
        facts, plan.bounds, allocation, loads=loads, merged=bool(prepared.ports), **declared
    )
    active = active_key(keys_in(key_folder()))
    return Foreseen(
        facts,
        prepared.chosen,
        guarantee,
        allocation,
        settings.count,
        prepared.lineage,
        prepared.known,
        book.location if book else None,
        inputs,
        not_protected(guarantee, inputs, loads=loads, fitted=bool(prepared.measured)),
        _ports(prepared),
        tuple(settings.places),
        settings.formats,
        active.id if active else None,
    )


class _Trusting(Dialogue):
    """Lets derived bounds pass: they are shown, and nothing is charged."""

    def __init__(self, other: Dialogue) -> None:
        self._other = other

    def notice(self, about: object, words: str) -> None:
        """Say it as the other does."""
        self._other.notice(about, words)  # pyright: ignore[reportArgumentType]

    def accepts(self, chosen: Chosen, facts: TableFacts) -> bool:
        """Yes."""
        del chosen, facts
        return True


def _ports(prepared: Prepared) -> str:
    """What the model would show of machines and loads."""
    facts, allocation = prepared.plan.source.facts, prepared.plan.allocation
    machines = len(facts.machines)
    if isinstance(facts, DetailedFacts):
        loads = len(detailed_names(facts)) - machines
    elif allocation.hides_network:
        loads = 1
    else:
        loads = len(prepared.ports) or len(loaded_buses(facts))
    return f"{machines} machines (G1 …) and {loads} ports of load (L1 …)"
