"""What the commands do with measured trajectories: show what was read, and what a fit found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gridveil.cli.output import print_table, print_text

if TYPE_CHECKING:
    from gridveil.grid.facts import GridFacts
    from gridveil.inference.fit import EstimatedEvent, Unknown
    from gridveil.inference.records import Measured


def trajectory_json(one: Measured) -> dict[str, Any]:
    """What was read, in JSON's types."""
    from dataclasses import asdict

    return {
        "file": one.declared.file,
        "record": one.declared.record.name,
        "event": one.declared.event,
        "event_at_s": one.event_s,
        "event_to_estimate": _to_estimate(one.unknown),
        "sigma_pu": one.sigma,
        "nominal_hz": one.declared.nominal_hz,
        "interval_s": one.interval_s,
        "rate_hz": 1 / one.interval_s,
        "duration_s": one.duration_s,
        "values_on_step": one.on_step,
        "values_interpolated": one.interpolated,
        "values_left_out": one.left_out,
        "rows_repeated": one.repeated,
        "columns_unused": list(one.unused),
        "origin": one.declared.provenance.origin,
        "provenance": one.declared.provenance.in_words(),
        "locations": [asdict(location) for location in one.locations],
    }


def print_trajectory(one: Measured) -> None:
    """Print what was read: a row for each location, then the record as a whole."""
    print_table(
        f"{one.declared.file}: {one.declared.event}",
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
                place.column,
                place.bus,
                str(place.samples),
                f"{100 * place.gaps:.1f}",
                str(place.used),
                f"{1000 * place.offset_hz:+.2f}",
                f"{1000 * place.peak_hz:+.2f}",
                f"{place.peak_s:.2f}",
            )
            for place in one.locations
        ],
    )
    rate = (
        f"{1 / one.interval_s:.4g} Hz" if one.interval_s < 1 else f"one in {one.interval_s:.4g} s"
    )
    lead = one.event_s - float(one.trajectory.time_s[0])
    when = f"the event {abs(lead):.4g} s {'before' if lead < 0 else 'after'} its start"
    more = [f"event to be estimated: {', '.join(_to_estimate(one.unknown))}"] * one.unknown.anything
    more += (
        [f"σ of a sample {1000 * one.declared.nominal_hz * one.sigma:.4g} mHz"] if one.sigma else []
    )
    more += [f"{one.repeated} rows repeated"] * bool(one.repeated)
    more += [f"columns not used: {', '.join(one.unused)}"] * bool(one.unused)
    print_text(
        f"{one.duration_s:.4g} s at {rate}, {when}. On the fit's clock: {one.on_step} values as "
        f"they are, {one.interpolated} interpolated to the nearest step, {one.left_out} left out; "
        "gaps stay gaps.",
        *[f"{'; '.join(more)}."] * bool(more),
        f"Origin   {one.declared.provenance.origin}: {one.declared.provenance.in_words()}",
        "",
    )


def _to_estimate(unknown: Unknown) -> list[str]:
    """What the fit is to find out about an event, in words."""
    size = unknown.size and f"size within {unknown.size[0]:g} to {unknown.size[1]:g} p.u."
    time = f"time within ± {unknown.window_s:g} s" if unknown.window_s else None
    return [part for part in (size, "place" if unknown.split else None, time) if part]


def event_json(
    event: EstimatedEvent, measured: Sequence[Measured], facts: GridFacts
) -> dict[str, Any]:
    """What the fit found out about an event; times on the record's own clock, in seconds after
    event_time.
    """
    found: dict[str, Any] = {"file": measured[event.observation].declared.file}
    if (
        event.total is not None
        and event.total_sd is not None
        and event.split is not None
        and event.split_sd is not None
    ):
        found |= {
            "size_pu": event.total,
            "size_sd_pu": event.total_sd,
            "size_mw": event.total * facts.base_mva,
            "size_sd_mw": event.total_sd * facts.base_mva,
            "split_pu": event.split.tolist(),
            "split_sd_pu": event.split_sd.tolist(),
        }
    return found | {"time_s": _after(event, measured), "time_sd_s": event.time_sd}


def events_in_words(
    events: Sequence[EstimatedEvent], measured: Sequence[Measured], facts: GridFacts
) -> list[str]:
    """The same, a line an event."""
    found = []
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
        found.append(
            f"{text}{_after(event, measured):.5g}{late} s after event_time; estimated from public "
            "data and the release"
        )
    return found


def _after(event: EstimatedEvent, measured: Sequence[Measured]) -> float:
    """When the event came, in seconds after what is declared as event_time."""
    one = measured[event.observation]
    return event.time_s - one.event_s + one.declared_s
