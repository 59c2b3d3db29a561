"""The sign-off writer of attacks on detailed releases: tables, JSON and a chart, all of it
confidential.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gridveil.assurance.owner_report.detailed import DetailedAssessment, ParameterRow
from gridveil.assurance.owner_report.signoff import (
    CONFIDENTIAL,
    MADE,
    Table,
    notes_on,
    percent,
)
from gridveil.foundation.chart import Series, chart
from gridveil.foundation.sealed import sealed
from gridveil.publication.release import Release
from gridveil.vault.source import Private

FLOOR = 1e-4  # a logarithmic axis has no 0
NOT_INVERTED = (
    "No attack here solves a reduced admittance for single lines, or uses records: that nobody "
    "tried does not mean that there is nothing to find."
)


@sealed
def detailed_notes(private: Private[DetailedAssessment], release: Release) -> list[str]:
    """What a reader of the figures must know."""
    moved = release.shown.moved_words if release.shown and release.shown.moved else ""
    said = [*notes_on(release, " No attack here uses {it}."), *Private.open(private).left_out]
    return [*said, *([moved] if moved else []), NOT_INVERTED]


@sealed
def detailed_json(private: Private[DetailedAssessment], release: Release) -> dict[str, Any]:
    """Figures of an assessment in JSON's types; no value of a single asset."""
    assessed = Private.open(private)
    return {
        "confidential": CONFIDENTIAL,
        "demo": release.demo,
        "fitted": release.fitted is not None,
        "notes": detailed_notes(private, release),
        "draws": {"made": MADE, "count": assessed.draws},
        "parameters": [asdict(row) for row in assessed.parameters],
        "model": [asdict(row) for row in assessed.model],
        "all_but_one": [asdict(row) for row in assessed.assets],
        "averaging": {"made": MADE, "rows": [asdict(row) for row in assessed.averaging]},
    }


@sealed
def detailed_tables(private: Private[DetailedAssessment]) -> list[Table]:
    """The same as tables: title, columns, rows; none where nothing was tried."""
    assessed = Private.open(private)
    tables: list[Table] = [
        (
            "what was drawn: the noise of one value beside a typical one",
            ("parameter", "drawn", "entries", "typical value (public)", "scale", "deviation"),
            [
                (
                    f"{row.name}, {row.title}",
                    row.drawn,
                    str(row.entries),
                    f"{row.typical:.4g} {row.unit}".removesuffix(" 1"),
                    f"{row.scale:.3g}{'' if row.absolute else ' of the logarithm'}",
                    _error(row.deviation, row),
                )
                for row in assessed.parameters
            ],
        ),
        (
            f"how near: median error of entries in the bundle and blind, of {assessed.draws} demo "
            "draws of what was drawn beside honest noise; share of these within α",
            (
                "parameter",
                "bundle",
                "blind",
                "noisy value",
                "honest noise",
                "within α",
                "99.9 % interval",
                "honest noise",
                "advantage, one entry",
            ),
            [
                (
                    row.name,
                    _error(row.bundle, row),
                    _error(row.blind, row),
                    _error(row.noisy, row),
                    _error(row.expected, row),
                    percent(row.within),
                    "–"
                    if row.low is None or row.high is None
                    else f"{100 * row.low:.1f} to {100 * row.high:.1f} %",
                    percent(row.theory),
                    f"{row.advantage:.3f}",
                )
                for row in assessed.parameters
            ],
        ),
        (
            "what the published model gives back: median relative error",
            ("attack", "against what was released", "against the truth", "blind"),
            [
                (
                    row.what,
                    "it is that" if row.released is None else percent(row.released),
                    percent(row.truth),
                    percent(row.blind),
                )
                for row in assessed.model
            ],
        ),
        (
            "all but one: advantage of the best test where a whole asset differs",
            ("asset", "what differs by α", "draws that show it", "advantage", "tanh(ε/2)"),
            [
                (
                    row.asset,
                    row.moved,
                    str(row.draws),
                    f"{row.advantage:.3f} ({'exact' if row.exact else 'simulated, ± 0.002'})",
                    f"{row.bound:.3f}",
                )
                for row in assessed.assets
            ],
        ),
        (
            f"several releases averaged, {MADE}: median error, and after the stroke that of one "
            "release at that ε",
            (
                "parameter",
                *(f"{row.releases}: ε = {row.epsilon:g}" for row in assessed.averaging),
            ),
            [
                (
                    own.name,
                    *(
                        " / ".join(_error(by[own.name], own) for by in (row.averaged, row.single))
                        for row in assessed.averaging
                    ),
                )
                for own in (assessed.parameters if assessed.averaging else ())
            ],
        ),
    ]
    return [table for table in tables if table[2]]


def _error(value: float | None, row: ParameterRow) -> str:
    """An error as a share, or in the unit of what is counted in it."""
    return percent(value) if value is None or not row.absolute else f"{value:.3g}"


@sealed
def detailed_charts(private: Private[DetailedAssessment]) -> list[str]:
    """Median errors of every drawn parameter, as a chart for a page."""
    assessed = Private.open(private)
    rows = [row for row in assessed.parameters if not row.absolute]
    looks = (
        ("blind", "simple", "blind guess of an entry"),
        ("bundle", "release", "entry in the bundle"),
        ("noisy", "control", "noisy value of what was drawn"),
    )
    series = []
    for name, look, words in looks:
        known = [(n, getattr(row, name)) for n, row in enumerate(rows)]
        known = [(n, 100 * max(value, FLOOR)) for n, value in known if value is not None]
        if known:
            places, values = zip(*known, strict=True)
            series.append(Series(words, look, values, places, dots=True))
    if not series:
        return []
    words = "median relative error [%]"
    title, names = "How near to the truth", [row.name for row in rows]
    return [chart(title, series, x=words, y="parameter", rows=names, log=True)]
