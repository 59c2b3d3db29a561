"""A TOML for a record's owner to edit: what was found in its files, and what is left to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gridveil.foundation.shown import shown
from gridveil.foundation.toml import toml_value
from gridveil.grid.facts import Array
from gridveil.inference.records.clock import NEIGHBOURS
from gridveil.inference.records.declared import EDIT
from gridveil.inference.records.look import Looked
from gridveil.inference.records.prepare import HOLES_SHOWN
from gridveil.inference.records.times import NUMBERS, origin_of, seconds_of

# What is kept around an event: primary response, before secondary control acts [s].
BEFORE_S, AFTER_S = 20.0, 40.0
CHANGES, APART_S = 4, 30.0


@dataclass(frozen=True)
class Change:
    """A fast change of the frequency: its row, its time in words, and its size [Hz]."""

    row: int
    time: str
    hz: float


def changes(found: Looked) -> tuple[list[Change], float]:
    """The largest changes within a second or two samples, in order of time; and that span [s]."""
    rows = np.flatnonzero(np.isfinite(found.hz))
    time_s, hz = found.time_s[rows], found.hz[rows]
    if len(rows) < 3:
        return [], 1.0
    span = max(1.0, 2 * interval_of(time_s))
    later = np.searchsorted(time_s, time_s + span - 1e-6).clip(max=len(time_s) - 1)
    size = np.where(time_s[later] - time_s <= 3 * span, hz[later] - hz, 0.0)
    chosen: list[int] = []
    for place in np.argsort(-np.abs(size), kind="stable"):
        if len(chosen) == CHANGES or abs(size[place]) < abs(size[chosen[0]] if chosen else 0) / 4:
            break
        if all(abs(time_s[place] - time_s[one]) > max(APART_S, 10 * span) for one in chosen):
            chosen.append(int(place))
    onsets = [_onset(time_s, hz, place, int(later[place]), span) for place in chosen]
    sizes = {onset: float(size[place]) for onset, place in zip(onsets, chosen, strict=True)}
    chosen = sorted(sizes)
    texts = found.time_texts([int(rows[place]) for place in chosen])
    return [
        Change(int(rows[place]), text, sizes[place])
        for place, text in zip(chosen, texts, strict=True)
    ], span


def _onset(time_s: Array, hz: Array, place: int, later: int, span: float) -> int:
    """The last sample before a change that is still what it was.

    place, later : samples between which it is largest.
    """
    quiet = hz[(time_s >= time_s[place] - 10 * span) & (time_s <= time_s[place] - 2 * span)]
    if len(quiet) < 3:
        return place
    level = float(np.median(quiet))
    noise = 5 * 1.4826 * float(np.median(np.abs(quiet - level)))
    near = np.abs(hz[: later + 1] - level) <= max(noise, 0.02 * abs(hz[later] - level))
    still = np.flatnonzero(near & (time_s[: later + 1] >= time_s[place] - 10 * span))
    return int(still[-1]) if len(still) else place


def interval_of(time_s: Array) -> float:
    """The usual distance of two samples [s]."""
    return float(np.median(np.diff(time_s)))


def skeleton(found: Sequence[Looked], names: Sequence[str]) -> str:
    """The TOML of some files of one event. names : of the files, as seen from where it lies."""
    first = found[0]
    several = len(found) > 1
    known = [one.nominal_hz for one in found if one.nominal_hz]
    lines = [
        f"# Written by gridveil record init. Fill in what says {EDIT}; check the rest, which is a",
        "# guess. Then look at it: gridveil inspect GRID --trajectory THIS.toml --plot record.png",
        "",
        *(line for one in found for line in _summary(one)),
        "",
        _line("nominal_hz", known[0] if known else 50.0, "the grid's own" if known else "a guess"),
    ]
    if not several:
        lines += _layout(first, names[0])
    lines += ["", *_event(first), "", *_windows(first)]
    for one, name in zip(found, names, strict=True):
        if several:
            lines += ["", "[[files]]", *_layout(one, name)]
        lines += [
            "",
            f"[{'files.' * several}locations]  # column = bus, as the grid's own file names it",
            *(f"{toml_value(column)} = {toml_value(EDIT)}" for column in one.file.locations),
        ]
        if one.other_columns:
            lines.append(f"# Columns left alone: {shown(', '.join(one.other_columns))[:500]}")
    return "\n".join([*lines, "", *_provenance()]) + "\n"


def _line(key: str, value: object, comment: str = "") -> str:
    return f"{key} = {toml_value(value)}" + (f"  # {comment}" if comment else "")


def _summary(one: Looked) -> list[str]:
    """What a file holds, as comments."""
    texts = one.time_texts([0, len(one.time_s) - 1])
    interval = interval_of(one.time_s)
    rate = f"{1 / interval:.4g} Hz" if interval < 1 else f"one in {interval:.4g} s"
    length = float(one.time_s[-1] - one.time_s[0])
    lines = [
        f"# {shown(one.file.path.name)}: {len(one.time_s)} rows, {length:.5g} s at {rate}, from "
        f"{shown(texts[0])} to {shown(texts[1])}",
    ]
    between = np.diff(one.time_s)
    gaps = np.flatnonzero(between > NEIGHBOURS * interval)
    if len(gaps):
        longest = sorted(sorted(gaps, key=lambda gap: -between[gap])[:HOLES_SHOWN])
        where = one.time_texts([int(gap) for gap in longest])
        named = ", ".join(
            f"{between[gap]:.3g} s from {shown(text)}"
            for gap, text in zip(longest, where, strict=True)
        )
        lines.append(f"#   rows are missing at {len(gaps)} places, the longest {named}")
    if len(one.far):
        (text,) = one.time_texts([int(one.far[0])])
        lines.append(
            f"#   {len(one.far)} rows, the first at {shown(text)}, hold no frequency of this grid: "
            "keep them outside of window, or name them in missing"
        )
    return lines


def _layout(one: Looked, name: str) -> list[str]:
    """Keys that say how a file is laid out."""
    file = one.file
    lines = [_line("record", name)]
    if not file.comtrade:
        column = file.time_column
        lines.append(_line("time_column", column[0] if len(column) == 1 else list(column)))
    lines.append(_line("time_format", file.time_format))
    if (other := _swapped(one)) is not None:
        lines.append(f"#   {other} reads these times as well")
    if file.time_format not in NUMBERS and _zoneless(one):
        lines.append('# zone = "+02:00"  # of these times, which do not say theirs, if it matters')
    lines += [_line("unit", file.unit), _line("values", file.values)]
    usual = {"delimiter": ",", "decimal": ".", "encoding": "utf-8", "header_line": 0}
    for key, default in (usual | {"data_line": 0}).items():
        if getattr(file, key) != default:
            lines.append(_line(key, getattr(file, key)))
    if file.missing:
        counted = _counted(one.sentinels)
        lines.append(_line("missing", list(file.missing), f"what stands for a gap: {counted}"))
    if file.quality_column is not None:
        lines += [
            _line("quality_column", file.quality_column, _counted(one.quality)),
            _line("quality_good", list(file.quality_good), "other rows are gaps"),
        ]
    return lines


def _swapped(one: Looked) -> str | None:
    """The format with day and month changed over, where that reads the file's times as well."""
    own = one.file.time_format
    if "%d" not in own or "%m" not in own:
        return None
    other = own.replace("%d", "%\0").replace("%m", "%d").replace("%\0", "%m")
    texts = one.time_texts([0, len(one.time_s) - 1])
    return other if all(seconds_of(text, other) for text in texts) else None


