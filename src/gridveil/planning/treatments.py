"""Treatments of detailed tables that a plan tries: public choices, none of which sees a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from gridveil.dynamics.detailed.entries import ENTRIES, ITEM_SHARE, Treatment
from gridveil.grid.detailed import DetailedFacts
from gridveil.grid.parameters import Asset

GOVERNORS = ("gov_gain", "gov_servo", "gov_lag", "gov_fast")
# Shares of a machine's items that are tried beside the usual one.
ITEM_SHARES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 5))


@dataclass(frozen=True)
class Candidate:
    """A table of treatments that may suit.

    treatments, item_shares : where they are not the usual ones, as `release` takes them.
    """

    name: str
    treatments: Mapping[str, Treatment] = field(default_factory=dict)
    item_shares: Mapping[Asset, Fraction] = field(default_factory=dict)

    @property
    def options(self) -> tuple[str, ...]:
        """What a release command says for it."""
        pairs = {"--treatments": self.treatments, "--split": self.item_shares}
        return tuple(
            f"{option} {','.join(f'{name}={value}' for name, value in said.items())}"
            for option, said in pairs.items()
            if said
        )

    @property
    def toml(self) -> str:
        """The same in a release.toml."""
        lines = [f'split = "{",".join(f"{n}={v}" for n, v in self.item_shares.items())}"']
        table = ["[treatments]", *(f'{name} = "{way}"' for name, way in self.treatments.items())]
        return "\n".join((lines if self.item_shares else []) + (table if self.treatments else []))


# What is set, and for which parameters. Nothing is ever proposed to be published: whether values
# are public already is no matter of errors.
_VARIANTS: Mapping[str, tuple[Treatment, tuple[str, ...]]] = {
    "governors as items": ("protect", GOVERNORS),
    "voltage control typical": (
        "typical",
        ("x_machine", "avr_gain", "avr_feedback", "pss_gain"),
    ),
    "machines by means": ("mean", ("p_gen", "M")),
    "lines typical": ("typical", ("x", "b_ratio")),
    "loads by their means": ("mean", ("p_load", "q_ratio")),
}


def candidates(facts: DetailedFacts, *, jointly: bool) -> list[Candidate]:
    """List the treatments to try on a grid of these facts, the usual ones first.

    jointly : whether items and means of an asset share its ε.
    """
    here = facts.parameters
    tried = [Candidate("usual")]
    for name, (treatment, parameters) in _VARIANTS.items():
        changed: dict[str, Treatment] = {
            parameter: treatment
            for parameter in parameters
            if parameter in here and ENTRIES[parameter].treatment != treatment
        }
        tried += [Candidate(name, changed)] if changed else []
    machine = {ENTRIES[name].treatment for name in here if here[name].asset == "machine"}
    if jointly and {"protect", "mean"} <= machine:
        tried += [
            Candidate(f"machines' items {share} of ε", item_shares={"machine": share})
            for share in ITEM_SHARES
            if share != ITEM_SHARE["machine"]
        ]
    return tried
