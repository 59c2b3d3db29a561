"""The sign-off report as a page: made of its document's figures, so that both say the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from gridveil.assurance.owner_report.fidelity import PUBLIC, RELEASE, SIMPLEST
from gridveil.assurance.owner_report.signoff import Table
from gridveil.foundation.chart import CHART_STYLE
from gridveil.foundation.page import standalone, text

MINUS = re.compile(r"(?<!\w)-(?=\d)")
SHORT = "CONFIDENTIAL: for the owner of the grid alone"
GRADES = {"good": "in order", "doubtful": "look", "bad": "stop"}
SHORTEST = 36  # characters of a row's name that stays on one line
COMPARED = ("release", "no release", "one machine")
MANY_COLUMNS = 6  # of a table that stands closer, and whose figures may wrap
FEW_ROWS = 25  # of a table that is printed on one page
SAW = '<span class="mark saw">saw the grid: no ε covers it</span>'
OPEN = '<span class="mark">public facts only</span>'

STYLE = """
.secret { position: sticky; top: 0; z-index: 1; background: var(--red); color: var(--paper); font-weight: 700; text-align: center; padding: 0.35rem 0.75rem; }
.verdict { border-left: 0.4rem solid currentColor; padding: 0.25rem 0 0.25rem 0.9rem; font-size: 1.25rem; font-weight: 600; max-width: none; }
h2 { display: flex; flex-wrap: wrap; gap: 0 0.5rem; align-items: center; } h2 .mark { font-weight: 400; }
.saw { color: var(--red); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0 2rem; }
.wide { margin: 0.5rem 0; } .mark { white-space: nowrap; } th { vertical-align: bottom; }
@container (min-width: 36rem) { th, td { padding-right: 1.5rem; } td.number, .short td:first-child, td code { white-space: nowrap; } .many :is(th, td) { padding-right: 0.75rem; } .many td.number { white-space: normal; } }
.over { font-weight: 600; margin: 1rem 0 0.25rem; max-width: none; break-after: avoid; }
.sum td { font-weight: 600; }
.warning { border: 2px solid var(--red); border-radius: 0.5rem; padding: 0.5rem 1rem; margin: 1rem 0; }
.sign { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 16rem), 1fr)); gap: 1rem; }
.sign fieldset { border: 1px solid var(--line); border-radius: 0.5rem; padding: 0.5rem 1rem 1rem; }
.sign input { width: 100%; } .sign .ink { border-bottom: 1px solid var(--quiet); height: 3rem; }
@page { size: A4; margin: 14mm 14mm 16mm; @bottom-right { content: counter(page) " / " counter(pages); font: 9pt sans-serif; } @bottom-left { content: "CONFIDENTIAL"; font: bold 9pt sans-serif; } }
@media print {
  html { font-size: 10pt; }
  .sheet { display: table; width: 100%; }
  .secret { display: table-header-group; break-inside: avoid; position: static; background: none; color: var(--red); }
  .secret span { display: block; border: 1.5pt solid currentColor; padding: 1mm; margin-bottom: 4mm; }
  main { display: table-row-group; }
  table { font-size: 8pt; } th, td { padding-right: 0.75rem; } td.number, .short td:first-child, td code { white-space: nowrap; }
  .wide { break-inside: avoid; } .long, .long table { break-inside: auto; } tr { break-inside: avoid; } thead { display: table-header-group; }
  .charts { grid-template-columns: 1fr 1fr; gap: 0 6mm; break-inside: avoid; } .chart:only-child { grid-column: 1 / -1; max-width: 120mm; }
  .signing { break-inside: avoid; } .sign { grid-template-columns: 1fr 1fr; }
  .sign input { border: none; border-bottom: 1px solid #000000; border-radius: 0; }
}
"""  # noqa: E501


def page(
    document: dict[str, Any],
    notes: Sequence[str],
    attacks: Sequence[Table],
    attack_charts: Sequence[str],
    event_charts: Sequence[str],
) -> str:
    """Write the page; notes, attacks and charts : what attacks and events came to, made for it."""
    name = document["leaves"]["name"]
    body = [
        '<div class="sheet">',
        f'<header class="secret"><span>{text(SHORT)}</span></header>',
        "<main>",
        f"<h1>Sign-off of the release {text(name)}</h1>",
        f'<p class="quiet">Written on {text(document["written"])} by gridveil '
        f"{text(document['gridveil'])}. {text(document['confidential'])}</p>",
        *_verdict(document),
        *_budget(document["budget"]),
        *_epsilon(document),
        *_guarantee(document),
        *_listed("Not protected", document["not_protected"]),
        *_records(document["records"]),
        *_fit(document["fit"]),
        *_attacks(notes, attacks, attack_charts),
        *_fidelity(document["fidelity"], event_charts),
        *_clipped(document["epsilon"]["groups"]),
        *_files(document["leaves"]),
        *_signing(document),
        "</main></div>",
    ]
    return standalone(f"Sign-off: {name}", "\n".join(body), style=CHART_STYLE + STYLE)


# --- public facts ---------------------------------------------------------------------------------


def _verdict(document: dict[str, Any]) -> Iterable[str]:
    verdict, leaves = document["verdict"], document["leaves"]
    if document["demo"]:
        words = "A seed made this bundle: it protects nothing."
        yield f'<p class="warning bad"><strong>DEMO.</strong> {words}</p>'
    yield f'<p class="verdict {verdict["grade"]}">{text(verdict["words"])}</p>'
    size = sum(file["bytes"] for file in leaves["files"])
    kind = "detailed model" if leaves["family"] != "swing" else "swing model"
    words = (
        f"What leaves: {len(leaves['files'])} files, {size / 1000:.0f} kB: a {kind} of "
        f"{leaves['machines']} machines, with {leaves['ports_for_load']} "
        f"{'port' if leaves['ports_for_load'] == 1 else 'ports'} for load"
    )
    if leaves["members"]:
        words += f" and {leaves['members']} models for error bars"
    if leaves["exports"]:
        words += f"; beside it, files for {', '.join(leaves['exports'])}"
    words += ". The bundle’s SHA-256 is"
    yield f"<p>{text(words)} <code>{leaves['digest']}</code>.</p>"
    rows = [(one["point"], _Graded(one["grade"]), one["words"]) for one in verdict["checks"]]
    yield _table("Checks, by public facts alone", ("point", "", "what was found"), rows)
    yield f'<p class="warning">{text(document["selection"]["words"])}</p>'


def _budget(budget: dict[str, Any]) -> Iterable[str]:
    yield f"<h2>Budget{OPEN}</h2>"
    yield f"<p>{text(budget['words'])}</p>"
    if "after" not in budget:
        return
    rows = [("budget of the account", budget["epsilon"])]
    if budget["known"]:
        rows.append(("spent before this release", _six(budget["before"])))
    rows.append(("charged for this release", _six(budget["charged"])))
    rows.append(("spent with this release", _six(budget["after"])))
    if budget["known"]:
        draws = "one draw" if budget["draws"] == 1 else f"{budget['draws']} draws"
        rows.append((f"spent now, {draws} in all", _six(budget["now"])))
        rows.append(("left now", _six(budget["left"])))
    yield _table("Account", ("", "ε"), rows, numbers={1})


def _epsilon(document: dict[str, Any]) -> Iterable[str]:
    epsilon = document["epsilon"]
    yield f"<h2>ε of each group, and of all{OPEN}</h2>"
    columns = ("group", "drawn", "α", "ε asked", "ε charged")
    rows = [
        (
            f"{row['group']}, {row['title']}",
            row["drawn"],
            row["alpha"],
            row["epsilon"],
            _six(row["charged"]),
        )
        for row in epsilon["groups"]
    ]
    joint = epsilon["joint"]
    rows.append((f"all, {joint['adjacency']}", "", "", joint["asked"], _six(joint["charged"])))
    yield _table("Privacy loss", columns, rows, numbers={3, 4}, last="sum")
    if epsilon["published"]:
        words = f"Published as they are, without noise: {', '.join(epsilon['published'])}."
        yield f"<p>{text(words)}</p>"
    yield f'<p class="quiet">{text("Mechanism: " + joint["mechanism"])}</p>'


def _guarantee(document: dict[str, Any]) -> Iterable[str]:
    yield f"<h2>The guarantee, and its noise{OPEN}</h2>"
    yield f"<p>{text(document['guarantee']['words'])}</p>"
    conditions = document["guarantee"]["conditional_on"]
    if conditions:
        yield f"<p>Conditional on: {text('; '.join(conditions))}.</p>"
    rows = [
        (
            f"{row['group']}, {row['title']}",
            f"{row['typical']:.4g} {row['unit']}".removesuffix(" 1"),
            row["scale"],
            _percent(row["deviation_percent"]),
        )
        for row in document["epsilon"]["groups"]
    ]
    columns = ("drawn", "typical value (public)", "scale of the noise", "deviation of the noise")
    yield _table("Noise beside typical values, which are public ones", columns, rows, numbers={3})


def _records(records: dict[str, Any]) -> Iterable[str]:
    yield f"<h2>Trajectories: where they come from, what they give away{OPEN}</h2>"
    if records["provenance"]:
        yield _items(records["provenance"])
    yield f"<p>{text(records['words'])}</p>"
    if records["leakage"] is None:
        return
    rows = [
        (
            row["group"],
            *(_percent(100 * row[name]) for name in ("by_bounds", "typical", "best")),
        )
        for row in records["table"]
    ]
    columns = ("group", "public bounds alone", "with the records", "best known entry")
    title = "Relative deviation that is left to who knows the records, topology and total load"
    yield _table(title, columns, rows, numbers={1, 2, 3})


def _fit(fit: dict[str, Any] | None) -> Iterable[str]:
    yield f"<h2>The fit guard’s verdict{OPEN}</h2>"
    if fit is None:
        yield "<p>Nothing was fitted: there is no fit to judge.</p>"
        return
    grade = fit["grade"] or "doubtful"
    look = {"good": "good", "doubtful": "doubtful"}.get(grade, "bad")
    yield f'<p class="{look}"><strong>{text(fit["words"])}</strong></p>'
    if fit["reasons"]:
        yield _items(fit["reasons"])
    rows = [tuple(row) for row in fit["left_mhz"]["rows"]]
    if rows:
        columns = fit["left_mhz"]["columns"]
        last = set(range(len(columns)))
        yield _table(
            "What models leave of the records, root mean square [mHz]", columns, rows, numbers=last
        )


# --- what saw the grid ----------------------------------------------------------------------------


def _attacks(notes: Sequence[str], tables: Sequence[Table], charts: Sequence[str]) -> Iterable[str]:
    yield f"<h2>Attacks on this release{SAW}</h2>"
    if notes:
        yield _items(notes)
    yield f'<div class="charts">{"".join(charts)}</div>'
    for title, columns, rows in tables:
        figures = {place for place in range(1, len(columns)) if _are_figures(rows, place)}
        yield _table(f"{title[:1].upper()}{title[1:]}", columns, rows, numbers=figures)


def _are_figures(rows: Sequence[Sequence[str]], place: int) -> bool:
    """Whether a column holds figures: short, and begun by a digit or a sign."""
    cells = [row[place] for row in rows]
    return all(len(one) <= SHORTEST and one[:1] in "0123456789+-–" for one in cells)


def _fidelity(fidelity: dict[str, Any], charts: Sequence[str]) -> Iterable[str]:
    yield f"<h2>Fidelity on events that no fit saw{SAW}</h2>"
    yield f"<p>{text(fidelity['words'])}</p>"
    if not fidelity["events"]:
        return
    words = [f"{name}: {said}" for name, said in fidelity["models"].items()]
    yield _items(words)
    yield f'<div class="charts">{"".join(charts)}</div>'
    level = fidelity["band_level"]
    rows = []
    for row in fidelity["events"]:
        inside = "no band" if row["inside"] is None else f"{100 * row['inside']:.0f} %"
        errors = [row["errors"][name] for name in (RELEASE, PUBLIC, SIMPLEST)]
        rows.append(
            (
                f"{row['place']} +{row['step_mw']:g} MW",
                f"{row['nadir_mhz']:.1f}",
                *(_signed(one["nadir_mhz"]) for one in errors),
                *(f"{one['rms_mhz']:.1f}" for one in errors),
                inside,
            )
        )
    columns = (
        "step of load",
        "nadir of the grid [mHz]",
        *(f"nadir error: {name} [mHz]" for name in COMPARED),
        *(f"r.m.s. error: {name} [mHz]" for name in COMPARED),
        "inside the band" + (f" (meant: {100 * level:.0f} %)" if level else ""),
    )
    title = "Nadir of the system’s frequency, and root mean square over machines and 30 s"
    yield _table(title, columns, rows, numbers=set(range(1, 9)))
    rows = []
    for row in fidelity["events"]:
        errors = [row["errors"][name] for name in (RELEASE, PUBLIC, SIMPLEST)]
        rows.append(
            (
                row["place"],
                f"{row['rocof_mhz_s']:.1f}",
                *(_signed(one["rocof_mhz_s"]) for one in errors),
                f"{row['settling_mhz']:.1f}",
                *(_signed(one["settling_mhz"]) for one in errors),
            )
        )
    columns = (
        "step of load",
        "RoCoF of the grid [mHz/s]",
        *(f"RoCoF error: {name} [mHz/s]" for name in COMPARED),
        "settling of the grid [mHz]",
        *(f"settling error: {name} [mHz]" for name in COMPARED),
    )
    title = "Rate of change over 0.5 s, and settling value"
    yield _table(title, columns, rows, numbers=set(range(1, 9)))
    yield from _modes(fidelity["modes"])


def _modes(modes: Sequence[dict[str, Any]]) -> Iterable[str]:
    if not modes:
        yield "<p>No oscillating mode is compared here.</p>"
        return
    rows = [
        (
            f"{row['hz']:.3f}",
            f"{row['damping_percent']:.1f}",
            *(
                "none" if pair is None else f"{_signed(pair[0], 0)} / {_signed(pair[1])}"
                for pair in (row["errors"][name] for name in (RELEASE, PUBLIC, SIMPLEST))
            ),
        )
        for row in modes
    ]
    errors = (f"errors: {name} [mHz / points]" for name in COMPARED)
    columns = ("frequency [Hz]", "damping [%]", *errors)
    title = "Modes of the grid; errors of frequency [mHz] / damping ratio [percentage points]"
    yield _table(title, columns, rows, numbers=set(range(5)))


# --- what is signed -------------------------------------------------------------------------------


def _clipped(groups: Sequence[dict[str, Any]]) -> Iterable[str]:
    yield f"<h2>Share clipped{OPEN}</h2>"
    rows = [
        (row["group"], str(row["values"]), str(row["clipped"]), _percent(row["clipped_percent"]))
        for row in groups
    ]
    columns = ("group", "values drawn", "on a public bound", "share")
    yield _table("Noisy values that lie on their public bounds", columns, rows, numbers={1, 2, 3})


def _files(leaves: dict[str, Any]) -> Iterable[str]:
    yield f"<h2>The files that leave{OPEN}</h2>"
    if leaves["archive_sha256"]:
        yield f"<p>All of them in one zip of SHA-256 <code>{leaves['archive_sha256']}</code>.</p>"
    rows = [(file["name"], str(file["bytes"]), _Code(file["sha256"])) for file in leaves["files"]]
    yield _table("Files", ("file", "bytes", "SHA-256"), rows, numbers={1})


def _signing(document: dict[str, Any]) -> Iterable[str]:
    yield '<section class="signing"><h2>Signed off by</h2>'
    selection = document["selection"]
    yield (f'<p class="warning">{text(selection["words"])} {text(selection["several_draws"])}</p>')
    yield '<div class="sign">'
    for number, who in ((1, "First"), (2, "Second")):
        yield (
            f"<fieldset><legend>{who} person</legend>"
            f'<label for="name{number}">Name</label><input id="name{number}" autocomplete="off">'
            f'<label for="date{number}">Date</label><input id="date{number}" autocomplete="off">'
            '<p>Signature</p><div class="ink"></div></fieldset>'
        )
    yield "</div></section>"


# --- parts ----------------------------------------------------------------------------------------


class _Code(str):
    """A cell of code."""

    __slots__ = ()


class _Graded(str):
    """A cell that says how good a point is."""

    __slots__ = ()


def _table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: set[int] | None = None,
    last: str = "",
) -> str:
    """A table under its title, in a frame that can be scrolled.

    numbers : columns of numbers. last : look of the last row.
    """
    right = numbers or set()
    short = all(len(row[0]) <= SHORTEST for row in rows)
    look = ' class="short"' if short else ""
    frame = "wide long" if len(rows) > FEW_ROWS else "wide"
    frame += " many" if len(columns) >= MANY_COLUMNS else ""

    def cell(place: int, words: str) -> str:
        label = f' data-label="{_typeset(columns[place])}"'
        if isinstance(words, _Graded):
            return f'<td{label}><span class="mark {words}">{GRADES[words]}</span></td>'
        inside = f"<code>{text(words)}</code>" if isinstance(words, _Code) else _typeset(words)
        return f"<td{_right(place in right)}{label}>{inside}</td>"

    head = "".join(
        f'<th scope="col"{_right(place in right)}>{_typeset(words)}</th>' if words else "<td></td>"
        for place, words in enumerate(columns)
    )
    lines = []
    for number, row in enumerate(rows):
        own = f' class="{last}"' if last and number == len(rows) - 1 else ""
        cells = "".join(cell(place, words) for place, words in enumerate(row))
        lines.append(f"<tr{own}>{cells}</tr>")
    return (
        f'<p class="over">{text(title)}</p>'
        f'<div class="{frame}" role="region" tabindex="0" aria-label="{text(title)}">'
        f'<table{look} aria-label="{text(title)}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _typeset(words: str) -> str:
    """Text of a cell, with true minus signs, and percent signs beside their numbers."""
    return text(MINUS.sub("−", words)).replace(" %", "&nbsp;%")


def _right(number: bool) -> str:
    return ' class="number"' if number else ""


def _items(words: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{text(one)}</li>' for one in words)}</ul>"


def _listed(title: str, words: Sequence[str]) -> list[str]:
    return [f"<h2>{text(title)}{OPEN}</h2>", _items(words)]


def _six(value: float) -> str:
    return f"{value:.6g}" if value > 1e-12 else "0"


def _signed(value: float, digits: int = 1) -> str:
    """A figure with its sign; none that rounds to 0 has a minus."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g} %"
