"""What a recipient does with a bundle: simulate and export. (`publication.bundle.verify` checks
it.) No source, no vault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.dynamics.detailed.model import DetailedModel
from gridveil.dynamics.ensemble import SystemBand, system_band
from gridveil.dynamics.events import Event
from gridveil.dynamics.metrics import FirstSwing, Metrics, Validity, first_swing, inertia_of, read
from gridveil.dynamics.simulate import Clock, Mode
from gridveil.dynamics.trajectory import BusResponse, Trajectory
from gridveil.foundation.archive import check_free, write_files
from gridveil.foundation.errors import OptionError
from gridveil.grid.facts import Array
from gridveil.publication.bundle import load
from gridveil.publication.export import export, format_named
from gridveil.publication.export.common import NOT_WRITTEN
from gridveil.publication.release import Release
from gridveil.publication.replay import fitted_answer, rms_mhz
from gridveil.publication.replay_drawing import check_replays, plot_replays
from gridveil.publication.replay_files import SAMPLES, replay_files
from gridveil.workflow.places import check_figure, check_place, writing


@dataclass(frozen=True, eq=False)
class Simulated:
    """What an event does to a release: at the buses asked for, and to the system.

    system : figures of the inertia-weighted frequency.
    system_band : their bands [p.u.], where the release has an ensemble.
    first_swing : the slope where the event is; None: it names no place.
    validity : how far the machines go, and how far linear models were shown to hold.
    """

    release: Release
    trajectory: Trajectory
    system: Metrics
    responses: Sequence[BusResponse]
    modes: Sequence[Mode]
    system_band: SystemBand | None
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
            place.write_bytes(trajectory.to_csv().encode())
    band = release.ensemble and system_band(
        whole, release.ensemble, release.model, happening, Clock(horizon_s, dt_s)
    )
    return Simulated(
        release,
        trajectory,
        system,
        trajectory.responses(),
        release.modes(),
        band,
        first_swing(release.model, happening, **clock),
        Validity.of(whole),
    )


@dataclass(frozen=True)
class ReplayedPlace:
    """What was measured at one place, and what a release gives there.

    measured_hz, fitted_hz, unfitted_hz : largest deviation, with its sign; None: the bundle does
    not hold it.
    rms_unfitted_mhz, rms_fitted_mhz : root mean square of what each model leaves.
    """

    record: int
    bus: str
    event: str
    estimated: str
    samples: int
    measured_hz: float | None
    unfitted_hz: float
    fitted_hz: float
    rms_unfitted_mhz: float
    rms_fitted_mhz: float


def replay_bundle(
    bundle: Path, plot: Path | None = None, csv: Path | None = None
) -> tuple[Release, list[ReplayedPlace]]:
    """Run the events of the records that a bundle was fitted to; draw measured, unfitted, fitted
    and band, and write the samples where asked.
    """
    release = load(bundle)
    check_replays(release, str(bundle))
    if plot:
        check_figure(plot)
    if csv:
        check_place(csv, "--csv")
    places = replayed(release)
    if plot:
        with writing(plot, "--plot") as place:
            plot_replays(release, str(place))
    if csv:
        with writing(csv, "--csv") as place:
            place.write_bytes(replay_files(release)[SAMPLES])
    return release, places


def replayed(release: Release) -> list[ReplayedPlace]:
    """What a release gives of the records that it was fitted to, place by place."""
    found = []
    for one in release.replays:
        fitted = fitted_answer(release, one)
        left = rms_mhz(one, fitted, release.model.frequency_hz)
        for place, bus in enumerate(one.buses):
            seen = one.measured[:, place] if one.measured is not None else None
            found.append(
                ReplayedPlace(
                    one.record,
                    bus,
                    one.event,
                    one.estimated,
                    one.samples[place],
                    None if seen is None else _largest(seen, release),
                    _largest(one.unfitted[:, place], release),
                    _largest(fitted[:, place], release),
                    *map(float, left[place]),
                )
            )
    return found


def _largest(omega: Array, release: Release) -> float:
    """The largest deviation, with its sign [Hz]."""
    seen = omega[np.isfinite(omega)]
    return float(seen[np.abs(seen).argmax()]) * release.model.frequency_hz


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
    bundle: Path,
    to: str,
    event: str | None = None,
    out: Path | None = None,
    *,
    compiled: bool = False,
) -> Exported:
    """Write a release for another tool.

    event : what to write along; None: the bundle's reference event.
    out : a folder, or a file that ends in .zip; None: BUNDLE-FORMAT.
    compiled : build the binary of this platform into it (fmu).
    """
    chosen = format_named(to)
    if compiled and chosen.build is None:
        raise OptionError(
            f"The format {to} has nothing to compile.",
            expected="--compile with --to fmu alone",
            outcome=NOT_WRITTEN,
        )
    release = load(bundle)
    place = out or Path(f"{bundle.absolute().stem}-{to}")
    check_free(place)
    files = export(release, to, event)
    if compiled and chosen.build is not None:
        files = {name: chosen.build(content) for name, content in files.items()}
    write_files(place, files, what="The export", outcome="No file was left there.")
    line = chosen.line(detailed=isinstance(release.model, DetailedModel))
    return Exported(release.demo, place, files, chosen.runs_built if compiled else line)
