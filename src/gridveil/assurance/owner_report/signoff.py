"""The sign-off writer: the only code that opens what `assess` found, for the owner.

All it writes is marked confidential.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from gridveil.assurance.owner_report.assess import Assessment, LineScore
from gridveil.foundation.drawing import (
    FITTED,
    NOISY,
    SOURCE,
    labelled,
    mark_level,
    new_figure,
    plain_ticks,
)
from gridveil.foundation.sealed import sealed
from gridveil.foundation.shown import json_file
from gridveil.grid.parameters import released
from gridveil.publication.release import Release
from gridveil.vault.source import Private

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


@sealed
def attack_files(
    private: Private[Assessment],
    release: Release,
    extra: dict[str, Any],
    tables: Sequence[Table],
    about: str,
) -> dict[str, bytes]:
    """The files of a report: JSON, a page and figures. extra, tables : what comes from elsewhere,
    to stand in them too.

    about : which bundle it is of, in a sentence.
    """
    document = attack_json(private, release) | extra
    every = (*attack_tables(private), *tables)
    files = page_files(about, attack_notes(private, release), every, document)
    assessed = Private.open(private)
    figures = {
        "guesses.png": _guesses(assessed),
        "epsilon.png": _over_epsilon(assessed),
        "averaging.png": _over_releases(assessed),
    }
    return files | {name: drawn(figure) for name, figure in figures.items()}


def page_files(
    about: str, notes: Sequence[str], tables: Sequence[Table], document: dict[str, Any]
) -> dict[str, bytes]:
    """A report as a page and as JSON."""
    page = [f"# Attacks on a release\n\n**{CONFIDENTIAL}**\n", f"{about}\n"]
    page += [f"{note}\n" for note in notes]
    for title, columns, rows in tables:
        lines = [
            " | ".join(columns),
            "|".join(["---"] * len(columns)),
            *(" | ".join(row) for row in rows),
        ]
        page.append(f"## {title}\n\n" + "\n".join(f"| {line} |" for line in lines) + "\n")
    return {"attack.json": json_file(document), "attack.md": "\n".join(page).encode()}


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


def _guesses(assessed: Assessment) -> Figure:
    figure, (plain, release) = new_figure(8.6, 4.4, columns=2, sharex=True, sharey=True)
    ends = np.array([assessed.truth.min() * 0.8, assessed.truth.max() * 1.25])
    for axes, guess, title in (
        (plain, assessed.plain_guess, "plain Kron reduction"),
        (release, assessed.release_guess, "release"),
    ):
        axes.plot(ends, ends, color="#888888", linewidth=0.9, label="the truth")
        whose = "attacker's guess" if assessed.tried else "blind guess: too many lines to attack"
        colour = SOURCE if axes is plain else FITTED
        axes.loglog(assessed.truth, guess, "o", color=colour, markersize=4, label=whose)
        axes.set_title(title, fontsize=9)
        labelled(axes, "true k [p.u. power / rad]")
        axes.legend(fontsize=8, frameon=False)
        plain_ticks(axes.xaxis)
        plain_ticks(axes.yaxis)
    labelled(plain, y="guessed k [p.u. power / rad]")
    return figure


def _over_epsilon(assessed: Assessment) -> Figure:
    figure, (hits, errors) = new_figure(8.6, 3.8, columns=2)
    epsilon = np.array([row.epsilon for row in assessed.by_epsilon])
    known = [row for row in assessed.by_epsilon if row.noisy is not None]
    if known:
        at = [row.epsilon for row in known]
        share = np.array([row.noisy for row in known], dtype=float)
        reach = np.array([(row.high or 0.0) - (row.noisy or 0.0) for row in known])
        style: dict[str, Any] = {"fmt": "o", "color": NOISY, "markersize": 4, "capsize": 3}
        hits.errorbar(at, 100 * share, 100 * reach, label="noisy value", **style)
        expected = [100 * (row.expected or 0) for row in known]
        hits.plot(at, expected, color=NOISY, linewidth=1, label="1 − e^(−ε_k)")
        best = [100 * (row.best or 0) for row in known]
        hits.plot(at, best, "s-", color=FITTED, markersize=4, label="best attack, all lines")
    if assessed.blind.hit_alpha is not None:
        mark_level(hits, 100 * assessed.blind.hit_alpha / assessed.lines, "blind")
    labelled(hits, y="lines within α of the truth [%]")
    of_lines = [row.error_k for row in assessed.by_epsilon if row.error_k is not None]
    if len(of_lines) == len(epsilon):
        percent = 100 * np.array(of_lines)
        errors.loglog(epsilon, percent, "s-", color=FITTED, markersize=4, label="k, best attack")
    percent = [100 * row.error_m for row in assessed.by_epsilon]
    words = f"{assessed.averaged}, released"
    errors.loglog(epsilon, percent, "o-", color=NOISY, markersize=4, label=words)
    labelled(errors, y="median relative error [%]")
    hits.set_xscale("log")
    plain_ticks(errors.yaxis)
    _finish((hits, errors), "ε")
    return _demo(figure)


def _over_releases(assessed: Assessment) -> Figure:
    figure, (axes,) = new_figure(5.4, 3.8)
    epsilon = [row.epsilon for row in assessed.averaging]
    errors = [100 * row.error_m for row in assessed.averaging]
    axes.loglog(epsilon, errors, "o-", color=SOURCE, label=f"{assessed.averaged}, averaged")
    if all(row.error_k is not None for row in assessed.averaging):
        errors = [100 * (row.error_k or 0.0) for row in assessed.averaging]
        axes.loglog(epsilon, errors, "s-", color=FITTED, label="k of fixed lines, averaged")
    single = [100 * row.single_m for row in assessed.averaging]
    axes.loglog(
        epsilon, single, "^--", color=NOISY, label=f"{assessed.averaged}, one release of that ε"
    )
    mark_level(axes, 100 * assessed.blind_m, f"{assessed.averaged}, blind")
    labelled(axes, y="median relative error [%]")
    plain_ticks(axes.yaxis)
    _finish((axes,), "total ε of the ledger")
    return _demo(figure)


def _finish(axes: Sequence[Axes], label: str) -> None:
    for panel in axes:
        labelled(panel, label)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize=8, frameon=False)
        else:
            panel.set_title("nothing was drawn of the lines", fontsize=9)
        plain_ticks(panel.xaxis)


def _demo(figure: Figure) -> Figure:
    figure.supxlabel("seeded demo draws", fontsize=8, color="#888888", x=0.99, ha="right")
    return figure


def drawn(figure: Figure) -> bytes:
    """A figure as PNG, marked confidential."""
    figure.suptitle("CONFIDENTIAL: shows the private grid", fontsize=9, color=SOURCE)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=160, metadata={"Software": None})
    return data.getvalue()