def _zoneless(one: Looked) -> bool:
    if one.file.comtrade:
        return True
    (text,) = one.time_texts([0])
    read = seconds_of(text, one.file.time_format)
    return read is not None and origin_of(one.file.time_format, read[1]) == "local"


def _counted(counts: Counter[str]) -> str:
    shown_few = ", ".join(f"{shown(text)!r} {count} times" for text, count in counts.most_common(5))
    return shown_few + (", …" if len(counts) > 5 else "")


def _event(one: Looked) -> list[str]:
    """The event: where the frequency changed most, and what is to be said of it."""
    largest, span = changes(one)
    lines = [
        "# The event: its time as the first file writes times, and what happened then.",
        *(
            f"#   {change.hz * 1000:+.4g} mHz within {span:.3g} s from {shown(change.time)}"
            for change in largest
        ),
    ]
    chosen = _chosen(one, largest)
    if chosen is None:
        lines.append(_line("event_time", EDIT))
    else:
        how = "when the recorder was triggered" if one.trigger else "the largest of these changes"
        (text,) = one.time_texts([chosen])
        number = one.file.time_format in NUMBERS
        value = float(text.replace(",", ".", 1)) if number else text
        lines.append(_line("event_time", value, f"{how}; correct it"))
    return [
        *lines,
        "# event_time_window = 2.0  # it came within ± this many seconds, and is estimated",
        _line("event", EDIT, '"load:BUS=+0.1" (p.u., or "+30MW"), "unknown:total=+30MW", or'),
        '#   "unknown" with event_size = "5:200MW"',
    ]


def _chosen(one: Looked, largest: Sequence[Change]) -> int | None:
    if one.trigger is not None:
        return one.trigger
    return max(largest, key=lambda change: abs(change.hz)).row if largest else None


def _windows(one: Looked) -> list[str]:
    """What of the record is used: enough around the event, and nothing that is no frequency."""
    row, interval = _chosen(one, changes(one)[0]), interval_of(one.time_s)
    before, after = max(BEFORE_S, 10 * interval), max(AFTER_S, 15 * interval)
    if row is not None:
        since = one.time_s - one.time_s[row]
        before = min(before, -float(since[0]))
        after = min(after, float(since[-1]))
        wrong = since[one.far]
        if len(wrong[wrong > 0]):
            after = min(after, float(wrong[wrong > 0].min()) - interval)
    before, after = round(before, 3), round(after, 3)
    lines = [
        "# What is used, in seconds from the event: later, secondary control and other events act,",
        "# which the model does not have.",
        _line("window", [-before, after]),
    ]
    last = min(1.0, before / 4)
    if before >= 4 * interval:
        lines.append(_line("offset_window", [-before, -round(last, 3)], "whose mean is taken away"))
    else:
        lines.append(_line("offset", "none", "too little lies before the event"))
    return [
        *lines,
        _line("detrend", "none", '"linear": the line through offset_window is taken away'),
        "# redistribute = true  # where its licence lets a bundle carry what is used of it",
        "# sigma = 0.005  # of a sample, sensor and model error together, in the record's unit",
    ]


def _provenance() -> list[str]:
    return [
        "[provenance]  # the record must be public already",
        _line("origin", "measured"),
        _line("source", EDIT, "who published it"),
        _line("date", EDIT, "the day it became public, such as 2026-05-24"),
        _line("link", EDIT, "https:// or doi: address where it can be read"),
        _line("event_source", EDIT, "who published the size and place of the event"),
    ]
