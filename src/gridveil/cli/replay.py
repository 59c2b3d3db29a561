"""What commands show of the records that a release was fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gridveil.cli.output import print_json, print_table, print_text

if TYPE_CHECKING:
    from gridveil.workflow.bundles import ReplayedPlace


def print_replay(bundle: Path, plot: Path | None, csv: Path | None, as_json: bool) -> None:
    """Replay a bundle's records, and print how near the model is to them."""
    from gridveil.workflow.bundles import replay_bundle

    release, places = replay_bundle(bundle, plot, csv)
    if as_json:
        print_json(
            {
                "demo": release.demo,
                "places": [asdict(place) for place in places],
                "plot": str(plot) if plot else None,
                "csv": str(csv) if csv else None,
            }
        )
        return
    print_places(places)
    for path, words in ((plot, "Figure"), (csv, "Samples")):
        if path:
            print_text(f"{words:<9}{path}")


def print_places(places: Sequence[ReplayedPlace]) -> None:
    """Print what was measured at each place, and what the model gives before and after its fit."""
    print_table(
        "largest deviation, and root mean square of what each model leaves of the record",
        (
            "record",
            "bus",
            "samples",
            "measured [mHz]",
            "unfitted [mHz]",
            "fitted [mHz]",
            "unfitted leaves [mHz]",
            "fitted leaves [mHz]",
        ),
        [
            (
                str(place.record),
                place.bus,
                str(place.samples),
                "not in the bundle"
                if place.measured_hz is None
                else f"{1000 * place.measured_hz:+.1f}",
                f"{1000 * place.unfitted_hz:+.1f}",
                f"{1000 * place.fitted_hz:+.1f}",
                f"{place.rms_unfitted_mhz:.2f}",
                f"{place.rms_fitted_mhz:.2f}",
            )
            for place in places
        ],
        texts=2,
    )
    for record, (event, estimated) in {
        place.record: (place.event, place.estimated) for place in places
    }.items():
        print_text(
            f"Event    record {record}: {event[:300]}{'…' * (len(event) > 300)}"
            + (f" ({estimated})" if estimated else "")
        )
