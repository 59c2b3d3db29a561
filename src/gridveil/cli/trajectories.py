"""What the commands do with measured trajectories: read and check them, and show what was read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gridveil.cli.output import print_table, print_text

if TYPE_CHECKING:
    from gridveil.grid import GridFacts
    from gridveil.groups import Bounds
    from gridveil.measured import Declaration, Measured


def read_all(
    declared: Sequence[Declaration], facts: GridFacts, dt_s: float | None = None, bounds: Bounds | None = None
) -> list[Measured]:
    """Read declared trajectories onto the fit's clock; refuse what does not fit the grid and, given bounds, its event."""
    if not declared:
        return []
    from gridveil.fit import FitSettings
    from gridveil.measured import check_size, measure

    found = [measure(one, facts, dt_s=dt_s or FitSettings().dt_s) for one in declared]
    if bounds is not None:
        for one in found:
            check_size(one, facts, bounds)
    return found


def trajectory_json(one: Measured) -> dict[str, Any]:
    """What was read, in JSON's types."""
    from dataclasses import asdict

    return {
        "file": one.declared.file,
        "record": one.declared.record.name,
        "event": one.declared.event,
        "event_at_s": one.event_s,
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
        ("location", "bus", "samples", "gaps [%]", "used", "offset [mHz]", "peak deviation [mHz]", "after the event [s]"),
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
    rate = f"{1 / one.interval_s:.4g} Hz" if one.interval_s < 1 else f"one in {one.interval_s:.4g} s"
    lead = one.event_s - float(one.trajectory.time_s[0])
    when = f"the event {abs(lead):.4g} s {'before' if lead < 0 else 'after'} its start"
    more = [f"{one.repeated} rows repeated"] * bool(one.repeated)
    more += [f"columns not used: {', '.join(one.unused)}"] * bool(one.unused)
    print_text(
        f"{one.duration_s:.4g} s at {rate}, {when}. On the fit's clock: {one.on_step} values as they are, "
        f"{one.interpolated} interpolated to the nearest step, {one.left_out} left out; gaps stay gaps.\n"
        + (f"{'; '.join(more)}.\n" if more else "")
        + f"Origin   {one.declared.provenance.origin}: {one.declared.provenance.in_words()}\n"
    )
