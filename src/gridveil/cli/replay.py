"""What commands show of the records that a release was fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gridveil.cli.output import print_json, print_notice, print_table, print_text
from gridveil.foundation.errors import NOTHING_SPENT, OptionError

if TYPE_CHECKING:
    from gridveil.publication.release import Release
    from gridveil.workflow.bundles import ReplayedPlace
    from gridveil.workflow.settings import GridSettings


def print_replay(bundle: Path, plot: Path | None, csv: Path | None, as_json: bool) -> None:
    """Replay a bundle's records, and print how near the model is to them."""
    from gridveil.publication.replay import released_words
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
    print_places(places, released_words(release))
    for path, words in ((plot, "Figure"), (csv, "Samples")):
        if path:
            print_text(f"{words:<9}{path}")


def check_plot(plot: Path | None, settings: GridSettings) -> None:
    """Refuse a figure of records that cannot be drawn, before anything is drawn or spent."""
    if plot is None:
        return
    from gridveil.workflow.places import check_figure

    if not settings.trajectory:
        raise OptionError(
            "--plot has nothing to draw.",
            expected="--trajectory FILE.toml beside it",
            outcome=NOTHING_SPENT,
        )
    check_figure(plot)


def draw_records(release: Release, plot: Path | None) -> None:
    """Draw the records of a release, measured, unfitted and fitted; say so where it keeps none."""
    if plot is None:
        return
    from gridveil.publication.replay_drawing import plot_replays
    from gridveil.workflow.places import writing

    if not release.replays:
        print_notice("this release keeps no record, so that there is no figure.")
        return
    with writing(plot, "--plot") as place:
        plot_replays(release, str(place))
    print_notice(f"figure of the records: {plot}")


def print_places(places: Sequence[ReplayedPlace], released: str) -> None:
    """Print what was measured at each place, and what the model gives before and after its fit.

    released : what its answer is called.
    """
    print_table(
        "largest deviation, and root mean square of what each model leaves of the record",
        (
            "record",
            "bus",
            "samples",
            "measured [mHz]",
            "unfitted [mHz]",
            f"{released} [mHz]",
            "unfitted leaves [mHz]",
            f"{released} leaves [mHz]",
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
