"""All attacks on a release of either family, for the owner: what `gridveil attack` prints and the
sign-off report holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log
from typing import Any

from gridveil.assurance.audit import Advantage, measure_advantage
from gridveil.assurance.audit.run import values_for_advantage
from gridveil.assurance.owner_report.assess import assess_attacks, check_matches, steps
from gridveil.assurance.owner_report.detailed import assess_detailed, check_same, detailed_steps
from gridveil.assurance.owner_report.signoff import (
    Table,
    attack_charts,
    attack_json,
    attack_notes,
    attack_tables,
)
from gridveil.assurance.owner_report.signoff_detailed import (
    detailed_charts,
    detailed_json,
    detailed_notes,
    detailed_tables,
)
from gridveil.dynamics.kron import reduced_model
from gridveil.foundation.errors import OptionError
from gridveil.foundation.progress import counted
from gridveil.foundation.sealed import sealed
from gridveil.grid.facts import GridFacts
from gridveil.grid.parameters import SWING
from gridveil.inference.fit import Observation
from gridveil.inference.fit.two_stage import TWO_STAGE_UP_TO, is_too_large
from gridveil.publication.release import Release
from gridveil.vault.source import Private, SourceGrid

ADVANTAGE_DRAWS = 20_000
# Deviations of the noise: e^-28 of Laplace draws are further off.
UNLIKELY = 20
NOT_ATTACKED = "Nothing was attacked and nothing was written."


@dataclass(frozen=True)
class AttackReport:
    """What attacks came to. CONFIDENTIAL: it compares with the private grid.

    document : in JSON's types.
    charts : for a page.
    """

    document: dict[str, Any]
    notes: list[str]
    tables: list[Table]
    charts: list[str]


@sealed
def check_attackable(
    source: SourceGrid[Any], release: Release, *, with_records: bool = False
) -> None:
    """Refuse a bundle that cannot be of the grid, and records that no attack uses, before any
    attack.
    """
    if release.guarantee.family != SWING:
        if with_records:
            raise OptionError(
                "Trajectories are attacked beside swing bundles, and this one is detailed.",
                outcome=NOT_ATTACKED,
                remedy="Leave --trajectory out.",
            )
        check_same(source, release)
        return
    check_matches(source, release)
    facts: GridFacts = source.facts
    if with_records and is_too_large(facts):
        raise OptionError(
            f"Trajectories are not attacked on a grid of {len(facts.machines)} machines.",
            expected=f"at most {TWO_STAGE_UP_TO}, and fewer where all are joined",
            outcome=NOT_ATTACKED,
            remedy="Leave --trajectory out.",
        )


@sealed
def attack_release(
    source: SourceGrid[Any],
    release: Release,
    observed: Sequence[Observation] = (),
    *,
    seed: int = 1,
) -> AttackReport:
    """Try every attack on a release of a grid. `check_attackable` comes before.

    observed : public records that an attacker has, beside a swing release.

    Privacy
    -------
    For the owner alone: it compares with the truth, and no ε covers it.
    """
    if release.guarantee.family != SWING:
        with counted("attacking", detailed_steps()) as more:
            found = assess_detailed(
                source, release, seed=seed, progress=lambda name: more(at_work=name)
            )
        return AttackReport(
            detailed_json(found, release),
            detailed_notes(found, release),
            detailed_tables(found),
            detailed_charts(found),
        )
    guarantee = release.guarantee
    with counted("attacking", steps(source, observed) + 1) as more:
        assessed = assess_attacks(
            source, release, observed, seed=seed, progress=lambda name: more(at_work=name)
        )
        values = values_for_advantage(ADVANTAGE_DRAWS)
        more(at_work=f"all but one: {values} values of perturb")
        # on synthetic grids, with the release's rule, α and ε
        rows = measure_advantage(guarantee.adjacency, guarantee.epsilon, ADVANTAGE_DRAWS)
    unlike = _unlike(source, release)
    played = [asdict(row) | {"epsilon": str(row.epsilon), "passed": row.passed} for row in rows]
    return AttackReport(
        attack_json(assessed, release) | {"all_but_one": played, "unlike": unlike},
        [*attack_notes(assessed, release), *unlike],
        [*attack_tables(assessed), _advantage_table(rows)],
        attack_charts(assessed),
    )


@sealed
def _unlike(source: SourceGrid[GridFacts], release: Release) -> list[str]:
    """Say of which machines' values the sum is further from the grid's own than noise explains: the
    grid was read with other options than it was released with, or is another. Nothing of a fit.
    """
    if release.fitted and not (release.fitted.verdict and release.fitted.verdict.discarded):
        return []
    values = {name: Private.open(private) for name, private in source.values.items()}
    released, said = release.swing.of_machines, list[str]()
    for name, own in reduced_model(source.facts, values).of_machines.items():
        loss, n = release.guarantee.groups.get(name), len(own)
        if loss is None:
            continue
        total, seen = float(own.sum()), float(released[name].sum())
        # a sum is off as a whole; items each, and those on a bound all one way
        count = 1 if loss.relative or loss.mechanism.takes == "sum" else n
        off = abs(log(seen / total)) if loss.relative else abs(seen - total)
        if off > UNLIKELY * count * loss.noise.deviation * loss.scale:
            said.append(
                f"The bundle's Σ{name} is further from the grid's own than its noise explains: was "
                "the grid read with the options (--inertia, --damping, …) that it was released "
                "with? If not, do not rely on what compares with the grid."
            )
    return said


def _advantage_table(rows: Sequence[Advantage]) -> Table:
    return (
        "all but one: advantage of the best test on perturb's output (synthetic grids, every item "
        "drawn, usual shares of ε)",
        ("what differs by α", "draws", "measured", "99.9 % interval", "exact", "tanh(ε/2)"),
        [
            (
                row.moved,
                str(row.draws),
                f"{row.measured:.3f}",
                f"{row.low:.3f} to {row.high:.3f}",
                f"{row.exact:.3f}",
                f"{row.bound:.3f}",
            )
            for row in rows
        ],
    )
