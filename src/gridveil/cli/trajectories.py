"""What the commands do with measured trajectories: show what was read, and what a fit found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gridveil.cli.output import print_table, print_text

if TYPE_CHECKING:
    from gridveil.grid.facts import TableFacts
    from gridveil.inference.fit import EstimatedEvent, Unknown
    from gridveil.inference.records import Location, Measured


def trajectory_json(record: Measured) -> dict[str, Any]:
    """What was read, in JSON's types."""
    from dataclasses import asdict, replace

    from gridveil.inference.records.prepare import longest

    return {
        "file": record.declared.file,
        "record": record.declared.record,
        "event": record.declared.event,
        "event_at_s": record.event_s,
        "event_to_estimate": _to_estimate(record.unknown),
        "sigma_pu": record.sigma,
        "nominal_hz": record.declared.nominal_hz,
        "interval_s": record.interval_s,
        "rate_hz": 1 / record.interval_s,
        "duration_s": record.duration_s,
        "values_on_step": record.on_step,
        "values_interpolated": record.interpolated,
        "values_left_out": record.left_out,
        "rows_repeated": record.repeated,
        "rows_flagged": record.flagged,
        "rows_outside_window": record.cut_away,
        "columns_unused": list(record.unused),
        "notes": list(record.notes),
        "origin": record.declared.provenance.origin,
        "provenance": record.declared.provenance.in_words(),
        "locations": [
            asdict(replace(place, holes=longest(place.holes))) | {"hole_count": len(place.holes)}
            for place in record.locations
        ],
    }


def print_trajectory(record: Measured) -> None:
    """Print what was read: a row for each location, then the record as a whole."""
    print_table(
        f"{record.declared.file}: {record.declared.event}",
        (
            "location",
            "bus",
            "samples",
            "gaps [%]",
            "used",
            "offset [mHz]",
            "peak deviation [mHz]",
            "after the event [s]",
        ),
        [
            (
                _place(record, place),
                place.bus,
                str(place.samples),
                f"{100 * place.gaps:.1f}",
                str(place.used),
                f"{1000 * place.offset_hz:+.2f}",
                f"{1000 * place.peak_hz:+.2f}",
                f"{place.peak_s:.2f}",
            )
            for place in record.locations
        ],
    )
    rate = (
        f"{1 / record.interval_s:.4g} Hz"
        if record.interval_s < 1
        else f"one in {record.interval_s:.4g} s"
    )
    lead = record.event_s - float(record.trajectory.time_s[0])
    when = f"the event {abs(lead):.4g} s {'before' if lead < 0 else 'after'} its start"
    more = [
        f"event to be estimated: {', '.join(_to_estimate(record.unknown))}"
    ] * record.unknown.anything
    more += (
        [f"σ of a sample {1000 * record.declared.nominal_hz * record.sigma:.4g} mHz"]
        if record.sigma
        else []
    )
    more += [f"{record.repeated} rows repeated"] * bool(record.repeated)
    more += [f"{record.flagged} rows flagged as bad"] * bool(record.flagged)
    more += [f"{record.cut_away} rows outside of the window"] * bool(record.cut_away)
    more += [f"columns not used: {', '.join(record.unused)}"] * bool(record.unused)
    print_text(
        f"{record.duration_s:.4g} s at {rate}, {when}. On the fit's clock: {record.on_step} values "
        f"as they are, {record.interpolated} interpolated to the nearest step, {record.left_out} "
        "left out; gaps stay gaps.",
        *[f"{'; '.join(more)}."] * bool(more),
        *_gaps_in_words(record),
        *(f"Note     {note}." for note in record.notes),
        f"Origin   {record.declared.provenance.origin}: {record.declared.provenance.in_words()}",
        "",
    )


def _place(record: Measured, place: Location) -> str:
    """A column, with its file where there are several."""
    return f"{place.file}: {place.column}" if len(record.declared.files) > 1 else place.column


def _gaps_in_words(record: Measured) -> list[str]:
    """Where each location has its longest gaps, and the trend that was taken away."""
    from gridveil.inference.records.prepare import longest

    lines = []
    for place in record.locations:
        if place.holes:
            shown = ", ".join(
                f"{hole.length_s:.3g} s from {hole.from_s:+.4g} s" for hole in longest(place.holes)
            )
            lines.append(
                f"Gaps     {_place(record, place)} (bus {place.bus}): {len(place.holes)}, the "
                f"longest {shown} after the event"
            )
        if place.trend_hz_per_s:
            lines.append(
                f"Trend    {_place(record, place)} (bus {place.bus}): "
                f"{60_000 * place.trend_hz_per_s:+.3g} mHz a minute, taken away"
            )
    return lines


def _to_estimate(unknown: Unknown) -> list[str]:
    """What the fit is to find out about an event, in words."""
    size = unknown.size and f"size within {unknown.size[0]:g} to {unknown.size[1]:g} p.u."
    time = f"time within ± {unknown.window_s:g} s" if unknown.window_s else None
    return [part for part in (size, "place" if unknown.split else None, time) if part]


def event_json(
    event: EstimatedEvent, measured: Sequence[Measured], facts: TableFacts
) -> dict[str, Any]:
    """What the fit found out about an event; times on the record's own clock, in seconds after
    event_time.
    """
    document: dict[str, Any] = {"file": measured[event.observation].declared.file}
    if (
        event.total is not None
        and event.total_sd is not None
        and event.split is not None
        and event.split_sd is not None
    ):
        document |= {
            "size_pu": event.total,
            "size_sd_pu": event.total_sd,
            "size_mw": event.total * facts.base_mva,
            "size_sd_mw": event.total_sd * facts.base_mva,
            "split_pu": event.split.tolist(),
            "split_sd_pu": event.split_sd.tolist(),
        }
    return document | {"time_s": _after(event, measured), "time_sd_s": event.time_sd}


def events_in_words(
    events: Sequence[EstimatedEvent], measured: Sequence[Measured], facts: TableFacts
) -> list[str]:
    """The same, a line an event."""
    lines = []
    for event in events:
        text = f"Event    {measured[event.observation].declared.file}: "
        if (
            event.total is not None
            and event.total_sd is not None
            and event.split is not None
            and event.split_sd is not None
        ):
            mw = facts.base_mva
            text += f"{event.total:+.4g} ± {event.total_sd:.2g} p.u. of load "
            text += f"({mw * event.total:+.4g} ± {mw * event.total_sd:.2g} MW), "
            felt = ", ".join(
                f"G{number} {share:+.3g} ± {sd:.2g}"
                for number, (share, sd) in enumerate(
                    zip(event.split, event.split_sd, strict=True), start=1
                )
            )
            text += f"felt by the machines as {felt} p.u., " if len(event.split) <= 10 else ""
        late = f" ± {event.time_sd:.2g}" if event.time_sd else ""
        lines.append(
            f"{text}{_after(event, measured):.5g}{late} s after event_time; estimated from public "
            "data and the release"
        )
    return lines


def _after(event: EstimatedEvent, measured: Sequence[Measured]) -> float:
    """When the event came, in seconds after what is declared as event_time."""
    record = measured[event.observation]
    return event.time_s - record.event_s + record.declared_s
