"""The sign-off writer of attacks: the only code that opens what `assess` found, for the owner.

All it gives is marked confidential.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gridveil.assurance.owner_report.assess import Assessment, LineScore
from gridveil.foundation.chart import Series, chart
from gridveil.foundation.sealed import sealed
from gridveil.grid.parameters import released
from gridveil.publication.release import Release
from gridveil.vault.source import Private

CONFIDENTIAL = (
    "CONFIDENTIAL: compares with the private grid. Not covered by any ε; do not publish "
    "it or anything chosen by it."
)
DEMO = (
    "DEMO: the bundle was made with a seed and protects nothing; these figures show what a real "
    "one like it would give."
)
DEMO_OF_ITSELF = (
    "DEMO: the bundle was made with a seed and protects nothing, and its fit used a trajectory "
    "simulated from the source itself, which a real release refuses: a real release would not give "
    "these figures."
)
MADE = "from seeded demo draws of the grid, which are kept nowhere"

Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]


@sealed
def attack_notes(private: Private[Assessment], release: Release) -> list[str]:
    """What a reader of the figures must know: a demo, a fit that no attack uses, attacks left out,
    a bundle in doubt.
    """
    assessed = Private.open(private)
    unused = (
        "" if assessed.with_records else " No attack here uses {it}: give {it} with --trajectory."
    )
    return [*notes_on(release, unused), *assessed.left_out, *assessed.doubts]


def notes_on(release: Release, unused: str) -> list[str]:
    """What to know of a bundle: that it is a demo, or was fitted.

    unused : a sentence about {it}, the records, where no attack uses them.
    """
    of_itself = any(record.origin == "simulated" for record in release.provenance)
    said = [DEMO_OF_ITSELF if of_itself else DEMO] if release.demo else []
    if release.fitted:
        records, it = (
            ("trajectories", "them") if len(release.provenance) > 1 else ("a trajectory", "it")
        )
        verdict = release.fitted.verdict
        if verdict and verdict.discarded:
            said.append(
                f"The bundle's fit to {records} was discarded: it carries the unfitted model."
            )
        else:
            said.append(
                f"The bundle was fitted to {records}. What is attacked is the fitted model, whose "
                "values are not the noisy ones alone; figures over ε and of several releases come "
                f"from releases without a fit.{unused.format(it=it)}"
            )
        if verdict and verdict.reasons:
            said.append(f"Verdict on the fit: {verdict.in_words()}. {'; '.join(verdict.reasons)}.")
    return said


@sealed
def attack_json(private: Private[Assessment], release: Release) -> dict[str, Any]:
    """Figures of an assessment in JSON's types; no value of a single line or machine."""
    assessed = Private.open(private)
    return {
        "confidential": CONFIDENTIAL,
        "demo": release.demo,
        "fitted": release.fitted is not None,
        "notes": attack_notes(private, release),
        "doubts": list(assessed.doubts),
        "lines": assessed.lines,
        "alpha": assessed.alpha,
        "line_attacks": [asdict(row) for row in assessed.rows],
        "blind": asdict(assessed.blind),
        "topology": [asdict(row) for row in assessed.topology],
        "edges": assessed.edges,
        "edges_counted": assessed.counted,
        "machines": [asdict(row) for row in assessed.machines],
        "by_epsilon": {"made": MADE, "rows": [asdict(row) for row in assessed.by_epsilon]},
        "averaging": {
            "made": MADE,
            "of": assessed.averaged,
            "blind": assessed.blind_m,
            "rows": [asdict(row) for row in assessed.averaging],
        },
        "with_trajectories": [
            {"attacker_has": row.attacker_has, **row.errors} for row in assessed.with_records
        ],
    }


