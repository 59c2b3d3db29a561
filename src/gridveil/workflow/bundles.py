"""What a recipient does with a bundle: simulate and export. (`publication.bundle.verify` checks
it.) No source, no vault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridveil.dynamics.events import Event
from gridveil.dynamics.metrics import FirstSwing, Metrics, Validity, first_swing, inertia_of, read
from gridveil.dynamics.simulate import Mode
from gridveil.dynamics.trajectory import BusResponse, Trajectory
from gridveil.foundation.archive import check_free, write_files
from gridveil.publication.bundle import load
from gridveil.publication.export import export, format_named
from gridveil.publication.release import Release
from gridveil.workflow.places import check_figure, check_place, writing


@dataclass(frozen=True, eq=False)
class Simulated:
    """What an event does to a release: at the buses asked for, and to the system.

    system : figures of the inertia-weighted frequency.
    first_swing : the slope where the event is; None: it names no place.
    validity : how far the machines go, and how far linear models were shown to hold.
    """

    release: Release
    trajectory: Trajectory
    system: Metrics
    responses: Sequence[BusResponse]
    modes: Sequence[Mode]
    first_swing: FirstSwing | None
    validity: Validity


def simulate_bundle(
    bundle: Path,
    event: str,
    *,
    horizon_s: float = 30.0,
    dt_s: float = 0.01,
    scheme: str | None = None,
    buses: Sequence[str] | None = None,
    plot: Path | None = None,
    csv: Path | None = None,
) -> Simulated:
    """Simulate an event on a bundle; draw the figure and write the samples that were asked for.

    event : in words, such as "load:G1=+0.1; uniform:+5%@10s".
    buses : to show; None: all machines.
    csv : for samples [s, p.u.].
    """
    release = load(bundle)
    if plot:
        check_figure(plot)
    if csv:
        check_place(csv, "--csv")
    happening = Event.parse(event, base_mva=release.model.base_mva)
    clock: dict[str, Any] = {"horizon_s": horizon_s, "dt_s": dt_s, "scheme": scheme}
    trajectory = release.simulate(happening, **clock, buses=buses)
    whole = release.simulate(happening, **clock) if buses else trajectory
    system = read(whole, release.model, happening)
    if plot:
        with writing(plot, "--plot") as place:
            weights = None if buses else inertia_of(release.model, happening)
            trajectory.plot(str(place), weights=weights)
    if csv:
        with writing(csv, "--csv") as place:
            place.write_text(trajectory.to_csv(), encoding="utf-8")
    return Simulated(
        release,
        trajectory,
        system,
        trajectory.responses(),
        release.modes(),
        first_swing(release.model, happening, **clock),
        Validity.of(whole),
    )


@dataclass(frozen=True)
class Exported:
    """Files of another tool's format.

    demo : whether the release is one.
    runs : the line that runs them.
    """

    demo: bool
    place: Path
    files: Mapping[str, bytes]
    runs: str


def export_bundle(
    bundle: Path, to: str, event: str | None = None, out: Path | None = None
) -> Exported:
    """Write a release for another tool.

    event : what to write along; None: the bundle's reference event.
    out : a folder, or a file that ends in .zip; None: BUNDLE-FORMAT.
    """
    chosen = format_named(to)
    release = load(bundle)
    place = out or Path(f"{bundle.absolute().stem}-{to}")
    check_free(place)
    files = export(release, to, event)
    write_files(place, files, what="The export", outcome="No file was left there.")
    return Exported(release.demo, place, files, chosen.runs)