@sealed
def attack_tables(private: Private[Assessment]) -> list[Table]:
    """The same as tables: title, columns, rows; none where nothing was tried."""
    assessed = Private.open(private)
    n = assessed.lines
    within = f" / within α ({assessed.alpha})" if assessed.alpha else ""
    tables: list[Table] = [
        (
            f"lines: of {n}, so many within 1 % of the truth{within} / median error; in brackets, "
            "rank of the Jacobian and lines fixed",
            ("attack", "plain Kron", "release", "blind"),
            [
                (
                    row.attack,
                    _score(row.plain, n),
                    _score(row.release, n),
                    _score(assessed.blind, n),
                )
                for row in assessed.rows
            ],
        ),
        (
            f"edges, topology unknown: F1 is of the {assessed.counted} of {assessed.edges} between "
            "machines and loaded buses",
            ("model", "ports", "guessed", "F1", "blind F1", "buses shown to share a cut vertex"),
            [
                (
                    row.model,
                    str(row.ports),
                    str(row.guessed),
                    f"{row.f1:.2f}",
                    f"{row.blind_f1:.2f}",
                    str(row.behind_cut),
                )
                for row in assessed.topology
            ],
        ),
        (
            "machines: median relative error",
            ("group", "plain Kron", "release", "blind"),
            [
                (row.group, "0.0 %", percent(row.release), percent(row.blind))
                for row in assessed.machines
            ],
        ),
        (
            f"over ε, {MADE}: share of lines within α of the truth",
            (
                "ε",
                "noisy value",
                "99.9 % interval",
                "1 − e^(−ε_k)",
                "best attack",
                "its error in k",
                "error in " + assessed.averaged,
            ),
            [
                (
                    f"{row.epsilon:g}",
                    percent(row.noisy),
                    ""
                    if row.low is None or row.high is None
                    else f"{100 * row.low:.1f} to {100 * row.high:.1f} %",
                    percent(row.expected),
                    percent(row.best),
                    percent(row.error_k),
                    percent(row.error_m),
                )
                for row in assessed.by_epsilon
            ],
        ),
        (
            f"several releases averaged, {MADE}: median relative error (blind: "
            f"{percent(assessed.blind_m)} of {assessed.averaged})",
            (
                "releases",
                "ε of the ledger",
                assessed.averaged,
                "k of fixed lines",
                f"{assessed.averaged} of one release at that ε",
            ),
            [
                (
                    str(row.releases),
                    f"{row.epsilon:g}",
                    percent(row.error_m),
                    percent(row.error_k),
                    percent(row.single_m),
                )
                for row in assessed.averaging
            ],
        ),
        (
            "with public trajectories, topology and bounds: median relative error",
            ("an attacker has", *released()),
            [
                (row.attacker_has, *map(percent, row.errors.values()))
                for row in assessed.with_records
            ],
        ),
    ]
    return [table for table in tables if table[2]]


def _score(score: LineScore | None, lines: int) -> str:
    if score is None:
        return "–"
    alpha = "" if score.hit_alpha is None else f" / {score.hit_alpha}"
    ranks = "" if score.rank is None else f"  [{score.rank}; {score.fixed}]"
    return f"{score.hit_1}{alpha} / {percent(score.error)}{ranks}" if lines else "–"


def percent(share: float | None) -> str:
    """A share in per cent, – where there is none."""
    return (
        "–"
        if share is None
        else f"{100 * share:.1f} %"
        if share >= 5e-4 or share == 0
        else f"{100 * share:.0e} %"
    )


@sealed
def attack_charts(private: Private[Assessment]) -> list[str]:
    """Guessed against true line weights, and errors over the ledger's ε, as charts for a page."""
    assessed = Private.open(private)
    charts = []
    if assessed.tried:
        ends = [float(assessed.truth.min()), float(assessed.truth.max())]
        guesses = [
            Series("the truth", "truth", ends, ends),
            Series(
                "guessed, plain Kron reduction",
                "control",
                assessed.truth,
                assessed.plain_guess,
                dots=True,
            ),
            Series(
                "guessed, this release", "release", assessed.truth, assessed.release_guess, True
            ),
        ]
        unit = "[p.u. power / rad]"
        charts.append(
            chart("Line weights won back", guesses, x=f"true k {unit}", y=f"guess {unit}", log=True)
        )
    epsilon = [row.epsilon for row in assessed.averaging]
    of = assessed.averaged
    errors = [
        Series(
            f"{of}, releases averaged",
            "release",
            epsilon,
            [100 * row.error_m for row in assessed.averaging],
        ),
        Series(
            f"{of}, one release of that ε",
            "control",
            epsilon,
            [100 * row.single_m for row in assessed.averaging],
        ),
        Series(f"{of}, blind guess", "simple", epsilon, [100 * assessed.blind_m] * len(epsilon)),
    ]
    return [
        *charts,
        chart(
            "Several releases together (seeded demo draws)",
            errors,
            x="total ε of the ledger",
            y="median error [%]",
            log=True,
        ),
    ]
